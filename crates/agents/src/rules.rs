//! Rules as they are submitted: one that could never match is refused, with what to write instead.
//!
//! A rule is `TOOL: WHAT`, by the names that the agent's requests have. Agents have rules of their own in other forms, such as
//! `Bash(git *)`. They are not translated: an agent compares the parts of a compound command one by one, which a pattern cannot.

use lastword_core::spec::{Dialect, Rule};

/// Names of tools that do the same, over all agents.
const SAME: [&[&str]; 4] = [
    &[
        "Bash",
        "commandExecution",
        "execute",
        "shell",
        "run_shell_command",
        "ShellTool",
        "exec_command",
        "local_shell",
        "developer__shell",
        PREFIX_RULE,
    ],
    &[
        "Edit",
        "fileChange",
        "Write",
        "MultiEdit",
        "apply_patch",
        "replace",
        "write_file",
        "patch",
        "EditTool",
        "WriteFileTool",
    ],
    &["Read", "read_file", "ReadFileTool"],
    &["WebFetch", "fetch", "web_fetch", "WebFetchTool"],
];

/// What `codex` calls a rule about the first words of a command.
const PREFIX_RULE: &str = "prefix_rule";

/// Prefix of the tools of MCP servers, where `claude` names them.
const SERVER_TOOL: &str = "mcp__";

/// Tool of `claude` that asks a person.
const PERSON_ONLY: &str = "AskUserQuestion";

/// The names that requests of an agent have.
pub(crate) struct ToolNames<'a> {
    dialect: Dialect,
    own: &'a [String],
}

