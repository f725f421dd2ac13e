//! How a schedule goes: what is asked for, where the planned faults strike, and how everything heals afterwards.

use lastword_core::{Job, JobId};
use lastword_engine::Group;

use super::fault::Fault;
use super::plan::{GROUPS, LATE};
use super::wish::{State, Wish};
use super::world::{Doing, World};
use crate::world::place::Key;

/// How long faults strike.
const CHAOS_MS: u64 = 5_000;

/// How long after that the jobs that still run are cancelled.
const PATIENCE_MS: u64 = 5_000;

/// How long after the last word of another job the one that follows it is submitted: while the engine hears of it and acts on it.
const FOLLOWS_MS: u64 = 6;

/// How long after the faults an engine has found out everything, by its sweeps: from there on it must be prompt.
pub(super) const PROMPT_MS: u64 = 14_000;

/// How long after the faults every job must have ended: sweeps, back-offs and ladders fit in many times.
const CONVERGE_MS: u64 = 120_000;

/// How often it is looked whether something takes too long.
const AUDIT_MS: u64 = 200;

impl World {
    /// Plans what is known from the start.
    pub(super) fn begin(&mut self) {
        for host in 0..self.hosts.len() {
            self.after(0, Doing::Start(host));
        }
        for planned in self.plan.early.clone() {
            self.draw_wishes(&planned);
        }
        for _ in 0..2 + self.random.below(4) {
            let at = self.random.below(CHAOS_MS);
            self.client(at, Wish::List);
        }
        if self.random.chance(35) {
            let name = self.random.pick(&GROUPS).to_string();
            let slots = (!self.random.chance(20)).then(|| self.random.below(3) as u32);
            let paused = self.random.chance(30);
            let at = self.random.below(CHAOS_MS);
            self.client(at, Wish::SetGroup(Group { paused, ..Group::new(&name, slots) }));
        }
        if self.random.chance(10) {
            let at = self.random.below(CHAOS_MS);
            self.client(at, Wish::Prune);
        }
        for _ in 0..2 + self.random.below(4) {
            let at = 50 + self.random.below(CHAOS_MS - 50);
            self.after(at, Doing::Strike);
        }
        self.after(CHAOS_MS, Doing::Heal);
    }

    /// Lets one planned fault strike.
    pub(super) fn strike(&mut self) {
        match self.random.below(20) {
            0..4 => self.kill_engine(),
            4..6 => {
                self.struck(Fault::Reboot, None);
                let host = self.any_host();
                self.reboot(host);
            }
            6..8 => {
                self.struck(Fault::ClockJump, None);
                // At times far back: what was due stays in the future for longer than faults last.
                let ms = match self.random.chance(30) {
                    true => -25_000 - self.random.below(13_000) as i64,
                    false => self.random.below(12_000) as i64 - 6_000,
                };
                let host = self.any_host();
                self.say(|_| format!("the wall clock of h{host} jumps {ms} ms"));
                self.hosts[host].jump(ms);
            }
            8..11 => {
                self.struck(Fault::JournalAway, None);
                self.journal_away = true;
                let ms = 50 + self.random.below(2_500);
                self.after(ms, Doing::JournalBack);
            }
            11..16 => self.crash_keeper(),
            16..18 => self.cut_line(),
            _ => {
                self.struck(Fault::ShutDown, None);
                self.client(0, Wish::ShutDown);
            }
        }
    }

    fn kill_engine(&mut self) {
        self.struck(Fault::EngineKilled, None);
        let host = self.any_host();
        self.engine_dies(host);
    }

    fn crash_keeper(&mut self) {
        let keepers: Vec<Key> =
            self.places.iter_mut().filter_map(|(key, place)| place.kept().map(|_| *key)).collect();
        if keepers.is_empty() {
            return self.kill_engine();
        }
        let key = *self.random.pick(&keepers);
        self.struck(Fault::KeeperCrash, Some(key.job));
        let both = self.random.chance(35);
        self.keeper_dies(key, both);
    }

    fn cut_line(&mut self) {
        let lines: Vec<Key> =
            self.lives.iter().flat_map(|life| life.lines.values()).map(|(key, _)| *key).collect();
        if lines.is_empty() {
            return self.kill_engine();
        }
        let key = *self.random.pick(&lines);
        self.struck(Fault::LineCut, Some(key.job));
        if let Some((_, connected)) = self.lives[key.host].lines.get_mut(&key.job) {
            *connected = false;
        }
        self.wake_watches(key);
    }

    /// The faults are over. What was changed about groups is put right, and patience begins to run out.
    pub(super) fn heal(&mut self) {
        self.say(|_| "calm".to_owned());
        self.calm_since = Some(self.now());
        self.journal_away = false;
        for host in 0..self.hosts.len() {
            if self.random.chance(50) {
                self.engine_dies(host);
            }
        }
        let default = Group::new(GROUPS[0], self.plan.default_slots);
        let other = Group::new(GROUPS[1], Some(1));
        for group in [default, other] {
            self.client(1_000, Wish::SetGroup(group));
        }
        self.after(PATIENCE_MS, Doing::Impatience);
        for planned in self.plan.late.clone().into_iter().take(3) {
            self.client(PROMPT_MS, Wish::Submit(planned));
        }
        self.draw_late_wishes();
        self.after(AUDIT_MS, Doing::Audit);
    }

