//! Stored facts must stay readable: an example of each kind and version is kept as a file and never edited.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use lastword_core::Fact;
use lastword_core::event::{KINDS, LimitFired, SessionState, Stored, TurnEnding, Unreadable};
use lastword_core::limits::{Limit, SETTINGS};
use lastword_core::outcome::{Asked, Begun, Budget, Cause, Clock, Outcome};
use lastword_core::receipt::{Exit, KeeperStop, Level, Proof, Rung};
use lastword_core::spec::{Io, Needs, OnPartition};
use serde_json::{Value, json};

/// Fields that were added to a kind later, each with an example of its own. The first one stays as it was stored.
const GROWN: [&str; 31] = [
    "submitted.v1+named",
    "turn_ended.v1+acknowledged",
    "turn_ended.v1+awake",
    "turn_ended.v1+active",
    "submitted.v1+conversation",
    "submitted.v1+tied",
    "submitted.v1+unfinished",
    "submitted.v1+quota",
    "submitted.v1+open",
    "session_changed.v1+awake",
    "turn_ended.v1+mark",
    "submitted.v1+secrets",
    "turn_started.v1+awake",
    "question_asked.v1+awake",
    "spent.v1+overcounted",
    "submitted.v1+model",
    "submitted.v1+worktree",
    "submitted.v1+terms",
    "submitted.v1+no_resume",
    "submitted.v1+on_limit",
    "input_requested.v1+eof",
    "input_requested.v1+steer",
    "answer_requested.v1+words",
    "question_asked.v1+choice",
    "question_asked.v1+permission",
    "launch_intended.v1+boot",
    "launched.v1+withheld",
    "attempt_ended.v1+launch_error",
    "attempt_ended.v1+lost",
    "attempt_ended.v1+ran",
    "last_word.v1+by",
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden")
}

/// Returns the stored example of a kind.
pub(crate) fn example(kind: &str) -> Stored {
    stored(&format!("{kind}.v1"))
}

/// Returns a stored example by its name.
pub(crate) fn stored(name: &str) -> Stored {
    let path = folder().join(format!("{name}.json"));
    let body = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
    let kind = name.split('.').next().unwrap_or(name);
    Stored { kind: kind.to_owned(), version: 1, body }
}

fn read(kind: &str, body: &Value) -> Result<Fact, Unreadable> {
    Fact::decode(Stored { kind: kind.to_owned(), version: 1, body: body.to_string() })
}

#[test]
fn every_kind_has_a_file_and_every_file_a_kind() {
    let names = fs::read_dir(folder()).expect("the folder is there");
    let names = names.map(|entry| entry.expect("it can be listed").file_name().into_string());
    let found: BTreeSet<String> = names.map(|name| name.expect("names are plain")).collect();
    let first = KINDS.iter().map(|kind| format!("{kind}.v1.json"));
    let wanted: BTreeSet<String> = first.chain(GROWN.map(|name| format!("{name}.json"))).collect();
    assert_eq!(found, wanted);
}

#[test]
fn every_stored_example_reads_and_writes_the_same() {
    let first = KINDS.iter().map(|kind| format!("{kind}.v1"));
    for name in first.chain(GROWN.map(str::to_owned)) {
        let stored = stored(&name);
        let kind = stored.kind.clone();
        let before: Value = serde_json::from_str(&stored.body).expect("it is JSON");
        let fact = Fact::decode(stored).unwrap_or_else(|error| panic!("{error}"));
        assert!(!matches!(fact, Fact::Unknown(_)), "{kind} is not known");
        let again = fact.encode();
        assert_eq!((again.kind.as_str(), again.version), (kind.as_str(), 1));
        assert_eq!(serde_json::from_str::<Value>(&again.body).expect("it is JSON"), before, "{name}");
    }
}

