//! `rule`: what a person allows for the rest of the conversation, and takes back. A rule allows exactly the request that was shown when it was
//! made; the answers that it gives are stored like those of a person, with its name.

use super::{Decision, Refusal};
use crate::event::{RuleAdded, RuleRemoved};
use crate::job::{Job, Phase};
use crate::question::Ask;

/// Rules of a conversation. More cannot be read by a person.
const RULES_MAX: usize = 64;

/// Bytes of all of them. Each job of the conversation stores them.
const RULES_BYTES_MAX: usize = 1 << 20;

/// Returns the rule that allows what is asked from now on; none if there is one already.
pub(super) fn add(job: &Job, by: &str, ask: &Ask) -> Decision {
    if !ask.can_be_ruled() {
        return Err(Refusal::Nothing(
            job.id,
            "asked for something that cannot be shown whole, so no rule can allow it; approve it without --always",
        ));
    }
    if job.rules.iter().any(|rule| rule.allows(ask)) {
        return Ok(Vec::new());
    }
    if job.rules.len() >= RULES_MAX {
        return Err(Refusal::Full(job.id, "64 rules; remove one first"));
    }
    let size = |tool: &str, request: &str, exact: &str| tool.len() + request.len() + exact.len();
    let sizes = job.rules.iter().map(|rule| size(&rule.tool, &rule.request, &rule.exact));
    if sizes.sum::<usize>() + size(&ask.tool, &ask.request, &ask.exact) > RULES_BYTES_MAX {
        return Err(Refusal::Full(job.id, "rules of 1 MiB; remove one first"));
    }
    let (tool, request, exact) = (ask.tool.clone(), ask.request.clone(), ask.exact.clone());
    Ok(vec![RuleAdded { by: by.to_owned(), rule: job.rules_made + 1, tool, request, exact }.into()])
}

/// Decides to remove a rule. It has no effect on what it allowed before.
pub fn remove(job: &Job, by: &str, rule: u32) -> Decision {
    match job.phase {
        Phase::Unborn => Err(Refusal::NotFound(job.id)),
        Phase::Ended(_) if job.continued_by.is_some() => Err(Refusal::Ended(job.id)),
        _ if job.rules.iter().any(|known| known.no == rule) => {
            Ok(vec![RuleRemoved { by: by.to_owned(), rule }.into()])
        }
        _ => Err(Refusal::Nothing(job.id, "no rule of that name")),
    }
}

/// Returns the name of the rule that allows what is asked.
pub(super) fn allowing(job: &Job, ask: &Ask) -> Option<String> {
    job.rules.iter().find(|rule| rule.allows(ask)).map(|rule| name(rule.no))
}

/// Returns the name of a rule, by which it is removed.
pub fn name(no: u32) -> String {
    format!("r{no}")
}

/// Returns the number of the rule of this name.
pub fn parse(name: &str) -> Option<u32> {
    name.strip_prefix('r').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()
}
