//! The second model: one agent, its session and its turns, and everything that can cross them.
//!
//! The journal answers at once here; what is explored is every order of what the agent says, what people ask for, the clock,
//! and the end of the tree.

use std::sync::Arc;

use lastword_core::decide::cancel::{self, Cancel};
use lastword_core::decide::claim::{self, Claimant, Lease};
use lastword_core::decide::{Decision, answer, interrupt, limit, send, submit};
use lastword_core::effects::Effect;
use lastword_core::event::{Commit, SessionState, TurnEnding, Usage};
use lastword_core::limits::{Limit, Limits};
use lastword_core::outcome::{Asked, Cause};
use lastword_core::owner::{Input, Output, Owner};
use lastword_core::question::{Ask, Reply};
use lastword_core::receipt::{Exit, Level, Proof, Receipt, Tree};
use lastword_core::report::{Report, Signal};
use lastword_core::{Append, AppendId, AttemptNo, Awake, Fact, Fence, InputNo, Job, Now, Phase, Timestamp};
use stateright::{Model, Property};

use super::world::{Shelf, WALL_LIMIT_MS, host_id, incarnation, job_id, owner_id};
use crate::jobs;

/// The agent and its owner, with the journal between them and the requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Talk {
    pub(crate) shelf: Shelf,
    owner: Arc<Owner>,
    /// Signals so far; also the offset of the last.
    said: u8,
    requests: u8,
    late: bool,
    /// The agent was told to go: by a stop or because it has nothing left to do.
    dismissed: bool,
    broken: Option<&'static str>,
}

/// One thing that can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Act {
    Say(Said),
    /// What was said last is read again from the recording.
    SayAgain(Said),
    Cancel,
    Interrupt,
    Send,
    Answer,
    RaiseLimit,
    /// Its owner claims a slot.
    Wake,
    GetLate,
    Exit(bool),
}

/// What the agent can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Said {
    Session,
    Turn,
    Ask,
    Spend,
    Done,
    Fail,
    State(SessionState),
}

/// How far it goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sessions {
    pub(crate) signals: u8,
    pub(crate) requests: u8,
    /// The agent stays open between turns.
    pub(crate) open: bool,
}

const SAID: [Said; 9] = [
    Said::Session,
    Said::Turn,
    Said::Ask,
    Said::Spend,
    Said::Done,
    Said::Fail,
    Said::State(SessionState::Ready),
    Said::State(SessionState::Errored),
    Said::State(SessionState::Running),
];

impl Model for Sessions {
    type State = Talk;
    type Action = Act;

    fn init_states(&self) -> Vec<Talk> {
        vec![begin(self.open)]
    }

    fn actions(&self, talk: &Talk, out: &mut Vec<Act>) {
        if talk.broken.is_some() || talk.shelf.job.is_ended() {
            return;
        }
        if talk.said < self.signals {
            out.extend(SAID.map(Act::Say));
        }
        if talk.said == self.signals {
            out.extend([Act::SayAgain(Said::Spend), Act::SayAgain(Said::Turn)]);
        }
        if talk.requests < self.requests {
            out.extend([Act::Cancel, Act::Interrupt, Act::Send, Act::Answer, Act::RaiseLimit]);
        }
        if talk.shelf.job.idle && talk.shelf.job.due().is_some() {
            out.push(Act::Wake);
        }
        if !talk.late {
            out.push(Act::GetLate);
        }
        out.push(Act::Exit(true));
        if talk.dismissed {
            out.push(Act::Exit(false));
        }
    }

    fn next_state(&self, talk: &Talk, act: Act) -> Option<Talk> {
        let mut talk = talk.clone();
        match act {
            Act::Say(said) => {
                talk.said += 1;
                let offset = u64::from(talk.said);
                talk.tell(heard(said, offset));
            }
            Act::SayAgain(said) => {
                let offset = u64::from(talk.said);
                talk.tell(heard(said, offset));
            }
            Act::Exit(success) => {
                let exit = Some(if success { Exit::Code(0) } else { Exit::Signal(9) });
                let receipt = Receipt { level: Level::Subreaper, exit, ..Receipt::bare(Proof::NoChildren) };
                let attempt = AttemptNo(1);
                talk.tell(Input::Report(Report::Emptied { attempt, receipt: Box::new(receipt) }));
            }
            Act::GetLate => {
                talk.late = true;
                talk.tell(Input::Tick);
            }
            Act::Wake => talk.wake(),
            Act::Cancel | Act::Interrupt | Act::Send | Act::Answer | Act::RaiseLimit => talk.ask(act),
        }
        Some(talk)
    }

