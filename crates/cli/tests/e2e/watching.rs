//! Watching an agent: messages typed beside it, and the transcript with messages and turns.

use crate::agents::{DISCARDED, answers, define, endings, start, until_asks, with_agent};
use crate::home::{Home, until};
use crate::terminal::{Screen, shown_at_terminal};

#[test]
fn a_message_is_typed_where_the_agent_is_watched() {
    let home = with_agent();
    let mut screen = Screen::start(&home, (24, 80), &["run", "--name", "typed", "--agent", "echo", "wait"]);
    screen.until_shown("type a message for echo and press Enter; Ctrl-C detaches");
    // An empty line is no message.
    screen.write("\nand say hello\n");
    screen.until_shown("message 1 queued for typed");
    // The end of the input ends no job and is no message.
    screen.write("\x04");
    screen.until_shown("`lastword send typed TEXT` sends a message from elsewhere");
    home.until_phase_of_name("typed", "running");
    until("it works", || (home.json(&["show", "typed"])["session"]["active_turn"] == 1).then_some(()));
    home.ok(&["interrupt", "typed"]);
    let shown = screen.end();
    assert!(shown.contains("did: and say hello"), "{shown}");
    assert_eq!(endings(&home.json(&["show", "typed"])), ["interrupted", "completed"]);
}

#[test]
fn what_is_typed_at_a_question_that_is_answered_elsewhere_is_no_message() {
    let home = with_agent();
    let id = start(&home, &["--name", "asker", "ask make test\nwait"]);
    let mut screen = Screen::start(&home, (24, 80), &["attach", "asker"]);
    screen.until_shown("deny and say why");
    screen.write("n not thi");
    screen.until_shown("n not thi");
    answers(&home, "approve", &id, &[]);
    screen.until_shown("(this is no longer asked)");
    screen.until_shown(&format!("{DISCARDED}: n not thi)"));
    // The rest of that line is no message either, and a yes is none at any time.
    screen.write("s one\n");
    screen.until_shown(&format!("{DISCARDED}: s one)"));
    screen.write("y\n");
    screen.until_shown("(nothing is asked now, so `y` was not sent; `lastword send asker y` sends it)");
    screen.write("and another one\n");
    screen.until_shown("message 2 queued for asker");
    home.ok(&["interrupt", "asker"]);
    let shown = screen.end();
    assert!(shown.contains("did: and another one"), "{shown}");
}

#[test]
fn c88_a_line_that_began_before_the_question_was_shown_does_not_answer_it() {
    let home = with_agent();
    let gate = home.start("until [ -e go ]; do sleep 0.05; done");
    let words = ["run", "--name", "half", "--after", &gate, "--agent", "echo", "--", "ask make"];
    let mut screen = Screen::start(&home, (24, 80), &words);
    screen.until_shown("type a message for echo");
    screen.write("make it prett");
    screen.until_shown("make it prett");
    std::fs::write(home.work().join("go"), "").unwrap();
    screen.until_shown(&format!("{DISCARDED}: make it prett)"));
    screen.until_shown("[y] allow");
    // The end of the word would be a yes.
    screen.write("y\n");
    screen.until_shown(&format!("{DISCARDED}: y)"));
    let events = home.ok(&["events", "half"]);
    assert!(!events.contains("answer_requested") && !events.contains("input_requested"), "{events}");
    screen.write("y\n");
    let shown = screen.end();
    assert!(shown.contains("ask-0 allow_once"), "{shown}");
}

/// Returns a transcript without times.
fn timeless(transcript: &str) -> String {
    let line = |line: &str| match line.split_once(" after ") {
        Some((turn, rest)) if turn.starts_with("--- turn") => {
            let after = rest.find([':', ';', ' ']).map_or("", |at| &rest[at..]);
            format!("{turn}{after}\n")
        }
        _ => format!("{line}\n"),
    };
    transcript.lines().map(line).collect()
}

