//! What names a journal in a statement: its instance, and the very row that was written when its tables were made. And how far it has
//! come, as a place in its feed.
//!
//! Every statement that writes looks at both, by the snapshot it writes with. A copy of the row is another row: it has another
//! transaction, and mostly another table. The number of a transaction never goes back, unless the files of the server did.

/// Names the journal of `meta m join migrations b on b.step = 1`.
macro_rules! identity {
    () => {
        "concat_ws('.', m.instance_first, b.tableoid, b.xmin)"
    };
}

/// Above the place of everything that is committed, by the snapshot of the statement.
macro_rules! next_place {
    () => {
        "pg_snapshot_xmax(pg_current_snapshot())::text::bigint + m.feed_offset"
    };
}

/// What a statement that writes begins with: the table `here` has a row if this is the journal that was opened. The parameters are
/// [`Known::identity`] and [`Known::newest`]. `here.sql` and `settle.sql` say the same.
macro_rules! with_here {
    ($identity:literal, $newest:literal, $($rest:expr),+) => {
        concat!(
            "with here as materialized (
                select from meta m join migrations b on b.step = 1
                where ", $crate::postgres::identity::identity!(), " = ", $identity, "::text
                    and ", $crate::postgres::identity::next_place!(), " > ", $newest, "::bigint
            )"
            $(, $rest)+
        )
    };
}
pub(super) use {identity, next_place, with_here};

/// Which journal this is, and how far its server has counted. Benches ask for the first.
pub const IDENTITY: &str =
    concat!("select ", identity!(), ", ", next_place!(), " - 1 from meta m join migrations b on b.step = 1");

/// What this process knows of the journal. Asked for before a statement is sent, whose place is then above all that is known.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// Names the journal and its instance in a statement.
    pub(super) identity: String,
    /// The number of the instance.
    pub(super) instance: u64,
    /// How far it has come for certain: the highest place that was committed for this process. Not what is counted: after a crash, a
    /// server counts again what it had not written.
    pub(super) newest: i64,
    /// The start of the server that was last found to have come that far.
    pub(super) started: Option<String>,
}
