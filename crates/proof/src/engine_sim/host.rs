//! The host that an engine is given: orders on their way to simulated keepers, reports on their way back, and files.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use lastword_core::effects::Effect;
use lastword_core::report::{Found, Report};
use lastword_core::{AttemptNo, BootTime, InputNo, JobId, Now, OwnerId};
use lastword_engine::Env;
use lastword_engine::host::{BoxFuture, Clock, JobFiles, JobWorktrees, Keepers, Order, Reports};
use lastword_store::Attempts;
use tokio::sync::{Notify, oneshot};

use super::fault::Fault;
use super::journal::pause;
use super::world::{Doing, LaunchOrder, Launched, Process, World};
use crate::world::place::Key;

/// How long a report takes at least that is late.
const LATE_MS: u64 = 100;

/// A host, as its engine reaches it.
pub(super) struct Simulated(pub(super) Process);

/// How an order fares.
enum Way {
    /// It takes so long there. Then it is done or not, and its sender is told or left in doubt; what is reported takes so long, and may
    /// come twice.
    Open { there_ms: u64, done: bool, doubt: bool, back_ms: u64, twice: bool },
    /// Its sender dies, and it is done or not.
    Kills(bool),
}

/// An order that was sent. What is sent is on its way at once.
enum Sent {
    /// It is done, and this is to be reported.
    Done(Option<Box<Report>>),
    /// A launch, whose answer comes later.
    Launch(AttemptNo, oneshot::Receiver<Launched>),
}

/// What a watch sees of its tree.
enum Seen {
    /// It goes on.
    Alive,
    /// The line is cut, or its shim is gone and its guard is at work.
    Cut,
    /// It is over: this is to be reported.
    Over(Box<Report>),
}

impl World {
    /// An engine calls the journal or a keeper; reports whether it dies of that.
    pub(super) fn acts(&mut self, host: usize) -> bool {
        let life = &mut self.lives[host];
        life.deeds += 1;
        life.dies_at == Some(life.deeds) && self.calm_since.is_none()
    }

    fn set_out(&mut self, host: usize, order: &Order) -> Way {
        let job = order.job.id;
        self.note(0x0de2 + kind(&order.effect));
        self.step();
        self.say(|world| format!("h{host} wants {:?} for {}", order.effect, world.name(job)));
        self.check_order(order);
        if self.acts(host) {
            self.struck(Fault::KilledInEffect, Some(job));
            return Way::Kills(self.random.chance(50));
        }
        let there_ms = self.random.below(12);
        let (mut done, mut doubt, mut back_ms, mut twice) = (true, false, self.random.below(6), false);
        if self.unlucky(4) {
            self.struck(Fault::EffectUnclear, Some(job));
            (done, doubt) = (self.random.chance(50), true);
        } else if self.unlucky(4) {
            back_ms = LATE_MS + self.random.below(2_000);
        } else if self.unlucky(4) {
            twice = true;
        }
        Way::Open { there_ms, done, doubt, back_ms, twice }
    }

    /// A launch reaches the nursery.
    pub(super) fn launch_arrives(&mut self, order: LaunchOrder, answer: oneshot::Sender<Launched>) {
        if order.boot == self.hosts[order.host].boot {
            let launched = self.launch(&order);
            // The engine that asked may be dead.
            let _ = answer.send(launched);
        }
    }

    /// Carries out an order, or sends it to the nursery.
    fn carry_out(&mut self, host: usize, order: &Order, ms: u64) -> Sent {
        let job = order.job.id;
        match order.effect {
            Effect::Launch { attempt } => {
                let (answer, answered) = oneshot::channel();
                let (epoch, boot) = (order.epoch, self.hosts[host].boot);
                let order = LaunchOrder { job: order.job.clone(), epoch, attempt, host, boot };
                self.after(ms, Doing::Launch(Box::new(order), answer));
                Sent::Launch(attempt, answered)
            }
            Effect::Locate { attempt } => {
                let key = Key { job, attempt, host };
                let found = self.locate(&order.job, key);
                if let Found::Alive { .. } = found {
                    self.obeys(key, order.epoch);
                    self.line_up(key);
                }
                Sent::Done(Some(Box::new(Report::Located { attempt, found })))
            }
            _ => {
                self.speak(host, order);
                Sent::Done(None)
            }
        }
    }

