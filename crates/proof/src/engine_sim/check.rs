//! Checks that belong to the engine: dependencies, limits, inputs, claims and environments.

use std::collections::HashSet;

use lastword_core::effects::Effect;
use lastword_core::event::{LastWord, LimitFired};
use lastword_core::limits::Limit;
use lastword_core::outcome::{Cause, Outcome};
use lastword_core::spec::{DEFAULT_GROUP, Needs};
use lastword_core::view::row::Row;
use lastword_core::{Event, Fact, InputNo, JobId};
use lastword_engine::Group;
use lastword_engine::host::Order;
use lastword_store::{Claim, Claimed, Source};

use super::witness::Watched;
use super::world::World;
use crate::world::place::Key;
use crate::world::witness::{Judgement, Known, broken, of};

impl World {
    pub(super) fn judge(&mut self, judgement: Judgement) {
        if let Err((name, detail)) = judgement {
            self.fail(name, |_| detail);
        }
    }

    /// Something was written to a job: looks at all that is new.
    pub(super) fn witnessed(&mut self, job: JobId) {
        let seen = self.witness.entry(job).or_insert_with(|| Watched::new(job)).known.job.version;
        for event in self.ledger.load(job, seen) {
            self.note(crate::schedules::fnv(event.fact.kind().as_bytes()));
            self.say(|world| format!("{} #{}: {:?}", world.name(job), event.seq, event.fact));
            let judgement = self.look_at_event(job, &event);
            self.judge(judgement);
            if matches!(event.fact, Fact::LastWord(_)) {
                self.submit_follower(job);
            }
        }
        let row = self.ledger.row(job);
        if row != Some(&Row::of(&self.witness[&job].known.job)) {
            self.fail("the row is not the fold", |world| world.name(job));
        }
    }

    fn look_at_event(&mut self, job: JobId, event: &Event) -> Judgement {
        let known = &self.witness[&job].known;
        match &event.fact {
            Fact::LaunchIntended(_) => self.look_at_dependencies(known)?,
            Fact::InputDelivered(delivered) => self.look_at_delivery(job, delivered.input)?,
            Fact::LimitFired(fired) => self.look_at_limit(known, fired)?,
            Fact::DependencySettled(settled) => self.look_at_end(job, settled.job, Some(settled.outcome))?,
            Fact::DependencyRemoved(removed) => self.look_at_end(job, removed.job, None)?,
            Fact::LastWord(word) => self.look_at_unmet(known, word)?,
            _ => {}
        }
        let now = self.now();
        let Some(watched) = self.witness.get_mut(&job) else { return Ok(()) };
        match &event.fact {
            Fact::LastWord(_) => watched.ended_at = Some(now),
            Fact::AttemptEnded(ended) if ended.receipt.empty_at.is_none() => {
                watched.unseen.push((ended.attempt, now));
            }
            _ => {}
        }
        watched.known.witness(event, &self.places)
    }

    /// A job is about to be started: everything it waits for must have ended as it needs.
    fn look_at_dependencies(&self, known: &Known) -> Judgement {
        let Some(spec) = &known.job.spec else { return Ok(()) };
        for dependency in &spec.after {
            let ended = self.witness.get(&dependency.job).and_then(|other| other.known.job.last_word());
            let right = ended
                .is_some_and(|word| dependency.on == Needs::AnyEnd || word.outcome == Outcome::Completed);
            if !right {
                let what = format!("{} after {}", self.name(known.job.id), self.name(dependency.job));
                return broken("started before what it waits for had ended rightly", what);
            }
        }
        Ok(())
    }

    /// A job is told how another one ended: it must have ended like that, or be gone.
    fn look_at_end(&self, job: JobId, other: JobId, outcome: Option<Outcome>) -> Judgement {
        let right = self.witness.get(&other).is_some_and(|watched| match outcome {
            Some(_) => watched.known.job.last_word().map(|word| word.outcome) == outcome,
            None => watched.removed,
        });
        let what = || format!("{} of {}: {outcome:?}", self.name(job), self.name(other));
        if right { Ok(()) } else { broken("told of an end that was not", what()) }
    }

    /// A job is not started because of another one: that one must have ended otherwise than needed, or be gone, as it says.
    fn look_at_unmet(&self, known: &Known, word: &LastWord) -> Judgement {
        if !matches!(word.cause, Cause::Dependency | Cause::DependencyRemoved) {
            return Ok(());
        }
        let after = known.job.spec.iter().flat_map(|spec| &spec.after);
        let right = after.filter(|dependency| dependency.on == Needs::Success).any(|dependency| {
            let is_named = word.by.as_deref() == Some(&dependency.job.to_string());
            let other = self.witness.get(&dependency.job).filter(|_| is_named);
            other.is_some_and(|other| match word.cause {
                Cause::DependencyRemoved => other.removed,
                _ => other.known.job.last_word().is_some_and(|word| word.outcome != Outcome::Completed),
            })
        });
        let what = || format!("{}: {word:?}", self.name(known.job.id));
        if right { Ok(()) } else { broken("not started for a reason that was not", what()) }
    }

