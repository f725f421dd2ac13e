//! The last word, as far as the judge holds it to account.

use std::path::Path;

use lastword_core::receipt::{Level, Proof, Receipt, Rung};

use super::standin;

/// What was published.
pub(crate) struct Word {
    /// When the tree was empty, by its own account, on the boot clock.
    pub(crate) at_ns: u64,
    receipt: Option<Receipt>,
}

impl Word {
    /// Reads it from the attempt's folder. A stand-in says no more than when.
    pub(crate) fn read(folder: &Path, of_standin: bool) -> Result<Word, String> {
        if of_standin {
            let at_ns = standin::spoken_at(folder).ok_or("no last word")?;
            return Ok(Word { at_ns, receipt: None });
        }
        let record = lastword_proc::ended(folder).map_err(|error| error.to_string())?;
        let record = record.ok_or("no last word")?;
        Ok(Word { at_ns: record.empty_at_boot_ns, receipt: Some(record.receipt) })
    }

    /// Says what is wrong with it, for a tree that was to be held at `level` and that `ran`, or did not.
    pub(crate) fn wrong_for(&self, level: Level, ran: bool) -> Option<String> {
        let receipt = self.receipt.as_ref()?;
        if receipt.proof == Proof::NeverStarted {
            return ran.then(|| "said to have never started, and there are signs of life".to_owned());
        }
        let proof = match level {
            Level::Cgroup => Proof::CgroupEmptyAndNoChildren,
            Level::Namespace => Proof::NamespaceGone,
            _ => Proof::NoChildren,
        };
        if receipt.level != level || receipt.proof != proof {
            return Some(format!("held at {:?} and proven by {:?}", receipt.level, receipt.proof));
        }
        let killed = receipt.rungs.iter().any(|taken| taken.rung == Rung::Kill);
        (receipt.exit.is_none() && !killed).then(|| "nobody exited and nobody was killed".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(level: Level, proof: Proof) -> Word {
        let receipt =
            Receipt { level, exit: Some(lastword_core::receipt::Exit::Signal(9)), ..Receipt::bare(proof) };
        Word { at_ns: 0, receipt: Some(receipt) }
    }

    #[test]
    fn a_word_that_claims_what_was_not_is_wrong() {
        let cgroup = word(Level::Cgroup, Proof::CgroupEmptyAndNoChildren);
        assert_eq!(cgroup.wrong_for(Level::Cgroup, true), None);
        assert!(cgroup.wrong_for(Level::Namespace, true).is_some());
        assert!(word(Level::Cgroup, Proof::NoChildren).wrong_for(Level::Cgroup, true).is_some());
        assert!(word(Level::Landlock, Proof::BestEffort).wrong_for(Level::Landlock, true).is_some());
        let never = word(Level::None, Proof::NeverStarted);
        assert_eq!(never.wrong_for(Level::Cgroup, false), None);
        assert!(never.wrong_for(Level::Cgroup, true).is_some());
    }
}
