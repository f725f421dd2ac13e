//! What all parts of a run share: the product, the ground, and what is known of each job so far.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::evidence::{Acts, Read};
use super::ground::Ground;
use super::judge::Violation;
use super::members::{Members, locked};
use super::plan::{Mix, Order};
use crate::clock;
use crate::product::Product;

/// A span of the boot clock; the end is open while it lasts.
pub(crate) type Span = (u64, u64);

/// The stage.
pub(crate) struct Stage {
    /// What commands and requests go to.
    pub(crate) product: Product,
    pub(crate) members: Members,
    pub(crate) adversary: PathBuf,
    pub(crate) ground: Ground,
    pub(crate) mix: Mix,
    /// How long a job may wait for another one that has ended.
    pub(crate) patience: Duration,
    pub(crate) begin: Instant,
    /// When the leader of a job that others wait for was last seen to exit.
    pub(crate) ending_ns: AtomicU64,
    /// The most facts of a wrong clock that the journal ever had: removals take them.
    pub(crate) astray: AtomicU64,
    jobs: Mutex<BTreeMap<u64, Entry>>,
    numbers: Mutex<BTreeMap<String, u64>>,
    /// When the disk was full.
    pub(crate) full: Mutex<Vec<Span>>,
    /// When the journal could not be written.
    pub(crate) read_only: Mutex<Vec<Span>>,
    /// When the product had a wrong clock.
    pub(crate) wrong_clock: Mutex<Vec<Span>>,
    tally: Mutex<BTreeMap<&'static str, u64>>,
    pub(crate) violations: Mutex<Vec<Violation>>,
    first: Mutex<Option<(f64, String)>>,
    /// No more faults.
    pub(crate) calm: AtomicBool,
    /// No more of anything.
    pub(crate) over: AtomicBool,
}

/// A job, so far.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) order: Order,
    pub(crate) id: Option<String>,
    pub(crate) asked_ns: u64,
    /// When it was acknowledged.
    pub(crate) taken_ns: u64,
    /// The job it was told to wait for.
    pub(crate) waits_for: Option<Awaited>,
    pub(crate) acts: Acts,
    /// When its last word was seen, and which of its processes were alive then.
    pub(crate) seen: Option<(u64, Vec<i32>)>,
    pub(crate) outcome: Option<String>,
    /// The last sign of life when its last word was seen.
    pub(crate) last_ns: u64,
    /// What was read of it before anything could remove it.
    pub(crate) read: Option<Read>,
    /// When its removal was asked for.
    pub(crate) removing_ns: Option<u64>,
    /// A prune may have removed it.
    pub(crate) prunable: bool,
    /// It is there no more.
    pub(crate) gone: bool,
    /// It is known to wait for what has long ended.
    pub(crate) overdue: bool,
    /// The answer to its submission got lost, and was not asked for again.
    pub(crate) unanswered: bool,
    pub(crate) judged: bool,
}

/// A job that another one waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Awaited {
    pub(crate) number: u64,
    pub(crate) id: String,
    /// It must complete.
    pub(crate) must: bool,
}

impl Entry {
    /// Reports whether something may have removed it.
    pub(crate) fn may_be_gone(&self) -> bool {
        self.removing_ns.is_some() || self.prunable
    }

    /// Reports whether nothing more is to be expected of it.
    pub(crate) fn is_over(&self) -> bool {
        self.id.is_none() || self.seen.is_some() || self.gone
    }
}

impl Stage {
    pub(crate) fn new(
        members: Members,
        adversary: PathBuf,
        ground: Ground,
        mix: Mix,
        patience: Duration,
    ) -> Stage {
        Stage {
            product: members.product().clone(),
            members,
            adversary,
            ground,
            mix,
            patience,
            begin: Instant::now(),
            ending_ns: AtomicU64::default(),
            astray: AtomicU64::default(),
            jobs: Mutex::default(),
            numbers: Mutex::default(),
            full: Mutex::default(),
            read_only: Mutex::default(),
            wrong_clock: Mutex::default(),
            tally: Mutex::default(),
            violations: Mutex::default(),
            first: Mutex::default(),
            calm: AtomicBool::new(false),
            over: AtomicBool::new(false),
        }
    }

