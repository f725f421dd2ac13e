//! A row of the track record: a failure that was reported, and its re-enactment.

use super::home::Home;
use super::report::Report;

/// Since when a failure does not happen here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// Since the first release.
    From010,
    /// Since the release after it: the re-enactment must fail on 0.1.0.
    After010,
}

/// What a re-enactment needs besides an ordinary user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    Nothing,
    /// Root.
    Root,
    /// Root, and a small disk for the state folder.
    SmallDisk,
}

/// What came of a re-enactment. An error means that it could not be carried out.
pub(super) type Seen = Result<Found, String>;

/// The judgement, with the evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Held(String),
    Broken(String),
}

/// Judges by a condition.
pub(super) fn held_if(is_held: bool, evidence: impl Into<String>) -> Seen {
    let evidence = evidence.into();
    Ok(if is_held { Found::Held(evidence) } else { Found::Broken(evidence) })
}

/// One row.
pub(super) struct Row {
    /// Of an item of a thread `000-01`, of our own finding `A1`.
    pub(super) id: &'static str,
    /// None for what was found by our own attacks on 0.1.0.
    pub(super) report: Option<&'static Report>,
    /// What happens there.
    pub(super) there: &'static str,
    /// What happens here.
    pub(super) here: &'static str,
    /// Ids of promises of the contract.
    pub(super) promises: &'static [u8],
    pub(super) held: Held,
    pub(super) needs: Needs,
    pub(super) act: fn(&Home) -> Seen,
}

/// Makes rows: `id report held needs promises there => here, act`.
macro_rules! rows {
    ($($id:literal $report:ident $held:ident $needs:ident $promises:tt $there:literal => $here:literal, $act:expr;)*) => {
        pub(in crate::track) const ROWS: &[$crate::track::row::Row] = &[$(
            $crate::track::row::Row {
                id: $id,
                report: $crate::track::row::report!($report),
                there: $there,
                here: $here,
                promises: &$promises,
                held: $crate::track::row::Held::$held,
                needs: $crate::track::row::Needs::$needs,
                act: $act,
            },
        )*];
    };
}

/// Names a report in a row; `ours` is none.
macro_rules! report {
    (ours) => {
        None
    };
    ($report:ident) => {
        Some(&$crate::track::report::$report)
    };
}

pub(super) use {report, rows};
