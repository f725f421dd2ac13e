//! One-shot agents: recorded streams, and which of their claims count.

#[expect(dead_code, reason = "each dialect uses its part of it")]
mod common;

use common::{Driver, input, line_of};
use lastword_agents::{Dialogue, Goals, Heard, Start};
use lastword_core::receipt::Exit;
use lastword_core::report::Signal;
use lastword_core::spec::{Dialect, Prices};

const CODEX: &str = include_str!("streams/once-codex.jsonl");
const CLAUDE: &str = include_str!("streams/once-claude.jsonl");
const GEMINI: &str = include_str!("streams/once-gemini.jsonl");
const QWEN: &str = include_str!("streams/once-qwen.jsonl");
const GOOSE: &str = include_str!("streams/once-goose.jsonl");
const OPENCODE: &str = include_str!("streams/once-opencode.jsonl");

const COPILOT: &str = include_str!("streams/once-copilot.jsonl");

const WHOLE: [&str; 7] = [CODEX, CLAUDE, GEMINI, QWEN, GOOSE, OPENCODE, COPILOT];

/// Streams truncated in the middle of a tool.
const KILLED: [&str; 6] = [
    include_str!("streams/once-codex-killed.jsonl"),
    include_str!("streams/once-claude-killed.jsonl"),
    include_str!("streams/once-gemini-killed.jsonl"),
    include_str!("streams/once-goose-killed.jsonl"),
    include_str!("streams/once-opencode-killed.jsonl"),
    include_str!("streams/once-copilot-killed.jsonl"),
];

fn start() -> Start {
    Start { prompt: "do it".to_owned(), cwd: "/w".to_owned(), ..Start::default() }
}

/// Returns the signals of a stream and of the exit after it, one per line.
fn transcript_of(stream: &str, exit: Exit) -> String {
    transcript_from(start(), stream, exit)
}

fn transcript_from(start: Start, stream: &str, exit: Exit) -> String {
    let mut driver = Driver::new(Dialect::Once, start);
    driver.play(stream);
    driver.signals.extend(driver.dialogue.exited(exit, "").into_iter().map(|heard| heard.signal));
    driver.transcript()
}

fn last_line(transcript: &str) -> &str {
    transcript.lines().last().unwrap_or_default()
}

fn successful(stream: &str) -> String {
    transcript_of(stream, Exit::Code(0))
}

/// Returns the signals of these lines and of the exit after them.
fn after(lines: &[&str], exit: Exit) -> String {
    let stream: Vec<String> = lines.iter().map(|line| format!("< {line}")).collect();
    transcript_of(&stream.join("\n"), exit)
}

#[test]
fn codex_run_whose_errors_are_remarks() {
    let expected = [
        "session 01a1dc6b-e007-7ec0-899f-db87d23cbdd3",
        "turn",
        "tool",
        "tool done",
        "item: echo one; exit 3: exit 3",
        "item: hello world",
        "spent 2468 112 0",
        "Completed messages 1 used 2468 112 0",
    ];
    assert_eq!(successful(CODEX), expected.join("\n"));
    let failed = transcript_of(include_str!("streams/once-codex-err500.jsonl"), Exit::Code(1));
    let error = "We’re currently experiencing high demand, which may cause temporary errors.";
    assert!(failed.ends_with(&format!("turn\nFailed ({error}) messages 0 used 0 0 0")), "{failed}");
    let limit = r#"{"type":"turn.failed","error":{"message":"exceeded retry limit, last status: 429 Too Many Requests"}}"#;
    assert!(after(&[limit], Exit::Code(1)).contains("Limited (exceeded"));
}

#[test]
fn claude_run_with_its_cost() {
    let expected = [
        "session 49f94769-b161-472a-802f-5f40bccab225",
        "turn",
        "tool",
        "tool done",
        "item: Bash: echo one; exit 3: failed",
        "item: hello world",
        "spent 3868 112 12392",
        "Completed messages 1 used 3868 112 12392",
    ];
    assert_eq!(successful(CLAUDE), expected.join("\n"));
    let denied = successful(include_str!("streams/once-claude-denied.jsonl"));
    assert!(
        denied.ends_with("Completed messages 1 used 2000 40 8800 denied Bash: touch /t/ws/zz4"),
        "{denied}"
    );
}

