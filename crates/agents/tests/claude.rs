//! Claude Code: recorded streams, and what is written to it.

#[expect(dead_code, reason = "each dialect uses its part of it")]
mod common;

use common::{Driver, answer, input};
use lastword_agents::{Goals, Start};
use lastword_core::job::PendingInput;
use lastword_core::question::{Ask, AskKind, Change, Edit, Reply};
use lastword_core::report::Signal;
use lastword_core::spec::{Dialect, Permission, Rule};
use serde_json::{Value, json};

const TURNS: &str = include_str!("streams/claude-turns.txt");
const PERMISSION: &str = include_str!("streams/claude-permission.txt");
const ERRORS: &str = include_str!("streams/claude-errors.txt");
const BACKGROUND: &str = include_str!("streams/claude-background.txt");

const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"s1"}"#;
const REPLAY: &str = r#"{"type":"user","isReplay":true,"message":{"role":"user","content":[]}}"#;
const DONE: &str = r#"{"type":"result","subtype":"success","is_error":false,"session_id":"s1"}"#;

fn driver() -> Driver {
    driver_with(Permission::Ask)
}

fn driver_with(otherwise: Permission) -> Driver {
    let mut start = Start { prompt: "do it".to_owned(), cwd: "/w".to_owned(), ..Start::default() };
    start.permissions.otherwise = otherwise;
    Driver::new(Dialect::Claude, start)
}

/// Returns a driver whose first turn is active.
fn working(mut driver: Driver) -> Driver {
    assert_eq!(prompt(&driver.write_next(&Goals::default())), Some("do it".to_owned()));
    driver.read(INIT);
    driver.read(REPLAY);
    assert_eq!(driver.transcript(), "session s1\nturn");
    driver
}

fn with(inputs: &[PendingInput]) -> Goals<'_> {
    Goals { inputs, ..Goals::default() }
}

/// Returns the text of a message that was written.
fn prompt(said: &Option<Value>) -> Option<String> {
    said.as_ref()?["message"]["content"][0]["text"].as_str().map(str::to_owned)
}

fn wants(request: &str, tool: &str, input: Value) -> String {
    let request_ = json!({ "subtype": "can_use_tool", "tool_name": tool, "input": input });
    json!({ "type": "control_request", "request_id": request, "request": request_ }).to_string()
}

/// Returns the request that was answered, and the response.
fn answered(said: Option<Value>) -> Option<(String, Value)> {
    let mut response = said?["response"].take();
    Some((response["request_id"].as_str()?.to_owned(), response["response"].take()))
}

