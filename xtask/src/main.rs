//! Every task of this repository, as a cargo verb: `cargo xtask help`.
//!
//! A verb is one row of [`VERBS`]. What it does is in the file of its name; the verbs that run the proof share
//! `proof.rs` and those that run the trials `trials.rs`, because they only hand their arguments on.
#![expect(clippy::disallowed_methods, reason = "a task runner starts programs; nothing of it is shipped")]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "its output is for the person at the terminal"
)]

mod agents;
mod bare;
mod bugs;
mod ci;
mod contract;
mod docs;
mod e2e;
mod first_release;
mod fleet;
mod full;
mod fuzz;
mod mutants;
mod package;
mod prices;
mod program;
mod proof;
mod record;
mod root;
mod seeded;
mod steps;
mod tidy;
mod tools;
mod trials;

use std::path::Path;
use std::process::ExitCode;

use program::{Failure, Outcome};

/// One thing that can be asked for.
struct Verb {
    name: &'static str,
    arguments: &'static str,
    about: &'static str,
    run: fn(&[&str]) -> Outcome,
}

#[rustfmt::skip] // One row, one verb: a table is easier to scan than it is to wrap.
const VERBS: &[Verb] = &[
    Verb { name: "ci", arguments: "[--lanes] [--list] [--only STEP]", about: "everything a change must pass, timed", run: ci::run },
    Verb { name: "full", arguments: "[--list] [--only STEP]", about: "everything that is too long for `ci`; takes hours", run: full::run },
    Verb { name: "bare", arguments: "[--keep] [COMMAND]", about: "`.ci/run`, or another command, on a fresh Debian with a Rust toolchain and nothing else", run: bare::run },
    Verb { name: "tidy", arguments: "", about: "the rules of this repository that no linter checks", run: tidy::run },
    Verb { name: "contract", arguments: "[--write] [--require]", about: "docs/contract.md against the tests", run: contract::run },
    Verb { name: "docs", arguments: "[--write] [--pictures]", about: "builds the book, follows its links, runs every command it and README show", run: docs::run },
    Verb { name: "e2e", arguments: "[--store link] [NAME]", about: "the product as a user drives it, and as it survives; on a link: a server and a worker in the place of a daemon; `upgrade`: 0.1.0 with live jobs, taken over; `typing [N]`: N random sequences of typing beside questions", run: e2e::run },
    Verb { name: "model", arguments: "[--fleet [--bug NAME]] [--full]", about: "every reachable state of a small world; `--fleet`: of hosts that share a journal", run: |args| proof::run("model", args) },
    Verb { name: "sim", arguments: "[--schedules N] [--seed S]", about: "random schedules of crashes and faults", run: |args| proof::run("sim", args) },
    Verb { name: "bugs", arguments: "[NAME]", about: "breaks one rule at a time and expects to be caught", run: bugs::run },
    Verb { name: "crash", arguments: "[...]", about: "kills real stores in mid-append", run: |args| proof::run("crash", args) },
    Verb { name: "power-loss", arguments: "[...]", about: "disk images as a power cut leaves them", run: |args| of_either("power-loss", args) },
    Verb { name: "bench", arguments: "[...]", about: "`store`: our journal beside the bare engine; `link`: a worker's link beside the journal itself; `keeper`, `run`: keeper and product beside others'; `--beside EXECUTABLE`: this build and another in turn", run: |args| of_either("bench", args) },
    Verb { name: "scope", arguments: "", about: "a control group from the user's own service manager", run: |args| trials::run("scope", args) },
    Verb { name: "agents", arguments: "[--agent a,b] [--only ROW] [--write] [--ci] [--compare]", about: "what real agents do under the product, behaviour by behaviour", run: agents::run },
    Verb { name: "leases", arguments: "[--rounds N] [--launches N] [--bug NAME]", about: "trees whose lease ends, and launches after the end of one", run: |args| trials::run("leases", args) },
    Verb { name: "orphans", arguments: "[--agents a,b] [--bug NAME]", about: "what real agents leave when they are killed, found and ended", run: |args| trials::run("orphans", args) },
    Verb { name: "api", arguments: "[--cases N] [--rows] [--seed S] [--bug NAME]", about: "requests made up from the OpenAPI document, against a daemon with jobs; with --rows, followers of the list that are cut off while jobs change", run: |args| trials::run("api", args) },
    Verb { name: "attack", arguments: "[--fleet] [--short] [--only WORD] [...]", about: "attacks on a user's jobs and daemon, or on a server and its workers: each is refused, survived, or admitted", run: |args| on_a_database("attack", "--fleet", args) },
    Verb { name: "record", arguments: "[ID...] [--short] [--list] [--write] [--against EXECUTABLE]", about: "failures that were reported in public, re-enacted; writes docs/track-record.md", run: record::run },
    Verb { name: "survive", arguments: "[--rounds N] [--seed S]", about: "kills a daemon's stand-in and has another take over", run: |args| trials::run("survive", args) },
    Verb { name: "bombs", arguments: "[--short]", about: "output by the gigabyte against memory and disk", run: |args| trials::run("bombs", args) },
    Verb { name: "torture", arguments: "[--repeats N] [...]", about: "trees that do not want to die, stopped and judged from outside", run: |args| trials::run("torture", args) },
    Verb { name: "kill-points", arguments: "[--all] [...]", about: "kill -9 of a keeper at its system calls, then recovery", run: |args| trials::run("kill-points", args) },
    Verb { name: "fault-points", arguments: "[--all] [...]", about: "a keeper's calls fail one by one", run: |args| trials::run("fault-points", args) },
    Verb { name: "chaos", arguments: "[--store link] [--minutes N] [--seed S] [...]", about: "the whole product under load while everything happens to it; on a link: a server, its database and a worker", run: |args| on_a_database("chaos", "--store", args) },
    Verb { name: "fleet", arguments: "[--histories N] [--seed S] [--bugs] [...]", about: "servers, workers and databases on hosts of their own, while they are killed, frozen, cut off, replaced and cloned", run: fleet::run },
    Verb { name: "scale", arguments: "laptop/fleet [...]", about: "`laptop`: a thousand jobs at once, and a hundred thousand in the history; `fleet`: two thousand workers, a hundred thousand live jobs, ten million events", run: scale },
    Verb { name: "fuzz", arguments: "[--seconds N] [--bug NAME] [TARGET]", about: "every parser of what comes from outside, under libFuzzer", run: fuzz::run },
    Verb { name: "mutants", arguments: "[...]", about: "changes core line by line and expects a failing test", run: mutants::run },
    Verb { name: "prices", arguments: "[--write]", about: "the table of prices, made again from the package that it is an extract of", run: prices::run },
    Verb { name: "package", arguments: "", about: "a static build and a Debian package, tried in a clean root", run: package::run },
    Verb { name: "tools", arguments: "[--all] [VERB]", about: "installs what `ci`, one verb or every verb needs and is missing", run: tools::run },
    Verb { name: "help", arguments: "", about: "this list", run: |_| help() },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match go_home().and_then(|()| dispatch(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask: {}", failure.why);
            ExitCode::from(failure.code)
        }
    }
}