#[test]
fn a_success_with_is_error_failed_whatever_the_exit_status() {
    let failed = successful(include_str!("streams/once-claude-err500.jsonl"));
    let error = "API Error: 500 fake error 500. This is a server-side issue, usually temporary — try again in a \
                 moment. If it persists, check your inference gateway (127.0.0.1:18080).";
    assert!(failed.ends_with(&format!("turn\nFailed ({error}) messages 0 used 0 0 0")), "{failed}");
    let limited = r#"{"type":"result","subtype":"success","is_error":true,"api_error_status":429,"result":"slow down"}"#;
    assert_eq!(
        after(&[limited], Exit::Code(0)),
        "session without a name\nturn\nLimited (slow down) messages 0 used 0 0 0"
    );
    let refused =
        r#"{"type":"result","subtype":"success","is_error":false,"stop_reason":"refusal","result":"no"}"#;
    assert!(after(&[refused], Exit::Code(0)).contains("Refused (no)"));
}

#[test]
fn streamed_usage_is_counted_at_once_and_only_once() {
    let delta = r#"{"type":"stream_event","event":{"type":"message_delta","usage":{"input_tokens":1000,"output_tokens":20}}}"#;
    let done = r#"{"type":"result","subtype":"success","is_error":false,"usage":{"input_tokens":2500,"output_tokens":40},"total_cost_usd":0.5}"#;
    let transcript = after(&[delta, delta, done], Exit::Code(0));
    let expected =
        "spent 1000 20 0\nspent 1000 20 0\nspent 500 0 500000\nCompleted messages 0 used 2500 40 500000";
    assert!(transcript.ends_with(expected), "{transcript}");
}

#[test]
fn a_result_does_not_end_the_turn_while_background_tasks_run() {
    let stream = include_str!("streams/once-claude-background.jsonl");
    let expected = [
        "session 2e9af7a9-f8c1-4591-94e2-80e9e816af7d",
        "turn",
        "tool",
        "tool done",
        "item: Bash: /t/hold 3",
        "item: bg",
        "spent 2000 40 8800",
        "tool",
        "tool done",
        "item: done.",
        "spent 1000 20 4400",
        "Completed messages 2 used 3000 60 13200",
    ];
    assert_eq!(successful(stream), expected.join("\n"));
    let cut = |lines: usize| stream.lines().take(lines).collect::<Vec<_>>().join("\n");
    // Without another round the exit decides; in the middle of a round it is a death.
    assert!(successful(&cut(10)).ends_with("Completed messages 1 used 2000 40 8800"));
    assert!(last_line(&transcript_of(&cut(10), Exit::Signal(9))).starts_with("AgentExit"));
    assert!(last_line(&successful(&cut(12))).starts_with("AgentExit"));
}

#[test]
fn gemini_run_with_a_streamed_message() {
    let expected = [
        "session 88148172-9c10-4ddc-a1cb-9da4fc2605ca",
        "turn",
        "tool",
        "tool done",
        "item: run_shell_command: echo one; exit 3",
        "spent 2468 112 0",
        "item: hello world",
        "Completed messages 1 used 2468 112 0",
    ];
    assert_eq!(successful(GEMINI), expected.join("\n"));
    let resumed = Start { resume: Some("earlier".to_owned()), ..start() };
    let transcript =
        transcript_from(resumed, include_str!("streams/once-gemini-resume.jsonl"), Exit::Code(0));
    assert!(
        transcript.starts_with("session aceb61ce-4e11-44b4-bbb6-79b107549f80 from earlier\nturn\n"),
        "{transcript}"
    );
    assert!(transcript.ends_with("item: resumed fine\nCompleted messages 1 used 1000 20 0"), "{transcript}");
}

#[test]
fn a_resumed_conversation_names_the_one_it_resumes() {
    for (stream, name) in [
        (include_str!("streams/once-codex-resume.jsonl"), "01a1dc72-17cf-7812-8bf9-970e516192f6"),
        (include_str!("streams/once-opencode-resume.jsonl"), "ses_e238d4576ffe4s45SRuEl2xuKI"),
    ] {
        let start = Start { resume: Some(name.to_owned()), ..start() };
        let transcript = transcript_from(start, stream, Exit::Code(0));
        assert!(transcript.starts_with(&format!("session {name} from {name}\nturn\n")), "{transcript}");
        assert!(
            transcript.contains("item: resumed fine\n")
                && transcript.contains("Completed messages 1 used 1000 20"),
            "{transcript}"
        );
    }
}

