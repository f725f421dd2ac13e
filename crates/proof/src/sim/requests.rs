//! People and programs with wishes: each loads, decides with the production decision, and appends, until it is answered.

use std::sync::Arc;

use lastword_core::decide::cancel::Cancel;
use lastword_core::decide::{
    Decision, Refusal, abandon, answer, cancel, depend, interrupt, late, limit, retry, send, shut_down,
    submit,
};
use lastword_core::limits::{Limit, Limits};
use lastword_core::outcome::Asked;
use lastword_core::question::Reply;
use lastword_core::spec::Spec;
use lastword_core::{Append, AppendId, Fence, Job, Seq};

use super::journal::{Answer, Caller, Verb};
use super::wish::{Asker, State, Wish};
use super::world::{Doing, MESSAGE_MS, World};

impl World {
    /// Plans a request for later.
    pub(super) fn ask(&mut self, ms: u64, job: usize, wish: Wish) {
        self.askers.push(Asker { job, wish, state: State::Later, call: 0, read_in: 0, other: None });
        self.after(ms, Doing::Ask(self.askers.len() - 1));
    }

    /// Plans a request of an owner, to be made at once.
    pub(super) fn ask_as_owner(&mut self, job: usize, wish: Wish) {
        self.ask(1, job, wish);
    }

    /// Draws what will be asked of a job.
    pub(super) fn draw_wishes(&mut self, job: usize) {
        for _ in 0..self.random.below(4) {
            let at = self.random.below(6_000);
            let wish = self.draw_wish();
            let again = self.random.chance(15);
            if again {
                let later = at + self.random.below(1_500);
                self.ask(later, job, wish.clone());
            }
            self.ask(at, job, wish);
        }
    }

    fn draw_wish(&mut self) -> Wish {
        match self.random.below(20) {
            0..6 => {
                let asked = *self.random.pick(&[Asked::User, Asked::ReaderGone, Asked::ParentGone]);
                Wish::Cancel { asked, force: self.random.chance(30) }
            }
            6..9 => Wish::Send,
            9..11 => Wish::Answer,
            11..13 => Wish::Interrupt,
            13..17 => {
                let limits = [Limit::Wall, Limit::Stall, Limit::Output, Limit::Turns, Limit::Tokens];
                let limit = *self.random.pick(&limits);
                let value = match limit {
                    _ if self.random.chance(30) => 0,
                    Limit::Wall | Limit::Stall => 500 + self.random.below(8_000),
                    _ => 1 + self.random.below(40),
                };
                Wish::Limit(limit, value)
            }
            17 => Wish::Retry,
            18 => Wish::ShutDown,
            _ => {
                if self.random.chance(25) {
                    Wish::Abandon
                } else {
                    Wish::Interrupt
                }
            }
        }
    }

    /// An asker begins with its request.
    pub(super) fn begin_asking(&mut self, no: usize) {
        if matches!(self.askers[no].state, State::Later) {
            self.read_for(no);
        }
    }

    fn read_for(&mut self, no: usize) {
        let job = self.plan.ids[self.askers[no].job];
        self.askers[no].state = State::Reads;
        self.askers[no].read_in = self.store.instance();
        self.askers[no].call = self.call(Caller::Asker(no), Verb::Load { job, after: Seq(0) });
    }

    fn write_for(&mut self, no: usize, append: Box<Append>, seq: Seq) {
        self.askers[no].state = State::Writes { append: append.clone(), seq };
        self.askers[no].call = self.call(Caller::Asker(no), Verb::Append(append));
    }

    /// The journal answered an asker.
    pub(super) fn asker_answered(&mut self, no: usize, call: u64, answer: Answer) {
        if self.askers[no].call != call {
            return;
        }
        match (std::mem::replace(&mut self.askers[no].state, State::Done), answer) {
            (State::Reads, Answer::Loaded(events)) => {
                match Job::fold(self.plan.ids[self.askers[no].job], &events) {
                    Ok(job) => self.decide_for(no, &job),
                    Err(illegal) => self.fail("log does not fold", || illegal.to_string()),
                }
            }
            (State::Reads, Answer::Unavailable) => self.read_for(no),
            (State::Writes { seq, .. }, Answer::Stored(..)) => self.granted(no, seq),
            // Whether it was stored is not known: the very same append again.
            (State::Writes { append, seq }, Answer::Unavailable) => self.write_for(no, append, seq),
            (State::Writes { .. }, Answer::Conflict) => self.read_for(no),
            (State::Writes { .. }, Answer::Fenced) => {}
            _ => self.fail("an answer to another question", || format!("asker {no}")),
        }
    }

    fn decide_for(&mut self, no: usize, job: &Job) {
        let (fence, decision) = self.decision(no, job);
        let facts = match decision {
            // A well-formed no is an answer.
            Err(_) => return,
            Ok(facts) if facts.is_empty() => return self.granted(no, job.version),
            Ok(facts) => facts,
        };
        self.calls += 1;
        let id = AppendId((1 << 120) | u128::from(self.calls));
        match Append::new(job, fence.as_ref(), id, self.journal_clock(), facts) {
            Ok((append, after)) => {
                let read_in = Some(self.askers[no].read_in).filter(|_| fence.is_none());
                self.write_for(no, Box::new(Append { read_in, ..append }), after.version);
            }
            Err(illegal) => self.fail("a decision that cannot be stored", || illegal.to_string()),
        }
    }