    fn properties(&self) -> Vec<Property<Sessions>> {
        let always = ALWAYS.iter().map(|(name, condition)| Property::always(name, *condition));
        let sometimes = SOMETIMES.iter().map(|(name, condition)| Property::sometimes(name, *condition));
        always.chain(sometimes).collect()
    }
}

fn heard(said: Said, offset: u64) -> Input {
    let commit = Commit { messages: 1, transcript: offset, resume: Some("here".into()), ..Commit::default() };
    let signal = match said {
        Said::Session => Signal::SessionStarted { reference: Some("ref".into()), resumed_from: None },
        Said::Turn => Signal::TurnStarted,
        Said::Ask => Signal::QuestionAsked {
            question: "q".into(),
            text: "may I?".into(),
            ask: Box::new(Ask::permission("Bash", "make")),
            edits: Vec::new(),
        },
        Said::Spend => Signal::Spent(Usage { tokens_in: 1, ..Usage::default() }),
        Said::Done => Signal::TurnEnded { ending: TurnEnding::Completed, error: None, commit },
        Said::Fail => Signal::TurnEnded { ending: TurnEnding::Failed, error: Some("no".into()), commit },
        Said::State(state) => Signal::SessionChanged { state, background: 0 },
    };
    Input::Report(Report::Heard { attempt: AttemptNo(1), offset, signal })
}

/// The world in which an agent has just been launched.
fn begin(open: bool) -> Talk {
    let mut spec = jobs::agent("q");
    spec.stays_open = open;
    let idle_ms = open.then_some(super::world::LATE.0 / 2);
    let limits = Limits { turns: Some(2), tokens: Some(2), idle_ms, ..Limits::default() };
    spec.limits = Limits { wall_ms: Some(WALL_LIMIT_MS), ..limits };
    let mut shelf = Shelf { log: Vec::new(), job: Arc::new(Job::unborn(job_id())) };
    let facts = submit::decide(&shelf.job, &Arc::new(spec), "somebody", Limits::default());
    put(&mut shelf, 1, facts).expect("a submission follows nothing");
    let by = claimant();
    let facts = claim::decide(&shelf.job, &by, Lease::Live, Timestamp(1));
    put(&mut shelf, 2, facts).expect("a waiting job can be claimed");
    let fence = Fence { owner: by.owner, incarnation: by.incarnation, epoch: shelf.job.epoch };
    let now = Now { wall: Timestamp(1), awake: Awake(1) };
    let owner = Owner::new(Job::clone(&shelf.job), fence, by.host, "0".into(), now);
    let mut talk = Talk {
        shelf,
        owner: Arc::new(owner),
        said: 0,
        requests: 0,
        late: false,
        dismissed: false,
        broken: None,
    };
    talk.tell(Input::Tick);
    let tree = Tree { boot: "0".into(), pid: 1, start_ticks: 1, level: Level::Subreaper, withheld: None };
    talk.tell(Input::Report(Report::Launched { attempt: AttemptNo(1), tree, awake: Awake(1) }));
    talk
}

fn claimant() -> Claimant {
    Claimant { owner: owner_id(0), incarnation: incarnation(1), host: host_id(0), boot: None }
}

fn put(shelf: &mut Shelf, id: u128, facts: Decision) -> Option<()> {
    let facts = facts.ok().filter(|facts| !facts.is_empty())?;
    let (append, _) = Append::new(&shelf.job, None, AppendId(id), Timestamp(1), facts).ok()?;
    shelf.append(&append).ok()
}

