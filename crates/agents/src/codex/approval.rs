//! Codex's requests for approval, and the line that rules match: `commandExecution: cargo test`, `fileChange: /w/src/lib.rs`.

use lastword_core::question::REQUEST_BYTES_MAX;
use lastword_core::spec::Permission;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::ask::{self, Question};
use crate::permission::{self, ToolUse};
use crate::request::{Reply, Request};
use crate::start::Start;
use crate::value::{at, brief, items, text};

/// File changes remembered until their approval is requested: the request names only the item.
const CHANGES_MAX: usize = 8;

/// Bytes remembered of all of them. A diff that does not fit is not shown, so its change is denied.
const DIFF_BYTES_MAX: usize = REQUEST_BYTES_MAX;

/// File changes that the agent is about to make.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Changes(Vec<Change>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Change {
    item: String,
    line: String,
    permission: Permission,
    /// The change to each file, as the agent wrote it; `None` if it is too long.
    #[serde(default)]
    diff: Option<String>,
}

impl Changes {
    /// Records a started item. The strictest permission among its files applies to all of them.
    pub(super) fn note(&mut self, start: &Start, item: &Value) {
        let (Some("fileChange"), Some(id)) = (text(item, &["type"]), text(item, &["id"])) else { return };
        let changes = items(item, &["changes"]);
        let paths: Vec<&str> = changes.iter().filter_map(|change| text(change, &["path"])).collect();
        let each: Vec<_> =
            paths.iter().map(|path| vec![ToolUse { tool: "fileChange", what: path }]).collect();
        let all = ToolUse { tool: "fileChange", what: &paths.join(", ") };
        let permission = match each.is_empty() {
            true => all.permission(&start.permissions),
            false => permission::of(&each, &start.permissions),
        };
        if id.len() > 200 {
            return;
        }
        if self.0.len() >= CHANGES_MAX {
            self.0.remove(0);
        }
        let diff: String = changes.iter().map(diff).collect::<Vec<_>>().join("\n");
        while !self.0.is_empty() && self.bytes() + diff.len() > DIFF_BYTES_MAX {
            self.0.remove(0);
        }
        let diff = Some(diff).filter(|diff| diff.len() <= DIFF_BYTES_MAX);
        self.0.push(Change { item: id.to_owned(), line: brief(&all.line()), permission, diff });
    }

    fn bytes(&self) -> usize {
        self.0.iter().filter_map(|change| change.diff.as_ref()).map(String::len).sum()
    }

    /// Takes the change of this item.
    fn take(&mut self, item: Option<&str>) -> Option<Change> {
        let item = item?;
        let found = self.0.iter().rposition(|change| change.item == item)?;
        Some(self.0.remove(found))
    }
}

/// Returns one change as a diff with a header. That of a new file is its content.
fn diff(change: &Value) -> String {
    let path = text(change, &["path"]).unwrap_or_default();
    let kind = text(change, &["kind", "type"]).unwrap_or("change");
    let moved = text(change, &["kind", "move_path"]).map_or_else(String::new, |to| format!(" to {to}"));
    let body = text(change, &["diff"]).unwrap_or_default();
    let ending = if body.is_empty() || body.ends_with('\n') { "" } else { "\n" };
    format!("{kind} {path}{moved}\n{body}{ending}")
}

/// Fields of a request that are new in each.
const IDS: [&str; 8] = [
    "itemId",
    "threadId",
    "turnId",
    "approvalId",
    "callId",
    "conversationId",
    "startedAtMs",
    "environmentId",
];

