//! Tool uses of agents, and what the rules of a job say about them.

use lastword_core::spec::{Permission, Permissions};
use serde_json::Value;

use crate::value::text;

/// A use of a tool that an agent asks permission for, or reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolUse<'a> {
    /// The tool, by the agent's name for it.
    pub tool: &'a str,
    /// What it is used on or for: a command, a file.
    pub what: &'a str,
}

impl<'a> ToolUse<'a> {
    /// Returns the use of a tool with this input, described by the input's most telling field.
    pub(crate) fn from_input(tool: &'a str, input: &'a Value) -> ToolUse<'a> {
        let names =
            ["command", "file_path", "notebook_path", "path", "url", "pattern", "query", "description"];
        let what = names.into_iter().find_map(|name| text(input, &[name])).unwrap_or_default();
        ToolUse { tool, what }
    }

    /// Returns the line that people read and rules match.
    pub fn line(&self) -> String {
        match self.what {
            "" => self.tool.to_owned(),
            what => format!("{}: {what}", self.tool),
        }
    }

    /// Returns the permission of the first rule that matches.
    pub fn permission(&self, rules: &Permissions) -> Permission {
        of(&[self], rules)
    }
}

/// Returns the permission of the first rule that matches a tool use by any of its names.
pub(crate) fn of(names: &[&ToolUse<'_>], rules: &Permissions) -> Permission {
    let lines: Vec<String> = names.iter().map(|tool_use| tool_use.line()).collect();
    let rule = rules.rules.iter().find(|rule| {
        lines.iter().any(|line| match rule.permission {
            Permission::Allow => allows(&rule.pattern, line),
            Permission::Ask | Permission::Deny => matches(&rule.pattern, line),
        })
    });
    rule.map_or(rules.otherwise, |rule| rule.permission)
}

/// Shell syntax that adds another command or a redirection to a command.
const SHELL_OPERATORS: [&str; 8] = [";", "&", "|", "`", "$(", "<", ">", "\n"];

/// Reports whether a rule that allows matches a line. Shell operators must be in the pattern too, unless it allows everything: allowing
/// `cargo *` must not allow `cargo test; rm -rf /`.
fn allows(pattern: &str, line: &str) -> bool {
    let is_everything = pattern.bytes().all(|byte| byte == b'*');
    let is_covered = |operator: &str| is_everything || pattern.contains(operator) || !line.contains(operator);
    matches(pattern, line) && SHELL_OPERATORS.into_iter().all(is_covered)
}

/// Reports whether a pattern matches a whole text; `*` matches anything, line breaks included. Takes time proportional to the product
/// of both lengths at worst.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at, mut seen) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while seen < text.len() {
        if pattern.get(at) == Some(&b'*') {
            star = Some((at, seen));
            at += 1;
        } else if pattern.get(at) == Some(&text[seen]) {
            (at, seen) = (at + 1, seen + 1);
        } else if let Some((star_at, from)) = star {
            star = Some((star_at, from + 1));
            (at, seen) = (star_at + 1, from + 1);
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use lastword_core::spec::Rule;

    use super::*;

    #[test]
    fn a_pattern_matches_the_whole_line() {
        for (pattern, text, expected) in [
            ("Bash: cargo *", "Bash: cargo test", true),
            ("Bash: cargo *", "Bash: cargo", false),
            ("Bash: cargo *", "Bash: rm -rf / ; cargo test", false),
            ("*", "", true),
            ("*rm*", "Bash: cd x\nrm y", true),
            ("Read", "Read: /etc/passwd", false),
            ("a*b*c", "a1b2c3c", true),
            ("a*b*c", "a1b2c3", false),
            ("", "", true),
            ("", "x", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn the_first_matching_rule_decides() {
        let rule = |pattern: &str, permission| Rule { pattern: pattern.to_owned(), permission };
        let rules = Permissions {
            rules: vec![rule("Bash: git push*", Permission::Deny), rule("Bash: git *", Permission::Allow)],
            ..Permissions::default()
        };
        let permission = |what| ToolUse { tool: "Bash", what }.permission(&rules);
        assert_eq!(permission("git push -f"), Permission::Deny);
        assert_eq!(permission("git status"), Permission::Allow);
        assert_eq!(permission("make"), Permission::Ask);
    }

    #[test]
    fn allowing_a_command_does_not_allow_others_after_it() {
        for command in [
            "cargo test; rm -rf /",
            "cargo test && rm x",
            "cargo test | sh",
            "cargo run -- `rm x`",
            "cargo run -- $(rm x)",
            "cargo test > /etc/passwd",
            "cargo test <(rm x)",
            "cargo test\nrm x",
        ] {
            let line = format!("Bash: {command}");
            assert!(matches("Bash: cargo *", &line) && !allows("Bash: cargo *", &line), "{line}");
            assert!(allows("*", &line), "{line}");
        }
        assert!(allows("Bash: cargo *", "Bash: cargo test --workspace"));
        assert!(allows("Bash: cargo * | tee *", "Bash: cargo test | tee log"));
        assert!(!allows("Bash: cargo * | tee *", "Bash: cargo test | tee log; rm x"));
    }
}
