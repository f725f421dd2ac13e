//! Coding agents: started, shown and talked to. The agents are scripts of these tests, defined in the user's `agents.toml`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use serde_json::json;

use crate::executable::lastword;
use crate::home::{Home, Output, until};
use crate::plain::plain;
use crate::terminal::{Screen, at_terminal, until_shown};

/// Writes `agents.toml`.
pub(crate) fn define(home: &Home, text: &str) {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(home.state()).unwrap();
    std::fs::write(home.state().join("agents.toml"), text).unwrap();
}

/// Runs a command with the given standard input.
pub(crate) fn with_input(home: &Home, words: &[&str], input: &str) -> Output {
    let mut command = home.command(words);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    crate::home::of_output(child.wait_with_output().unwrap())
}

/// Arguments of a job that is only recorded, because it waits.
const LATER: [&str; 4] = ["run", "-d", "--delay", "1h"];

#[test]
fn an_agent_is_requested_by_name_with_permissions_and_limits() {
    let home = Home::new();
    let words = "--agent claude --permissions deny --allow Read* --allow Bash:* --deny *push* --ask-expires 5m \
                 --turns 3 --tokens 9000 --money 1.50 fix the flaky test";
    let words: Vec<&str> = LATER.into_iter().chain(words.split_whitespace()).collect();
    let id = home.ok(&words);
    let job = home.json(&["show", &id]);
    let rule = |pattern: &str, permission: &str| json!({ "pattern": pattern, "permission": permission });
    let expected = json!({
        "provider": "claude",
        "dialect": "claude",
        "prompt": "fix the flaky test",
        "permissions": {
            "rules": [rule("*push*", "deny"), rule("Read*", "allow"), rule("Bash:*", "allow")],
            "otherwise": "deny",
            "expires_ms": 300_000,
        },
    });
    assert_eq!((&job["agent"], &job["argv"]), (&expected, &json!([])));
    assert_eq!(job["title"], "claude: fix the flaky test");
    let limits = &job["limits"];
    let asked = (&limits["turns"], &limits["tokens"], &limits["money_micros"]);
    assert_eq!(asked, (&json!(3), &json!(9000), &json!(1_500_000)));
    let rules =
        "deny `*push*`, allow `Read*`, allow `Bash:*`, otherwise deny, deny what is not answered within 5m";
    let shown = home.ok(&["show", &id]);
    assert!(shown.contains(&format!("  rules     {rules}\n")), "{shown}");
}

#[test]
fn how_an_agent_is_run_is_shown() {
    let home = Home::new();
    let shown = |words: &[&str]| {
        let id = home.ok(&[&LATER[..], &["--agent", "claude"], words, &["x"]].concat());
        home.ok(&["show", &id])
    };
    let all = shown(&["--model", "opus\u{1b}[2J", "--effort", "high", "--permissions", "allow"]);
    for line in ["  model     opus␛[2J\n", "  effort    high\n", "  rules     allow everything\n"] {
        assert!(all.contains(line), "{line}: {all}");
    }
    let default = shown(&[]);
    for name in ["  model ", "  effort ", "  rules "] {
        assert!(!default.contains(name), "{name}: {default}");
    }
}

#[test]
fn a_prompt_can_come_from_standard_input() {
    let home = Home::new();
    for dash in [&[][..], &["-"]] {
        let words: Vec<&str> = LATER.iter().chain(&["--agent", "codex"]).chain(dash).copied().collect();
        let output = with_input(&home, &words, "fix it\nand test it\n");
        assert_eq!(output.code, 0, "{output:?}");
        let job = home.json(&["show", output.stdout.trim_end()]);
        assert_eq!(job["agent"]["prompt"], "fix it\nand test it\n");
        assert_eq!(with_input(&home, &words, " \n").code, 2);
    }
}

