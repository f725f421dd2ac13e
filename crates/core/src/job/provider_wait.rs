//! The fold of what a provider says instead of an answer, and of the wait for it.

use super::fold::Followed;
use crate::decide::resume;
use crate::event::{ProviderAwaited, ProviderOpened, ProviderRefused};
use crate::ids::AttemptNo;
use crate::job::{Job, PendingInput, Phase};
use crate::provider::{Again, GO_ON, Told};
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

    /// Reports whether the job waits for its provider if that refuses to answer.
    pub(super) fn waits_for_provider(&self) -> bool {
        self.spec.as_ref().is_some_and(|spec| spec.wait_for_quota.is_some())
    }

    /// Records the prompt of an attempt, which begins its first turn.
    pub(super) fn note_prompt(&mut self, attempt: AttemptNo) {
        let prompt = self.waits_for_provider().then(|| resume::prompt_of_attempt(self, attempt).to_owned());
        let turn = self.turns.next();
        self.told = prompt.map(|prompt| Box::new(Told { turn, prompt, added: String::new() }));
    }

    /// Records an input that begins a turn, or that was added to the active one. Its turn may have begun a moment before.
    pub(super) fn note_told(&mut self, told: PendingInput) {
        if !self.waits_for_provider() || told.question.is_some() {
            return;
        }
        let active = self.active_turn();
        let turn = active.unwrap_or(self.turns.next());
        match &mut self.told {
            Some(known) if Some(known.turn) == active => {
                known.added.push_str("\n\n");
                known.added.push_str(&told.text);
            }
            known => *known = Some(Box::new(Told { turn, prompt: told.text, added: String::new() })),
        }
    }

    /// Lets the next attempt go on as the one that ended was to, if that began no turn.
    pub(super) fn go_on_later(&mut self, next: AttemptNo) {
        let began_none = self.attempts.last().is_some_and(|attempt| attempt.turns_before == self.turns);
        if let Some(again) = self.again.as_mut().filter(|again| again.attempt.next() == next && began_none) {
            again.attempt = next;
        }
        if self.has_answer() {
            self.provider_wait = None;
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

    /// Reports whether the attempt after a refusal goes on in a session of the agent, which some agents would lose.
    pub(crate) fn goes_on_in_session(&self) -> bool {
        self.partial_session().is_some() || resume::source(self).session.is_some()
    }

    /// Returns the session that holds more than what the refused turn was told: a part of its answer, or turns before it that did not
    /// complete and that it was about.
    fn partial_session(&self) -> Option<&str> {
        let newest = self.attempts.last().map(|attempt| attempt.no);
        let session = self.session.as_ref().filter(|session| Some(session.attempt) == newest)?;
        let is_told = session
            .last_turn
            .is_some_and(|(turn, _)| self.told.as_ref().is_some_and(|told| told.turn == turn));
        let is_partial = session.answered || session.had_unfinished || !is_told;
        session.reference.as_deref().filter(|_| is_partial)
    }

    /// Returns how the attempt after a refusal goes on: a turn without any answer is sent again; one that was answered in part, or that the
    /// agent cannot forget, is gone on with.
    fn again(&self, awaited: &ProviderAwaited) -> Again {
        let attempt = awaited.attempt;
        let (prompt, added) = match (&self.told, self.spec.as_ref().map(|spec| &spec.work)) {
            (Some(told), _) => (told.prompt.clone(), told.added.as_str()),
            (None, Some(Work::Agent { prompt, .. })) => (prompt.clone(), ""),
            (None, _) => (String::new(), ""),
        };
        // What was added may not have been read.
        let go_on = format!("{GO_ON}{added}");
        if let Some(reference) = self.partial_session() {
            let (reference, unfinished) = (Some(reference.to_owned()), Some(Unfinished::Kept));
            return Again { attempt, prompt: go_on, reference, is_copy: false, at: None, unfinished };
        }
        let source = resume::source(self);
        let prompt = match source.unfinished {
            Some(Unfinished::Kept) if source.session.is_some() => go_on,
            _ => prompt + added,
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