    /// A shim is told of a stop that the journal cannot store. Reports whether there is one to hold it.
    fn holds(&mut self, host: usize, order: &Order) -> bool {
        let Effect::Stop { attempt, .. } = order.effect else { return false };
        let is_there = self.kept(Key { job: order.job.id, attempt, host }).is_some();
        self.speak(host, order);
        is_there
    }

    fn line_up(&mut self, key: Key) {
        self.lives[key.host].lines.insert(key.job, (key, true));
    }

    /// Does what an order asks of a shim. A shim that is gone, or obeys a newer owner, does nothing.
    fn speak(&mut self, host: usize, order: &Order) {
        let attempt = match &order.effect {
            Effect::Stop { attempt, .. }
            | Effect::Deadline { attempt, .. }
            | Effect::Tell { attempt, .. }
            | Effect::Interrupt { attempt, .. }
            | Effect::Hold { attempt, .. }
            | Effect::Close { attempt } => *attempt,
            Effect::Launch { .. } | Effect::Locate { .. } | Effect::Watch { .. } => return,
        };
        let key = Key { job: order.job.id, attempt, host };
        if !self.obeys(key, order.epoch) {
            return;
        }
        match &order.effect {
            Effect::Stop { cause, force, .. } => self.stop(key, *cause, *force, order.local),
            Effect::Deadline { at, .. } => self.set_deadline(key, *at),
            // With all before it that are not delivered, as the keepers of real processes are told.
            Effect::Tell { input: upto, .. } => {
                for input in order.job.inputs.iter().filter(|input| input.no <= *upto) {
                    self.input(key, input.no, &input.text, input.eof);
                }
            }
            _ => {}
        }
    }

    /// Looks at a tree for a watch that has already reported `rungs` rungs and the inputs up to `told`.
    fn see(&mut self, order: &Order, key: Key, rungs: &mut usize, told: &mut u32) -> (Vec<Report>, Seen) {
        let attempt = key.attempt;
        let mut said = Vec::new();
        if let Some(tree) = self.places.get(&key).and_then(|place| place.tree.as_ref()) {
            for rung in &tree.rungs[*rungs..] {
                said.push(Report::Climbed { attempt, rung: *rung, alive: 1 });
            }
            (*rungs, *told) = (tree.rungs.len(), {
                let taken = tree.leader.taken;
                said.extend((*told + 1..=taken).map(|no| Report::Told { input: InputNo(no) }));
                taken.max(*told)
            });
            let cut = self.lives[key.host].lines.get(&key.job).is_some_and(|(_, connected)| !connected);
            if tree.shim {
                return (said, if cut { Seen::Cut } else { Seen::Alive });
            }
        }
        let seen = match self.locate(&order.job, key) {
            Found::Alive { .. } => Seen::Cut,
            Found::Ended(receipt) => Seen::Over(Box::new(Report::Emptied { attempt, receipt })),
            found => Seen::Over(Box::new(Report::Located { attempt, found })),
        };
        (said, seen)
    }

    /// Returns what wakes the watches of a place.
    fn news_of(&mut self, key: Key) -> Arc<Notify> {
        Arc::clone(self.watches.entry(key).or_default())
    }

    /// Decides what becomes of something that is to be kept on disk.
    fn disk(&mut self, job: Option<JobId>) -> io::Result<()> {
        self.note(0xd15c);
        self.step();
        if self.unlucky(3) {
            self.struck(Fault::DiskFull, job);
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        Ok(())
    }
}

fn kind(effect: &Effect) -> u64 {
    match effect {
        Effect::Launch { .. } => 1,
        Effect::Locate { .. } => 2,
        Effect::Watch { .. } => 3,
        Effect::Stop { .. } => 4,
        Effect::Deadline { .. } => 5,
        Effect::Tell { .. } => 6,
        Effect::Interrupt { .. } => 7,
        Effect::Close { .. } => 8,
        Effect::Hold { .. } => 9,
    }
}

impl Process {
    fn key(&self, job: JobId, attempt: AttemptNo) -> Key {
        Key { job, attempt, host: self.host }
    }

