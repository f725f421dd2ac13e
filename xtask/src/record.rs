//! `record`: reported failures, re-enacted. `--against 0.1.0` runs them on the first release, which is built once.

use crate::program::{Failure, Outcome};
use crate::{first_release, tools, trials};

/// Runs the rows, on this build or on another executable.
pub(crate) fn run(arguments: &[&str]) -> Outcome {
    let Some(at) = arguments.iter().position(|word| *word == "0.1.0") else {
        return trials::run("record", arguments);
    };
    tools::need("record --against 0.1.0")?;
    let old =
        first_release::executable().ok_or_else(|| Failure::new("0.1.0 was built and does not start"))?;
    let old = old.to_str().ok_or_else(|| Failure::new("the path of the cache is not UTF-8"))?;
    let mut arguments = arguments.to_vec();
    arguments[at] = old;
    trials::run("record", &arguments)
}