impl<'a> ToolNames<'a> {
    /// Returns the names of a dialect, and those that an agent has beside them.
    pub(crate) fn new(dialect: Dialect, own: &'a [String]) -> ToolNames<'a> {
        ToolNames { dialect, own }
    }

    /// Returns the rules with every name alone as `NAME` and `NAME: *`; if one could never match, the reason.
    pub(crate) fn check(&self, rules: Vec<Rule>) -> Result<Vec<Rule>, String> {
        // Rules are refused for these: they never ask.
        if self.dialect.is_one_shot() {
            return Ok(rules);
        }
        let mut checked = Vec::with_capacity(rules.len());
        for Rule { pattern, permission } in rules {
            let patterns = self.expand(&pattern).map_err(|why| format!("the rule `{pattern}` {why}"))?;
            checked.extend(patterns.into_iter().map(|pattern| Rule { pattern, permission }));
        }
        Ok(checked)
    }

    fn expand(&self, pattern: &str) -> Result<Vec<String>, String> {
        let end = pattern.find([':', '(', '*']).unwrap_or(pattern.len());
        let (name, rest) = pattern.split_at(end);
        match rest.bytes().next() {
            Some(b'*') if self.could_begin(name) => Ok(vec![pattern.to_owned()]),
            Some(b'*') => Err(self.unknown(name, ": *")),
            Some(b'(') => {
                let what = own_argument(name, rest);
                let tool = self.twin(name).unwrap_or(name);
                Err(format!("is in an agent's own syntax, which has another meaning; write `{tool}: {what}`"))
            }
            Some(_) if rest[1..].trim().is_empty() => {
                self.check_name(name, ": *")?;
                Err(format!("would never match: nothing follows the colon; write `{name}` for every use"))
            }
            Some(_) => {
                self.check_name(name, rest)?;
                self.check_path(name, rest)?;
                match rest.starts_with(": ") || rest.starts_with(":*") {
                    true => Ok(vec![pattern.to_owned()]),
                    false => Err(format!(
                        "would never match: a space follows the colon; write `{name}: {}`",
                        rest[1..].trim_start()
                    )),
                }
            }
            None => {
                self.check_name(name, ": *")?;
                Ok(vec![name.to_owned(), format!("{name}: *")])
            }
        }
    }

    /// Refuses a name that no request has.
    fn check_name(&self, name: &str, rest: &str) -> Result<(), String> {
        if self.dialect == Dialect::Claude && name == PERSON_ONLY {
            return Err(format!("has no effect: only a person can answer `{PERSON_ONLY}`"));
        }
        let server = name.strip_prefix(SERVER_TOOL).filter(|tool| !tool.contains("__"));
        match server {
            Some(_) if self.dialect == Dialect::Claude => {
                Err(format!("would never match: it names no tool; write `{name}__*`"))
            }
            _ if self.is_known(name) => Ok(()),
            _ if self.twin(name).is_none() && self.is_possible(name) => Ok(()),
            _ => Err(self.unknown(name, rest)),
        }
    }

    /// Refuses a path that is not absolute where the agent has no other.
    fn check_path(&self, name: &str, rest: &str) -> Result<(), String> {
        let path = rest.trim_start_matches([':', ' ']);
        match self.dialect == Dialect::Codex && name == "fileChange" && !path.starts_with(['/', '*']) {
            true => Err(format!("would never match: its paths are absolute; write `{name}: */{path}`")),
            false => Ok(()),
        }
    }

    fn known(&self) -> impl Iterator<Item = &str> {
        let names: &[&str] = match self.dialect {
            Dialect::Claude => &["Bash", "Edit", "Write", "MultiEdit", "Read", "WebFetch"],
            Dialect::Codex => {
                &["commandExecution", "fileChange", "network", "permissions", "mcp", "requestUserInput"]
            }
            // The kinds of the protocol.
            Dialect::Acp => &[
                "execute",
                "edit",
                "read",
                "delete",
                "move",
                "search",
                "fetch",
                "think",
                "switch_mode",
                "other",
            ],
            Dialect::Plain | Dialect::Once => &[],
        };
        names.iter().copied().chain(self.own.iter().map(String::as_str))
    }

    fn is_known(&self, name: &str) -> bool {
        self.known().any(|known| known == name)
    }

    /// Reports whether the agent may have a tool of this name: one of a server, or of another version.
    fn is_possible(&self, name: &str) -> bool {
        let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
        let is_allowed = match self.dialect {
            Dialect::Claude => {
                name.starts_with(|first: char| first.is_ascii_uppercase()) || is_server_tool(name)
            }
            Dialect::Acp => !self.own.is_empty() && name.contains("__"),
            Dialect::Codex | Dialect::Plain | Dialect::Once => false,
        };
        is_name && is_allowed
    }

    /// Reports whether a name may begin so.
    fn could_begin(&self, start: &str) -> bool {
        let may_be_server = match self.dialect {
            Dialect::Claude => SERVER_TOOL.starts_with(start),
            _ => !self.own.is_empty() && !start.contains(' '),
        };
        may_be_server || self.known().any(|known| known.starts_with(start)) || self.is_possible(start)
    }

    /// Returns the agent's name for a tool that does the same as this one.
    fn twin(&self, name: &str) -> Option<&str> {
        let is_same = |other: &str| other.eq_ignore_ascii_case(name);
        let group = SAME.iter().find(|group| group.iter().any(|other| is_same(other)))?;
        let in_group = |known: &&str| group.iter().any(|other| other.eq_ignore_ascii_case(known));
        self.known().find(|known| is_same(known)).or_else(|| self.known().find(in_group))
    }

    fn unknown(&self, name: &str, rest: &str) -> String {
        let tool = name.strip_prefix(SERVER_TOOL).and_then(|tool| tool.split_once("__"));
        let instead = match (self.twin(name), tool, self.dialect) {
            (Some(twin), ..) if rest.contains('{') => format!("write `{twin}: …`, one rule for each pattern"),
            (Some(twin), ..) => format!("write `{twin}{rest}`"),
            (None, Some((server, _)), Dialect::Codex) => format!("write `mcp: {server}: *`"),
            (None, Some((_, tool)), _) => format!("write `other: *{tool}*`"),
            (None, None, _) => {
                let known: Vec<&str> = self.known().collect();
                let has_others = self.dialect == Dialect::Claude || !self.own.is_empty();
                let are = if has_others { "are such as" } else { "are" };
                format!("the names of its tools {are} {}", known.join(", "))
            }
        };
        format!("would never match: the agent never asks for `{name}`; {instead}")
    }
}

fn is_server_tool(name: &str) -> bool {
    name.starts_with(SERVER_TOOL)
}

/// Returns what stands in the parentheses of an agent's own rule, as one of ours says it.
fn own_argument(name: &str, rest: &str) -> String {
    let inner = rest.trim_start_matches('(').trim_end_matches(')').trim();
    let words = |list: &str| list.split('"').skip(1).step_by(2).collect::<Vec<_>>().join(" ");
    match inner.strip_suffix(":*").unwrap_or(inner) {
        "" => "*".to_owned(),
        list if name == PREFIX_RULE => format!("{} *", words(list.split(']').next().unwrap_or_default())),
        site if site.starts_with("domain:") => format!("https://{}/*", &site["domain:".len()..]),
        command if command.len() < inner.len() => format!("{command} *"),
        // `gemini` takes what stands there for the beginning of a command.
        command if name.eq_ignore_ascii_case("run_shell_command") || name == "ShellTool" => {
            format!("{command} *")
        }
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use lastword_core::spec::Permission;

    use super::*;

    fn checked(dialect: Dialect, own: &[&str], pattern: &str) -> Result<Vec<String>, String> {
        let own: Vec<String> = own.iter().map(|name| (*name).to_owned()).collect();
        let rule = Rule { pattern: pattern.to_owned(), permission: Permission::Allow };
        let rules = ToolNames::new(dialect, &own).check(vec![rule])?;
        Ok(rules.into_iter().map(|rule| rule.pattern).collect())
    }

    const GOOSE: &[&str] = &["shell", "write", "tree"];

    #[test]
    fn a_rule_with_a_name_of_the_agent_is_taken_as_it_is() {
        for (dialect, own, pattern) in [
            (Dialect::Claude, &[][..], "Bash: cargo *"),
            (Dialect::Claude, &[], "Bash:*"),
            (Dialect::Claude, &[], "B*"),
            (Dialect::Claude, &[], "*rm*"),
            (Dialect::Claude, &[], "mcp__air__*"),
            (Dialect::Claude, &[], "m*"),
            (Dialect::Claude, &[], "NewTool: x"),
            (Dialect::Codex, &[], "commandExecution: cargo *"),
            (Dialect::Codex, &[], "permissions: {\"network\":*"),
            (Dialect::Codex, &[], "fileChange: /w/*"),
            (Dialect::Codex, &[], "fileChange: */src/*"),
            (Dialect::Codex, &[], "mcp: air: *"),
            (Dialect::Acp, &[], "execute: echo (x)"),
            (Dialect::Acp, &[], "other: air_book"),
            (Dialect::Acp, GOOSE, "shell: cargo *"),
            (Dialect::Acp, GOOSE, "write: /w/*"),
            (Dialect::Acp, GOOSE, "execute: cargo *"),
            (Dialect::Acp, GOOSE, "apps__list_apps: *"),
            (Dialect::Acp, GOOSE, "ap*"),
            // It never asks; the server says so.
            (Dialect::Once, &[], "Bash(git *)"),
        ] {
            assert_eq!(checked(dialect, own, pattern), Ok(vec![pattern.to_owned()]), "{pattern}");
        }
    }

    #[test]
    fn a_name_alone_is_every_use_of_the_tool() {
        let both = |name: &str| Ok(vec![name.to_owned(), format!("{name}: *")]);
        assert_eq!(checked(Dialect::Claude, &[], "Read"), both("Read"));
        assert_eq!(checked(Dialect::Claude, &[], "mcp__air__book"), both("mcp__air__book"));
        assert_eq!(checked(Dialect::Codex, &[], "fileChange"), both("fileChange"));
        assert_eq!(checked(Dialect::Acp, GOOSE, "tree"), both("tree"));
    }

    #[test]
    fn what_would_never_match_is_refused_with_what_to_write() {
        for (dialect, own, pattern, instead) in [
            (Dialect::Claude, &[][..], "Bash(git *)", "`Bash: git *`"),
            (Dialect::Claude, &[], "Bash(git:*)", "`Bash: git *`"),
            (Dialect::Claude, &[], "Bash()", "`Bash: *`"),
            (Dialect::Claude, &[], "WebFetch(domain:docs.rs)", "`WebFetch: https://docs.rs/*`"),
            (Dialect::Claude, &[], "bash: git *", "`Bash: git *`"),
            (Dialect::Claude, &[], "bash", "`Bash: *`"),
            (Dialect::Claude, &[], "read*", "`Read: *`"),
            (Dialect::Claude, &[], "execute: git *", "`Bash: git *`"),
            (Dialect::Claude, &[], "Bash:git *", "`Bash: git *`"),
            (Dialect::Claude, &[], "Bash:", "write `Bash` for every use"),
            (Dialect::Claude, &[], "Bash: ", "write `Bash` for every use"),
            (Dialect::Claude, &[], "bash:", "`Bash: *`"),
            (Dialect::Codex, &[], "fileChange: ", "write `fileChange` for every use"),
            (Dialect::Claude, &[], "mcp__air", "`mcp__air__*`"),
            (Dialect::Claude, &[], "AskUserQuestion", "only a person"),
            (
                Dialect::Codex,
                &[],
                "prefix_rule(pattern=[\"git\", \"add\"], decision=\"allow\")",
                "`commandExecution: git add *`",
            ),
            (Dialect::Codex, &[], "fileChange: src/*", "`fileChange: */src/*`"),
            (Dialect::Codex, &[], "Bash: git *", "`commandExecution: git *`"),
            (Dialect::Codex, &[], "apply_patch", "`fileChange: *`"),
            (Dialect::Codex, &[], "mcp__air__book", "`mcp: air: *`"),
            (
                Dialect::Codex,
                &[],
                "comandExecution: x",
                "names of its tools are commandExecution, fileChange",
            ),
            (Dialect::Acp, &[], "run_shell_command(git)", "`execute: git *`"),
            (Dialect::Acp, &[], "bash: {\"git *\": \"allow\"}", "`execute: …`, one rule"),
            (Dialect::Acp, &[], "webfetch", "`fetch: *`"),
            (Dialect::Acp, &[], "web_fetch: x", "`fetch: x`"),
            (Dialect::Acp, &[], "mcp__air__book", "`other: *book*`"),
            (Dialect::Acp, &[], "shell: ls", "`execute: ls`"),
            (Dialect::Acp, GOOSE, "shell(git)", "`shell: git`"),
            (Dialect::Acp, GOOSE, "Bash: ls", "`execute: ls`"),
            (Dialect::Acp, GOOSE, "wirte: x", "names of its tools are such as execute"),
            (Dialect::Acp, GOOSE, "cargo t*", "never asks for `cargo t`"),
            (Dialect::Claude, &[], "Bash git *", "never asks for `Bash git `"),
        ] {
            let refused = checked(dialect, own, pattern).unwrap_err();
            assert!(refused.starts_with(&format!("the rule `{pattern}` ")), "{refused}");
            assert!(refused.contains(instead), "{pattern}: {refused}");
        }
    }
}
