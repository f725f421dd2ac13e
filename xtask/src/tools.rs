//! `tools`: installs the cargo tools that are missing, at the versions this repository is known to work with.
//!
//! What is there already is used as it is: a newer tool is welcome, and an older one says itself what it lacks.

use crate::program::{Failure, Outcome, cargo, succeeds};

/// A subcommand of cargo that comes as a crate.
struct Tool {
    subcommand: &'static str,
    version: &'static str,
    /// Whether `ci` needs it; the others are for verbs that are run by hand.
    in_ci: bool,
}

const TOOLS: &[Tool] = &[
    Tool { subcommand: "nextest", version: "0.9.143", in_ci: true },
    Tool { subcommand: "deny", version: "0.20.2", in_ci: true },
    Tool { subcommand: "deb", version: "3.8.0", in_ci: false },
    Tool { subcommand: "mutants", version: "27.1.0", in_ci: false },
];

/// Installs what `ci` needs, or with `--all` everything.
pub(crate) fn run(arguments: &[&str]) -> Outcome {
    let all = match arguments {
        [] => false,
        ["--all"] => true,
        _ => return Err(Failure::new("usage: cargo xtask tools [--all]")),
    };
    TOOLS.iter().filter(|tool| all || tool.in_ci).try_for_each(install)
}

/// Makes sure that one tool is there.
pub(crate) fn need(subcommand: &str) -> Outcome {
    let tool = TOOLS.iter().find(|tool| tool.subcommand == subcommand);
    install(tool.expect("every tool that a verb needs is in the table"))
}

fn install(tool: &Tool) -> Outcome {
    if succeeds("cargo", &[tool.subcommand, "--version"]) {
        return Ok(());
    }
    cargo(&format!("install --locked cargo-{}@{}", tool.subcommand, tool.version))
}
