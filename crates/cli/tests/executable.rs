//! The executable that the tests are about.
#![expect(clippy::disallowed_methods, reason = "the tests are told from outside what they are about")]

use std::sync::LazyLock;

static LASTWORD: LazyLock<String> = LazyLock::new(|| {
    std::env::var("TESTED_EXECUTABLE").unwrap_or_else(|_| env!("CARGO_BIN_EXE_lastword").to_owned())
});

/// Returns its path. `cargo xtask ci` and `cargo xtask e2e` name the one that ships; the one that cargo builds together with tests has
/// dependencies with the features that tests ask for.
pub(crate) fn lastword() -> &'static str {
    &LASTWORD
}
