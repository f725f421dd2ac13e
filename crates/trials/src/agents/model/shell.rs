//! The shell of an agent, as it offers it to its model: each has another name for it and for what it takes.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// The names it is known by: of codex, goose, claude, opencode, gemini.
const NAMES: &[&str] = &["exec_command", "shell", "Bash", "bash", "run_shell_command"];

/// How long a command may take, where an agent lets its model say so: longer than any trial does on a busy machine.
const LONG_S: u64 = 600;

/// Returns the name of the shell and the arguments that have it run a command; `None` if none is offered.
pub(super) fn call(
    tools: &BTreeMap<String, Value>,
    command: &str,
    in_background: bool,
) -> Option<(String, Value)> {
    let known = NAMES.iter().find(|name| tools.contains_key(**name)).copied();
    // A tool of a server may have the server's name before its own.
    let name = known.or_else(|| tools.keys().map(String::as_str).find(|name| name.ends_with("__shell")))?;
    let fields = &tools[name]["properties"];
    let mut arguments = Map::new();
    let line = if fields.get("cmd").is_some() { "cmd" } else { "command" };
    arguments.insert(line.to_owned(), json!(command));
    for field in tools[name]["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if field != line {
            arguments.insert(field.to_owned(), any(&fields[field]));
        }
    }
    if in_background {
        for flag in ["run_in_background", "is_background", "background"] {
            if fields.get(flag).is_some() {
                arguments.insert(flag.to_owned(), json!(true));
            }
        }
    } else if let Some(timeout) = fields.get("timeout") {
        // Seconds in some and thousandths in others: its description says.
        let about = timeout.to_string().to_ascii_lowercase();
        let in_ms = about.contains("millisec") || about.contains(" ms");
        arguments.insert("timeout".to_owned(), json!(if in_ms { LONG_S * 1000 } else { LONG_S }));
    }
    if fields.get("yield_time_ms").is_some() {
        arguments.insert("yield_time_ms".to_owned(), json!(LONG_S * 1000));
    }
    Some((name.to_owned(), Value::Object(arguments)))
}

/// Returns a value of a field that must be there.
fn any(field: &Value) -> Value {
    if let Some(first) = field["enum"].as_array().and_then(|values| values.first()) {
        return first.clone();
    }
    match field["type"].as_str().unwrap_or("string").to_ascii_lowercase().as_str() {
        "boolean" => json!(false),
        "number" | "integer" => json!(LONG_S),
        "array" => json!([]),
        "object" => json!({}),
        _ => json!("as asked"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, fields: Value, required: Value, expected: Value) {
        let schema = json!({ "properties": fields, "required": required });
        let tools = [("Read".to_owned(), json!({})), (name.to_owned(), schema)].into();
        let called = call(&tools, "ls", expected.get("is_background") == Some(&json!(true)));
        assert_eq!(called, Some((name.to_owned(), expected)));
    }

    #[test]
    fn the_shell_of_each_agent_is_found_and_filled_in() {
        let text = json!({ "type": "string" });
        check(
            "exec_command",
            json!({ "cmd": text, "yield_time_ms": {} }),
            json!(["cmd"]),
            json!({ "cmd": "ls", "yield_time_ms": 600_000 }),
        );
        check(
            "Bash",
            json!({ "command": text, "timeout": { "description": "in milliseconds" } }),
            json!(["command"]),
            json!({ "command": "ls", "timeout": 600_000 }),
        );
        check(
            "bash",
            json!({ "command": text, "description": text, "timeout": { "description": "in seconds" } }),
            json!(["command", "description"]),
            json!({ "command": "ls", "description": "as asked", "timeout": 600 }),
        );
        check(
            "run_shell_command",
            json!({ "command": text, "is_background": { "type": "boolean" } }),
            json!(["command"]),
            json!({ "command": "ls", "is_background": true }),
        );
        assert_eq!(call(&[("Read".to_owned(), json!({}))].into(), "ls", false), None);
    }
}
