//! Git: a worktree for each job that asks for one. This room knows repositories, commits and folders, not jobs; it is the only one
//! that speaks to git, and starts it through `proc`.
//!
//! * `run.rs`: how git is run. A repository is hostile input: what it says should be executed is not.
//! * [`Checkout`]: the repository that a folder is in, and where a worktree of it begins.
//! * [`Worktrees`]: all worktrees below one folder, each with a record beside it from before it is made until it is gone.
//! * [`View`]: what was changed in one, against the commit it began at.
//! * [`Plan`]: the same changes, brought to a checkout.
//!
//! Why it is so: `docs/design/2026-11-15-worktrees.md`.

mod apply;
mod changes;
mod checkout;
mod error;
mod record;
mod run;
mod scratch;
mod standing;
mod view;
mod worktrees;

pub use apply::{Plan, Trouble};
pub use changes::{FileChange, Kind};
pub use checkout::{Checkout, Probe};
pub use error::Error;
pub use run::Git;
pub use standing::{Standing, Work};
pub use view::View;
pub use worktrees::{Left, Wanted, Worktrees};
