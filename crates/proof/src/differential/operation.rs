//! What a seed can ask of a journal, without anything that one journal alone would know.
//!
//! An operation names a job or an owner by a number; `driver` finds out which one that is in its own journal.

use lastword_core::budget::Budget;

use crate::random::Random;

/// Owners in a run: enough for a holder, a successor and a third one.
pub(super) const OWNERS: u64 = 3;

/// Queues in a run.
pub(super) const QUEUES: u64 = 2;

/// Conversations that jobs of a run resume: few, so that they meet.
const CONVERSATIONS: u64 = 2;

/// Keys in a run: few, so that they are used again.
const KEYS: u64 = 4;

/// One thing to do.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Submits a job. One number in eight was used before.
    Submit(Submission),
    /// Writes a request, as any client may.
    Request {
        /// Which job, counted round.
        job: u64,
        /// Which request fits it, counted round.
        choice: u64,
    },
    /// Takes jobs from a queue.
    Claim {
        /// Which owner.
        owner: u64,
        /// Which life of it: zero is the newest, one the life before.
        life: u64,
        /// From which queue.
        queue: u64,
        /// How many.
        at_most: u32,
        /// Within how many slots.
        slots: Option<u32>,
    },
    /// Takes all jobs whose holder is gone.
    TakeOver {
        /// Which owner.
        owner: u64,
    },
    /// Begins a new life.
    Register {
        /// Which owner.
        owner: u64,
    },
    /// Renews a life.
    Renew {
        /// Which owner.
        owner: u64,
        /// Which life of it: zero is the newest, one the life before.
        life: u64,
    },
    /// Ends a life.
    EndLife {
        /// Which owner.
        owner: u64,
        /// Which life of it: zero is the newest, one the life before.
        life: u64,
        /// How many beats ago it was looked at.
        unseen: u64,
    },
    /// Lets the holder of a job do the next thing.
    Work {
        /// Which of the held jobs, counted round.
        job: u64,
        /// Which fact fits, counted round.
        choice: u64,
    },
    /// Writes under a fence that was given at any time.
    Unwind {
        /// Which fence, counted round.
        fence: u64,
        /// Which fact fits, counted round.
        choice: u64,
    },
    /// Writes at a version that may be old, like a client that read the job back then.
    Stale {
        /// Which job, counted round.
        job: u64,
        /// How many events that writer has not seen.
        unseen: u64,
        /// Which request fits, counted round.
        choice: u64,
    },
    /// Sends an earlier append again.
    Repeat {
        /// Which, counted round.
        append: u64,
    },
    /// Loads a part of a log.
    Load {
        /// Which job, counted round.
        job: u64,
        /// After which event.
        after: u64,
    },
    /// Lists rows.
    List {
        /// By phase, counted round; `None` is any.
        phase: Option<u64>,
        /// By queue.
        queue: Option<u64>,
        /// Before which job, counted round.
        before: Option<u64>,
        /// How many.
        limit: u32,
    },
    /// Sets a group.
    SetGroup {
        /// Which queue.
        queue: u64,
        /// Its slots.
        slots: Option<u32>,
        /// Whether it is paused.
        paused: bool,
        /// What it may spend in a day.
        budget: Budget,
    },
    /// Asks what the newest incarnation of an owner holds.
    Held {
        /// Which owner.
        owner: u64,
        /// After which job, counted round.
        after: Option<u64>,
        /// How many.
        limit: u32,
    },
    /// Sends a request with a key.
    Key {
        /// Which key, of a few.
        key: u64,
        /// Which number the key is for, if it is new.
        job: u64,
        /// Whether this comes so late that a key without a job has expired.
        late: bool,
    },
    /// Removes a job.
    Remove {
        /// Which job, counted round.
        job: u64,
    },
    /// Reads everything, the feed included.
    Everything,
}

