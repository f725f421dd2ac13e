//! Process trees on this machine: started, held, stopped and proven empty. This room knows attempts by their folder
//! and their marker, not jobs; it is the only one that starts or signals a process.
//!
//! * A daemon starts a `Nursery`, launches into folders, speaks to keepers and locates what it finds on disk.
//! * A keeper (nursery, guard, shim: [`keeper`]) outlives the daemon. It is single-threaded and links nothing but the
//!   system calls.
//!
//! The design, with its reasons: `docs/design/2026-11-15-the-keeper.md`. Linux only; other systems are not yet there.

mod claim;
pub mod clock;
mod control;
mod detach;
mod ending;
mod error;
mod folder;
mod identity;
pub mod keeper;
mod launch;
pub mod level;
mod line;
mod locate;
mod nursery;
pub mod orphans;
mod peer;
mod recording;
pub mod seeded;
mod sweep;
mod sys;
mod tool;
mod tree;
mod words;

pub use control::{Keeper, Saying, Status, Stop, answer, climbed, has_ended, hung_up, told};
pub use detach::{Detached, close_to_others, handed_over, is_kept, is_of_loader, is_same_program};
pub use ending::ExitRecord;
pub use error::Error;
pub use folder::Folder;
pub use identity::{Identity, boot_id};
pub use launch::{Input, Keep, Launch, MARKER};
pub use line::Line;
pub use locate::{Alive, Located, ended, locate, wait};
pub use nursery::{Finding, Launched, Nursery, Pending};
pub use peer::Peer;
pub use recording::{Read, Recording, SentInput, sent_inputs, written};
pub use tool::{Tool, ToolOutput, stdin_from};
pub use tree::ancestors;

/// The argument by which the executable is told to keep trees instead of anything else.
pub const KEEPER_VERB: &str = "keeper";
