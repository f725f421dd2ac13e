//! Which faults a run took in which phases. An empty cell means that something was not tried.

use std::sync::atomic::{AtomicU64, Ordering};

use lastword_core::Job;
use lastword_core::view::row::PhaseName;

use super::step::Action;

/// Faults of the coverage table.
const FAULTS: [&str; 9] = [
    "owner crash",
    "keeper crash",
    "reboot",
    "lease over",
    "answer lost",
    "report lost",
    "late append",
    "cancel",
    "limit",
];

/// How often each fault was taken in each phase.
#[derive(Debug, Default)]
pub(crate) struct Coverage([[AtomicU64; FAULTS.len()]; PhaseName::ALL.len()]);

impl Coverage {
    /// Counts an action, if it is a fault, in the phase it happens in.
    pub(crate) fn count(&self, job: &Job, action: Action) {
        if let Some(fault) = fault_of(action) {
            self.0[phase_of(job) as usize][fault].fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn fault_of(action: Action) -> Option<usize> {
    Some(match action {
        Action::Crash(_) => 0,
        Action::KeeperCrash(_) => 1,
        Action::Reboot(_) => 2,
        Action::LeaseOver(_) => 3,
        Action::LoseAnswer(_) => 4,
        Action::LoseReport(..) => 5,
        Action::Ghost(_) => 6,
        Action::DeliverCancel => 7,
        Action::GetLate => 8,
        _ => return None,
    })
}

fn phase_of(job: &Job) -> PhaseName {
    PhaseName::of(job).unwrap_or(PhaseName::Queued)
}

/// Cells that no schedule can fill, and why.
fn impossible(phase: PhaseName, fault: &str) -> bool {
    match (phase, fault) {
        // No job of this model stays open between turns; those of `sessions` do.
        (PhaseName::Idle, _) => true,
        // No tree exists, so no keeper does.
        (PhaseName::Queued | PhaseName::Backoff | PhaseName::Ended, "keeper crash" | "reboot") => true,
        // The clock of an attempt runs only while one is open.
        (PhaseName::Queued | PhaseName::Backoff | PhaseName::Ended, "limit") => true,
        // Nothing was launched or looked for before the first attempt.
        (PhaseName::Queued, "report lost") => true,
        _ => false,
    }
}

/// Returns the table in words, and its empty cells.
pub(crate) fn table(coverage: &Coverage) -> (String, Vec<String>) {
    let (mut text, mut holes) = (format!("{:<12}", "phase"), Vec::new());
    FAULTS.iter().for_each(|fault| text.push_str(&format!("{fault:>14}")));
    for phase in PhaseName::ALL {
        text.push_str(&format!("\n{:<12}", phase.as_str()));
        for (n, fault) in FAULTS.iter().enumerate() {
            let count = coverage.0[phase as usize][n].load(Ordering::Relaxed);
            match (count, impossible(phase, fault)) {
                (0, true) => text.push_str(&format!("{:>14}", "-")),
                (count, _) => text.push_str(&format!("{count:>14}")),
            }
            if count == 0 && !impossible(phase, fault) {
                holes.push(format!("{} x {fault}", phase.as_str()));
            }
        }
    }
    (text, holes)
}
