//! The only place that reads the environment. All other code gets values.

use std::ffi::OsString;

/// The prefix of our own variables.
const OURS: &str = "LASTWORD_";

/// The database of a server.
pub(crate) const STORE: &str = "LASTWORD_STORE";

/// Our variables that are not settings.
pub(crate) const NOT_SETTINGS: [&str; 6] = [
    STORE,
    "LASTWORD_HOME",
    "LASTWORD_NO_AUTOSTART",
    "LASTWORD_JOB_ID",
    "LASTWORD_ATTEMPT",
    lastword_proc::MARKER,
];

/// Returns a variable; `None` if it is unset or empty.
#[expect(clippy::disallowed_methods, reason = "this is the place")]
pub(crate) fn get_os(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Returns a variable; `None` if it is unset, empty or not UTF-8.
pub(crate) fn get(name: &str) -> Option<String> {
    get_os(name).and_then(|value| value.into_string().ok())
}

/// Reports whether a variable is set and not empty.
pub(crate) fn is_set(name: &str) -> bool {
    get_os(name).is_some()
}

/// Returns the whole environment.
pub(crate) fn all() -> Vec<(OsString, OsString)> {
    std::env::vars_os().collect()
}

/// Returns the variables that override settings, without their prefix.
pub(crate) fn settings() -> Vec<(String, String)> {
    let ours = std::env::vars_os().filter_map(|(name, value)| {
        let name = name.into_string().ok()?;
        let setting = name.strip_prefix(OURS)?.to_owned();
        (!NOT_SETTINGS.contains(&name.as_str())).then(|| (setting, value.to_string_lossy().into_owned()))
    });
    ours.collect()
}
