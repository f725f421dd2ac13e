//! The shape of `--json` output: field names are the API's, and a change of them shows here.

use serde_json::Value;

use crate::home::Home;

/// Returns the shape of a value: keeps field names, and replaces measured values by their type.
fn shape(value: &Value, name: &str) -> Value {
    const MEASURED: [&str; 13] = [
        "id",
        "short",
        "pid",
        "start_ticks",
        "boot",
        "host",
        "version",
        "state_dir",
        "job",
        "level",
        "proof",
        "started_at",
        "instance",
    ];
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| (name.clone(), shape(value, name)));
            Value::Object(fields.collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(|item| shape(item, name)).collect()),
        Value::Null => Value::Null,
        Value::String(text) if text.len() == 24 && text.ends_with('Z') => "<time>".into(),
        _ if MEASURED.contains(&name) || name.ends_with("_ms") => format!("<{name}>").into(),
        Value::String(text) if text.contains("/lw") => "<path>".into(),
        Value::String(text) if name == "text" => crate::plain::line(text).into(),
        other => other.clone(),
    }
}

fn check(name: &str, value: &Value) {
    let text = serde_json::to_string_pretty(&shape(value, "")).unwrap();
    insta::assert_snapshot!(name, text);
}

#[test]
fn the_shape_of_json_output_is_stable() {
    let home = Home::new();
    let id = home.ok(&[
        "run",
        "-d",
        "--name",
        "shaped",
        "-l",
        "team=a",
        "--wall",
        "1h",
        "sh",
        "-c",
        "echo out; exit 3",
    ]);
    home.run(&["wait", &id]);
    check("json_job", &home.json(&["show", &id]));
    check("json_rows", &home.json(&["ls", "-a"]));
    check("json_result", &home.json(&["result", &id]));
    check("json_groups", &home.json(&["group", "ls"]));
    check("json_daemon", &home.json(&["daemon", "status"]));
    let events = home.ok(&["events", &id, "--json"]);
    let events: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    check("json_events", &Value::Array(events));
    let output = home.run(&["--json", "show", "nobody"]);
    check("json_problem", &serde_json::from_str(&output.stderr).unwrap());
}

#[test]
fn json_output_is_one_document_or_one_per_line() {
    let home = Home::new();
    let (one, two) = (home.start("sleep 100"), home.start("sleep 100"));
    let both = home.json(&["cancel", &one, &two]);
    assert_eq!(both["items"].as_array().unwrap().len(), 2);
    assert!(both["next_cursor"].is_null());
    let waited = home.run(&["--json", "wait", &one, &two]);
    assert_eq!(waited.code, 3);
    assert_eq!(waited.stdout.lines().filter(|line| serde_json::from_str::<Value>(line).is_ok()).count(), 2);
    assert_eq!(home.json(&["cancel", &one])["items"][0]["id"], one);
}