#[test]
fn an_unknown_agent_is_answered_with_the_known_ones() {
    let home = Home::new();
    define(&home, "[mine]\ndialect = 'acp'\ncommand = ['mine']\n");
    let output = home.run(&["run", "--agent", "cluade", "do it"]);
    assert_eq!(output.code, 2, "{output:?}");
    let lines: Vec<&str> = output.stderr.lines().collect();
    assert!(
        lines[0].contains("unknown agent `cluade`; the agents are claude, claude-print, codex"),
        "{output:?}"
    );
    assert!(lines[0].contains("mine") && lines[1].contains("did you mean `claude`?"), "{output:?}");
    assert_eq!(home.ok(&["ls", "-a", "-q"]), "", "nothing was started");
    define(&home, "[mine]\ndialect = 'klingon'\ncommand = ['mine']\n");
    let output = home.run(&["run", "--agent", "claude", "do it"]);
    assert!(output.code == 2 && output.stderr.contains("agents.toml"), "{output:?}");
    assert!(output.stderr.contains("klingon"), "{output:?}");
}

/// Returns a home with an agent `echo`, which does what its prompt says.
pub(crate) fn with_agent() -> Home {
    let home = Home::new();
    define_agent(&home);
    home
}

/// Lets a home know the agent `echo`.
pub(crate) fn define_agent(home: &Home) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/scripted_agent.py");
    let known =
        format!("[echo]\ndialect = 'acp'\ncommand = ['python3', '{script}']\nversion = ['--version']\n");
    define(home, &known);
}

/// Starts the agent and returns its job.
pub(crate) fn start(home: &Home, words: &[&str]) -> String {
    home.ok(&[&["run", "-d", "--agent", "echo"], words].concat())
}

/// Waits until the agent has asked `count` questions, and returns them.
pub(crate) fn until_asks(home: &Home, id: &str, count: usize) -> Vec<serde_json::Value> {
    until("the agent asks", || {
        let job = home.json(&["show", id]);
        let asked = job["session"]["questions"].as_array().cloned().unwrap_or_default();
        assert_ne!(job["phase"], "ended", "{job}");
        (asked.len() == count).then_some(asked)
    })
}

/// Answers the oldest open question of a job.
pub(crate) fn answers(home: &Home, verb: &str, id: &str, words: &[&str]) {
    let job = home.json(&["show", id]);
    let question = job["session"]["questions"][0]["id"].as_str().expect("it asks").to_owned();
    home.ok(&[&[verb, id, &question], words].concat());
}

/// Returns how the turns of a job ended.
pub(crate) fn endings(job: &serde_json::Value) -> Vec<&str> {
    let turns = job["session"]["turns"].as_array().unwrap();
    turns.iter().map(|turn| turn["ending"].as_str().unwrap_or("-")).collect()
}

#[test]
fn a_long_streamed_message_is_the_whole_result_or_its_end_with_what_was_left_out() {
    let home = with_agent();
    home.ok(&["run", "--agent", "echo", "long 500"]);
    let result = home.json(&["result", "@last"]);
    assert_eq!(result["text"].as_str().map(str::len), Some(500_000 + "did: long 500\n".len()));
    assert_eq!(result["text_skipped"], 0);
    assert!(home.ok(&["show", "@last"]).contains("did: long 500"));
    home.ok(&["run", "--agent", "echo", "long 5000"]);
    let result = home.json(&["result", "@last"]);
    let text = result["text"].as_str().unwrap();
    assert!(text.len() > 3_000_000 && text.ends_with("did: long 5000\n"), "{}", text.len());
    let before = home.json(&["show", "@last"])["attempts"][0]["receipt"]["output"]["seen"].as_u64().unwrap();
    assert_eq!(result["text_skipped"].as_u64(), Some(before - (4 << 20)));
}

#[test]
fn a_completed_turn_ends_the_job_and_its_conversation_can_be_resumed() {
    let home = with_agent();
    let output = home.run(&["run", "--agent", "echo", "--name", "first", "hello"]);
    assert_eq!(output.code, 0, "{output:?}");
    assert_eq!(output.stdout, "did: hello\n\n", "a program reads the words of the agent");
    let log = home.ok(&["logs", "first"]);
    let (begin, end) = log.split_once(": completed after ").unwrap();
    assert_eq!(begin, "--- turn 1 ---\n< hello\ndid: hello\n\n--- turn 1");
    assert!(end.ends_with(" ---"), "{log}");
    assert_eq!(home.ok(&["result", "first"]), "did: hello");
    let job = home.json(&["show", "first"]);
    assert_eq!((&job["outcome"], endings(&job)), (&json!("completed"), vec!["completed"]));
    assert_eq!(job["session"]["resume_reference"], "conversation-1");
    let id = home.ok(&["resume", "-d", "first", "and", "again"]);
    home.ok(&["wait", &id]);
    let next = home.json(&["show", &id]);
    assert_eq!((&next["agent"]["prompt"], &next["retry_of"]), (&json!("and again"), &json!(null)));
    assert_eq!(next["session"]["resumed_from"], "conversation-1");
    assert_eq!((&next["outcome"], endings(&next)), (&json!("completed"), vec!["completed"]));
}

