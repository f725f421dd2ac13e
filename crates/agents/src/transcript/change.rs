//! A change of an item: what it is, and what was added to it.

/// The longest text of a change, in bytes.
pub const PART_BYTES_MAX: usize = 8 << 10;

/// What an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A message of the agent.
    Message,
    /// What the agent thinks, as far as it says so.
    Reasoning,
    /// The use of a tool. Its text is the tool's output.
    Tool,
    /// A remark or an error.
    Note,
    /// Part of an output without a protocol.
    Output,
    /// Output that was not kept, or a line that is too long to be read.
    Gap,
}

/// Whether an item can still change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// More may follow.
    Running,
    /// It ended.
    Completed,
    /// The tool failed.
    Failed,
}

/// What an item is, or what was added to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The number of the item: the offset of the line it begins with, plus its place among the items that begin with that line.
    pub n: u64,
    /// What it is.
    pub kind: Kind,
    /// The agent's id of it; only where it begins.
    pub id: Option<String>,
    /// The title of a tool; only where it begins.
    pub title: Option<String>,
    /// Its status now.
    pub status: Status,
    /// The length of its text before this change, in bytes.
    pub from: u64,
    /// What was added to its text. Written by the agent: do not trust it.
    pub text: String,
    /// The length of its text after this change, in bytes. More than `from` and `text` add up to if the text was cut.
    pub text_bytes: u64,
    /// The offset after the output that this change was read from.
    pub end: u64,
}
