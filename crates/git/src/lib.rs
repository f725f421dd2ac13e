//! Git worktrees for jobs that ask for one. This crate knows repositories, commits and folders, but not jobs. It is the only crate that
//! runs git, which it does through `proc`.
//!
//! * `run.rs`: how git is run. A repository is untrusted input: nothing it configures is executed.
//! * [`Checkout`]: the checkout that a folder is in, and the commit a new worktree starts from.
//! * [`Worktrees`]: all worktrees below one folder, each with a record that outlives every crash between creation and removal.
//! * [`View`]: the changes in one worktree, relative to the commit it started from.
//! * [`Plan`]: those changes, merged into a checkout.
//!
//! Design: `docs/design/2026-11-15-worktrees.md`.
//!
//! Tests: `tests/`; jobs with worktrees in `crates/cli/tests`.

mod apply;
mod changes;
mod checkout;
mod error;
mod ignored;
mod record;
mod run;
mod scratch;
mod standing;
mod swap;
mod view;
mod worktrees;

pub use apply::{ApplyRefusal, Plan};
pub use changes::{FileChange, Kind};
pub use checkout::{Checkout, Probe};
pub use error::Error;
pub use ignored::Ignored;
pub use run::Git;
pub use standing::{Standing, Work};
pub use view::View;
pub use worktrees::{Keep, WorktreeSpec, Worktrees};
