//! Faults, and the table of where they struck.

use lastword_core::view::row::PhaseName;

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// Something that goes wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Fault {
            $($(#[$doc])* $name,)*
        }

        impl Fault {
            /// Every fault.
            pub const ALL: &'static [Fault] = &[$(Fault::$name),*];

            /// Returns its name in the table.
            pub fn name(self) -> &'static str {
                match self { $(Fault::$name => $text,)* }
            }
        }
    };
}

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
}

/// Where faults struck: counts by fault and phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage([[u64; PhaseName::ALL.len()]; Fault::ALL.len()]);

/// Cells that cannot be filled, and why.
const IMPOSSIBLE: &[(Fault, PhaseName, &str)] = &[
    (Fault::KeeperCrash, PhaseName::Queued, "no attempt, so no keeper"),
    (Fault::KeeperCrash, PhaseName::Backoff, "no attempt is open, so no keeper"),
    (Fault::KeeperCrash, PhaseName::Ended, "nothing of an ended job has a keeper"),
    (Fault::EffectUnclear, PhaseName::Queued, "no effect is due before an attempt is intended"),
    (Fault::ReportLate, PhaseName::Queued, "nothing is reported before an attempt is intended"),
    (Fault::ReportTwice, PhaseName::Queued, "nothing is reported before an attempt is intended"),
];

impl Coverage {
    /// Counts one strike.
    pub(super) fn struck(&mut self, fault: Fault, phase: PhaseName) {
        self.0[fault as usize][phase as usize] += 1;
    }

    /// Adds the counts of another schedule.
    pub(super) fn add(&mut self, other: &Coverage) {
        for (row, more) in self.0.iter_mut().zip(&other.0) {
            row.iter_mut().zip(more).for_each(|(cell, more)| *cell += more);
        }
    }

    /// Returns the cells that are empty and should not be.
    pub fn gaps(&self) -> Vec<(Fault, PhaseName)> {
        let cells = Fault::ALL.iter().flat_map(|fault| PhaseName::ALL.map(|phase| (*fault, phase)));
        let empty = cells.filter(|(fault, phase)| self.0[*fault as usize][*phase as usize] == 0);
        empty.filter(|cell| reason(*cell).is_none()).collect()
    }

    /// Returns the table, a line each, and the reasons of its impossible cells.
    pub fn lines(&self) -> Vec<String> {
        let phases = PhaseName::ALL.map(|phase| format!("{:>11}", phase.as_str())).concat();
        let mut lines = vec![format!("{:<15}{phases}", "fault \\ phase")];
        for fault in Fault::ALL {
            let cells = PhaseName::ALL.map(|phase| match self.0[*fault as usize][phase as usize] {
                0 if reason((*fault, phase)).is_some() => format!("{:>11}", "-"),
                count => format!("{count:>11}"),
            });
            lines.push(format!("{:<15}{}", fault.name(), cells.concat()));
        }
        for (fault, phase, reason) in IMPOSSIBLE {
            lines.push(format!("-  {} while {}: {reason}", fault.name(), phase.as_str()));
        }
        lines
    }
}

fn reason((fault, phase): (Fault, PhaseName)) -> Option<&'static str> {
    let found = IMPOSSIBLE.iter().find(|(one, other, _)| *one == fault && *other == phase);
    found.map(|(_, _, reason)| *reason)
}
