//! Faults of this simulation.

use lastword_core::view::row::PhaseName;

use crate::schedules::{Table, faults};

faults! {
    /// An owner dies and comes back as another life of itself.
    OwnerCrash = "owner crash",
    /// An owner stands still until its lease is over, and goes on as if nothing had been.
    OwnerPause = "owner pause",
    /// An owner cannot reach the journal.
    JournalCut = "journal cut",
    /// The journal dies and loses what was not synced.
    StoreCrash = "store crash",
    /// The journal dies and keeps a torn part of what was not synced.
    TornWrite = "torn write",
    /// A keeper dies, and perhaps leaves its tree behind.
    KeeperCrash = "keeper crash",
    /// A host boots again.
    Reboot = "reboot",
    /// A host sleeps.
    Suspend = "suspend",
    /// A wall clock jumps.
    ClockJump = "clock jump",
    /// A call to the journal never arrives.
    CallLost = "call lost",
    /// A call to the journal arrives long after its sender gave up.
    CallLate = "call late",
    /// The journal did it, and its answer is lost.
    AnswerLost = "answer lost",
    /// What came of an effect is not known.
    EffectUnclear = "effect unclear",
    /// A report takes long.
    ReportLate = "report late",
    /// A report comes twice.
    ReportTwice = "report twice",
    /// A host goes and never comes back.
    HostGone = "host gone",
    /// Another server takes over: the journal goes on as another instance, which pauses.
    Failover = "failover",
    /// Another server takes over that did not get the last writes.
    WritesLost = "writes lost",
    /// A host comes back as a clone of the other one: with its id, the name of its worker, and another boot.
    HostCloned = "host cloned",
}

/// The table of where they strike.
pub(super) const TABLE: &Table = &Table {
    faults: Fault::NAMES,
    impossible: &[
        ("keeper crash", PhaseName::Backoff, "no attempt is open, so no keeper"),
        ("keeper crash", PhaseName::Ended, "nothing of an ended job has a keeper"),
    ],
    never: &[],
};
