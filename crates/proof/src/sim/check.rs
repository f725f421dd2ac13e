//! The witness: it sees every fact as it becomes durable, knows which trees really live, and compares.

use lastword_core::effects::Effect;
use lastword_core::event::{AttemptEnded, CancelRequested, LastWord, LimitChanged, TurnEnding, Usage};
use lastword_core::limits::Limit;
use lastword_core::outcome::{Asked, Begun, Cause, Outcome};
use lastword_core::receipt::{Exit, KeeperStop, Proof};
use lastword_core::report::Signal;
use lastword_core::view::row::{PhaseName, Row};
use lastword_core::{
    Append, AppendId, AttemptNo, Epoch, Event, Fact, Fence, InputNo, Job, JobId, Seq, Timestamp,
};
use lastword_store::Error;

use super::keeper::Place;
use super::plan::{JOBS_MAX, Plan};
use super::world::{BEAT_MS, Hold, World};

/// What the witness knows of one job.
pub(super) struct Known {
    /// The fold of what is durable.
    pub(super) job: Job,
    events: Vec<Event>,
    /// Events read back after a crash so far.
    reread: usize,
    /// How far somebody was told that it is stored.
    acknowledged: Seq,
    /// Where the log stood when a cancel was first acknowledged.
    cancelled: Option<Seq>,
    /// Somebody was told that it exists.
    pub(super) submitted: bool,
    intents: Vec<(AttemptNo, Epoch)>,
    turns_open: u32,
    /// Why the job was to stop before its last turn ended: the end of an attempt ends its turn first.
    stop_at_turn: Option<Cause>,
    limit: Option<(AttemptNo, Limit)>,
}

/// What the witness knows.
pub(super) struct Witness {
    pub(super) jobs: [Known; JOBS_MAX],
}

impl Witness {
    pub(super) fn new(plan: &Plan) -> Witness {
        Witness {
            jobs: plan.ids.map(|id| Known {
                job: Job::unborn(id),
                events: Vec::new(),
                reread: 0,
                acknowledged: Seq(0),
                cancelled: None,
                submitted: false,
                intents: Vec::new(),
                turns_open: 0,
                stop_at_turn: None,
                limit: None,
            }),
        }
    }

    /// Returns the phase a job is in, as far as it is durable.
    pub(super) fn phase(&self, job: usize) -> Option<PhaseName> {
        use lastword_core::Phase;
        Some(match self.jobs[job].job.phase {
            Phase::Unborn => return None,
            Phase::Queued { .. } => PhaseName::Queued,
            Phase::Launching => PhaseName::Launching,
            Phase::Running => PhaseName::Running,
            Phase::Stopping { .. } => PhaseName::Stopping,
            Phase::Backoff { .. } => PhaseName::Backoff,
            Phase::Ended(_) => PhaseName::Ended,
        })
    }

    /// Takes note that somebody was told a write is stored.
    pub(super) fn acknowledged(&mut self, job: JobId, seq: Seq) {
        if let Some(known) = self.jobs.iter_mut().find(|known| known.job.id == job) {
            known.acknowledged = known.acknowledged.max(seq);
        }
    }

    /// Takes note that somebody was told a cancel is stored.
    pub(super) fn cancel_acknowledged(&mut self, job: usize, seq: Seq) {
        self.jobs[job].cancelled.get_or_insert(seq);
    }

    /// Reports whether every job that exists has ended.
    pub(super) fn all_ended(&self) -> bool {
        self.jobs.iter().all(|known| known.job.version == Seq(0) || known.job.is_ended())
    }
}

