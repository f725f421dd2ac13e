//! Everything that reads what others wrote, under libFuzzer. `LASTWORD_FUZZ` names the target.
//!
//! A target takes bytes, reads them, and checks the laws that what it read has to keep. Only what it must not do is a finding: a panic,
//! an overflow, a law that is broken, more memory or time than libFuzzer was told to allow.

#![no_main]
#![expect(
    clippy::disallowed_methods,
    reason = "nothing of it is shipped, and its settings are its environment"
)]

mod bend;
mod dialogue;
mod plain_text;
mod stored;

// These belong to a program and to rooms that do not show them.
#[path = "../../crates/git/src/changes.rs"]
#[allow(dead_code, unreachable_pub, reason = "only the parser is of interest here")]
mod changes;
#[path = "../../crates/cli/src/profile/parse.rs"]
#[allow(dead_code, reason = "only what reads a file is of interest here")]
mod profile;
#[path = "../../crates/cli/src/settings/mod.rs"]
#[allow(dead_code, unused_imports, reason = "only what reads a file is of interest here")]
mod settings;
#[allow(dead_code, reason = "only what reads text is of interest here")]
mod text;

use std::sync::LazyLock;

use lastword_core::spec::Dialect;

/// What a target does with bytes.
type Target = fn(&[u8]);

/// Every target, by its name.
const TARGETS: &[(&str, Target)] = &[
    ("acp", |bytes| dialogue::run(Dialect::Acp, bytes)),
    ("claude", |bytes| dialogue::run(Dialect::Claude, bytes)),
    ("codex", |bytes| dialogue::run(Dialect::Codex, bytes)),
    ("once", |bytes| dialogue::run(Dialect::Once, bytes)),
    ("plain", |bytes| dialogue::run(Dialect::Plain, bytes)),
    ("agents-file", plain_text::agents_file),
    ("prices-file", plain_text::prices_file),
    ("settings-file", plain_text::settings_file),
    ("profile-file", plain_text::profile_file),
    ("text", plain_text::text),
    ("job-output", plain_text::job_output),
    ("requests", stored::requests),
    ("facts", stored::facts),
    ("keeper-lines", stored::keeper_lines),
    ("sent-inputs", stored::sent_inputs),
    ("git-changes", |bytes| drop(changes::parse(bytes))),
];

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("LASTWORD_FUZZ");
    let known = TARGETS.iter().find(|(known, _)| name.as_deref() == Ok(*known));
    known.unwrap_or_else(|| panic!("LASTWORD_FUZZ names no target: {name:?}")).1
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (*TARGET)(bytes));
libfuzzer_sys::fuzz_mutator!(|bytes: &mut [u8], size: usize, size_max: usize, seed: u32| {
    bend::bend(bytes, size, size_max, seed)
});
