//! `e2e`: the product as a user drives it, its survival of crashes, and its upgrade from 0.1.0.
//!
//! All but the upgrade are tests, which `ci` runs with all others; here they run alone. Snapshots are compared, never written.

mod link;

use crate::program::{Failure, Outcome, cargo_with, target};
use crate::seeded::Build;
use crate::{first_release, tools, trials};

/// Runs the tests that drive the real executable, and the upgrade; or those that the arguments name.
pub(crate) fn run(arguments: &[&str]) -> Outcome {
    if let ["upgrade", rest @ ..] = arguments {
        return upgrade(rest);
    }
    if let ["--store", "link", rest @ ..] = arguments {
        return link::run(rest, &executable()?);
    }
    // Typing at random: many more sequences than among the tests.
    let (sequences, arguments) = match arguments {
        ["typing", count] => (*count, &["typing::"][..]),
        ["typing"] => ("500", &["typing::"][..]),
        _ => ("6", arguments),
    };
    let words = ["test", "--quiet", "--package", "lastword", "--test", "e2e", "--test", "survival", "--"];
    let executable = executable()?;
    let env =
        [("INSTA_UPDATE", "no"), ("TESTED_EXECUTABLE", executable.as_str()), ("TYPED_SEQUENCES", sequences)];
    cargo_with(&[&words, arguments].concat(), &env)?;
    if arguments.is_empty() { upgrade(&[]) } else { Ok(()) }
}

/// Builds the executable as it ships, and returns its path. The one that cargo builds together with tests is another: its dependencies
/// have the features that tests ask for.
pub(crate) fn executable() -> Result<String, Failure> {
    trials::build(&Build::Plain, &["--release"])?;
    let path = target().join("release/lastword");
    let path = path.canonicalize().map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
    Ok(path.to_string_lossy().into_owned())
}

/// Runs the trial that takes over a state folder of 0.1.0.
fn upgrade(arguments: &[&str]) -> Outcome {
    tools::need("e2e upgrade")?;
    first_release::examples_are_unchanged()?;
    let old =
        first_release::executable().ok_or_else(|| Failure::new("0.1.0 was built and does not start"))?;
    let old = old.to_str().ok_or_else(|| Failure::new("the path of the cache is not UTF-8"))?;
    trials::run("upgrade", &[&["--old", old], arguments].concat())
}
