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
use std::process::Command;

use crate::program::{Failure, Outcome, cargo_with, status, target};

pub(crate) use bug::{all, check};
pub(crate) use copy::update;

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

    /// Reports whether it has the bugs in it.
    pub(crate) fn is_seeded(&self) -> bool {
        matches!(self, Build::Seeded(_))
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
        if self.is_seeded() {
            environment.push(("CARGO_BUILD_BUILD_DIR", &shared));
        }
        if *into != target() || self.is_seeded() {
            environment.push(("CARGO_TARGET_DIR", &programs));
        }
        cargo_with(&words, &environment)
    }

    /// Starts a program that cargo built of the workspace, with the bug switched on.
    pub(crate) fn start(&self, program: &str, words: &[&str]) -> Outcome {
        let program = self.programs(&target()).join(program);
        let mut command = Command::new(&program);
        if let Build::Seeded(Some(bug)) = self {
            command.env("LASTWORD_BUG", bug);
        }
        command.args(words);
        let line = format!("{} {}", program.display(), words.join(" "));
        eprintln!("$ {line}");
        status(&line, command)
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
