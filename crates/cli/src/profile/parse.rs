//! What a profile can hold, parsed strictly: defaults of `run`, and neither permissions nor values of variables.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use lastword_core::limits::Limit;
use toml_edit::{Document, Item, TableLike, Value};

use crate::text::{limit, similar};

/// The keys of a profile.
const KEYS: [&str; 9] = ["agent", "model", "effort", "args", "group", "labels", "limits", "worktree", "env"];

/// Keys by which a profile might try to answer for its user.
const PERMISSIONS: [&str; 10] = [
    "allow",
    "approve",
    "ask_expires",
    "bypass",
    "deny",
    "permission",
    "permissions",
    "rule",
    "rules",
    "yolo",
];

/// Defaults of `run`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Profile {
    pub(crate) agent: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) effort: Option<String>,
    /// Further arguments of the agent's program.
    pub(crate) args: Vec<String>,
    pub(crate) group: Option<String>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) limits: Vec<(Limit, u64)>,
    pub(crate) worktree: Option<Worktree>,
    /// Names of variables that must be set. Their values come from the caller's environment.
    pub(crate) env: Vec<String>,
}

/// Whether jobs run in a worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Worktree {
    No,
    Yes,
    /// It stays even if nothing was changed.
    Keep,
}

/// Why a profile cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}: {why}", path.display())]
pub(crate) struct BadProfile {
    path: PathBuf,
    line: usize,
    why: String,
}

impl Profile {
    /// Parses a profile, which was read from `path`.
    pub(crate) fn parse(path: &Path, bytes: &[u8]) -> Result<Profile, BadProfile> {
        let bad = |line, why| BadProfile { path: path.to_owned(), line, why };
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let line = line_at(&bytes[..error.valid_up_to()]);
            bad(line, "this line is not UTF-8".to_owned())
        })?;
        read(text).map_err(|Bad { at, why }| bad(line_at(&bytes[..at.min(bytes.len())]), why))
    }

    /// Returns the value of a limit.
    pub(crate) fn limit(&self, limit: Limit) -> Option<u64> {
        self.limits.iter().find(|(known, _)| *known == limit).map(|(_, value)| *value)
    }

    /// Returns what it sets, one line each, in the spelling of a profile.
    pub(crate) fn lines(&self) -> Vec<String> {
        let text =
            |key: &str, value: &Option<String>| value.as_ref().map(|value| format!("{key} = {value:?}"));
        let list = |key: &str, words: &[String]| (!words.is_empty()).then(|| format!("{key} = {words:?}"));
        let worktree = self.worktree.map(|worktree| match worktree {
            Worktree::No => "worktree = false",
            Worktree::Yes => "worktree = true",
            Worktree::Keep => "worktree = \"keep\"",
        });
        let first = [
            text("agent", &self.agent),
            text("model", &self.model),
            text("effort", &self.effort),
            list("args", &self.args),
            text("group", &self.group),
        ];
        let labels = self.labels.iter().map(|(name, value)| format!("labels.{name:?} = {value:?}"));
        let limits = self.limits.iter().map(|(limit, value)| {
            let value = limit::spell(limit.unit(), *value);
            format!("limits.{} = {value}", limit.name())
        });
        let last = [worktree.map(str::to_owned), list("env", &self.env)];
        first.into_iter().flatten().chain(labels).chain(limits).chain(last.into_iter().flatten()).collect()
    }
}

/// What is wrong, and at which byte.
struct Bad {
    at: usize,
    why: String,
}

/// Returns the line of the byte after these.
fn line_at(before: &[u8]) -> usize {
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}

fn read(text: &str) -> Result<Profile, Bad> {
    let document = Document::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        Bad { at, why: error.message().lines().collect::<Vec<_>>().join("; ") }
    })?;
    let mut profile = Profile::default();
    for field in fields(document.as_table()) {
        profile.set(&field)?;
    }
    let table = document.as_table();
    let needs_agent = [
        ("model", profile.model.is_some()),
        ("effort", profile.effort.is_some()),
        ("args", !profile.args.is_empty()),
    ];
    match needs_agent.iter().find(|(_, is_set)| *is_set && profile.agent.is_none()) {
        // What one agent takes for a model or an option, another takes for something else.
        Some((key, _)) => {
            let at = fields(table).find(|field| field.name == *key).map_or(0, |field| field.at);
            Err(Bad { at, why: format!("`{key}` is for one agent only: name it with `agent`") })
        }
        None => Ok(profile),
    }
}

