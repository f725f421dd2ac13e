//! A job as its log tells it: phases with their data, and the fold that moves them.
//!
//! The fold is the only writer of these types. It refuses what cannot follow, so a log that was
//! written by a broken owner is found on the next read and not believed.

use std::sync::Arc;

use crate::append::Illegal;
use crate::event::{
    AttemptEnded, CancelRequested, Event, Fact, LastWord, LaunchIntended, SessionState, Submitted, TurnEnded,
    TurnEnding, Usage,
};
use crate::ids::{AttemptNo, Awake, Epoch, Fence, HostId, InputNo, JobId, Seq, Timestamp, TurnNo};
use crate::limits::Limits;
use crate::outcome::Cause;
use crate::receipt::{Proof, Rung, Tree};
use crate::seeded::{self, Bug};
use crate::session::Session;
use crate::spec::{Dependency, Spec};

/// A job, folded from its log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Job {
    /// Its name.
    pub id: JobId,
    /// Its newest event.
    pub version: Seq,
    /// When that was decided.
    pub updated_at: Timestamp,
    /// When the first was decided.
    pub submitted_at: Timestamp,
    /// What was asked; `None` until it was.
    pub spec: Option<Arc<Spec>>,
    /// Where it stands.
    pub phase: Phase,
    /// Who holds it.
    pub holder: Option<Holder>,
    /// How often it was claimed.
    pub epoch: Epoch,
    /// Limits in force.
    pub limits: Limits,
    /// Why it is to stop. The first reason stands.
    pub stop: Option<Stop>,
    /// Every try, in order.
    pub attempts: Vec<Attempt>,
    /// Jobs it still waits for.
    pub unmet: Vec<Dependency>,
    /// The agent's session, of the newest attempt that had one.
    pub session: Option<Session>,
    /// Turns begun, over all attempts.
    pub turns: TurnNo,
    /// Inputs asked for and not yet delivered.
    pub inputs: Vec<PendingInput>,
    /// The number of the newest input.
    pub inputs_made: InputNo,
    /// Whether its input was closed, or will be after what waits.
    pub input_closed: bool,
    /// What was spent, over all attempts, whatever became of the turns.
    pub meter: Usage,
    /// Late reports that were kept.
    pub late: u32,
    /// Whether a person gave up on the host of the open attempt.
    pub abandoned: bool,
    /// Whether the log holds a fact this build cannot read.
    pub foreign: bool,
}

/// Where a job stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Nothing was ever written.
    Unborn,
    /// Waits for its first attempt.
    Queued {
        /// Why.
        waits: Waits,
    },
    /// An attempt is intended; whether its tree exists is not known yet.
    Launching,
    /// The tree is there.
    Running,
    /// A stop was asked for, and something may still be alive.
    Stopping {
        /// Since when.
        since: Timestamp,
        /// The last rung climbed.
        rung: Option<Rung>,
        /// Processes alive at that rung.
        alive: Option<u32>,
    },
    /// Waits for the next attempt.
    Backoff {
        /// Until when.
        until: Timestamp,
    },
    /// Over.
    Ended(LastWord),
}

/// Why a queued job waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Waits {
    /// For somebody to take it.
    Slot,
    /// For other jobs.
    Dependencies,
    /// For a moment.
    Until(Timestamp),
}

/// Who holds a job, and where.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holder {
    /// What its writes are checked against.
    pub fence: Fence,
    /// Where its trees are.
    pub host: HostId,
}

/// Why a job is to stop.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stop {
    /// The reason.
    pub cause: Cause,
    /// When it was asked for or fired.
    pub requested_at: Timestamp,
    /// Who asked, if somebody did.
    pub by: Option<String>,
    /// Straight to the last rung.
    pub force: bool,
    /// When the owner began, if it did.
    pub began_at: Option<Timestamp>,
}