#[test]
fn recorded_session() {
    let mut driver = driver();
    driver.play(TURNS);
    let expected = [
        "session 14c8c3d7-5005-4076-8620-6a17d82e562c",
        "turn",
        "item: thought.",
        "spent 1934 56 6196",
        "Completed messages 1 used 1934 56 6196",
        "turn",
        "tool",
        "spent 1000 20 4400",
        "tool done",
        "item: Bash: echo one; echo two >&2; exit 3 (failed)",
        "item: tick1 tick2 tick3 tick4",
        "spent 1000 20 4400",
        "Completed messages 1 used 2000 40 8800",
        "turn",
        "spent 1000 1 4020",
        "Overcounted { money_micros: 4020 }",
        "Aborted messages 0 used 0 0 0",
        "turn",
        "tool",
        "spent 1000 20 4400",
        "tool done",
        "item: Bash: /t/bin/hold 3000 (failed)",
        "Aborted messages 0 used 1000 20 4400",
        "turn",
        "item: still alive",
        "spent 1000 20 4400",
        "Completed messages 1 used 1000 20 4400",
    ];
    assert_eq!(driver.transcript().lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_permission_is_asked_and_an_interrupt_withdraws_it() {
    let mut driver = driver();
    driver.play(PERMISSION);
    let transcript = driver.transcript();
    let transcript: Vec<&str> = transcript.lines().filter(|line| !line.starts_with("spent")).collect();
    let expected = [
        "session 5ccbf98e-c8d1-4882-8c5e-ff5d2c174044",
        "turn",
        "tool",
        "question a4587e86-4c9b-4761-ad56-a0f6f953e9e7: Bash: touch /t/ws/zz1",
        "tool done",
        "item: Bash: touch /t/ws/zz1 (failed)",
        "item: ok",
        "Completed messages 1 used 2000 40 8800 denied Bash: touch /t/ws/zz1",
        "turn",
        "tool",
        "question d464c154-3681-401e-85a5-01932aa35719: Bash: touch /t/ws/zz2",
        "tool done",
        "item: Bash: touch /t/ws/zz2",
        "item: ok",
        "Completed messages 1 used 2000 40 8800",
        "turn",
        "tool",
        "question 189db1ba-9c83-4f6e-9a2c-3735fe7cba63: Bash: touch /t/ws/zz3",
        "QuestionClosed { question: \"189db1ba-9c83-4f6e-9a2c-3735fe7cba63#3\" }",
        "tool done",
        "item: Bash: touch /t/ws/zz3 (failed)",
        "Aborted messages 0 used 1000 20 4400 denied Bash: touch /t/ws/zz3",
    ];
    assert_eq!(transcript, expected);
}

#[test]
fn a_success_with_is_error_failed() {
    let mut driver = driver();
    driver.play(ERRORS);
    let transcript = driver.transcript();
    let ended = transcript.lines().filter(|line| line.contains(" messages "));
    let ended: Vec<&str> = ended.map(|line| line.split_once(" messages").unwrap().0).collect();
    let gateway = "This is a server-side issue, usually temporary — try again in a moment. If it persists, check your inference gateway (127.0.0.1:18080).";
    let expected = [
        &format!("Failed (API Error: 500 fake error 500. {gateway})"),
        "Completed",
        &format!("Limited (API Error: 529 fake error 529. {gateway})"),
        "Limited (API Error: Request rejected (429) · fake error 429)",
        "Completed",
        "Completed",
        "Failed (Request timed out)",
        "Failed (Request timed out)",
        "Failed (API Error: Unable to connect to API (Malformed_HTTP_Response))",
        "Failed (API Error: 400 fake error 400)",
        "Failed (Failed to authenticate. API Error: 401 fake error 401)",
        "Failed (Failed to authenticate. API Error: 403 fake error 403)",
        "Completed",
        "Failed (Request timed out)",
    ];
    assert_eq!(ended, expected);
    assert!(!transcript.contains("item: API Error"), "an error is no item: {transcript}");
}

#[test]
fn background_tasks_outlive_their_turn() {
    let mut driver = driver();
    driver.play(BACKGROUND);
    let transcript = driver.transcript();
    assert!(transcript.contains("SessionChanged { state: Running, background: 1 }"), "{transcript}");
    assert!(transcript.lines().last().unwrap().starts_with("Completed"), "{transcript}");
    driver.read(r#"{"type":"system","subtype":"background_tasks_changed","tasks":[]}"#);
    assert_eq!(driver.transcript(), "SessionChanged { state: Ready, background: 0 }");
}

#[test]
fn the_prompt_is_written_once_and_inputs_wait_for_the_end_of_the_turn() {
    let mut driver = driver();
    let queued = [input(1, "and the docs")];
    assert_eq!(prompt(&driver.write_next(&with(&queued))), Some("do it".to_owned()));
    assert_eq!(driver.write_next(&with(&queued)), None, "nothing more before the turn began");
    driver.read(INIT);
    assert_eq!(driver.write_next(&with(&queued)), None);
    driver.read(REPLAY);
    assert_eq!(driver.write_next(&with(&queued)), None);
    driver.read(DONE);
    assert_eq!(prompt(&driver.write_next(&with(&queued))), Some("and the docs".to_owned()));
    driver.read(INIT);
    driver.read(DONE);
    assert_eq!(driver.write_next(&with(&queued)), None, "it was written already");
    assert!(!driver.dialogue.is_busy());
}

#[test]
fn while_stopping_nothing_is_prompted() {
    let stop = Goals { stop: true, interrupt: true, ..Goals::default() };
    assert_eq!(driver().write_next(&stop), None);
    let mut driver = working(driver());
    let said = driver.write_next(&stop).unwrap();
    assert_eq!(said["request"]["subtype"], "interrupt");
    assert_eq!(driver.write_next(&stop), None, "one interrupt is enough");
    assert!(driver.dialogue.is_busy());
    let aborted = r#"{"type":"result","subtype":"error_during_execution","terminal_reason":"aborted_tools"}"#;
    driver.read(aborted);
    assert!(!driver.dialogue.is_busy());
    assert_eq!(driver.write_next(&Goals { inputs: &[input(1, "more")], ..stop }), None);
}

#[test]
fn a_steering_input_joins_the_turn_or_starts_one_if_it_came_too_late() {
    let steered = [PendingInput { steer: true, ..input(1, "not that way") }];
    let mut driver = working(driver());
    assert_eq!(prompt(&driver.write_next(&with(&steered))), Some("not that way".to_owned()));
    // Read within the turn.
    driver.read(REPLAY);
    driver.read(DONE);
    assert_eq!(driver.transcript(), "Completed messages 0 used 0 0 0");
    assert!(!driver.dialogue.is_busy());
    // Not read: another turn will follow, so the session is not settled.
    let mut driver = working(self::driver());
    driver.write_next(&with(&steered));
    driver.read(DONE);
    let expected = "Completed messages 0 used 0 0 0\nSessionChanged { state: Ready, background: 1 }";
    assert_eq!(driver.transcript(), expected);
    assert!(driver.dialogue.is_busy());
    driver.read(INIT);
    driver.read(REPLAY);
    driver.read(DONE);
    let expected = "turn\nCompleted messages 0 used 0 0 0\nSessionChanged { state: Ready, background: 0 }";
    assert_eq!(driver.transcript(), expected);
    assert!(!driver.dialogue.is_busy());
}

#[test]
fn a_person_allows_or_denies_and_each_question_takes_one_answer() {
    let bash = || json!({ "command": "touch x" });
    let mut driver = working(driver());
    driver.read(&wants("r1", "Bash", bash()));
    assert_eq!(driver.transcript(), "question r1: Bash: touch x");
    let answers = [answer(1, "r1#1", "allow")];
    let (request, said) = answered(driver.write_next(&with(&answers))).unwrap();
    assert_eq!((request.as_str(), &said), ("r1", &json!({ "behavior": "allow", "updatedInput": bash() })));
    assert_eq!(driver.write_next(&with(&answers)), None);
    driver.read(&wants("r2", "Bash", bash()));
    let answers = [answer(2, "r2#2", "deny not in this folder")];
    let (_, said) = answered(driver.write_next(&with(&answers))).unwrap();
    assert_eq!(said, json!({ "behavior": "deny", "message": "not in this folder" }));
    // An answer to a withdrawn question is not written.
    driver.read(&wants("r3", "Bash", bash()));
    driver.read(r#"{"type":"control_cancel_request","request_id":"r3"}"#);
    assert_eq!(driver.write_next(&with(&[answer(3, "r3#3", "allow")])), None);
}

#[test]
fn rules_answer_permissions_but_not_questions() {
    let mut driver = driver_with(Permission::Allow);
    let rule = Rule { pattern: "Bash: git push*".to_owned(), permission: Permission::Deny };
    driver.start.permissions.rules.push(rule);
    let mut driver = working(Driver::new(Dialect::Claude, driver.start));
    driver.read(&wants("r1", "Bash", json!({ "command": "git status" })));
    driver.read(&wants("r2", "Bash", json!({ "command": "git push -f" })));
    let (request, said) = answered(driver.write_next(&Goals::default())).unwrap();
    assert_eq!((request.as_str(), said["behavior"].as_str()), ("r1", Some("allow")));
    let (request, said) = answered(driver.write_next(&Goals::default())).unwrap();
    assert_eq!((request.as_str(), said["behavior"].as_str()), ("r2", Some("deny")));
    assert_eq!(driver.transcript(), "");
    let asks =
        json!({ "questions": [{ "question": "Which?", "options": [{ "label": "a" }, { "label": "b" }] }] });
    driver.read(&wants("r3", "AskUserQuestion", asks));
    assert_eq!(driver.transcript(), "question r3: Which?");
    let (_, said) = answered(driver.write_next(&with(&[answer(1, "r3#3", "b")]))).unwrap();
    assert_eq!(said["updatedInput"]["answers"], json!({ "Which?": "b" }));
}

/// Returns all that the only question of these signals asks.
fn asked(driver: &mut Driver, line: &str) -> (Ask, Vec<Edit>) {
    let signals = driver.dialogue.read(format!("{line}\n").as_bytes()).into_iter().map(|heard| heard.signal);
    let mut asked = signals.filter_map(|signal| match signal {
        Signal::QuestionAsked { ask, edits, .. } => Some((*ask, edits)),
        _ => None,
    });
    asked.next_back().expect("it asks")
}

#[test]
fn c89_a_request_is_whole() {
    let mut driver = working(driver());
    let command = format!("echo {}\n{}rm -rf /", "x".repeat(100_000), "\n".repeat(300));
    let input = json!({ "command": command, "description": "Greets" });
    let (ask, edits) = asked(&mut driver, &wants("r1", "Bash", input));
    assert_eq!(
        (ask.tool.as_str(), ask.request == format!("{command}\n\ndescription: \"Greets\""), edits.len()),
        ("Bash", true, 0)
    );
    let (ask, edits) =
        asked(&mut driver, &wants("r2", "Write", json!({ "file_path": "/w/a", "content": "one\ntwo\n" })));
    assert_eq!(ask.request, "write /w/a\n+one\n+two\n");
    assert_eq!(edits, [Edit { path: "/w/a".to_owned(), change: Change::Write("one\ntwo\n".to_owned()) }]);
    let (ask, _) = asked(&mut driver, &wants("r3", "mcp__air__book", json!({ "to": "Rome" })));
    let exact = r#"["mcp__air__book",{"to":"Rome"}]"#.to_owned();
    assert_eq!(ask, Ask { exact, ..Ask::permission("mcp__air__book", "{\n  \"to\": \"Rome\"\n}") });
    // What cannot be shown whole is denied, and the model is told why.
    driver.read(&wants("r4", "Bash", json!({ "command": "x".repeat(300_000) })));
    assert_eq!(driver.transcript(), "");
    let (request, said) = answered(driver.write_next(&Goals::default())).unwrap();
    assert_eq!((request.as_str(), said["behavior"].as_str()), ("r4", Some("deny")));
    assert!(said["message"].as_str().unwrap().contains("256 KiB"), "{said}");
}

#[test]
fn c88_an_answer_does_not_reach_a_request_that_came_later_under_the_same_id() {
    let mut driver = working(driver());
    driver.read(&wants("r1", "Bash", json!({ "command": "ls" })));
    driver.read(&wants("r1", "Bash", json!({ "command": "rm -rf /" })));
    assert_eq!(
        driver.transcript(),
        "question r1: Bash: ls\nQuestionClosed { question: \"r1#1\" }\nquestion r1: Bash: rm -rf /"
    );
    assert_eq!(driver.write_next(&with(&[answer(1, "r1#1", "allow")])), None, "it was for the first");
    assert!(driver.write_next(&with(&[answer(2, "r1#2", "allow")])).is_some());
    // A question that 0.1.0 recorded has the agent's id alone.
    driver.read(&wants("r9", "Bash", json!({ "command": "ls" })));
    assert!(driver.write_next(&with(&[answer(9, "r9", "allow")])).is_some());
    // Ids that begin alike are told apart.
    let long = "x".repeat(5_000);
    driver.read(&wants(&long, "Bash", json!({ "command": "rm -rf /" })));
    driver.read(&wants(&format!("{long}y"), "Bash", json!({ "command": "ls" })));
    let brief = "x".repeat(120);
    let said = answered(driver.write_next(&with(&[answer(3, &format!("{brief}#5"), "allow")]))).unwrap().1;
    assert_eq!(said["updatedInput"]["command"], "ls");
}

#[test]
fn each_question_of_a_list_has_its_own_answer() {
    let mut driver = working(driver());
    let asks = json!({ "questions": [
        { "question": "Which database?", "options": [{ "label": "SQLite", "description": "one file" }, { "label": "PostgreSQL", "description": "a server" }] },
        { "question": "Which extras?", "multiSelect": true, "options": [{ "label": "Cache", "description": "c" }, { "label": "Queue", "description": "q" }] },
    ] });
    let (ask, _) = asked(&mut driver, &wants("r1", "AskUserQuestion", asks));
    assert_eq!((ask.kind, ask.parts.len()), (AskKind::Choice, 2));
    assert_eq!((ask.parts[0].several, ask.parts[1].several), (false, true));
    assert_eq!(ask.parts[0].options[1].description, "a server");
    let words = Reply::Words(vec!["SQLite".to_owned(), "Cache, Queue".to_owned()]);
    let inputs = [PendingInput { reply: Some(words), ..answer(1, "r1#1", "") }];
    let (_, said) = answered(driver.write_next(&with(&inputs))).unwrap();
    let answers = json!({ "Which database?": "SQLite", "Which extras?": "Cache, Queue" });
    assert_eq!(said["updatedInput"]["answers"], answers);
}

#[test]
fn an_unsupported_request_is_refused() {
    let mut driver = working(driver());
    driver.read(r#"{"type":"control_request","request_id":"h1","request":{"subtype":"hook_callback"}}"#);
    let said = driver.write_next(&Goals::default()).unwrap();
    assert_eq!(
        (&said["response"]["request_id"], &said["response"]["subtype"]),
        (&"h1".into(), &"error".into())
    );
    assert_eq!(driver.write_next(&Goals::default()), None);
}

#[test]
fn a_resumed_session_names_the_one_it_resumes() {
    let mut start = driver().start;
    start.resume = Some("old".to_owned());
    let mut driver = Driver::new(Dialect::Claude, start);
    driver.write_next(&Goals::default());
    driver.read(INIT);
    assert_eq!(driver.transcript(), "session s1 from old\nturn");
    // The same session at the next turn is not reported again.
    driver.read(DONE);
    driver.transcript();
    driver.write_next(&with(&[input(1, "more")]));
    driver.read(INIT);
    assert_eq!(driver.transcript(), "turn");
}

/// The event with the time comes before the failed result; one that only warns says nothing.
#[test]
fn c95_the_quota_is_restored_when_the_event_before_the_end_says() {
    let failed = |status: u16| {
        json!({ "type": "result", "subtype": "success", "is_error": true, "api_error_status": status, "result": "no" })
            .to_string()
    };
    let event = |status: &str| {
        let info = json!({ "status": status, "resetsAt": 50, "rateLimitType": "five_hour" });
        json!({ "type": "rate_limit_event", "rate_limit_info": info }).to_string()
    };
    for (lines, said) in [
        (vec![event("rejected"), failed(429)], "refused: Quota At(Timestamp(50000))\nLimited"),
        (vec![event("rejected"), event("allowed"), failed(429)], "refused: Quota Unknown\nLimited"),
        (vec![event("allowed_warning"), failed(429)], "refused: Quota Unknown\nLimited"),
        (vec![failed(529)], "refused: Overload Unknown\nLimited"),
        (vec![failed(500)], "Failed"),
    ] {
        let mut driver = working(driver());
        lines.iter().for_each(|line| drop(driver.read(line)));
        let transcript = driver.transcript();
        assert!(transcript.starts_with(&format!("{said} (no)")), "{transcript}");
    }
}

/// What a sub-agent's model says is in another record.
#[test]
fn c91_a_turn_ends_at_the_last_line_of_its_own_model() {
    let says = |uuid: &str, parent: Value| {
        let content = json!([{ "type": "text", "text": "hm" }]);
        let message = json!({ "role": "assistant", "content": content });
        json!({ "type": "assistant", "uuid": uuid, "parent_tool_use_id": parent, "message": message })
            .to_string()
    };
    let mut driver = working(driver());
    driver.read(&says("u1", json!(null)));
    driver.read(&says("u2", json!(null)));
    driver.read(&says("u3", json!("tool-1")));
    driver.read(DONE);
    let mark = |signals: &[Signal]| match signals.last() {
        Some(Signal::TurnEnded { commit, .. }) => commit.mark.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(mark(&driver.signals).as_deref(), Some("u2"));
    // A turn without a word of the model has no mark of its own.
    driver.write_next(&with(&[input(1, "more")]));
    driver.read(INIT);
    driver.read(DONE);
    assert_eq!(mark(&driver.signals), None);
}

#[test]
fn a_resumed_session_does_not_count_its_earlier_cost() {
    let mut driver = working(driver());
    let by_model = json!({ "big": { "costUSD": 0.003 }, "small": { "costUSD": 0.001 } });
    let mut done: Value = serde_json::from_str(DONE).unwrap();
    (done["total_cost_usd"], done["model_usage_since_last_result"]) = (json!(1.5), by_model);
    driver.read(&done.to_string());
    assert_eq!(driver.transcript(), "spent 0 0 4000\nCompleted messages 0 used 0 0 4000");
}

/// Between a message and the `init` of its turn Claude is not idle: closing its input then would take its questions from it.
#[test]
fn a_later_turn_begins_when_its_message_is_written() {
    let mut driver = driver();
    driver.write_all(&Goals::default());
    driver.read(r#"{"type":"system","subtype":"init","session_id":"s"}"#);
    driver.read(r#"{"type":"result","subtype":"success","is_error":false,"session_id":"s","usage":{}}"#);
    driver.transcript();
    let inputs = [input(1, "next")];
    let goals = Goals { inputs: &inputs, ..Goals::default() };
    let line = driver.write_next(&goals).expect("it is due");
    assert_eq!((line["type"].as_str(), driver.transcript().as_str()), (Some("user"), "turn"));
    assert!(driver.dialogue.is_busy());
    // Nothing can be interrupted before Claude has begun.
    let interrupt = Goals { inputs: &inputs, interrupt: true, ..Goals::default() };
    assert_eq!(driver.dialogue.next(&interrupt), None);
    driver.read(r#"{"type":"system","subtype":"init","session_id":"s"}"#);
    assert_eq!(driver.transcript(), "", "it is the same turn");
    let line = driver.write_next(&interrupt).expect("it is due");
    assert_eq!(line["request"]["subtype"], "interrupt");
    driver.read(r#"{"type":"result","subtype":"success","is_error":false,"session_id":"s","usage":{}}"#);
    assert!(!driver.dialogue.is_busy());
}
