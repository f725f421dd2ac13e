//! Claude Code: what its recorded streams mean, and what is said to it.

#[expect(dead_code, reason = "each dialect uses its part of it")]
mod common;

use common::{Talk, answer, input};
use lastword_agents::{Goals, Start};
use lastword_core::job::PendingInput;
use lastword_core::spec::{Dialect, Permission, Rule};
use serde_json::{Value, json};

const TURNS: &str = include_str!("streams/claude-turns.txt");
const PERMISSION: &str = include_str!("streams/claude-permission.txt");
const ERRORS: &str = include_str!("streams/claude-errors.txt");
const BACKGROUND: &str = include_str!("streams/claude-background.txt");

const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"s1"}"#;
const REPLAY: &str = r#"{"type":"user","isReplay":true,"message":{"role":"user","content":[]}}"#;
const DONE: &str = r#"{"type":"result","subtype":"success","is_error":false,"session_id":"s1"}"#;

fn talk() -> Talk {
    talk_by(Permission::Ask)
}

fn talk_by(otherwise: Permission) -> Talk {
    let mut start = Start { prompt: "do it".to_owned(), cwd: "/w".to_owned(), ..Start::default() };
    start.permissions.otherwise = otherwise;
    Talk::new(Dialect::Claude, start)
}

/// Returns a talk whose first turn is under way.
fn working(mut talk: Talk) -> Talk {
    assert_eq!(prompt(&talk.say(&Goals::default())), Some("do it".to_owned()));
    talk.hear(INIT);
    talk.hear(REPLAY);
    assert_eq!(talk.told(), "session s1\nturn");
    talk
}

fn with(inputs: &[PendingInput]) -> Goals<'_> {
    Goals { inputs, ..Goals::default() }
}

/// Returns the words of a message to it.
fn prompt(said: &Option<Value>) -> Option<String> {
    said.as_ref()?["message"]["content"][0]["text"].as_str().map(str::to_owned)
}

fn wants(request: &str, tool: &str, input: Value) -> String {
    let request_ = json!({ "subtype": "can_use_tool", "tool_name": tool, "input": input });
    json!({ "type": "control_request", "request_id": request, "request": request_ }).to_string()
}

/// Returns what was answered, and to which request.
fn answered(said: Option<Value>) -> Option<(String, Value)> {
    let mut response = said?["response"].take();
    Some((response["request_id"].as_str()?.to_owned(), response["response"].take()))
}

#[test]
fn a_recorded_session_is_told_turn_by_turn() {
    let mut talk = talk();
    talk.play(TURNS);
    let expected = [
        "session 14c8c3d7-5005-4076-8620-6a17d82e562c",
        "turn",
        "item: thought.",
        "spent 1934 56 0",
        "spent 0 0 6196",
        "Completed messages 1 used 1934 56 6196",
        "turn",
        "tool",
        "spent 1000 20 0",
        "tool done",
        "item: Bash: echo one; echo two >&2; exit 3 (failed)",
        "item: tick1 tick2 tick3 tick4",
        "spent 1000 20 0",
        "spent 0 0 8800",
        "Completed messages 1 used 2000 40 8800",
        "turn",
        "spent 1000 1 0",
        "Aborted messages 0 used 0 0 0",
        "turn",
        "tool",
        "spent 1000 20 0",
        "tool done",
        "item: Bash: /t/bin/hold 3000 (failed)",
        "spent 0 0 4400",
        "Aborted messages 0 used 1000 20 4400",
        "turn",
        "item: still alive",
        "spent 1000 20 0",
        "spent 0 0 4400",
        "Completed messages 1 used 1000 20 4400",
    ];
    assert_eq!(talk.told().lines().collect::<Vec<_>>(), expected);
}