type Broken = Result<(), (&'static str, String)>;

fn broken(name: &'static str, detail: String) -> Broken {
    Err((name, detail))
}

impl World {
    fn judge(&mut self, judgement: Broken) {
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

    fn watch_append(&mut self, job: usize, append: Append) -> Broken {
        let by = append.fence.as_ref().map(|fence| fence.owner.to_string());
        for event in append.events {
            let (now, known) = (self.now, &mut self.witness.jobs[job]);
            self.trace.say(now, || {
                let by = by.as_deref().unwrap_or("-");
                format!("job {job} #{} by {by}: {:?}", event.seq, event.fact)
            });
            watch_event(known, job, &event, &self.places)?;
            known.events.push(event);
        }
        let known = &self.witness.jobs[job];
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
        let known = &mut self.witness.jobs[job];
        let from = known.reread;
        let until = from + append.events.len();
        known.reread = until;
        if until <= known.events.len() {
            let same = known.events[from..until] == append.events;
            if !same {
                self.fail("recovered log differs", || format!("job {job}, after event {from}"));
            }
        } else if from == known.events.len() {
            // It was on disk, only nobody had been told.
            self.durable(append);
        } else {
            self.fail("torn record accepted", || format!("job {job}, after event {from}"));
        }
    }

    /// The journal is back: nothing that was acknowledged may be missing.
    pub(super) fn check_recovery(&mut self) {
        for job in 0..JOBS_MAX {
            let known = &mut self.witness.jobs[job];
            let (read, synced, promised) = (known.reread, known.events.len(), known.acknowledged);
            known.reread = 0;
            if (read as u64) < promised.0 || read < synced {
                self.fail("acknowledged append lost", || {
                    format!("job {job}: {read} events left of {synced} synced, {promised} acknowledged")
                });
            }
        }
    }

    /// A tree has just come to life.
    pub(super) fn check_launch(&mut self, no: usize) {
        let place = &self.places[no];
        let known = &self.witness.jobs[place.job];
        let (job, attempt) = (place.job, place.attempt);
        let ended = known.job.attempts.iter().find(|one| one.no == attempt).and_then(|one| one.end.as_ref());
        if ended.is_some_and(|end| end.receipt.proof.is_certain()) {
            return self.fail("alive after its certain end", || format!("attempt {attempt} of job {job}"));
        }
        if !known.intents.iter().any(|(intended, _)| *intended == attempt) {
            return self.fail("launched without a record", || format!("attempt {attempt} of job {job}"));
        }
        let other = self.places.iter().find(|other| {
            other.job == job
                && other.attempt != attempt
                && other.is_alive()
                && !is_given_up(&known.job, other)
        });
        if let Some(other) = other {
            let other = other.attempt;
            self.fail("two live trees", || format!("attempts {other} and {attempt} of job {job}"));
        }
    }

    /// An owner wants something done.
    pub(super) fn check_effect(&mut self, hold: Hold, effect: &Effect) {
        let known = &self.witness.jobs[hold.job];
        let judgement = match effect {
            Effect::Launch { attempt } => {
                let intended = known.intents.contains(&(*attempt, hold.epoch));
                match intended {
                    true => Ok(()),
                    false => broken("launched without looking", format!("attempt {attempt}, {hold:?}")),
                }
            }
            Effect::Stop { cause: Cause::User | Cause::Shutdown | Cause::ParentGone, .. } => {
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
        let late = hand.owner.next_limit_check().is_some_and(|look| look.0 + BEAT_MS < now.0);
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

    fn look_at_end(&self, job: usize) -> Broken {
        let known = &self.witness.jobs[job];
        if known.job.version == Seq(0) {
            return match known.submitted || job < self.plan.specs.len() {
                true => broken("a submitted job is missing", format!("job {job}")),
                false => Ok(()),
            };
        }
        if self.store.ledger.row(known.job.id) != Some(&Row::of(&known.job)) {
            return broken("the row is not the fold", format!("job {job}, at the end"));
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
        for place in self.places.iter().filter(|place| place.job == job && place.is_alive()) {
            if !is_given_up(&known.job, place) {
                return broken(
                    "alive after the last word",
                    format!("attempt {} of job {job}", place.attempt),
                );
            }
        }
        self.try_late_change(job)
    }

    /// Adds up what the trees of a job said they spent, as far as they were heard.
    fn really_spent(&self, job: usize) -> Usage {
        let mut spent = Usage::default();
        for attempt in &self.witness.jobs[job].job.attempts {
            let end = attempt.end.as_ref();
            // With an exit record the recording was read to its end; otherwise as far as the log says.
            let complete = end.is_some_and(|end| end.receipt.proof == Proof::NoChildren);
            let places = self.places.iter();
            for place in places.filter(|place| place.job == job && place.attempt == attempt.no) {
                for (offset, signal) in &place.recording {
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
    fn try_late_change(&self, job: usize) -> Broken {
        let ended = &self.witness.jobs[job].job;
        let change = LimitChanged { by: String::new(), limit: Limit::Wall, value: 1 };
        let request = CancelRequested { by: String::new(), asked: Asked::User, force: true };
        for fact in [Fact::from(change), request.into()] {
            let event = Event { seq: ended.version.next(), at: Timestamp(1), fact };
            if ended.clone().apply(&event).is_ok() {
                return broken("ended is not absorbing", format!("the fold of job {job} took {event:?}"));
            }
            let append = Append {
                job: ended.id,
                expected: ended.version,
                fence: None,
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

/// Reports whether a live tree is one that nobody promised anything about: without keeper, or given up uncertainly.
fn is_given_up(job: &Job, place: &Place) -> bool {
    let orphan = place.life.as_ref().is_some_and(|life| life.orphan);
    let end = job.attempts.iter().find(|one| one.no == place.attempt).and_then(|one| one.end.as_ref());
    orphan || end.is_some_and(|end| !end.receipt.proof.is_certain())
}

fn watch_event(known: &mut Known, index: usize, event: &Event, places: &[Place]) -> Broken {
    let before = &known.job;
    let at = || format!("job {index} #{}: {:?}", event.seq, event.fact);
    match &event.fact {
        Fact::LaunchIntended(intent) => {
            if known.cancelled.is_some_and(|seq| event.seq > seq) {
                return broken("launched after an acknowledged cancel", at());
            }
            known.intents.push((intent.attempt, intent.epoch));
        }
        Fact::InputRequested(_) if before.input_closed => {
            return broken("an input after the last one", at());
        }
        Fact::InputRequested(request) => {
            let twice =
                |other: &Event| matches!(&other.fact, Fact::InputRequested(one) if one.text == request.text);
            if known.events.iter().any(twice) {
                return broken("an append counted twice", at());
            }
        }
        Fact::LimitFired(fired) => {
            if known.limit.is_some_and(|(attempt, _)| attempt == fired.attempt) {
                return broken("a limit fired twice", at());
            }
            known.limit = Some((fired.attempt, fired.limit));
        }
        Fact::TurnStarted(_) => known.turns_open += 1,
        Fact::TurnEnded(ended) => {
            known.turns_open = known.turns_open.saturating_sub(1);
            known.stop_at_turn = before.stop.as_ref().map(|stop| stop.cause);
            if ended.commit.is_some() && ended.ending != TurnEnding::Completed {
                return broken("only a completed turn commits", at());
            }
        }
        Fact::AttemptEnded(ended) => attempt_ended(known, ended, index, places)?,
        Fact::LastWord(word) => last_word(known, word, event.seq)?,
        _ => {}
    }
    let usage = before.usage;
    let talked = before.session.as_ref().map(|session| (session.attempt, session.conversation.messages));
    known.job.apply(event).or_else(|illegal| broken("log does not fold", illegal.to_string()))?;
    let after = &known.job;
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
fn attempt_ended(known: &Known, ended: &AttemptEnded, index: usize, places: &[Place]) -> Broken {
    let at = || format!("attempt {} of job {index}: {ended:?}", ended.attempt);
    let certain = ended.receipt.proof.is_certain();
    let tree = places.iter().find(|place| place.job == index && place.attempt == ended.attempt);
    let alive = tree.is_some_and(|place| place.is_alive());
    let orphan = tree.is_some_and(|place| place.life.as_ref().is_some_and(|life| life.orphan));
    if certain && alive && !orphan {
        return broken("ended while its tree lives", at());
    }
    let began = tree.is_some_and(|place| place.life.is_some());
    if ended.receipt.proof == Proof::NeverStarted && began {
        return broken("never started, but it was", at());
    }
    if !certain && ended.outcome != Outcome::Lost {
        return broken("unaccounted is not lost", at());
    }
    let accounted = tree.is_some_and(|place| place.exit.is_some()) && ended.receipt.exit.is_some();
    if ended.outcome == Outcome::Lost
        && accounted
        && known.job.stop.is_none()
        && ended.receipt.keeper_stop != Some(KeeperStop::Lease)
    {
        return broken("lost, but it was accounted for", at());
    }
    if !certain {
        return Ok(());
    }
    let stop = known.job.stop.as_ref().map(|stop| stop.cause);
    let turn_just_ended = matches!(known.events.last(), Some(Event { fact: Fact::TurnEnded(_), .. }));
    if fits(known, ended, stop) || (turn_just_ended && fits(known, ended, known.stop_at_turn)) {
        return Ok(());
    }
    broken("the causes are mixed up", format!("stop {stop:?}, {}", at()))
}

/// Reports whether an attempt with a certain end ended as it had to, given the first reason to stop.
fn fits(known: &Known, ended: &AttemptEnded, stop: Option<Cause>) -> bool {
    let limit = known.limit.filter(|(attempt, _)| *attempt == ended.attempt).map(|(_, limit)| limit);
    let keeper_stop = ended.receipt.keeper_stop;
    match (stop, ended.outcome, ended.cause) {
        // The first reason in the log stands.
        (Some(Cause::Limit(stopped)), outcome, cause) => {
            outcome == stopped.into() && cause == Cause::Limit(stopped) && limit == Some(stopped)
        }
        (Some(Cause::Agent), outcome, cause) => outcome == Outcome::Failed && cause == Cause::Agent,
        (Some(Cause::Abandoned), outcome, cause) => outcome == Outcome::Lost && cause == Cause::Abandoned,
        (Some(stopped), Outcome::Cancelled(_), cause) => cause == stopped,
        (Some(_), _, _) => false,
        // Nobody asked and nothing fired: the keeper's reasons and the exit.
        (None, Outcome::TimedOut(_) | Outcome::OverBudget(_), _) => {
            let alone = matches!(
                keeper_stop,
                Some(KeeperStop::Deadline | KeeperStop::LocalStall | KeeperStop::LocalBudget(_))
            );
            limit.is_none() && alone
        }
        (None, Outcome::Cancelled(_), _) => keeper_stop == Some(KeeperStop::LocalCancel),
        (None, Outcome::Completed, _) => limit.is_none() && did_its_work(known, ended),
        (None, Outcome::Failed, _) => limit.is_none(),
        (None, Outcome::Lost, _) => true,
    }
}

/// Reports whether an attempt has done its work: an agent by its last turn, however it exits, and everybody else by the exit.
fn did_its_work(known: &Known, ended: &AttemptEnded) -> bool {
    let last_turn = known.job.session.as_ref().and_then(|session| session.last_turn);
    match known.job.reports_turns() {
        true => matches!(last_turn, Some((_, TurnEnding::Completed))) && known.job.active_turn().is_none(),
        false => ended.receipt.exit == Some(Exit::Code(0)),
    }
}

/// Checks the last word: that it is the first, and that it says what the deciding attempt says.
fn last_word(known: &Known, word: &LastWord, seq: Seq) -> Broken {
    let at = || format!("#{seq}: {word:?}");
    if known.job.is_ended() {
        return broken("a second last word", at());
    }
    match word.attempt {
        Some(attempt) => {
            let end =
                known.job.attempts.last().filter(|one| one.no == attempt).and_then(|one| one.end.as_ref());
            let same = end.is_some_and(|end| end.outcome == word.outcome && end.cause == word.cause);
            if !same {
                return broken("the last word differs from its attempt", at());
            }
        }
        None => {
            let begun = known.job.has_begun();
            let right = match (word.outcome, word.cause) {
                (Outcome::Cancelled(Begun::BeforeStart), Cause::Dependency) => true,
                (Outcome::Cancelled(began), Cause::User | Cause::Shutdown | Cause::ParentGone) => {
                    (began == Begun::WhileRunning) == begun
                }
                _ => false,
            };
            if !right || known.job.open_attempt().is_some() {
                return broken("the causes are mixed up", at());
            }
        }
    }
    if known.cancelled.is_none() {
        return Ok(());
    }
    // Cancelled, or what was in the log before the cancel, or lost.
    let first = known.job.stop.as_ref().map(|stop| stop.cause);
    let right = match word.outcome {
        Outcome::Cancelled(_) | Outcome::Lost => true,
        Outcome::TimedOut(_) | Outcome::OverBudget(_) => matches!(first, Some(Cause::Limit(_))),
        Outcome::Failed => first == Some(Cause::Agent),
        Outcome::Completed => false,
    };
    if right { Ok(()) } else { broken("an acknowledged cancel is forgotten", at()) }
}
