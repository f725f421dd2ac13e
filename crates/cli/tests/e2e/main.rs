//! The product as a user drives it: the real executable, a home of its own for each test, real processes counted by pid, and
//! every screen as a snapshot.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]
#![expect(clippy::disallowed_methods, reason = "a test starts the program and looks at what it sees")]

mod agents;
mod attributes;
mod cancel;
mod changes;
mod control;
mod daemon;
mod doctor;
mod follow;
mod help;
mod home;
mod json;
mod misuse;
mod once;
mod plain;
mod repositories;
mod run;
mod screens;
mod settings;
mod strangers;
mod waiting;
mod worktree;
