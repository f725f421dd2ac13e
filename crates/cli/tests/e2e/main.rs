//! The product as a user runs it: the real executable, a home for each test, real processes, and a snapshot of every screen.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]
#![expect(clippy::disallowed_methods, reason = "the tests start the program and read its environment")]

mod agents;
mod attributes;
mod budgets;
mod cancel;
mod changes;
mod chosen;
mod colours;
mod control;
mod conversations;
mod daemon;
mod doctor;
mod documents;
#[path = "../executable.rs"]
mod executable;
mod families;
mod fleet;
mod fleet_output;
mod follow;
mod help;
mod home;
mod idle;
mod json;
mod link;
mod misuse;
mod once;
mod paused;
mod plain;
mod profiles;
mod progress;
mod quota;
mod reader;
mod receipts;
mod refusals;
mod repositories;
mod run;
mod screen_size;
mod screens;
mod seen;
mod settings;
mod strangers;
mod terminal;
mod typing;
mod waiting;
mod watching;
mod worktree;
