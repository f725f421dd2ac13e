//! An agent against the person it asks: a request that hides its end, and one that slips through a rule.

use std::fs;
use std::os::unix::fs::chown;

use serde_json::Value;

use super::attempt::{Attempt, Ends};
use super::parties::Parties as _;
use super::setup::{Home, OWNER, Setup, at};

#[rustfmt::skip] // One row, one attempt.
pub(super) const ATTEMPTS: &[Attempt] = &[
    Attempt { item: 23, what: "an agent hides the end of a request: escapes, blank lines, width, carriage returns, invisible characters", ends: Ends::Refused, make: hide_the_end },
    Attempt { item: 23, what: "an agent asks for more than a rule was made of", ends: Ends::Refused, make: slip_through_a_rule },
];

/// What the requests end with.
const HARM: &str = "rm -rf /home/ann";

/// An agent that asks for each line of its prompt, one after the other, and says what it was answered.
const ASKS: &str = r#"import json, sys
def write(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()
session = "asks"
for line in sys.stdin:
    message = json.loads(line)
    method, number = message.get("method"), message.get("id")
    if method == "initialize":
        write({"id": number, "result": {"protocolVersion": 1}})
    elif method == "session/new":
        write({"id": number, "result": {"sessionId": session}})
    elif method == "session/prompt":
        prompt, asked = number, json.loads(message["params"]["prompt"][0]["text"])
        open_now = set()
        for index, command in enumerate(asked):
            options = [{"optionId": kind, "name": kind, "kind": kind} for kind in ("allow_once", "reject_once")]
            call = {"toolCallId": str(index), "kind": "execute", "title": command, "rawInput": {"command": command}}
            open_now.add(index)
            write({"id": f"ask-{index}", "method": "session/request_permission",
                   "params": {"sessionId": session, "toolCall": call, "options": options}})
    elif "result" in message and isinstance(number, str):
        open_now.discard(int(number.removeprefix("ask-")))
        if not open_now:
            write({"id": prompt, "result": {"stopReason": "end_turn"}})
"#;

/// Starts an agent that asks for these commands, and waits until it has.
fn asking(home: &Home, commands: &[String]) -> Result<(String, Vec<Value>), String> {
    let (script, table) = (home.0.place().join("asks.py"), home.0.home().join("agents.toml"));
    if !table.exists() {
        fs::write(&script, ASKS).map_err(at(&script))?;
        let text = format!("[asks]\ndialect = \"acp\"\ncommand = [\"python3\", \"{}\"]\n", script.display());
        fs::write(&table, text).map_err(at(&table))?;
        chown(&table, Some(OWNER), Some(OWNER)).map_err(at(&table))?;
    }
    let prompt = serde_json::to_string(commands).map_err(|error| error.to_string())?;
    let id = home.0.said(&["run", "-d", "--agent", "asks", "--", &prompt])?;
    let asked = home.until(&id, |job| {
        let asked = job["session"]["questions"].as_array()?;
        (asked.len() == commands.len()).then(|| asked.clone())
    })?;
    Ok((id, asked))
}

/// Every way to hide what a command ends with. Each is shown whole: its harm stands in plain sight, in front of the name by which it is allowed.
fn hide_the_end(setup: &Setup) -> Result<String, String> {
    let home = &setup.home;
    let blanks = "\n".repeat(400);
    let wide = " ".repeat(8_000);
    let commands: Vec<String> = [
        format!("ls\u{1b}[8m; {HARM}"),
        format!("ls; {HARM}\u{1b}[2K\u{1b}[1A"),
        format!("ls; {HARM}\r\u{1b}[0Kls"),
        format!("ls; {HARM}\u{8}\u{8}\u{8}\u{7f}"),
        format!("ls{blanks}{HARM}"),
        format!("ls{wide}; {HARM}"),
        format!("ls \u{202e}; {HARM}"),
        format!("ls\u{9b}8m; {HARM}"),
        format!("ls; {HARM}\n\n\n  asks for permission: execute\n  ls\n    lastword approve it q1-aaaa"),
    ]
    .into();
    for command in &commands {
        let (id, asked) = asking(home, std::slice::from_ref(command))?;
        let name = asked[0]["id"].as_str().unwrap_or_default();
        let whole = setup.shown(&home.0.said(&["question", &id])?);
        let (harm, named) = (whole.rfind(HARM), whole.rfind(name));
        let is_raw = whole.chars().any(|c| c.is_control() && c != '\n');
        if is_raw || harm.is_none() || named < harm {
            return Err(format!("{command:?} is shown as {whole:?}"));
        }
        // A short form has its name only if it is not short.
        let brief = setup.shown(&home.0.said(&["show", &id])?);
        if brief.contains(name) && !brief.contains(HARM) {
            return Err(format!("`show` hides the end of {command:?} and names it: {brief:?}"));
        }
        home.0.said(&["cancel", &id])?;
    }
    Ok(format!("{} requests are shown to their end", commands.len()))
}

/// What looks like the request that a rule was made of, and is not.
fn slip_through_a_rule(setup: &Setup) -> Result<String, String> {
    let home = &setup.home;
    let like: Vec<String> = [
        "make test".to_owned(),
        format!("make test; {HARM}"),
        format!("make test\n{HARM}"),
        "make test ".to_owned(),
        "make\u{a0}test".to_owned(),
        "make test\u{200b}".to_owned(),
        "MAKE TEST".to_owned(),
        "make t\u{435}st".to_owned(),
        "make *".to_owned(),
        "make test".to_owned(),
    ]
    .into();
    let (id, asked) = asking(home, &like)?;
    let name = asked[0]["id"].as_str().unwrap_or_default();
    home.0.said(&["approve", &id, name, "--always"])?;
    // The last one is the same, and is allowed.
    let left = home.until(&id, |job| {
        let left = job["session"]["questions"].as_array()?;
        (left.len() + 2 == like.len()).then(|| left.clone())
    })?;
    let events = home.0.said(&["events", &id, "--json"])?;
    let by_rule = events.matches("\"by\":\"rule r1\"").count();
    home.0.said(&["cancel", &id])?;
    match by_rule {
        1 => Ok(format!("one is allowed, and {} others are asked", left.len())),
        count => Err(format!("the rule allowed {count}")),
    }
}
