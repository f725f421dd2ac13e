//! The last word, as far as the judge holds it to account.

use std::path::Path;

use lastword_core::receipt::{Level, Proof, Receipt, Rung};
use lastword_proc::ExitRecord;

use super::standin;

/// What was published.
pub(crate) struct Word {
    /// When the tree was empty, by its own account, on the boot clock.
    pub(crate) at_ns: u64,
    record: Option<ExitRecord>,
}

impl Word {
    /// Reads it from the attempt's folder. A stand-in says no more than when.
    pub(crate) fn read(folder: &Path, of_standin: bool) -> Result<Word, String> {
        if of_standin {
            let at_ns = standin::spoken_at(folder).ok_or("no last word")?;
            return Ok(Word { at_ns, record: None });
        }
        let record = lastword_proc::exit_record(folder).map_err(|error| error.to_string())?;
        let record = record.ok_or("no last word")?;
        Ok(Word { at_ns: record.empty_at_boot_ns, record: Some(record) })
    }

    /// Says what is wrong with it, for a tree that was to be held at `level` and that `ran`, or did not.
    pub(crate) fn wrong_for(&self, level: Level, ran: bool) -> Option<String> {
        let record = self.record.as_ref()?;
        wrong(&record.receipt, &record.by, level, ran)
    }

    /// Reports whether it rules out survivors. A stand-in always does.
    pub(crate) fn is_certain(&self) -> bool {
        self.record.as_ref().is_none_or(|record| record.receipt.is_certain())
    }

    /// Says so if it counts fewer processes than were there.
    pub(crate) fn leaves_out(&self, members: u64) -> Option<String> {
        let found = self.record.as_ref()?.receipt.found;
        (found < members).then(|| format!("counts {found} processes of {members}"))
    }
}

fn wrong(receipt: &Receipt, by: &str, level: Level, ran: bool) -> Option<String> {
    if receipt.proof == Proof::NeverStarted {
        return ran.then(|| "said to have never started, and there are signs of life".to_owned());
    }
    let proof = match (level, by) {
        (Level::Cgroup, _) => Proof::CgroupEmptyAndNoChildren,
        // To a guard the init of a namespace is a child like others, and the last.
        (Level::Namespace, "shim") => Proof::NamespaceGone,
        _ => Proof::NoChildren,
    };
    if receipt.level != level || receipt.proof != proof {
        return Some(format!("held at {:?} and proven by {:?}", receipt.level, receipt.proof));
    }
    let killed = receipt.rungs.iter().any(|taken| taken.rung == Rung::Kill);
    // When a shim dies, the kernel kills its leader; the guard may find no process to kill.
    let explained = receipt.exit.is_some() || killed || by == "guard" && receipt.processes.is_empty();
    (!explained).then(|| "nobody exited and nobody was killed".to_owned())
}

#[cfg(test)]
mod tests {
    use lastword_core::receipt::Exit;

    use super::*;

    /// Judges a last word of the shim's, of a leader that was killed.
    fn wrong(said: (Level, Proof), level: Level, ran: bool) -> bool {
        let receipt = Receipt { level: said.0, exit: Some(Exit::Signal(9)), ..Receipt::bare(said.1) };
        super::wrong(&receipt, "shim", level, ran).is_some()
    }

    #[test]
    fn a_word_that_claims_what_was_not_is_wrong() {
        let cgroup = (Level::Cgroup, Proof::CgroupEmptyAndNoChildren);
        assert!(!wrong(cgroup, Level::Cgroup, true));
        assert!(wrong(cgroup, Level::Namespace, true));
        assert!(wrong((Level::Cgroup, Proof::NoChildren), Level::Cgroup, true));
        assert!(wrong((Level::Landlock, Proof::BestEffort), Level::Landlock, true));
        assert!(!wrong((Level::None, Proof::NeverStarted), Level::Cgroup, false));
        assert!(wrong((Level::None, Proof::NeverStarted), Level::Cgroup, true));
        let unexplained = Receipt { level: Level::Landlock, ..Receipt::bare(Proof::NoChildren) };
        assert!(super::wrong(&unexplained, "shim", Level::Landlock, true).is_some());
    }
}
