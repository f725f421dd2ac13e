//! The witness: sees every fact of a job as it becomes durable, knows which trees really live, and compares.

use std::collections::btree_map::Range;

use lastword_core::event::{AttemptEnded, LastWord, TurnEnding};
use lastword_core::limits::Limit;
use lastword_core::outcome::{Begun, Cause, Outcome};
use lastword_core::receipt::{Exit, KeeperStop, Proof};
use lastword_core::view::row::PhaseName;
use lastword_core::{AttemptNo, Epoch, Event, Fact, InputNo, Job, JobId, Seq};

use super::place::{Key, Place, Places};

/// A judgement: nothing is wrong, or this promise was broken, and how.
pub(crate) type Judgement = Result<(), (&'static str, String)>;

/// Returns the judgement that a promise was broken.
pub(crate) fn broken(promise: &'static str, detail: String) -> Judgement {
    Err((promise, detail))
}

/// What the witness knows of one job.
pub(crate) struct Known {
    /// The fold of what is durable.
    pub(crate) job: Job,
    pub(crate) events: Vec<Event>,
    /// Where the log stood when a cancel was first acknowledged.
    cancelled: Option<Seq>,
    /// Turns that have started and not ended.
    pub(crate) turns_open: u32,
    /// Why the job was to stop before its last turn ended: the end of an attempt ends its turn first.
    stop_at_turn: Option<Cause>,
    limit: Option<(AttemptNo, Limit)>,
    /// The agent had nothing left to do when the first reason to stop was stored.
    idle_at_stop: bool,
}

impl Known {
    pub(crate) fn new(job: JobId) -> Known {
        Known {
            job: Job::unborn(job),
            events: Vec::new(),
            cancelled: None,
            turns_open: 0,
            stop_at_turn: None,
            limit: None,
            idle_at_stop: false,
        }
    }

    /// Returns the phase of the job, as far as it is durable.
    pub(crate) fn phase(&self) -> Option<PhaseName> {
        PhaseName::of(&self.job)
    }

    /// Reports whether the job exists and has not ended.
    pub(crate) fn is_live(&self) -> bool {
        self.job.version > Seq(0) && !self.job.is_ended()
    }

    /// Notes that a client was told that a cancel is stored, at this position of the log at the latest.
    pub(crate) fn cancel_acknowledged(&mut self, at: Seq) {
        self.cancelled.get_or_insert(at);
    }

    /// What followed the first events is lost. What was promised of it counts no more.
    pub(crate) fn roll_back(&mut self, kept: usize) -> Judgement {
        let mut events = std::mem::take(&mut self.events);
        events.truncate(kept);
        *self = Known::new(self.job.id);
        for event in &events {
            self.job.apply(event).or_else(|illegal| broken("log does not fold", illegal.to_string()))?;
        }
        self.events = events;
        Ok(())
    }

    /// A fact has become durable in a job whose log has lost some: what was lost may explain it, so only this much is checked.
    pub(crate) fn witness_after_loss<P>(&mut self, event: &Event, places: &Places<P>) -> Judgement {
        if matches!(event.fact, Fact::LastWord(_)) {
            if self.job.is_ended() {
                return broken("a second last word", format!("#{}", event.seq));
            }
            self.check_none_kept(places, None)?;
        }
        self.job.apply(event).or_else(|illegal| broken("log does not fold", illegal.to_string()))?;
        self.events.push(event.clone());
        Ok(())
    }

    /// Checks that no tree of the job lives but that of `except`, whatever the log says. One that lost its keeper is not known to anyone once
    /// its launch is lost.
    pub(crate) fn check_none_kept<P>(&self, places: &Places<P>, except: Option<Key>) -> Judgement {
        let mut others = of(places, self.job.id).filter(|(key, _)| Some(**key) != except);
        match others.find(|(_, place)| place.is_alive() && !place.is_orphan()) {
            Some((key, _)) if except.is_some() => broken("two live trees", format!("{key:?} and {except:?}")),
            Some((key, _)) => broken("alive after the last word", format!("{key:?}")),
            None => Ok(()),
        }
    }

    /// A fact has become durable. Checks it against the log so far and against the places, and folds it.
    pub(crate) fn witness<P>(&mut self, event: &Event, places: &Places<P>) -> Judgement {
        let before = &self.job;
        let at = || format!("#{}: {:?}", event.seq, event.fact);
        match &event.fact {
            Fact::LaunchIntended(_) if self.cancelled.is_some_and(|seq| event.seq > seq) => {
                return broken("launched after an acknowledged cancel", at());
            }
            Fact::InputRequested(_) if before.input_closed => {
                return broken("an input after the last one", at());
            }
            Fact::InputRequested(request) => {
                let twice = |other: &Event| matches!(&other.fact, Fact::InputRequested(one) if one.text == request.text);
                if self.events.iter().any(twice) {
                    return broken("an input was requested twice", at());
                }
            }
            Fact::LimitFired(fired) => {
                if self.limit.is_some_and(|(attempt, _)| attempt == fired.attempt) {
                    return broken("a limit fired twice", at());
                }
                self.limit = Some((fired.attempt, fired.limit));
            }
            Fact::InputDelivered(delivered) if before.idle && is_message(before, delivered.input) => {
                return broken("a message was given to an idle agent that had no slot", at());
            }
            Fact::TurnStarted(_) => self.turns_open += 1,
            Fact::TurnEnded(ended) => {
                self.turns_open = self.turns_open.saturating_sub(1);
                self.stop_at_turn = before.stop.as_ref().map(|stop| stop.cause);
                if ended.commit.is_some() && ended.ending != TurnEnding::Completed {
                    return broken("only a completed turn commits", at());
                }
            }
            Fact::AttemptEnded(ended) => self.check_attempt(ended, places)?,
            Fact::LastWord(word) => self.check_last_word(word, places)?,
            _ => {}
        }
        self.fold(event)?;
        self.events.push(event.clone());
        Ok(())
    }

    /// Folds a fact, which must keep usage, session and conversation consistent.
    fn fold(&mut self, event: &Event) -> Judgement {
        let at = || format!("#{}: {:?}", event.seq, event.fact);
        let usage = self.job.usage;
        let talked =
            self.job.session.as_ref().map(|session| (session.attempt, session.conversation.messages));
        let (is_stopping, is_idle) = (self.job.stop.is_some(), self.is_idle());
        self.job.apply(event).or_else(|illegal| broken("log does not fold", illegal.to_string()))?;
        if !is_stopping {
            self.idle_at_stop = is_idle && self.job.stop.is_some();
        }
        let after = &self.job;
        if after.usage.tokens() < usage.tokens() || after.usage.money_micros < usage.money_micros {
            return broken("usage decreased", at());
        }
        let Some(session) = &after.session else { return Ok(()) };
        if !session.state.may_hold_turn() && (session.active.is_some() || !session.questions.is_empty()) {
            return broken("an inactive session holds a turn", at());
        }
        let changed = talked.is_some_and(|(attempt, messages)| {
            attempt == session.attempt && messages != session.conversation.messages
        });
        match &event.fact {
            Fact::TurnEnded(ended) if ended.ending == TurnEnding::Completed => Ok(()),
            _ if changed => broken("the conversation changed without a turn", at()),
            _ => Ok(()),
        }
    }

    /// Checks the end of an attempt against the tree and against what was asked.
    fn check_attempt<P>(&self, ended: &AttemptEnded, places: &Places<P>) -> Judgement {
        let at = || format!("attempt {}: {ended:?}", ended.attempt);
        let proof = ended.receipt.proof;
        for (_, place) in of(places, self.job.id).filter(|(key, _)| key.attempt == ended.attempt) {
            if proof.is_certain() && place.is_alive() && !is_missed(place, proof) {
                return broken("ended while its tree lives", at());
            }
            if proof == Proof::NeverStarted && place.tree.is_some() {
                return broken("never started, but it was", at());
            }
        }
        if !proof.is_certain() {
            return match ended.outcome {
                Outcome::Lost => Ok(()),
                _ => broken("unaccounted is not lost", at()),
            };
        }
        let stop = self.job.stop.as_ref().map(|stop| stop.cause);
        if ended.cut_short.is_some() && !self.was_over(ended) {
            return broken("called over before it was", at());
        }
        let turn_just_ended = matches!(self.events.last(), Some(Event { fact: Fact::TurnEnded(_), .. }));
        if self.fits(ended, stop) || (turn_just_ended && self.fits(ended, self.stop_at_turn)) {
            return Ok(());
        }
        broken("the causes are mixed up", format!("stop {stop:?}, {}", at()))
    }

    /// Reports whether an attempt with a certain end ended as it had to, given the first reason to stop.
    fn fits(&self, ended: &AttemptEnded, stop: Option<Cause>) -> bool {
        let limit = self.limit.filter(|(attempt, _)| *attempt == ended.attempt).map(|(_, limit)| limit);
        let receipt = &ended.receipt;
        if self.was_over(ended) {
            let completed = self.did_its_work(ended);
            return match (ended.outcome, ended.cause) {
                // Only a stop ends an agent that stays open, and is the cause.
                (Outcome::Completed, cause) if self.job.stays_open() && stop.is_some() => {
                    completed && stop == Some(cause)
                }
                (Outcome::Completed, Cause::Finished) => completed,
                (Outcome::Failed, Cause::Agent) => !completed,
                _ => false,
            };
        }
        match (stop, ended.outcome, ended.cause) {
            // The first reason in the log stands.
            (Some(Cause::Limit(stopped)), outcome, cause) => {
                outcome == stopped.into() && cause == Cause::Limit(stopped) && limit == Some(stopped)
            }
            (Some(Cause::Agent), outcome, cause) => outcome == Outcome::Failed && cause == Cause::Agent,
            (Some(Cause::Abandoned), outcome, cause) => outcome == Outcome::Lost && cause == Cause::Abandoned,
            (Some(stopped), Outcome::Cancelled(_), cause) => cause == stopped,
            (Some(_), _, _) => false,
            // Nothing asked for it and no limit fired: the keeper's reasons and the exit.
            (None, Outcome::TimedOut(_) | Outcome::OverBudget(_), _) => {
                let keepers = matches!(
                    receipt.keeper_stop,
                    Some(KeeperStop::Deadline | KeeperStop::LocalStall | KeeperStop::LocalBudget(_))
                );
                limit.is_none() && keepers
            }
            (None, Outcome::Cancelled(_), _) => receipt.keeper_stop == Some(KeeperStop::LocalCancel),
            (None, Outcome::Completed, _) => limit.is_none() && self.did_its_work(ended),
            (None, Outcome::Failed, _) => {
                limit.is_none() && (self.job.reports_turns() || receipt.exit != Some(Exit::Code(0)))
            }
            (None, Outcome::Lost, _) => {
                receipt.exit.is_none() || receipt.keeper_stop == Some(KeeperStop::Lease)
            }
        }
    }

    /// Reports whether the work of an attempt was over before anything asked for a stop, with nothing left to do: a stop that came later
    /// changes nothing.
    fn was_over(&self, ended: &AttemptEnded) -> bool {
        let receipt = &ended.receipt;
        if self.job.abandoned || receipt.exit.is_none() || receipt.keeper_stop == Some(KeeperStop::Lease) {
            return false;
        }
        match (self.job.reports_turns(), &self.job.stop) {
            (true, Some(_)) => self.idle_at_stop,
            (true, None) => receipt.exited_first && self.is_idle(),
            (false, _) => {
                receipt.exited_first && (receipt.exit == Some(Exit::Code(0)) || !self.has_tries_left())
            }
        }
    }

    /// Reports whether an agent has completed its last turn, has no inputs left and runs nothing in the background.
    fn is_idle(&self) -> bool {
        let newest = self.job.attempts.last().map(|attempt| attempt.no);
        let session = self.job.session.as_ref().filter(|session| Some(session.attempt) == newest);
        self.job.reports_turns()
            && self.job.inputs.is_empty()
            && (self.job.idle || !self.job.stays_open())
            && session.is_some_and(|session| {
                let completed = matches!(session.last_turn, Some((_, TurnEnding::Completed)));
                completed && session.active.is_none() && session.background == 0
            })
    }

    /// Reports whether the open attempt would be followed by another one if it failed.
    fn has_tries_left(&self) -> bool {
        let ends = self.job.attempts.iter().filter_map(|attempt| attempt.end.as_ref());
        let tries =
            ends.filter(|end| end.receipt.proof != Proof::NeverStarted || end.error.is_some()).count();
        let spec = self.job.spec.as_ref();
        spec.is_some_and(|spec| tries + 1 < spec.retry.attempts_max as usize)
    }

    /// Reports whether an attempt has done its work: an agent by its last turn, however it exits, a command by its exit.
    fn did_its_work(&self, ended: &AttemptEnded) -> bool {
        if self.idle_at_stop {
            return true;
        }
        let last_turn = self.job.session.as_ref().and_then(|session| session.last_turn);
        match self.job.reports_turns() {
            true => matches!(last_turn, Some((_, TurnEnding::Completed))) && self.job.active_turn().is_none(),
            false => ended.receipt.exit == Some(Exit::Code(0)),
        }
    }

    /// Checks the last word: that it is the first, that it says what the deciding attempt says, that nothing lives, and that no cancel is
    /// forgotten.
    fn check_last_word<P>(&self, word: &LastWord, places: &Places<P>) -> Judgement {
        let at = || format!("{word:?}");
        if self.job.is_ended() {
            return broken("a second last word", at());
        }
        self.check_nothing_lives(places)?;
        match word.attempt {
            Some(attempt) => {
                let last = self.job.attempts.last().filter(|last| last.no == attempt);
                let end = last.and_then(|last| last.end.as_ref());
                if !end.is_some_and(|end| end.outcome == word.outcome && end.cause == word.cause) {
                    return broken("the last word differs from its attempt", at());
                }
            }
            None => {
                let right = match (word.outcome, word.cause) {
                    (
                        Outcome::Cancelled(Begun::BeforeStart),
                        Cause::Dependency | Cause::DependencyRemoved,
                    ) => true,
                    (
                        Outcome::Cancelled(begun),
                        Cause::User | Cause::Shutdown | Cause::ParentGone | Cause::ReaderGone,
                    ) => (begun == Begun::WhileRunning) == self.job.has_begun(),
                    _ => false,
                };
                if !right || self.job.open_attempt().is_some() {
                    return broken("the causes are mixed up", at());
                }
            }
        }
        // Cancelled, or what was in the log before the cancel, or lost.
        let first = self.job.stop.as_ref().map(|stop| stop.cause);
        let end = self.job.attempts.last().and_then(|attempt| attempt.end.as_ref());
        let right = match word.outcome {
            _ if self.cancelled.is_none() || end.is_some_and(|end| end.cut_short.is_some()) => true,
            Outcome::Cancelled(_) | Outcome::Lost => true,
            Outcome::TimedOut(_) | Outcome::OverBudget(_) => matches!(first, Some(Cause::Limit(_))),
            Outcome::Failed => first == Some(Cause::Agent),
            // Only a stop ends an agent that stays open: it did what it was told.
            Outcome::Completed => self.job.stays_open() && word.cause == first.unwrap_or(word.cause),
        };
        if right { Ok(()) } else { broken("an acknowledged cancel is forgotten", at()) }
    }

    /// Checks that no tree of the job lives, now that it has its last word.
    pub(crate) fn check_nothing_lives<P>(&self, places: &Places<P>) -> Judgement {
        let mut alive = of(places, self.job.id).filter(|(key, place)| self.counts(key.attempt, place));
        match alive.next() {
            Some((key, _)) => broken("alive after the last word", format!("{key:?}")),
            None => Ok(()),
        }
    }

    /// Checks a tree that has just come to life: it was intended, its attempt has not ended, and it is the only one of its job on any host.
    pub(crate) fn check_launch<P>(&self, key: Key, places: &Places<P>) -> Judgement {
        let Some(attempt) = self.job.attempts.iter().find(|one| one.no == key.attempt) else {
            return broken("launched without a record", format!("{key:?}"));
        };
        if attempt.end.as_ref().is_some_and(|end| end.receipt.proof.is_certain()) {
            return broken("alive after its certain end", format!("{key:?}"));
        }
        let others = of(places, key.job).filter(|(other, _)| **other != key);
        match others.into_iter().find(|(other, place)| self.counts(other.attempt, place)) {
            Some((other, _)) => broken("two live trees", format!("{other:?} and {key:?}")),
            None => Ok(()),
        }
    }

    /// Checks that a launch is ordered by the claim that intended it: a later owner looks first.
    pub(crate) fn check_order(&self, attempt: AttemptNo, epoch: Epoch) -> Judgement {
        let intended = |event: &Event| match &event.fact {
            Fact::LaunchIntended(intent) => intent.attempt == attempt && intent.epoch == epoch,
            _ => false,
        };
        match self.events.iter().any(intended) {
            true => Ok(()),
            false => broken("launched without looking", format!("attempt {attempt}, epoch {epoch}")),
        }
    }

    /// Reports whether a place has a live tree that some promise covers: it was not given up without certainty.
    fn counts<P>(&self, attempt: AttemptNo, place: &Place<P>) -> bool {
        let end = self.job.attempts.iter().find(|one| one.no == attempt).and_then(|one| one.end.as_ref());
        let given_up = end.is_some_and(|end| {
            let proof = end.receipt.proof;
            !proof.is_certain() || is_missed(place, proof)
        });
        place.is_alive() && !given_up
    }
}

/// Reports whether a lease was to end a tree that had no keeper left: no owner on another host can know of such an orphan.
/// Reports whether a pending input is a message, not an answer.
fn is_message(job: &Job, input: InputNo) -> bool {
    job.inputs.iter().any(|pending| pending.no == input && pending.question.is_none())
}

fn is_missed<P>(place: &Place<P>, proof: Proof) -> bool {
    place.is_orphan() && proof == Proof::LeaseSelfFenced
}

/// Returns the places of a job, on all hosts.
pub(crate) fn of<P>(places: &Places<P>, job: JobId) -> Range<'_, Key, Place<P>> {
    let first = Key { job, attempt: AttemptNo(0), host: 0 };
    let last = Key { job, attempt: AttemptNo(u32::MAX), host: usize::MAX };
    places.range(first..=last)
}
