//! What a request for permission shows: the command to its last byte, the change to a file, or all arguments of a tool.

use lastword_core::question::{Ask, Change, Choice, Edit, PARTS_MAX, Part, REQUEST_BYTES_MAX, Replacement};
use serde_json::Value;

use crate::value::{items, text};

/// Why a request is denied that is too large.
pub(crate) const TOO_LARGE: &str = "this request is too large to be shown to a person: more than 256 KiB";

/// Fields that hold a command.
const COMMANDS: [&str; 2] = ["command", "cmd"];

/// Fields that hold the path of a file.
const PATHS: [&str; 4] = ["file_path", "filePath", "path", "abs_path"];

/// A question, before it is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    /// One line, which rules match and lists show.
    pub(crate) text: String,
    /// All of it.
    pub(crate) ask: Ask,
    /// Changes to files that are asked for.
    pub(crate) edits: Vec<Edit>,
}

impl Question {
    /// Returns a request to use a tool with these arguments.
    pub(crate) fn tool(line: String, tool: &str, input: &Value) -> Question {
        let edits: Vec<Edit> = edit(input).into_iter().collect();
        let request = match edits.as_slice() {
            [] => arguments(input),
            edits => described(edits),
        };
        Question { text: line, ask: Ask::permission(tool, &request), edits }
    }

    /// Returns a request to do what is written out here.
    pub(crate) fn request(line: String, tool: &str, request: &str) -> Question {
        Question { text: line, ask: Ask::permission(tool, request), edits: Vec::new() }
    }

    /// Returns a request to change files.
    pub(crate) fn change(line: String, tool: &str, edits: Vec<Edit>) -> Question {
        Question { text: line, ask: Ask::permission(tool, &described(&edits)), edits }
    }

    /// Returns a question that needs words.
    pub(crate) fn words(tool: &str, parts: Vec<Part>) -> Question {
        let texts: Vec<&str> = parts.iter().map(|part| part.text.as_str()).collect();
        Question { text: texts.join("; "), ask: Ask::words(tool, parts), edits: Vec::new() }
    }

    /// Adds something to what is shown.
    pub(crate) fn more(&mut self, text: &str) {
        let request = &mut self.ask.request;
        if !request.is_empty() {
            request.push_str(if request.ends_with('\n') { "\n" } else { "\n\n" });
        }
        request.push_str(text);
    }

    /// Reports whether it is too large to be shown to a person.
    pub(crate) fn is_too_large(&self) -> bool {
        self.ask.bytes() > REQUEST_BYTES_MAX || self.ask.parts.len() > PARTS_MAX
    }
}

/// Returns a request as the agent sent it, without the fields that differ from one request to the next, and what stands `beside` it, for
/// rules to compare. Empty if it is too large to be kept.
pub(crate) fn exact(method: &str, request: &Value, varying: &[&str], beside: Option<&str>) -> String {
    let mut request = request.clone();
    if let Some(fields) = request.as_object_mut() {
        fields.retain(|name, _| !varying.contains(&name.as_str()));
    }
    let parts = [method.into(), request].into_iter().chain(beside.map(Value::from));
    let exact = Value::from_iter(parts).to_string();
    if exact.len() > REQUEST_BYTES_MAX { String::new() } else { exact }
}

/// Returns the parts of a question. Agents use the same names for them.
pub(crate) fn parts(questions: &[Value], several: &str) -> Vec<Part> {
    let choice = |option: &Value| Choice {
        label: text(option, &["label"]).unwrap_or_default().to_owned(),
        description: text(option, &["description"]).unwrap_or_default().to_owned(),
    };
    let part = |question: &Value| Part {
        text: text(question, &["question"]).unwrap_or_default().to_owned(),
        options: items(question, &["options"]).iter().map(choice).collect(),
        several: question[several] == true,
    };
    questions.iter().map(part).collect()
}

/// Returns the change to a file that a tool with these arguments makes, if they say nothing else.
fn edit(input: &Value) -> Option<Edit> {
    let fields = input.as_object()?;
    let (paths, changes): (Vec<_>, Vec<_>) =
        fields.iter().partition(|(name, _)| PATHS.contains(&name.as_str()));
    let [(_, Value::String(path))] = paths.as_slice() else { return None };
    let mut names: Vec<&str> = changes.iter().map(|(name, _)| name.as_str()).collect();
    names.retain(|name| *name != "replace_all");
    let change = match names.as_slice() {
        ["content"] if changes.len() == 1 => Change::Write(text(input, &["content"])?.to_owned()),
        ["edits"] if changes.len() == 1 => {
            Change::Replace(items(input, &["edits"]).iter().map(replacement).collect::<Option<Vec<_>>>()?)
        }
        _ => {
            let alone: Value =
                changes.iter().map(|(name, value)| (name.as_str(), (*value).clone())).collect();
            Change::Replace(vec![replacement(&alone)?])
        }
    };
    let is_empty = matches!(&change, Change::Replace(all) if all.is_empty());
    (!is_empty).then(|| Edit { path: path.clone(), change })
}