impl Talk {
    fn tell(&mut self, input: Input) {
        let awake = if self.late { super::world::LATE } else { Awake(1) };
        let now = Now { wall: Timestamp(1), awake };
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            for output in Arc::make_mut(&mut self.owner).step(input, now) {
                match output {
                    Output::Append(append) => match self.shelf.append(&append) {
                        Ok(()) => inputs.push(Input::Stored),
                        Err(_) => self.broken = Some("the only owner was refused"),
                    },
                    Output::Load { after } => inputs.push(Input::Loaded(self.shelf.after(after))),
                    Output::Do(Effect::Stop { .. } | Effect::Close { .. }) => self.dismissed = true,
                    Output::Do(Effect::Tell { input, .. }) => {
                        if self.shelf.job.idle && !self.answers(input) {
                            self.broken = Some("an idle agent was told something without a slot");
                        }
                        inputs.insert(0, Input::Report(Report::Told { input }));
                    }
                    Output::Do(_) | Output::LetGo { .. } => {}
                    Output::Broken(_) => self.broken = Some("the owner decided what the log refuses"),
                }
            }
        }
    }

    fn answers(&self, input: InputNo) -> bool {
        self.shelf.job.inputs.iter().any(|pending| pending.no == input && pending.question.is_some())
    }

    /// A slot is claimed for the idle agent, as the journal does it: under the fence of its holder.
    fn wake(&mut self) {
        let job = &self.shelf.job;
        let fence = job.holder.as_ref().map(|holder| holder.fence.clone());
        let facts = claim::decide(job, &claimant(), Lease::Live, Timestamp(1));
        let append = facts.ok().and_then(|facts| {
            Append::new(job, fence.as_ref(), AppendId(200 + u128::from(job.version.0)), Timestamp(1), facts)
                .ok()
        });
        match append.map(|(append, _)| self.shelf.append(&append)) {
            Some(Ok(())) => self.tell(Input::News),
            _ => self.broken = Some("a slot for an idle agent was refused"),
        }
    }

    fn ask(&mut self, act: Act) {
        self.requests += 1;
        let (job, now) = (&self.shelf.job, Timestamp(1));
        let facts = match act {
            Act::Cancel => {
                let wish = Cancel { by: "somebody".into(), asked: Asked::User, force: false };
                cancel::decide(job, &wish, now)
            }
            Act::Interrupt => interrupt::decide(job, "somebody", None),
            Act::Send => send::decide(job, "somebody", "more", false),
            Act::Answer => {
                let open = job.session.iter().flat_map(|session| &session.questions).next();
                answer::decide(job, "somebody", open.map_or("", |open| &open.name), &Reply::Allow)
            }
            _ => limit::decide(job, "somebody", Limit::Wall, 10_000),
        };
        if let Ok(facts) = &facts
            && !facts.is_empty()
        {
            let id = 100 + u128::from(self.requests);
            match put(&mut self.shelf, id, Ok(facts.clone())) {
                Some(()) => self.tell(Input::News),
                None => self.broken = Some("a request was decided that the log refuses"),
            }
        }
    }
}

