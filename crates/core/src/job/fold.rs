//! The fold: applies events to a job one by one, and refuses those that cannot follow.
//!
//! Its parts are `requests`, facts that anyone may write; `owner`, what the owner does; and `agent`, what the agent reports.

use crate::append::Illegal;
use crate::event::{Event, Fact};
use crate::ids::{AttemptNo, JobId, Timestamp};
use crate::job::{Attempt, Job, Phase};
use crate::session::Session;
use crate::view::row::PhaseName;

/// Whether a fact can follow; if not, the rule it breaks.
pub(super) type Followed = Result<(), &'static str>;

impl Job {
    /// Folds a whole log.
    pub fn fold<'a>(id: JobId, events: impl IntoIterator<Item = &'a Event>) -> Result<Job, Illegal> {
        let mut job = Job::unborn(id);
        for event in events {
            job.apply(event)?;
        }
        Ok(job)
    }

    /// Applies one event.
    pub fn apply(&mut self, event: &Event) -> Result<(), Illegal> {
        let place = (event.seq == self.version.next(), &self.phase, &event.fact);
        match place {
            (false, _, _) => return self.refuse(event, "it is not the next event"),
            (_, Phase::Ended(_), fact) if self.may_follow_the_end(fact) => {}
            (_, Phase::Ended(_), _) => return self.refuse(event, "the job has ended"),
            (_, Phase::Unborn, Fact::Submitted(_)) => {}
            (_, Phase::Unborn, _) => return self.refuse(event, "the job was not submitted"),
            (_, _, Fact::Submitted(_)) => return self.refuse(event, "the job was submitted already"),
            _ => {}
        }
        let before = (self.state(), self.is_ended());
        if let Err(why) = self.change(event.at, &event.fact) {
            return self.refuse(event, why);
        }
        self.version = event.seq;
        if self.state() != before.0 {
            self.changed_at = event.at;
        }
        // A late report is no change, and after its end a job has none.
        if !before.1 && !matches!(event.fact, Fact::LateReported(_)) {
            self.updated_at = event.at;
        }
        Ok(())
    }

    /// Returns the state by whose changes lists are ordered. From its claim on a job is with a worker; that its tree is being started, and
    /// then runs, follows within a moment, and would move the job in every list twice more.
    fn state(&self) -> (Option<PhaseName>, bool, bool, bool) {
        let phase = match &self.phase {
            Phase::Queued { .. } if self.holder.is_some() => Some(PhaseName::Running),
            Phase::Launching => Some(PhaseName::Running),
            _ => PhaseName::of(self),
        };
        (phase, self.waits_for_person(), self.active_turn().is_some(), self.continued_by.is_some())
    }

    /// Reports whether a fact may follow the last word. None of these changes how the job ended: one is about what came too late, the others
    /// about the conversation of an agent, which goes on as another job.
    fn may_follow_the_end(&self, fact: &Fact) -> bool {
        let goes_on = self.continued_by.is_some() && !matches!(fact, Fact::Continued(_));
        matches!(fact, Fact::LateReported(_))
            || (fact.is_of_conversation() && self.reports_turns() && !goes_on)
    }

    fn refuse(&self, event: &Event, why: &'static str) -> Result<(), Illegal> {
        Err(Illegal::OutOfPlace {
            job: self.id,
            after: self.version,
            kind: event.fact.kind().to_owned(),
            why,
        })
    }

    fn change(&mut self, at: Timestamp, fact: &Fact) -> Followed {
        match fact {
            Fact::Submitted(submitted) => self.submitted(at, submitted),
            Fact::DependencySettled(settled) => self.dependency_over(settled.job),
            Fact::DependencyRemoved(removed) => self.dependency_over(removed.job),
            Fact::Rescheduled(rescheduled) => self.rescheduled(rescheduled),
            Fact::CancelRequested(request) => self.cancel_requested(at, request),
            Fact::LimitChanged(change) => self.limit_changed(change),
            Fact::LabelsChanged(change) => self.labels_changed(change),
            Fact::ProgressReported(reported) => self.progress_reported(at, reported),
            Fact::InputRequested(request) => self.input_requested(at, request),
            Fact::AnswerRequested(request) => self.answer_requested(request),
            Fact::InterruptRequested(request) => self.expect_session()?.interrupt(request.turn),
            Fact::Abandoned(abandoned) => self.given_up(at, abandoned),
            Fact::Claimed(claim) => self.claimed(claim),
            Fact::Released(_) => self.released(),
            Fact::LaunchIntended(intent) => self.launch_intended(intent),
            Fact::Launched(launched) => self.launched(at, launched),
            Fact::Adopted(adopted) => self.adopted(at, adopted),
            Fact::StopBegan(began) => self.stop_began(at, began),
            Fact::RungClimbed(climbed) => self.rung_climbed(climbed),
            Fact::LimitFired(fired) => self.limit_fired(at, fired),
            Fact::LimitNeared(neared) => self.limit_neared(neared),
            Fact::Paused(paused) => self.paused(at, paused),
            Fact::Unpaused(unpaused) => self.unpaused(unpaused),
            Fact::Rested(rested) => self.rested(rested),
            Fact::RuleAdded(added) => self.rule_added(at, added),
            Fact::RuleRemoved(removed) => self.rule_removed(removed),
            Fact::Woken(woken) => self.woken(woken),
            Fact::InputDelivered(delivered) => self.input_delivered(delivered),
            Fact::SessionStarted(started) => self.session_started(started),
            Fact::SessionChanged(changed) => self.session_changed(changed),
            Fact::TurnStarted(started) => self.turn_started(at, started),
            Fact::QuestionAsked(asked) => self.question_asked(at, asked),
            Fact::QuestionClosed(closed) => self.question_closed(closed),
            Fact::ItemCompleted(item) => {
                self.answered();
                if let Some(session) = &mut self.session {
                    session.note_item(&item.title);
                }
                self.heard(item.offset)
            }
            Fact::ProviderRefused(refused) => self.provider_refused(refused),
            Fact::ProviderAwaited(awaited) => self.provider_awaited(awaited),
            Fact::ProviderOpened(opened) => self.provider_opened(opened),
            Fact::Spent(spent) => self.spent(spent),
            Fact::TurnEnded(ended) => self.turn_ended(at, ended),
            Fact::AttemptEnded(ended) => self.attempt_ended(at, ended),
            Fact::RetryScheduled(retry) => self.retry_scheduled(retry),
            Fact::LastWord(last_word) => self.ended(last_word),
            Fact::LateReported(_) => {
                self.late = self.late.saturating_add(1);
                Ok(())
            }
            Fact::Continued(continued) => self.continued(continued),
            Fact::Joined(joined) => self.joined(joined),
            Fact::ChildSubmitted(submitted) => self.child_submitted(submitted),
            Fact::ChildEnded(ended) => self.child_ended(ended),
            Fact::ChildrenAwaited(awaited) => self.children_awaited(&awaited.word),
            Fact::Unknown(_) => {
                self.foreign = true;
                Ok(())
            }
        }
    }

    pub(super) fn open_attempt_mut(&mut self) -> Option<&mut Attempt> {
        self.attempts.last_mut().filter(|attempt| attempt.end.is_none())
    }

    pub(super) fn expect_open(&mut self, no: AttemptNo) -> Result<&mut Attempt, &'static str> {
        self.open_attempt_mut().filter(|attempt| attempt.no == no).ok_or("that attempt is not open")
    }

    pub(super) fn expect_session(&mut self) -> Result<&mut Session, &'static str> {
        self.session.as_mut().ok_or("there is no session")
    }
}
