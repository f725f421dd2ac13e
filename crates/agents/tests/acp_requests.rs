//! ACP: what a request for permission is about when the agent said it before, and the choice of an effort.

#[expect(dead_code, reason = "each dialect uses its part of it")]
mod common;

use common::Driver;
use lastword_agents::{Goals, Start};
use lastword_core::question::Ask;
use lastword_core::report::Signal;
use lastword_core::spec::{Dialect, Permission, Permissions, Rule};
use serde_json::{Value, json};

fn driver(start: Start) -> Driver {
    Driver::new(Dialect::Acp, Start { prompt: "do it".to_owned(), cwd: "/w".to_owned(), ..start })
}

/// Returns a driver whose first turn is active, with these rules.
fn working_with(permissions: Permissions) -> Driver {
    let mut driver = driver(Start { permissions, ..Start::default() });
    driver.write_all(&Goals::default());
    driver.read(r#"{"id":1,"result":{"protocolVersion":1}}"#);
    driver.write_all(&Goals::default());
    driver.read(r#"{"id":2,"result":{"sessionId":"s"}}"#);
    assert_eq!(driver.write_all(&Goals::default()), ["session/prompt"]);
    driver
}

/// Returns the tool and the request of a question that is asked after these updates; `None` if a rule answered it.
fn asked_after(updates: &[Value], call: &Value, rules: &[(&str, Permission)]) -> Option<Ask> {
    let rule = |(pattern, permission): &(&str, Permission)| Rule {
        pattern: (*pattern).to_owned(),
        permission: *permission,
    };
    let mut driver =
        working_with(Permissions { rules: rules.iter().map(rule).collect(), ..Permissions::default() });
    for update in updates {
        driver.read(&json!({ "method": "session/update", "params": { "update": update } }).to_string());
    }
    let line = json!({ "id": 1, "method": "session/request_permission", "params": { "toolCall": call } });
    let heard = driver.dialogue.read(format!("{line}\n").as_bytes());
    heard.into_iter().find_map(|heard| match heard.signal {
        Signal::QuestionAsked { ask, text, .. } => {
            assert!(text.starts_with(&format!("{}: ", ask.tool)), "{text}");
            Some(*ask)
        }
        _ => None,
    })
}

#[test]
fn the_name_of_a_tool_of_goose_stands_in_the_update_before_its_request() {
    let named = |name: &str| json!({ "sessionUpdate": "tool_call", "toolCallId": "c1", "title": "t", "rawInput": { "path": "/w/a" }, "_meta": { "goose": { "toolCall": { "toolName": name } } } });
    let call = json!({ "toolCallId": "c1", "kind": "other", "title": "write · /w/a", "rawInput": { "path": "/w/a", "content": "x" } });
    let asked = |rule: &str| asked_after(&[named("write")], &call, &[(rule, Permission::Allow)]);
    assert_eq!(asked("write: /etc/*").map(|ask| ask.tool).as_deref(), Some("write"));
    // The name counts, and so does the kind.
    assert_eq!(asked("write: /w/*"), None);
    assert_eq!(asked("other: /w/*"), None);
    // That of another call does not.
    let other = json!({ "toolCallId": "c2", "kind": "other", "rawInput": { "path": "/w/a" } });
    let ask = asked_after(&[named("write")], &other, &[("write: *", Permission::Allow)]);
    assert_eq!(ask.map(|ask| ask.tool).as_deref(), Some("other"));
    // Nor does one that reads like a whole line.
    let rules = [("shell: ls*", Permission::Allow)];
    assert_eq!(
        asked_after(&[named("shell: ls")], &call, &rules).map(|ask| ask.tool).as_deref(),
        Some("other")
    );
    // A command has both names.
    let command = json!({ "toolCallId": "c1", "kind": "other", "rawInput": { "command": "ls" } });
    for rule in ["shell: ls", "execute: ls"] {
        assert_eq!(asked_after(&[named("shell")], &command, &[(rule, Permission::Allow)]), None, "{rule}");
    }
    let denied = [("execute: rm*", Permission::Deny), ("shell: *", Permission::Allow)];
    let command = json!({ "toolCallId": "c1", "kind": "other", "rawInput": { "command": "ls; rm x" } });
    assert!(asked_after(&[named("shell")], &command, &denied).is_some(), "a second command is not allowed");
}

#[test]
fn the_file_that_opencode_reads_stands_in_the_update_before_its_request() {
    let update = |status: &str, input: Value| json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": status, "kind": "read", "title": "read", "rawInput": input });
    let call = json!({ "toolCallId": "c1", "kind": "read", "title": "read", "rawInput": {} });
    let read = |path: &str| [update("in_progress", json!({ "filePath": path }))];
    let ask = asked_after(&read("/w/a"), &call, &[("read: /etc/*", Permission::Allow)]).unwrap();
    assert_eq!((ask.tool.as_str(), ask.lacks.as_str()), ("read", ""));
    assert!(ask.request.contains("/w/a"), "{}", ask.request);
    assert_eq!(asked_after(&read("/w/a"), &call, &[("read: /w/*", Permission::Allow)]), None);
    // A rule that is made of an answer allows this file, and no other.
    let exact = |path: &str| asked_after(&read(path), &call, &[]).unwrap().exact;
    assert_eq!(exact("/w/a"), exact("/w/a"));
    assert_ne!(exact("/w/a"), exact("/w/b"));
    // Arguments that are not complete, or too long to be kept, are said to be missing.
    for updates in [[update("pending", json!({ "filePath": "/w/a" }))], read(&"x".repeat(5000))] {
        assert!(!asked_after(&updates, &call, &[]).unwrap().lacks.is_empty());
    }
}

#[test]
fn a_change_of_gemini_is_named_by_its_file() {
    let diff = |path: &str| json!({ "type": "diff", "path": path, "oldText": "", "newText": "x" });
    let call = |content: Value| json!({ "toolCallId": "c1", "kind": "edit", "title": "Writing to a", "content": content });
    let asked =
        |content: Value, rule: &str| asked_after(&[], &call(content), &[(rule, Permission::Allow)]).is_some();
    assert!(!asked(json!([diff("/w/a")]), "edit: /w/*"));
    assert!(!asked(json!([diff("/w/a")]), "edit: Writing to *"));
    assert!(asked(json!([diff("/etc/a")]), "edit: /w/*"));
    assert!(asked(json!([diff("/w/a"), diff("/etc/a")]), "edit: /w/*"), "two files are not one");
}

#[test]
fn an_effort_is_chosen_after_the_model_and_is_the_one_that_was_asked_for() {
    let option = |id: &str, category: &str, value: &str| json!({ "id": id, "category": category, "currentValue": value, "options": [{ "value": "off" }, { "value": "high" }] });
    let model = || option("model", "model", "m");
    let with = |value: &str| json!({ "configOptions": [model(), option("thinking_effort", "thought_level", value)] });
    let choose = |session: Value, chosen: &[Value]| {
        let (model, effort) = (Some("m".to_owned()), Some("high".to_owned()));
        let mut driver = driver(Start { model, effort, ..Start::default() });
        let mut written = driver.write_all(&Goals::default());
        driver.read(r#"{"id":1,"result":{"protocolVersion":1}}"#);
        written.extend(driver.write_all(&Goals::default()));
        let mut result = session;
        result["sessionId"] = "s".into();
        for (id, result) in std::iter::once(&result).chain(chosen).enumerate() {
            driver.read(&json!({ "id": id + 2, "result": result }).to_string());
            written.extend(driver.write_all(&Goals::default()));
        }
        (written[2..].join(" "), driver.transcript())
    };
    let set = "session/set_config_option";
    let (written, _) = choose(with("off"), &[with("off"), with("high")]);
    assert_eq!(written, format!("{set} {set} session/prompt"));
    // It took another one, or has none with this model: nothing is prompted.
    let (written, heard) = choose(with("off"), &[with("off"), with("off")]);
    assert_eq!(written, format!("{set} {set}"));
    assert!(heard.contains("it has no effort `high` with this model; it offers off, high"), "{heard}");
    let (written, heard) = choose(with("off"), &[json!({ "configOptions": [model()] })]);
    assert_eq!(written, set);
    assert!(heard.contains("it offers no choice of effort with this model"), "{heard}");
}
