//! The witness: it sees every fact as it becomes durable, knows which trees really live, and compares.

use std::collections::HashSet;

use lastword_core::effects::Effect;
use lastword_core::event::{AttemptEnded, LastWord, LimitFired};
use lastword_core::job::Phase;
use lastword_core::limits::Limit;
use lastword_core::outcome::{Begun, Cause, Outcome};
use lastword_core::receipt::{Exit, KeeperStop, Proof};
use lastword_core::spec::{DEFAULT_GROUP, Needs};
use lastword_core::view::row::{PhaseName, Row};
use lastword_core::{AttemptNo, Event, Fact, InputNo, Job, JobId, Seq};
use lastword_engine::Group;
use lastword_engine::host::Order;
use lastword_store::{Claim, Claimed, Source};

use super::keeper::{Key, Place};
use super::world::World;

/// What the witness knows of one job.
pub(super) struct Known {
    /// The fold of what is durable.
    pub(super) job: Job,
    /// What was asked to be said to it.
    inputs: Vec<(InputNo, String)>,
    /// Where the log stood when a cancel was first acknowledged.
    cancelled: Option<Seq>,
    limit: Option<(AttemptNo, Limit)>,
    /// Since when it is over, by the world's clock.
    pub(super) ended_at: Option<u64>,
    /// It was removed, which only what has ended can be.
    pub(super) removed: bool,
}

impl Known {
    fn new(job: JobId) -> Known {
        Known {
            job: Job::unborn(job),
            inputs: Vec::new(),
            cancelled: None,
            limit: None,
            ended_at: None,
            removed: false,
        }
    }

    /// Returns the phase a job is in, as far as it is durable.
    pub(super) fn phase(&self) -> Option<PhaseName> {
        Some(match self.job.phase {
            Phase::Unborn => return None,
            Phase::Queued { .. } => PhaseName::Queued,
            Phase::Launching => PhaseName::Launching,
            Phase::Running => PhaseName::Running,
            Phase::Stopping { .. } => PhaseName::Stopping,
            Phase::Backoff { .. } => PhaseName::Backoff,
            Phase::Ended(_) => PhaseName::Ended,
        })
    }

    /// Takes note that somebody was told that a cancel is stored.
    pub(super) fn cancel_acknowledged(&mut self) {
        self.cancelled.get_or_insert(self.job.version);
    }
}