#[test]
fn a_gemini_run_with_an_error_does_not_complete() {
    let init = r#"{"type":"init","session_id":"s"}"#;
    let failed = r#"{"type":"result","status":"error","error":{"type":"Error","message":"the model is gone"},"stats":{}}"#;
    assert!(
        after(&[init, failed], Exit::Code(1)).ends_with("Failed (the model is gone) messages 0 used 0 0 0")
    );
    // The model was blocked, and gemini calls that a success.
    let blocked = r#"{"type":"error","severity":"error","message":"blocked"}"#;
    let mute = r#"{"type":"result","status":"error","stats":{}}"#;
    assert!(after(&[init, blocked, mute], Exit::Code(1)).ends_with("Failed (blocked) messages 0 used 0 0 0"));
    let warned = r#"{"type":"error","severity":"warning","message":"slow"}"#;
    let done = r#"{"type":"result","status":"success","stats":{}}"#;
    assert!(after(&[init, blocked, done], Exit::Code(0)).ends_with("Failed (blocked) messages 0 used 0 0 0"));
    assert!(after(&[init, warned, done], Exit::Code(0)).ends_with("Completed messages 0 used 0 0 0"));
}

#[test]
fn qwen_run_counted_by_its_messages() {
    let expected = [
        "session 30bdcbac-02a7-48e8-a553-5a20f6ecfca9",
        "turn",
        "tool",
        "spent 1234 56 0",
        "tool done",
        "item: run_shell_command: echo one; exit 3: failed",
        "item: hello world",
        "spent 1234 56 0",
        "Completed messages 1 used 2468 112 0",
    ];
    assert_eq!(successful(QWEN), expected.join("\n"));
    // The total at the end is the conversation's: more than this turn's if it was resumed.
    let stream = include_str!("streams/once-qwen-resume.jsonl");
    let resumed =
        transcript_from(Start { resume: Some("earlier".to_owned()), ..start() }, stream, Exit::Code(0));
    assert!(resumed.ends_with("Completed messages 1 used 1000 20 0"), "{resumed}");
    let whole = successful(stream);
    assert!(whole.ends_with("spent 3000 60 0\nCompleted messages 1 used 4000 80 0"), "{whole}");
}

