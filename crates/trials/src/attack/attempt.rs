//! An attempt, and how it must end.

use super::setup::Setup;

/// How an attempt must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// It comes to nothing, and the attacker is told.
    Refused,
    /// It is done, and does no harm.
    Survived,
    /// It works, and the page says so under this heading.
    Limit(&'static str),
}

impl Ends {
    pub(super) fn word(self) -> &'static str {
        match self {
            Ends::Refused => "refused",
            Ends::Survived => "survived",
            Ends::Limit(_) => "limit",
        }
    }
}

/// One thing that an attacker tries.
pub(super) struct Attempt {
    /// Its number in the plan of security tests.
    pub(super) item: u8,
    pub(super) what: &'static str,
    pub(super) ends: Ends,
    /// Tries it. Says how it ended, if it ended as it must; otherwise what happened instead.
    pub(super) make: fn(&Setup) -> Result<String, String>,
}