    async fn perform(self, order: Order, reports: Reports) -> Result<(), String> {
        match self.act(|world| world.set_out(self.host, &order)).await {
            Way::Kills(done) => self.die_in(&order, done).await,
            Way::Open { there_ms, done, doubt, back_ms, twice } => {
                if let Effect::Watch { attempt } = order.effect {
                    let key = self.key(order.job.id, attempt);
                    return self.watch(&order, key, (doubt, back_ms, twice), &reports).await;
                }
                pause(there_ms).await;
                let answer = match done {
                    true => self.carry_out(&order, there_ms).await,
                    false => None,
                };
                if doubt {
                    return self.act(|_| Err("simulated".to_owned())).await;
                }
                if let Some(report) = answer {
                    self.report(order.job.id, report, back_ms, twice, &reports).await;
                }
                Ok(())
            }
        }
    }

    /// The engine dies in an effect, after it took place or before.
    async fn die_in<T>(&self, order: &Order, done: bool) -> T {
        let sent = self.act(|world| {
            let sent = done.then(|| world.carry_out(self.host, order, 0));
            world.engine_dies(self.host);
            drop(sent);
        });
        sent.await;
        std::future::pending().await
    }

    /// Has a shim note a stop that the journal cannot store. It is told, or it is not: an answer that gets lost leaves that open.
    async fn hold_stop(self, order: Order) -> Result<bool, String> {
        match self.act(|world| world.set_out(self.host, &order)).await {
            Way::Kills(done) => self.die_in(&order, done).await,
            Way::Open { there_ms, done, doubt, .. } => {
                pause(there_ms).await;
                let is_told = done && self.act(|world| world.holds(self.host, &order)).await;
                match doubt || !is_told {
                    true => Err("simulated".to_owned()),
                    false => Ok(true),
                }
            }
        }
    }

    /// Reports something after a while, and perhaps once more. That it comes late, or twice, strikes when it comes.
    async fn report(&self, job: JobId, report: Report, ms: u64, twice: bool, reports: &Reports) {
        pause(ms).await;
        if ms >= LATE_MS {
            self.act(|world| world.struck(Fault::ReportLate, Some(job))).await;
        }
        reports.report(report.clone()).await;
        if twice {
            pause(ms * 20).await;
            self.act(|world| world.struck(Fault::ReportTwice, Some(job))).await;
            reports.report(report).await;
        }
    }

    /// Carries out an order, and returns what is to be reported.
    async fn carry_out(&self, order: &Order, ms: u64) -> Option<Report> {
        let (attempt, answered) = match self.act(|world| world.carry_out(self.host, order, ms)).await {
            Sent::Done(report) => return report.map(|report| *report),
            Sent::Launch(attempt, answered) => (attempt, answered),
        };
        let key = self.key(order.job.id, attempt);
        Some(match answered.await.ok()? {
            Launched::Tree(tree, awake) => {
                self.act(|world| world.line_up(key)).await;
                Report::Launched { attempt, tree, awake }
            }
            Launched::Failed(error) => Report::LaunchFailed { attempt, error, launch_error: None },
            Launched::Found(found) => Report::Located { attempt, found },
        })
    }

    /// Follows a tree to its end, and reports how it came to it.
    async fn watch(
        &self,
        order: &Order,
        key: Key,
        (doubt, back_ms, twice): (bool, u64, bool),
        reports: &Reports,
    ) -> Result<(), String> {
        let (mut rungs, mut told) = (0, 0);
        self.act(|world| world.line_up(key)).await;
        reports.is_there();
        loop {
            let news = self.act(|world| world.news_of(key)).await;
            let changed = news.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let (said, seen) = self.act(|world| world.see(order, key, &mut rungs, &mut told)).await;
            for report in said {
                reports.report(report).await;
            }
            match seen {
                Seen::Alive => changed.await,
                Seen::Cut if doubt => return Err("simulated".to_owned()),
                Seen::Cut => {
                    pause(5).await;
                    self.act(|world| world.line_up(key)).await;
                    reports.is_there();
                }
                Seen::Over(report) => {
                    self.report(key.job, *report, back_ms, twice, reports).await;
                    self.act(|world| world.lives[key.host].lines.remove(&key.job)).await;
                    return Ok(());
                }
            }
        }
    }
}

impl Clock for Simulated {
    fn now(&self) -> Now {
        self.0.sim.with(|world| world.clocks(&self.0))
    }

