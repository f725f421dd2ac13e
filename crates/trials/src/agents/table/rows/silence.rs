//! Rows about silence: an agent that goes idle without a word, dies, or never answers. The agent is the real one; a filter behind it
//! loses some of its lines.

use super::super::setup::Setup;

/// The dialect of an agent, its command, and what only the line has that ends a turn.
const LINES: &[(&str, &str, &str, &str)] = &[
    (
        "claude",
        "claude",
        "claude -p --input-format stream-json --output-format stream-json --verbose --include-partial-messages \
         --replay-user-messages --permission-prompt-tool stdio",
        "\"type\":\"result\"",
    ),
    ("codex", "codex", "codex app-server", "\"turn/completed\""),
    ("goose", "acp", "goose acp --with-builtin developer", "\"stopReason\""),
    ("opencode", "acp", "opencode acp", "\"stopReason\""),
    ("gemini", "acp", "gemini --acp", "\"stopReason\""),
];

/// Which lines of an agent are lost.
#[derive(PartialEq)]
enum Lost {
    TurnEnds,
    All,
}

/// Defines the agent `lossy`: the same one, some of whose lines are lost.
fn define(setup: &Setup, lost: &Lost) -> Result<(), String> {
    let (_, dialect, command, end) =
        LINES.iter().find(|(name, ..)| *name == setup.agent.name).ok_or("this agent has no filter")?;
    // Every line has an empty text in it.
    let word = if *lost == Lost::All { "" } else { end };
    let words = format!("{command} | grep --line-buffered --invert-match --fixed-strings -e '{word}'");
    let definition = format!(
        "[lossy]\ndialect = \"{dialect}\"\ncommand = [\"sh\", \"-c\", {}]\n\
         env = {{ CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS = \"1\" }}\n",
        serde_json::Value::from(words)
    );
    setup.define(&definition)
}

pub(super) fn idle(setup: &Setup) -> Result<(), String> {
    define(setup, &Lost::TurnEnds)?;
    let job = setup.run_as("lossy", &[], "Answer. [[say good day]]")?;
    let ended = job.turn_ends(1, "aborted")?;
    match ended["error"].as_str() {
        Some("the agent went idle and did not end its turn") => job.ends("failed", "agent").map(drop),
        other => Err(format!("its error is {other:?}")),
    }
}

pub(super) fn failed(setup: &Setup) -> Result<(), String> {
    define(setup, &Lost::TurnEnds)?;
    let job = setup.run_as("lossy", &[], "Answer. [[status 400]]")?;
    let ended = job.turn_ends(1, "runtime_error")?;
    match ended["error"].as_str() {
        Some("the agent reported an error of its own and did not end its turn") => {
            job.ends("failed", "agent").map(drop)
        }
        other => Err(format!("its error is {other:?}")),
    }
}

pub(super) fn death(setup: &Setup) -> Result<(), String> {
    let job = setup.run_with("Answer. [[say good day]]", &["--no-such-flag"])?;
    job.ends("failed", "agent")?;
    let ended = job.nth("attempt_ended", 1)?;
    match ended["error"].as_str() {
        Some(error)
            if error.contains("the agent exited with status ") && error.contains("its last words: ") =>
        {
            Ok(())
        }
        other => Err(format!("its error is {other:?}")),
    }
}

pub(super) fn no_handshake(setup: &Setup) -> Result<(), String> {
    define(setup, &Lost::All)?;
    let job = setup.run_as("lossy", &["--handshake", "5s"], "Answer. [[say good day]]")?;
    let neared = job.nth("limit_neared", 1)?;
    if neared["limit"] != "handshake" {
        return Err(format!("the limit {} is near", neared["limit"]));
    }
    job.ends("timed_out", "limit_handshake").map(drop)
}
