//! What a job is, what may happen to it, and what is due.
//!
//! This crate is pure. It does no IO, reads no clock (`now` is a parameter), logs nothing and draws no random
//! numbers. Stores keep its events, engines carry out its effects, agents and keepers feed its reports.
//!
//! - [`event`]: facts, the only thing that is stored.
//! - [`job`]: their fold, with phases that carry their data; [`session`]: the agent's part of it.
//! - [`append`]: facts on their way to the journal, with the version and fence they need.
//! - [`decide`]: which facts follow from a request or a report; [`limits`]: the arithmetic.
//! - [`effects`]: what is due in the world; [`report`]: what comes back from it.
//! - [`mod@reference`]: how people name jobs.
//! - [`owner`]: the step that ties these together, for whoever does the IO.
//! - [`view`]: what readers see.

pub mod append;
pub mod decide;
pub mod effects;
pub mod event;
pub mod ids;
pub mod job;
pub mod limits;
pub mod outcome;
pub mod owner;
pub mod receipt;
pub mod reference;
pub mod report;
pub mod session;
pub mod spec;
pub mod view;

pub use append::{Append, Illegal};
pub use event::{Event, Fact};
pub use ids::*;
pub use job::{Job, Phase};
