//! `e2e`: the product as a user drives it, its survival of crashes, and its upgrade from 0.1.0.
//!
//! All but the upgrade are tests, which `ci` runs with all others; here they run alone. Snapshots are compared, never written.

use crate::program::{Failure, Outcome, cargo_with};
use crate::{first_release, tools, trials};

/// Runs the tests that drive the real executable, and the upgrade; or those that the arguments name.
pub(crate) fn run(arguments: &[&str]) -> Outcome {
    if let ["upgrade", rest @ ..] = arguments {
        return upgrade(rest);
    }
    let words = ["test", "--quiet", "--package", "lastword", "--test", "e2e", "--test", "survival", "--"];
    cargo_with(&[&words, arguments].concat(), &[("INSTA_UPDATE", "no")])?;
    if arguments.is_empty() { upgrade(&[]) } else { Ok(()) }
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
