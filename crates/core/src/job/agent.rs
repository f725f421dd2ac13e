//! Folds what an agent reports: its session, turns, questions and usage.

use super::fold::Followed;
use crate::decide::resume;
use crate::event::{
    QuestionAsked, QuestionClosed, SessionChanged, SessionStarted, Spent, TurnEnded, TurnEnding, TurnStarted,
};
use crate::ids::Timestamp;
use crate::job::{Job, Phase};
use crate::outcome::Cause;
use crate::session::{Session, TurnClock};
use crate::spec::Unfinished;

impl Job {
    pub(super) fn heard(&mut self, offset: u64) -> Followed {
        if let Some(attempt) = self.open_attempt_mut() {
            attempt.heard = attempt.heard.max(offset);
        }
        Ok(())
    }

    pub(super) fn session_started(&mut self, started: &SessionStarted) -> Followed {
        self.heard(started.offset)?;
        self.expect_open(started.attempt)?;
        let keeps_unfinished = resume::of_attempt(self, started.attempt)
            .is_some_and(|on| on.unfinished == Some(Unfinished::Kept));
        self.session = Some(Session::started(started, self.session.take(), keeps_unfinished));
        self.drop_moot_answers();
        Ok(())
    }

    pub(super) fn session_changed(&mut self, changed: &SessionChanged) -> Followed {
        self.heard(changed.offset)?;
        let session = self.expect_session()?;
        let was_settled = session.is_settled();
        session.change(changed.state, changed.background);
        if !was_settled && session.is_settled() {
            session.idle = changed.awake.or(session.idle);
        }
        self.drop_moot_answers();
        self.rest_if_open();
        Ok(())
    }

    /// Lets an agent that stays open give its slot back, if it has nothing to do. The clocks of its limits rest, but for its idle time.
    fn rest_if_open(&mut self) {
        let runs = self.stays_open() && matches!(self.phase, Phase::Running) && !self.wants_turn();
        let Some(attempt) = self.open_attempt().filter(|_| runs) else { return };
        // Before its first turn it has its prompt to work on.
        let session = self.session.as_ref().filter(|session| session.attempt == attempt.no);
        let session = session.filter(|session| session.rests() && self.turns > attempt.turns_before);
        let Some(since) = session.map(|session| session.idle) else { return };
        self.idle = true;
        if let (Some(attempt), Some(since)) = (self.open_attempt_mut(), since) {
            attempt.asked.get_or_insert(since);
        }
    }

    pub(super) fn turn_started(&mut self, at: Timestamp, started: &TurnStarted) -> Followed {
        self.heard(started.offset)?;
        if started.turn != self.turns.next() {
            return Err("the turn is not the next one");
        }
        self.turns = started.turn;
        let rested_ms = self.open_attempt().map_or(0, |attempt| attempt.rested_ms);
        let clock = started.awake.map(|began| TurnClock { began, rested_ms });
        // It may have begun one by itself.
        self.idle = false;
        self.expect_session()?.begin(started.turn, at, clock)
    }

    pub(super) fn question_asked(&mut self, at: Timestamp, asked: &QuestionAsked) -> Followed {
        self.heard(asked.offset)?;
        self.expect_session()?.close_question(&asked.question);
        self.drop_moot_answers();
        self.expect_session()?.ask(asked, at);
        self.questions_asked += 1;
        self.answered();
        if let Some((attempt, awake)) = self.open_attempt_mut().zip(asked.awake) {
            attempt.asked.get_or_insert(awake);
        }
        Ok(())
    }

    pub(super) fn question_closed(&mut self, closed: &QuestionClosed) -> Followed {
        self.heard(closed.offset)?;
        self.expect_session()?.close_question(&closed.question);
        self.drop_moot_answers();
        Ok(())
    }

    pub(super) fn spent(&mut self, spent: &Spent) -> Followed {
        self.heard(spent.offset)?;
        if spent.usage.tokens_out > 0 {
            self.answered();
        }
        self.usage.add(spent.usage);
        self.usage.money_micros = self.usage.money_micros.saturating_sub(spent.overcounted_micros);
        Ok(())
    }

    pub(super) fn turn_ended(&mut self, at: Timestamp, ended: &TurnEnded) -> Followed {
        self.heard(ended.offset)?;
        if ended.ending == TurnEnding::Completed {
            // Whatever was said in it.
            self.answered();
        }
        self.expect_session()?.end_turn(at, ended)?;
        self.active_ms = self.active_ms.saturating_add(ended.active_ms.unwrap_or(0));
        self.drop_moot_answers();
        match ended.ending {
            TurnEnding::Completed => {
                if let Some(attempt) = self.open_attempt_mut() {
                    attempt.turns_completed += 1;
                }
                self.rest_if_open();
            }
            TurnEnding::Interrupted => self.rest_if_open(),
            TurnEnding::Superseded => {}
            // The first turn that does not complete stops the attempt.
            TurnEnding::Failed
            | TurnEnding::Aborted
            | TurnEnding::Refused
            | TurnEnding::Limited
            | TurnEnding::Cancelled
            | TurnEnding::OverLimit(_)
            | TurnEnding::AgentExit
            | TurnEnding::RuntimeError => self.stop_for(Cause::Agent, at, None, false),
        }
        Ok(())
    }

    /// Drops pending answers whose question is closed. Delivered in a later turn, they could answer another question.
    fn drop_moot_answers(&mut self) {
        let questions = self.session.as_ref().map_or(&[][..], |session| &session.questions);
        let open = |id: &String| questions.iter().any(|question| question.id == *id);
        self.inputs.retain(|input| input.question.as_ref().is_none_or(open));
    }
}