/// A key with its value.
struct Field<'a> {
    name: &'a str,
    at: usize,
    item: &'a Item,
}

fn fields(table: &dyn TableLike) -> impl Iterator<Item = Field<'_>> {
    let start = |span: Option<Range<usize>>| span.map(|span| span.start);
    table.iter().map(move |(name, item)| {
        let key = table.key(name).and_then(|key| start(key.span()));
        Field { name, at: key.or_else(|| start(item.span())).unwrap_or(0), item }
    })
}

impl Profile {
    fn set(&mut self, field: &Field<'_>) -> Result<(), Bad> {
        match field.name {
            "agent" => self.agent = Some(field.word()?),
            "model" => self.model = Some(field.word()?),
            "effort" => self.effort = Some(field.word()?),
            "group" => self.group = Some(field.word()?),
            "args" => self.args = field.words()?,
            "env" => self.env = field.variables()?,
            "worktree" => self.worktree = Some(field.worktree()?),
            "labels" => {
                for label in field.table()? {
                    self.labels.insert(label.name.to_owned(), label.text()?);
                }
            }
            "limits" => {
                for limit in field.table()? {
                    self.limits.push(limit.limit()?);
                }
            }
            name if PERMISSIONS.contains(&name) => {
                return Err(field.bad(
                    "a profile holds no permissions, because a repository must not answer for you; \
                     use the options of `lastword run`",
                ));
            }
            name => {
                let near = similar::nearest(name, KEYS)
                    .map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"));
                return Err(field.bad(format!("a profile has no such key{near}; it has {}", KEYS.join(", "))));
            }
        }
        Ok(())
    }
}

impl<'a> Field<'a> {
    fn bad(&self, why: impl std::fmt::Display) -> Bad {
        Bad { at: self.at, why: format!("`{}`: {why}", self.name) }
    }

    fn text(&self) -> Result<String, Bad> {
        self.item.as_str().map(str::to_owned).ok_or_else(|| self.bad("this must be a text in quotes"))
    }

    fn word(&self) -> Result<String, Bad> {
        let text = self.text()?;
        if text.is_empty() { Err(self.bad("this is empty")) } else { Ok(text) }
    }

    fn words(&self) -> Result<Vec<String>, Bad> {
        let words = self.item.as_array().and_then(|array| {
            array.iter().map(|value| value.as_str().map(str::to_owned)).collect::<Option<Vec<String>>>()
        });
        words.ok_or_else(|| self.bad("this must be a list of texts, such as [\"a\", \"b\"]"))
    }

    /// Returns names of variables. A value may be a secret, so it is neither accepted nor repeated.
    fn variables(&self) -> Result<Vec<String>, Bad> {
        let names = || "write a list of names; the values come from your environment";
        let all = self.words().map_err(|_| self.bad(names()))?;
        match all.iter().any(|name| name.is_empty() || name.contains('=')) {
            true => Err(self.bad(names())),
            false => Ok(all),
        }
    }

    fn worktree(&self) -> Result<Worktree, Bad> {
        match (self.item.as_bool(), self.item.as_str()) {
            (Some(true), _) => Ok(Worktree::Yes),
            (Some(false), _) => Ok(Worktree::No),
            (None, Some("keep")) => Ok(Worktree::Keep),
            _ => Err(self.bad("this must be true, false or \"keep\"")),
        }
    }

    fn limit(&self) -> Result<(Limit, u64), Bad> {
        let text = match self.item.as_value() {
            Some(Value::String(text)) => text.value().clone(),
            Some(Value::Integer(number)) => number.value().to_string(),
            Some(Value::Float(number)) => number.value().to_string(),
            _ => return Err(self.bad("this must be a number, or a text such as \"2h\"")),
        };
        limit::parse(self.name, &text).map_err(|why| self.bad(why))
    }

