//! How an attempt of an agent starts: its prompt, folder, conversation, rules, and its command line.

use std::collections::BTreeMap;
use std::ffi::OsString;

use lastword_core::decide::resume;
use lastword_core::event::Usage;
use lastword_core::report::Signal;
use lastword_core::spec::{Dialect, Permissions, Prices, Terms, Unfinished, Work};
use lastword_core::{AttemptNo, Job};

use crate::prices::price_of;
use crate::tokens::Tokens;

/// How an attempt of an agent starts, and its rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// The first prompt.
    pub prompt: String,
    /// The folder the agent works in.
    pub cwd: String,
    /// The conversation to resume.
    pub resume: Option<String>,
    /// Resume a copy of it.
    pub fork: bool,
    /// Forget what it holds after this mark: turns that did not complete.
    pub forget_after: Option<String>,
    /// The request that does so, for an agent that is told through its protocol.
    pub rewind: Option<String>,
    /// What it may do without asking.
    pub permissions: Permissions,
    /// Token prices of the agent, whatever its model.
    pub prices: Option<Prices>,
    /// The user's token prices by model.
    pub model_prices: BTreeMap<String, Prices>,
    /// The model to use, for an agent that is told through its protocol.
    pub model: Option<String>,
    /// The effort to use.
    pub effort: Option<String>,
}

impl Start {
    /// Returns the start of an attempt of a job in this folder. `None` for a plain command.
    pub fn of<'a>(job: &'a Job, attempt: AttemptNo, cwd: &str) -> Option<(Start, &'a Terms)> {
        let Work::Agent { terms, .. } = &job.spec.as_ref()?.work else { return None };
        let on = resume::of_attempt(job, attempt);
        let forgets = on.filter(|on| on.unfinished == Some(Unfinished::Forgotten));
        let start = Start {
            prompt: resume::prompt_of_attempt(job, attempt).to_owned(),
            cwd: cwd.to_owned(),
            resume: on.map(|on| on.reference.to_owned()),
            fork: on.is_some_and(|on| on.is_copy),
            forget_after: forgets.and_then(|on| on.at).map(str::to_owned),
            rewind: terms.rewind.first().cloned().filter(|_| terms.dialect == Dialect::Acp),
            permissions: terms.permissions.clone(),
            prices: terms.prices,
            model_prices: terms.model_prices.clone(),
            model: terms.model.clone(),
            effort: terms.effort.clone(),
        };
        Some((start, terms))
    }

    /// Returns the prices of the agent's tokens, of this model.
    pub(crate) fn price_of(&self, model: Option<&str>) -> Option<Prices> {
        self.prices.or_else(|| price_of(&self.model_prices, model?))
    }

    /// Returns what tokens of this model cost, and the signal that this is not known.
    pub(crate) fn cost_of(&self, model: Option<&str>, tokens: Tokens) -> (Usage, Option<Signal>) {
        let price = self.price_of(model);
        let model = model.unwrap_or("unknown");
        let unpriced = price.is_none().then(|| Signal::Unpriced { model: model.to_owned() });
        (tokens.usage(price), unpriced)
    }

    /// Returns the program and its arguments.
    pub fn argv(&self, terms: &Terms) -> Vec<String> {
        let resume = if self.fork { &terms.fork } else { &terms.resume };
        let filled = |words: &[String], with: &Option<String>| -> Vec<String> {
            with.iter().flat_map(|with| words.iter().map(move |word| word.replace("{}", with))).collect()
        };
        let rewind = if terms.dialect == Dialect::Acp { &[] } else { &terms.rewind[..] };
        let more = [filled(resume, &self.resume), filled(rewind, &self.forget_after)].concat();
        // Options must come before `--`.
        let end = terms.argv.iter().position(|word| word == "--").unwrap_or(terms.argv.len());
        let prompted = |word: &String| word.replace("{prompt}", &self.prompt);
        let (words, rest) = terms.argv.split_at(end);
        words.iter().map(prompted).chain(more).chain(rest.iter().map(prompted)).collect()
    }
}

/// Adds the variables of an agent's definition that an environment lacks; `secret` is the value of those that must not be known.
pub fn with_variables(
    mut env: Vec<(OsString, OsString)>,
    terms: &Terms,
    secret: &str,
) -> Vec<(OsString, OsString)> {
    // An empty secret protects nothing.
    let is_empty_secret = |name: &OsString, value: &OsString| {
        value.is_empty() && terms.secrets.iter().any(|it| name == it.as_str())
    };
    env.retain(|(name, value)| !is_empty_secret(name, value));
    let secrets = terms.secrets.iter().map(|name| (name.as_str(), secret));
    let variables = terms.env.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    for (name, value) in variables.chain(secrets) {
        if !env.iter().any(|(known, _)| known == name) {
            env.push((name.into(), value.into()));
        }
    }
    env
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::{Chosen, Definitions};

    #[test]
    fn resume_arguments_follow_the_command_or_precede_its_double_dash() {
        let known = Definitions::with(None).unwrap();
        let argv = |name: &str, fork: bool| {
            let terms = known.get(name).unwrap().terms(Chosen::default()).unwrap();
            let (prompt, resume) = ("--do {} it".to_owned(), Some("s1".to_owned()));
            let forget_after = fork.then(|| "m1".to_owned());
            Start { prompt, resume, fork, forget_after, ..Start::default() }.argv(&terms).join(" ")
        };
        assert!(argv("claude", true).ends_with(" stdio --resume s1 --fork-session --resume-session-at m1"));
        assert!(argv("claude", false).ends_with(" stdio --resume s1"));
        assert_eq!(
            argv("codex-exec", false),
            "codex exec --json --skip-git-repo-check resume s1 -- --do {} it"
        );
        assert!(argv("gemini-prompt", false).ends_with("--prompt=--do {} it --resume s1"));
    }

    #[test]
    fn an_environment_keeps_its_own_variables_and_gets_a_secret_that_it_lacks() {
        let terms = Terms {
            env: [("A".to_owned(), "1".to_owned()), ("B".to_owned(), "2".to_owned())].into(),
            secrets: vec!["PASSWORD".to_owned()],
            ..Terms::default()
        };
        let with = |given: &[(&str, &str)]| {
            let given = given.iter().map(|(name, value)| (name.into(), value.into())).collect();
            let all = with_variables(given, &terms, "s3cret").into_iter();
            let pairs = all.map(|(name, value)| format!("{}={}", name.display(), value.display()));
            pairs.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(with(&[("A", "own")]), "A=own B=2 PASSWORD=s3cret");
        assert_eq!(with(&[("PASSWORD", "own")]), "PASSWORD=own A=1 B=2");
        assert_eq!(with(&[("PASSWORD", "")]), "A=1 B=2 PASSWORD=s3cret");
    }
}
