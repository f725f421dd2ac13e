//! The product when things go wrong around it: the real executable, real processes, a state folder of its own for each test.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]
#![expect(
    clippy::disallowed_methods,
    reason = "a user starts commands; what they start is found again by what it carries"
)]
#![expect(clippy::print_stdout, reason = "a test that needs root says so")]

mod daemon;
mod disk;
mod home;
mod inside;
mod places;
mod reboot;
mod worktree;
