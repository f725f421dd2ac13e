//! Questions to a person, of an agent or at a limit: what is asked, whole; by which name it is answered; how it can be answered.
//!
//! A person approves only what was shown. So an answer names its question, and the name ends in a check of all that is asked: a reader
//! that was shown a part of it does not know the name.

use serde::{Deserialize, Serialize};

use crate::ids::Timestamp;
use crate::limits::Limit;

/// Bytes of one request. More cannot be read by a person; it is denied.
pub const REQUEST_BYTES_MAX: usize = 256 * 1024;

/// Parts that a question has at most.
pub const PARTS_MAX: usize = 8;

/// What is asked, whole.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ask {
    /// What kind of answer it needs.
    pub kind: AskKind,
    /// The tool that is to be used, by the agent's name for it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tool: String,
    /// The complete request: a command, a diff, or the arguments of a tool. Empty if the question has no more than its text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub request: String,
    /// What of it cannot be shown, and why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub lacks: String,
    /// What a person is asked, one by one. None for a permission.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
    /// The request as the agent sent it, without what differs from one request to the next. Rules compare it: what is shown can be the
    /// same for two requests. Empty if no rule can be made of it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub exact: String,
}

/// The kind of answer that a question needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskKind {
    /// It is allowed or denied.
    Permission,
    /// One of several options is chosen, or several of them.
    Choice,
    /// It is answered in words.
    Text,
}

/// One of the things that a question asks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Part {
    /// The text of it.
    pub text: String,
    /// What can be chosen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<Choice>,
    /// Whether several can be chosen.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub several: bool,
}

/// What can be chosen.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Choice {
    /// Its name, which is the answer.
    pub label: String,
    /// What it means.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

/// A change to a file that is asked for. The host that has the file can show it as a diff.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Edit {
    /// The file, in the agent's words: absolute, or relative to its folder.
    pub path: String,
    /// How it is changed.
    pub change: Change,
}

/// How a file is changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// All of it becomes this text.
    Write(String),
    /// Texts in it are replaced, one after the other.
    Replace(Vec<Replacement>),
}

/// A text that is replaced.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Replacement {
    /// The text.
    pub before: String,
    /// What stands there afterwards.
    pub after: String,
    /// Everywhere, not only once.
    pub everywhere: bool,
}

/// A person's answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// Allows what is asked.
    Allow,
    /// Denies it, with the reason, which may be empty; or declines to answer.
    Deny(String),
    /// Answers each part.
    Words(Vec<String>),
}

impl Ask {
    /// Returns a request for permission to use a tool.
    pub fn permission(tool: &str, request: &str) -> Ask {
        let (tool, request) = (tool.to_owned(), request.to_owned());
        let (lacks, parts, exact) = (String::new(), Vec::new(), String::new());
        Ask { kind: AskKind::Permission, tool, request, lacks, parts, exact }
    }

    /// Returns a question of several parts: a choice if any of them has options.
    pub fn words(tool: &str, parts: Vec<Part>) -> Ask {
        let is_choice = parts.iter().any(|part| !part.options.is_empty());
        let kind = if is_choice { AskKind::Choice } else { AskKind::Text };
        let (request, lacks, exact) = (String::new(), String::new(), String::new());
        Ask { kind, tool: tool.to_owned(), request, lacks, parts, exact }
    }

    /// Returns the bytes of everything that has to be shown.
    pub fn bytes(&self) -> usize {
        let choice = |choice: &Choice| choice.label.len() + choice.description.len();
        let part = |part: &Part| part.text.len() + part.options.iter().map(choice).sum::<usize>();
        let parts: usize = self.parts.iter().map(part).sum();
        self.tool.len() + self.request.len() + self.lacks.len() + parts
    }
}

impl Edit {
    /// Returns the change in words, without the file: what is written, or what is replaced by what.
    pub fn describe(&self) -> String {
        let lines = |sign: char, text: &str| -> String {
            text.split_inclusive('\n').map(|line| format!("{sign}{line}")).collect::<String>() + ending(text)
        };
        match &self.change {
            Change::Write(text) => format!("write {}\n{}", self.path, lines('+', text)),
            Change::Replace(all) => {
                let each = all.iter().map(|one| {
                    let everywhere = if one.everywhere { " everywhere" } else { "" };
                    let (before, after) = (lines('-', &one.before), lines('+', &one.after));
                    format!("replace{everywhere} in {}\n{before}{after}", self.path)
                });
                each.collect()
            }
        }
    }

    /// Returns the file after the change; `None` if a text that is to be replaced is not there, or not just once.
    pub fn apply(&self, file: &str) -> Option<String> {
        match &self.change {
            Change::Write(text) => Some(text.clone()),
            Change::Replace(all) => all.iter().try_fold(file.to_owned(), |file, one| {
                let times = file.matches(&one.before).count();
                let fits = !one.before.is_empty() && (times == 1 || times > 1 && one.everywhere);
                fits.then(|| file.replace(&one.before, &one.after))
            }),
        }
    }
}

