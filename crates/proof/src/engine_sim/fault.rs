//! Faults of this simulation.

use lastword_core::view::row::PhaseName;

use crate::schedules::{Table, faults};

faults! {
    /// The engine is killed at some moment.
    EngineKilled = "engine killed",
    /// The engine is killed while it calls the journal, whose write counts or does not.
    KilledInCall = "killed in call",
    /// The engine is killed while it speaks to a keeper.
    KilledInEffect = "killed in effect",
    /// The engine goes down as it was asked to, and its jobs go on.
    ShutDown = "shut down",
    /// The host boots again.
    Reboot = "reboot",
    /// The wall clock jumps.
    ClockJump = "clock jump",
    /// The journal cannot be reached for a while.
    JournalAway = "journal away",
    /// One call to the journal fails and counts for nothing.
    CallFailed = "call failed",
    /// The journal did it, and its answer is lost.
    AnswerLost = "answer lost",
    /// The journal takes long.
    JournalSlow = "journal slow",
    /// What is read from the journal is damaged.
    CorruptRead = "corrupt read",
    /// A keeper dies, and perhaps leaves its tree behind.
    KeeperCrash = "keeper crash",
    /// An effect fails, or seems to.
    EffectUnclear = "effect unclear",
    /// A report takes long.
    ReportLate = "report late",
    /// A report comes twice.
    ReportTwice = "report twice",
    /// The line to a keeper breaks.
    LineCut = "line cut",
    /// A client goes away before it has its answer.
    ClientGone = "client gone",
    /// No room on the disk for what is kept beside the journal.
    DiskFull = "disk full",
}

/// The table of where they strike.
pub(super) const TABLE: &Table = &Table {
    faults: Fault::NAMES,
    impossible: &[
        ("killed in effect", PhaseName::Queued, "no effect is due before an attempt is intended"),
        ("killed in effect", PhaseName::Backoff, "no effect is due while no attempt is open"),
        ("killed in effect", PhaseName::Ended, "nothing is due once the end is known"),
        ("keeper crash", PhaseName::Queued, "no attempt, so no keeper"),
        ("keeper crash", PhaseName::Backoff, "no attempt is open, so no keeper"),
        ("keeper crash", PhaseName::Ended, "nothing of an ended job has a keeper"),
        ("effect unclear", PhaseName::Queued, "no effect is due before an attempt is intended"),
        ("effect unclear", PhaseName::Backoff, "no effect is due while no attempt is open"),
        ("effect unclear", PhaseName::Ended, "nothing is due once the end is known"),
        ("report late", PhaseName::Backoff, "whoever reports to a task is gone with it"),
        ("report late", PhaseName::Ended, "whoever reports to a task is gone with it"),
        ("report late", PhaseName::Queued, "nothing is reported before an attempt is intended"),
        ("report twice", PhaseName::Queued, "nothing is reported before an attempt is intended"),
        ("line cut", PhaseName::Queued, "no attempt, so no keeper"),
        ("line cut", PhaseName::Backoff, "no attempt is open, so no keeper"),
        ("line cut", PhaseName::Ended, "a line goes with the report of the end, but for a moment"),
    ],
    never: &[(PhaseName::Idle, "its jobs are commands")],
};