    /// Counts something that happened.
    pub(crate) fn count(&self, what: &'static str) {
        self.add(what, 1);
    }

    /// Counts several at once.
    pub(crate) fn add(&self, what: &'static str, count: usize) {
        *locked(&self.tally).entry(what).or_default() += count as u64;
    }

    /// Returns how often something happened.
    pub(crate) fn counted(&self, what: &str) -> u64 {
        locked(&self.tally).get(what).copied().unwrap_or(0)
    }

    /// Returns everything that was counted.
    pub(crate) fn tally(&self) -> BTreeMap<&'static str, u64> {
        locked(&self.tally).clone()
    }

    /// Begins with a job.
    pub(crate) fn enter(&self, order: &Order) {
        let entry = Entry {
            order: order.clone(),
            id: None,
            asked_ns: clock::boot_ns(),
            taken_ns: 0,
            waits_for: None,
            acts: Acts::default(),
            seen: None,
            outcome: None,
            last_ns: 0,
            read: None,
            removing_ns: None,
            prunable: false,
            gone: false,
            overdue: false,
            unanswered: false,
            judged: false,
        };
        locked(&self.jobs).insert(order.number, entry);
    }

    /// Notes that a job was acknowledged.
    pub(crate) fn acknowledged(&self, number: u64, id: &str) {
        self.entry(number, |entry| {
            entry.id = Some(id.to_owned());
            entry.taken_ns = clock::boot_ns();
        });
        locked(&self.numbers).insert(id.to_owned(), number);
    }

    /// Looks at what is known of a job, or adds to it.
    pub(crate) fn entry<T>(&self, number: u64, with: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        locked(&self.jobs).get_mut(&number).map(with)
    }

    /// Returns the number of a job.
    pub(crate) fn number(&self, id: &str) -> Option<u64> {
        locked(&self.numbers).get(id).copied()
    }

    /// Returns all that is known of all jobs.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        locked(&self.jobs).values().cloned().collect()
    }

    /// Reports whether the disk was full at some moment of this span.
    pub(crate) fn was_full(&self, span: Span) -> bool {
        meet(&self.full, span)
    }

    /// Reports whether the journal could not be written at some moment of this span.
    pub(crate) fn was_read_only(&self, span: Span) -> bool {
        meet(&self.read_only, span)
    }

    /// Reports whether the product had a wrong clock at some moment of this span.
    pub(crate) fn had_wrong_clock(&self, span: Span) -> bool {
        meet(&self.wrong_clock, span)
    }

    /// Opens a window; the end of it is given when it is known.
    pub(crate) fn open(windows: &Mutex<Vec<Span>>) {
        locked(windows).push((clock::boot_ns(), u64::MAX));
    }

    /// Ends the newest window.
    pub(crate) fn shut(windows: &Mutex<Vec<Span>>) {
        if let Some(span) = locked(windows).last_mut() {
            span.1 = clock::boot_ns();
        }
    }

    /// Returns what the judges of jobs found first, and after how many seconds.
    pub(crate) fn caught(&self) -> Option<(f64, String)> {
        locked(&self.first).clone()
    }

    /// Adds what a judge found.
    pub(crate) fn violated(&self, violations: Vec<Violation>) {
        for violation in &violations {
            println!("VIOLATION at {:.1} s: {}: {}", self.elapsed_s(), violation.judge, violation.what);
        }
        if let Some(violation) = violations.first() {
            let found = (self.elapsed_s(), format!("{}: {}", violation.judge, violation.what));
            locked(&self.first).get_or_insert(found);
        }
        locked(&self.violations).extend(violations);
    }

    pub(crate) fn elapsed_s(&self) -> f64 {
        self.begin.elapsed().as_secs_f64()
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.calm.load(Ordering::Relaxed)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Rests for a while, or until the faults are over; reports whether they go on.
    pub(crate) fn rest_among_faults(&self, pause: Duration) -> bool {
        clock::until(pause, Duration::from_millis(20), || self.is_calm().then_some(())).is_none()
    }
}

fn meet(windows: &Mutex<Vec<Span>>, (begin, end): Span) -> bool {
    locked(windows).iter().any(|(from, to)| *from <= end && begin <= *to)
}
