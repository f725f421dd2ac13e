//! Codex's app server: recorded streams, and what is written to it.

#[expect(dead_code, reason = "each dialect uses its part of it")]
mod common;

use common::{Driver, answer, input};
use lastword_agents::{Goals, Start};
use lastword_core::job::PendingInput;
use lastword_core::question::{Ask, Reply};
use lastword_core::report::Signal;
use lastword_core::spec::{Dialect, Permission, Prices, Rule};
use serde_json::json;

const STREAM: &str = include_str!("streams/codex-app-server.jsonl");
const RESUMED: &str = include_str!("streams/codex-app-server-resume.jsonl");
const THREAD: &str = "01a1dc57-1192-75c1-8113-e21447f47492";

fn driver() -> Driver {
    Driver::new(
        Dialect::Codex,
        Start { prompt: "do it".to_owned(), cwd: "/w".to_owned(), ..Start::default() },
    )
}

fn with(inputs: &[PendingInput]) -> Goals<'_> {
    Goals { inputs, ..Goals::default() }
}

/// Returns a driver whose first turn is active.
fn working() -> Driver {
    working_with(Permission::Ask)
}

fn working_with(otherwise: Permission) -> Driver {
    let mut start = driver().start;
    start.permissions.otherwise = otherwise;
    let mut driver = Driver::new(Dialect::Codex, start);
    open(&mut driver);
    driver.write_all(&Goals::default());
    driver.read(r#"{"id":3,"result":{"turn":{"id":"u1"}}}"#);
    driver.read(r#"{"method":"turn/started","params":{"threadId":"t","turn":{"id":"u1"}}}"#);
    driver.transcript();
    driver
}

fn open(driver: &mut Driver) {
    assert_eq!(driver.write_all(&Goals::default()), ["initialize"]);
    driver.read(r#"{"id":1,"result":{}}"#);
    assert_eq!(driver.write_all(&Goals::default()), ["initialized", "thread/start"]);
    driver.read(r#"{"id":2,"result":{"thread":{"id":"t"}}}"#);
}

fn turn_ended(status: &str) -> String {
    format!(
        r#"{{"method":"turn/completed","params":{{"threadId":"t","turn":{{"id":"u1","status":"{status}"}}}}}}"#
    )
}

#[test]
fn recorded_session() {
    let mut driver = driver();
    let (first, second) = STREAM.split_at(STREAM.find("> {\"id\":17,").unwrap());
    driver.play(first);
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
        "refused: Overload Unknown",
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
    assert_eq!(driver.transcript(), expected.join("\n"));
    driver.play(second);
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
    assert_eq!(driver.transcript(), expected.join("\n"));
}

#[test]
fn a_resumed_thread_does_not_count_its_earlier_usage() {
    let mut driver = driver();
    driver.start.resume = Some(THREAD.to_owned());
    driver.start.prices =
        Some(Prices { tokens_in: 1_000_000, cached: 0, tokens_out: 2_000_000, ..Prices::default() });
    let mut driver = Driver::new(Dialect::Codex, driver.start);
    driver.play(RESUMED);
    let expected = [
        &format!("session {THREAD} from {THREAD}"),
        "turn",
        "item: after resume",
        "spent 1000 20 1040",
        "Completed messages 2 used 1000 20 1040",
    ];
    assert_eq!(driver.transcript(), expected.join("\n"));
}

#[test]
fn the_handshake_is_written_once_and_ends_with_the_prompt() {
    let mut start = driver().start;
    start.permissions.otherwise = Permission::Allow;
    let mut driver = Driver::new(Dialect::Codex, start);
    let hello = driver.write_next(&Goals::default()).unwrap();
    assert_eq!(
        (&hello["method"], &hello["params"]["clientInfo"]["name"]),
        (&json!("initialize"), &json!("lastword"))
    );
    assert_eq!(hello["params"]["capabilities"], json!({ "experimentalApi": true }));
    assert_eq!(driver.write_next(&Goals::default()), None, "it waits for the reply");
    driver.read(r#"{"id":1,"result":{}}"#);
    assert_eq!(driver.write_next(&Goals::default()), Some(json!({ "method": "initialized" })));
    let thread = json!({ "id": 2, "method": "thread/start", "params": { "cwd": "/w" } });
    assert_eq!(driver.write_next(&Goals::default()), Some(thread), "the user's own approval policy applies");
    driver.read(r#"{"id":2,"result":{"thread":{"id":"t"}}}"#);
    let input = json!([{ "type": "text", "text": "do it" }]);
    let prompt = json!({ "id": 3, "method": "turn/start", "params": { "threadId": "t", "input": input } });
    assert!(!driver.dialogue.is_busy());
    assert_eq!(driver.write_next(&Goals::default()), Some(prompt));
    assert!(driver.dialogue.is_busy());
    assert_eq!(driver.write_next(&Goals::default()), None);
    assert_eq!(driver.transcript(), "session t\nturn");
}

#[test]
fn a_thread_is_resumed_without_its_history() {
    let mut start = Start { resume: Some("t".to_owned()), cwd: "/w".to_owned(), ..Start::default() };
    start.permissions.otherwise = Permission::Allow;
    let mut driver = Driver::new(Dialect::Codex, start);
    driver.write_all(&Goals::default());
    driver.read(r#"{"id":1,"result":{}}"#);
    driver.write_next(&Goals::default());
    let resume = driver.write_next(&Goals::default()).unwrap();
    assert_eq!(resume["method"], "thread/resume");
    assert_eq!(resume["params"], json!({ "threadId": "t", "cwd": "/w", "excludeTurns": true }));
}

#[test]
fn rules_make_codex_ask_unless_everything_is_allowed() {
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
        let mut driver = Driver::new(Dialect::Codex, start);
        driver.write_all(&Goals::default());
        driver.read(r#"{"id":1,"result":{}}"#);
        driver.write_next(&Goals::default());
        assert_eq!(
            driver.write_next(&Goals::default()).unwrap()["params"]["approvalPolicy"],
            policy,
            "{permission:?} {otherwise:?}"
        );
    }
}

const WISH: &str = r#"{"method":"item/commandExecution/requestApproval","id":0,"params":{"threadId":"t","turnId":"u1","itemId":"i","command":"/bin/bash -lc 'rm x'"}}"#;

#[test]
fn a_question_is_asked_and_its_answer_written_once() {
    for (text, decision, denied) in [
        ("allow", "accept", ""),
        ("deny", "decline", " denied commandExecution: rm x"),
        ("rather not", "decline", " denied commandExecution: rm x"),
    ] {
        let mut driver = working();
        driver.read(WISH);
        assert_eq!(driver.write_next(&Goals::default()), None);
        let inputs = [answer(7, "0#1", text), answer(8, "1#2", "allow"), input(9, "later")];
        let line = driver.dialogue.next(&with(&inputs)).unwrap();
        assert_eq!(line.input.0, 7);
        assert_eq!(
            driver.write_next(&with(&inputs)),
            Some(json!({ "id": 0, "result": { "decision": decision } }))
        );
        assert_eq!(
            driver.write_next(&with(&inputs)),
            None,
            "what answers another question waits, and so does a prompt"
        );
        driver.read(r#"{"method":"serverRequest/resolved","params":{"threadId":"t","requestId":0}}"#);
        driver.read(&turn_ended("completed"));
        let expected = format!("question 0: commandExecution: rm x\nCompleted messages 0 used 0 0 0{denied}");
        assert_eq!(driver.transcript(), expected);
    }
}

#[test]
fn rules_answer_without_a_person() {
    for (permission, decision) in [(Permission::Allow, "accept"), (Permission::Deny, "decline")] {
        let mut start = Start::default();
        start.permissions.rules = vec![Rule { pattern: "commandExecution: rm *".to_owned(), permission }];
        let mut driver = Driver::new(Dialect::Codex, start);
        open(&mut driver);
        driver.write_all(&Goals::default());
        driver.transcript();
        driver.read(WISH);
        assert_eq!(
            driver.write_next(&Goals::default()),
            Some(json!({ "id": 0, "result": { "decision": decision } }))
        );
        assert_eq!(driver.transcript(), "");
    }
}

#[test]
fn a_withdrawn_question_is_closed() {
    let mut driver = working();
    driver.read(WISH);
    driver.read(r#"{"method":"serverRequest/resolved","params":{"threadId":"t","requestId":0}}"#);
    assert!(driver.transcript().ends_with("QuestionClosed { question: \"0#1\" }"));
    assert_eq!(driver.write_next(&with(&[answer(1, "0#1", "allow")])), None);
}

#[test]
fn every_kind_of_request_is_answered() {
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
            let mut driver = working_with(permission);
            driver.read(&json!({ "id": "r", "method": method, "params": params }).to_string());
            assert_eq!(
                driver.write_next(&Goals::default()),
                Some(json!({ "id": "r", "result": result })),
                "{method} {permission:?}"
            );
            assert_eq!(driver.write_next(&Goals::default()), None);
        }
    }
    for method in ["item/tool/call", "attestation/generate", "currentTime/read", "what/ever"] {
        let mut driver = working();
        driver.read(&json!({ "id": 5, "method": method, "params": {} }).to_string());
        assert_eq!(driver.write_next(&Goals::default()).unwrap()["error"]["code"], -32601, "{method}");
        assert_eq!(driver.write_next(&Goals::default()), None);
    }
}

#[test]
fn several_questions_have_an_answer_each() {
    let mut driver = working_with(Permission::Allow);
    let questions = json!([{ "id": "a", "question": "Which?" }, { "id": "b", "question": "Why?" }]);
    let asked =
        json!({ "id": 1, "method": "item/tool/requestUserInput", "params": { "questions": questions } });
    driver.read(&asked.to_string());
    assert_eq!(driver.transcript(), "question 1: Which?; Why?");
    let answers = json!({ "a": { "answers": ["this"] }, "b": { "answers": ["because\nof that"] } });
    let words = Reply::Words(vec!["this".to_owned(), "because\nof that".to_owned()]);
    let inputs = [PendingInput { reply: Some(words), ..answer(1, "1#1", "") }];
    assert_eq!(driver.write_next(&with(&inputs)), Some(json!({ "id": 1, "result": { "answers": answers } })));
}

#[test]
fn c89_a_file_change_is_shown_with_its_diff() {
    let mut driver = working();
    let diff = "@@ -2,2 +2,2 @@\n two\n-three\n+THREE\n";
    let changes = json!([
        { "path": "/w/a", "kind": { "type": "update", "move_path": "/w/b" }, "diff": diff },
        { "path": "/w/c", "kind": { "type": "add" }, "diff": "new" },
    ]);
    let item = json!({ "type": "fileChange", "id": "i1", "changes": changes });
    driver.read(&json!({ "method": "item/started", "params": { "item": item } }).to_string());
    driver.transcript();
    let request = |id: u64, item: &str| {
        let params = json!({ "itemId": item, "reason": null });
        json!({ "id": id, "method": "item/fileChange/requestApproval", "params": params }).to_string()
    };
    let ask = asked(&mut driver, &request(1, "i1"));
    assert_eq!(ask.request, format!("update /w/a to /w/b\n{diff}\nadd /w/c\nnew\n"));
    assert_eq!(ask.lacks, "");
    let ask = asked(&mut driver, &request(2, "i2"));
    assert!(ask.lacks.contains("the change"), "{ask:?}");
    // A diff that is too long to be shown is declined.
    let item = json!({ "type": "fileChange", "id": "i3", "changes": [{ "path": "/w/a", "diff": "x".repeat(300_000) }] });
    driver.read(&json!({ "method": "item/started", "params": { "item": item } }).to_string());
    driver.read(&request(3, "i3"));
    assert!(!driver.transcript().contains("question 3"));
    let said = driver.write_next(&Goals::default()).unwrap();
    assert_eq!(said, json!({ "id": 3, "result": { "decision": "decline" } }));
}

#[test]
fn c89_the_arguments_of_a_tool_and_the_folder_of_a_command_are_shown() {
    let mut driver = working();
    let meta = json!({ "tool_params": { "to": "Rome" } });
    let params = json!({ "serverName": "air", "mode": "form", "message": "Book?", "_meta": meta });
    let line = json!({ "id": 1, "method": "mcpServer/elicitation/request", "params": params }).to_string();
    let ask = asked(&mut driver, &line);
    let shown = Ask { exact: String::new(), ..ask.clone() };
    assert_eq!(shown, Ask::permission("mcp air", "Book?\n\n{\n  \"to\": \"Rome\"\n}"));
    assert!(ask.can_be_ruled());
    let params = json!({ "command": "/bin/bash -lc 'make\nrm x'", "cwd": "/w" });
    let line =
        json!({ "id": 2, "method": "item/commandExecution/requestApproval", "params": params }).to_string();
    assert_eq!(asked(&mut driver, &line).request, "make\nrm x\n\ncwd: /w");
}

/// Returns all that the only question of this line asks.
fn asked(driver: &mut Driver, line: &str) -> Ask {
    let signals = driver.dialogue.read(format!("{line}\n").as_bytes()).into_iter().map(|heard| heard.signal);
    let mut asked = signals.filter_map(|signal| match signal {
        Signal::QuestionAsked { ask, .. } => Some(*ask),
        _ => None,
    });
    asked.next_back().expect("it asks")
}

#[test]
fn an_interrupt_is_sent_once_and_followed_by_a_clean_up() {
    let interrupt = Goals { interrupt: true, ..Goals::default() };
    for cleaned in
        [r#"{"id":5,"result":{}}"#, r#"{"id":5,"error":{"code":-32600,"message":"no such method"}}"#]
    {
        let mut driver = working();
        let line = driver.write_next(&interrupt).unwrap();
        assert_eq!(
            line,
            json!({ "id": 4, "method": "turn/interrupt", "params": { "threadId": "t", "turnId": "u1" } })
        );
        assert_eq!(driver.write_next(&interrupt), None, "it was sent already");
        driver.read(r#"{"id":4,"result":{}}"#);
        driver.read(&turn_ended("interrupted"));
        assert_eq!(driver.transcript(), "Aborted messages 0 used 0 0 0");
        assert!(driver.dialogue.is_busy(), "its terminals may still run");
        let inputs = [input(1, "go on")];
        let clean =
            json!({ "id": 5, "method": "thread/backgroundTerminals/clean", "params": { "threadId": "t" } });
        assert_eq!(driver.write_next(&with(&inputs)), Some(clean));
        assert_eq!(driver.write_next(&with(&inputs)), None, "no prompt before the clean-up");
        assert!(driver.dialogue.is_busy());
        driver.read(cleaned);
        assert!(!driver.dialogue.is_busy());
        assert_eq!(driver.write_all(&with(&inputs)), ["turn/start"]);
    }
}

#[test]
fn a_late_interrupt_is_followed_by_a_clean_up_too() {
    let interrupt = Goals { interrupt: true, ..Goals::default() };
    let mut driver = working();
    driver.write_next(&interrupt);
    driver.read(&turn_ended("completed"));
    driver.read(r#"{"id":4,"error":{"code":-32600,"message":"no active turn"}}"#);
    assert_eq!(driver.transcript(), "Completed messages 0 used 0 0 0");
    assert_eq!(driver.write_all(&Goals::default()), ["thread/backgroundTerminals/clean"]);
}

#[test]
fn an_interrupt_waits_until_the_turn_has_started() {
    let mut driver = driver();
    open(&mut driver);
    driver.write_all(&Goals::default());
    let interrupt = Goals { interrupt: true, ..Goals::default() };
    assert_eq!(driver.write_next(&interrupt), None);
    driver.read(r#"{"id":3,"result":{"turn":{"id":"u1"}}}"#);
    assert_eq!(
        driver.write_next(&interrupt),
        None,
        "Codex does not know the turn before it reports its start"
    );
    driver.read(r#"{"method":"turn/started","params":{"threadId":"t","turn":{"id":"u1"}}}"#);
    assert_eq!(driver.write_all(&interrupt), ["turn/interrupt"]);
}

#[test]
fn an_input_waits_for_the_turn_or_steers_it() {
    let mut driver = working();
    let inputs = [input(1, "next"), PendingInput { steer: true, ..input(2, "faster") }];
    let line = driver.dialogue.next(&with(&inputs)).unwrap();
    assert_eq!(line.input.0, 2);
    let steer = driver.write_next(&with(&inputs)).unwrap();
    assert_eq!((&steer["method"], &steer["params"]["expectedTurnId"]), (&json!("turn/steer"), &json!("u1")));
    assert_eq!(steer["params"]["input"][0]["text"], "faster");
    assert_eq!(driver.write_next(&with(&inputs)), None);
    driver.read(&turn_ended("completed"));
    let prompt = driver.write_next(&with(&inputs)).unwrap();
    assert_eq!(
        (&prompt["method"], &prompt["params"]["input"][0]["text"]),
        (&json!("turn/start"), &json!("next"))
    );
    assert_eq!(driver.transcript(), "Completed messages 0 used 0 0 0\nturn");
}

#[test]
fn a_late_steering_input_becomes_the_next_prompt() {
    let mut driver = working();
    let inputs = [PendingInput { steer: true, ..input(2, "faster") }];
    driver.write_next(&with(&inputs));
    driver.read(&turn_ended("completed"));
    driver.read(r#"{"id":4,"error":{"code":-32600,"message":"no active turn to steer"}}"#);
    let prompt = driver.write_next(&Goals::default()).unwrap();
    assert_eq!(
        (&prompt["method"], &prompt["params"]["input"][0]["text"]),
        (&json!("turn/start"), &json!("faster"))
    );
    assert_eq!(driver.write_next(&Goals::default()), None);
    driver.read(r#"{"method":"turn/completed","params":{"threadId":"t","turn":{"status":"completed"}}}"#);
    assert_eq!(driver.write_next(&Goals::default()), None, "it is written once");
    driver.transcript();

    let mut driver = working();
    let long = "x".repeat(5_000);
    driver.write_next(&with(&[PendingInput { steer: true, ..input(2, &long) }]));
    driver.read(r#"{"id":4,"error":{"code":-32600,"message":"not now"}}"#);
    assert_eq!(driver.transcript(), "item: an input was rejected by the turn and lost: not now");
}

#[test]
fn a_failed_handshake_is_a_failed_turn() {
    for (answers, error) in [
        (&[r#"{"id":1,"error":{"code":-32600,"message":"too old"}}"#][..], "too old"),
        (
            &[r#"{"id":1,"result":{}}"#, r#"{"id":2,"error":{"code":-32600,"message":"no rollout found"}}"#],
            "no rollout found",
        ),
        (&[r#"{"id":1,"result":{}}"#, r#"{"id":2,"result":{}}"#], "codex opened a thread without an id"),
    ] {
        let mut driver = driver();
        for answer in answers {
            driver.write_all(&Goals::default());
            driver.read(answer);
        }
        let expected = [
            "session without a name",
            "turn",
            &format!("Failed ({error}) messages 0 used 0 0 0"),
            "SessionChanged { state: Errored, background: 0 }",
        ];
        assert_eq!(driver.transcript(), expected.join("\n"));
        assert_eq!(driver.write_next(&with(&[input(1, "hello?")])), None);
        assert!(!driver.dialogue.is_busy());
    }
}

#[test]
fn a_rejected_turn_failed() {
    let mut driver = driver();
    open(&mut driver);
    driver.write_all(&Goals::default());
    driver.read(r#"{"id":3,"error":{"code":-32600,"message":"thread not found"}}"#);
    assert_eq!(driver.transcript(), "session t\nturn\nFailed (thread not found) messages 0 used 0 0 0");
    assert_eq!(driver.write_all(&with(&[input(1, "again")])), ["turn/start"]);
}

#[test]
fn error_kinds_map_to_turn_endings() {
    for (info, ending) in [
        (json!("usageLimitExceeded"), "refused: Quota Unknown\nLimited"),
        (json!("rateLimitExceeded"), "refused: Overload Unknown\nLimited"),
        (json!("serverOverloaded"), "refused: Overload Unknown\nLimited"),
        (json!("contextWindowExceeded"), "Limited"),
        (
            json!({ "responseTooManyFailedAttempts": { "httpStatusCode": 429 } }),
            "refused: Overload Unknown\nLimited",
        ),
        (json!({ "httpConnectionFailed": { "httpStatusCode": 503 } }), "refused: Overload Unknown\nLimited"),
        (json!("cyberPolicy"), "Refused"),
        (json!("misalignmentPolicyViolation"), "Refused"),
        (json!({ "httpConnectionFailed": { "httpStatusCode": 401 } }), "Failed"),
        (json!("other"), "Failed"),
        (json!(null), "Failed"),
    ] {
        let mut driver = working();
        let error = json!({ "message": "no", "codexErrorInfo": info });
        let retry = json!({ "threadId": "t", "error": error, "willRetry": true });
        driver.read(&json!({ "method": "error", "params": retry }).to_string());
        assert!(driver.dialogue.is_busy(), "an error that is retried does not end the turn");
        let turn = json!({ "id": "u1", "status": "failed", "error": error });
        driver.read(
            &json!({ "method": "turn/completed", "params": { "threadId": "t", "turn": turn } }).to_string(),
        );
        assert_eq!(driver.transcript(), format!("{ending} (no) messages 0 used 0 0 0"));
    }
}

/// The time is in a line of its own: that of the window which is used up.
#[test]
fn c95_the_quota_is_restored_when_its_last_used_up_window_ends() {
    let ends = |windows: serde_json::Value| {
        let mut driver = working();
        let limits = json!({ "rateLimits": windows });
        driver.read(&json!({ "method": "account/rateLimits/updated", "params": limits }).to_string());
        let error = json!({ "message": "no", "codexErrorInfo": "usageLimitExceeded" });
        let turn = json!({ "id": "u1", "status": "failed", "error": error });
        let params = json!({ "threadId": "t", "turn": turn });
        driver.read(&json!({ "method": "turn/completed", "params": params }).to_string());
        driver.transcript().lines().next().unwrap_or_default().to_owned()
    };
    let (used, free) =
        (json!({ "usedPercent": 100, "resetsAt": 50 }), json!({ "usedPercent": 99.5, "resetsAt": 90 }));
    let at = |ms: u64| format!("refused: Quota At(Timestamp({ms}))");
    assert_eq!(ends(json!({ "primary": used, "secondary": free })), at(50_000));
    let both = json!({ "primary": used, "secondary": { "usedPercent": 100, "resetsAt": 70 } });
    assert_eq!(ends(both), at(70_000));
    assert_eq!(ends(json!({ "primary": free, "secondary": null })), "refused: Quota Unknown");
}

#[test]
fn turns_of_sub_agents_are_ignored_and_self_started_ones_count() {
    let mut driver = working();
    driver.read(r#"{"method":"turn/started","params":{"threadId":"child","turn":{"id":"c"}}}"#);
    driver.read(
        r#"{"method":"turn/completed","params":{"threadId":"child","turn":{"id":"c","status":"completed"}}}"#,
    );
    let used =
        r#"{"total":{"inputTokens":500,"outputTokens":50},"last":{"inputTokens":100,"outputTokens":10}}"#;
    driver.read(&format!(r#"{{"method":"thread/tokenUsage/updated","params":{{"threadId":"child","turnId":"c","tokenUsage":{used}}}}}"#));
    assert_eq!(driver.transcript(), "spent 100 10 0", "their usage counts");
    driver.read(&turn_ended("completed"));
    driver.read(r#"{"method":"turn/started","params":{"threadId":"t","turn":{"id":"u2"}}}"#);
    assert_eq!(driver.transcript(), "Completed messages 0 used 100 10 0\nturn");
    assert!(driver.dialogue.is_busy());
}

#[test]
fn while_stopping_nothing_is_allowed_or_prompted() {
    let stop = Goals { stop: true, ..Goals::default() };
    let mut driver = working_with(Permission::Allow);
    driver.read(WISH);
    assert_eq!(driver.write_next(&stop), Some(json!({ "id": 0, "result": { "decision": "cancel" } })));
    driver.read(&turn_ended("interrupted"));
    let inputs = [input(1, "more")];
    assert_eq!(driver.write_next(&Goals { inputs: &inputs, ..stop }), None);
    assert_eq!(Driver::new(Dialect::Codex, Start::default()).write_next(&stop), None);
}

#[test]
fn overlong_and_malformed_lines_are_skipped() {
    let mut driver = working();
    let long = "x".repeat(5 << 20);
    driver.read(r#"{"method":"item/completed","params":"#);
    driver.read("\u{0}\u{1}banner");
    let item = json!({ "type": "agentMessage", "text": long });
    driver.read(
        &json!({ "method": "item/completed", "params": { "threadId": "t", "item": item } }).to_string(),
    );
    assert_eq!(driver.transcript(), format!("item: {}", "x".repeat(200)));
    assert!(driver.dialogue.store().len() < 1 << 10);
}

/// Two requests can look the same: rules compare what the agent sent. Its ids do not count, since they are new each time.
#[test]
fn what_rules_compare_is_the_request_itself() {
    let mut driver = working();
    let mut ask = |number: u32, params: serde_json::Value| {
        let method = "item/commandExecution/requestApproval";
        asked(&mut driver, &json!({ "id": number, "method": method, "params": params }).to_string())
    };
    let plain = ask(1, json!({ "itemId": "a", "command": "ls -l", "cwd": "/tmp" }));
    let again = ask(2, json!({ "itemId": "b", "command": "ls -l", "cwd": "/tmp" }));
    let alike = ask(3, json!({ "itemId": "c", "command": "ls -l\n\ncwd: /tmp" }));
    assert_eq!(plain, again);
    assert!(plain.can_be_ruled() && alike.request == plain.request && alike.exact != plain.exact);
    // A command that is no text is shown as it is, and one that is missing is named.
    let list = ask(4, json!({ "itemId": "d", "command": ["rm", "-rf", "/"], "cwd": "/tmp" }));
    assert!(list.request.starts_with(r#"["rm","-rf","/"]"#), "{}", list.request);
    let none = ask(5, json!({ "itemId": "e", "command": null, "cwd": "/tmp" }));
    assert!(none.lacks.contains("the command") && !none.can_be_ruled());
}
