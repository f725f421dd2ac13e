//! Folds requests: facts that anyone may write.

use std::sync::Arc;

use super::fold::Followed;
use crate::event::{
    Abandoned, AnswerRequested, CancelRequested, Continued, InputRequested, Joined, LabelsChanged,
    LimitChanged, ProgressReported, Rescheduled, RuleAdded, RuleRemoved, Submitted,
};
use crate::ids::{JobId, Timestamp};
use crate::job::{Job, PendingInput, Phase, Progress, Stop, Waits};
use crate::outcome::Cause;
use crate::question::{Reply, StandingRule};

impl Job {
    pub(super) fn submitted(&mut self, at: Timestamp, submitted: &Submitted) -> Followed {
        (self.submitted_at, self.queued_at) = (at, at);
        self.limits = submitted.limits;
        self.labels = submitted.spec.labels.clone();
        self.unmet = submitted.spec.after.clone();
        self.spec = Some(Arc::clone(&submitted.spec));
        self.position = submitted.spec.conversation;
        if let Some(carried) = &submitted.carried {
            self.spent_before = carried.spent;
            (self.rules, self.rules_made) = (carried.rules.clone(), carried.rules_made);
        }
        self.phase = Phase::Queued { waits: self.waits() };
        Ok(())
    }

    fn waits(&self) -> Waits {
        let not_before = self.spec.as_ref().and_then(|spec| spec.not_before);
        match not_before {
            _ if !self.unmet.is_empty() => Waits::Dependencies,
            Some(at) => Waits::Until(at),
            None => Waits::Slot,
        }
    }

    pub(super) fn dependency_over(&mut self, other: JobId) -> Followed {
        self.unmet.retain(|dependency| dependency.job != other);
        if matches!(self.phase, Phase::Queued { .. }) {
            self.phase = Phase::Queued { waits: self.waits() };
        }
        Ok(())
    }

    pub(super) fn rescheduled(&mut self, rescheduled: &Rescheduled) -> Followed {
        match &mut self.phase {
            _ if self.idle && self.inputs.iter().any(|input| input.question.is_none()) => {
                self.queued_at = rescheduled.due;
            }
            _ if self.holder.is_some() => return Err("the job has a holder"),
            Phase::Queued { waits: Waits::Slot } => self.queued_at = rescheduled.due,
            Phase::Backoff { until } => *until = rescheduled.due,
            _ => return Err("it does not wait for a slot or its next attempt"),
        }
        Ok(())
    }

    pub(super) fn cancel_requested(&mut self, at: Timestamp, request: &CancelRequested) -> Followed {
        if self.open_attempt().is_none() && !matches!(self.phase, Phase::Awaiting(_)) {
            return Err("no attempt is open");
        }
        self.stop_for(request.asked.into(), at, Some(&request.by), request.force);
        Ok(())
    }

    pub(super) fn limit_changed(&mut self, change: &LimitChanged) -> Followed {
        self.limits.set(change.limit, change.value);
        Ok(())
    }

    pub(super) fn labels_changed(&mut self, change: &LabelsChanged) -> Followed {
        change.apply(&mut self.labels);
        Ok(())
    }

    pub(super) fn progress_reported(&mut self, at: Timestamp, reported: &ProgressReported) -> Followed {
        self.expect_open(reported.attempt)?;
        let said = self.said.get_or_insert_default();
        said.reports = said.reports.saturating_add(1);
        if let Some(text) = &reported.text {
            said.progress = Some(Progress { text: text.clone(), at });
        }
        if let Some(result) = &reported.result {
            said.results = said.results.saturating_add(1);
            said.result = Some(result.as_str().into());
        }
        Ok(())
    }

    pub(super) fn input_requested(&mut self, at: Timestamp, request: &InputRequested) -> Followed {
        if self.idle && !self.wants_turn() {
            self.queued_at = at;
        }
        self.input_closed |= request.eof;
        let &InputRequested { input: no, eof, steer, .. } = request;
        self.push_input(PendingInput {
            no,
            question: None,
            text: request.text.clone(),
            reply: None,
            eof,
            steer,
        });
        Ok(())
    }

    pub(super) fn answer_requested(&mut self, request: &AnswerRequested) -> Followed {
        let (question, text) = (Some(request.question.clone()), request.text.clone());
        let reply = Some(request.reply.clone().unwrap_or_else(|| Reply::from_text(&text)));
        // The question at a limit is ours: nothing of it goes to the agent. A higher limit is a fact of its own.
        if let Some(pause) = self.pause.as_mut().filter(|pause| pause.name() == request.name) {
            pause.is_denied = matches!(reply, Some(Reply::Deny(_)));
            self.inputs_made = request.input;
            return Ok(());
        }
        self.push_input(PendingInput { no: request.input, question, text, reply, eof: false, steer: false });
        self.expect_session()?.answer(&request.question)
    }

    pub(super) fn rule_added(&mut self, at: Timestamp, added: &RuleAdded) -> Followed {
        if added.rule != self.rules_made + 1 {
            return Err("it is not the next rule");
        }
        let RuleAdded { by, rule, tool, request, exact } = added.clone();
        self.rules_made = rule;
        self.rules.push(StandingRule { no: rule, by, at, tool, request, exact });
        Ok(())
    }

    pub(super) fn rule_removed(&mut self, removed: &RuleRemoved) -> Followed {
        let before = self.rules.len();
        self.rules.retain(|rule| rule.no != removed.rule);
        if self.rules.len() < before { Ok(()) } else { Err("there is no such rule") }
    }

    pub(super) fn continued(&mut self, continued: &Continued) -> Followed {
        if !self.is_ended() {
            return Err("the job has not ended");
        }
        if self.continued_by.is_some() && continued.job.is_some() {
            return Err("another job follows already");
        }
        self.continued_by = continued.job;
        Ok(())
    }

    pub(super) fn joined(&mut self, joined: &Joined) -> Followed {
        if self.position.replace(joined.position).is_some() {
            return Err("it has a place in a conversation already");
        }
        self.spent_before = joined.spent;
        Ok(())
    }

    fn push_input(&mut self, input: PendingInput) {
        self.inputs_made = input.no;
        self.inputs.push(input);
    }

    pub(super) fn given_up(&mut self, at: Timestamp, abandoned: &Abandoned) -> Followed {
        self.abandoned = true;
        self.stop_for(Cause::Abandoned, at, Some(&abandoned.by), true);
        Ok(())
    }

    /// Records why the job is to stop. The first reason counts, and force can be added to it. A failed turn is replaced by any other
    /// reason, since it alone does not rule out a retry.
    pub(super) fn stop_for(&mut self, cause: Cause, at: Timestamp, by: Option<&str>, force: bool) {
        let by = by.map(str::to_owned);
        let after_work = self.is_idle_agent();
        let stop = match &mut self.stop {
            Some(stop) => {
                if stop.cause == Cause::Agent && cause != Cause::Agent {
                    (stop.cause, stop.requested_at, stop.by) = (cause, at, by);
                }
                stop
            }
            none => {
                none.insert(Stop { cause, requested_at: at, by, force: false, began_at: None, after_work })
            }
        };
        stop.force |= force;
        self.idle = false;
        if matches!(self.phase, Phase::Launching | Phase::Running) {
            self.phase = Phase::Stopping { since: at, rung: None, alive: None };
        }
    }
}
