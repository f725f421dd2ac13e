//! What a job is, what may happen to it, and what is due.
//!
//! This crate is pure: no IO, no clock (`now` is a parameter), no logging, no random numbers. Stores keep its events, engines carry out
//! its effects, agents and keepers produce its reports.
//!
//! - [`event`]: facts, the only thing that is stored; [`turn`]: what those about sessions and turns are made of.
//! - [`job`]: the fold of a log, with phases that carry their data; [`session`]: the agent's part of it; [`conversation`]: the chain of
//!   jobs that it is in.
//! - [`append`]: facts on their way to the journal, with the version and fence they need.
//! - [`decide`]: which facts follow from a request or a report; [`limits`]: the arithmetic; [`budget`]: that of a group and day.
//! - [`effects`]: what must be done; [`report`]: what came of it.
//! - [`mod@reference`]: how users refer to jobs.
//! - [`owner`]: the state machine that ties these together; its driver does the IO.
//! - [`view`]: what readers see.
//! - [`worker_labels`]: which workers may run a job.
//!
//! Tests: `tests/`. `crates/proof` checks the same decisions in every order of events (`model`) and in random schedules (`sim`).

pub mod append;
pub mod budget;
pub mod conversation;
pub mod decide;
pub mod effects;
pub mod event;
pub mod ids;
pub mod job;
pub mod life;
pub mod limits;
pub mod outcome;
pub mod owner;
pub mod provider;
pub mod question;
pub mod receipt;
pub mod reference;
pub mod report;
pub mod session;
pub mod spec;
pub mod turn;
pub mod view;
pub mod worker_labels;

pub use append::{Append, Illegal};
pub use event::{Event, Fact};
pub use ids::*;
pub use job::{Job, Phase};
