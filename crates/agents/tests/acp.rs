//! ACP: recorded streams of its agents, and what is written to them.

#[expect(dead_code, reason = "each dialect uses its part of it")]
mod common;

use common::{Driver, answer, input};
use lastword_agents::{Goals, Start};
use lastword_core::job::PendingInput;
use lastword_core::question::{Change, Edit};
use lastword_core::report::Signal;
use lastword_core::spec::{Dialect, Permission, Prices, Rule};
use serde_json::json;

/// Returns the signals of a recorded stream, one per line.
fn transcript(stream: &str) -> Vec<String> {
    let mut driver = Driver::new(Dialect::Acp, Start::default());
    driver.play(stream);
    driver.transcript().lines().map(str::to_owned).collect()
}

/// Returns the signals of a recorded stream of a resumed session.
fn resumed_transcript(session: &str, stream: &str, prices: Option<Prices>) -> Vec<String> {
    let resume = Some(session.to_owned());
    let mut driver = Driver::new(Dialect::Acp, Start { resume, prices, ..Start::default() });
    driver.play(stream);
    driver.transcript().lines().map(str::to_owned).collect()
}

fn with(inputs: &[PendingInput]) -> Goals<'_> {
    Goals { inputs, ..Goals::default() }
}

fn driver(start: Start) -> Driver {
    Driver::new(Dialect::Acp, Start { prompt: "do it".to_owned(), cwd: "/w".to_owned(), ..start })
}