#[test]
fn goose_run_named_by_its_banner() {
    let expected = [
        "session 20261114_4",
        "turn",
        "tool",
        "tool done",
        "item: shell: echo one; exit 3: exit 3",
        "spent 2468 112 5540",
        "item: hello world",
        "Completed messages 1 used 2468 112 5540",
    ];
    assert_eq!(successful(GOOSE), expected.join("\n"));
    let resumed = Start { resume: Some("20261114_12".to_owned()), ..start() };
    let transcript = transcript_from(resumed, include_str!("streams/once-goose-resume.jsonl"), Exit::Code(0));
    assert!(transcript.starts_with("session 20261114_12 from 20261114_12\nturn\n"), "{transcript}");
    assert!(
        transcript.ends_with("Completed messages 1 used 0 0 0"),
        "its total is the whole conversation's: {transcript}"
    );
    let mute = after(&[r#"{"type":"complete","input_tokens":5,"output_tokens":1}"#], Exit::Code(0));
    assert_eq!(mute, "session without a name\nturn\nspent 5 1 0\nCompleted messages 0 used 5 1 0");
}

#[test]
fn a_goose_run_with_an_error_message_failed_although_it_exits_with_zero() {
    let failed = successful(include_str!("streams/once-goose-err500.jsonl"));
    assert!(failed.contains("\nturn\nFailed (Ran into this error: Server error"), "{failed}");
    let resumed = Start { resume: Some("20261114_5".to_owned()), ..start() };
    let paid = r#"{"type":"complete","input_tokens":5,"output_tokens":1}"#;
    let stream = format!(
        "{}\n< {paid}",
        include_str!("streams/once-goose-err500.jsonl").lines().take(5).collect::<Vec<_>>().join("\n")
    );
    let failed = transcript_from(resumed, &stream, Exit::Code(0));
    assert!(failed.contains("\nFailed (Ran into"), "what was paid before is no sign of an answer: {failed}");
    // The same text from the model is an answer.
    let text = r#"{"type":"message","message":{"id":"m","role":"assistant","content":[{"type":"text","text":"Ran into this error: none"}],"metadata":{"inference":{"provider":"p"}}}}"#;
    let paid = r#"{"type":"complete","input_tokens":5,"output_tokens":1}"#;
    assert!(after(&[text, paid], Exit::Code(0)).ends_with("Completed messages 1 used 5 1 0"));
    let broken = r#"{"type":"error","error":"the stream broke"}"#;
    assert!(
        after(&[text, broken, paid], Exit::Code(0))
            .ends_with("Failed (the stream broke) messages 1 used 5 1 0")
    );
}

#[test]
fn parts_with_one_id_are_one_message() {
    let part = |name: &str, text: &str| {
        format!(
            r#"{{"type":"message","message":{{"id":"{name}","role":"assistant","content":[{{"type":"text","text":"{text}"}}]}}}}"#
        )
    };
    let lines = [part("a", "one "), part("a", "two"), part("b", "three")];
    let transcript = after(&lines.each_ref().map(String::as_str), Exit::Code(0));
    let expected = "session without a name\nturn\nitem: one two\nitem: three\nAgentExit";
    assert!(transcript.starts_with(expected), "{transcript}");
}

#[test]
fn copilot_run_named_by_its_result() {
    let expected = [
        "session without a name",
        "turn",
        "tool",
        "tool done",
        "item: bash: echo one; exit 3: exit 3",
        "item: hello world",
        "Completed messages 1 used 0 0 0",
    ];
    assert_eq!(successful(COPILOT), expected.join("\n"));
    let mut driver = Driver::new(Dialect::Once, start());
    driver.play(COPILOT);
    let resume = driver.signals.iter().find_map(|signal| match signal {
        Signal::TurnEnded { commit, .. } => commit.resume.clone(),
        _ => None,
    });
    assert_eq!(resume.as_deref(), Some("a23ae4d1-abeb-462d-9dcf-ebcb7fee9e46"));
    let failed = successful(include_str!("streams/once-copilot-err500.jsonl"));
    assert!(
        failed.contains("\nFailed (Failed to get response from the AI model; retried 5 times"),
        "{failed}"
    );
    let resumed = successful(include_str!("streams/once-copilot-resume.jsonl"));
    assert!(resumed.ends_with("turn\nitem: resumed fine\nCompleted messages 1 used 0 0 0"), "{resumed}");
}

#[test]
fn opencode_run_decided_by_its_exit_status_after_the_last_step() {
    let expected = [
        "session ses_e2392d4f3ffe8LeJDjhoKvxg1s",
        "turn",
        "item: bash: echo one; exit 3: exit 3",
        "spent 1234 56 646",
        "item: hello world",
        "spent 1234 56 646",
        "Completed messages 1 used 2468 112 1292",
    ];
    assert_eq!(successful(OPENCODE), expected.join("\n"));
    let expected =
        "Failed (the agent exited with status 1 after its last step) messages 1 used 2468 112 1292";
    assert!(transcript_of(OPENCODE, Exit::Code(1)).ends_with(expected));
    let killed = transcript_of(OPENCODE, Exit::Signal(9));
    assert!(last_line(&killed).starts_with("AgentExit (the agent was killed by signal 9"), "{killed}");
    let step = r#"{"type":"step_start","sessionID":"s","part":{}}"#;
    let last = r#"{"type":"step_finish","sessionID":"s","part":{"reason":"stop"}}"#;
    let error = r#"{"type":"error","sessionID":"s","error":{"name":"APIError","data":{"message":"500"}}}"#;
    assert!(after(&[step, last], Exit::Code(0)).ends_with("Completed messages 0 used 0 0 0"));
    let another = after(&[step, last, step], Exit::Code(0));
    assert!(another.starts_with("session s\nturn\nAgentExit"), "another step follows: {another}");
    assert!(after(&[step, error], Exit::Code(1)).ends_with("Failed (500) messages 0 used 0 0 0"));
    assert!(after(&[error, step, last], Exit::Code(0)).ends_with("Failed (500) messages 0 used 0 0 0"));
}

#[test]
fn a_truncated_stream_did_not_complete() {
    for stream in KILLED {
        for exit in [Exit::Signal(9), Exit::Code(0), Exit::Code(1)] {
            let transcript = transcript_of(stream, exit);
            assert!(transcript.starts_with("session ") && transcript.contains("\nturn"), "{transcript}");
            assert!(last_line(&transcript).starts_with("AgentExit"), "{transcript}");
        }
    }
    // The others too, without their last line and with any exit.
    for stream in WHOLE {
        let cut: Vec<&str> = stream.lines().collect();
        let transcript = successful(&cut[..cut.len() - 1].join("\n"));
        assert!(
            transcript.contains("\nturn") && last_line(&transcript).starts_with("AgentExit"),
            "{transcript}"
        );
    }
    assert!(successful("").contains("before it opened a session"));
}

#[test]
fn a_turn_ends_once_and_later_lines_change_nothing() {
    for stream in WHOLE {
        let (once, twice) = (successful(stream), successful(&format!("{stream}{stream}")));
        // Where the exit ends the turn, steps may follow the last one; it is still one turn.
        assert!(stream == OPENCODE || twice == once, "{twice}");
        for transcript in [once, twice] {
            let counted = (transcript.matches("\nturn\n").count(), transcript.matches(" messages ").count());
            assert_eq!(counted, (1, 1), "{transcript}");
        }
    }
    let mut driver = Driver::new(Dialect::Once, start());
    assert!(driver.dialogue.is_busy(), "it had its prompt before its first line");
    driver.play(CODEX);
    assert!(!driver.dialogue.is_busy());
}

#[test]
fn lines_in_another_format_are_ignored() {
    let first = CODEX.lines().next().unwrap_or_default();
    for stream in [CLAUDE, GEMINI, GOOSE, OPENCODE, COPILOT] {
        let transcript = successful(&format!("{first}\n{stream}"));
        let expected = "session 01a1dc6b-e007-7ec0-899f-db87d23cbdd3\nturn\nAgentExit";
        assert!(transcript.starts_with(expected), "{transcript}");
    }
}

#[test]
fn unknown_lines_are_ignored() {
    let strange = [
        "",
        "{",
        "null",
        "[]",
        "7",
        r#"{"type":7}"#,
        r#"{"type":"result"}"#,
        r#"{"type":"zebra"}"#,
        "\u{0}banner",
    ];
    let nothing = r#"Unopened { error: "the agent exited with status 0 before it opened a session" }"#;
    assert!(after(&strange, Exit::Code(0)).starts_with(nothing));
    let lines: Vec<String> = strange.iter().flat_map(|line| [format!("< {line}")]).collect();
    let between: Vec<String> = CODEX.lines().flat_map(|line| [line.to_owned(), lines.join("\n")]).collect();
    assert_eq!(successful(&between.join("\n")), successful(CODEX));
    let long = format!(
        r#"< {{"type":"item.completed","item":{{"type":"agent_message","text":"{}"}}}}"#,
        "x".repeat(5 << 20)
    );
    assert!(successful(&format!("{long}\n{CODEX}")).contains(&format!("item: {}\n", "x".repeat(200))));
}

#[test]
fn nothing_is_written_to_a_one_shot_agent() {
    let mut driver = Driver::new(Dialect::Once, start());
    let inputs = [input(1, "more")];
    let goals = Goals { inputs: &inputs, interrupt: true, stop: true };
    assert_eq!(driver.write_next(&goals), None);
    driver.play(CODEX);
    assert_eq!(driver.write_next(&goals), None);
}

#[test]
fn user_prices_apply_if_the_agent_reports_no_cost() {
    let prices = Prices { tokens_in: 1_000_000, cached: 0, tokens_out: 2_000_000, ..Prices::default() };
    let priced = Start { prices: Some(prices), ..start() };
    let codex = transcript_from(priced.clone(), CODEX, Exit::Code(0));
    assert!(codex.ends_with("used 2468 112 1292"), "{codex}");
    let claude = transcript_from(priced, CLAUDE, Exit::Code(0));
    assert!(claude.ends_with("used 3868 112 12392"), "{claude}");
}

#[test]
fn a_dialogue_restored_at_any_line_continues_alike() {
    let failed =
        [include_str!("streams/once-goose-err500.jsonl"), include_str!("streams/once-claude-err500.jsonl")];
    for stream in WHOLE.iter().chain(&KILLED).chain(&failed) {
        let lines: Vec<String> =
            stream.lines().map(|line| format!("{}\n", line.strip_prefix("< ").unwrap_or_default())).collect();
        let all = heard(&mut Driver::new(Dialect::Once, start()).dialogue, &lines);
        for cut in 0..=lines.len() {
            let mut first = Driver::new(Dialect::Once, start()).dialogue;
            let before: Vec<Heard> =
                lines[..cut].iter().flat_map(|line| first.read(line.as_bytes())).collect();
            let mut second = Dialogue::restored(start(), &first.store()).unwrap();
            let after = heard(&mut second, &lines[cut..]);
            assert_eq!([before, after].concat(), all, "cut at {cut}");
        }
        let offsets: Vec<u64> = all.iter().map(|heard| heard.offset).collect();
        assert!(offsets.is_sorted_by(|one, next| one < next), "{offsets:?}");
    }
}

/// Returns the signals of these lines and of a successful exit.
fn heard(dialogue: &mut Dialogue, lines: &[String]) -> Vec<Heard> {
    let mut heard: Vec<Heard> = lines.iter().flat_map(|line| dialogue.read(line.as_bytes())).collect();
    heard.extend(dialogue.exited(Exit::Code(0), ""));
    let again = dialogue.exited(Exit::Code(0), "");
    assert!(again.is_empty(), "{:?}", again.iter().map(|heard| line_of(&heard.signal)).collect::<Vec<_>>());
    assert!(heard.iter().filter(|heard| matches!(heard.signal, Signal::TurnEnded { .. })).count() <= 1);
    heard
}