    fn decision(&mut self, no: usize, job: &Job) -> (Option<Fence>, Decision) {
        let now = self.journal_clock();
        let unique = no.to_string();
        let Asker { wish, job: index, other, .. } = &self.askers[no];
        let decision = match wish {
            Wish::Submit => submit::decide(job, &self.plan.specs[*index], "me", Limits::default()),
            Wish::SubmitAgain(spec) => submit::decide(job, spec, "me", Limits::default()),
            Wish::Cancel { asked, force } => {
                cancel::decide(job, &Cancel { by: "me".to_owned(), asked: *asked, force: *force }, now)
            }
            // Now and then the last one; an agent has none, and is asked for more.
            Wish::Send => {
                let is_agent = job.spec.as_ref().is_some_and(|spec| spec.work.is_agent());
                send::decide(job, "me", &unique, no.is_multiple_of(3) && !is_agent)
            }
            Wish::Answer => {
                let questions = job.session.iter().flat_map(|session| &session.questions);
                match questions.into_iter().find(|question| !question.answered) {
                    Some(question) => answer::decide(job, "me", &question.name, &Reply::Deny(unique)),
                    None => Err(Refusal::Nothing(job.id, "no question")),
                }
            }
            Wish::Interrupt => interrupt::decide(job, "me", None),
            Wish::Limit(limit, value) => limit::decide(job, "me", *limit, *value),
            Wish::Retry => {
                let again = retry::decide(job, job);
                if let Ok(spec) = again {
                    self.try_again(spec);
                }
                Ok(Vec::new())
            }
            Wish::Abandon => abandon::decide(job, "me"),
            Wish::ShutDown => match &job.holder {
                Some(holder) => shut_down::cancel(job, &holder.fence.owner, now),
                None => Ok(Vec::new()),
            },
            Wish::Depend => {
                let unmet = job.unmet.first().map(|dependency| dependency.job);
                match unmet.zip(*other) {
                    Some((other, outcome)) => depend::decide(job, other, Some(outcome)),
                    None => Ok(Vec::new()),
                }
            }
            Wish::Release(fence) => {
                let decision = shut_down::leave(job, fence);
                return (Some(fence.clone()), decision);
            }
            Wish::Late(epoch, what) => late::decide(job, *epoch, what),
        };
        (None, decision)
    }

    /// Submits the retry of an ended job, once.
    fn try_again(&mut self, spec: Spec) {
        let job = self.plan.ids.len() - 1;
        if !self.askers.iter().any(|asker| asker.job == job) {
            self.ask(1, job, Wish::SubmitAgain(Arc::new(spec)));
        }
    }

    /// An asker was told that its request is stored.
    fn granted(&mut self, no: usize, seq: Seq) {
        let Asker { job, wish, .. } = &self.askers[no];
        let job = *job;
        self.trace.say(self.now, || format!("granted: {wish:?} for job {job} at event {seq}"));
        match wish {
            Wish::Submit | Wish::SubmitAgain(_) => {
                self.witness.jobs[job].submitted = true;
                self.hint_all();
            }
            Wish::Depend => self.hint_all(),
            Wish::Cancel { .. } => self.witness.jobs[job].known.cancel_acknowledged(seq),
            _ => {}
        }
        // Hints at the write to the job's holder; a lost hint costs time, nothing else.
        if self.random.chance(60) {
            for process in 0..self.processes.len() {
                if self.processes[process].hands.iter().any(|hand| hand.hold.job == job) {
                    self.after(2, Doing::Poke(process, job));
                }
            }
        }
    }

    /// Wakes the processes, which may claim what is ready; a lost hint costs time, nothing else.
    fn hint_all(&mut self) {
        for process in 0..self.processes.len() {
            if self.random.chance(60) {
                let way = 1 + self.random.below(20);
                self.after(way, Doing::Hint(process));
            }
        }
    }

    /// Looks for jobs whose dependencies have ended. It is a sweep, so a crash between two jobs costs nothing.
    pub(super) fn sweep(&mut self) {
        for job in 0..self.plan.specs.len() {
            let waits = &self.witness.jobs[job].known.job;
            let Some(dependency) = waits.unmet.first().filter(|_| !waits.is_ended()) else { continue };
            let other = self.witness.jobs.iter().find(|one| one.known.job.id == dependency.job);
            let outcome = other.and_then(|one| one.known.job.last_word()).map(|word| word.outcome);
            let asking = |asker: &Asker| asker.job == job && asker.wish == Wish::Depend && !asker.is_done();
            if outcome.is_some() && !self.askers.iter().any(asking) {
                self.ask(1, job, Wish::Depend);
                if let Some(asker) = self.askers.last_mut() {
                    asker.other = outcome;
                }
            }
        }
        self.after(900, Doing::Sweep);
    }

    /// What still runs is cancelled, and what is kept on a host that is gone is given up.
    pub(super) fn impatience(&mut self) {
        for job in 0..self.witness.jobs.len() {
            let state = &self.witness.jobs[job].known.job;
            if state.version == Seq(0) || state.is_ended() {
                continue;
            }
            // A message to its idle agent is waited for: nothing else would show that it was forgotten.
            if let Some(due) = state.due().filter(|_| state.idle) {
                let now = self.journal_clock();
                let is_late = due.plus_ms(MESSAGE_MS) < now && self.now > self.calm_since + MESSAGE_MS;
                if is_late {
                    return self
                        .fail("a message sleeps", || format!("job {job}, due at {due:?}, at {now:?}"));
                }
                continue;
            }
            let lost_host = state.open_attempt().is_some_and(|attempt| {
                let host = usize::from(&*attempt.host.0 == "h1");
                self.hosts[host].gone
            });
            if lost_host {
                self.ask(1, job, Wish::Abandon);
            }
            let force = self.random.chance(20);
            self.ask(2, job, Wish::Cancel { asked: Asked::User, force });
        }
        // Again and again: a job may be submitted late, as the retry of another.
        self.after(5_000, Doing::Impatience);
    }
}