/// Returns a driver whose first turn is active.
fn working(otherwise: Permission) -> Driver {
    let mut start = Start::default();
    start.permissions.otherwise = otherwise;
    let mut driver = driver(start);
    assert_eq!(driver.write_all(&Goals::default()), ["initialize"]);
    driver.read(r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}"#);
    assert_eq!(driver.write_all(&Goals::default()), ["session/new"]);
    driver.read(r#"{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}"#);
    assert_eq!(driver.write_all(&Goals::default()), ["session/prompt"]);
    assert_eq!(driver.transcript(), "session s\nturn");
    driver
}

fn ended(reason: &str) -> String {
    json!({ "jsonrpc": "2.0", "id": 3, "result": { "stopReason": reason } }).to_string()
}

#[test]
fn c89_a_permission_request_is_whole_wherever_the_agent_puts_it() {
    let long = format!("make\n{}rm -rf /", "\n".repeat(300));
    let diff =
        |path: &str, text: &str| json!({ "type": "diff", "path": path, "oldText": "", "newText": text });
    let said = |text: &str| json!({ "type": "content", "content": { "type": "text", "text": text } });
    let edit =
        |path: &str, text: &str| Edit { path: path.to_owned(), change: Change::Write(text.to_owned()) };
    for (call, request, edits, lacks) in [
        // goose cuts its title; gemini has nothing but a title.
        (
            json!({ "kind": "other", "title": "make…", "rawInput": { "command": long } }),
            long.as_str(),
            vec![],
            false,
        ),
        (json!({ "kind": "execute", "title": long }), long.as_str(), vec![], false),
        (
            json!({ "kind": "execute", "title": "ls", "content": [said("[current working directory /w]")] }),
            "ls\n\n[current working directory /w]",
            vec![],
            false,
        ),
        (
            json!({ "kind": "edit", "title": "a", "content": [diff("a", "x\n"), diff("b", "y\n")], "rawInput": { "filepath": "a" } }),
            "write a\n+x\n\nwrite b\n+y\n",
            vec![edit("a", "x\n"), edit("b", "y\n")],
            false,
        ),
        // Nothing that stands beside a change is left out.
        (
            json!({ "kind": "edit", "content": [diff("a", "x\n"), said("and more"), { "type": "diff", "path": "b" }], "rawInput": { "script": "rm" } }),
            "write a\n+x\n\nand more\n\n{\"path\":\"b\",\"type\":\"diff\"}\n\nscript: \"rm\"",
            vec![edit("a", "x\n")],
            false,
        ),
        (
            json!({ "kind": "execute", "title": "ls", "rawInput": ["rm", "-rf"] }),
            "[\n  \"rm\",\n  \"-rf\"\n]",
            vec![],
            false,
        ),
        (
            json!({ "kind": "other", "title": "write", "rawInput": { "path": "a", "content": "x" } }),
            "write a\n+x\n",
            vec![edit("a", "x")],
            false,
        ),
        (
            json!({ "kind": "other", "title": "book (air MCP Server)", "content": [said("{\"to\":\"Rome\"}")] }),
            "book (air MCP Server)\n\n{\"to\":\"Rome\"}",
            vec![],
            false,
        ),
        // opencode says what a tool is to do once it may.
        (json!({ "kind": "other", "title": "air_book", "rawInput": {} }), "air_book", vec![], true),
    ] {
        let mut driver = working(Permission::Ask);
        let line = json!({ "id": 1, "method": "session/request_permission", "params": { "toolCall": call } });
        let heard = driver.dialogue.read(format!("{line}\n").as_bytes());
        let asked = heard.into_iter().find_map(|heard| match heard.signal {
            Signal::QuestionAsked { ask, edits, .. } => Some((ask, edits)),
            _ => None,
        });
        let (ask, shown) = asked.expect("it asks");
        assert_eq!((ask.request.as_str(), shown, !ask.lacks.is_empty()), (request, edits, lacks), "{call}");
    }
}

#[test]
fn goose_session_with_an_error_message() {
    let error = "Ran into this error: Server error: Server error (500 Internal Server Error) at \
                 http://127.0.0.1:18080/v1/chat/completions: fake error 500.";
    let expected = [
        "session 20261114_2",
        "turn",
        "tool",
        "tool done",
        "item: shell · echo hi-from-tool",
        "spent 0 0 2770",
        "spent 0 0 2770",
        "item: hello world",
        "spent 1234 56 0",
        "Completed messages 2 used 1234 56 5540",
        "turn",
        "Aborted messages 1 used 0 0 0",
        "turn",
        "tool",
        "Aborted messages 1 used 0 0 0",
        "turn",
        &format!("item: {error}"),
        &format!("Failed ({error}) messages 2 used 0 0 0"),
    ];
    assert_eq!(transcript(include_str!("streams/goose-acp.jsonl")), expected);
}

#[test]
fn an_error_message_that_cost_something_is_an_answer() {
    let stream = include_str!("streams/goose-acp.jsonl");
    let last = stream.rfind("\"cost\":{\"amount\":0.00554").unwrap();
    let paid = format!("{}\"cost\":{{\"amount\":0.00999{}", &stream[..last], &stream[last + 24..]);
    let lines = transcript(&paid);
    assert_eq!(lines.last().unwrap(), "Completed messages 2 used 1234 56 4450", "{lines:?}");
}

/// A usage update follows a message of the model; a message of the agent itself costs nothing, whatever the turn cost before.
#[test]
fn an_error_message_after_a_tool_is_a_failure_if_it_cost_nothing() {
    let update = |update: serde_json::Value| {
        json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": "s", "update": update } })
            .to_string()
    };
    let costs = |used: u64, amount: f64| {
        update(
            json!({ "sessionUpdate": "usage_update", "used": used, "cost": { "amount": amount, "currency": "USD" } }),
        )
    };
    let says = |text: &str| {
        update(json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } }))
    };
    let tool = |status: &str| {
        update(
            json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t", "title": "ls", "status": status }),
        )
    };
    let ending = |text: &str, after: &str| {
        let mut driver = working(Permission::Allow);
        for line in [
            &tool("in_progress"),
            &tool("completed"),
            &costs(1020, 0.0027),
            &says(text),
            after,
            &ended("end_turn"),
        ] {
            driver.read(line);
        }
        driver
            .transcript()
            .lines()
            .last()
            .unwrap_or_default()
            .split(' ')
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    let error = "Ran into this error: Bad request (400).";
    assert_eq!(ending(error, &costs(1020, 0.0027)), "Failed");
    assert_eq!(ending(error, &costs(1100, 0.0027)), "Completed", "the model has no price");
    assert_eq!(ending(error, &costs(1020, 0.0054)), "Completed");
    assert_eq!(ending("All is well.", &costs(1020, 0.0027)), "Completed");
    assert_eq!(ending("Error: the model's own words", &costs(1020, 0.0027)), "Completed");
    assert_eq!(ending(error, "{}"), "Completed", "no usage was reported");
}