    fn table(&self) -> Result<impl Iterator<Item = Field<'a>>, Bad> {
        let table = self.item.as_table_like();
        table.map(fields).ok_or_else(|| self.bad("this must be a table of names and values"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Profile, String> {
        Profile::parse(Path::new("p.toml"), text.as_bytes()).map_err(|bad| bad.to_string())
    }

    #[test]
    fn every_key_is_read_and_shown_as_it_is_written() {
        let text = "agent = \"claude\"\nmodel = \"opus\"\neffort = \"high\"\nargs = [\"--add-dir\", \"x y\"]\n\
                    group = \"slow\"\nworktree = \"keep\"\nenv = [\"GITHUB_TOKEN\"]\n\
                    [labels]\nteam = \"core\"\n[limits]\nwall = \"1h30m\"\nturns = 12\nmoney = 1.5\n";
        let profile = parse(text).unwrap();
        assert_eq!(profile.limit(Limit::Wall), Some(5_400_000));
        assert_eq!(profile.limit(Limit::Money), Some(1_500_000));
        assert_eq!(profile.limit(Limit::Stall), None);
        assert_eq!(
            profile.lines(),
            [
                "agent = \"claude\"",
                "model = \"opus\"",
                "effort = \"high\"",
                "args = [\"--add-dir\", \"x y\"]",
                "group = \"slow\"",
                "labels.\"team\" = \"core\"",
                "limits.wall = 1h30m",
                "limits.turns = 12",
                "limits.money = $1.50",
                "worktree = \"keep\"",
                "env = [\"GITHUB_TOKEN\"]",
            ]
        );
        assert_eq!(parse(""), Ok(Profile::default()));
    }

    #[test]
    fn what_a_profile_cannot_hold_is_refused_with_its_line() {
        for (text, why) in [
            (
                "agent = 'a'\nmodl = 'x'",
                "p.toml:2: `modl`: a profile has no such key (did you mean `model`?); it has agent, model,",
            ),
            ("\n[limits]\nwal = '2h'", "p.toml:3: `wal`: there is no limit `wal` (did you mean `wall`?)"),
            ("[limits]\nturns = -1", "p.toml:2: `turns`"),
            ("[limits]\nmoney = nan", "p.toml:2: `money`"),
            ("[limits]\nwall = true", "p.toml:2: `wall`: this must be a number, or a text"),
            ("limits = 3", "p.toml:1: `limits`: this must be a table"),
            ("agent = ''", "p.toml:1: `agent`: this is empty"),
            ("agent = 3", "p.toml:1: `agent`: this must be a text in quotes"),
            ("args = 'x'", "p.toml:1: `args`: this must be a list"),
            ("worktree = 'yes'", "p.toml:1: `worktree`"),
            ("[labels]\na = 1", "p.toml:2: `a`"),
            ("group = 'g'\nmodel = 'm'", "p.toml:2: `model` is for one agent only"),
            ("args = ['x']", "p.toml:1: `args` is for one agent only"),
            ("agent = 'a'\nagent = 'b'", "p.toml:2: "),
            ("agent =", "p.toml:1: "),
        ] {
            let refused = parse(text).unwrap_err();
            assert!(refused.starts_with(why), "{text:?}: {refused}");
        }
        let refused = Profile::parse(Path::new("p.toml"), b"group = 'g'\n# \xff").unwrap_err();
        assert_eq!(refused.to_string(), "p.toml:2: this line is not UTF-8");
    }

    #[test]
    fn a_permission_is_refused_with_the_reason() {
        for text in [
            "allow = ['*']",
            "permissions = 'allow'",
            "[permissions]\notherwise = 'allow'",
            "permissions.otherwise = 'allow'",
            "[[rules]]\npattern = '*'",
            "bypass = true",
        ] {
            let refused = parse(&format!("agent = 'a'\n{text}")).unwrap_err();
            assert!(
                refused.starts_with("p.toml:2: ") && refused.contains("no permissions"),
                "{text}: {refused}"
            );
        }
    }

    #[test]
    fn the_value_of_a_variable_is_refused_and_not_repeated() {
        for text in [
            "env = ['TOKEN=hunter2']",
            "env = { TOKEN = 'hunter2' }",
            "[env]\nTOKEN = 'hunter2'",
            "env = ['']",
        ] {
            let refused = parse(text).unwrap_err();
            assert!(refused.contains("the values come from your environment"), "{refused}");
            assert!(!refused.contains("hunter2"), "{refused}");
        }
    }
}
