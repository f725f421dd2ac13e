//! Folds what an owner does: claims, attempts and their ends.

use std::sync::Arc;

use super::fold::Followed;
use crate::event::{
    Adopted, AttemptEnded, Claimed, InputDelivered, LastWord, LaunchIntended, Launched, LimitFired,
    LimitNeared, Paused, Rested, RetryScheduled, RungClimbed, StopBegan, Unpaused, Woken,
};
use crate::ids::{Fence, Timestamp};
use crate::job::{Attempt, Holder, Job, Pause, Phase, Waits};
use crate::outcome::Cause;
use crate::receipt::Proof;

impl Job {
    pub(super) fn claimed(&mut self, claim: &Claimed) -> Followed {
        if claim.epoch != self.epoch.next() {
            return Err("the claim is not the next one");
        }
        self.epoch = claim.epoch;
        let fence = Fence { owner: claim.owner.clone(), incarnation: claim.incarnation, epoch: claim.epoch };
        self.holder = Some(Holder { fence, host: claim.host.clone() });
        Ok(())
    }

    pub(super) fn released(&mut self) -> Followed {
        if self.open_attempt().is_some() {
            return Err("an attempt is open");
        }
        self.holder = None;
        Ok(())
    }

    pub(super) fn launch_intended(&mut self, intent: &LaunchIntended) -> Followed {
        let Some(holder) = &self.holder else { return Err("the job has no holder") };
        let (owner, host) = (holder.fence.owner.clone(), holder.host.clone());
        match self.phase {
            Phase::Queued { waits: Waits::Dependencies } => return Err("it waits for other jobs"),
            Phase::Queued { .. } | Phase::Backoff { .. } => {}
            _ => return Err("an attempt is open"),
        }
        if intent.epoch != self.epoch || intent.attempt.0 as usize != self.attempts.len() + 1 {
            return Err("it is not the next attempt of this claim");
        }
        self.attempts.push(Attempt {
            no: intent.attempt,
            epoch: intent.epoch,
            owner,
            host,
            boot: intent.boot.clone(),
            tree: None,
            launched: None,
            started_at: None,
            ended_at: None,
            heard: 0,
            turns_before: self.turns,
            turns_completed: 0,
            was_paused: false,
            asked: None,
            rested_ms: 0,
            was_refused: false,
            end: None,
        });
        // What the attempt before it said is not about this one.
        if let Some(said) = &mut self.said {
            (said.progress, said.result) = (None, None);
        }
        self.note_prompt(intent.attempt);
        self.phase = Phase::Launching;
        Ok(())
    }

    pub(super) fn launched(&mut self, at: Timestamp, launched: &Launched) -> Followed {
        let attempt = self.expect_open(launched.attempt)?;
        if attempt.tree.is_some() {
            return Err("the attempt has a tree already");
        }
        attempt.tree = Some(launched.tree.clone());
        attempt.launched = Some(launched.awake);
        attempt.started_at = Some(at);
        self.now_running();
        Ok(())
    }

    pub(super) fn adopted(&mut self, at: Timestamp, adopted: &Adopted) -> Followed {
        let owner = self.holder.as_ref().map(|holder| holder.fence.owner.clone());
        let attempt = self.expect_open(adopted.attempt)?;
        if let Some(owner) = owner {
            attempt.owner = owner;
        }
        attempt.tree = Some(adopted.tree.clone());
        attempt.launched = Some(adopted.awake);
        attempt.started_at.get_or_insert(at);
        attempt.epoch = adopted.epoch;
        self.now_running();
        Ok(())
    }

    fn now_running(&mut self) {
        if matches!(self.phase, Phase::Launching) {
            self.phase = Phase::Running;
        }
    }

    pub(super) fn stop_began(&mut self, at: Timestamp, began: &StopBegan) -> Followed {
        self.expect_open(began.attempt)?;
        let Some(stop) = &mut self.stop else { return Err("no stop was asked for") };
        stop.began_at = Some(at);
        Ok(())
    }

    pub(super) fn rung_climbed(&mut self, climbed: &RungClimbed) -> Followed {
        let Phase::Stopping { rung, alive, .. } = &mut self.phase else {
            return Err("no stop was asked for");
        };
        (*rung, *alive) = (Some(climbed.rung), Some(climbed.alive));
        Ok(())
    }

