//! The product when things go wrong: the real executable, real processes, a state folder for each test.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]
#![expect(
    clippy::disallowed_methods,
    reason = "the tests start commands as a user does, and find their processes by environment"
)]
#![expect(clippy::print_stdout, reason = "a skipped test says why")]

mod across_hosts;
mod daemon;
mod disk;
#[path = "../executable.rs"]
mod executable;
mod fleet;
mod home;
mod inside;
mod places;
mod reboot;
mod worktree;