#[test]
fn codex_acp_reports_a_failed_model_apart_from_its_messages() {
    let lines = transcript(include_str!("streams/codex-acp.jsonl"));
    let endings: Vec<&str> =
        lines.iter().map(String::as_str).filter(|line| line.contains(" messages ")).collect();
    let expected = [
        "Completed messages 3 used 2468 112 0",
        "Aborted messages 2 used 0 0 0",
        "Aborted messages 2 used 1000 20 0",
        "Failed (We’re currently experiencing high demand, which may cause temporary errors.) messages 2 used 0 0 0",
    ];
    assert_eq!(endings, expected);
}

#[test]
fn copilot_reports_usage_of_the_session_and_its_error_message_is_a_failure() {
    let lines = transcript(include_str!("streams/copilot-acp.jsonl"));
    let endings: Vec<&str> =
        lines.iter().map(String::as_str).filter(|line| line.contains(" messages ")).collect();
    let expected = [
        "Completed messages 2 used 2468 112 0",
        "Aborted messages 1 used 0 0 0",
        "Aborted messages 1 used 1000 20 0",
        "Failed (Error: Failed to get response from the AI model; retried 5 times (total retry wait time: 14.57 seconds) \
         Last error: 500 fake error 500) messages 2 used 0 0 0",
    ];
    assert_eq!(endings, expected);
}

#[test]
fn an_error_reply_to_a_prompt_is_a_failure() {
    let lines = transcript(include_str!("streams/codex-acp-zed.jsonl"));
    let error = "Internal error: We're currently experiencing high demand, which may cause temporary errors.";
    assert_eq!(lines.last().unwrap(), &format!("Failed ({error}) messages 2 used 0 0 0"));
}

#[test]
fn gemini_session_with_usage() {
    let expected = [
        "session fecda2fb-b273-4cf0-a834-65e3125ff4cd",
        "turn",
        "tool",
        "tool done",
        "item: echo hi-from-tool",
        "item: hello world",
        "spent 2468 112 0",
        "Completed messages 2 used 2468 112 0",
        "turn",
        "Aborted messages 1 used 0 0 0",
        "turn",
        "tool",
        "tool done",
        "item: sleep 3333",
        "Aborted messages 1 used 0 0 0",
        "turn",
    ];
    assert_eq!(transcript(include_str!("streams/gemini-acp.jsonl")), expected);
}

#[test]
fn claude_session_over_acp_with_its_cost() {
    let expected = [
        "session ae8dc6f9-52c6-47b7-b1a9-30a2ecf74b74",
        "turn",
        "tool",
        "tool done",
        "item: echo hi-from-tool",
        "spent 0 0 18588",
        "item: hello world",
        "spent 3868 112 0",
        "Completed messages 2 used 3868 112 18588",
        "turn",
        "Aborted messages 1 used 0 0 0",
        "turn",
        "tool",
        "tool done",
        "item: sleep 3333: failed",
        "spent 0 0 8800",
        "item: done.",
        "spent 2000 40 0",
        "Completed messages 2 used 2000 40 8800",
        "turn",
    ];
    assert_eq!(transcript(include_str!("streams/claude-agent-acp.jsonl")), expected);
}