#[test]
fn an_agent_that_would_lose_its_conversation_is_not_resumed() {
    let home = with_agent();
    let own = std::fs::read_to_string(home.state().join("agents.toml")).unwrap();
    // The built-in agent gemini, with a program that counts its starts.
    let (bin, starts) = (home.programs(), home.path().join("starts"));
    std::fs::create_dir(&bin).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/scripted_agent.py");
    let text = format!("#!/bin/sh\necho >> {}\nexec python3 {script}\n", starts.display());
    std::fs::write(bin.join("gemini"), text).unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(bin.join("gemini"), executable).unwrap();
    let output = home.run(&["run", "--agent", "gemini", "--name", "first", "hello"]);
    assert_eq!(output.code, 0, "{output:?}");
    for fork in [&[][..], &["--fork"]] {
        let output = home.run(&[&["resume"], fork, &["first", "again"]].concat());
        assert_eq!(output.code, 125, "{output:?}");
        let short = home.json(&["show", "first"])["short"].as_str().unwrap().to_owned();
        let why = "cannot be resumed: `gemini` would lose its conversation (its `session/load` fails";
        assert!(output.stderr.contains(&format!("first ({short}) {why}")), "{output:?}");
        assert!(output.stderr.contains("Start a new one with `run --agent gemini`"), "{output:?}");
    }
    assert_eq!(home.ok(&["ls", "-a", "-q"]).lines().count(), 1, "no job was created");
    assert_eq!(std::fs::read_to_string(&starts).unwrap().lines().count(), 1, "and nothing was started");
    // A definition of the user overrides it.
    define(&home, &own.replace("[echo]", "[gemini]"));
    let output = home.run(&["resume", "first", "again"]);
    assert!(output.code == 0 && output.stdout == "did: again\n\n", "{output:?}");
}

#[test]
fn a_later_attempt_does_not_resume_what_its_agent_would_lose() {
    let home = with_agent();
    let own = std::fs::read_to_string(home.state().join("agents.toml")).unwrap();
    for (no_resume, loads) in [("", true), ("no_resume = 'it forgets'\n", false)] {
        define(&home, &format!("{own}{no_resume}"));
        let id = start(&home, &["--retry", "1", "--backoff", "1ms", "ask make test"]);
        until_asks(&home, &id, 1);
        home.ok(&["send", &id, "die"]);
        answers(&home, "approve", &id, &[]);
        let begun = until("attempt 2 asks or ends", || {
            let job = home.json(&["show", &id]);
            let asks = !job["session"]["questions"].as_array().unwrap().is_empty();
            let second = job["attempts"].as_array().unwrap().len() == 2;
            (second && (asks || job["phase"] == "ended")).then_some(job)
        });
        if begun["phase"] != "ended" {
            answers(&home, "approve", &id, &[]);
        }
        home.run(&["wait", &id]);
        let job = home.json(&["show", &id]);
        assert_eq!(job["outcome"] == "completed", loads, "{job}");
        let logs = home.run(&["logs", "--stderr", "--attempt", "2", &id]);
        assert_eq!(logs.stderr.contains("loads conversation-1"), loads, "{logs:?}");
        let error = job["attempts"][1]["error"].as_str().unwrap_or_default();
        assert_eq!(error.contains("its conversation cannot be resumed: it forgets"), !loads, "{job}");
    }
}

