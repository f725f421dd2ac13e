//! Named situations that a run must have met. One that no schedule reaches means that something was not tried.

use std::fmt::Write as _;

/// A situation, with its name in the report.
macro_rules! situations {
    ($($name:ident: $text:literal,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Situation {
            $($name,)*
        }

        const ALL: &[(Situation, &str)] = &[$((Situation::$name, $text),)*];
    };
}

situations! {
    Completed: "a job completes",
    Lost: "a job ends as lost",
    RunsAgainElsewhere: "a second attempt runs on another host than the first",
    BeatSeen: "a clerk sees a beat stand still for the lease and the margin",
    LifeEnded: "a clerk ends a life",
    LifeEndedBefore: "a clerk comes to end a life that the other has ended",
    BeatMovedOn: "a renewal comes between the look of a clerk and its end of the life",
    AheadClerkEnds: "a clerk whose clock is ahead ends a life",
    AccountedByTime: "an attempt is accounted for by its lease",
    TreeEndedByShim: "a shim ends its tree at the end of the lease",
    TreeEndedByGuard: "a guard ends the tree of a frozen shim",
    LaunchRefusedByGuard: "a guard refuses a launch after the end of its lease",
    LaunchRefusedByShim: "a shim finds the lease over before the gate",
    LaunchAfterFreeze: "a worker that was frozen past its lease launches",
    LaunchOfFormerClaim: "a launch of an earlier claim arrives after a later one of this worker",
    LeaseRanOut: "a worker finds its lease run out, and registers again",
    RenewalTooLate: "a renewal reaches the journal after the end of its life",
    AnswerTooLate: "the answer to a renewal comes after the end of the lease that it gave",
    TreeAdopted: "a later life adopts a tree",
    FailedOver: "a standby is promoted that lacks nothing",
    ClaimLost: "a failover loses a claim whose tree is alive",
    EndLost: "a failover loses a last word",
    LifeOfEarlierInstance: "a renewal under an earlier instance is refused",
    AppendOfEarlierInstance: "an append under an earlier instance is refused",
    RepeatOfEarlierInstance: "an append that the standby has is repeated under an earlier instance, and refused",
    RepeatStored: "an append whose answer was lost is repeated, and was stored",
    NothingInPause: "a claim in the pause gets nothing",
    TreeAdoptedInPause: "a tree is adopted in the pause",
    Settled: "a clerk ends the pause",
    SettledBefore: "a clerk comes to end a pause that the other has ended",
    CloneRefused: "a clone is refused the name of its original",
    CloneRegistered: "a clone registers when the life of its original is over",
    OriginalRefused: "the original is refused its name, which its clone has",
    CloneAccountsByTime: "a clone finds a tree of the other boot, and accounts for it by time",
    Fenced: "a worker whose job was taken is fenced",
}

/// Situations that were met.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Notes(u64);

impl Notes {
    pub(super) fn add(&mut self, situation: Situation) {
        self.0 |= 1 << situation as u64;
    }

    pub(super) fn has(self, situation: Situation) -> bool {
        self.0 & 1 << situation as u64 != 0
    }
}

/// How often each situation was met: in how many steps from one state to another.
#[derive(Clone, Debug, Default)]
pub(super) struct Coverage(Vec<u64>);

impl Coverage {
    pub(super) fn count(&mut self, notes: Notes) {
        self.0.resize(ALL.len(), 0);
        for (situation, _) in ALL.iter().filter(|(situation, _)| notes.has(*situation)) {
            self.0[*situation as usize] += 1;
        }
    }

    pub(super) fn add(&mut self, other: &Coverage) {
        self.0.resize(ALL.len(), 0);
        self.0.iter_mut().zip(&other.0).for_each(|(sum, count)| *sum += count);
    }

    /// Returns the table in words, and the situations that were not met.
    pub(super) fn table(&self) -> (String, Vec<&'static str>) {
        let (mut text, mut unmet) = (String::new(), Vec::new());
        for (situation, name) in ALL {
            let count = self.0.get(*situation as usize).copied().unwrap_or_default();
            let _ = writeln!(text, "{count:>10}  {name}");
            if count == 0 {
                unmet.push(*name);
            }
        }
        (text, unmet)
    }

    /// Reports whether a situation was met.
    #[cfg(test)]
    pub(super) fn has_met(&self, situation: Situation) -> bool {
        self.0.get(situation as usize).is_some_and(|count| *count > 0)
    }

    /// Returns how many situations there are.
    pub(super) fn possible() -> usize {
        ALL.len()
    }
}
