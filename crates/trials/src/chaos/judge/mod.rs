//! The judges. Each looks at the evidence alone and knows one promise; each is shown to fail by evidence that was doctored
//! against it, and by a real run that was sabotaged.
//!
//! - [`job`]: about one job. [`log`]: about its log, and what was asked of it there.
//! - [`run`]: about the run as a whole.
//! - [`doctored`]: what each must catch.

pub(crate) mod doctored;
pub(crate) mod job;
mod log;
pub(crate) mod run;

/// A promise that was broken, by whom and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) judge: &'static str,
    pub(crate) what: String,
}

/// Turns a complaint into an error, unless what it denies is so.
fn explained(is_so: bool, otherwise: &str) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(otherwise.to_owned()) }
}
