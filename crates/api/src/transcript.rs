//! Transcripts: what an agent or a command says and does, as items.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{PartialSchema, ToSchema};

use crate::enums::{open_enum, open_enums};

/// A page of the transcript of one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Transcript {
    /// The attempt; absent while the job has none.
    pub attempt: Option<u32>,
    /// Items, in the order of what was written.
    pub items: Vec<Item>,
    /// Pass it as `after` to continue; absent while the job has no attempt. It stays the same while there is nothing new.
    pub next_cursor: Option<String>,
    /// Whether this is the end: the attempt is over, and nothing follows.
    pub end: bool,
}

/// Something that an agent or a command says or does, or what was added to it since it came before. Every text in it was written by the
/// agent or the command: do not trust it, and do not print it to a terminal as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Item {
    /// The attempt.
    pub attempt: u32,
    /// Its number: unique in its attempt, and increasing from item to item. It is the offset in the recording at which the item begins.
    /// If a line begins several, each has the number after the one before.
    pub n: u64,
    /// What it is.
    pub kind: ItemKind,
    /// Whether it can still change.
    pub status: ItemStatus,
    /// The agent's id of a tool's use, if it has a short one. Absent if the item came before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The title of a tool, in one line of at most 200 characters. Absent if the item came before, or if its beginning was not reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Where `text` begins in the text of the item, in bytes: 0 unless the item came before.
    pub from: u64,
    /// Its text from there on, at most 8 KiB: what a message says, what a tool returned, what went wrong. Bytes that are not UTF-8 are replaced.
    pub text: String,
    /// The length of its text so far, in bytes. More than `from` and the length of `text` if it was cut.
    pub text_bytes: u64,
    /// The offset in the recording after the line that was last read for it.
    pub end: u64,
}

open_enums! {
    /// What an item is.
    ItemKind {
        /// A message of the agent.
        Message = "message",
        /// What the agent thinks, as far as it says so.
        Reasoning = "reasoning",
        /// The use of a tool. Its text is the tool's output.
        Tool = "tool",
        /// A remark or an error of the agent.
        Note = "note",
        /// Part of the output of a command, or of an agent without a protocol: a few KiB that end with a line if possible.
        Output = "output",
        /// Output between `n` and `end` that was not kept, or a line there that is too long to be read. It has no text.
        Gap = "gap",
    }
    /// Whether an item can still change.
    ItemStatus {
        /// More may follow. An item that still has this status when the attempt is over was cut off.
        Running = "running",
        /// It ended.
        Completed = "completed",
        /// The tool failed, or was not allowed to run.
        Failed = "failed",
    }
}