#[test]
fn the_transcript_has_the_messages_and_the_borders_of_turns() {
    let home = with_agent();
    let id = start(&home, &["--name", "talk", "wait\nand listen"]);
    let following = home.spawn(&["logs", "-f", "talk"]);
    following.until_printed("< and listen\n");
    home.ok(&["send", "talk", "ask make test\n"]);
    home.ok(&["interrupt", "talk"]);
    // What the agent says next waits for this answer, and so for the line that is seen here.
    following.until_printed("< ask make test\n");
    until_asks(&home, &id, 1);
    home.ok(&["send", "talk", "fail out of luck"]);
    answers(&home, "approve", &id, &[]);
    home.run(&["wait", "talk"]);
    let followed = following.end().stdout;
    let expected = "--- turn 1 ---\n< wait\n< and listen\n--- turn 1: interrupted ---\n\
                    --- turn 2 ---\n< ask make test\nask-0 allow_once\ndid: ask make test\n\n\n--- turn 2: completed ---\n\
                    --- turn 3 ---\n< fail out of luck\n! out of luck\n--- turn 3: failed: out of luck ---\n";
    assert_eq!(timeless(&home.ok(&["logs", "talk"])), expected);
    // The agent is faster than a model: what it says in its third turn may be there before the log has its beginning.
    let (second, _) = expected.split_once("ask-0").unwrap();
    assert!(timeless(&followed).starts_with(second), "{followed}");
    let marks = |text: &str| {
        timeless(text).lines().filter(|line| line.starts_with(['-', '<'])).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(marks(&followed), marks(expected));
    assert!(!home.ok(&["logs", "--raw", "talk"]).contains("--- turn"), "raw is as it was written");
    let last = home.ok(&["logs", "-n", "1", "talk"]);
    assert_eq!(timeless(&last), expected[expected.find("--- turn 2: c").unwrap()..]);
}

#[test]
fn a_message_cannot_control_the_terminal_that_shows_it() {
    let home = with_agent();
    start(&home, &["--name", "hostile", "\u{1b}]0;mine\u{7}\u{1b}[2Jhello"]);
    home.ok(&["wait", "hostile"]);
    let shown = shown_at_terminal(&home, &["logs", "hostile"], &[]);
    assert!(shown.contains("< ␛]0;mine␇␛[2Jhello\n"), "{shown:?}");
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
}

#[test]
fn each_attempt_has_its_own_messages_and_a_dead_agent_ends_its_turn() {
    let home = with_agent();
    let id = start(&home, &["--name", "dies", "--retry", "1", "--backoff", "1ms", "die"]);
    home.run(&["wait", &id]);
    for attempt in ["1", "2"] {
        let log = timeless(&home.ok(&["logs", "--attempt", attempt, "dies"]));
        let (begin, end) = log.split_once("< die\n").unwrap();
        assert_eq!(begin, format!("--- turn {attempt} ---\n"));
        assert!(end.starts_with(&format!("--- turn {attempt}: the agent exited during the turn")), "{log}");
    }
}

#[test]
fn the_end_of_a_turn_says_what_it_used() {
    let home = Home::new();
    let script = r#"printf '%s\n' '{"type":"system","subtype":"init","session_id":"s1"}' '{"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":"done"}],"usage":{"input_tokens":12,"output_tokens":3}},"session_id":"s1"}' '{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"s1","total_cost_usd":0.02,"usage":{"input_tokens":12,"output_tokens":3}}'"#;
    let file = home.path().join("agent.sh");
    std::fs::write(&file, script).unwrap();
    define(
        &home,
        &format!("[spends]\ndialect = 'once'\ncommand = ['sh', '{}', '{{prompt}}']\n", file.display()),
    );
    assert_eq!(home.run(&["run", "--agent", "spends", "do it"]).stdout, "done\n");
    let output = home.run(&["logs", "@last"]);
    let log = timeless(&output.stdout);
    assert!(log.ends_with("--- turn 1: completed; 12 tokens read, 3 written, $0.02 ---\n"), "{output:?}");
    assert!(log.starts_with("--- turn 1 ---\n< do it\ndone\n"), "{output:?}");
}
