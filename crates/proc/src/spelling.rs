//! How the types of core's receipt are spelled in records: levels, proofs, rungs, launch steps, reasons to stop, exits.

use lastword_core::outcome::Budget;
use lastword_core::receipt::{Exit, KeeperStop, LaunchStep, Level, Proof, Rung};

/// Generates the writer and the parser from one table, so that they cannot disagree.
macro_rules! spelling {
    ($name:ident, $parse:ident, $type:ty, { $($spelling:literal => $head:ident$(::$tail:ident)+$(($inner:path))?),+ $(,)? }) => {
        pub(crate) fn $name(value: $type) -> &'static str {
            match value { $($head$(::$tail)+$(($inner))? => $spelling),+ }
        }
        pub(crate) fn $parse(text: &str) -> Option<$type> {
            match text { $($spelling => Some($head$(::$tail)+$(($inner))?),)+ _ => None }
        }
    };
}

spelling!(level_name, parse_level, Level, {
    "none" => Level::None,
    "subreaper" => Level::Subreaper,
    "landlock" => Level::Landlock,
    "cgroup" => Level::Cgroup,
    "namespace" => Level::Namespace,
});

spelling!(proof_name, parse_proof, Proof, {
    "no_children" => Proof::NoChildren,
    "cgroup_empty_and_no_children" => Proof::CgroupEmptyAndNoChildren,
    "namespace_gone" => Proof::NamespaceGone,
    "never_started" => Proof::NeverStarted,
    "boot_changed" => Proof::BootChanged,
    "lease_self_fenced" => Proof::LeaseSelfFenced,
    "best_effort" => Proof::BestEffort,
});

spelling!(rung_name, parse_rung, Rung, {
    "interrupt" => Rung::Interrupt,
    "stdin_closed" => Rung::StdinClosed,
    "term" => Rung::Term,
    "kill" => Rung::Kill,
});

spelling!(step_name, parse_step, LaunchStep, {
    "prepare" => LaunchStep::Prepare,
    "keeper" => LaunchStep::Keeper,
    "lease" => LaunchStep::Lease,
    "session" => LaunchStep::Session,
    "stdio" => LaunchStep::Stdio,
    "cgroup" => LaunchStep::Cgroup,
    "privileges" => LaunchStep::Privileges,
    "folder" => LaunchStep::Folder,
    "exec" => LaunchStep::Exec,
    "other" => LaunchStep::Other,
});

spelling!(keeper_stop_name, parse_keeper_stop, KeeperStop, {
    "deadline" => KeeperStop::Deadline,
    "lease" => KeeperStop::Lease,
    "local_cancel" => KeeperStop::LocalCancel,
    "local_stall" => KeeperStop::LocalStall,
    "local_output" => KeeperStop::LocalBudget(Budget::Output),
    "local_turns" => KeeperStop::LocalBudget(Budget::Turns),
    "local_tokens" => KeeperStop::LocalBudget(Budget::Tokens),
    "local_money" => KeeperStop::LocalBudget(Budget::Money),
});

/// Returns the reason that a keeper records for a stop requested while the journal is unavailable: the limit named by `cause`, or a
/// cancel by the user.
pub(crate) fn local_stop(cause: &str) -> KeeperStop {
    match cause {
        "wall" | "turn" | "active" => KeeperStop::Deadline,
        "stall" | "handshake" | "idle" => KeeperStop::LocalStall,
        "output" => KeeperStop::LocalBudget(Budget::Output),
        "turns" => KeeperStop::LocalBudget(Budget::Turns),
        "tokens" | "group_tokens" => KeeperStop::LocalBudget(Budget::Tokens),
        "money" | "group_money" => KeeperStop::LocalBudget(Budget::Money),
        _ => KeeperStop::LocalCancel,
    }
}

/// Spells an exit as `code:7` or `signal:9`.
pub(crate) fn exit_name(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("code:{code}"),
        Exit::Signal(signal) => format!("signal:{signal}"),
    }
}

/// Parses an exit.
pub(crate) fn parse_exit(text: &str) -> Option<Exit> {
    match text.split_once(':')? {
        ("code", code) => code.parse().ok().map(Exit::Code),
        ("signal", signal) => signal.parse().ok().map(Exit::Signal),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use lastword_core::limits::Limit;

    use super::*;

    /// `cause` is what the daemon sends with a local stop; `name` is what the record says afterwards.
    #[test]
    fn a_stop_reason_round_trips_through_its_record() {
        for (cause, name, why) in [
            ("wall", "deadline", KeeperStop::Deadline),
            ("stall", "local_stall", KeeperStop::LocalStall),
            ("output", "local_output", KeeperStop::LocalBudget(Budget::Output)),
            ("turns", "local_turns", KeeperStop::LocalBudget(Budget::Turns)),
            ("tokens", "local_tokens", KeeperStop::LocalBudget(Budget::Tokens)),
            ("money", "local_money", KeeperStop::LocalBudget(Budget::Money)),
            ("cancel", "local_cancel", KeeperStop::LocalCancel),
        ] {
            assert_eq!(
                (local_stop(cause), keeper_stop_name(why), parse_keeper_stop(name)),
                (why, name, Some(why))
            );
        }
        assert_eq!(parse_keeper_stop("local_mood"), None);
    }

    #[test]
    fn no_limit_is_recorded_as_a_cancel() {
        for (_, name) in Limit::all() {
            assert_ne!(local_stop(name), KeeperStop::LocalCancel, "{name}");
        }
    }
}