type Condition = (&'static str, fn(&Sessions, &Talk) -> bool);

pub(crate) const ALWAYS: &[Condition] = &[
    ("nothing forbidden was noticed", |_, talk| talk.broken.is_none()),
    ("an inactive session has no active turn", |_, talk| {
        let session = talk.shelf.job.session.as_ref();
        session.is_none_or(|session| session.state.may_hold_turn() || session.active.is_none())
    }),
    ("each turn ends at most once, and exactly once by the end of the attempt", |_, talk| {
        let (begun, ended) = (count(talk, is_turn_start), count(talk, is_turn_end));
        let over = talk.shelf.job.open_attempt().is_none();
        ended <= begun && begun <= ended + 1 && (!over || begun == ended)
    }),
    ("only completed turns change the conversation", |_, talk| {
        let completed =
            |fact: &Fact| matches!(fact, Fact::TurnEnded(end) if end.ending == TurnEnding::Completed);
        let messages = talk.shelf.job.session.as_ref().map_or(0, |session| session.conversation.messages);
        messages as usize <= count(talk, completed)
    }),
    ("after a wish to stop no turn begins and none completes", |_, talk| {
        let stop = |fact: &Fact| matches!(fact, Fact::CancelRequested(_) | Fact::LimitFired(_));
        let after = talk.shelf.facts().skip_while(|fact| !stop(fact));
        after.into_iter().all(|fact| match fact {
            Fact::TurnStarted(_) => false,
            Fact::TurnEnded(end) => end.ending != TurnEnding::Completed,
            _ => true,
        })
    }),
    ("what was spent is counted once", |_, talk| {
        let spent = talk.shelf.facts().filter_map(|fact| match fact {
            Fact::Spent(spent) => Some(spent.offset),
            _ => None,
        });
        let mut spent: Vec<u64> = spent.collect();
        let all = spent.len();
        spent.sort_unstable();
        spent.dedup();
        spent.len() == all && talk.shelf.job.usage.tokens() == all as u64
    }),
    ("questions end with their session", |_, talk| {
        let job = &talk.shelf.job;
        job.open_attempt().is_some()
            || job.session.as_ref().is_none_or(|session| session.questions.is_empty())
    }),
    ("only an agent that stays open is idle, and between turns", |_, talk| {
        let job = &talk.shelf.job;
        let rests = || {
            job.session.as_ref().is_some_and(|session| session.active.is_none() && session.background == 0)
        };
        !job.idle || job.stays_open() && matches!(job.phase, Phase::Running) && rests()
    }),
    ("an interrupt alone does not end the run", |_, talk| {
        let reason = |fact: &Fact| {
            matches!(fact, Fact::CancelRequested(_) | Fact::LimitFired(_))
                || matches!(fact, Fact::TurnEnded(end) if !matches!(
                    end.ending,
                    TurnEnding::Completed | TurnEnding::Interrupted | TurnEnding::Superseded
                ))
        };
        !matches!(talk.shelf.job.phase, Phase::Stopping { .. }) || count(talk, reason) > 0
    }),
];

pub(crate) const SOMETIMES: &[Condition] = &[
    ("can complete a turn and the job", |_, talk| {
        talk.shelf.job.last_word().is_some_and(|word| word.outcome.name() == "completed")
    }),
    ("can interrupt a turn and go on", |_, talk| {
        talk.shelf.job.turns.0 > 1 && has_ending(talk, TurnEnding::Interrupted)
    }),
    ("can cancel in mid-turn", |_, talk| has_ending(talk, TurnEnding::Cancelled)),
    ("can supersede a turn", |_, talk| has_ending(talk, TurnEnding::Superseded)),
    ("can exit in mid-turn", |_, talk| has_ending(talk, TurnEnding::AgentExit)),
    ("can break in mid-turn", |_, talk| has_ending(talk, TurnEnding::RuntimeError)),
    ("can reach the wall in mid-turn", |_, talk| has_ending(talk, TurnEnding::OverLimit(Limit::Wall))),
    ("can run out of turns", |_, talk| has_limit(talk, Limit::Turns)),
    ("can run out of tokens", |_, talk| has_limit(talk, Limit::Tokens)),
    ("can be idle, be woken, and take another turn", |_, talk| {
        let mut facts = talk.shelf.facts();
        facts.any(|fact| matches!(fact, Fact::Woken(_))) && facts.any(is_turn_start)
    }),
    ("can be too long idle, and completed", |_, talk| {
        has_limit(talk, Limit::Idle)
            && talk.shelf.job.last_word().is_some_and(|word| word.outcome.name() == "completed")
    }),
    ("can be cancelled while idle, and completed", |_, talk| {
        let job = &talk.shelf.job;
        let asked = job.stop.as_ref().is_some_and(|stop| stop.cause == Cause::User);
        asked && job.last_word().is_some_and(|word| word.outcome.name() == "completed")
    }),
    ("can answer a question", |_, talk| {
        talk.shelf.facts().any(|fact| matches!(fact, Fact::AnswerRequested(_)))
    }),
];

fn is_turn_start(fact: &Fact) -> bool {
    matches!(fact, Fact::TurnStarted(_))
}

fn is_turn_end(fact: &Fact) -> bool {
    matches!(fact, Fact::TurnEnded(_))
}

fn count(talk: &Talk, wanted: impl Fn(&Fact) -> bool) -> usize {
    talk.shelf.facts().filter(|fact| wanted(fact)).count()
}

fn has_ending(talk: &Talk, ending: TurnEnding) -> bool {
    count(talk, |fact| matches!(fact, Fact::TurnEnded(end) if end.ending == ending)) > 0
}

fn has_limit(talk: &Talk, limit: Limit) -> bool {
    count(talk, |fact| matches!(fact, Fact::LimitFired(fired) if fired.limit == limit)) > 0
}