type Broken = Result<(), (&'static str, String)>;

fn broken(name: &'static str, detail: String) -> Broken {
    Err((name, detail))
}

impl World {
    pub(super) fn judge(&mut self, judgement: Broken) {
        if let Err((name, detail)) = judgement {
            self.fail(name, |_| detail);
        }
    }

    /// Something was written to a job: looks at all that is new.
    pub(super) fn witnessed(&mut self, job: JobId) {
        let known = self.witness.entry(job).or_insert_with(|| Known::new(job)).job.version;
        for event in self.ledger.load(job, known) {
            self.note(crate::schedules::fnv(event.fact.kind().as_bytes()));
            self.say(|world| format!("{} #{}: {:?}", world.name(job), event.seq, event.fact));
            let judgement = self.look_at_event(job, &event);
            self.judge(judgement);
            if matches!(event.fact, Fact::LastWord(_)) {
                self.submit_follower(job);
            }
        }
        let row = self.ledger.row(job);
        if row != Some(&Row::of(&self.witness[&job].job)) {
            self.fail("the row is not the fold", |world| world.name(job));
        }
    }

    fn look_at_event(&mut self, job: JobId, event: &Event) -> Broken {
        let known = &self.witness[&job];
        let at = || format!("{} #{}: {:?}", self.name(job), event.seq, event.fact);
        match &event.fact {
            Fact::LaunchIntended(_) if known.cancelled.is_some() => {
                return broken("launched after an acknowledged cancel", at());
            }
            Fact::LaunchIntended(_) => self.look_at_dependencies(known)?,
            Fact::InputRequested(request) if known.inputs.iter().any(|(_, text)| *text == request.text) => {
                return broken("an input was asked for twice", at());
            }
            Fact::InputDelivered(delivered) => self.look_at_delivery(job, delivered.input)?,
            Fact::LimitFired(fired) => self.look_at_limit(known, fired)?,
            Fact::AttemptEnded(ended) => self.look_at_attempt(known, ended)?,
            Fact::LastWord(word) => self.look_at_last_word(known, word)?,
            _ => {}
        }
        let now = self.now();
        let Some(known) = self.witness.get_mut(&job) else { return Ok(()) };
        match &event.fact {
            Fact::InputRequested(request) => known.inputs.push((request.input, request.text.clone())),
            Fact::LimitFired(fired) => known.limit = Some((fired.attempt, fired.limit)),
            Fact::LastWord(_) => known.ended_at = Some(now),
            _ => {}
        }
        known.job.apply(event).or_else(|illegal| broken("log does not fold", illegal.to_string()))
    }

    /// A job is about to be started: everything it waits for must have ended as it needs.
    fn look_at_dependencies(&self, known: &Known) -> Broken {
        let Some(spec) = &known.job.spec else { return Ok(()) };
        for dependency in &spec.after {
            let ended = self.witness.get(&dependency.job).and_then(|other| other.job.last_word());
            let right = ended
                .is_some_and(|word| dependency.on == Needs::AnyEnd || word.outcome == Outcome::Completed);
            if !right {
                let what = format!("{} after {}", self.name(known.job.id), self.name(dependency.job));
                return broken("started before what it waits for had ended rightly", what);
            }
        }
        Ok(())
    }

    fn look_at_delivery(&self, job: JobId, input: InputNo) -> Broken {
        let places = self.places.iter().filter(|((of, _), _)| *of == job);
        let mut read = places.filter_map(|(_, place)| place.tree.as_ref()).flat_map(|tree| &tree.read);
        match read.any(|(no, _)| *no == input) {
            true => Ok(()),
            false => {
                broken("an input is called delivered and was not", format!("{} {input}", self.name(job)))
            }
        }
    }

    /// A limit is said to be reached: it must be.
    fn look_at_limit(&self, known: &Known, fired: &LimitFired) -> Broken {
        let at = || format!("{}: {fired:?}", self.name(known.job.id));
        if known.limit.is_some_and(|(attempt, _)| attempt == fired.attempt) {
            return broken("a limit fired twice", at());
        }
        // It may have ended long before, within its limits.
        if known.job.open_attempt().is_some_and(|attempt| attempt.epoch != known.job.epoch) {
            return broken("a limit fired before the tree was looked for", at());
        }
        let place = self.places.get(&(known.job.id, fired.attempt));
        let Some(tree) = place.and_then(|place| place.tree.as_ref()) else {
            return broken("a limit fired and there was no tree", at());
        };
        // What the owner measured, it measured before this was stored.
        let reached = match fired.limit {
            Limit::Wall => tree.age(self.awake()) >= fired.allowed,
            Limit::Stall => self.now() - tree.silent_since(self.now()) >= fired.allowed,
            Limit::Output => tree.written(self.now()) > fired.allowed,
            _ => false,
        };
        // Of a host that booted since, the clock began anew.
        if reached || place.is_some_and(|place| !place.is_alive()) {
            Ok(())
        } else {
            broken("a limit fired that was not reached", at())
        }
    }

    /// Checks the end of an attempt against its tree and against what was asked.
    fn look_at_attempt(&self, known: &Known, ended: &AttemptEnded) -> Broken {
        let key = (known.job.id, ended.attempt);
        let at = || format!("{} attempt {}: {ended:?}", self.name(key.0), ended.attempt);
        let place = self.places.get(&key);
        let certain = ended.receipt.proof.is_certain();
        if certain && place.is_some_and(Place::is_alive) {
            return broken("ended while its tree lives", at());
        }
        if ended.receipt.proof == Proof::NeverStarted && place.is_some_and(|place| place.tree.is_some()) {
            return broken("never started, but it was", at());
        }
        if !certain {
            return match ended.outcome {
                Outcome::Lost => Ok(()),
                _ => broken("unaccounted is not lost", at()),
            };
        }
        let stop = known.job.stop.as_ref().map(|stop| stop.cause);
        let limit = known.limit.filter(|(attempt, _)| *attempt == ended.attempt).map(|(_, limit)| limit);
        let receipt = &ended.receipt;
        let right = match (stop, ended.outcome, ended.cause) {
            (Some(Cause::Limit(stopped)), outcome, cause) => {
                outcome == stopped.into() && cause == Cause::Limit(stopped) && limit == Some(stopped)
            }
            (Some(Cause::Abandoned), outcome, cause) => outcome == Outcome::Lost && cause == Cause::Abandoned,
            (Some(stopped), Outcome::Cancelled(_), cause) => cause == stopped,
            (Some(_), _, _) => false,
            (None, Outcome::TimedOut(_) | Outcome::OverBudget(_), _) => {
                limit.is_none() && receipt.keeper_stop.is_some_and(|why| why != KeeperStop::LocalCancel)
            }
            (None, Outcome::Cancelled(_), _) => receipt.keeper_stop == Some(KeeperStop::LocalCancel),
            (None, Outcome::Completed, _) => limit.is_none() && receipt.exit == Some(Exit::Code(0)),
            (None, Outcome::Failed, _) => limit.is_none() && receipt.exit != Some(Exit::Code(0)),
            (None, Outcome::Lost, _) => receipt.exit.is_none(),
        };
        if right { Ok(()) } else { broken("the causes are mixed up", format!("stop {stop:?}, {}", at())) }
    }

    /// Checks the last word: that it is the first, that it says what the deciding attempt says, and that nothing lives.
    fn look_at_last_word(&self, known: &Known, word: &LastWord) -> Broken {
        let id = known.job.id;
        let at = || format!("{}: {word:?}", self.name(id));
        if known.job.is_ended() {
            return broken("a second last word", at());
        }
        if let Some(((_, attempt), _)) = self
            .places
            .iter()
            .find(|(key, place)| key.0 == id && place.is_alive() && !is_given_up(&known.job, key.1))
        {
            return broken("alive after the last word", format!("attempt {attempt} of {}", at()));
        }
        let right = match word.attempt {
            Some(attempt) => {
                let last = known.job.attempts.last().filter(|last| last.no == attempt);
                let end = last.and_then(|last| last.end.as_ref());
                end.is_some_and(|end| end.outcome == word.outcome && end.cause == word.cause)
            }
            None => match (word.outcome, word.cause) {
                (Outcome::Cancelled(Begun::BeforeStart), Cause::Dependency) => true,
                (Outcome::Cancelled(begun), Cause::User | Cause::Shutdown | Cause::ParentGone) => {
                    (begun == Begun::WhileRunning) == known.job.has_begun()
                }
                _ => false,
            },
        };
        if right { Ok(()) } else { broken("the last word differs from its attempt", at()) }
    }

    /// A tree has just come to life.
    pub(super) fn check_launch(&mut self, (job, attempt): Key) {
        let what = format!("attempt {attempt} of {}", self.name(job));
        let known = self.witness.get(&job);
        let judgement = match known {
            None => broken("launched without a record", what),
            Some(known) if known.job.is_ended() => broken("launched after the last word", what),
            Some(known) if !known.job.attempts.iter().any(|one| one.no == attempt) => {
                broken("launched without a record", what)
            }
            Some(known) => {
                let others = self.places.iter().filter(|(key, _)| key.0 == job && key.1 != attempt);
                let mut others =
                    others.filter(|(key, other)| other.is_alive() && !is_given_up(&known.job, key.1));
                match others.next() {
                    Some(((_, other), _)) => broken("two live trees", format!("attempt {other} and {what}")),
                    None => Ok(()),
                }
            }
        };
        self.judge(judgement);
        let mark = self
            .plan
            .early
            .iter()
            .chain(&self.plan.late)
            .find(|planned| planned.id == job)
            .map(|planned| &planned.mark);
        let kept = self.envs.get(&job);
        if kept.is_none() || (mark.is_some() && kept != mark) {
            let kept = kept.cloned();
            self.fail("launched without its environment", |world| {
                format!("{} sees {kept:?}", world.name(job))
            });
        }
    }

    /// The engine wants something done.
    pub(super) fn check_order(&mut self, order: &Order) {
        let Some(known) = self.witness.get(&order.job.id) else { return };
        let what = || format!("{:?} for {}", order.effect, self.name(order.job.id));
        let judgement = match &order.effect {
            Effect::Launch { attempt } => {
                let intended = known.job.attempts.iter().find(|one| one.no == *attempt);
                match intended.is_some_and(|one| one.epoch == order.epoch) {
                    true => Ok(()),
                    false => broken("launched without looking", what()),
                }
            }
            Effect::Stop { cause: Cause::User | Cause::Shutdown | Cause::ParentGone, .. } => {
                match known.job.is_ended() || known.job.stop.is_some() || order.job.stop.is_none() {
                    true => Ok(()),
                    false => broken("signal before the request was durable", what()),
                }
            }
            _ => Ok(()),
        };
        self.judge(judgement);
    }

    /// A leader has read something: each input once, in order, and as it was asked for.
    pub(super) fn check_inputs(&mut self, key: Key) {
        let Some(tree) = self.places.get(&key).and_then(|place| place.tree.as_ref()) else { return };
        let Some(known) = self.witness.get(&key.0) else { return };
        let what = || format!("{} attempt {} read {:?}", self.name(key.0), key.1, tree.read);
        let in_order = tree.read.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let asked = tree.read.iter().all(|read| known.inputs.contains(read));
        let others = self.places.iter().filter(|(other, _)| other.0 == key.0 && other.1 != key.1);
        let mut elsewhere = others.filter_map(|(_, place)| place.tree.as_ref()).flat_map(|tree| &tree.read);
        let judgement = match tree.read.last() {
            _ if !in_order => broken("inputs came in another order", what()),
            _ if !asked => broken("an input was read that nobody sent", what()),
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
        // A change of the group that came while the claim was on its way need not be obeyed.
        let settled = self.groups_settled_at().is_some_and(|at| at < sent_at);
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

    /// Returns a group as it is durable. The default one is there although nobody made it.
    pub(super) fn group(&self, name: &str) -> Option<Group> {
        let stored = self.ledger.groups().into_iter().find(|group| group.name == name);
        let default = || Group { name: name.to_owned(), slots: self.plan.default_slots, paused: false };
        stored.or_else(|| (name == DEFAULT_GROUP).then(default))
    }

    /// A job was removed from the journal.
    pub(super) fn removed(&mut self, job: JobId) {
        if let Some(known) = self.witness.get_mut(&job) {
            known.removed = true;
        }
    }

    /// The environment of a job is gone. It is needed until the last word.
    pub(super) fn env_dropped(&mut self, job: JobId) {
        self.envs.remove(&job);
        self.check_env_is_not_needed(job);
    }

    /// What was kept of a job is gone.
    pub(super) fn remains_removed(&mut self, job: JobId) {
        self.envs.remove(&job);
        self.check_env_is_not_needed(job);
        self.places.retain(|(of, _), place| *of != job || place.is_alive());
    }

    /// The environments of all jobs that are not live are gone.
    pub(super) fn envs_swept(&mut self, live: &HashSet<JobId>) -> u32 {
        let kept = &self.life.kept;
        let swept: Vec<JobId> =
            self.envs.keys().copied().filter(|job| !live.contains(job) && !kept.contains(job)).collect();
        for job in &swept {
            self.env_dropped(*job);
        }
        swept.len() as u32
    }

    fn check_env_is_not_needed(&mut self, job: JobId) {
        let live =
            self.witness.get(&job).is_some_and(|known| known.phase().is_some() && !known.job.is_ended());
        if live {
            self.fail("the environment of a live job was removed", |world| world.name(job));
        }
    }
}

/// Reports whether an attempt was given up without a certain proof: then something of it may live.
pub(super) fn is_given_up(job: &Job, attempt: AttemptNo) -> bool {
    let end = job.attempts.iter().find(|one| one.no == attempt).and_then(|one| one.end.as_ref());
    end.is_some_and(|end| !end.receipt.proof.is_certain())
}
