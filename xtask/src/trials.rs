//! The verbs that put the keeper on trial with real processes.
//!
//! They are a program of their own beside the executable that ships: both are built, then it is started, and its exit
//! code is ours.

use crate::program::Outcome;
use crate::proof;
use crate::seeded::Build;

/// Runs a verb of the trials, with everything built for speed; with `--dev` or a seeded bug, as it is built for tests.
pub(crate) fn run(verb: &str, arguments: &[&str]) -> Outcome {
    let is_dev = arguments.contains(&"--dev");
    let arguments: Vec<&str> = arguments.iter().copied().filter(|word| *word != "--dev").collect();
    let from = Build::of(&arguments)?;
    let is_dev = is_dev || from.is_seeded();
    let (profile, folder): (&[&str], _) = if is_dev { (&[], "debug") } else { (&["--release"], "release") };
    build(&from, profile)?;
    from.start(&format!("{folder}/lastword-trials"), &[&[verb], &arguments[..]].concat())
}

/// Runs a verb that has the proof beside it: a long history is made there.
pub(crate) fn run_with_proof(verb: &str, arguments: &[&str]) -> Outcome {
    proof::build(&Build::of(arguments)?)?;
    run(verb, arguments)
}

/// Builds the trials, their adversary, and the executable as it ships: the trials add no feature to its dependencies.
pub(crate) fn build(from: &Build, profile: &[&str]) -> Outcome {
    from.cargo(&[&["build", "--quiet", "--package=lastword", "--package=lastword-trials"], profile].concat())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::program::output;

    #[test]
    fn the_trials_add_no_feature_to_the_executable() {
        let features = |packages: &[&str]| -> BTreeSet<String> {
            let words = ["tree", "--offline", "--edges=normal,build", "--prefix=none", "--format={p} {f}"];
            let tree = output("cargo", &[&words, packages].concat()).unwrap();
            tree.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect()
        };
        let alone = features(&["--package=lastword"]);
        let beside = features(&["--package=lastword", "--package=lastword-trials"]);
        assert_eq!(alone.difference(&beside).collect::<Vec<_>>(), Vec::<&String>::new());
        // The proof does, so it is not built beside the executable.
        assert!(!alone.is_subset(&features(&["--package=lastword", "--package=lastword-proof"])));
    }
}