/// Returns the request and its question; `None` if it is not supported.
pub(super) fn request(
    start: &Start,
    changes: &mut Changes,
    id: &Value,
    method: &str,
    params: &Value,
) -> Option<(Request, Question)> {
    let asked = match method {
        "item/commandExecution/requestApproval" => {
            let host = text(params, &["networkApprovalContext", "host"]);
            let command = text(params, &["command"]).map(command);
            let tool_use = match (&command, host) {
                (Some(command), _) => ToolUse { tool: "commandExecution", what: command },
                (None, Some(host)) => ToolUse { tool: "network", what: host },
                (None, None) => ToolUse { tool: "commandExecution", what: reason(params) },
            };
            // A command that is no text is shown as it is; one that is not there cannot be.
            let raw = at(params, &["command"]).filter(|raw| !raw.is_null() && !raw.is_string());
            let what = raw.map_or_else(|| tool_use.what.to_owned(), Value::to_string);
            let request = format!("{what}{}", others(params));
            let choice = decision("accept", "decline", "cancel");
            let (request, mut question) = permission_request(start, id, &tool_use, choice, &request);
            if command.is_none() && host.is_none() && raw.is_none() {
                question.ask.lacks = "the command: the agent did not say it".to_owned();
            }
            (request, question)
        }
        "item/fileChange/requestApproval" => {
            let choice = decision("accept", "decline", "cancel");
            match changes.take(text(params, &["itemId"])) {
                Some(Change { line, permission, diff, .. }) => {
                    // A change that cannot be shown is not asked for.
                    let unseen = diff.is_none() && permission == Permission::Ask;
                    let permission = if unseen { Permission::Deny } else { permission };
                    let request = Request::permission(id.clone(), &line, choice, permission);
                    let shown = format!("{}{}", diff.unwrap_or_default(), others(params));
                    (request, Question::request(line, "fileChange", &shown))
                }
                None => {
                    let tool_use = ToolUse { tool: "fileChange", what: reason(params) };
                    let (request, mut question) =
                        permission_request(start, id, &tool_use, choice, tool_use.what);
                    question.ask.lacks =
                        "the change: it was announced too long ago, or not at all".to_owned();
                    (request, question)
                }
            }
        }
        "item/permissions/requestApproval" => {
            let asked = at(params, &["permissions"]).cloned().unwrap_or_default();
            let wanted = asked.to_string();
            let allow = json!({ "permissions": asked, "scope": "turn" });
            let none = json!({ "permissions": {}, "scope": "turn" });
            let choice = Reply::Choice { allow, deny: none.clone(), cancel: none };
            let request = format!("{wanted}{}", others(params));
            permission_request(start, id, &ToolUse { tool: "permissions", what: &wanted }, choice, &request)
        }
        "item/tool/requestUserInput" => user_input(start, id, params),
        "mcpServer/elicitation/request" => elicitation(start, id, params),
        // The requests of older servers.
        "execCommandApproval" => {
            let words: Vec<&str> = items(params, &["command"]).iter().filter_map(Value::as_str).collect();
            let command = script(&words).map_or_else(|| words.join(" "), str::to_owned);
            let tool_use = ToolUse { tool: "commandExecution", what: &command };
            let shown =
                if script(&words).is_some() { command.clone() } else { params["command"].to_string() };
            let request = format!("{shown}{}", others(params));
            permission_request(start, id, &tool_use, decision("approved", "denied", "abort"), &request)
        }
        "applyPatchApproval" => {
            let files = at(params, &["fileChanges"]).and_then(Value::as_object);
            let paths: Vec<&str> =
                files.into_iter().flat_map(|files| files.keys().map(String::as_str)).collect();
            let paths = paths.join(", ");
            let tool_use = ToolUse { tool: "fileChange", what: &paths };
            let request = serde_json::to_string_pretty(&params["fileChanges"]).unwrap_or_default();
            permission_request(start, id, &tool_use, decision("approved", "denied", "abort"), &request)
        }
        _ => return None,
    };
    let (request, mut question) = asked;
    // The change to a file stands in another message, so what is shown counts too.
    question.ask.exact = ask::exact(method, params, &IDS, Some(&question.ask.request));
    Some((request, question))
}

/// Returns what else is asked for beside a command.
fn others(params: &Value) -> String {
    let names = ["cwd", "networkApprovalContext", "additionalPermissions", "grantRoot"];
    let said =
        names.iter().filter_map(|name| Some((name, at(params, &[name]).filter(|value| !value.is_null())?)));
    let lines: Vec<String> = said
        .map(|(name, value)| {
            format!("{name}: {}", value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        })
        .collect();
    if lines.is_empty() { String::new() } else { format!("\n\n{}", lines.join("\n")) }
}

/// Returns a question of the model that needs words.
fn user_input(start: &Start, id: &Value, params: &Value) -> (Request, Question) {
    let questions = items(params, &["questions"]);
    let name = |question: &Value| text(question, &["id"]).unwrap_or_default().to_owned();
    let reply = Reply::Words(questions.iter().map(name).collect());
    let question = Question::words("", ask::parts(questions, "multiSelect"));
    let permission =
        ToolUse { tool: "requestUserInput", what: &question.text }.permission(&start.permissions);
    (Request::permission(id.clone(), &question.text, reply, permission), question)
}

/// Returns a request of an MCP server. It can be allowed only if its form has no fields, since forms cannot be filled in here.
fn elicitation(start: &Start, id: &Value, params: &Value) -> (Request, Question) {
    let fields = at(params, &["requestedSchema", "properties"]).and_then(Value::as_object);
    let form = text(params, &["mode"]) == Some("form") && fields.is_none_or(serde_json::Map::is_empty);
    let server = text(params, &["serverName"]).unwrap_or_default();
    let message = text(params, &["message"]).unwrap_or_default();
    let what = format!("{server}: {message}");
    let tool_use = ToolUse { tool: "mcp", what: &what };
    let allow = json!({ "action": "accept", "content": {} });
    let choice =
        Reply::Choice { allow, deny: json!({ "action": "decline" }), cancel: json!({ "action": "cancel" }) };
    let permission = if form { tool_use.permission(&start.permissions) } else { Permission::Deny };
    // The arguments of a tool stand beside the form.
    let arguments = at(params, &["_meta", "tool_params"]).map(serde_json::to_string_pretty);
    let arguments = arguments.and_then(Result::ok).map_or_else(String::new, |text| format!("\n\n{text}"));
    let question =
        Question::request(tool_use.line(), &format!("mcp {server}"), &format!("{message}{arguments}"));
    (Request::permission(id.clone(), &tool_use.line(), choice, permission), question)
}

fn permission_request(
    start: &Start,
    id: &Value,
    tool_use: &ToolUse<'_>,
    reply: Reply,
    request: &str,
) -> (Request, Question) {
    let line = tool_use.line();
    let question = Question::request(line.clone(), tool_use.tool, request);
    (Request::permission(id.clone(), &line, reply, tool_use.permission(&start.permissions)), question)
}

fn decision(allow: &str, deny: &str, cancel: &str) -> Reply {
    let decision = |word: &str| json!({ "decision": word });
    Reply::Choice { allow: decision(allow), deny: decision(deny), cancel: decision(cancel) }
}

fn reason(params: &Value) -> &str {
    text(params, &["reason"]).or(text(params, &["grantRoot"])).unwrap_or_default()
}

/// Returns the command that rules match: the script, if the line only runs one in a shell.
pub(crate) fn command(line: &str) -> String {
    let words = words(line).unwrap_or_default();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    script(&words).unwrap_or(line).to_owned()
}

fn script<'a>(words: &[&'a str]) -> Option<&'a str> {
    let shells = ["sh", "bash", "zsh", "dash"];
    // A program of that name elsewhere is another one.
    let name = |shell: &'a str| {
        ["/bin/", "/usr/bin/", "/usr/local/bin/"]
            .iter()
            .find_map(|place| shell.strip_prefix(place))
            .unwrap_or(shell)
    };
    match words {
        [shell, "-c" | "-lc", script] if shells.contains(&name(shell)) => Some(script),
        _ => None,
    }
}

