//! `tools`: installs the tools that are missing, at the versions this repository is known to work with.
//!
//! What is there already is used as it is: a newer tool is welcome, and an older one says itself what it lacks.

use crate::program::{Failure, Outcome, cargo, succeeds};

/// A program that comes as a crate.
struct Tool {
    name: &'static str,
    /// How it is started, up to its arguments.
    start: &'static [&'static str],
    /// What is installed, and how.
    install: &'static str,
    /// Whether `ci` needs it; the others are for verbs that are run by hand.
    in_ci: bool,
}

#[rustfmt::skip] // One row, one tool.
const TOOLS: &[Tool] = &[
    Tool { name: "nextest", start: &["cargo", "nextest"], install: "cargo-nextest@0.9.143", in_ci: true },
    Tool { name: "deny", start: &["cargo", "deny"], install: "cargo-deny@0.20.2", in_ci: true },
    // Building the book is all it is for: no server, no search, no watching of files.
    Tool { name: "mdbook", start: &["mdbook"], install: "mdbook@0.5.4 --no-default-features", in_ci: true },
    Tool { name: "deb", start: &["cargo", "deb"], install: "cargo-deb@3.8.0", in_ci: false },
    Tool { name: "mutants", start: &["cargo", "mutants"], install: "cargo-mutants@27.1.0", in_ci: false },
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
pub(crate) fn need(name: &str) -> Outcome {
    let tool = TOOLS.iter().find(|tool| tool.name == name);
    install(tool.expect("every tool that a verb needs is in the table"))
}

fn install(tool: &Tool) -> Outcome {
    let (program, words) = tool.start.split_first().expect("a tool is started somehow");
    if succeeds(program, &[words, &["--version"]].concat()) {
        return Ok(());
    }
    cargo(&format!("install --locked {}", tool.install))
}
