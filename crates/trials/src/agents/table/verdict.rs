//! What became of one cell.

/// What became of one cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Pass,
    Fail(String),
    /// The agent cannot do it, and why.
    NotApplicable(&'static str),
}