#[test]
fn a_failed_agent_is_reported_as_failed_whatever_its_exit_code() {
    let home = with_agent();
    let output = home.run(&["run", "--agent", "echo", "fail out of luck"]);
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.stderr.contains("failed") && output.stderr.contains("out of luck"), "{output:?}");
    let shown = home.ok(&["show", "@last"]);
    assert!(shown.contains("its turn did not complete") && !shown.contains("reached"), "{shown}");
    // There is no completed turn to continue after, so the conversation goes on in a new session.
    let output = home.run(&["resume", "@last", "again"]);
    assert_eq!((output.code, output.stdout.as_str()), (0, "did: again\n\n"), "{output:?}");
    assert_eq!(home.json(&["show", "@last"])["session"]["resumed_from"], json!(null));
    home.ok(&["run", "true"]);
    let output = home.run(&["resume", "@last", "again"]);
    assert!(output.code == 125 && output.stderr.contains("it runs a command, not an agent"), "{output:?}");
}

#[test]
fn questions_of_an_agent_are_shown_and_answered() {
    let home = with_agent();
    let id = start(&home, &["--name", "asker", "ask make test\nask make clean"]);
    let asked = until_asks(&home, &id, 2);
    let texts: Vec<&str> = asked.iter().filter_map(|question| question["text"].as_str()).collect();
    assert_eq!(texts, ["execute: make test", "execute: make clean"]);
    assert!(home.ok(&["ls"]).contains(" needs input "), "{}", home.ok(&["ls"]));
    insta::assert_snapshot!("show_asks", plain(&home, &home.ok(&["show", "asker"])));
    // The name of a question is what shows that it was seen: its number or the agent's own id is not enough.
    let output = home.run(&["approve", "asker"]);
    assert!(output.code == 2 && output.stderr.contains("lastword question asker"), "{output:?}");
    let name = |at: usize| asked[at]["id"].as_str().unwrap();
    for guess in ["ask-0", "q1", "q1-0000", name(1).trim_start_matches("q2-")] {
        let output = home.run(&["approve", "asker", guess]);
        assert!(output.code == 125 && output.stderr.contains("no open question of that name"), "{output:?}");
        assert!(output.stderr.contains("lastword question asker"), "{output:?}");
    }
    let whole = home.ok(&["question", "asker"]);
    assert!(
        whole.contains("│ make test\n") && whole.contains(&format!("approve asker {}", name(0))),
        "{whole}"
    );
    let output = home.run(&["answer", "asker", name(0), "allow"]);
    assert!(output.code == 125 && output.stderr.contains("asked for a permission"), "{output:?}");
    home.ok(&["approve", "asker", name(0)]);
    until_asks(&home, &id, 1);
    let output = home.run(&["approve", "asker", name(0)]);
    assert!(output.code == 125, "each question takes one answer: {output:?}");
    home.ok(&["deny", "asker", name(1), "not", "now"]);
    home.ok(&["wait", &id]);
    let log = home.ok(&["logs", &id]);
    assert!(log.contains("ask-0 allow_once") && log.contains("ask-1 reject_once"), "{log}");
    let job = home.json(&["show", &id]);
    assert_eq!(job["session"]["denials"], json!(["execute: make clean"]));
    assert_eq!(home.run(&["deny", "asker", name(1)]).code, 125, "it has ended");
}

#[test]
fn rules_answer_questions_and_an_unanswered_question_is_denied() {
    let home = with_agent();
    let prompt = "ask make test\nask git push\nask rm x";
    let rules = ["--allow", "execute: *", "--deny", "*push*", "--ask-expires", "200ms"];
    let id = start(&home, &[&rules[..], &[prompt]].concat());
    home.ok(&["wait", &id]);
    let log = home.ok(&["logs", &id]);
    for answered in ["ask-0 allow_once", "ask-1 reject_once", "ask-2 allow_once"] {
        assert!(log.contains(answered), "{answered}: {log}");
    }
    let id = start(&home, &["--ask-expires", "10m", "ask make test"]);
    until_asks(&home, &id, 1);
    let shown = home.ok(&["question", &id]);
    assert!(shown.contains("# denied if not answered within"), "{shown}");
    home.ok(&["cancel", &id]);
    let id = start(&home, &["--ask-expires", "200ms", "ask make test"]);
    home.ok(&["wait", &id]);
    assert!(home.ok(&["logs", &id]).contains("ask-0 reject_once"));
    let events = home.ok(&["events", &id, "--json"]);
    assert!(events.contains("from `nobody`: `deny not answered in time`"), "{events}");
}