    fn look_at_delivery(&self, job: JobId, input: InputNo) -> Judgement {
        let trees = of(&self.places, job).filter_map(|(_, place)| place.tree.as_ref());
        let mut read = trees.flat_map(|tree| &tree.leader.read);
        match read.any(|(no, _)| *no == input) {
            true => Ok(()),
            false => {
                broken("an input is called delivered and was not", format!("{} {input}", self.name(job)))
            }
        }
    }

    /// A limit is said to be reached: it must be.
    fn look_at_limit(&self, known: &Known, fired: &LimitFired) -> Judgement {
        let at = || format!("{}: {fired:?}", self.name(known.job.id));
        // It may have ended long before, within its limits.
        if known.job.open_attempt().is_some_and(|attempt| attempt.epoch != known.job.epoch) {
            return broken("a limit fired before the tree was looked for", at());
        }
        let place = self.place_of(known.job.id, fired.attempt);
        let Some((host, tree)) = place.and_then(|(host, place)| Some((host, place.tree.as_ref()?))) else {
            return broken("a limit fired and there was no tree", at());
        };
        // What the owner measured, it measured before this was stored.
        let reached = match fired.limit {
            Limit::Wall => {
                let age = tree.age(self.hosts[host].awake(self.now()));
                age + self.ran_before(known.job.id, fired.attempt) >= fired.allowed
            }
            Limit::Stall => self.now() - tree.silent_since(self.now()) >= fired.allowed,
            Limit::Output => tree.written(self.now()) > fired.allowed,
            _ => false,
        };
        // Of a host that booted since, the clock began anew.
        if reached || !tree.alive { Ok(()) } else { broken("a limit fired that was not reached", at()) }
    }

    /// A tree has just come to life.
    pub(super) fn check_launch(&mut self, key: Key) {
        let judgement = match self.witness.get(&key.job).map(|watched| &watched.known) {
            None => broken("launched without a record", format!("{key:?}")),
            Some(known) if known.job.is_ended() => broken("launched after the last word", format!("{key:?}")),
            Some(known) => known.check_launch(key, &self.places),
        };
        self.judge(judgement);
        let mut planned = self.plan.early.iter().chain(&self.plan.late);
        let mark = planned.find(|planned| planned.id == key.job).map(|planned| &planned.mark);
        let kept = self.envs.get(&(key.host, key.job));
        if kept.is_none() || (mark.is_some() && kept != mark) {
            let kept = kept.cloned();
            self.fail("launched without its environment", |world| {
                format!("{} sees {kept:?}", world.name(key.job))
            });
        }
    }

    /// The engine wants something done.
    pub(super) fn check_order(&mut self, order: &Order) {
        let Some(known) = self.witness.get(&order.job.id).map(|watched| &watched.known) else { return };
        let what = || format!("{:?} for {}", order.effect, self.name(order.job.id));
        let judgement = match &order.effect {
            Effect::Launch { attempt } => known.check_order(*attempt, order.epoch),
            Effect::Stop {
                cause: Cause::User | Cause::Shutdown | Cause::ParentGone | Cause::ReaderGone,
                ..
            } => match known.job.is_ended() || known.job.stop.is_some() || order.job.stop.is_none() {
                true => Ok(()),
                false => broken("signal before the request was durable", what()),
            },
            _ => Ok(()),
        };
        self.judge(judgement);
    }

    /// A leader has read something: each input once, in order, and as it was asked for.
    pub(super) fn check_inputs(&mut self, key: Key) {
        let Some(tree) = self.places.get(&key).and_then(|place| place.tree.as_ref()) else { return };
        let Some(watched) = self.witness.get(&key.job) else { return };
        let read = &tree.leader.read;
        let what = || format!("{} attempt {} read {read:?}", self.name(key.job), key.attempt);
        let in_order = read.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let asked = read.iter().all(|(no, text)| {
            watched.known.events.iter().any(|event| match &event.fact {
                Fact::InputRequested(request) => request.input == *no && request.text == *text,
                _ => false,
            })
        });
        let others = of(&self.places, key.job).filter(|(other, _)| **other != key);
        let others = others.filter_map(|(_, place)| place.tree.as_ref());
        let mut elsewhere = others.flat_map(|tree| &tree.leader.read);
        let judgement = match read.last() {
            _ if !in_order => broken("inputs came in another order", what()),
            _ if !asked => broken("an input was read that was not sent", what()),
            Some((last, _)) if elsewhere.any(|(no, _)| no == last) => {
                broken("an input was read twice", what())
            }
            _ => Ok(()),
        };
        self.judge(judgement);
    }

