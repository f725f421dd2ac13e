//! Seeded bugs: rules broken on purpose, so that the checkers can show that they notice.
//!
//! A bug is a file in the folder `bugs` of its checker. None of it is in the source that ships: all bugs together are applied to one
//! copy of the workspace, each behind a switch, and `LASTWORD_BUG` names the one that is on.
//!
//! - [`bug`]: the files. [`anchor`]: where a bug goes in. [`copy`]: the copy, and its builds.
//! - [`shipped`]: that nothing of it is in what ships.
//! - `switch.rs`: the module `lastword_core::seeded` of the copy.

mod anchor;
mod bug;
mod copy;
pub(crate) mod shipped;

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::program::{Failure, Outcome, cargo_with, target};
use bug::Bug;

pub(crate) use bug::check;

/// The source that a checker is built from.
pub(crate) enum Build {
    /// The workspace as it is.
    Plain,
    /// The copy with every bug, and the one that is on, if any.
    Seeded(Option<String>),
}

impl Build {
    /// Returns the build for these arguments: the copy if `--bug` names a bug that is a file. Other bugs are made by the
    /// checkers themselves, around what ships.
    pub(crate) fn of(arguments: &[&str]) -> Result<Build, Failure> {
        let named = arguments.iter().position(|word| *word == "--bug").and_then(|at| arguments.get(at + 1));
        match named {
            Some(name) if bug::all()?.iter().any(|bug| bug.name == *name) => {
                copy::update()?;
                Ok(Build::Seeded(Some((*name).to_owned())))
            }
            _ => Ok(Build::Plain),
        }
    }

    /// Runs `cargo VERB WORDS…` on the workspace.
    pub(crate) fn cargo(&self, words: &[&str]) -> Outcome {
        self.cargo_in("", &target(), words, &[])
    }

    /// Runs `cargo VERB WORDS…` in a folder of this source, which is built into `into`; the programs of the copy go to
    /// [`Build::programs`].
    ///
    /// What others wrote is compiled once for both. What ships and what does not never have one place.
    pub(crate) fn cargo_in(
        &self,
        folder: &str,
        into: &Path,
        words: &[&str],
        more: &[(&str, &str)],
    ) -> Outcome {
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let manifest = text(self.root().join(folder).join("Cargo.toml"));
        let (programs, shared) = (text(self.programs(into)), text(into.to_owned()));
        let words = match manifest.as_str() {
            "Cargo.toml" => words.to_vec(),
            manifest => [&words[..1], &["--manifest-path", manifest], &words[1..]].concat(),
        };
        let mut environment = more.to_vec();
        if let Build::Seeded(bug) = self {
            environment.push(("CARGO_BUILD_BUILD_DIR", &shared));
            environment.extend(bug.as_deref().map(|name| ("LASTWORD_BUG", name)));
        }
        if *into != target() || matches!(self, Build::Seeded(_)) {
            environment.push(("CARGO_TARGET_DIR", &programs));
        }
        cargo_with(&words, &environment)
    }

    /// Returns where the programs are that are built into `into`.
    pub(crate) fn programs(&self, into: &Path) -> PathBuf {
        match self {
            Build::Plain => into.to_owned(),
            Build::Seeded(_) => copy::target(),
        }
    }

    fn root(&self) -> PathBuf {
        match self {
            Build::Plain => PathBuf::new(),
            Build::Seeded(_) => copy::folder(),
        }
    }
}

/// The packages of checkers that have bugs in files; the fuzzer is built by its own verb.
const CHECKERS: [&str; 3] = ["lastword", "lastword-trials", "lastword-proof"];

/// Builds every checker from the copy.
pub(crate) fn build() -> Outcome {
    copy::update()?;
    CHECKERS
        .iter()
        .try_for_each(|name| Build::Seeded(None).cargo(&["build", "--release", "--quiet", "--package", name]))
}

/// Runs `bugs [NAME]`: switches each bug of the proof on, and fails if no checker notices; first of all none.
pub(crate) fn run(arguments: &[&str]) -> Outcome {
    let bugs: Vec<Bug> = bug::all()?.into_iter().filter(|bug| bug.is_of("crates/proof/")).collect();
    let chosen: Vec<&Bug> = match arguments {
        [] => bugs.iter().collect(),
        [name] => bugs.iter().filter(|bug| bug.name == *name).collect(),
        _ => return Err(Failure::new("usage: cargo xtask bugs [NAME]")),
    };
    if chosen.is_empty() {
        return Err(Failure::new("crates/proof/bugs has no bug of that name"));
    }
    copy::update()?;
    let begin = Instant::now();
    let check = |name: Option<&str>, words: &[&str]| {
        let run = ["run", "--release", "--quiet", "--package", "lastword-proof", "--", "bugs"];
        Build::Seeded(name.map(str::to_owned)).cargo(&[&run, words].concat())
    };
    check(None, &[])?;
    let mut unfound = Vec::new();
    for bug in &chosen {
        let engine: &[&str] = if bug.is_in("crates/engine/") { &["--engine"] } else { &[] };
        if check(Some(&bug.name), &[&[bug.name.as_str()], engine].concat()).is_err() {
            unfound.push(bug.name.as_str());
        }
    }
    println!("\n{} bugs, {} not found, {:.0} s", chosen.len(), unfound.len(), begin.elapsed().as_secs_f64());
    if unfound.is_empty() { Ok(()) } else { Err(Failure::new(format!("not found: {}", unfound.join(", ")))) }
}