/// One try.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attempt {
    /// Its number.
    pub no: AttemptNo,
    /// The claim under which it is owned.
    pub epoch: Epoch,
    /// Where its tree is, if there is one.
    pub host: HostId,
    /// Which boot of that host it was intended in; `None` in a log of an older build.
    pub boot: Option<Arc<str>>,
    /// Its tree, once seen.
    pub tree: Option<Tree>,
    /// When the tree was launched, by the awake clock of its host.
    pub launched: Option<Awake>,
    /// When its tree was first known to be there, by the wall clock.
    pub started_at: Option<Timestamp>,
    /// When it was known to have ended, by the wall clock.
    pub ended_at: Option<Timestamp>,
    /// How far the recording was heard.
    pub heard: u64,
    /// Turns of this attempt that completed.
    pub turns_completed: u32,
    /// How it ended.
    pub end: Option<Arc<AttemptEnded>>,
}

/// Something to be said to the agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PendingInput {
    /// Its number.
    pub no: InputNo,
    /// What it answers, if it is an answer.
    pub question: Option<String>,
    /// What.
    pub text: String,
    /// Nothing more comes after it.
    pub eof: bool,
}

impl Job {
    /// Returns the job nothing was written about yet. Start and recovery both begin here.
    pub fn unborn(id: JobId) -> Job {
        Job {
            id,
            version: Seq(0),
            updated_at: Timestamp(0),
            submitted_at: Timestamp(0),
            spec: None,
            phase: Phase::Unborn,
            holder: None,
            epoch: Epoch(0),
            limits: Limits::default(),
            stop: None,
            attempts: Vec::new(),
            unmet: Vec::new(),
            session: None,
            turns: TurnNo(0),
            inputs: Vec::new(),
            inputs_made: InputNo(0),
            input_closed: false,
            meter: Usage::default(),
            late: 0,
            abandoned: false,
            foreign: false,
        }
    }

