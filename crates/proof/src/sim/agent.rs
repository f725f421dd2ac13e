//! What runs in a tree: a plain command, or an agent that talks about its session and its turns.

use lastword_core::Incarnation;
use lastword_core::event::{Commit, SessionState, TurnEnding, Usage};
use lastword_core::question::Ask;
use lastword_core::receipt::Exit;
use lastword_core::report::Signal;

use super::process::Hold;
use crate::random::Random;

/// Signals after which an agent has nothing new to say and hangs: schedules are short.
const SIGNALS_MAX: u32 = 14;

/// What the tree does next.
pub(super) enum Next {
    /// Says something.
    Say(Signal),
    /// Waits for the next input.
    Wait,
    /// Exits.
    Exit(Exit),
}

/// The leader of a tree, with what its keeper has of it.
pub(super) struct Leader {
    pub(super) program: Program,
    /// It waits until something is said to it.
    pub(super) asleep: bool,
    /// Inputs it was told.
    pub(super) told: Vec<u32>,
    /// What it has said, with the offset after it.
    pub(super) recording: Vec<(u64, Signal)>,
    /// The owner that asked last for it to be stopped, and hears of the rungs.
    pub(super) stopped_by: Option<Hold>,
    /// When its keeper next looks at its lease, and at its deadline.
    pub(super) looks: [u64; 2],
    /// The life under whose lease it runs.
    pub(super) under: Option<Incarnation>,
}

impl Leader {
    pub(super) fn new(program: Program) -> Leader {
        Leader {
            program,
            asleep: false,
            told: Vec::new(),
            recording: Vec::new(),
            stopped_by: None,
            looks: [0; 2],
            under: None,
        }
    }
}

/// The program in a tree.
#[derive(Clone)]
pub(super) struct Program {
    random: Random,
    talks: bool,
    resumed_from: Option<String>,
    said: u32,
    mood: Mood,
    prompts: u32,
    closed: bool,
    interrupted: bool,
    tools: u32,
    question: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mood {
    Fresh,
    Idle,
    Turn { left: u32 },
    Hung,
}

impl Program {
    /// Returns a program whose doings are those of `seed`.
    pub(super) fn new(seed: u64, talks: bool, resumed_from: Option<String>) -> Program {
        Program {
            random: Random::new(seed),
            talks,
            resumed_from,
            said: 0,
            mood: Mood::Fresh,
            prompts: 1,
            closed: false,
            interrupted: false,
            tools: 0,
            question: None,
        }
    }

    /// Returns how long it takes to its next doing.
    pub(super) fn pause_ms(&mut self) -> u64 {
        if self.talks { 20 + self.random.below(400) } else { 100 + self.random.below(3_000) }
    }

    /// Hears an input.
    pub(super) fn told(&mut self) {
        self.question = None;
        self.prompts += 1;
    }

    /// Hears that its turn is to end.
    pub(super) fn interrupt(&mut self) {
        self.interrupted = true;
    }

    /// Sees its input closed.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// Does the next thing.
    pub(super) fn next(&mut self) -> Next {
        if !self.talks {
            return match self.random.below(10) {
                0..5 => Next::Exit(Exit::Code(0)),
                5..8 => Next::Exit(Exit::Code(1)),
                _ => self.hang(),
            };
        }
        match self.mood {
            Mood::Hung => Next::Wait,
            Mood::Fresh => {
                self.mood = Mood::Idle;
                let reference = self.random.chance(70).then(|| "s".to_owned());
                let resumed_from = self.resumed_from.clone();
                self.say(Signal::SessionStarted { reference, resumed_from })
            }
            Mood::Idle => self.idle(),
            Mood::Turn { left } => self.work(left),
        }
    }

    fn say(&mut self, signal: Signal) -> Next {
        self.said += 1;
        Next::Say(signal)
    }

    fn hang(&mut self) -> Next {
        self.mood = Mood::Hung;
        Next::Wait
    }

    fn idle(&mut self) -> Next {
        if self.said > SIGNALS_MAX && !self.closed {
            return self.hang();
        }
        if self.prompts > 0 && !self.closed {
            self.prompts -= 1;
            self.mood = Mood::Turn { left: 1 + self.random.below(4) as u32 };
            return self.say(Signal::TurnStarted);
        }
        match self.random.below(20) {
            _ if self.closed => Next::Exit(Exit::Code(0)),
            0 => Next::Exit(Exit::Code(0)),
            1 => {
                let background = self.random.below(2) as u32;
                self.say(Signal::SessionChanged { state: SessionState::Ready, background })
            }
            _ => Next::Wait,
        }
    }

    fn work(&mut self, left: u32) -> Next {
        if self.said > SIGNALS_MAX {
            return self.hang();
        }
        if self.interrupted {
            self.interrupted = false;
            return self.end_turn(TurnEnding::Aborted);
        }
        if left == 0 {
            return match self.random.below(20) {
                0..14 => self.end_turn(TurnEnding::Completed),
                14..16 => self.end_turn(TurnEnding::Failed),
                16 => self.end_turn(TurnEnding::Aborted),
                17 => Next::Exit(Exit::Code(self.random.below(2) as i32)),
                18 => self.hang(),
                _ => self.go_inactive(),
            };
        }
        self.mood = Mood::Turn { left: left - 1 };
        let signal = match self.random.below(16) {
            0..5 => Signal::Spent(self.usage()),
            5..7 => Signal::ItemCompleted { title: "i".to_owned() },
            7 if self.random.chance(30) => Signal::Progress,
            7 => Signal::Wrote { total_bytes: u64::from(self.said) * 5 },
            8 if self.tools > 0 => {
                self.tools -= 1;
                Signal::ToolEnded
            }
            8 | 9 => {
                self.tools += 1;
                Signal::ToolStarted
            }
            10 => match self.question.take() {
                Some(no) => Signal::QuestionClosed { question: no.to_string() },
                None => self.ask(),
            },
            11 | 12 => self.ask(),
            // A start notice, and a start, in mid-turn.
            13 => Signal::SessionStarted { reference: None, resumed_from: None },
            14 => Signal::TurnStarted,
            _ => Signal::SessionChanged { state: SessionState::Running, background: 1 },
        };
        self.say(signal)
    }

    fn usage(&mut self) -> Usage {
        Usage {
            tokens_in: 1 + self.random.below(20),
            tokens_out: self.random.below(20),
            money_micros: self.random.below(30),
        }
    }

    fn ask(&mut self) -> Signal {
        self.question = Some(self.said);
        let ask = Box::new(Ask::permission("Bash", "make"));
        Signal::QuestionAsked {
            question: self.said.to_string(),
            text: "?".to_owned(),
            ask,
            edits: Vec::new(),
        }
    }

    fn end_turn(&mut self, ending: TurnEnding) -> Next {
        self.mood = Mood::Idle;
        self.question = None;
        let commit = Commit {
            messages: 1 + self.random.below(3) as u32,
            transcript: u64::from(self.said),
            denials: Vec::new(),
            usage: self.usage(),
            resume: self.random.chance(50).then(|| "r".to_owned()),
            mark: None,
        };
        self.say(Signal::TurnEnded { ending, error: None, commit })
    }

    fn go_inactive(&mut self) -> Next {
        self.mood = Mood::Idle;
        self.question = None;
        let states =
            [SessionState::Ready, SessionState::Interrupted, SessionState::Stopped, SessionState::Errored];
        let state = *self.random.pick(&states);
        self.say(Signal::SessionChanged { state, background: 0 })
    }
}