#[test]
fn a_kind_or_version_of_a_newer_build_is_kept_verbatim() {
    for (kind, version, body) in
        [("dreamt", 1, "{\"of\": \"sheep\"}"), ("last_word", 2, "not even JSON"), ("claimed", 0, "")]
    {
        let stored = Stored { kind: kind.to_owned(), version, body: body.to_owned() };
        let fact = Fact::decode(stored.clone()).expect("it is kept");
        assert_eq!(fact, Fact::Unknown(stored.clone()));
        assert_eq!((fact.kind(), fact.encode()), (kind, stored));
    }
}

/// C43: an unreadable fact is an error that names its kind, not an absent fact.
#[test]
fn c43_a_malformed_fact_is_an_error_that_names_its_kind() {
    let torn = |kind: &str| Stored { body: example(kind).body[..5].to_owned(), ..example(kind) };
    for kind in KINDS {
        let error = Fact::decode(torn(kind)).expect_err("a torn fact does not read");
        assert!(error.to_string().contains(&format!("`{kind}`")), "{error}");
    }
    // A missing field is an error too, except for the kind that must stop the job even if it is damaged.
    for kind in KINDS.iter().filter(|kind| **kind != "limit_fired") {
        assert!(read(kind, &json!({})).is_err(), "{kind}");
    }
}

#[test]
fn c48_a_malformed_limit_decision_still_reads_with_defaults() {
    let fine =
        LimitFired { attempt: lastword_core::AttemptNo(3), limit: Limit::Money, measured: 9, allowed: 8 };
    let check = |body: Value, expected: LimitFired| {
        assert_eq!(read("limit_fired", &body), Ok(Fact::LimitFired(expected)), "{body}");
    };
    check(json!({"attempt": 3, "limit": "money", "measured": 9, "allowed": 8}), fine);
    check(
        json!({"attempt": -1, "limit": "money", "measured": 9, "allowed": 8}),
        LimitFired { attempt: Default::default(), ..fine },
    );
    check(
        json!({"attempt": 3, "limit": "mood", "measured": 9, "allowed": 8}),
        LimitFired { limit: Limit::Wall, ..fine },
    );
    check(
        json!({"attempt": 3, "limit": "money", "measured": "much", "allowed": null}),
        LimitFired { measured: 0, allowed: 0, ..fine },
    );
    check(json!({"attempt": 3, "limit": "money", "measured": 9, "allowed": 8, "mood": []}), fine);
    check(json!({}), LimitFired::default());
}