    /// Folds a whole log.
    pub fn fold<'a>(id: JobId, events: impl IntoIterator<Item = &'a Event>) -> Result<Job, Illegal> {
        let mut job = Job::unborn(id);
        for event in events {
            job.apply(event)?;
        }
        Ok(job)
    }

    /// Returns the attempt that may have a live tree.
    pub fn open_attempt(&self) -> Option<&Attempt> {
        self.attempts.last().filter(|attempt| attempt.end.is_none())
    }

    fn open_attempt_mut(&mut self) -> Option<&mut Attempt> {
        self.attempts.last_mut().filter(|attempt| attempt.end.is_none())
    }

    /// Reports whether this attempt runs and nobody asked for its stop.
    pub(crate) fn runs(&self, no: AttemptNo) -> bool {
        matches!(self.phase, Phase::Running) && self.open_attempt().is_some_and(|attempt| attempt.no == no)
    }

    /// Returns the last word, once it was spoken.
    pub fn last_word(&self) -> Option<&LastWord> {
        match &self.phase {
            Phase::Ended(last_word) => Some(last_word),
            _ => None,
        }
    }

    /// Reports whether the job is over.
    pub fn is_ended(&self) -> bool {
        self.last_word().is_some()
    }

    /// Reports whether a person gave up on the host of this job.
    pub fn is_abandoned(&self) -> bool {
        self.abandoned
    }

    /// Reports whether any process of this job may ever have been started: a tree was seen, or an attempt ended without
    /// the proof that there was none.
    pub fn has_begun(&self) -> bool {
        self.attempts.iter().any(|attempt| match &attempt.end {
            Some(end) => attempt.tree.is_some() || end.receipt.proof != Proof::NeverStarted,
            None => attempt.tree.is_some(),
        })
    }

    /// Returns the turn that is active in the session.
    pub fn active_turn(&self) -> Option<TurnNo> {
        self.session.as_ref().and_then(|session| session.active)
    }

    /// Reports whether the agent waits for a person.
    pub fn waits_for_person(&self) -> bool {
        matches!(self.phase, Phase::Running) && self.session.as_ref().is_some_and(Session::has_open_question)
    }

    /// Returns from when on the job may be claimed by anyone; `None` while it may not.
    pub fn due(&self) -> Option<Timestamp> {
        match self.phase {
            _ if self.holder.is_some() => None,
            Phase::Queued { waits: Waits::Slot } => Some(self.submitted_at),
            Phase::Queued { waits: Waits::Until(moment) } => Some(moment),
            Phase::Backoff { until } => Some(until),
            _ => None,
        }
    }

    /// Moves on by one event.
    pub fn apply(&mut self, event: &Event) -> Result<(), Illegal> {
        let place = (event.seq == self.version.next(), &self.phase, &event.fact);
        match place {
            (false, _, _) => return self.refuse(event, "its number is not the next one"),
            (_, Phase::Ended(_), Fact::LateReported(_)) => {}
            (_, Phase::Ended(_), _) if !seeded::on(Bug::EndedNotAbsorbing) => {
                return self.refuse(event, "the last word was spoken");
            }
            (_, Phase::Unborn, Fact::Submitted(_)) => {}
            (_, Phase::Unborn, _) => return self.refuse(event, "the job was not submitted"),
            (_, _, Fact::Submitted(_)) => return self.refuse(event, "it was submitted before"),
            _ => {}
        }
        if let Err(why) = self.change(event.at, &event.fact) {
            return self.refuse(event, why);
        }
        self.version = event.seq;
        if !matches!(event.fact, Fact::LateReported(_)) {
            self.updated_at = event.at;
        }
        Ok(())
    }

    fn refuse(&self, event: &Event, why: &'static str) -> Result<(), Illegal> {
        Err(Illegal::OutOfPlace {
            job: self.id,
            after: self.version,
            kind: event.fact.kind().to_owned(),
            why,
        })
    }

    fn change(&mut self, at: Timestamp, fact: &Fact) -> Result<(), &'static str> {
        match fact {
            Fact::Submitted(submitted) => self.submitted(at, submitted),
            Fact::DependencySettled(settled) => {
                self.unmet.retain(|dependency| dependency.job != settled.job);
                if matches!(self.phase, Phase::Queued { .. }) {
                    self.phase = Phase::Queued { waits: self.waits() };
                }
                Ok(())
            }
            Fact::CancelRequested(request) => self.cancel_requested(at, request),
            Fact::LimitChanged(change) => {
                self.limits.set(change.limit, change.value);
                if seeded::on(Bug::RaisedLimitForgives)
                    && matches!(self.stop, Some(Stop { cause: Cause::Limit(_), .. }))
                {
                    self.stop = None;
                    self.phase = Phase::Running;
                }
                Ok(())
            }
            Fact::InputRequested(request) => {
                self.push_input(request.input, None, &request.text, request.eof);
                Ok(())
            }
            Fact::AnswerRequested(request) => {
                self.push_input(request.input, Some(request.question.clone()), &request.text, false);
                match &mut self.session {
                    Some(session) => session.answer(&request.question),
                    None => Err("there is no session"),
                }
            }
            Fact::InterruptRequested(request) => match &mut self.session {
                Some(session) => session.interrupt(request.turn),
                None => Err("there is no session"),
            },
            Fact::Abandoned(abandoned) => {
                self.abandoned = true;
                self.stop_for(Cause::Abandoned, at, Some(&abandoned.by), true);
                Ok(())
            }
            Fact::Claimed(claim) => {
                if claim.epoch != self.epoch.next() {
                    return Err("the claim is not the next one");
                }
                self.epoch = claim.epoch;
                self.holder = Some(Holder {
                    fence: Fence {
                        owner: claim.owner.clone(),
                        incarnation: claim.incarnation,
                        epoch: claim.epoch,
                    },
                    host: claim.host.clone(),
                });
                Ok(())
            }
            Fact::Released(_) => {
                if self.open_attempt().is_some() {
                    return Err("an attempt is open");
                }
                self.holder = None;
                Ok(())
            }
            Fact::LaunchIntended(intent) => self.launch_intended(intent),
            Fact::Launched(launched) => {
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
            Fact::Adopted(adopted) => {
                let attempt = self.expect_open(adopted.attempt)?;
                attempt.tree = Some(adopted.tree.clone());
                attempt.launched = Some(adopted.awake);
                attempt.started_at.get_or_insert(at);
                attempt.epoch = adopted.epoch;
                self.now_running();
                Ok(())
            }
            Fact::StopBegan(began) => {
                self.expect_open(began.attempt)?;
                match &mut self.stop {
                    Some(stop) => {
                        stop.began_at = Some(at);
                        Ok(())
                    }
                    None => Err("no stop was asked for"),
                }
            }
            Fact::RungClimbed(climbed) => match &mut self.phase {
                Phase::Stopping { rung, alive, .. } => {
                    *rung = Some(climbed.rung);
                    *alive = Some(climbed.alive);
                    Ok(())
                }
                _ => Err("no stop was asked for"),
            },
            Fact::LimitFired(fired) => {
                self.stop_for(Cause::Limit(fired.limit), at, None, false);
                Ok(())
            }
            Fact::InputDelivered(delivered) => {
                self.inputs.retain(|input| input.no != delivered.input);
                Ok(())
            }
            Fact::SessionStarted(started) => {
                self.heard(started.offset);
                self.expect_open(started.attempt)?;
                self.session = Some(Session::started(started, self.session.take()));
                self.drop_moot_answers();
                Ok(())
            }
            Fact::SessionChanged(changed) => {
                self.heard(changed.offset);
                self.expect_session()?.change(changed.state, changed.background);
                self.drop_moot_answers();
                Ok(())
            }
            Fact::TurnStarted(started) => {
                self.heard(started.offset);
                if started.turn != self.turns.next() {
                    return Err("the turn is not the next one");
                }
                self.turns = started.turn;
                self.expect_session()?.begin(started.turn)
            }
            Fact::QuestionAsked(asked) => {
                self.heard(asked.offset);
                self.expect_session()?.close_question(&asked.question);
                self.drop_moot_answers();
                self.expect_session()?.ask(&asked.question, &asked.text);
                Ok(())
            }
            Fact::QuestionClosed(closed) => {
                self.heard(closed.offset);
                self.expect_session()?.close_question(&closed.question);
                self.drop_moot_answers();
                Ok(())
            }
            Fact::ItemCompleted(item) => {
                self.heard(item.offset);
                Ok(())
            }
            Fact::Spent(spent) => {
                self.heard(spent.offset);
                self.meter.add(spent.usage);
                Ok(())
            }
            Fact::TurnEnded(ended) => self.turn_ended(at, ended),
            Fact::AttemptEnded(ended) => {
                let attempt = self.expect_open(ended.attempt)?;
                attempt.end = Some(Arc::new(ended.clone()));
                attempt.ended_at = Some(at);
                // A session that an earlier attempt left behind is over already.
                let session = self.session.as_mut().filter(|session| session.attempt == ended.attempt);
                if let Some(session) = session {
                    session.over(ended.error.is_some());
                }
                // What was never started was told nothing: its inputs are for the next attempt. Questions ended with it.
                let untold = ended.receipt.proof == Proof::NeverStarted;
                self.inputs.retain(|input| untold && input.question.is_none());
                self.input_closed = self.inputs.iter().any(|input| input.eof);
                Ok(())
            }
            Fact::RetryScheduled(retry) => {
                if self.open_attempt().is_some() || self.attempts.is_empty() {
                    return Err("no attempt has ended");
                }
                self.phase = Phase::Backoff { until: retry.due };
                self.holder = None;
                self.stop = None;
                Ok(())
            }
            Fact::LastWord(last_word) => {
                if self.open_attempt().is_some() {
                    return Err("an attempt is open");
                }
                if let Some(session) = &mut self.session {
                    session.over(false);
                }
                self.inputs.clear();
                self.holder = None;
                self.phase = Phase::Ended(last_word.clone());
                Ok(())
            }
            Fact::LateReported(_) => {
                self.late = self.late.saturating_add(1);
                Ok(())
            }
            Fact::Unknown(_) => {
                self.foreign = true;
                Ok(())
            }
        }
    }

    fn submitted(&mut self, at: Timestamp, submitted: &Submitted) -> Result<(), &'static str> {
        self.submitted_at = at;
        self.limits = submitted.limits;
        self.unmet = submitted.spec.after.clone();
        self.spec = Some(Arc::clone(&submitted.spec));
        self.phase = Phase::Queued { waits: self.waits() };
        Ok(())
    }

    fn waits(&self) -> Waits {
        let not_before = self.spec.as_ref().and_then(|spec| spec.not_before);
        match not_before {
            _ if !self.unmet.is_empty() => Waits::Dependencies,
            Some(moment) => Waits::Until(moment),
            None => Waits::Slot,
        }
    }

    fn cancel_requested(&mut self, at: Timestamp, request: &CancelRequested) -> Result<(), &'static str> {
        if self.open_attempt().is_none() {
            return Err("there is no attempt to stop");
        }
        self.stop_for(request.asked.into(), at, Some(&request.by), request.force);
        Ok(())
    }

    /// Notes why the job is to stop. The first reason stands; force is added to it. A turn that failed is no reason to end
    /// the job for good, so any other reason takes its place.
    fn stop_for(&mut self, cause: Cause, at: Timestamp, by: Option<&str>, force: bool) {
        let by = by.map(str::to_owned);
        let stop = match &mut self.stop {
            Some(stop) => {
                if stop.cause == Cause::Agent && cause != Cause::Agent {
                    (stop.cause, stop.requested_at, stop.by) = (cause, at, by);
                }
                stop
            }
            none => none.insert(Stop { cause, requested_at: at, by, force: false, began_at: None }),
        };
        stop.force |= force;
        if matches!(self.phase, Phase::Launching | Phase::Running) {
            self.phase = Phase::Stopping { since: at, rung: None, alive: None };
        }
    }

    fn push_input(&mut self, no: InputNo, question: Option<String>, text: &str, eof: bool) {
        self.inputs_made = no;
        self.input_closed |= eof;
        self.inputs.push(PendingInput { no, question, text: text.to_owned(), eof });
    }

    /// Drops answers that wait for delivery although their question is gone: said into a later turn, they would answer
    /// something else.
    fn drop_moot_answers(&mut self) {
        let questions = self.session.as_ref().map_or(&[][..], |session| &session.questions);
        let open = |id: &String| questions.iter().any(|question| question.id == *id);
        self.inputs.retain(|input| input.question.as_ref().is_none_or(open));
    }

    fn launch_intended(&mut self, intent: &LaunchIntended) -> Result<(), &'static str> {
        let &LaunchIntended { attempt: no, epoch, .. } = intent;
        let Some(holder) = &self.holder else { return Err("nobody holds the job") };
        let host = holder.host.clone();
        match self.phase {
            Phase::Queued { waits: Waits::Dependencies } => return Err("it waits for other jobs"),
            Phase::Queued { .. } | Phase::Backoff { .. } => {}
            _ => return Err("an attempt is open"),
        }
        if epoch != self.epoch || no.0 as usize != self.attempts.len() + 1 {
            return Err("it is not the next attempt of this claim");
        }
        self.attempts.push(Attempt {
            no,
            epoch,
            host,
            boot: intent.boot.clone(),
            tree: None,
            launched: None,
            started_at: None,
            ended_at: None,
            heard: 0,
            turns_completed: 0,
            end: None,
        });
        self.phase = Phase::Launching;
        Ok(())
    }

    fn now_running(&mut self) {
        if matches!(self.phase, Phase::Launching) {
            self.phase = Phase::Running;
        }
    }

    fn turn_ended(&mut self, at: Timestamp, ended: &TurnEnded) -> Result<(), &'static str> {
        self.heard(ended.offset);
        self.expect_session()?.end_turn(ended)?;
        self.drop_moot_answers();
        match ended.ending {
            TurnEnding::Completed => {
                if let Some(attempt) = self.open_attempt_mut() {
                    attempt.turns_completed += 1;
                }
            }
            TurnEnding::Interrupted | TurnEnding::Superseded => {}
            // The first turn that does not complete ends the run.
            TurnEnding::Failed
            | TurnEnding::Aborted
            | TurnEnding::Cancelled
            | TurnEnding::OverLimit(_)
            | TurnEnding::AgentExit
            | TurnEnding::RuntimeError => self.stop_for(Cause::Agent, at, None, false),
        }
        Ok(())
    }

    fn heard(&mut self, offset: u64) {
        if let Some(attempt) = self.open_attempt_mut() {
            attempt.heard = attempt.heard.max(offset);
        }
    }

    fn expect_open(&mut self, no: AttemptNo) -> Result<&mut Attempt, &'static str> {
        self.open_attempt_mut().filter(|attempt| attempt.no == no).ok_or("that attempt is not open")
    }

    fn expect_session(&mut self) -> Result<&mut Session, &'static str> {
        self.session.as_mut().ok_or("there is no session")
    }

    /// Returns the state of the session, if there is one.
    pub fn session_state(&self) -> Option<SessionState> {
        self.session.as_ref().map(|session| session.state)
    }
}