#[test]
fn replayed_history_yields_no_signals() {
    let goose = resumed_transcript("20261115_2", include_str!("streams/goose-acp-load.jsonl"), None);
    let expected = [
        "session 20261115_2 from 20261115_2",
        "turn",
        "spent 0 0 2700",
        "item: loaded fine",
        "spent 1000 20 0",
        "Completed messages 2 used 1000 20 2700",
    ];
    assert_eq!(goose, expected);
    // These report the cost of the session at the end of a turn, so how much of it is new is unknown. Prices help.
    let expected = |money: u64| {
        [
            "session s from s".to_owned(),
            "turn".to_owned(),
            "item: loaded fine".to_owned(),
            format!("spent 1000 20 {money}"),
            format!("Completed messages 2 used 1000 20 {money}"),
        ]
    };
    let prices = Some(Prices { tokens_in: 1_000_000, cached: 0, tokens_out: 2_000_000, ..Prices::default() });
    for stream in
        [include_str!("streams/opencode-acp-load.jsonl"), include_str!("streams/claude-agent-acp-load.jsonl")]
    {
        assert_eq!(resumed_transcript("s", stream, None), expected(0));
        assert_eq!(resumed_transcript("s", stream, prices), expected(1_040));
    }
    let qwen = resumed_transcript("s", include_str!("streams/qwen-acp-load.jsonl"), None);
    assert_eq!(qwen[2..], ["spent 1000 20 0", "item: loaded fine", "Completed messages 2 used 1000 20 0"]);
}

#[test]
fn a_failed_session_load_is_a_failed_turn() {
    let stream = include_str!("streams/gemini-acp-load.jsonl");
    let load = stream.split_inclusive('\n').take(4).collect::<String>();
    let lines = resumed_transcript("b554ba39", &load, None);
    assert_eq!(lines[..2], ["session without a name", "turn"]);
    assert!(lines[2].starts_with("Failed (Internal error: Invalid session identifier"), "{lines:?}");
    assert_eq!(lines.last().unwrap(), "SessionChanged { state: Errored, background: 0 }");
}

#[test]
fn permission_requests_are_answered_by_option_kind() {
    for (agent, stream, allow, deny) in [
        ("goose", include_str!("streams/goose-acp-permission.jsonl"), "allow_once", "reject_once"),
        ("opencode", include_str!("streams/opencode-acp-permission.jsonl"), "once", "reject"),
        ("gemini", include_str!("streams/gemini-acp-permission.jsonl"), "proceed_once", "cancel"),
        ("claude", include_str!("streams/claude-agent-acp-permission.jsonl"), "allow-once", "reject"),
        ("copilot", include_str!("streams/copilot-acp-permission.jsonl"), "allow_once", "reject_once"),
    ] {
        let request = stream.lines().find(|line| line.contains("session/request_permission")).unwrap();
        let request: serde_json::Value = serde_json::from_str(&request[2..]).unwrap();
        for (text, option) in [("allow", allow), ("deny", deny)] {
            let mut driver = working(Permission::Ask);
            driver.read(&request.to_string());
            let question = request["id"].as_str().map_or_else(|| request["id"].to_string(), str::to_owned);
            // From here on the tool may run, and not every agent reports its start.
            let asked = format!("question {question}: execute: touch /t/ws/perm1\ntool");
            assert_eq!(driver.transcript(), asked, "{agent}");
            let inputs = [answer(1, &format!("{question}#1"), text)];
            let outcome = json!({ "outcome": { "outcome": "selected", "optionId": option } });
            let line = json!({ "jsonrpc": "2.0", "id": request["id"], "result": outcome });
            assert_eq!(driver.write_next(&with(&inputs)), Some(line), "{agent} {text}");
            assert_eq!(driver.write_next(&with(&inputs)), None);
        }
    }
}

#[test]
fn rules_answer_without_a_person_and_denials_are_recorded() {
    let request = json!({
        "jsonrpc": "2.0", "id": 0, "method": "session/request_permission",
        "params": {
            "toolCall": { "kind": "edit", "title": "Edit it", "rawInput": { "file_path": "/etc/passwd" } },
            "options": [{ "optionId": "y", "kind": "allow_always" }, { "optionId": "n", "kind": "reject_always" }],
        },
    });
    for (permission, option, denied) in
        [(Permission::Allow, "y", ""), (Permission::Deny, "n", " denied edit: /etc/passwd")]
    {
        let mut driver = working(Permission::Ask);
        driver.start.permissions.rules = vec![Rule { pattern: "edit: /etc/*".to_owned(), permission }];
        let stored = driver.dialogue.store();
        driver.dialogue = lastword_agents::Dialogue::restored(driver.start.clone(), &stored).unwrap();
        driver.read(&request.to_string());
        let line = driver.write_next(&Goals::default()).unwrap();
        assert_eq!(line["result"]["outcome"], json!({ "outcome": "selected", "optionId": option }));
        driver.read(&ended("end_turn"));
        assert_eq!(driver.transcript(), format!("Completed messages 1 used 0 0 0{denied}"));
    }
}