    fn since_boot(&self) -> BootTime {
        BootTime(self.0.sim.with(|world| world.now()))
    }

    fn random(&self, bytes: &mut [u8]) -> io::Result<()> {
        self.0.sim.with(|world| {
            bytes.chunks_mut(8).for_each(|chunk| {
                let drawn = world.names.draw().to_le_bytes();
                chunk.copy_from_slice(&drawn[..chunk.len()]);
            })
        });
        Ok(())
    }
}

impl Keepers for Simulated {
    fn boot(&self) -> Arc<str> {
        self.0.sim.with(|world| world.hosts[self.0.host].boot_id().into())
    }

    fn hold_stop(&self, order: Order) -> BoxFuture<Result<bool, String>> {
        Box::pin(self.0.clone().hold_stop(order))
    }

    fn perform(&self, order: Order, reports: Reports) -> BoxFuture<Result<(), String>> {
        Box::pin(self.0.clone().perform(order, reports))
    }

    fn gone(&self, of: Option<JobId>) -> Vec<JobId> {
        self.0.sim.with(|world| {
            let has_shim = |key| {
                let tree = world.places.get(key).and_then(|place| place.tree.as_ref());
                tree.is_some_and(|tree| tree.shim)
            };
            let lines =
                world.lives[self.0.host].lines.iter().filter(|(job, _)| of.is_none_or(|of| of == **job));
            lines.filter(|(_, (key, connected))| !connected || !has_shim(key)).map(|(job, _)| *job).collect()
        })
    }

    fn written(&self, job: JobId, attempt: AttemptNo) -> u64 {
        self.0.sim.with(|world| {
            let tree = world.places.get(&self.0.key(job, attempt)).and_then(|place| place.tree.as_ref());
            tree.map_or(0, |tree| tree.written(world.now()))
        })
    }

    fn holder_of(&self, _: &[(i32, u64)]) -> Option<JobId> {
        None
    }
}

impl Attempts for Simulated {}

impl JobFiles for Simulated {
    fn keep_env(&self, job: JobId, env: Env) -> BoxFuture<io::Result<()>> {
        let process = self.0.clone();
        Box::pin(async move {
            process.act(|world| world.disk(Some(job))).await?;
            let mark = env.variables.first().map(|(_, value)| value.to_string_lossy().into_owned());
            process.act(|world| world.env_kept(process.host, job, mark.unwrap_or_default())).await;
            Ok(())
        })
    }

    fn sync_env(&self, job: JobId) -> BoxFuture<io::Result<()>> {
        let process = self.0.clone();
        Box::pin(async move { process.act(|world| world.disk(Some(job))).await })
    }

    fn drop_env(&self, job: JobId) -> BoxFuture<io::Result<()>> {
        let process = self.0.clone();
        Box::pin(async move {
            let dropped = process.act(|world| {
                world.lives[process.host].kept.remove(&job);
                world.disk(Some(job))
            });
            dropped.await?;
            process.act(|world| world.env_dropped(process.host, job)).await;
            Ok(())
        })
    }

    fn sweep_envs(&self, live: HashSet<JobId>) -> BoxFuture<io::Result<u32>> {
        let process = self.0.clone();
        Box::pin(async move {
            process.act(|world| world.disk(None)).await?;
            Ok(process.act(|world| world.envs_swept(process.host, &live)).await)
        })
    }

    fn remove(&self, job: JobId, _: Vec<OwnerId>) -> BoxFuture<io::Result<()>> {
        let process = self.0.clone();
        Box::pin(async move {
            process.act(|world| world.disk(Some(job))).await?;
            process.act(|world| world.remains_removed(process.host, job)).await;
            Ok(())
        })
    }
}

impl JobWorktrees for Simulated {}