#[test]
fn questions_are_shown_to_users_who_follow_the_job() {
    let home = with_agent();
    let asking = ["run", "--name", "asker", "--agent", "echo", "ask make test"];
    let mut command = home.command(&asking);
    let mut attached = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut told, mut stderr) = (String::new(), BufReader::new(attached.stderr.take().unwrap()));
    // Once it is answered it is asked no more, so it is shown first.
    while !told.contains("lastword approve asker q1-") {
        assert!(stderr.read_line(&mut told).unwrap() > 0, "{told}");
    }
    assert!(told.contains("│ make test"), "{told}");
    until_asks(&home, "asker", 1);
    // A user who attaches later sees the question, too, and answers in place.
    let mut late = at_terminal(&home, &["attach", "asker"]);
    let mut typed = late.stdin.take().unwrap();
    let shown = until_shown(&mut late, "[y] allow");
    assert!(shown.contains("echo:") && shown.contains("make test"), "{shown}");
    typed.write_all(b"y\n").unwrap();
    assert!(late.wait().unwrap().success());
    let output = crate::home::of_output(attached.wait_with_output().unwrap());
    assert_eq!(output.code, 0, "{output:?}");
    assert_eq!(endings(&home.json(&["show", "asker"])), ["completed"]);
    assert!(home.ok(&["logs", "asker"]).contains("ask-0 allow_once"), "{}", home.ok(&["logs", "asker"]));
}

#[test]
fn what_is_typed_before_a_question_is_shown_does_not_answer_it() {
    let home = with_agent();
    let go = home.path().join("go");
    let gate = home.start(&format!("until [ -e {} ]; do sleep 0.01; done", go.display()));
    let id = start(&home, &["--name", "asker", "--after", &gate, "ask make test\nask make clean"]);
    let mut screen = Screen::start(&home, (24, 80), &["attach", "asker"]);
    screen.until_shown("type a message for echo and press Enter; Ctrl-C detaches");
    // Nothing is asked yet, so whole lines are messages, but for a yes. The end of the last one is never typed.
    screen.write("go on\ny\nplease\nand then");
    screen.until_shown("message 2 queued for asker");
    std::fs::write(&go, "").unwrap();
    screen.until_shown("[y] allow");
    let shown = screen.so_far();
    assert!(shown.contains("make test") && shown.contains(&format!("{DISCARDED}: and then)")), "{shown}");
    assert_eq!(shown.matches("make clean").count(), 1, "in the prompt; one question at a time: {shown}");
    until_asks(&home, &id, 2);
    // The rest of that line, and what is typed behind it, answers nothing either.
    screen.write("n\ny\n");
    screen.until_shown(&format!("{DISCARDED}: n␊y)"));
    until("it is said again", || (screen.so_far().matches("[y] allow").count() == 2).then_some(()));
    until_asks(&home, &id, 2);
    // Two lines at once: the second is there before the second question is shown.
    screen.write("n\ny\n");
    until("the second is shown", || (screen.so_far().matches("make clean").count() == 2).then_some(()));
    screen.until_shown(&format!("{DISCARDED}: y)"));
    assert_eq!(until_asks(&home, &id, 1)[0]["text"], "execute: make clean");
    // If the agent writes meanwhile what became of the first, the second is shown again and needs another yes.
    let mut heard = 2;
    until("it ends", || {
        let hints = screen.so_far().matches("[y] allow").count();
        if hints > heard {
            heard = hints;
            screen.write("y\n");
        }
        (home.json(&["show", &id])["phase"] == "ended").then_some(())
    });
    screen.end();
    let log = home.ok(&["logs", &id]);
    assert!(log.contains("ask-0 reject_once") && log.contains("ask-1 allow_once"), "{log}");
    // Both messages began a turn of their own, and what was discarded did not.
    let turns = home.json(&["show", &id])["session"]["turns"].as_array().unwrap().len();
    let did = ["did: go on", "did: please", "did: y"].map(|text| log.matches(text).count());
    assert_eq!((turns, did), (3, [1, 1, 0]), "{log}");
}