    pub(super) fn limit_fired(&mut self, at: Timestamp, fired: &LimitFired) -> Followed {
        self.stop_for(Cause::Limit(fired.limit), at, None, false);
        Ok(())
    }

    pub(super) fn limit_neared(&mut self, neared: &LimitNeared) -> Followed {
        self.neared.retain(|(limit, _)| *limit != neared.limit);
        self.neared.push((neared.limit, neared.allowed));
        Ok(())
    }

    pub(super) fn paused(&mut self, at: Timestamp, paused: &Paused) -> Followed {
        let &Paused { attempt, awake, .. } = paused;
        if !self.runs(attempt) {
            return Err("that attempt does not run");
        }
        let open = self.expect_open(attempt)?;
        open.was_paused = true;
        open.asked.get_or_insert(awake);
        self.pause = Some(Pause::new(at, paused));
        Ok(())
    }

    pub(super) fn unpaused(&mut self, unpaused: &Unpaused) -> Followed {
        self.expect_open(unpaused.attempt)?;
        self.pause = None;
        Ok(())
    }

    pub(super) fn rested(&mut self, rested: &Rested) -> Followed {
        let attempt = self.expect_open(rested.attempt)?;
        if attempt.asked.take().is_none() {
            return Err("no person was asked");
        }
        attempt.rested_ms = attempt.rested_ms.saturating_add(rested.ms);
        if let Some(session) = self.session.as_mut().filter(|_| !self.idle) {
            // The wait for the message is over: an agent that ignores it is given its idle time again.
            session.idle = session.idle.map(|since| since.plus_ms(rested.ms));
        }
        Ok(())
    }

    pub(super) fn woken(&mut self, woken: &Woken) -> Followed {
        if !self.idle || !self.runs(woken.attempt) {
            return Err("its agent is not idle");
        }
        self.idle = false;
        Ok(())
    }

    pub(super) fn input_delivered(&mut self, delivered: &InputDelivered) -> Followed {
        let answered = self.inputs.iter().find(|input| input.no == delivered.input);
        if let (Some(question), Some(session)) =
            (answered.and_then(|input| input.question.clone()), self.session.as_mut())
        {
            session.close_question(&question);
        }
        let told = self.inputs.iter().position(|input| input.no == delivered.input);
        if let Some(told) = told.map(|place| self.inputs.remove(place)) {
            self.note_told(told);
        }
        Ok(())
    }

    pub(super) fn attempt_ended(&mut self, at: Timestamp, ended: &AttemptEnded) -> Followed {
        let attempt = self.expect_open(ended.attempt)?;
        attempt.end = Some(Arc::new(ended.clone()));
        attempt.ended_at = Some(at);
        self.ran_ms = self.ran_ms.saturating_add(ended.ran_ms.unwrap_or(0));
        (self.pause, self.idle) = (None, false);
        // The session of an earlier attempt has ended already.
        let session = self.session.as_mut().filter(|session| session.attempt == ended.attempt);
        if let Some(session) = session {
            session.end(ended.error.is_some());
        }
        // An attempt that never started was given no input, so its inputs are for the next one. Answers are not: their questions are closed.
        // So are those of a job that waits for its provider.
        let refused = self.session.as_ref().is_some_and(|session| session.refused.is_some());
        let untold = refused && self.waits_for_provider() || ended.receipt.proof == Proof::NeverStarted;
        self.inputs.retain(|input| untold && input.question.is_none());
        self.input_closed = self.inputs.iter().any(|input| input.eof);
        Ok(())
    }

    pub(super) fn retry_scheduled(&mut self, retry: &RetryScheduled) -> Followed {
        if self.open_attempt().is_some() || self.attempts.is_empty() {
            return Err("no attempt has ended");
        }
        self.phase = Phase::Backoff { until: retry.due };
        self.holder = None;
        self.stop = None;
        self.go_on_later(retry.attempt);
        Ok(())
    }

    pub(super) fn ended(&mut self, last_word: &LastWord) -> Followed {
        if self.open_attempt().is_some() {
            return Err("an attempt is open");
        }
        if let Some(session) = &mut self.session {
            session.end(false);
        }
        self.inputs.clear();
        (self.holder, self.provider_wait) = (None, None);
        self.phase = Phase::Ended(last_word.clone());
        Ok(())
    }
}
