//! Codex's app server: what its recorded streams mean, and what is said to it.

#[expect(dead_code, reason = "each dialect uses its part of it")]
mod common;

use common::{Talk, answer, input};
use lastword_agents::{Goals, Start};
use lastword_core::job::PendingInput;
use lastword_core::spec::{Dialect, Permission, Prices, Rule};
use serde_json::json;

const STREAM: &str = include_str!("streams/codex-app-server.jsonl");
const RESUMED: &str = include_str!("streams/codex-app-server-resume.jsonl");
const THREAD: &str = "01a1dc57-1192-75c1-8113-e21447f47492";

fn talk() -> Talk {
    Talk::new(Dialect::Codex, Start { prompt: "do it".to_owned(), cwd: "/w".to_owned(), ..Start::default() })
}

fn with(inputs: &[PendingInput]) -> Goals<'_> {
    Goals { inputs, ..Goals::default() }
}

/// Returns a talk whose first turn is under way.
fn working() -> Talk {
    working_by(Permission::Ask)
}

fn working_by(otherwise: Permission) -> Talk {
    let mut start = talk().start;
    start.permissions.otherwise = otherwise;
    let mut talk = Talk::new(Dialect::Codex, start);
    open(&mut talk);
    talk.say_all(&Goals::default());
    talk.hear(r#"{"id":3,"result":{"turn":{"id":"u1"}}}"#);
    talk.hear(r#"{"method":"turn/started","params":{"threadId":"t","turn":{"id":"u1"}}}"#);
    talk.told();
    talk
}

fn open(talk: &mut Talk) {
    assert_eq!(talk.say_all(&Goals::default()), ["initialize"]);
    talk.hear(r#"{"id":1,"result":{}}"#);
    assert_eq!(talk.say_all(&Goals::default()), ["initialized", "thread/start"]);
    talk.hear(r#"{"id":2,"result":{"thread":{"id":"t"}}}"#);
}

fn turn_ended(status: &str) -> String {
    format!(
        r#"{{"method":"turn/completed","params":{{"threadId":"t","turn":{{"id":"u1","status":"{status}"}}}}}}"#
    )
}

#[test]
fn a_recorded_session_is_told_turn_by_turn() {
    let mut talk = talk();
    let (first, second) = STREAM.split_at(STREAM.find("> {\"id\":17,").unwrap());
    talk.play(first);
    let expected = [
        "session 01a1dc57-1192-75c1-8113-e21447f47492",
        "turn",
        "item: thought.",
        "spent 1234 56 0",
        "Completed messages 2 used 1234 56 0",
        "turn",
        "tool",
        "tool done",
        "item: echo one; echo two >&2; exit 3: exit 3",
        "spent 1000 20 0",
        "item: tick1 tick2 tick3 tick4",
        "spent 1000 20 0",
        "Completed messages 2 used 2000 40 0",
        "turn",
        "tool",
        "spent 1000 20 0",
        "Aborted messages 1 used 1000 20 0",
        "turn",
        "Aborted messages 1 used 0 0 0",
        "turn",
        "Failed (We’re currently experiencing high demand, which may cause temporary errors.) messages 1 used 0 0 0",
        "turn",
        "Limited (exceeded retry limit, last status: 429 Too Many Requests) messages 1 used 0 0 0",
        "turn",
        "Failed (stream disconnected before completion: error sending request) messages 1 used 0 0 0",
        "turn",
        "Failed (stream disconnected before completion: Transport error: network error: error decoding response body) \
         messages 1 used 0 0 0",
        "turn",
        "Failed (stream disconnected before completion: stream closed before response.completed) messages 1 used 0 0 0",
        "turn",
        "Failed (stream disconnected before completion: fake in-band error) messages 1 used 0 0 0",
        "turn",
        "Failed ({\"error\": {\"message\": \"fake error 400\", \"type\": \"invalid_request_error\", \"param\": null, \
         \"code\": \"invalid_request_error\"}}) messages 1 used 0 0 0",
        "turn",
        "Failed (unexpected status 401 Unauthorized: fake error 401, url: http://127.0.0.1:18080/v1/responses) \
         messages 1 used 0 0 0",
    ];
    assert_eq!(talk.told(), expected.join("\n"));
    talk.play(second);
    let expected = [
        "session 01a1dc57-341d-73d2-8723-61d905ce0be7",
        "turn",
        "tool",
        "question 0: commandExecution: touch /t/ws/zz",
        "tool done",
        "item: touch /t/ws/zz",
        "spent 1000 20 0",
        "item: k",
        "spent 1000 20 0",
        "Completed messages 2 used 2000 40 0",
    ];
    assert_eq!(talk.told(), expected.join("\n"));
}

#[test]
fn what_a_resumed_thread_used_before_is_not_counted_again() {
    let mut talk = talk();
    talk.start.resume = Some(THREAD.to_owned());
    talk.start.prices = Some(Prices { tokens_in: 1_000_000, cached: 0, tokens_out: 2_000_000 });
    let mut talk = Talk::new(Dialect::Codex, talk.start);
    talk.play(RESUMED);
    let expected = [
        &format!("session {THREAD} from {THREAD}"),
        "turn",
        "item: after resume",
        "spent 1000 20 1040",
        "Completed messages 2 used 1000 20 1040",
    ];
    assert_eq!(talk.told(), expected.join("\n"));
}

#[test]
fn the_handshake_leads_to_the_first_prompt_and_is_said_once() {
    let mut start = talk().start;
    start.permissions.otherwise = Permission::Allow;
    let mut talk = Talk::new(Dialect::Codex, start);
    let hello = talk.say(&Goals::default()).unwrap();
    assert_eq!(
        (&hello["method"], &hello["params"]["clientInfo"]["name"]),
        (&json!("initialize"), &json!("lastword"))
    );
    assert_eq!(hello["params"]["capabilities"], json!({ "experimentalApi": true }));
    assert_eq!(talk.say(&Goals::default()), None, "it waits for the answer");
    talk.hear(r#"{"id":1,"result":{}}"#);
    assert_eq!(talk.say(&Goals::default()), Some(json!({ "method": "initialized" })));
    let thread = json!({ "id": 2, "method": "thread/start", "params": { "cwd": "/w" } });
    assert_eq!(talk.say(&Goals::default()), Some(thread), "what the user configured is left alone");
    talk.hear(r#"{"id":2,"result":{"thread":{"id":"t"}}}"#);
    let input = json!([{ "type": "text", "text": "do it" }]);
    let prompt = json!({ "id": 3, "method": "turn/start", "params": { "threadId": "t", "input": input } });
    assert!(!talk.dialogue.is_busy());
    assert_eq!(talk.say(&Goals::default()), Some(prompt));
    assert!(talk.dialogue.is_busy());
    assert_eq!(talk.say(&Goals::default()), None);
    assert_eq!(talk.told(), "session t\nturn");
}

#[test]
fn a_thread_is_resumed_without_its_history() {
    let mut start = Start { resume: Some("t".to_owned()), cwd: "/w".to_owned(), ..Start::default() };
    start.permissions.otherwise = Permission::Allow;
    let mut talk = Talk::new(Dialect::Codex, start);
    talk.say_all(&Goals::default());
    talk.hear(r#"{"id":1,"result":{}}"#);
    talk.say(&Goals::default());
    let resume = talk.say(&Goals::default()).unwrap();
    assert_eq!(resume["method"], "thread/resume");
    assert_eq!(resume["params"], json!({ "threadId": "t", "cwd": "/w", "excludeTurns": true }));
}

#[test]
fn rules_make_it_ask_unless_all_is_allowed() {
    for (permission, otherwise, policy) in [
        (Permission::Deny, Permission::Allow, json!("untrusted")),
        (Permission::Ask, Permission::Allow, json!("untrusted")),
        (Permission::Allow, Permission::Deny, json!("untrusted")),
        (Permission::Allow, Permission::Ask, json!("untrusted")),
        (Permission::Allow, Permission::Allow, json!(null)),
    ] {
        let mut start = Start::default();
        start.permissions.rules = vec![Rule { pattern: "x".to_owned(), permission }];
        start.permissions.otherwise = otherwise;
        let mut talk = Talk::new(Dialect::Codex, start);
        talk.say_all(&Goals::default());
        talk.hear(r#"{"id":1,"result":{}}"#);
        talk.say(&Goals::default());
        assert_eq!(
            talk.say(&Goals::default()).unwrap()["params"]["approvalPolicy"],
            policy,
            "{permission:?} {otherwise:?}"
        );
    }
}

const WISH: &str = r#"{"method":"item/commandExecution/requestApproval","id":0,"params":{"threadId":"t","turnId":"u1","itemId":"i","command":"/bin/bash -lc 'rm x'"}}"#;

#[test]
fn a_person_is_asked_and_the_answer_goes_out_once() {
    for (text, decision, denied) in [
        ("allow", "accept", ""),
        ("deny", "decline", " denied commandExecution: rm x"),
        ("rather not", "decline", " denied commandExecution: rm x"),
    ] {
        let mut talk = working();
        talk.hear(WISH);
        assert_eq!(talk.say(&Goals::default()), None);
        let inputs = [answer(7, "0", text), answer(8, "1", "allow"), input(9, "later")];
        let line = talk.dialogue.next(&with(&inputs)).unwrap();
        assert_eq!(line.input.0, 7);
        assert_eq!(talk.say(&with(&inputs)), Some(json!({ "id": 0, "result": { "decision": decision } })));
        assert_eq!(
            talk.say(&with(&inputs)),
            None,
            "what answers another question waits, and so does a prompt"
        );
        talk.hear(r#"{"method":"serverRequest/resolved","params":{"threadId":"t","requestId":0}}"#);
        talk.hear(&turn_ended("completed"));
        let expected = format!("question 0: commandExecution: rm x\nCompleted messages 0 used 0 0 0{denied}");
        assert_eq!(talk.told(), expected);
    }
}

#[test]
fn rules_answer_without_a_person() {
    for (permission, decision) in [(Permission::Allow, "accept"), (Permission::Deny, "decline")] {
        let mut start = Start::default();
        start.permissions.rules = vec![Rule { pattern: "commandExecution: rm *".to_owned(), permission }];
        let mut talk = Talk::new(Dialect::Codex, start);
        open(&mut talk);
        talk.say_all(&Goals::default());
        talk.told();
        talk.hear(WISH);
        assert_eq!(talk.say(&Goals::default()), Some(json!({ "id": 0, "result": { "decision": decision } })));
        assert_eq!(talk.told(), "");
    }
}

#[test]
fn a_question_that_is_withdrawn_is_closed() {
    let mut talk = working();
    talk.hear(WISH);
    talk.hear(r#"{"method":"serverRequest/resolved","params":{"threadId":"t","requestId":0}}"#);
    assert!(talk.told().ends_with("QuestionClosed { question: \"0\" }"));
    assert_eq!(talk.say(&with(&[answer(1, "0", "allow")])), None);
}

#[test]
fn nothing_that_it_asks_is_left_without_an_answer() {
    let profile = json!({ "network": { "enabled": true } });
    let patch = json!({ "fileChanges": { "a.rs": {} } });
    let form = json!({ "serverName": "s", "mode": "form", "message": "May I?", "requestedSchema": { "properties": {} } });
    let fields =
        json!({ "mode": "form", "message": "Who?", "requestedSchema": { "properties": { "name": {} } } });
    let decision = |word: &str| json!({ "decision": word });
    let none = json!({ "permissions": {}, "scope": "turn" });
    for (method, params, allow, deny) in [
        (
            "item/fileChange/requestApproval",
            json!({ "itemId": "i" }),
            decision("accept"),
            decision("decline"),
        ),
        (
            "item/permissions/requestApproval",
            json!({ "permissions": profile }),
            json!({ "permissions": profile, "scope": "turn" }),
            none,
        ),
        (
            "mcpServer/elicitation/request",
            form,
            json!({ "action": "accept", "content": {} }),
            json!({ "action": "decline" }),
        ),
        (
            "mcpServer/elicitation/request",
            fields,
            json!({ "action": "decline" }),
            json!({ "action": "decline" }),
        ),
        ("execCommandApproval", json!({ "command": ["ls"] }), decision("approved"), decision("denied")),
        ("applyPatchApproval", patch, decision("approved"), decision("denied")),
    ] {
        for (permission, result) in [(Permission::Allow, allow), (Permission::Deny, deny)] {
            let mut talk = working_by(permission);
            talk.hear(&json!({ "id": "r", "method": method, "params": params }).to_string());
            assert_eq!(
                talk.say(&Goals::default()),
                Some(json!({ "id": "r", "result": result })),
                "{method} {permission:?}"
            );
            assert_eq!(talk.say(&Goals::default()), None);
        }
    }
    for method in ["item/tool/call", "attestation/generate", "currentTime/read", "what/ever"] {
        let mut talk = working();
        talk.hear(&json!({ "id": 5, "method": method, "params": {} }).to_string());
        assert_eq!(talk.say(&Goals::default()).unwrap()["error"]["code"], -32601, "{method}");
        assert_eq!(talk.say(&Goals::default()), None);
    }
}

#[test]
fn questions_in_words_are_answered_line_by_line() {
    let mut talk = working_by(Permission::Allow);
    let questions = json!([{ "id": "a", "question": "Which?" }, { "id": "b", "question": "Why?" }]);
    let asked =
        json!({ "id": 1, "method": "item/tool/requestUserInput", "params": { "questions": questions } });
    talk.hear(&asked.to_string());
    assert_eq!(talk.told(), "question 1: Which?\nWhy?");
    let answers = json!({ "a": { "answers": ["this"] }, "b": { "answers": ["because\nof that"] } });
    let inputs = [answer(1, "1", "this\nbecause\nof that")];
    assert_eq!(talk.say(&with(&inputs)), Some(json!({ "id": 1, "result": { "answers": answers } })));
}

#[test]
fn an_interrupt_is_sent_once_and_always_followed_by_cleaning_up() {
    let interrupt = Goals { interrupt: true, ..Goals::default() };
    for cleaned in
        [r#"{"id":5,"result":{}}"#, r#"{"id":5,"error":{"code":-32600,"message":"no such method"}}"#]
    {
        let mut talk = working();
        let line = talk.say(&interrupt).unwrap();
        assert_eq!(
            line,
            json!({ "id": 4, "method": "turn/interrupt", "params": { "threadId": "t", "turnId": "u1" } })
        );
        assert_eq!(talk.say(&interrupt), None, "it was said");
        talk.hear(r#"{"id":4,"result":{}}"#);
        talk.hear(&turn_ended("interrupted"));
        assert_eq!(talk.told(), "Aborted messages 0 used 0 0 0");
        assert!(talk.dialogue.is_busy(), "its tools may still run");
        let inputs = [input(1, "go on")];
        let clean =
            json!({ "id": 5, "method": "thread/backgroundTerminals/clean", "params": { "threadId": "t" } });
        assert_eq!(talk.say(&with(&inputs)), Some(clean));
        assert_eq!(talk.say(&with(&inputs)), None, "no prompt before it is clean");
        assert!(talk.dialogue.is_busy());
        talk.hear(cleaned);
        assert!(!talk.dialogue.is_busy());
        assert_eq!(talk.say_all(&with(&inputs)), ["turn/start"]);
    }
}

#[test]
fn an_interrupt_that_comes_too_late_is_cleaned_up_after_too() {
    let interrupt = Goals { interrupt: true, ..Goals::default() };
    let mut talk = working();
    talk.say(&interrupt);
    talk.hear(&turn_ended("completed"));
    talk.hear(r#"{"id":4,"error":{"code":-32600,"message":"no active turn"}}"#);
    assert_eq!(talk.told(), "Completed messages 0 used 0 0 0");
    assert_eq!(talk.say_all(&Goals::default()), ["thread/backgroundTerminals/clean"]);
}

#[test]
fn an_interrupt_waits_until_the_turn_has_started() {
    let mut talk = talk();
    open(&mut talk);
    talk.say_all(&Goals::default());
    let interrupt = Goals { interrupt: true, ..Goals::default() };
    assert_eq!(talk.say(&interrupt), None);
    talk.hear(r#"{"id":3,"result":{"turn":{"id":"u1"}}}"#);
    assert_eq!(talk.say(&interrupt), None, "it has a name, and would say that there is no turn");
    talk.hear(r#"{"method":"turn/started","params":{"threadId":"t","turn":{"id":"u1"}}}"#);
    assert_eq!(talk.say_all(&interrupt), ["turn/interrupt"]);
}

#[test]
fn an_input_waits_for_the_turn_or_goes_into_it() {
    let mut talk = working();
    let inputs = [input(1, "next"), PendingInput { steer: true, ..input(2, "faster") }];
    let line = talk.dialogue.next(&with(&inputs)).unwrap();
    assert_eq!(line.input.0, 2);
    let steer = talk.say(&with(&inputs)).unwrap();
    assert_eq!((&steer["method"], &steer["params"]["expectedTurnId"]), (&json!("turn/steer"), &json!("u1")));
    assert_eq!(steer["params"]["input"][0]["text"], "faster");
    assert_eq!(talk.say(&with(&inputs)), None);
    talk.hear(&turn_ended("completed"));
    let prompt = talk.say(&with(&inputs)).unwrap();
    assert_eq!(
        (&prompt["method"], &prompt["params"]["input"][0]["text"]),
        (&json!("turn/start"), &json!("next"))
    );
    assert_eq!(talk.told(), "Completed messages 0 used 0 0 0\nturn");
}

#[test]
fn an_input_that_came_too_late_for_its_turn_is_the_next_prompt() {
    let mut talk = working();
    let inputs = [PendingInput { steer: true, ..input(2, "faster") }];
    talk.say(&with(&inputs));
    talk.hear(&turn_ended("completed"));
    talk.hear(r#"{"id":4,"error":{"code":-32600,"message":"no active turn to steer"}}"#);
    let prompt = talk.say(&Goals::default()).unwrap();
    assert_eq!(
        (&prompt["method"], &prompt["params"]["input"][0]["text"]),
        (&json!("turn/start"), &json!("faster"))
    );
    assert_eq!(talk.say(&Goals::default()), None);
    talk.hear(r#"{"method":"turn/completed","params":{"threadId":"t","turn":{"status":"completed"}}}"#);
    assert_eq!(talk.say(&Goals::default()), None, "it is said once");
    talk.told();

    let mut talk = working();
    let long = "x".repeat(5_000);
    talk.say(&with(&[PendingInput { steer: true, ..input(2, &long) }]));
    talk.hear(r#"{"id":4,"error":{"code":-32600,"message":"not now"}}"#);
    assert_eq!(talk.told(), "item: an input was not taken into the turn: not now");
}

#[test]
fn a_session_that_cannot_be_had_is_a_failed_turn_and_an_errored_session() {
    for (answers, error) in [
        (&[r#"{"id":1,"error":{"code":-32600,"message":"too old"}}"#][..], "too old"),
        (
            &[r#"{"id":1,"result":{}}"#, r#"{"id":2,"error":{"code":-32600,"message":"no rollout found"}}"#],
            "no rollout found",
        ),
        (&[r#"{"id":1,"result":{}}"#, r#"{"id":2,"result":{}}"#], "codex opened a thread without a name"),
    ] {
        let mut talk = talk();
        for answer in answers {
            talk.say_all(&Goals::default());
            talk.hear(answer);
        }
        let expected = [
            "session without a name",
            "turn",
            &format!("Failed ({error}) messages 0 used 0 0 0"),
            "SessionChanged { state: Errored, background: 0 }",
        ];
        assert_eq!(talk.told(), expected.join("\n"));
        assert_eq!(talk.say(&with(&[input(1, "hello?")])), None);
        assert!(!talk.dialogue.is_busy());
    }
}

#[test]
fn a_turn_that_is_turned_away_has_failed() {
    let mut talk = talk();
    open(&mut talk);
    talk.say_all(&Goals::default());
    talk.hear(r#"{"id":3,"error":{"code":-32600,"message":"thread not found"}}"#);
    assert_eq!(talk.told(), "session t\nturn\nFailed (thread not found) messages 0 used 0 0 0");
    assert_eq!(talk.say_all(&with(&[input(1, "again")])), ["turn/start"]);
}

#[test]
fn an_ending_is_what_codex_says_went_wrong() {
    for (info, ending) in [
        (json!("usageLimitExceeded"), "Limited"),
        (json!("rateLimitExceeded"), "Limited"),
        (json!("contextWindowExceeded"), "Limited"),
        (json!({ "responseTooManyFailedAttempts": { "httpStatusCode": 429 } }), "Limited"),
        (json!("cyberPolicy"), "Refused"),
        (json!("misalignmentPolicyViolation"), "Refused"),
        (json!({ "httpConnectionFailed": { "httpStatusCode": 401 } }), "Failed"),
        (json!("other"), "Failed"),
        (json!(null), "Failed"),
    ] {
        let mut talk = working();
        let error = json!({ "message": "no", "codexErrorInfo": info });
        let retry = json!({ "threadId": "t", "error": error, "willRetry": true });
        talk.hear(&json!({ "method": "error", "params": retry }).to_string());
        assert!(talk.dialogue.is_busy(), "an error that is tried again is no ending");
        let turn = json!({ "id": "u1", "status": "failed", "error": error });
        talk.hear(
            &json!({ "method": "turn/completed", "params": { "threadId": "t", "turn": turn } }).to_string(),
        );
        assert_eq!(talk.told(), format!("{ending} (no) messages 0 used 0 0 0"));
    }
}

#[test]
fn turns_of_other_threads_are_not_its_own_and_one_it_begins_itself_is() {
    let mut talk = working();
    talk.hear(r#"{"method":"turn/started","params":{"threadId":"child","turn":{"id":"c"}}}"#);
    talk.hear(
        r#"{"method":"turn/completed","params":{"threadId":"child","turn":{"id":"c","status":"completed"}}}"#,
    );
    let used =
        r#"{"total":{"inputTokens":500,"outputTokens":50},"last":{"inputTokens":100,"outputTokens":10}}"#;
    talk.hear(&format!(r#"{{"method":"thread/tokenUsage/updated","params":{{"threadId":"child","turnId":"c","tokenUsage":{used}}}}}"#));
    assert_eq!(talk.told(), "spent 100 10 0", "what they use is used");
    talk.hear(&turn_ended("completed"));
    talk.hear(r#"{"method":"turn/started","params":{"threadId":"t","turn":{"id":"u2"}}}"#);
    assert_eq!(talk.told(), "Completed messages 0 used 100 10 0\nturn");
    assert!(talk.dialogue.is_busy());
}

#[test]
fn a_stop_allows_nothing_and_prompts_for_nothing() {
    let stop = Goals { stop: true, ..Goals::default() };
    let mut talk = working_by(Permission::Allow);
    talk.hear(WISH);
    assert_eq!(talk.say(&stop), Some(json!({ "id": 0, "result": { "decision": "cancel" } })));
    talk.hear(&turn_ended("interrupted"));
    let inputs = [input(1, "more")];
    assert_eq!(talk.say(&Goals { inputs: &inputs, ..stop }), None);
    assert_eq!(Talk::new(Dialect::Codex, Start::default()).say(&stop), None);
}

#[test]
fn a_long_line_and_a_broken_one_pass() {
    let mut talk = working();
    let long = "x".repeat(5 << 20);
    talk.hear(r#"{"method":"item/completed","params":"#);
    talk.hear("\u{0}\u{1}banner");
    let item = json!({ "type": "agentMessage", "text": long });
    talk.hear(
        &json!({ "method": "item/completed", "params": { "threadId": "t", "item": item } }).to_string(),
    );
    assert_eq!(talk.told(), format!("item: {}", "x".repeat(200)));
    assert!(talk.dialogue.store().len() < 1 << 10);
}
