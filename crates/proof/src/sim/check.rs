//! Checks that belong to the protocol: what is durable after a crash, which owner may write, and what was spent.

use lastword_core::effects::Effect;
use lastword_core::event::{CancelRequested, LimitChanged, Usage};
use lastword_core::limits::Limit;
use lastword_core::outcome::{Asked, Cause};
use lastword_core::receipt::Proof;
use lastword_core::report::Signal;
use lastword_core::view::row::Row;
use lastword_core::{Append, AppendId, Event, Fact, Fence, InputNo, Job, Seq, Timestamp};
use lastword_store::Error;

use super::plan::JOBS_MAX;
use super::process::Hold;
use super::witness::Watched;
use super::world::{BEAT_MS, World};
use crate::world::place::Key;
use crate::world::witness::{Judgement, broken, of};

impl World {
    pub(super) fn judge(&mut self, judgement: Judgement) {
        if let Err((name, detail)) = judgement {
            self.fail(name, || detail);
        }
    }

    /// An append has become durable.
    pub(super) fn durable(&mut self, append: Append) {
        let Some(job) = self.plan.ids.iter().position(|id| *id == append.job) else { return };
        let judgement = self.watch_append(job, append);
        self.judge(judgement);
    }

    fn watch_append(&mut self, job: usize, append: Append) -> Judgement {
        let by = append.fence.as_ref().map(|fence| fence.owner.to_string());
        let has_lost = self.witness.jobs[job].has_lost;
        for event in append.events {
            let known = &mut self.witness.jobs[job].known;
            self.trace.say(self.now, || {
                let by = by.as_deref().unwrap_or("-");
                format!("job {job} #{} by {by}: {:?}", event.seq, event.fact)
            });
            match has_lost {
                true => known.witness_after_loss(&event, &self.places)?,
                false => known.witness(&event, &self.places)?,
            }
        }
        let known = &self.witness.jobs[job].known;
        if append.row != Row::of(&known.job) {
            return broken("the row is not the fold", format!("job {job}: {:?}", append.row));
        }
        Ok(())
    }

    /// An append was read back after a crash of the journal.
    pub(super) fn recovered(&mut self, append: Append) {
        let Some(job) = self.plan.ids.iter().position(|id| *id == append.job) else {
            return self.fail("torn record accepted", || "a job nobody made".to_owned());
        };
        let watched = &mut self.witness.jobs[job];
        let from = watched.reread;
        let until = from + append.events.len();
        watched.reread = until;
        let events = &watched.known.events;
        if until <= events.len() {
            let same = events[from..until] == append.events;
            if !same {
                self.fail("recovered log differs", || format!("job {job}, after event {from}"));
            }
        } else if from == events.len() {
            // It was on disk, but its caller had not been told.
            self.durable(append);
        } else {
            self.fail("torn record accepted", || format!("job {job}, after event {from}"));
        }
    }

    /// The journal is back: nothing that was acknowledged may be missing.
    pub(super) fn check_recovery(&mut self) {
        for job in 0..JOBS_MAX {
            let watched = &mut self.witness.jobs[job];
            let (read, synced, promised) = (watched.reread, watched.known.events.len(), watched.acknowledged);
            watched.reread = 0;
            if (read as u64) < promised.0 || read < synced {
                self.fail("acknowledged append lost", || {
                    format!("job {job}: {read} events left of {synced} synced, {promised} acknowledged")
                });
            }
        }
    }

    /// A tree has just come to life.
    pub(super) fn check_launch(&mut self, job: usize, key: Key) {
        let watched = &self.witness.jobs[job];
        let judgement = match watched.has_lost {
            true => watched.known.check_none_kept(&self.places, Some(key)),
            false => watched.known.check_launch(key, &self.places),
        };
        self.judge(judgement);
    }

    /// An owner wants something done.
    pub(super) fn check_effect(&mut self, hold: Hold, effect: &Effect) {
        let Watched { known, has_lost, .. } = &self.witness.jobs[hold.job];
        let judgement = match effect {
            // What it follows from may be lost.
            _ if *has_lost => Ok(()),
            Effect::Launch { attempt } => known.check_order(*attempt, hold.epoch),
            Effect::Stop {
                cause: Cause::User | Cause::Shutdown | Cause::ParentGone | Cause::ReaderGone,
                ..
            } => {
                let asked = known.events.iter().any(|event| matches!(event.fact, Fact::CancelRequested(_)));
                match asked {
                    true => Ok(()),
                    false => broken("signal before the request was durable", format!("{effect:?}")),
                }
            }
            _ => Ok(()),
        };
        self.judge(judgement);
    }

