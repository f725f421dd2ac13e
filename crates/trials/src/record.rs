//! What a canary writes: which process lived, and when. Both programs know this form: one writes it, the other judges by it.
//!
//! A record has one size and is written in one call to a file that is only appended to, so that records of many
//! processes never mix. In bytes: 4 of the number, 4 that are zero or 1 for settled, 8 of the time, lowest first.

/// Bytes of a record.
pub(crate) const SIZE: usize = 16;

/// One sign of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// The process, by the number it knows itself by: in a namespace of its own that is not the number outside.
    pub(crate) pid: u32,
    /// Whether the tree had by then become what its kind is about.
    pub(crate) settled: bool,
    /// When, on the boot clock.
    pub(crate) at_ns: u64,
}