    /// What is wanted of the jobs that run when all is well: each is followed, and the one that reads is told something and ended.
    fn draw_late_wishes(&mut self) {
        let [fails, waits, reads, _] = &self.plan.late[..] else { return };
        let (ids, mark) = ([fails.id, waits.id, reads.id], reads.mark.clone());
        for job in ids {
            let at = PROMPT_MS + 10 + self.random.below(200);
            self.client(at, Wish::Wait { job, ms: 20_000 });
            let at = PROMPT_MS + 10 + self.random.below(2_000);
            self.client(at, Wish::Read(job));
        }
        for no in 0..3 {
            let at = PROMPT_MS + 300 + self.random.below(600);
            self.client(at, Wish::Send { job: ids[2], text: format!("{mark} says {no}"), eof: false });
        }
        match self.random.below(3) {
            0 => self.client(
                PROMPT_MS + 1_500,
                Wish::Send { job: ids[2], text: format!("{mark} is done"), eof: true },
            ),
            1 => self.client(
                PROMPT_MS + 1_500,
                Wish::SetLimit { job: ids[2], limit: lastword_core::limits::Limit::Wall, value: 1_000 },
            ),
            _ => self.client(PROMPT_MS + 1_500, Wish::Cancel { job: ids[2], force: false }),
        }
        // Whatever became of that: it ends.
        self.client(PROMPT_MS + 5_000, Wish::Cancel { job: ids[2], force: false });
        self.client(PROMPT_MS + 1_000, Wish::List);
        // Two groups are changed at a time, in either order, and each change must stand: a job waits in the one that is paused meanwhile.
        let group = |name: &str, slots, paused| Wish::SetGroup(Group { paused, ..Group::new(name, slots) });
        let slots = self.plan.default_slots;
        for (ms, paused) in [(500, true), (1_700, false)] {
            let mut changes = [group(GROUPS[1], Some(1), paused), group(GROUPS[0], slots, false)];
            if self.random.chance(50) {
                changes.reverse();
            }
            for change in changes {
                self.client(PROMPT_MS + ms, change);
            }
        }
    }

    /// A job has ended. If the last of the late jobs waits for it, that one is submitted now: its append is on the way to the journal
    /// while the engine tells the jobs that wait.
    pub(super) fn submit_follower(&mut self, ended: JobId) {
        let follower = self.plan.late[LATE - 1].clone();
        if follower.spec.after.iter().any(|dependency| dependency.job == ended) {
            let ms = self.random.below(FOLLOWS_MS);
            self.client(ms, Wish::Submit(follower));
        }
    }

    /// Patience is over: what has not ended is cancelled, until nothing of the early jobs is left. A job that waits for another one is
    /// spared: the other one ends, and a cancel would hide that the engine has forgotten to tell it. So is one with a due time that is too far ahead.
    pub(super) fn impatience(&mut self) {
        let early = |job: &JobId| !self.plan.late.iter().any(|planned| planned.id == *job);
        let live = self.witness.iter().filter(|(job, watched)| early(job) && watched.known.is_live());
        let is_spared = |job: &Job| !job.unmet.is_empty() || (self.is_alone() && self.is_misdated(job));
        let live: Vec<_> = live.map(|(job, watched)| (*job, !is_spared(&watched.known.job))).collect();
        for (job, _) in live.iter().filter(|(_, is_due)| *is_due) {
            let force = self.random.chance(30);
            self.client(0, Wish::Cancel { job: *job, force });
        }
        if !live.is_empty() {
            self.after(PATIENCE_MS, Doing::Impatience);
        }
    }

    /// Reports whether by then the engine had the time to find out everything that the faults left.
    pub(super) fn is_prompt(&self, at: u64) -> bool {
        self.is_alone() && self.calm_since.is_some_and(|since| at >= since + PROMPT_MS)
    }

    /// Reports whether one engine has the journal to itself. Others learn of its writes only when they renew or sweep.
    pub(super) fn is_alone(&self) -> bool {
        self.hosts.len() == 1
    }

    /// Looks whether something takes too long, and whether all is over.
    pub(super) fn audit(&mut self) {
        let Some(since) = self.calm_since else { return };
        self.look_for_delays();
        let now = self.now();
        let asked = self.clients.iter().all(|client| matches!(client.state, State::Done(_)));
        let ended = self.witness.values().all(|watched| !watched.known.is_live());
        let quiet = self.witness.values().all(|watched| watched.ended_at.is_none_or(|at| now > at + 1_500));
        if now > since + PROMPT_MS + 3_000 && asked && ended && quiet {
            self.last_look();
            self.over = true;
        } else if now > since + CONVERGE_MS {
            self.fail("liveness", World::unfinished);
        }
        self.after(AUDIT_MS, Doing::Audit);
    }

    fn unfinished(&self) -> String {
        let live = self.witness.values().map(|watched| &watched.known).filter(|known| known.is_live());
        let jobs: Vec<String> = live
            .map(|known| {
                let job = &known.job;
                format!(
                    "{} {:?}, held {}, stop {:?}",
                    self.name(job.id),
                    job.phase,
                    job.holder.is_some(),
                    job.stop
                )
            })
            .collect();
        let asking = self.clients.iter().filter(|client| !matches!(client.state, State::Done(_)));
        let asking: Vec<String> =
            asking.map(|client| format!("{:?} {:?}", client.state, client.wish)).collect();
        format!("{}; waiting: {}", jobs.join("; "), asking.join("; "))
    }
}
