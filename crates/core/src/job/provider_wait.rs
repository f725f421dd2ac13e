//! The fold of what a provider says instead of an answer, and of the wait for it.

use super::fold::Followed;
use crate::decide::resume;
use crate::event::{ProviderAwaited, ProviderOpened, ProviderRefused};
use crate::job::{Job, PendingInput, Phase};
use crate::provider::{Again, GO_ON};
use crate::spec::{Unfinished, Work};

impl Job {
    pub(super) fn provider_refused(&mut self, refused: &ProviderRefused) -> Followed {
        self.heard(refused.offset)?;
        self.expect_session()?.refused = Some((refused.why, refused.until));
        Ok(())
    }

    /// Records that the model answered: the job waits for its provider no more.
    pub(super) fn answered(&mut self) {
        if let Some(session) = self.session.as_mut().filter(|session| session.active.is_some()) {
            session.answered = true;
            self.provider_wait = None;
        }
    }

    /// Records what begins the next turn, or was added to the active one.
    pub(super) fn note_turn_text(&mut self, told: PendingInput) {
        if !self.reports_turns() || told.question.is_some() {
            return;
        }
        match &mut self.turn_text {
            Some(text)
                if told.steer && self.session.as_ref().is_some_and(|session| session.active.is_some()) =>
            {
                text.push_str("\n\n");
                text.push_str(&told.text);
            }
            text => *text = Some(told.text),
        }
    }

    pub(super) fn provider_awaited(&mut self, awaited: &ProviderAwaited) -> Followed {
        if self.open_attempt().is_some() {
            return Err("an attempt is open");
        }
        let Some(refused) = self.attempts.last_mut() else { return Err("no attempt has ended") };
        refused.was_refused = true;
        self.again = Some(Box::new(self.again(awaited)));
        self.phase = Phase::Backoff { until: awaited.wait.until };
        (self.holder, self.stop) = (None, None);
        self.provider_wait = Some(Box::new(awaited.wait.clone()));
        Ok(())
    }

    pub(super) fn provider_opened(&mut self, opened: &ProviderOpened) -> Followed {
        match (&self.phase, &mut self.provider_wait) {
            (Phase::Backoff { .. }, Some(wait)) => wait.is_opened = true,
            _ => return Err("it does not wait for its provider"),
        }
        self.phase = Phase::Backoff { until: opened.due };
        Ok(())
    }

    /// Returns how the attempt after a refusal goes on: a turn without any answer is sent again; one that was answered in part, or that the
    /// agent cannot forget, is gone on with.
    fn again(&self, awaited: &ProviderAwaited) -> Again {
        let attempt = awaited.attempt;
        let answered = self.session.as_ref().filter(|session| session.answered);
        if let Some(reference) = answered.and_then(|session| session.reference.clone()) {
            let (prompt, unfinished) = (GO_ON.to_owned(), Some(Unfinished::Kept));
            return Again {
                attempt,
                prompt,
                reference: Some(reference),
                is_copy: false,
                at: None,
                unfinished,
            };
        }
        let source = resume::source(self);
        let own = self.spec.as_ref().map(|spec| &spec.work);
        let own = match own {
            Some(Work::Agent { prompt, .. }) => prompt.clone(),
            _ => String::new(),
        };
        let prompt = match source.unfinished {
            Some(Unfinished::Kept) if source.session.is_some() => GO_ON.to_owned(),
            _ => self.turn_text.clone().unwrap_or(own),
        };
        let reference = source.session.map(|session| session.reference);
        Again {
            attempt,
            prompt,
            reference,
            is_copy: source.is_copied,
            at: source.at,
            unfinished: source.unfinished,
        }
    }
}