/// Every path in this program is relative to the root of the repository.
fn go_home() -> Outcome {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the repository");
    std::env::set_current_dir(root).map_err(|error| Failure::new(format!("{}: {error}", root.display())))
}

fn dispatch(arguments: &[&str]) -> Outcome {
    let (name, rest) = match arguments {
        [] | ["-h" | "--help", ..] => ("help", &[][..]),
        [name, rest @ ..] => (*name, rest),
    };
    match VERBS.iter().find(|verb| verb.name == name) {
        Some(verb) => tools::need(name).and_then(|()| (verb.run)(rest)),
        None => Err(Failure::new(format!("there is no verb `{name}`; `cargo xtask help` lists them"))),
    }
}

/// Runs a verb of the proof, or its namesake of the trials.
fn of_either(verb: &str, arguments: &[&str]) -> Outcome {
    match arguments {
        ["keeper" | "run", ..] => trials::run(verb, arguments),
        ["link", "--only", "life", ..] => proof::run(verb, arguments),
        ["link", "--only", ..] => trials::run(verb, arguments),
        ["link", ..] => proof::run(verb, arguments).and_then(|()| trials::run(verb, arguments)),
        ["store", ..] if arguments.contains(&"--beside") => trials::run_with_proof(verb, arguments),
        _ => proof::run(verb, arguments),
    }
}

/// Runs `scale`: a fleet is simulated in the proof, a laptop is real.
fn scale(arguments: &[&str]) -> Outcome {
    match arguments {
        ["fleet", ..] => tools::need("scale fleet").and_then(|()| proof::run("scale", arguments)),
        _ => trials::run_with_proof("scale", arguments),
    }
}

/// Runs a verb of the trials that needs a database with this flag.
fn on_a_database(verb: &str, flag: &str, arguments: &[&str]) -> Outcome {
    if arguments.contains(&flag) {
        tools::need(&format!("{verb} {flag}"))?;
    }
    trials::run(verb, arguments)
}

fn help() -> Outcome {
    println!("cargo xtask <verb>\n");
    for verb in VERBS {
        println!("  {:<38} {}", format!("{} {}", verb.name, verb.arguments), verb.about);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_have_names_of_their_own() {
        let mut names: Vec<&str> = VERBS.iter().map(|verb| verb.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), VERBS.len());
    }

    #[test]
    fn an_unknown_verb_is_refused() {
        let failure = dispatch(&["celebrate"]).expect_err("there is no such verb");
        assert!(failure.why.contains("celebrate"), "{}", failure.why);
    }

    #[test]
    fn the_workflow_has_the_toolchain_of_the_workspace() {
        let manifest = include_str!("../../Cargo.toml");
        let version =
            manifest.lines().find_map(|line| line.strip_prefix("rust-version = ")?.split('"').nth(1));
        let image = format!("image: rust:{}-", version.expect("the workspace names its toolchain"));
        assert!(include_str!("../../.github/workflows/ci.yml").contains(&image), "{image}");
    }

    #[test]
    fn contributors_find_every_verb() {
        let page = include_str!("../../CONTRIBUTING.md");
        for verb in VERBS.iter().filter(|verb| verb.name != "help") {
            let row = format!("| `{}` |", format!("{} {}", verb.name, verb.arguments).trim_end());
            assert!(
                page.lines().any(|line| line.starts_with(&row)),
                "CONTRIBUTING.md has no row for {}",
                verb.name
            );
        }
    }
}
