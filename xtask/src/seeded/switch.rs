//! The switch of the seeded bugs. This module is in the copy of the workspace only; see `cargo xtask bugs`.

use std::sync::LazyLock;

/// The bug that is on, by its number. Processes of the keeper inherit no environment: with them the bug is the ending of the name that
/// the program was called by.
static ON: LazyLock<Option<usize>> = LazyLock::new(|| {
    let told = std::env::var("LASTWORD_BUG").ok();
    let called = || {
        let called = std::env::args_os().next()?;
        Some(std::path::Path::new(&called).extension()?.to_str()?.to_owned())
    };
    let name = told.or_else(called)?;
    Some(NAMES.iter().position(|known| *known == name)? + 1)
});

/// Reports whether the bug of this number is on.
#[inline]
pub fn is_on(number: usize) -> bool {
    *ON == Some(number)
}