    /// Jobs are about to be taken: by their priorities, within the slots, and not before they are due.
    pub(super) fn check_claim(&mut self, claim: &Claim, taken: &[Claimed], sent_at: u64) {
        let Source::Ready { group: queue, .. } = &claim.from else { return };
        if taken.is_empty() {
            return;
        }
        let group = self.group(queue);
        let rows: Vec<&Row> = self.witness.keys().filter_map(|job| self.ledger.row(*job)).collect();
        let held =
            rows.iter().filter(|row| row.group == *queue && row.holder.is_some()).count() + taken.len();
        let is_taken = |row: &&&Row| taken.iter().any(|claimed| claimed.job == row.job);
        let early = rows.iter().filter(is_taken).find(|row| row.due.is_none_or(|due| due > self.wall_max));
        let least = rows.iter().filter(is_taken).map(|row| row.priority).min();
        let passed_over = rows.iter().filter(|row| !is_taken(row)).find(|row| {
            row.group == *queue
                && row.due.is_some_and(|due| due <= claim.now)
                && least.is_some_and(|least| row.priority > least)
        });
        // A change of the group that came while the claim was on its way need not be obeyed, nor one that another engine made.
        let settled = self.groups_settled_at().is_some_and(|at| at < sent_at) && self.is_alone();
        let judgement = match group {
            None => broken("taken from a group that is not there", queue.clone()),
            Some(group) if settled && group.paused => broken("taken from a paused group", queue.clone()),
            Some(group) if settled && group.slots.is_some_and(|slots| held > slots as usize) => {
                broken("more are held than there are slots", format!("{held} of {group:?}"))
            }
            _ if early.is_some() => broken("taken before it was due", format!("{early:?}")),
            _ if passed_over.is_some() => {
                broken("a higher priority was passed over", format!("{passed_over:?}"))
            }
            _ => Ok(()),
        };
        self.judge(judgement);
    }

    /// Returns a group as it is durable. The default group exists even if no client added it.
    pub(super) fn group(&self, name: &str) -> Option<Group> {
        let stored = self.ledger.groups().into_iter().find(|group| group.name == name);
        let default = || Group::new(name, self.plan.default_slots);
        stored.or_else(|| (name == DEFAULT_GROUP).then(default))
    }

    /// A job was removed from the journal.
    pub(super) fn removed(&mut self, job: JobId) {
        if let Some(watched) = self.witness.get_mut(&job) {
            watched.removed = true;
        }
    }

    /// A host has kept the environment of a job.
    pub(super) fn env_kept(&mut self, host: usize, job: JobId, mark: String) {
        self.lives[host].kept.insert(job);
        self.homes.insert((host, job));
        self.envs.insert((host, job), mark);
    }

    /// The environment of a job is gone. It is needed until the last word.
    pub(super) fn env_dropped(&mut self, host: usize, job: JobId) {
        self.envs.remove(&(host, job));
        // A submission that came to nothing here may succeed on the other host.
        if !self.is_alone() && !self.witness.contains_key(&job) {
            self.homes.remove(&(host, job));
        }
        self.check_env_is_not_needed(job);
    }

    /// What a host has kept of a job is gone.
    pub(super) fn remains_removed(&mut self, host: usize, job: JobId) {
        self.env_dropped(host, job);
        self.places.retain(|key, place| (key.job, key.host) != (job, host) || place.is_alive());
    }

    /// The environments of all jobs on a host that are not live are gone.
    pub(super) fn envs_swept(&mut self, host: usize, live: &HashSet<JobId>) -> u32 {
        let kept = &self.lives[host].kept;
        let mine = self.envs.keys().filter(|(home, _)| *home == host).map(|(_, job)| *job);
        let swept: Vec<JobId> = mine.filter(|job| !live.contains(job) && !kept.contains(job)).collect();
        for job in &swept {
            self.env_dropped(host, *job);
        }
        swept.len() as u32
    }

    fn check_env_is_not_needed(&mut self, job: JobId) {
        if self.witness.get(&job).is_some_and(|watched| watched.known.is_live()) {
            self.fail("the environment of a live job was removed", |world| world.name(job));
        }
    }
}