/// Returns what ends the last line of a text that has no line break there.
fn ending(text: &str) -> &'static str {
    if text.is_empty() || text.ends_with('\n') { "" } else { "\n" }
}

impl Reply {
    /// Returns the answer that a text is, as 0.1.0 stored it: `allow`, `deny` with a reason, or words.
    pub fn from_text(text: &str) -> Reply {
        let text = text.trim();
        match text.split_once(char::is_whitespace).unwrap_or((text, "")) {
            ("allow" | "yes" | "approve", "") => Reply::Allow,
            ("deny" | "no", reason) => Reply::Deny(reason.trim().to_owned()),
            _ => Reply::Words(vec![text.to_owned()]),
        }
    }

    /// Returns it as a text, for the log.
    pub fn text(&self) -> String {
        match self {
            Reply::Allow => "allow".to_owned(),
            Reply::Deny(reason) if reason.is_empty() => "deny".to_owned(),
            Reply::Deny(reason) => format!("deny {reason}"),
            Reply::Words(words) => words.join("\n"),
        }
    }
}

/// Returns the name of the question with this number: `q3-7k2m`. The second part is a check of all that is asked.
pub(crate) fn name(number: u32, text: &str, ask: &Ask) -> String {
    // What rules compare is not shown.
    let shown = Ask { exact: String::new(), ..ask.clone() };
    let whole = serde_json::to_string(&(text, &shown)).unwrap_or_default();
    format!("q{number}-{}", check(&whole))
}

/// Returns the name of the question at a limit: `tokens-7k2m`. No question of an agent has such a name.
pub(crate) fn limit_name(limit: Limit, asked: &str) -> String {
    format!("{}-{}", limit.name(), check(asked))
}

/// Reports whether a question of this name is asked at a limit.
pub fn is_at_limit(name: &str) -> bool {
    let limit = name.split_once('-').map(|(limit, _)| limit);
    Limit::all().any(|(_, known)| limit == Some(known))
}

/// Returns a check of a text in four characters.
fn check(text: &str) -> String {
    const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    // FNV-1a. It need not resist an agent: no two questions of a job have the same number.
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let digit = |place: u32| char::from(ALPHABET[(hash >> (24 + 5 * place)) as usize % ALPHABET.len()]);
    (0..4).map(digit).collect()
}

/// Something that a person allowed for the rest of the conversation: exactly this request of this tool.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StandingRule {
    /// Its number in the conversation.
    pub no: u32,
    /// Its author.
    pub by: String,
    /// When it was made.
    pub at: Timestamp,
    /// The tool.
    pub tool: String,
    /// The complete request, as it was shown.
    pub request: String,
    /// The same as the agent sent it.
    pub exact: String,
}

impl StandingRule {
    /// Reports whether it allows what is asked: the same tool, and the same request, as it is shown and as the agent sent it.
    pub fn allows(&self, ask: &Ask) -> bool {
        let is_same = self.tool == ask.tool && self.request == ask.request && self.exact == ask.exact;
        ask.can_be_ruled() && is_same
    }
}

impl Ask {
    /// Reports whether a rule can allow it: it is a permission that can be shown whole.
    pub fn can_be_ruled(&self) -> bool {
        let is_whole = self.lacks.is_empty() && !self.request.is_empty() && !self.exact.is_empty();
        self.kind == AskKind::Permission && is_whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_depends_on_everything_that_is_asked() {
        let ask = Ask::permission("Bash", "make\nrm -rf build");
        let part = Part { text: "which?".to_owned(), options: Vec::new(), several: false };
        let others = [
            Ask::permission("Bash", "make\nrm -rf build "),
            Ask::permission("Sh", "make\nrm -rf build"),
            Ask { lacks: "all".to_owned(), ..ask.clone() },
            Ask { parts: vec![part], ..ask.clone() },
            Ask { kind: AskKind::Text, ..ask.clone() },
        ];
        let names: std::collections::BTreeSet<String> =
            others.iter().chain([&ask]).map(|ask| name(3, "Bash", ask)).collect();
        assert_eq!(names.len(), 6);
        assert!(names.iter().all(|name| name.len() == 7 && name.starts_with("q3-")), "{names:?}");
        assert_eq!(name(3, "Bash", &ask), name(3, "Bash", &ask.clone()));
        assert_ne!(name(3, "Bash: make", &ask), name(3, "Bash", &ask));
    }

    #[test]
    fn a_stored_answer_of_any_version_is_understood() {
        for (text, reply) in [
            (" allow\n", Reply::Allow),
            ("deny", Reply::Deny(String::new())),
            ("deny  not that one", Reply::Deny("not that one".to_owned())),
            ("allow only reading", Reply::Words(vec!["allow only reading".to_owned()])),
        ] {
            assert_eq!(Reply::from_text(text), reply);
        }
        for reply in [Reply::Allow, Reply::Deny(String::new()), Reply::Deny("no".to_owned())] {
            assert_eq!(Reply::from_text(&reply.text()), reply);
        }
    }
}
