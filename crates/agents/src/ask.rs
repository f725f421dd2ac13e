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

/// Fields that hold a change to a file.
const CHANGES: [&str; 7] = ["content", "old_string", "new_string", "before", "after", "replace_all", "edits"];

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

    /// Reports whether it is too large to be shown to a person.
    pub(crate) fn is_too_large(&self) -> bool {
        self.ask.bytes() > REQUEST_BYTES_MAX || self.ask.parts.len() > PARTS_MAX
    }
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
    let is_known = |name: &String| PATHS.contains(&name.as_str()) || CHANGES.contains(&name.as_str());
    if !input.as_object()?.keys().all(is_known) {
        return None;
    }
    let path = PATHS.iter().find_map(|name| text(input, &[name]))?.to_owned();
    let pair = |value: &Value| {
        let names = [("old_string", "new_string"), ("before", "after")];
        names.iter().find_map(|(before, after)| {
            Some(Replacement {
                before: text(value, &[before])?.to_owned(),
                after: text(value, &[after])?.to_owned(),
                everywhere: value["replace_all"] == true,
            })
        })
    };
    let edits = items(input, &["edits"]);
    let change = match text(input, &["content"]) {
        Some(content) => Change::Write(content.to_owned()),
        None if !edits.is_empty() => Change::Replace(edits.iter().map(pair).collect::<Option<_>>()?),
        None => Change::Replace(vec![pair(input)?]),
    };
    Some(Edit { path, change })
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
    // What the agent says about it is not part of it.
    let others = fields.iter().filter(|(other, _)| *other != name && *other != "description");
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
        assert_eq!(question.ask.request, format!("{command}\n\nsandbox: false\ntimeout: 5"));
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
        // A path alone changes nothing.
        assert_eq!(shown(&json!({ "path": "a" })), "{\n  \"path\": \"a\"\n}");
    }
}
