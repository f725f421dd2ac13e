//! What coding agents say, in the words of core, and what is to be said to them. Pure: bytes in, signals and lines out.
//!
//! A dialect is a state that moves in two ways: by a line that was heard, and by a line that was written. What is to be written next
//! is read off the state and the goals, never fired once; so a dialogue that is rebuilt from a recording of both goes on where
//! the former one stopped, says nothing twice and forgets nothing.
//!
//! * `dialogue`: lines and offsets, whatever the dialect. What an engine holds.
//! * `claude`, `codex`, `acp`, `once`, `plain`: the dialects, one to a file.
//! * `rpc`, `request`, `inputs`, `turn`, `tokens`: what dialects have in common.
//! * `show`: what a line of an agent shows to people.
//! * `definition`: the agents that are known by name, which are data.

mod acp;
mod claude;
mod codex;
mod definition;
mod dialogue;
mod inputs;
mod once;
mod permission;
mod plain;
mod request;
mod rpc;
pub mod seeded;
mod show;
mod tokens;
mod turn;
mod value;
mod written;

pub use definition::{BadDefinition, Definition, Definitions};
pub use dialogue::{Dialogue, Goals, Heard, LINE_BYTES_MAX, Outgoing, Unreadable};
pub use permission::ToolUse;
pub use show::{Show, Shown};

use lastword_core::spec::{Permissions, Prices, Spec, Terms, Work};

/// How a conversation begins, and by which rules it goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// The first prompt.
    pub prompt: String,
    /// The folder the agent works in.
    pub cwd: String,
    /// The conversation to go on with.
    pub resume: Option<String>,
    /// With a copy of it.
    pub fork: bool,
    /// What it may do without asking.
    pub permissions: Permissions,
    /// What tokens cost, for an agent that does not say.
    pub prices: Option<Prices>,
}

impl Start {
    /// Returns how an attempt begins whose job was asked for like this, in this folder; it goes on with `resume` in place of what the
    /// job itself goes on with. `None` for a job that is no agent's.
    pub fn of<'a>(spec: &'a Spec, cwd: &str, resume: Option<&str>) -> Option<(Start, &'a Terms)> {
        let Work::Agent { prompt, terms, .. } = &spec.work else { return None };
        let asked = spec.resume.as_ref().map(|conversation| conversation.reference.as_str());
        let start = Start {
            prompt: prompt.clone(),
            cwd: cwd.to_owned(),
            resume: resume.or(asked).map(str::to_owned),
            // What an earlier attempt of the job began is its own, and no copy is needed.
            fork: spec.fork && resume.is_none(),
            permissions: terms.permissions.clone(),
            prices: terms.prices,
        };
        Some((start, terms))
    }

    /// Returns program and arguments.
    pub fn argv(&self, terms: &Terms) -> Vec<String> {
        let resume = if self.fork { &terms.fork } else { &terms.resume };
        let more = self
            .resume
            .iter()
            .flat_map(|reference| resume.iter().map(move |word| word.replace("{}", reference)));
        // Behind `--` there are no more options.
        let end = terms.argv.iter().position(|word| word == "--").unwrap_or(terms.argv.len());
        let prompted = |word: &String| word.replace("{prompt}", &self.prompt);
        let (words, rest) = terms.argv.split_at(end);
        words.iter().map(prompted).chain(more).chain(rest.iter().map(prompted)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_resumes_stands_behind_the_command_or_before_its_last_words() {
        let known = Definitions::with(None).unwrap();
        let argv = |name: &str, fork| {
            let terms = known.get(name).unwrap().terms(Permissions::default());
            let (prompt, resume) = ("--do {} it".to_owned(), Some("s1".to_owned()));
            Start { prompt, resume, fork, ..Start::default() }.argv(&terms).join(" ")
        };
        assert!(argv("claude", true).ends_with(" stdio --resume s1 --fork-session"));
        assert_eq!(
            argv("codex-exec", false),
            "codex exec --json --skip-git-repo-check resume s1 -- --do {} it"
        );
        assert!(argv("gemini-prompt", false).ends_with("--prompt=--do {} it --resume s1"));
    }
}
