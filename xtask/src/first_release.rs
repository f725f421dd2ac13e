//! The first release, 0.1.0: its executable, built once from its commit and kept in the user's cache, and the examples of what it stores.

use std::fs;
use std::path::{Path, PathBuf};

use crate::program::{Failure, Outcome, cache, cargo_with, output, runs, succeeds};

/// The commit that is 0.1.0.
const COMMIT: &str = "d67b121fe7622bfcf6db11db280cf1f856aa8e8f";

/// Examples that 0.1.0 has of what it stores: events, and the files and replies of keepers. Every later version reads them.
const EXAMPLES: [&str; 2] = ["crates/core/golden", "crates/cli/tests/recorded"];

/// Returns the executable, if it was built.
pub(crate) fn executable() -> Option<PathBuf> {
    let executable = folder().ok()?.join("lastword");
    succeeds(&executable.to_string_lossy(), &["--version"]).then_some(executable)
}

/// Builds the executable.
pub(crate) fn build() -> Outcome {
    if !succeeds("git", &["cat-file", "-e", &format!("{COMMIT}^{{commit}}")]) {
        let short = &COMMIT[..7];
        return Err(Failure::new(format!(
            "0.1.0 is built from commit {short}, which this clone lacks: run `git fetch --unshallow`"
        )));
    }
    let folder = folder()?;
    fs::create_dir_all(&folder).map_err(failed(&folder))?;
    let sources = folder.join(format!("sources.{}", std::process::id()));
    let built = build_in(&sources, &folder.join("lastword"));
    let _ = fs::remove_dir_all(&sources);
    built
}

/// Builds from the committed sources alone. The rename at the end makes the executable appear whole or not at all.
fn build_in(sources: &Path, executable: &Path) -> Outcome {
    fs::create_dir_all(sources).map_err(failed(sources))?;
    let at = |name: &str| sources.join(name).to_string_lossy().into_owned();
    let (archive, target, manifest) = (at("archive.tar"), at("target"), at("Cargo.toml"));
    runs("git", &["archive", "--output", &archive, COMMIT])?;
    runs("tar", &["--extract", "--file", &archive, "--directory", &sources.to_string_lossy()])?;
    let words = ["build", "--quiet", "--locked", "--package", "lastword"];
    let places = ["--manifest-path", &manifest, "--target-dir", &target];
    // Debug information would make it four times as large.
    cargo_with(&[&words[..], &places].concat(), &[("CARGO_PROFILE_DEV_DEBUG", "false")])?;
    let built = sources.join("target/debug/lastword");
    fs::rename(&built, executable).map_err(failed(&built))
}

/// Checks that every example is still in the repository, unchanged. Its folder may have moved.
pub(crate) fn examples_are_unchanged() -> Outcome {
    let words = ["ls-tree", "-r", "--format=%(objectname) %(path)", COMMIT, "--"];
    let examples = output("git", &[&words[..], &EXAMPLES].concat())?;
    let files = output("git", &["ls-files"])?;
    for (hash, path) in examples.lines().filter_map(|line| line.split_once(' ')) {
        let folder_and_name = last_two_parts(path);
        let candidates = files.lines().filter(|file| last_two_parts(file) == folder_and_name);
        let is_unchanged =
            |file: &str| output("git", &["hash-object", file]).is_ok_and(|now| now.trim() == hash);
        if !candidates.into_iter().any(is_unchanged) {
            return Err(Failure::new(format!(
                "{path} of 0.1.0 was changed or removed: stored data must stay readable, so add a new example instead"
            )));
        }
    }
    Ok(())
}

fn last_two_parts(path: &str) -> &str {
    path.rmatch_indices('/').nth(1).map_or(path, |(at, _)| &path[at + 1..])
}

/// Returns the folder that keeps the executable between runs.
fn folder() -> Result<PathBuf, Failure> {
    Ok(cache()?.join("lastword").join("0.1.0").join(COMMIT))
}

fn failed(path: &Path) -> impl Fn(std::io::Error) -> Failure {
    move |error| Failure::new(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_is_found_by_its_folder_and_name() {
        assert_eq!(last_two_parts("crates/core/golden/paused.v1.json"), "golden/paused.v1.json");
        assert_eq!(last_two_parts("golden/paused.v1.json"), "golden/paused.v1.json");
    }
}