/// Splits a line as a shell would; `None` if it contains anything but plain and quoted words.
fn words(line: &str) -> Option<Vec<String>> {
    let (mut words, mut word) = (Vec::new(), None::<String>);
    let mut chars = line.chars();
    while let Some(char) = chars.next() {
        match char {
            ' ' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '\'' => break,
                        quoted => word.push(quoted),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '"' => break,
                        '\\' => match chars.next()? {
                            escaped @ ('"' | '\\' | '$' | '`') => word.push(escaped),
                            _ => return None,
                        },
                        '$' | '`' => return None,
                        quoted => word.push(quoted),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(chars.next()?),
            ';' | '&' | '|' | '<' | '>' | '(' | ')' | '$' | '`' | '\n' | '\t' | '#' | '*' | '?' | '[' => {
                return None;
            }
            plain => word.get_or_insert_default().push(plain),
        }
    }
    words.extend(word);
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_script_is_unwrapped_only_if_nothing_is_hidden() {
        for (line, expected) in [
            ("/bin/bash -lc 'cargo test'", "cargo test"),
            ("/bin/bash -lc 'echo '\\''a'\\'''", "echo 'a'"),
            (r#"bash -c "echo \"x\"""#, r#"echo "x""#),
            ("/bin/bash -lc ls", "ls"),
            // More arguments, another program, or shell syntax: the line stays as it is.
            ("/bin/bash -lc 'ls' x", "/bin/bash -lc 'ls' x"),
            ("/bin/bash -lc 'ls'; rm x", "/bin/bash -lc 'ls'; rm x"),
            ("/bin/bash -lc \"$(rm x)\"", "/bin/bash -lc \"$(rm x)\""),
            ("python -c 'print()'", "python -c 'print()'"),
            ("/bin/bash -lc 'open", "/bin/bash -lc 'open"),
            ("", ""),
        ] {
            assert_eq!(command(line), expected, "{line}");
        }
    }

    #[test]
    fn the_strictest_permission_among_the_files_applies() {
        let rule =
            |pattern: &str, permission| lastword_core::spec::Rule { pattern: pattern.to_owned(), permission };
        let mut start = Start::default();
        start.permissions.rules =
            vec![rule("fileChange: /etc/*", Permission::Deny), rule("fileChange: src/*", Permission::Allow)];
        let permission = |paths: &[&str]| {
            let changes: Vec<Value> = paths.iter().map(|path| json!({ "path": path })).collect();
            let mut known = Changes::default();
            known.note(&start, &json!({ "type": "fileChange", "id": "i", "changes": changes }));
            known.0[0].permission
        };
        assert_eq!(permission(&["src/a", "src/b"]), Permission::Allow);
        assert_eq!(permission(&["src/a", "README"]), Permission::Ask);
        assert_eq!(permission(&["src/a", "/etc/passwd", "README"]), Permission::Deny);
    }
}