    /// An owner was given the time: a limit that has passed must have fired.
    pub(super) fn check_limits(&mut self, hold: Hold) {
        let now = self.clock(self.processes[hold.process].host).awake;
        let Some(hand) = self.processes[hold.process].hand(hold) else { return };
        let late = hand.owner.next_check().is_some_and(|look| look.0 + BEAT_MS < now.0);
        if late && !hand.owner.is_gone() && !hand.owner.waits_for_journal() {
            self.fail("a limit sleeps", || format!("{hold:?} at {now:?}"));
        }
    }

    /// Writes as an owner that was replaced would, at the right version: it must be refused.
    pub(super) fn try_stale_write(&mut self, job: usize, fence: &Fence) {
        let id = self.plan.ids[job];
        let holder = self.store.ledger.row(id).and_then(|row| row.holder.as_ref());
        if holder.is_none_or(|holder| holder == fence) {
            return;
        }
        let Ok(current) = Job::fold(id, &self.store.ledger.load(id, Seq(0))) else { return };
        let facts = vec![lastword_core::event::InputDelivered { input: InputNo(u32::MAX) }.into()];
        let Ok((append, _)) = Append::new(&current, Some(fence), AppendId(1), Timestamp(1), facts) else {
            return;
        };
        match self.store.ledger.append(append) {
            Err(Error::Fenced { .. }) => {}
            other => self.fail("a stale owner's write counts", || format!("{other:?}")),
        }
    }

    /// Everything has ended: what must hold now.
    pub(super) fn last_look(&mut self) {
        for job in 0..JOBS_MAX {
            let judgement = self.look_at_end(job);
            self.judge(judgement);
        }
    }

    fn look_at_end(&self, job: usize) -> Judgement {
        let watched = &self.witness.jobs[job];
        let known = &watched.known;
        if known.job.version == Seq(0) {
            let is_missed = watched.submitted || job < self.plan.specs.len();
            return match is_missed && !watched.has_lost {
                true => broken("a submitted job is missing", format!("job {job}")),
                false => Ok(()),
            };
        }
        if self.store.ledger.row(known.job.id) != Some(&Row::of(&known.job)) {
            return broken("the row is not the fold", format!("job {job}, at the end"));
        }
        if watched.has_lost {
            return known.check_none_kept(&self.places, None);
        }
        if known.turns_open != 0 {
            return broken("a turn without an end", format!("job {job}: {} open", known.turns_open));
        }
        let spent = self.really_spent(job);
        if spent != known.job.usage {
            return broken(
                "the usage is wrong",
                format!("job {job}: {:?}, and {spent:?} was spent", known.job.usage),
            );
        }
        known.check_nothing_lives(&self.places)?;
        self.try_late_change(job)
    }

    /// Adds up what the trees of a job said they spent, as far as they were heard.
    fn really_spent(&self, job: usize) -> Usage {
        let mut spent = Usage::default();
        let known = &self.witness.jobs[job].known;
        for attempt in &known.job.attempts {
            let end = attempt.end.as_ref();
            // With an exit record the recording was read to its end; otherwise as far as the log says.
            let complete = end.is_some_and(|end| end.receipt.proof == Proof::NoChildren);
            let trees = of(&self.places, known.job.id).filter(|(key, _)| key.attempt == attempt.no);
            for tree in trees.filter_map(|(_, place)| place.tree.as_ref()) {
                for (offset, signal) in &tree.leader.recording {
                    if let Signal::Spent(usage) = signal
                        && (complete || *offset <= attempt.heard)
                    {
                        spent.add(*usage);
                    }
                }
            }
        }
        spent
    }

    /// Tries to write to an ended job, past every decision: fold and journal must both refuse.
    fn try_late_change(&self, job: usize) -> Judgement {
        let ended = &self.witness.jobs[job].known.job;
        let change = LimitChanged { by: String::new(), limit: Limit::Wall, value: 1 };
        let request = CancelRequested { by: String::new(), asked: Asked::User, force: true };
        // A limit of an agent is that of its conversation, which may go on.
        let change = (!ended.reports_turns()).then(|| change.into());
        for fact in change.into_iter().chain([Fact::from(request)]) {
            let event = Event { seq: ended.version.next(), at: Timestamp(1), fact };
            if ended.clone().apply(&event).is_ok() {
                return broken("ended is not absorbing", format!("the fold of job {job} took {event:?}"));
            }
            let append = Append {
                job: ended.id,
                expected: ended.version,
                fence: None,
                read_in: None,
                id: AppendId(2),
                at: Timestamp(1),
                events: vec![event],
                row: Row::of(ended),
            };
            if self.store.ledger.append(append).is_ok() {
                return broken("ended is not absorbing", format!("the journal wrote to job {job}"));
            }
        }
        Ok(())
    }
}
