//! The trees that the engine is given: orders on their way to simulated keepers, and reports on their way back.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use lastword_core::effects::Effect;
use lastword_core::report::{Found, Report};
use lastword_core::{AttemptNo, Epoch, InputNo, Job, JobId, Now};
use lastword_engine::host::{BoxFuture, Clock, JobFiles, JobWorktrees, Keepers, Order, Reports};
use lastword_engine::{Env, Recording, Stream};
use tokio::sync::{Notify, oneshot};

use super::fault::Fault;
use super::journal::pause;
use super::keeper::{Key, Launched, boot_name};
use super::world::{Doing, Sim, World};

/// How long a report takes at least that is late.
const LATE_MS: u64 = 100;

/// The trees.
pub(super) struct Simulated(pub(super) Sim);

/// A launch on its way to the nursery, which is a process of its own: it arrives whatever becomes of the engine.
pub(super) struct LaunchOrder {
    job: Job,
    epoch: Epoch,
    attempt: AttemptNo,
    /// A boot ends what was on its way.
    boot: u32,
}

/// How an order fares.
enum Way {
    /// Its sender is dead.
    Dead,
    /// It takes so long there. Then it is done or not, and its sender is told or left in doubt; what is reported takes so long, and may
    /// come twice.
    Open { there_ms: u64, done: bool, doubt: bool, back_ms: u64, twice: bool },
    /// Its sender dies, and it is done or not.
    Kills(bool),
}

/// What whoever watches a tree sees.
enum Seen {
    /// It goes on.
    Alive,
    /// The line is cut, or its shim is gone and its guard is at work.
    Cut,
    /// It is over: this is to be reported.
    Over(Box<Report>),
}