/// A job to be submitted.
#[derive(Clone, Debug)]
pub struct Submission {
    /// Its number.
    pub job: u64,
    /// Its queue.
    pub queue: u64,
    /// Its priority.
    pub priority: i16,
    /// How long after the present it is due, in milliseconds; `None` is at once.
    pub due_in_ms: Option<u64>,
    /// The conversation it resumes.
    pub resume: Option<u64>,
    /// Whether it stays on its host.
    pub keep: bool,
    /// Which labels it needs, one bit each.
    pub labels: u64,
}

/// The operations of a seed, without end.
#[derive(Debug)]
pub struct Operations {
    random: Random,
    submitted: u64,
}

impl Operations {
    /// Returns the operations of `seed`.
    pub fn new(seed: u64) -> Operations {
        Operations { random: Random::new(seed), submitted: 0 }
    }

    fn maybe(&mut self, percent: u64, end: u64) -> Option<u64> {
        self.random.chance(percent).then(|| self.random.below(end))
    }

    fn submission(&mut self) -> Operation {
        let job = if self.random.chance(12) { self.random.below(self.submitted + 1) } else { self.submitted };
        self.submitted = self.submitted.max(job + 1);
        Operation::Submit(Submission {
            job,
            queue: self.random.below(QUEUES),
            priority: *self.random.pick(&[0, 0, 0, 5, -5]),
            due_in_ms: self.maybe(25, 50),
            resume: self.maybe(25, CONVERSATIONS),
            keep: self.random.chance(20),
            labels: [0, 0, 0, 1, 2, 3][(job % 6) as usize],
        })
    }

    fn claim(&mut self) -> Operation {
        Operation::Claim {
            owner: self.random.below(OWNERS),
            life: u64::from(self.random.chance(10)),
            queue: self.random.below(QUEUES),
            at_most: self.random.below(4) as u32,
            slots: self.maybe(40, 6).map(|slots| slots as u32),
        }
    }

    fn set_group(&mut self) -> Operation {
        Operation::SetGroup {
            queue: self.random.below(QUEUES),
            slots: self.maybe(50, 6).map(|slots| slots as u32),
            paused: self.random.chance(20),
            budget: Budget { tokens: self.maybe(30, 40), money_micros: None },
        }
    }

    fn held(&mut self) -> Operation {
        Operation::Held {
            owner: self.random.below(OWNERS),
            after: self.maybe(30, 40),
            limit: self.random.below(8) as u32,
        }
    }

    fn key(&mut self) -> Operation {
        Operation::Key {
            key: self.random.below(KEYS),
            job: self.random.below(self.submitted + 2),
            late: self.random.chance(20),
        }
    }

    fn list(&mut self) -> Operation {
        Operation::List {
            phase: self.maybe(40, 6),
            queue: self.maybe(30, QUEUES),
            before: self.maybe(30, 40),
            limit: self.random.below(12) as u32,
        }
    }
}

impl Iterator for Operations {
    type Item = Operation;

    fn next(&mut self) -> Option<Operation> {
        let (owner, any, choice) =
            (self.random.below(OWNERS), self.random.below(1 << 16), self.random.below(1 << 16));
        let life = u64::from(self.random.chance(20));
        Some(match self.random.below(106) {
            0..14 => self.submission(),
            14..24 => Operation::Request { job: any, choice },
            24..38 => self.claim(),
            38..45 => Operation::TakeOver { owner },
            45..50 => Operation::Register { owner },
            50..58 => Operation::Renew { owner, life },
            58..62 => Operation::EndLife { owner, life, unseen: u64::from(self.random.chance(30)) },
            62..80 => Operation::Work { job: any, choice },
            80..84 => Operation::Unwind { fence: any, choice },
            84..88 => Operation::Stale { job: any, unseen: self.random.below(4), choice },
            88..93 => Operation::Repeat { append: any },
            93..95 => Operation::Load { job: any, after: self.random.below(6) },
            95..97 => self.held(),
            97..98 => self.set_group(),
            98..100 => self.list(),
            100..104 => self.key(),
            _ => Operation::Remove { job: any },
        })
    }
}