/// Enum names inside facts are stored too. Each list has every variant in its stored form.
#[test]
fn stored_enum_names_are_fixed() {
    fn check<T: serde::Serialize>(values: &[T], words: Value) {
        assert_eq!(serde_json::to_value(values).expect("it is JSON"), words);
    }
    check(
        &[
            Cause::Finished,
            Cause::Agent,
            Cause::Launch,
            Cause::User,
            Cause::Shutdown,
            Cause::ParentGone,
            Cause::ReaderGone,
            Cause::Dependency,
            Cause::DependencyRemoved,
            Cause::Unaccounted,
            Cause::Abandoned,
        ],
        json!([
            "finished",
            "agent",
            "launch",
            "user",
            "shutdown",
            "parent_gone",
            "reader_gone",
            "dependency",
            "dependency_removed",
            "unaccounted",
            "abandoned"
        ]),
    );
    check(
        &[Cause::Limit(Limit::GroupTokens), Cause::Limit(Limit::GroupMoney)],
        json!([{"limit": "group_tokens"}, {"limit": "group_money"}]),
    );
    check(
        &SETTINGS.map(|(limit, _)| Cause::Limit(limit)),
        json!([{"limit": "wall"}, {"limit": "turn"}, {"limit": "active"}, {"limit": "handshake"}, {"limit": "idle"}, {"limit": "stall"}, {"limit": "output"}, {"limit": "turns"}, {"limit": "tokens"},
            {"limit": "money"}]),
    );
    check(
        &[
            Outcome::Completed,
            Outcome::Failed,
            Outcome::Cancelled(Begun::BeforeStart),
            Outcome::Cancelled(Begun::WhileRunning),
            Outcome::TimedOut(Clock::Deadline),
            Outcome::TimedOut(Clock::Stall),
            Outcome::OverBudget(Budget::Output),
            Outcome::OverBudget(Budget::Turns),
            Outcome::OverBudget(Budget::Tokens),
            Outcome::OverBudget(Budget::Money),
            Outcome::Lost,
        ],
        json!([
            "completed", "failed", {"cancelled": "before_start"}, {"cancelled": "while_running"},
            {"timed_out": "deadline"}, {"timed_out": "stall"}, {"over_budget": "output"},
            {"over_budget": "turns"},
            {"over_budget": "tokens"}, {"over_budget": "money"}, "lost"
        ]),
    );
    check(
        &[Asked::User, Asked::Shutdown, Asked::ParentGone, Asked::ReaderGone],
        json!(["user", "shutdown", "parent_gone", "reader_gone"]),
    );
    check(
        &[
            SessionState::Starting,
            SessionState::Running,
            SessionState::Ready,
            SessionState::Interrupted,
            SessionState::Stopped,
            SessionState::Errored,
        ],
        json!(["starting", "running", "ready", "interrupted", "stopped", "errored"]),
    );
    check(
        &[
            TurnEnding::Completed,
            TurnEnding::Failed,
            TurnEnding::Aborted,
            TurnEnding::Refused,
            TurnEnding::Limited,
            TurnEnding::Cancelled,
            TurnEnding::OverLimit(Limit::Wall),
            TurnEnding::Interrupted,
            TurnEnding::Superseded,
            TurnEnding::AgentExit,
            TurnEnding::RuntimeError,
        ],
        json!([
            "completed", "failed", "aborted", "refused", "limited", "cancelled", {"over_limit": "wall"}, "interrupted", "superseded",
            "agent_exit", "runtime_error"
        ]),
    );
    check(
        &[
            Proof::NoChildren,
            Proof::CgroupEmptyAndNoChildren,
            Proof::NamespaceGone,
            Proof::NeverStarted,
            Proof::BootChanged,
            Proof::LeaseSelfFenced,
            Proof::BestEffort,
        ],
        json!([
            "no_children",
            "cgroup_empty_and_no_children",
            "namespace_gone",
            "never_started",
            "boot_changed",
            "lease_self_fenced",
            "best_effort"
        ]),
    );
    check(
        &[Level::None, Level::Subreaper, Level::Landlock, Level::Cgroup, Level::Namespace],
        json!(["none", "subreaper", "landlock", "cgroup", "namespace"]),
    );
    check(
        &[Rung::Interrupt, Rung::StdinClosed, Rung::Term, Rung::Kill],
        json!(["interrupt", "stdin_closed", "term", "kill"]),
    );
    check(&[Exit::Code(1), Exit::Signal(9)], json!([{"code": 1}, {"signal": 9}]));
    check(
        &[
            KeeperStop::Deadline,
            KeeperStop::Lease,
            KeeperStop::LocalCancel,
            KeeperStop::LocalStall,
            KeeperStop::LocalBudget(Budget::Output),
        ],
        json!(["deadline", "lease", "local_cancel", "local_stall", {"local_budget": "output"}]),
    );
    check(&[Needs::Success, Needs::AnyEnd], json!(["success", "any_end"]));
    check(
        &[Io::Null, Io::Pipe, Io::Terminal { rows: 24, columns: 80 }],
        json!(["null", "pipe", {"terminal": {"rows": 24, "columns": 80}}]),
    );
    check(&[OnPartition::Stop, OnPartition::Keep], json!(["stop", "keep"]));
}

/// An older build ignores fields that a newer one added without a new version.
#[test]
fn an_added_field_does_not_break_an_older_reader() {
    for kind in KINDS {
        let mut body: Value = serde_json::from_str(&example(kind).body).expect("it is JSON");
        body["added_later"] = json!({"by": "a newer build"});
        assert!(read(kind, &body).is_ok(), "{kind}");
    }
}