#[test]
fn c89_a_long_command_is_approved_only_after_its_last_line_was_shown() {
    let home = with_agent();
    let id = start(&home, &["--name", "asker", "asklong 1000"]);
    let asked = until_asks(&home, &id, 1);
    let request = asked[0]["request"].as_str().unwrap();
    assert!(request.len() > 100_000 && request.ends_with("\nrm -rf /"), "{}", request.len());
    let name = asked[0]["id"].as_str().unwrap();
    // What shows a part of it says so, and does not show its name.
    let shown = home.ok(&["show", "asker"]);
    assert!(shown.contains("more lines") && shown.contains("lastword question asker"), "{shown}");
    assert!(
        !shown.contains(name) && !shown.contains("lastword approve") && !shown.contains("rm -rf"),
        "{shown}"
    );
    let whole = home.ok(&["question", "asker"]);
    let (above, below) = whole.split_once("│ rm -rf /\n").expect("its last line");
    assert!(!above.contains(name) && below.contains(&format!("lastword approve asker {name}")), "{below}");
    // At a terminal it comes page by page, and nothing allows it before the last.
    let mut attached = at_terminal(&home, &["attach", "asker"]);
    let mut typed = attached.stdin.take().unwrap();
    until_shown(&mut attached, "[Enter] shows more");
    typed.write_all(b"y\n").unwrap();
    until_shown(&mut attached, "[Enter] shows more");
    assert_eq!(until_asks(&home, &id, 1).len(), 1, "a yes on the first page is none");
    let mut pages = 1;
    loop {
        typed.write_all(b"\n").unwrap();
        // In the hint of every page.
        let shown = until_shown(&mut attached, "[n] den");
        pages += 1;
        if shown.contains("rm -rf /") {
            break;
        }
    }
    assert!(pages > 20, "{pages}");
    typed.write_all(b"y\n").unwrap();
    assert!(attached.wait().unwrap().success());
    assert!(home.ok(&["logs", &id]).contains("ask-0 allow_once"));
}

#[test]
fn c89_a_question_that_output_pushed_away_is_shown_again_before_it_is_allowed() {
    let home = with_agent();
    let go = home.path().join("go");
    let id = start(&home, &["--name", "asker", &format!("ask rm x\nsaylater {}", go.display())]);
    let mut attached = at_terminal(&home, &["attach", "asker"]);
    let mut typed = attached.stdin.take().unwrap();
    until_shown(&mut attached, "deny and say why");
    std::fs::write(&go, "").unwrap();
    until_shown(&mut attached, "[y] allow  [n] deny");
    typed.write_all(b"y\n").unwrap();
    let shown = until_shown(&mut attached, "deny and say why");
    assert!(shown.contains("here it is again") && shown.contains("rm x"), "{shown}");
    assert_eq!(until_asks(&home, &id, 1).len(), 1, "it was not allowed");
    typed.write_all(b"y\n").unwrap();
    assert!(attached.wait().unwrap().success());
    assert!(home.ok(&["logs", &id]).contains("ask-0 allow_once"));
}

/// Shown between a question and the hint that invites an answer.
pub(crate) const DISCARDED: &str = "discarded input that was typed before";

