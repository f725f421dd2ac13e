//! ACP: what the recorded streams of its agents mean, and what is said to them.

#[expect(dead_code, reason = "each dialect uses its part of it")]
mod common;

use common::{Talk, answer, input};
use lastword_agents::{Goals, Start};
use lastword_core::job::PendingInput;
use lastword_core::spec::{Dialect, Permission, Prices, Rule};
use serde_json::json;

/// Returns what a recorded stream tells, a line each.
fn told(stream: &str) -> Vec<String> {
    let mut talk = Talk::new(Dialect::Acp, Start::default());
    talk.play(stream);
    talk.told().lines().map(str::to_owned).collect()
}

/// Returns what a recorded stream tells of a session that was gone on with.
fn told_of(session: &str, stream: &str, prices: Option<Prices>) -> Vec<String> {
    let resume = Some(session.to_owned());
    let mut talk = Talk::new(Dialect::Acp, Start { resume, prices, ..Start::default() });
    talk.play(stream);
    talk.told().lines().map(str::to_owned).collect()
}

fn with(inputs: &[PendingInput]) -> Goals<'_> {
    Goals { inputs, ..Goals::default() }
}

fn talk(start: Start) -> Talk {
    Talk::new(Dialect::Acp, Start { prompt: "do it".to_owned(), cwd: "/w".to_owned(), ..start })
}

/// Returns a talk whose first turn is under way.
fn working(otherwise: Permission) -> Talk {
    let mut start = Start::default();
    start.permissions.otherwise = otherwise;
    let mut talk = talk(start);
    assert_eq!(talk.say_all(&Goals::default()), ["initialize"]);
    talk.hear(r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}"#);
    assert_eq!(talk.say_all(&Goals::default()), ["session/new"]);
    talk.hear(r#"{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}"#);
    assert_eq!(talk.say_all(&Goals::default()), ["session/prompt"]);
    assert_eq!(talk.told(), "session s\nturn");
    talk
}

fn ended(reason: &str) -> String {
    json!({ "jsonrpc": "2.0", "id": 3, "result": { "stopReason": reason } }).to_string()
}

#[test]
fn a_session_of_goose_is_told_turn_by_turn_with_its_error_in_words() {
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
    assert_eq!(told(include_str!("streams/goose-acp.jsonl")), expected);
}

#[test]
fn an_error_in_words_is_an_answer_if_the_model_was_paid_for_it() {
    let stream = include_str!("streams/goose-acp.jsonl");
    let last = stream.rfind("\"cost\":{\"amount\":0.00554").unwrap();
    let paid = format!("{}\"cost\":{{\"amount\":0.00999{}", &stream[..last], &stream[last + 24..]);
    let told = told(&paid);
    assert_eq!(told.last().unwrap(), "Completed messages 2 used 1234 56 4450", "{told:?}");
}

/// The words of a model are followed by what they cost; those of the agent itself cost nothing, whatever the turn has cost before.
#[test]
fn an_error_after_a_tool_is_a_failure_if_it_cost_nothing() {
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
        let mut talk = working(Permission::Allow);
        for line in [
            &tool("in_progress"),
            &tool("completed"),
            &costs(1020, 0.0027),
            &says(text),
            after,
            &ended("end_turn"),
        ] {
            talk.hear(line);
        }
        talk.told().lines().last().unwrap_or_default().split(' ').next().unwrap_or_default().to_owned()
    };
    let error = "Ran into this error: Bad request (400).";
    assert_eq!(ending(error, &costs(1020, 0.0027)), "Failed");
    assert_eq!(ending(error, &costs(1100, 0.0027)), "Completed", "of a model without a price");
    assert_eq!(ending(error, &costs(1020, 0.0054)), "Completed");
    assert_eq!(ending("All is well.", &costs(1020, 0.0027)), "Completed");
    assert_eq!(ending("Error: the model's own words", &costs(1020, 0.0027)), "Completed");
    assert_eq!(ending(error, "{}"), "Completed", "nothing was accounted for");
}

#[test]
fn codex_acp_says_beside_its_message_that_its_model_failed() {
    let told = told(include_str!("streams/codex-acp.jsonl"));
    let endings: Vec<&str> =
        told.iter().map(String::as_str).filter(|line| line.contains(" messages ")).collect();
    let expected = [
        "Completed messages 3 used 2468 112 0",
        "Aborted messages 2 used 0 0 0",
        "Aborted messages 2 used 1000 20 0",
        "Failed (We’re currently experiencing high demand, which may cause temporary errors.) messages 2 used 0 0 0",
    ];
    assert_eq!(endings, expected);
}

