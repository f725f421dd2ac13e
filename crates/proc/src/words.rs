//! The words of the core's receipt in records: how levels, proofs, rungs and reasons are spelled on disk.

use lastword_core::outcome::Budget;
use lastword_core::receipt::{Exit, KeeperStop, Level, Proof, Rung};

/// Makes a pair of functions out of one table, so that what is written is what is read.
macro_rules! words {
    ($of:ident, $read:ident, $type:ty, { $($word:literal => $head:ident$(::$tail:ident)+$(($inner:path))?),+ $(,)? }) => {
        pub(crate) fn $of(value: $type) -> &'static str {
            match value { $($head$(::$tail)+$(($inner))? => $word),+ }
        }
        pub(crate) fn $read(word: &str) -> Option<$type> {
            match word { $($word => Some($head$(::$tail)+$(($inner))?),)+ _ => None }
        }
    };
}

words!(of_level, level, Level, {
    "none" => Level::None,
    "subreaper" => Level::Subreaper,
    "landlock" => Level::Landlock,
    "cgroup" => Level::Cgroup,
    "namespace" => Level::Namespace,
});

words!(of_proof, proof, Proof, {
    "no_children" => Proof::NoChildren,
    "cgroup_empty_and_no_children" => Proof::CgroupEmptyAndNoChildren,
    "namespace_gone" => Proof::NamespaceGone,
    "never_started" => Proof::NeverStarted,
    "boot_changed" => Proof::BootChanged,
    "lease_self_fenced" => Proof::LeaseSelfFenced,
    "best_effort" => Proof::BestEffort,
});

words!(of_rung, rung, Rung, {
    "interrupt" => Rung::Interrupt,
    "stdin_closed" => Rung::StdinClosed,
    "term" => Rung::Term,
    "kill" => Rung::Kill,
});

words!(of_keeper_stop, keeper_stop, KeeperStop, {
    "deadline" => KeeperStop::Deadline,
    "lease" => KeeperStop::Lease,
    "local_cancel" => KeeperStop::LocalCancel,
    "local_stall" => KeeperStop::LocalStall,
    "local_output" => KeeperStop::LocalBudget(Budget::Output),
    "local_turns" => KeeperStop::LocalBudget(Budget::Turns),
    "local_tokens" => KeeperStop::LocalBudget(Budget::Tokens),
    "local_money" => KeeperStop::LocalBudget(Budget::Money),
});

/// Returns the reason a keeper notes for a stop that the journal could not take: the name of the limit that was reached, or
/// anything else for somebody's wish.
pub(crate) fn local_stop(cause: &str) -> KeeperStop {
    match cause {
        "wall" => KeeperStop::Deadline,
        "stall" => KeeperStop::LocalStall,
        "output" => KeeperStop::LocalBudget(Budget::Output),
        "turns" => KeeperStop::LocalBudget(Budget::Turns),
        "tokens" => KeeperStop::LocalBudget(Budget::Tokens),
        "money" => KeeperStop::LocalBudget(Budget::Money),
        _ => KeeperStop::LocalCancel,
    }
}

/// Writes an exit as `code:7` or `signal:9`.
pub(crate) fn of_exit(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("code:{code}"),
        Exit::Signal(signal) => format!("signal:{signal}"),
    }
}

/// Reads an exit.
pub(crate) fn exit(word: &str) -> Option<Exit> {
    match word.split_once(':')? {
        ("code", code) => code.parse().ok().map(Exit::Code),
        ("signal", signal) => signal.parse().ok().map(Exit::Signal),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an owner calls a limit when it asks for a local stop, and what is in the record of it afterwards.
    #[test]
    fn a_reason_to_stop_reads_back_from_its_record() {
        for (cause, word, why) in [
            ("wall", "deadline", KeeperStop::Deadline),
            ("stall", "local_stall", KeeperStop::LocalStall),
            ("output", "local_output", KeeperStop::LocalBudget(Budget::Output)),
            ("turns", "local_turns", KeeperStop::LocalBudget(Budget::Turns)),
            ("tokens", "local_tokens", KeeperStop::LocalBudget(Budget::Tokens)),
            ("money", "local_money", KeeperStop::LocalBudget(Budget::Money)),
            ("cancel", "local_cancel", KeeperStop::LocalCancel),
        ] {
            assert_eq!((local_stop(cause), of_keeper_stop(why), keeper_stop(word)), (why, word, Some(why)));
        }
        assert_eq!(keeper_stop("local_mood"), None);
    }
}