#[test]
fn an_interrupt_ends_the_turn_and_a_message_starts_the_next() {
    let home = with_agent();
    let id = start(&home, &["wait"]);
    until("it works", || (home.json(&["show", &id])["session"]["active_turn"] == 1).then_some(()));
    let output = home.run(&["interrupt", &id, "--turn", "7"]);
    assert!(output.code == 125 && output.stderr.contains("that one has not begun"), "{output:?}");
    home.ok(&["send", &id, "hello", "again"]);
    home.ok(&["interrupt", &id]);
    home.ok(&["wait", &id]);
    let job = home.json(&["show", &id]);
    assert_eq!(endings(&job), ["interrupted", "completed"]);
    // As it was sent, without a line feed at the end.
    assert!(home.ok(&["logs", "--raw", &id]).contains(r#"did: hello again\n"#));
    insta::assert_snapshot!("show_turns", plain(&home, &home.ok(&["show", &id])));
    for words in [&["interrupt", &id][..], &["send", "--eof", &id], &["approve", &id, "q1"]] {
        let output = home.run(words);
        assert!(output.code == 125 && output.stderr.contains("has ended"), "{words:?}: {output:?}");
    }
    let output = home.run(&["send", &id]);
    assert!(output.code == 2 && output.stderr.contains("nothing to send"), "{output:?}");
    let id = home.start("exec sleep 100");
    let output = home.run(&["send", &id, "--steer", "left"]);
    assert!(output.code == 125 && output.stderr.contains("only an agent can be steered"), "{output:?}");
    let output = home.run(&["interrupt", &id]);
    assert!(output.code == 125 && output.stderr.contains("no active turn"), "{output:?}");
}

#[test]
fn an_interrupted_agent_that_gets_no_message_is_ended_with_that_reason() {
    let home = with_agent();
    let id = start(&home, &["--name", "waits", "wait"]);
    home.ok(&["limit", &id, "idle=300ms"]);
    until("it works", || (home.json(&["show", &id])["session"]["active_turn"] == 1).then_some(()));
    home.ok(&["interrupt", &id]);
    home.run(&["wait", &id]);
    let job = home.json(&["show", &id]);
    assert_eq!((&job["outcome"], &job["cause"]), (&json!("timed_out"), &json!("limit_idle")), "{job}");
    assert_eq!(endings(&job), ["interrupted"]);
    let shown = home.ok(&["show", &id]);
    assert!(shown.contains("timed out without a message"), "{shown}");
    assert!(shown.contains("idle 300ms"), "{shown}");
}

#[test]
fn doctor_reports_which_agents_are_installed_and_answer() {
    let home = with_agent();
    let own = std::fs::read_to_string(home.state().join("agents.toml")).unwrap();
    let more = "[gone]\ndialect = 'acp'\ncommand = ['/nowhere/gone']\n\
                [far]\ndialect = 'acp'\ncommand = ['/nowhere/far']\npackage = 'fetch far'\n\
                [mute]\ndialect = 'acp'\ncommand = ['sh', '-c', 'echo not today >&2']\n";
    define(&home, &(own + more));
    let look = |words: &[&str]| {
        let output = home.run(&[&["doctor", "--json"], words].concat());
        let list: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
        let items = list["items"].as_array().unwrap().clone();
        move |id: &str| {
            let item = items.iter().find(|item| item["id"] == id);
            item.map(|item| (item["status"].clone(), item["text"].as_str().unwrap().to_owned()))
        }
    };
    let found = look(&[]);
    let (status, text) = found("agents").unwrap();
    assert!(status == "ok" && text.contains("installed: echo, mute") && text.contains("gone"), "{text}");
    let (status, text) = found("agent.echo").unwrap();
    assert!(status == "ok" && text.starts_with("Python 3"), "{text}");
    assert_eq!(found("agent.gone"), None, "a missing agent is not an error");
    let found = look(&["--agents"]);
    let (status, text) = found("agent.echo").unwrap();
    assert!(status == "ok" && text.ends_with("; answers, session conversation-1"), "{text}");
    let (status, text) = found("agent.mute").unwrap();
    assert!(status == "warn" && text.contains("its last error: not today"), "{text}");
    let ok = |text: &str| Some(("ok".into(), text.to_owned()));
    assert_eq!(found("agent.gone"), ok("not installed"));
    assert_eq!(found("agent.far"), ok("not installed; install it with: fetch far"));
    let output = home.run(&["run", "--agent", "far", "hello"]);
    assert!(output.code == 127 && output.stderr.contains("lastword doctor --agents"), "{output:?}");
    let output = home.run(&["run", "--agent", "mute", "hello"]);
    assert!(
        output.code == 1
            && output.stderr.contains(
                "failed: the agent exited with status 0 before it opened a session; its last words: not today"
            ),
        "{output:?}"
    );
    define(&home, "[echo]\ndialect = 'klingon'\n");
    let (status, text) = look(&[])("agents").unwrap();
    assert!(status == "fail" && text.contains("agents.toml"), "{text}");
}

#[test]
fn an_agent_cannot_answer_its_own_questions() {
    let home = with_agent();
    let mut command = home.command(&["run", "-d", "--agent", "echo", "ask make test\ncheat"]);
    command.env("PROGRAM", lastword());
    let id = crate::home::run_command(command).stdout.trim_end().to_owned();
    let log = until("it has tried", || {
        let log = home.ok(&["logs", &id]);
        log.contains("cheat ").then_some(log)
    });
    assert!(log.contains("cheat 125") && log.contains("from inside"), "{log}");
    until_asks(&home, &id, 1);
    answers(&home, "deny", &id, &[]);
    home.ok(&["wait", &id]);
}