#[test]
fn the_account_of_copilot_is_of_the_session_and_its_error_in_words_is_a_failure() {
    let told = told(include_str!("streams/copilot-acp.jsonl"));
    let endings: Vec<&str> =
        told.iter().map(String::as_str).filter(|line| line.contains(" messages ")).collect();
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
fn an_error_in_answer_to_a_prompt_is_a_failure() {
    let told = told(include_str!("streams/codex-acp-zed.jsonl"));
    let error = "Internal error: We're currently experiencing high demand, which may cause temporary errors.";
    assert_eq!(told.last().unwrap(), &format!("Failed ({error}) messages 2 used 0 0 0"));
}

#[test]
fn a_session_of_gemini_and_its_account() {
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
    assert_eq!(told(include_str!("streams/gemini-acp.jsonl")), expected);
}

#[test]
fn a_session_of_claude_over_acp_and_its_money() {
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
    assert_eq!(told(include_str!("streams/claude-agent-acp.jsonl")), expected);
}

#[test]
fn history_is_not_told_again() {
    let goose = told_of("20261115_2", include_str!("streams/goose-acp-load.jsonl"), None);
    let expected = [
        "session 20261115_2 from 20261115_2",
        "turn",
        "spent 0 0 2700",
        "item: loaded fine",
        "spent 1000 20 0",
        "Completed messages 2 used 1000 20 2700",
    ];
    assert_eq!(goose, expected);
    // These say what the session cost when the turn ends, and nobody knows what of it is new. Prices help.
    let expected = |money: u64| {
        [
            "session s from s".to_owned(),
            "turn".to_owned(),
            "item: loaded fine".to_owned(),
            format!("spent 1000 20 {money}"),
            format!("Completed messages 2 used 1000 20 {money}"),
        ]
    };
    let prices = Some(Prices { tokens_in: 1_000_000, cached: 0, tokens_out: 2_000_000 });
    for stream in
        [include_str!("streams/opencode-acp-load.jsonl"), include_str!("streams/claude-agent-acp-load.jsonl")]
    {
        assert_eq!(told_of("s", stream, None), expected(0));
        assert_eq!(told_of("s", stream, prices), expected(1_040));
    }
    let qwen = told_of("s", include_str!("streams/qwen-acp-load.jsonl"), None);
    assert_eq!(qwen[2..], ["spent 1000 20 0", "item: loaded fine", "Completed messages 2 used 1000 20 0"]);
}

#[test]
fn a_session_that_cannot_be_loaded_is_a_failed_turn_and_an_errored_session() {
    let stream = include_str!("streams/gemini-acp-load.jsonl");
    let load = stream.split_inclusive('\n').take(4).collect::<String>();
    let told = told_of("b554ba39", &load, None);
    assert_eq!(told[..2], ["session without a name", "turn"]);
    assert!(told[2].starts_with("Failed (Internal error: Invalid session identifier"), "{told:?}");
    assert_eq!(told.last().unwrap(), "SessionChanged { state: Errored, background: 0 }");
}

#[test]
fn a_permission_of_each_agent_is_answered_by_the_kind_of_its_options() {
    for (agent, stream, allow, deny) in [
        ("goose", include_str!("streams/goose-acp-permission.jsonl"), "allow_once", "reject_once"),
        ("opencode", include_str!("streams/opencode-acp-permission.jsonl"), "once", "reject"),
        ("gemini", include_str!("streams/gemini-acp-permission.jsonl"), "proceed_once", "cancel"),
        ("claude", include_str!("streams/claude-agent-acp-permission.jsonl"), "allow-once", "reject"),
        ("copilot", include_str!("streams/copilot-acp-permission.jsonl"), "allow_once", "reject_once"),
    ] {
        let wish = stream.lines().find(|line| line.contains("session/request_permission")).unwrap();
        let wish: serde_json::Value = serde_json::from_str(&wish[2..]).unwrap();
        for (text, option) in [("allow", allow), ("deny", deny)] {
            let mut talk = working(Permission::Ask);
            talk.hear(&wish.to_string());
            let question = wish["id"].as_str().map_or_else(|| wish["id"].to_string(), str::to_owned);
            // From here on it may run, and not all of them say when it does.
            let asked = format!("question {question}: execute: touch /t/ws/perm1\ntool");
            assert_eq!(talk.told(), asked, "{agent}");
            let inputs = [answer(1, &question, text)];
            let outcome = json!({ "outcome": { "outcome": "selected", "optionId": option } });
            let line = json!({ "jsonrpc": "2.0", "id": wish["id"], "result": outcome });
            assert_eq!(talk.say(&with(&inputs)), Some(line), "{agent} {text}");
            assert_eq!(talk.say(&with(&inputs)), None);
        }
    }
}

#[test]
fn rules_answer_without_a_person_and_a_denial_is_kept() {
    let wish = json!({
        "jsonrpc": "2.0", "id": 0, "method": "session/request_permission",
        "params": {
            "toolCall": { "kind": "edit", "title": "Edit it", "rawInput": { "file_path": "/etc/passwd" } },
            "options": [{ "optionId": "y", "kind": "allow_always" }, { "optionId": "n", "kind": "reject_always" }],
        },
    });
    for (permission, option, denied) in
        [(Permission::Allow, "y", ""), (Permission::Deny, "n", " denied edit: /etc/passwd")]
    {
        let mut talk = working(Permission::Ask);
        talk.start.permissions.rules = vec![Rule { pattern: "edit: /etc/*".to_owned(), permission }];
        let stored = talk.dialogue.store();
        talk.dialogue = lastword_agents::Dialogue::restored(talk.start.clone(), &stored).unwrap();
        talk.hear(&wish.to_string());
        let line = talk.say(&Goals::default()).unwrap();
        assert_eq!(line["result"]["outcome"], json!({ "outcome": "selected", "optionId": option }));
        talk.hear(&ended("end_turn"));
        assert_eq!(talk.told(), format!("Completed messages 1 used 0 0 0{denied}"));
    }
}

#[test]
fn a_cancel_is_sent_once_and_withdraws_what_was_asked() {
    let interrupt = Goals { interrupt: true, ..Goals::default() };
    let wish = |id: u64| json!({ "id": id, "method": "session/request_permission", "params": { "toolCall": { "title": "x" } } });
    let mut talk = working(Permission::Ask);
    talk.hear(&wish(7).to_string());
    let cancel = json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": "s" } });
    assert_eq!(talk.say(&interrupt), Some(cancel));
    let cancelled = json!({ "outcome": { "outcome": "cancelled" } });
    let withdrawn = |id: u64| Some(json!({ "jsonrpc": "2.0", "id": id, "result": cancelled }));
    assert_eq!(talk.say(&interrupt), withdrawn(7));
    assert_eq!(talk.say(&interrupt), None);
    talk.hear(&wish(8).to_string());
    assert_eq!(talk.say(&interrupt), withdrawn(8), "also what it asks after that");
    assert!(talk.dialogue.is_busy());
    talk.hear(&ended("cancelled"));
    assert!(!talk.dialogue.is_busy());
    assert_eq!(talk.told(), "question 7: other: x\nAborted messages 1 used 0 0 0");
}

#[test]
fn the_handshake_offers_nothing_and_leads_to_the_first_prompt() {
    let mut talk = talk(Start::default());
    let hello = talk.say(&Goals::default()).unwrap();
    assert_eq!((&hello["jsonrpc"], &hello["params"]["protocolVersion"]), (&json!("2.0"), &json!(1)));
    let fs = json!({ "readTextFile": false, "writeTextFile": false });
    assert_eq!(hello["params"]["clientCapabilities"], json!({ "fs": fs, "terminal": false }));
    assert_eq!(talk.say(&Goals::default()), None);
    talk.hear(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    let new = talk.say(&Goals::default()).unwrap();
    assert_eq!(
        (&new["method"], &new["params"]),
        (&json!("session/new"), &json!({ "cwd": "/w", "mcpServers": [] }))
    );
    talk.hear(r#"{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}"#);
    let prompt = talk.say(&Goals::default()).unwrap();
    let text = json!([{ "type": "text", "text": "do it" }]);
    assert_eq!(
        (&prompt["method"], &prompt["params"]),
        (&json!("session/prompt"), &json!({ "sessionId": "s", "prompt": text }))
    );
    let inputs = [PendingInput { steer: true, ..input(1, "more") }];
    assert_eq!(talk.say(&with(&inputs)), None, "it cannot be steered");
    talk.hear(&ended("end_turn"));
    assert_eq!(talk.dialogue.next(&with(&inputs)).unwrap().input.0, 1);
    assert_eq!(talk.say_all(&with(&inputs)), ["session/prompt"]);
}

#[test]
fn a_session_is_loaded_only_by_an_agent_that_can() {
    let resume = || Start { resume: Some("old".to_owned()), ..Start::default() };
    let mut able = talk(resume());
    able.say(&Goals::default());
    able.hear(r#"{"id":1,"result":{"agentCapabilities":{"loadSession":true}}}"#);
    let load = able.say(&Goals::default()).unwrap();
    assert_eq!((&load["method"], &load["params"]["sessionId"]), (&json!("session/load"), &json!("old")));

    let mut unable = talk(resume());
    unable.say(&Goals::default());
    unable.hear(r#"{"id":1,"result":{}}"#);
    assert!(unable.told().contains("Failed (this agent cannot go on with an earlier conversation)"));
    assert_eq!(unable.say(&Goals::default()), None);
}

#[test]
fn an_agent_nobody_logged_in_to_says_so() {
    let mut talk = talk(Start::default());
    talk.say(&Goals::default());
    talk.hear(r#"{"id":1,"result":{}}"#);
    talk.say(&Goals::default());
    talk.hear(r#"{"id":2,"error":{"code":-32000,"message":"Authentication required"}}"#);
    let expected = [
        "session without a name",
        "turn",
        "Failed (the agent is not logged in: Authentication required) messages 0 used 0 0 0",
        "SessionChanged { state: Errored, background: 0 }",
    ];
    assert_eq!(talk.told(), expected.join("\n"));
}

#[test]
fn a_turn_ends_as_its_reason_says() {
    for (reason, ending) in [
        ("end_turn", "Completed"),
        ("max_tokens", "Limited (max tokens)"),
        ("max_turn_requests", "Limited (max turn requests)"),
        ("refusal", "Refused"),
        ("cancelled", "Aborted"),
        ("tired", "Failed (its turn ended with `tired`)"),
    ] {
        let mut talk = working(Permission::Ask);
        talk.hear(&ended(reason));
        assert_eq!(talk.told(), format!("{ending} messages 1 used 0 0 0"));
    }
}

#[test]
fn what_it_asks_of_an_editor_is_turned_away() {
    for method in ["fs/read_text_file", "fs/write_text_file", "terminal/create", "what/ever"] {
        let mut talk = working(Permission::Allow);
        talk.hear(&json!({ "jsonrpc": "2.0", "id": 9, "method": method, "params": {} }).to_string());
        let line = talk.say(&Goals::default()).unwrap();
        assert_eq!((&line["id"], &line["error"]["code"]), (&json!(9), &json!(-32601)), "{method}");
        assert_eq!(talk.say(&Goals::default()), None);
    }
}

#[test]
fn a_stop_allows_nothing_and_prompts_for_nothing() {
    let stop = Goals { stop: true, ..Goals::default() };
    let mut talk = working(Permission::Allow);
    let option = json!({ "optionId": "y", "kind": "allow_once" });
    let params = json!({ "toolCall": { "title": "x" }, "options": [option] });
    talk.hear(&json!({ "id": 0, "method": "session/request_permission", "params": params }).to_string());
    assert_eq!(talk.say(&stop).unwrap()["result"]["outcome"]["outcome"], "cancelled");
    talk.hear(&ended("end_turn"));
    let inputs = [input(1, "more")];
    assert_eq!(talk.say(&Goals { inputs: &inputs, ..stop }), None);
}

#[test]
fn however_much_is_asked_at_once_everything_is_answered_once() {
    let wish = |id: u64| {
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
        let mut talk = working(permission);
        (100..300).for_each(|id| drop(talk.hear(&wish(id))));
        let questions = talk.told().lines().filter(|line| line.starts_with("question ")).count();
        assert_eq!(questions, asked, "{permission:?}");
        let mut answered: Vec<(u64, String)> =
            std::iter::from_fn(|| talk.say(&Goals::default())).map(said).collect();
        assert!(answered.iter().all(|(_, chosen)| chosen == option), "{permission:?}: {answered:?}");
        for id in 100..100 + asked as u64 {
            let inputs = [answer(id as u32, &id.to_string(), "allow")];
            let (of, chosen) = said(talk.say(&with(&inputs)).unwrap());
            assert_eq!((of, chosen.as_str()), (id, "y"), "what is shown can be answered");
            answered.push((of, chosen));
        }
        let mut ids: Vec<u64> = answered.into_iter().map(|(id, _)| id).collect();
        ids.sort_unstable();
        assert_eq!(ids, (100..300).collect::<Vec<u64>>(), "{permission:?}: each once");
    }
}

#[test]
fn a_rule_says_yes_also_while_as_much_as_can_be_is_asked() {
    let wish = |id: u64, title: &str| {
        let options =
            json!([{ "optionId": "y", "kind": "allow_once" }, { "optionId": "n", "kind": "reject_once" }]);
        let params = json!({ "toolCall": { "kind": "execute", "title": title }, "options": options });
        json!({ "id": id, "method": "session/request_permission", "params": params }).to_string()
    };
    let mut talk = working(Permission::Ask);
    talk.start.permissions.rules =
        vec![Rule { pattern: "execute: free".to_owned(), permission: Permission::Allow }];
    let stored = talk.dialogue.store();
    talk.dialogue = lastword_agents::Dialogue::restored(talk.start.clone(), &stored).unwrap();
    (100..164).for_each(|id| drop(talk.hear(&wish(id, "x"))));
    talk.hear(&wish(164, "free"));
    assert_eq!(talk.say(&Goals::default()).unwrap()["result"]["outcome"]["optionId"], "y");
    talk.hear(&wish(165, "x"));
    assert_eq!(talk.say(&Goals::default()).unwrap()["result"]["outcome"]["optionId"], "n", "one too many");
}
