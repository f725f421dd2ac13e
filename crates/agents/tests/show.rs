//! What people see of recorded streams: each message once, streamed or whole.

use lastword_agents::{Show, Shown};
use lastword_core::spec::Dialect;

/// Returns what a stream shows, with parts joined, and tools and notes marked.
fn shown(dialect: Dialect, stream: &str) -> String {
    let mut show = Show::new(dialect);
    let lines = stream.lines().filter_map(|line| line.strip_prefix("< "));
    let shown = lines.flat_map(|line| show.line(line.as_bytes()));
    let shown = shown.map(|shown| match shown {
        Shown::Text(text) => text,
        Shown::Break => "\n".to_owned(),
        Shown::Tool(tool) => format!("$ {tool}\n"),
        Shown::Output(output) => format!("| {}\n", output.trim_end().replace('\n', "\n| ")),
        Shown::Note(note) => format!("! {note}\n"),
    });
    shown.collect()
}

#[test]
fn codex_session() {
    let shown = shown(Dialect::Codex, include_str!("streams/codex-app-server.jsonl"));
    let expected =
        "thought.\n$ echo one; echo two >&2; exit 3\n| one\n| two\ntick1 tick2 tick3 tick4 \n$ sleep 300\n";
    assert_eq!(&shown[..expected.len()], expected);
    assert!(shown.contains("! exceeded retry limit, last status: 429 Too Many Requests\n"), "{shown}");
    assert!(shown.ends_with("$ touch /t/ws/zz\nk\n"), "{shown}");
}

#[test]
fn claude_session_streamed_or_whole_but_never_twice() {
    let stream = include_str!("streams/claude-turns.txt");
    let parts = shown(Dialect::Claude, stream);
    assert!(
        parts.starts_with("thought.\n$ Bash: echo one; echo two >&2; exit 3\n| Exit code 3\n| one\n| two\n"),
        "{parts}"
    );
    let whole: String = stream
        .lines()
        .filter(|line| !line.contains("stream_event"))
        .map(|line| format!("{line}\n"))
        .collect();
    let whole = shown(Dialect::Claude, &whole);
    assert_eq!(whole.matches("thought.").count(), 1, "{whole}");
    assert_eq!(parts.matches("thought.").count(), 1, "{parts}");
}

#[test]
fn acp_session_without_its_history() {
    let goose = shown(Dialect::Acp, include_str!("streams/goose-acp-permission.jsonl"));
    assert_eq!(goose, "$ shell · touch /t/ws/perm1\n| (no output)\nfin\n$ shell · rm -rf /t/ws/perm2x\n");
    let loaded = shown(Dialect::Acp, include_str!("streams/opencode-acp-load.jsonl"));
    assert_eq!(loaded, "loaded fine\n");
    let failed = shown(Dialect::Acp, include_str!("streams/codex-acp-zed.jsonl"));
    assert!(failed.ends_with(
        "! Internal error: We're currently experiencing high demand, which may cause temporary errors.\n"
    ));
}

#[test]
fn one_shot_runs_in_every_format() {
    let codex = shown(Dialect::Once, include_str!("streams/once-codex.jsonl"));
    assert!(codex.ends_with("$ echo one; exit 3\n| one\nhello world\n"), "{codex}");
    let claude = shown(Dialect::Once, include_str!("streams/once-claude.jsonl"));
    assert_eq!(claude, "$ Bash: echo one; exit 3\n| Exit code 3\n| one\nhello world\n");
    let gemini = shown(Dialect::Once, include_str!("streams/once-gemini.jsonl"));
    assert_eq!(gemini, "$ run_shell_command: echo one; exit 3\n| one\nhello world");
    let goose = shown(Dialect::Once, include_str!("streams/once-goose.jsonl"));
    assert_eq!(goose, "$ shell: echo one; exit 3\n| one\n| \n| Command exited with code 3\nhello world");
    let opencode = shown(Dialect::Once, include_str!("streams/once-opencode.jsonl"));
    assert_eq!(opencode, "$ bash: echo one; exit 3\n| one\nhello world\n");
    let failed = shown(Dialect::Once, include_str!("streams/once-claude-err500.jsonl"));
    assert!(failed.starts_with("! API Error: 500 fake error 500."), "{failed}");
}

#[test]
fn plain_output_is_shown_verbatim() {
    assert_eq!(Show::new(Dialect::Plain).line(b"{\"a\":1}"), [Shown::Output("{\"a\":1}\n".to_owned())]);
}