impl World {
    fn set_out(&mut self, order: &Order) -> Way {
        let job = order.job.id;
        self.note(0x0de2 + kind(&order.effect));
        self.step();
        if self.life.dead {
            return Way::Dead;
        }
        self.say(|world| format!("the engine wants {:?} for {}", order.effect, world.name(job)));
        self.check_order(order);
        self.life.deeds += 1;
        if self.life.dies_at == Some(self.life.deeds) && self.calm_since.is_none() {
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
        if order.boot == self.boot {
            let launched = self.launch(&order.job, order.epoch, order.attempt);
            // Whoever asked may be dead.
            let _ = answer.send(launched);
        }
    }

    fn line_up(&mut self, key: Key) {
        self.life.lines.insert(key.0, (key, true));
    }

    /// Does what an order asks of a shim. One that is gone, or obeys somebody newer, does nothing.
    fn speak(&mut self, order: &Order) {
        let attempt = match &order.effect {
            Effect::Stop { attempt, .. }
            | Effect::Deadline { attempt, .. }
            | Effect::Tell { attempt, .. }
            | Effect::Interrupt { attempt, .. }
            | Effect::Hold { attempt, .. }
            | Effect::Close { attempt } => *attempt,
            Effect::Launch { .. } | Effect::Locate { .. } | Effect::Watch { .. } => return,
        };
        let key = (order.job.id, attempt);
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

    /// Looks at a tree for whoever watches it, who has told of so many rungs and of inputs up to that number.
    fn see(&mut self, order: &Order, key: Key, rungs: &mut usize, told: &mut u32) -> (Vec<Report>, Seen) {
        let attempt = key.1;
        let mut said = Vec::new();
        if let Some(tree) = self.places.get(&key).and_then(|place| place.tree.as_ref()) {
            for rung in &tree.rungs[*rungs..] {
                said.push(Report::Climbed { attempt, rung: *rung, alive: 1 });
            }
            (*rungs, *told) = (tree.rungs.len(), {
                said.extend((*told + 1..=tree.taken).map(|no| Report::Told { input: InputNo(no) }));
                tree.taken.max(*told)
            });
            let cut = self.life.lines.get(&key.0).is_some_and(|(_, connected)| !connected);
            if tree.shim {
                return (said, if cut { Seen::Cut } else { Seen::Alive });
            }
        }
        let seen = match self.locate(&order.job, attempt) {
            Found::Alive { .. } => Seen::Cut,
            Found::Ended(receipt) => Seen::Over(Box::new(Report::Emptied { attempt, receipt })),
            found => Seen::Over(Box::new(Report::Located { attempt, found })),
        };
        (said, seen)
    }

    fn news_of(&mut self, key: Key) -> Arc<Notify> {
        Arc::clone(&self.places.entry(key).or_default().news)
    }

    /// Decides what becomes of something that is to be kept on disk.
    fn disk(&mut self, job: Option<JobId>) -> Option<io::Result<()>> {
        self.note(0xd15c);
        self.step();
        if self.life.dead {
            return None;
        }
        if self.unlucky(3) {
            self.struck(Fault::DiskFull, job);
            return Some(Err(io::Error::from(io::ErrorKind::StorageFull)));
        }
        Some(Ok(()))
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

impl Sim {
    async fn perform(self, order: Order, reports: Reports) -> Result<(), String> {
        match self.with(|world| world.set_out(&order)) {
            Way::Dead => std::future::pending().await,
            Way::Kills(done) => {
                if done {
                    drop(self.carry_out(&order, 0));
                }
                self.with(World::engine_dies);
                std::future::pending().await
            }
            Way::Open { there_ms, done, doubt, back_ms, twice } => {
                if let Effect::Watch { attempt } = order.effect {
                    return self
                        .watch(&order, (order.job.id, attempt), (doubt, back_ms, twice), &reports)
                        .await;
                }
                pause(there_ms).await;
                let answer = match done {
                    true => self.carry_out(&order, there_ms).await,
                    false => None,
                };
                if doubt {
                    return Err("simulated".to_owned());
                }
                if let Some(report) = answer {
                    self.report(order.job.id, report, back_ms, twice, &reports).await;
                }
                Ok(())
            }
        }
    }

    /// Reports something after a while, and perhaps once more. That it comes late, or twice, strikes when it comes.
    async fn report(&self, job: JobId, report: Report, ms: u64, twice: bool, reports: &Reports) {
        pause(ms).await;
        if ms >= LATE_MS {
            self.with(|world| world.struck(Fault::ReportLate, Some(job)));
        }
        reports.report(report.clone()).await;
        if twice {
            pause(ms * 20).await;
            self.with(|world| world.struck(Fault::ReportTwice, Some(job)));
            reports.report(report).await;
        }
    }

    /// Carries out an order, and returns what is to be reported. What is sent is on its way at once.
    fn carry_out(&self, order: &Order, ms: u64) -> impl Future<Output = Option<Report>> + Send + use<> {
        let (sim, job) = (self.clone(), order.job.id);
        let sent = self.with(|world| match order.effect {
            Effect::Launch { attempt } => {
                let (answer, answered) = oneshot::channel();
                let order =
                    LaunchOrder { job: order.job.clone(), epoch: order.epoch, attempt, boot: world.boot };
                world.after(ms, Doing::Launch(Box::new(order), answer));
                Ok((attempt, answered))
            }
            Effect::Locate { attempt } => {
                let found = world.locate(&order.job, attempt);
                if let Found::Alive { .. } = found {
                    world.obeys((job, attempt), order.epoch);
                    world.line_up((job, attempt));
                }
                Err(Some(Box::new(Report::Located { attempt, found })))
            }
            _ => {
                world.speak(order);
                Err(None)
            }
        });
        async move {
            let (attempt, answered) = match sent {
                Err(report) => return report.map(|report| *report),
                Ok(sent) => sent,
            };
            Some(match answered.await.ok()? {
                Launched::Tree(tree, awake) => {
                    sim.with(|world| world.line_up((job, attempt)));
                    Report::Launched { attempt, tree, awake }
                }
                Launched::Failed(error) => Report::LaunchFailed { attempt, error, launch_error: None },
                Launched::Found(found) => Report::Located { attempt, found },
            })
        }
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
        self.with(|world| world.line_up(key));
        reports.is_there();
        loop {
            let news = self.with(|world| world.news_of(key));
            let changed = news.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let (said, seen) = self.with(|world| world.see(order, key, &mut rungs, &mut told));
            for report in said {
                reports.report(report).await;
            }
            match seen {
                Seen::Alive => changed.await,
                Seen::Cut if doubt => return Err("simulated".to_owned()),
                Seen::Cut => {
                    pause(5).await;
                    self.with(|world| world.line_up(key));
                    reports.is_there();
                }
                Seen::Over(report) => {
                    self.report(key.0, *report, back_ms, twice, reports).await;
                    self.with(|world| world.life.lines.remove(&key.0));
                    return Ok(());
                }
            }
        }
    }
}

impl Clock for Simulated {
    fn now(&self) -> Now {
        self.0.with(World::clocks)
    }

    fn random(&self, bytes: &mut [u8]) -> io::Result<()> {
        self.0.with(|world| {
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
        self.0.with(|world| boot_name(world.boot).into())
    }

    fn perform(&self, order: Order, reports: Reports) -> BoxFuture<Result<(), String>> {
        Box::pin(self.0.clone().perform(order, reports))
    }

    fn gone(&self, of: Option<JobId>) -> Vec<JobId> {
        self.0.with(|world| {
            let gone = |key: &Key| {
                !world.places.get(key).is_some_and(|place| place.tree.as_ref().is_some_and(|tree| tree.shim))
            };
            let lines = world.life.lines.iter().filter(|(job, _)| of.is_none_or(|of| of == **job));
            lines.filter(|(_, (key, connected))| !connected || gone(key)).map(|(job, _)| *job).collect()
        })
    }

    fn written(&self, job: JobId, attempt: AttemptNo) -> u64 {
        self.0.with(|world| {
            let tree = world.places.get(&(job, attempt)).and_then(|place| place.tree.as_ref());
            tree.map_or(0, |tree| tree.written(world.now()))
        })
    }

    fn holder_of(&self, _: i32) -> Option<JobId> {
        None
    }

    fn recording(&self, _: JobId, _: AttemptNo, _: Stream) -> io::Result<Recording> {
        Err(io::Error::from(io::ErrorKind::NotFound))
    }
}

impl JobFiles for Simulated {
    fn keep_env(&self, job: JobId, env: Env) -> BoxFuture<io::Result<()>> {
        let sim = self.0.clone();
        Box::pin(async move {
            let Some(fate) = sim.with(|world| world.disk(Some(job))) else {
                return std::future::pending().await;
            };
            fate?;
            let mark = env.variables.first().map(|(_, value)| value.to_string_lossy().into_owned());
            sim.with(|world| {
                world.life.kept.insert(job);
                world.envs.insert(job, mark.unwrap_or_default());
            });
            Ok(())
        })
    }

    fn sync_env(&self, job: JobId) -> BoxFuture<io::Result<()>> {
        let sim = self.0.clone();
        Box::pin(async move {
            match sim.with(|world| world.disk(Some(job))) {
                Some(fate) => fate,
                None => std::future::pending().await,
            }
        })
    }

    fn drop_env(&self, job: JobId) -> BoxFuture<io::Result<()>> {
        let sim = self.0.clone();
        Box::pin(async move {
            let fate = sim.with(|world| {
                world.life.kept.remove(&job);
                world.disk(Some(job))
            });
            let Some(fate) = fate else { return std::future::pending().await };
            fate?;
            sim.with(|world| world.env_dropped(job));
            Ok(())
        })
    }

    fn sweep_envs(&self, live: HashSet<JobId>) -> BoxFuture<io::Result<u32>> {
        let sim = self.0.clone();
        Box::pin(async move {
            let Some(fate) = sim.with(|world| world.disk(None)) else { return std::future::pending().await };
            fate?;
            Ok(sim.with(|world| world.envs_swept(&live)))
        })
    }

    fn remove(&self, job: JobId) -> BoxFuture<io::Result<()>> {
        let sim = self.0.clone();
        Box::pin(async move {
            let Some(fate) = sim.with(|world| world.disk(Some(job))) else {
                return std::future::pending().await;
            };
            fate?;
            sim.with(|world| world.remains_removed(job));
            Ok(())
        })
    }
}

impl JobWorktrees for Simulated {}