/// Returns a text and what replaces it, if nothing else is said.
fn replacement(value: &Value) -> Option<Replacement> {
    let fields = value.as_object()?;
    let everywhere = match fields.get("replace_all") {
        None => false,
        Some(everywhere) => everywhere.as_bool()?,
    };
    let names = [("old_string", "new_string"), ("before", "after")];
    let (before, after) = names.into_iter().find(|(before, _)| fields.contains_key(*before))?;
    let count = if fields.contains_key("replace_all") { 3 } else { 2 };
    let (before, after) = (text(value, &[before])?.to_owned(), text(value, &[after])?.to_owned());
    (fields.len() == count).then_some(Replacement { before, after, everywhere })
}

/// Returns what the arguments of a tool say beside a change that is shown from elsewhere.
pub(crate) fn beside_a_change(input: &Value) -> Option<String> {
    const SHOWN: [&str; 8] =
        ["diff", "filepath", "content", "newString", "oldString", "old_string", "new_string", "replaceAll"];
    let fields = match input {
        Value::Null => return None,
        Value::Object(fields) => fields,
        other => return Some(pretty(other)),
    };
    let is_shown = |name: &String| PATHS.contains(&name.as_str()) || SHOWN.contains(&name.as_str());
    let others = fields.iter().filter(|(name, _)| !is_shown(name));
    Some(others.map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>().join("\n"))
}

fn described(edits: &[Edit]) -> String {
    edits.iter().map(Edit::describe).collect::<Vec<_>>().join("\n")
}

/// Returns all arguments: the command first, as it is, and the others by name.
fn arguments(input: &Value) -> String {
    let Some(fields) = input.as_object() else {
        return if input.is_null() { String::new() } else { pretty(input) };
    };
    let Some((name, command)) = COMMANDS.iter().find_map(|name| Some((*name, text(input, &[name])?))) else {
        return if fields.is_empty() { String::new() } else { pretty(input) };
    };
    let mut request = command.to_owned();
    let others = fields.iter().filter(|(other, _)| *other != name);
    for (index, (other, value)) in others.enumerate() {
        request.push_str(if index == 0 { "\n\n" } else { "\n" });
        request.push_str(&format!("{other}: {value}"));
    }
    request
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_command_is_whole_and_nothing_that_changes_it_is_left_out() {
        let command = format!("make\n{}\nrm -rf /", "\n".repeat(500));
        let input = json!({ "command": command, "description": "Build", "timeout": 5, "sandbox": false });
        let question = Question::tool("Bash: make".to_owned(), "Bash", &input);
        assert_eq!(
            question.ask.request,
            format!("{command}\n\ndescription: \"Build\"\nsandbox: false\ntimeout: 5")
        );
        assert_eq!(Question::tool(String::new(), "Bash", &json!({ "cmd": "ls" })).ask.request, "ls");
    }

    #[test]
    fn a_change_is_shown_without_the_file_too() {
        let shown = |input: &Value| {
            let question = Question::tool(String::new(), "Edit", input);
            assert!(!question.edits.is_empty());
            question.ask.request
        };
        assert_eq!(shown(&json!({ "file_path": "/w/a", "content": "one\ntwo" })), "write /w/a\n+one\n+two\n");
        assert_eq!(
            shown(
                &json!({ "file_path": "a", "old_string": "x", "new_string": "y\nz\n", "replace_all": true })
            ),
            "replace everywhere in a\n-x\n+y\n+z\n"
        );
        assert_eq!(
            shown(
                &json!({ "path": "a", "edits": [{ "before": "1", "after": "2" }, { "before": "3", "after": "" }] })
            ),
            "replace in a\n-1\n+2\nreplace in a\n-3\n"
        );
    }

    #[test]
    fn other_arguments_are_shown_as_they_are() {
        let shown = |input: &Value| Question::tool(String::new(), "t", input).ask.request;
        assert_eq!(shown(&json!({ "to": "Rome" })), "{\n  \"to\": \"Rome\"\n}");
        assert_eq!(shown(&json!({})), "");
        assert_eq!(shown(&Value::Null), "");
        // Nothing is left out that stands beside a change.
        let both = json!({ "path": "a", "content": "b", "command": "rm -rf /" });
        assert_eq!(shown(&both), "rm -rf /\n\ncontent: \"b\"\npath: \"a\"");
        for input in [
            json!({ "file_path": "a", "path": "/root/.bashrc", "content": "x" }),
            json!({ "file_path": "a", "content": "x", "old_string": "y", "new_string": "z" }),
            json!({ "file_path": "a", "content": 7 }),
            json!({ "file_path": "a", "old_string": "y", "new_string": "z", "replace_all": "true" }),
            json!({ "file_path": "a", "edits": [{ "old_string": "y", "new_string": "z", "and": 1 }] }),
            json!({ "file_path": "a", "edits": [], "old_string": "y", "new_string": "z" }),
            json!({ "file_path": "a", "edits": [] }),
        ] {
            assert_eq!(shown(&input), pretty(&input));
        }
        // A path alone changes nothing.
        assert_eq!(shown(&json!({ "path": "a" })), "{\n  \"path\": \"a\"\n}");
    }
}
