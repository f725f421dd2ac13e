//! `e2e --store link`: the same tests with a server, whose journal is in PostgreSQL, and a worker in the place of a daemon.

#[path = "../../../crates/cli/tests/not_on_a_link.rs"]
mod not_on_a_link;

use crate::program::{self, Failure, Outcome, cargo_with};
use crate::tools;
use not_on_a_link::NOT_ON_A_LINK;

/// The test binaries.
const BINARIES: [&str; 2] = ["e2e", "survival"];

/// Runs every test that is not in the table, or of these those whose names contain one of the arguments.
pub(super) fn run(arguments: &[&str], executable: &str) -> Outcome {
    tools::need("e2e --store")?;
    let env = [("INSTA_UPDATE", "no"), ("TESTED_EXECUTABLE", executable), ("TESTED_STORE", "link")];
    for binary in BINARIES {
        let all = tests(binary)?;
        let unknown = entries(binary).find(|entry| !all.iter().any(|test| is_meant(entry, test)));
        if let Some(unknown) = unknown {
            return Err(Failure::new(format!("NOT_ON_A_LINK names {unknown}, which {binary} does not have")));
        }
        let is_left_out = |test: &&String| entries(binary).any(|entry| is_meant(entry, test));
        let (left_out, on_a_link): (Vec<&String>, Vec<&String>) = all.iter().partition(is_left_out);
        println!("{binary}: {} tests on a link, {} not:", on_a_link.len(), left_out.len());
        for (_, entry, why) in NOT_ON_A_LINK.iter().filter(|(of, ..)| *of == binary) {
            println!("  {entry}: {why}");
        }
        let is_named = |test: &&str| arguments.is_empty() || arguments.iter().any(|word| test.contains(word));
        let names: Vec<&str> = on_a_link.iter().map(|test| test.as_str()).filter(is_named).collect();
        if !names.is_empty() {
            let words = ["test", "--quiet", "--package", "lastword", "--test", binary, "--", "--exact"];
            cargo_with(&[&words, names.as_slice()].concat(), &env)?;
        }
    }
    Ok(())
}

/// Returns the entries of the table for a test binary.
fn entries(binary: &str) -> impl Iterator<Item = &'static str> {
    NOT_ON_A_LINK.iter().filter(move |(of, ..)| *of == binary).map(|(_, entry, _)| *entry)
}

/// Reports whether an entry means a test: by its name, or that of its module.
fn is_meant(entry: &str, test: &str) -> bool {
    if entry.ends_with("::") { test.starts_with(entry) } else { test == entry }
}

fn tests(binary: &str) -> Result<Vec<String>, Failure> {
    let words = ["test", "--quiet", "--package", "lastword", "--test", binary, "--", "--list"];
    let listed = program::output("cargo", &words)?;
    Ok(listed.lines().filter_map(|line| line.strip_suffix(": test").map(str::to_owned)).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_entry_of_the_table_is_a_test_or_a_module_and_has_a_reason() {
        let mut seen = BTreeSet::new();
        for (binary, entry, why) in NOT_ON_A_LINK {
            assert!(BINARIES.contains(binary), "{binary}");
            assert!(seen.insert((binary, entry)), "{entry} is there twice");
            assert!(why.split_whitespace().count() > 2, "{entry}: {why}");
            let (module, function) = entry.split_once("::").expect("an entry names a module");
            let file = format!("{}/../crates/cli/tests/{binary}/{module}.rs", env!("CARGO_MANIFEST_DIR"));
            let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file}: {error}"));
            let head = if function.is_empty() {
                "#[test]\nfn ".to_owned()
            } else {
                format!("#[test]\nfn {function}() {{")
            };
            assert!(text.contains(&head), "{file} has no {entry}");
        }
    }

    #[test]
    fn an_entry_means_one_test_or_a_whole_module() {
        assert!(is_meant("daemon::", "daemon::starts") && !is_meant("daemon::", "no_daemon::starts"));
        assert!(is_meant("run::one", "run::one") && !is_meant("run::one", "run::one_more"));
    }
}