#[test]
fn what_it_may_do_is_asked_and_an_interrupt_withdraws_the_question() {
    let mut talk = talk();
    talk.play(PERMISSION);
    let told = talk.told();
    let told: Vec<&str> = told.lines().filter(|line| !line.starts_with("spent")).collect();
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
        "QuestionClosed { question: \"189db1ba-9c83-4f6e-9a2c-3735fe7cba63\" }",
        "tool done",
        "item: Bash: touch /t/ws/zz3 (failed)",
        "Aborted messages 0 used 1000 20 4400 denied Bash: touch /t/ws/zz3",
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_success_that_is_an_error_is_not_believed() {
    let mut talk = talk();
    talk.play(ERRORS);
    let told = talk.told();
    let ended = told.lines().filter(|line| line.contains(" messages "));
    let ended: Vec<&str> = ended.map(|line| line.split_once(" messages").unwrap().0).collect();
    let gateway = "This is a server-side issue, usually temporary — try again in a moment. If it persists, check your inference gateway (127.0.0.1:18080).";
    let expected = [
        &format!("Failed (API Error: 500 fake error 500. {gateway})"),
        "Completed",
        &format!("Failed (API Error: 529 fake error 529. {gateway})"),
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
    assert!(!told.contains("item: API Error"), "an error is no work: {told}");
}

#[test]
fn a_turn_that_ends_leaves_what_goes_on_in_the_background() {
    let mut talk = talk();
    talk.play(BACKGROUND);
    let told = talk.told();
    assert!(told.contains("SessionChanged { state: Running, background: 1 }"), "{told}");
    assert!(told.lines().last().unwrap().starts_with("Completed"), "{told}");
    talk.hear(r#"{"type":"system","subtype":"background_tasks_changed","tasks":[]}"#);
    assert_eq!(talk.told(), "SessionChanged { state: Ready, background: 0 }");
}

#[test]
fn the_prompt_is_written_once_and_what_is_queued_waits_for_the_end_of_the_turn() {
    let mut talk = talk();
    let queued = [input(1, "and the docs")];
    assert_eq!(prompt(&talk.say(&with(&queued))), Some("do it".to_owned()));
    assert_eq!(talk.say(&with(&queued)), None, "nothing more before it has begun");
    talk.hear(INIT);
    assert_eq!(talk.say(&with(&queued)), None);
    talk.hear(REPLAY);
    assert_eq!(talk.say(&with(&queued)), None);
    talk.hear(DONE);
    assert_eq!(prompt(&talk.say(&with(&queued))), Some("and the docs".to_owned()));
    talk.hear(INIT);
    talk.hear(DONE);
    assert_eq!(talk.say(&with(&queued)), None, "it was written, whoever still asks for it");
    assert!(!talk.dialogue.is_busy());
}

#[test]
fn who_is_to_stop_is_told_nothing_more() {
    let stop = Goals { stop: true, interrupt: true, ..Goals::default() };
    assert_eq!(talk().say(&stop), None);
    let mut talk = working(talk());
    let said = talk.say(&stop).unwrap();
    assert_eq!(said["request"]["subtype"], "interrupt");
    assert_eq!(talk.say(&stop), None, "one is enough");
    assert!(talk.dialogue.is_busy());
    let aborted = r#"{"type":"result","subtype":"error_during_execution","terminal_reason":"aborted_tools"}"#;
    talk.hear(aborted);
    assert!(!talk.dialogue.is_busy());
    assert_eq!(talk.say(&Goals { inputs: &[input(1, "more")], ..stop }), None);
}

#[test]
fn what_is_steered_goes_into_the_turn_and_becomes_one_of_its_own_if_it_came_too_late() {
    let steered = [PendingInput { steer: true, ..input(1, "not that way") }];
    let mut talk = working(talk());
    assert_eq!(prompt(&talk.say(&with(&steered))), Some("not that way".to_owned()));
    // Taken up in the turn.
    talk.hear(REPLAY);
    talk.hear(DONE);
    assert_eq!(talk.told(), "Completed messages 0 used 0 0 0");
    assert!(!talk.dialogue.is_busy());
    // Not taken up: there will be another turn, and it is no time to leave.
    let mut talk = working(self::talk());
    talk.say(&with(&steered));
    talk.hear(DONE);
    let told = "Completed messages 0 used 0 0 0\nSessionChanged { state: Ready, background: 1 }";
    assert_eq!(talk.told(), told);
    assert!(talk.dialogue.is_busy());
    talk.hear(INIT);
    talk.hear(REPLAY);
    talk.hear(DONE);
    let told = "turn\nCompleted messages 0 used 0 0 0\nSessionChanged { state: Ready, background: 0 }";
    assert_eq!(talk.told(), told);
    assert!(!talk.dialogue.is_busy());
}

#[test]
fn a_person_allows_and_denies_and_each_question_has_one_answer() {
    let bash = || json!({ "command": "touch x" });
    let mut talk = working(talk());
    talk.hear(&wants("r1", "Bash", bash()));
    assert_eq!(talk.told(), "question r1: Bash: touch x");
    let answers = [answer(1, "r1", "allow")];
    let (request, said) = answered(talk.say(&with(&answers))).unwrap();
    assert_eq!((request.as_str(), &said), ("r1", &json!({ "behavior": "allow", "updatedInput": bash() })));
    assert_eq!(talk.say(&with(&answers)), None);
    talk.hear(&wants("r2", "Bash", bash()));
    let answers = [answer(2, "r2", "deny not in this folder")];
    let (_, said) = answered(talk.say(&with(&answers))).unwrap();
    assert_eq!(said, json!({ "behavior": "deny", "message": "not in this folder" }));
    // An answer to what was withdrawn is said to nobody.
    talk.hear(&wants("r3", "Bash", bash()));
    talk.hear(r#"{"type":"control_cancel_request","request_id":"r3"}"#);
    assert_eq!(talk.say(&with(&[answer(3, "r3", "allow")])), None);
}

#[test]
fn rules_answer_without_a_person_and_a_question_is_for_a_person() {
    let mut talk = talk_by(Permission::Allow);
    let rule = Rule { pattern: "Bash: git push*".to_owned(), permission: Permission::Deny };
    talk.start.permissions.rules.push(rule);
    let mut talk = working(Talk::new(Dialect::Claude, talk.start));
    talk.hear(&wants("r1", "Bash", json!({ "command": "git status" })));
    talk.hear(&wants("r2", "Bash", json!({ "command": "git push -f" })));
    let (request, said) = answered(talk.say(&Goals::default())).unwrap();
    assert_eq!((request.as_str(), said["behavior"].as_str()), ("r1", Some("allow")));
    let (request, said) = answered(talk.say(&Goals::default())).unwrap();
    assert_eq!((request.as_str(), said["behavior"].as_str()), ("r2", Some("deny")));
    assert_eq!(talk.told(), "");
    let asks =
        json!({ "questions": [{ "question": "Which?", "options": [{ "label": "a" }, { "label": "b" }] }] });
    talk.hear(&wants("r3", "AskUserQuestion", asks));
    assert_eq!(talk.told(), "question r3: Which? (a / b)");
    let (_, said) = answered(talk.say(&with(&[answer(1, "r3", "b")]))).unwrap();
    assert_eq!(said["updatedInput"]["answers"], json!({ "Which?": "b" }));
}

#[test]
fn a_request_that_nobody_knows_is_refused_and_not_left_to_wait() {
    let mut talk = working(talk());
    talk.hear(r#"{"type":"control_request","request_id":"h1","request":{"subtype":"hook_callback"}}"#);
    let said = talk.say(&Goals::default()).unwrap();
    assert_eq!(
        (&said["response"]["request_id"], &said["response"]["subtype"]),
        (&"h1".into(), &"error".into())
    );
    assert_eq!(talk.say(&Goals::default()), None);
}

#[test]
fn a_resumed_session_says_what_it_goes_on_from() {
    let mut start = talk().start;
    start.resume = Some("old".to_owned());
    let mut talk = Talk::new(Dialect::Claude, start);
    talk.say(&Goals::default());
    talk.hear(INIT);
    assert_eq!(talk.told(), "session s1 from old\nturn");
    // The same again at the next turn is no news.
    talk.hear(DONE);
    talk.told();
    talk.say(&with(&[input(1, "more")]));
    talk.hear(INIT);
    assert_eq!(talk.told(), "turn");
}

#[test]
fn a_resumed_session_is_not_charged_for_what_it_cost_before() {
    let mut talk = working(talk());
    let by_model = json!({ "big": { "costUSD": 0.003 }, "small": { "costUSD": 0.001 } });
    let mut done: Value = serde_json::from_str(DONE).unwrap();
    (done["total_cost_usd"], done["model_usage_since_last_result"]) = (json!(1.5), by_model);
    talk.hear(&done.to_string());
    assert_eq!(talk.told(), "spent 0 0 4000\nCompleted messages 0 used 0 0 4000");
}
