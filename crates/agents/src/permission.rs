//! What an agent wants to do, and what becomes of that by the rules of its job.

use lastword_core::spec::{Permission, Permissions};
use serde_json::Value;

use crate::value::text;

/// A use of a tool that an agent asks permission for, or reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolUse<'a> {
    /// The tool, by the agent's own name for it.
    pub tool: &'a str,
    /// What with it: a command, a file.
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

    /// Returns it as one line, which is what a person reads and what rules are for.
    pub fn line(&self) -> String {
        match self.what {
            "" => self.tool.to_owned(),
            what => format!("{}: {what}", self.tool),
        }
    }

    /// Returns what becomes of it.
    pub fn permission(&self, rules: &Permissions) -> Permission {
        let line = self.line();
        let rule = rules.rules.iter().find(|rule| match rule.permission {
            Permission::Allow => allows(&rule.pattern, &line),
            Permission::Ask | Permission::Deny => fits(&rule.pattern, &line),
        });
        rule.map_or(rules.otherwise, |rule| rule.permission)
    }
}

/// An answer of a person to a question of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer<'a> {
    /// It may.
    Allow,
    /// It may not, for this reason.
    Deny(&'a str),
}

impl<'a> Answer<'a> {
    /// Reads an answer: `allow`, or `deny` with or without a reason. Anything else says what to do instead, which is a denial.
    pub(crate) fn read(text: &'a str) -> Answer<'a> {
        let text = text.trim();
        match text.split_once(char::is_whitespace).unwrap_or((text, "")) {
            ("allow" | "yes" | "approve", "") => Answer::Allow,
            ("deny" | "no", reason) => Answer::Deny(reason.trim()),
            _ => Answer::Deny(text),
        }
    }
}

/// What makes more of a shell's command than it begins with: another command, or a file that is read or written.
const MORE: [&str; 8] = [";", "&", "|", "`", "$(", "<", ">", "\n"];

/// Reports whether a pattern that allows fits a text. What makes more of a command is allowed only by a pattern that has it too, or by
/// one that allows everything: who allows `cargo *` does not mean `cargo test; rm -rf /`.
fn allows(pattern: &str, text: &str) -> bool {
    let is_everything = pattern.bytes().all(|byte| byte == b'*');
    let is_meant = |more: &str| is_everything || pattern.contains(more) || !text.contains(more);
    fits(pattern, text) && MORE.into_iter().all(is_meant)
}

/// Reports whether a pattern fits a text from end to end; `*` stands for anything, line breaks too. In time of both lengths.
fn fits(pattern: &str, text: &str) -> bool {
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
    fn a_pattern_fits_the_whole_line() {
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
            assert_eq!(fits(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let rule = |pattern: &str, permission| Rule { pattern: pattern.to_owned(), permission };
        let rules = Permissions {
            rules: vec![rule("Bash: git push*", Permission::Deny), rule("Bash: git *", Permission::Allow)],
            ..Permissions::default()
        };
        let becomes = |what| ToolUse { tool: "Bash", what }.permission(&rules);
        assert_eq!(becomes("git push -f"), Permission::Deny);
        assert_eq!(becomes("git status"), Permission::Allow);
        assert_eq!(becomes("make"), Permission::Ask);
    }

    #[test]
    fn who_allows_a_command_does_not_allow_what_is_behind_it() {
        for more in [
            "cargo test; rm -rf /",
            "cargo test && rm x",
            "cargo test | sh",
            "cargo run -- `rm x`",
            "cargo run -- $(rm x)",
            "cargo test > /etc/passwd",
            "cargo test <(rm x)",
            "cargo test\nrm x",
        ] {
            let line = format!("Bash: {more}");
            assert!(fits("Bash: cargo *", &line) && !allows("Bash: cargo *", &line), "{line}");
            assert!(allows("*", &line), "{line}");
        }
        assert!(allows("Bash: cargo *", "Bash: cargo test --workspace"));
        assert!(allows("Bash: cargo * | tee *", "Bash: cargo test | tee log"));
        assert!(!allows("Bash: cargo * | tee *", "Bash: cargo test | tee log; rm x"));
    }

    #[test]
    fn what_is_not_plainly_a_yes_is_a_no() {
        assert_eq!(Answer::read(" allow\n"), Answer::Allow);
        assert_eq!(Answer::read("deny"), Answer::Deny(""));
        assert_eq!(Answer::read("deny  not that one"), Answer::Deny("not that one"));
        assert_eq!(Answer::read("allow only reading"), Answer::Deny("allow only reading"));
        assert_eq!(Answer::read(""), Answer::Deny(""));
    }
}
