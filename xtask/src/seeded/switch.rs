//! The switch of the seeded bugs. This module exists only in the copy of the workspace; see `cargo xtask bugs`.

use std::sync::LazyLock;

/// The number of the bug that is on. A keeper inherits no environment: there the bug is the extension of the name that the program was
/// called by.
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

