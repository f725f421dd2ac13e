//! Process trees on this machine: starts, contains and stops them, and proves that they are empty. This crate knows attempts by their
//! folder and marker, not jobs. No other crate starts or signals processes.
//!
//! * A daemon starts a [`Nursery`], launches attempts into folders, talks to their keepers, and locates attempts found on disk.
//! * A keeper (nursery, guard and shim: [`keeper`]) outlives the daemon. It is single-threaded and links little more than system calls.
//!
//! Design: `docs/design/2026-11-15-the-keeper.md`. Linux only, so far.
//!
//! Tests: with real keepers in `crates/cli/tests`, because keepers are forked from the executable; with hostile trees in `crates/trials`.

mod attributes;
mod claim;
pub mod clock;
mod control;
mod detach;
mod error;
mod exit_record;
mod folder;
mod identity;
pub mod keeper;
mod kept;
mod launch;
mod lease;
mod leftovers;
pub mod level;
pub mod limits;
mod line_format;
mod locate;
mod located;
mod members;
mod missing;
mod nursery;
pub mod orphans;
mod peer;
mod proc_files;
mod recording;
mod spelling;
mod sweep;
mod sys;
mod tool;
mod tree;
mod user;

pub use attributes::{Attributes, ResourceLimit};
pub use control::{
    Keeper, KeeperCommand, Status, Stop, hung_up, is_ended_event, parse_answer, parse_climbed, parse_written,
};
pub use detach::{
    Detached, is_below_keeper, is_loader_variable, is_same_program, listen_fds, make_undumpable,
};
pub use error::Error;
pub use exit_record::ExitRecord;
pub use folder::Folder;
pub use identity::{Identity, boot_id};
pub use kept::{Kept, kept_in};
pub use launch::{Input, Keep, Launch, MARKER};
pub use lease::LeaseFile;
pub use level::Finding;
pub use line_format::Line;
pub use locate::{exit_record, locate, locate_known, wait};
pub use located::{Alive, Located};
pub use members::{Member, members};
pub use nursery::{Launched, Nursery, Pending};
pub use peer::Peer;
pub use recording::{Read, Recording, SentInput, bytes_written, last_written, sent_inputs};
pub use tool::{Tool, ToolOutput, stdin_from};
pub use tree::ancestors;
pub use user::{Ids, User};

/// The argument that makes the executable run as a keeper.
pub const KEEPER_VERB: &str = "keeper";