#[test]
fn a_cancel_is_sent_once_and_cancels_open_requests() {
    let interrupt = Goals { interrupt: true, ..Goals::default() };
    let request = |id: u64| json!({ "id": id, "method": "session/request_permission", "params": { "toolCall": { "title": "x" } } });
    let mut driver = working(Permission::Ask);
    driver.read(&request(7).to_string());
    let cancel = json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": "s" } });
    assert_eq!(driver.write_next(&interrupt), Some(cancel));
    let cancelled = json!({ "outcome": { "outcome": "cancelled" } });
    let withdrawn = |id: u64| Some(json!({ "jsonrpc": "2.0", "id": id, "result": cancelled }));
    assert_eq!(driver.write_next(&interrupt), withdrawn(7));
    assert_eq!(driver.write_next(&interrupt), None);
    driver.read(&request(8).to_string());
    assert_eq!(driver.write_next(&interrupt), withdrawn(8), "requests after the interrupt too");
    assert!(driver.dialogue.is_busy());
    driver.read(&ended("cancelled"));
    assert!(!driver.dialogue.is_busy());
    assert_eq!(driver.transcript(), "question 7: other: x\nAborted messages 1 used 0 0 0");
}

#[test]
fn the_handshake_offers_no_capabilities_and_ends_with_the_prompt() {
    let mut driver = driver(Start::default());
    let hello = driver.write_next(&Goals::default()).unwrap();
    assert_eq!((&hello["jsonrpc"], &hello["params"]["protocolVersion"]), (&json!("2.0"), &json!(1)));
    let fs = json!({ "readTextFile": false, "writeTextFile": false });
    assert_eq!(hello["params"]["clientCapabilities"], json!({ "fs": fs, "terminal": false }));
    assert_eq!(driver.write_next(&Goals::default()), None);
    driver.read(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    let new = driver.write_next(&Goals::default()).unwrap();
    assert_eq!(
        (&new["method"], &new["params"]),
        (&json!("session/new"), &json!({ "cwd": "/w", "mcpServers": [] }))
    );
    driver.read(r#"{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}"#);
    let prompt = driver.write_next(&Goals::default()).unwrap();
    let text = json!([{ "type": "text", "text": "do it" }]);
    assert_eq!(
        (&prompt["method"], &prompt["params"]),
        (&json!("session/prompt"), &json!({ "sessionId": "s", "prompt": text }))
    );
    let inputs = [PendingInput { steer: true, ..input(1, "more") }];
    assert_eq!(driver.write_next(&with(&inputs)), None, "ACP agents cannot be steered");
    driver.read(&ended("end_turn"));
    assert_eq!(driver.dialogue.next(&with(&inputs)).unwrap().input.0, 1);
    assert_eq!(driver.write_all(&with(&inputs)), ["session/prompt"]);
}

#[test]
fn a_session_is_loaded_only_if_the_agent_supports_it() {
    let resume = || Start { resume: Some("old".to_owned()), ..Start::default() };
    let mut able = driver(resume());
    able.write_next(&Goals::default());
    able.read(r#"{"id":1,"result":{"agentCapabilities":{"loadSession":true}}}"#);
    let load = able.write_next(&Goals::default()).unwrap();
    assert_eq!((&load["method"], &load["params"]["sessionId"]), (&json!("session/load"), &json!("old")));

    let mut unable = driver(resume());
    unable.write_next(&Goals::default());
    unable.read(r#"{"id":1,"result":{}}"#);
    assert!(unable.transcript().contains("Failed (this agent cannot resume a conversation)"));
    assert_eq!(unable.write_next(&Goals::default()), None);
}

/// Returns a driver that loads a session with these parts, of which what follows `m2` is to be forgotten.
fn loading(parts: &[(&str, &str, u64)]) -> Driver {
    let mut driver = driver(Start {
        resume: Some("old".to_owned()),
        forget_after: Some("m2".to_owned()),
        rewind: Some("_goose/truncate".to_owned()),
        ..Start::default()
    });
    driver.write_next(&Goals::default());
    driver.read(r#"{"jsonrpc":"2.0","id":1,"result":{"agentCapabilities":{"loadSession":true}}}"#);
    driver.write_next(&Goals::default());
    for (kind, name, created) in parts {
        let meta = json!({ "goose": { "messageId": name, "created": created } });
        let update =
            json!({ "sessionUpdate": kind, "content": { "type": "text", "text": "x" }, "_meta": meta });
        let params = json!({ "sessionId": "old", "update": update });
        driver.read(&json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }).to_string());
    }
    driver.read(r#"{"jsonrpc":"2.0","id":2,"result":{}}"#);
    driver
}

const KEPT: [(&str, &str, u64); 2] = [("user_message_chunk", "m1", 10), ("agent_message_chunk", "m2", 12)];

#[test]
fn c91_what_follows_the_last_completed_turn_is_cut_before_the_prompt() {
    let ghost = [("user_message_chunk", "m3", 13), ("agent_message_chunk", "m4", 14)];
    let mut driver = loading(&[&KEPT[..], &ghost].concat());
    assert_eq!(driver.transcript(), "", "the session begins when it is cut");
    let cut = driver.write_next(&Goals::default()).unwrap();
    assert_eq!(cut["method"], "_goose/truncate");
    assert_eq!(cut["params"], json!({ "sessionId": "old", "truncateFrom": 13 }));
    assert_eq!(driver.write_next(&Goals::default()), None);
    driver.read(r#"{"jsonrpc":"2.0","id":3,"result":{}}"#);
    assert_eq!(driver.write_all(&Goals::default()), ["session/prompt"]);
    assert_eq!(driver.transcript(), "session old from old\nturn");

    let mut clean = loading(&KEPT);
    assert_eq!(clean.write_all(&Goals::default()), ["session/prompt"]);
}

#[test]
fn c91_what_cannot_be_cut_is_said_and_the_model_is_asked_nothing() {
    let mut same_second = loading(&[&KEPT[..], &[("user_message_chunk", "m3", 12)]].concat());
    let said = same_second.transcript();
    assert!(said.contains("cannot forget the turn that did not complete: it began in the second"), "{said}");
    assert!(said.contains("--keep-unfinished"), "{said}");
    assert_eq!(same_second.write_next(&Goals::default()), None);
    let mut unknown = loading(&[("user_message_chunk", "m3", 13)]);
    assert!(unknown.transcript().contains("is not in the agent's record"));
    assert_eq!(unknown.write_next(&Goals::default()), None);
}

#[test]
fn a_missing_login_is_named_as_the_error() {
    let mut driver = driver(Start::default());
    driver.write_next(&Goals::default());
    driver.read(r#"{"id":1,"result":{}}"#);
    driver.write_next(&Goals::default());
    driver.read(r#"{"id":2,"error":{"code":-32000,"message":"Authentication required"}}"#);
    let expected = [
        "session without a name",
        "turn",
        "Failed (the agent is not logged in: Authentication required) messages 0 used 0 0 0",
        "SessionChanged { state: Errored, background: 0 }",
    ];
    assert_eq!(driver.transcript(), expected.join("\n"));
}

#[test]
fn stop_reasons_map_to_turn_endings() {
    for (reason, ending) in [
        ("end_turn", "Completed"),
        ("max_tokens", "Limited (max tokens)"),
        ("max_turn_requests", "Limited (max turn requests)"),
        ("refusal", "Refused"),
        ("cancelled", "Aborted"),
        ("tired", "Failed (the turn ended with stop reason `tired`)"),
    ] {
        let mut driver = working(Permission::Ask);
        driver.read(&ended(reason));
        assert_eq!(driver.transcript(), format!("{ending} messages 1 used 0 0 0"));
    }
}

#[test]
fn editor_requests_are_refused() {
    for method in ["fs/read_text_file", "fs/write_text_file", "terminal/create", "what/ever"] {
        let mut driver = working(Permission::Allow);
        driver.read(&json!({ "jsonrpc": "2.0", "id": 9, "method": method, "params": {} }).to_string());
        let line = driver.write_next(&Goals::default()).unwrap();
        assert_eq!((&line["id"], &line["error"]["code"]), (&json!(9), &json!(-32601)), "{method}");
        assert_eq!(driver.write_next(&Goals::default()), None);
    }
}

#[test]
fn while_stopping_nothing_is_allowed_or_prompted() {
    let stop = Goals { stop: true, ..Goals::default() };
    let mut driver = working(Permission::Allow);
    let option = json!({ "optionId": "y", "kind": "allow_once" });
    let params = json!({ "toolCall": { "title": "x" }, "options": [option] });
    driver.read(&json!({ "id": 0, "method": "session/request_permission", "params": params }).to_string());
    assert_eq!(driver.write_next(&stop).unwrap()["result"]["outcome"]["outcome"], "cancelled");
    driver.read(&ended("end_turn"));
    let inputs = [input(1, "more")];
    assert_eq!(driver.write_next(&Goals { inputs: &inputs, ..stop }), None);
}

#[test]
fn every_request_is_answered_once_however_many_are_open() {
    let request = |id: u64| {
        let options =
            json!([{ "optionId": "y", "kind": "allow_once" }, { "optionId": "n", "kind": "reject_once" }]);
        let params = json!({ "toolCall": { "kind": "execute", "title": "x" }, "options": options });
        json!({ "id": id, "method": "session/request_permission", "params": params }).to_string()
    };
    let said = |line: serde_json::Value| {
        (line["id"].as_u64().unwrap(), line["result"]["outcome"]["optionId"].as_str().unwrap().to_owned())
    };
    for (permission, option, asked) in
        [(Permission::Allow, "y", 0), (Permission::Deny, "n", 0), (Permission::Ask, "n", 64)]
    {
        let mut driver = working(permission);
        (100..300).for_each(|id| drop(driver.read(&request(id))));
        let questions = driver.transcript().lines().filter(|line| line.starts_with("question ")).count();
        assert_eq!(questions, asked, "{permission:?}");
        let mut answered: Vec<(u64, String)> =
            std::iter::from_fn(|| driver.write_next(&Goals::default())).map(said).collect();
        assert!(answered.iter().all(|(_, chosen)| chosen == option), "{permission:?}: {answered:?}");
        for id in 100..100 + asked as u64 {
            let inputs = [answer(id as u32, &format!("{id}#{}", id - 99), "allow")];
            let (of, chosen) = said(driver.write_next(&with(&inputs)).unwrap());
            assert_eq!((of, chosen.as_str()), (id, "y"), "every question shown can be answered");
            answered.push((of, chosen));
        }
        let mut ids: Vec<u64> = answered.into_iter().map(|(id, _)| id).collect();
        ids.sort_unstable();
        assert_eq!(ids, (100..300).collect::<Vec<u64>>(), "{permission:?}: once each");
    }
}

#[test]
fn rules_still_allow_while_the_most_questions_are_open() {
    let request = |id: u64, title: &str| {
        let options =
            json!([{ "optionId": "y", "kind": "allow_once" }, { "optionId": "n", "kind": "reject_once" }]);
        let params = json!({ "toolCall": { "kind": "execute", "title": title }, "options": options });
        json!({ "id": id, "method": "session/request_permission", "params": params }).to_string()
    };
    let mut driver = working(Permission::Ask);
    driver.start.permissions.rules =
        vec![Rule { pattern: "execute: free".to_owned(), permission: Permission::Allow }];
    let stored = driver.dialogue.store();
    driver.dialogue = lastword_agents::Dialogue::restored(driver.start.clone(), &stored).unwrap();
    (100..164).for_each(|id| drop(driver.read(&request(id, "x"))));
    driver.read(&request(164, "free"));
    assert_eq!(driver.write_next(&Goals::default()).unwrap()["result"]["outcome"]["optionId"], "y");
    driver.read(&request(165, "x"));
    assert_eq!(
        driver.write_next(&Goals::default()).unwrap()["result"]["outcome"]["optionId"],
        "n",
        "one too many"
    );
}
