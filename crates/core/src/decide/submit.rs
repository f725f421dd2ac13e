//! `submit`: a job is asked for. The client made its id, so asking twice is asking once.

use std::sync::Arc;

use super::{Decision, Refusal};
use crate::event::Submitted;
use crate::ids::JobId;
use crate::job::Job;
use crate::limits::Limits;
use crate::spec::{Io, Spec, Work, Worktree};

/// Bytes of everything a submitter may write into a spec. A spec is stored, folded and listed for ever.
const SPEC_BYTES_MAX: usize = 256 * 1024;

/// Labels of one job: enough for any filter, too few for a payload.
const LABELS_MAX: usize = 64;

/// Jobs one job may wait for; each is looked at when it ends.
const DEPENDENCIES_MAX: usize = 256;

/// Decides a submission. `global` are the limits of the installation; the job's own win over them.
pub fn decide(job: &Job, spec: &Arc<Spec>, by: &str, global: Limits) -> Decision {
    match &job.spec {
        None => {
            check(job, spec)?;
            let limits = spec.limits.or(global).or(spec.work.default_limits());
            Ok(vec![Submitted { spec: Arc::clone(spec), by: by.to_owned(), limits }.into()])
        }
        Some(before) if before == spec => Ok(Vec::new()),
        Some(_) => Err(Refusal::IdTaken(job.id)),
    }
}

/// Characters of a name: it stands in a column of a list.
const NAME_CHARS_MAX: usize = 64;

/// Reports whether people may call a job this: letters, digits, and after the first also `.`, `_` and `-`. A job id is no
/// name, since it would name two jobs.
pub fn is_name(text: &str) -> bool {
    let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    let begins = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    plain && begins && text.len() <= NAME_CHARS_MAX && text.parse::<JobId>().is_err()
}

fn check(job: &Job, spec: &Spec) -> Result<(), Refusal> {
    let words: usize = match &spec.work {
        Work::Command { argv } if argv.is_empty() => return Err(Refusal::Invalid("there is no command")),
        Work::Command { argv } => argv.iter().map(|word| word.len() + 1).sum(),
        Work::Agent { provider, .. } if provider.is_empty() => {
            return Err(Refusal::Invalid("the agent has no name"));
        }
        Work::Agent { provider, prompt, terms } => provider.len() + prompt.len() + terms.bytes(),
    };
    let labels: usize = spec.labels.iter().map(|(name, value)| name.len() + value.len()).sum();
    let resume = spec.resume.as_ref().map_or(0, |resume| resume.provider.len() + resume.reference.len());
    let worktree =
        spec.worktree.as_ref().map_or(0, |it| it.git_dir.len() + it.checkout.len() + it.base.len());
    let places = spec.cwd.len() + worktree;
    let too_large = words + labels + resume + places + spec.group.len() > SPEC_BYTES_MAX;
    match spec {
        _ if too_large => Err(Refusal::Invalid("it is larger than 256 KiB")),
        Spec { name: Some(name), .. } if !is_name(name) => Err(Refusal::Invalid(
            "its name is not 1 to 64 letters, digits, `.`, `_` or `-` that open with a letter or digit, or it is a job id",
        )),
        Spec { io: Io::Terminal { rows: 0, .. } | Io::Terminal { columns: 0, .. }, .. } => {
            Err(Refusal::Invalid("its terminal has no size"))
        }
        _ if spec.work.is_agent() && spec.io != Io::Null => {
            Err(Refusal::Invalid("an agent is spoken to in its own way: it takes no pipe and no terminal"))
        }
        _ if spec.parent == Some(job.id) => Err(Refusal::Invalid("it is its own parent")),
        Spec { worktree: Some(worktree), .. } if !is_worktree(worktree, &spec.cwd) => Err(Refusal::Invalid(
            "its worktree does not have a commit, or paths that are absolute, or its folder is not in the checkout",
        )),
        _ if spec.group.is_empty() => Err(Refusal::Invalid("the group has no name")),
        _ if spec.labels.len() > LABELS_MAX => Err(Refusal::Invalid("it has more than 64 labels")),
        _ if spec.after.len() > DEPENDENCIES_MAX => Err(Refusal::Invalid("it waits for more than 256 jobs")),
        _ if spec.after.iter().any(|other| other.job == job.id) => {
            Err(Refusal::Invalid("it waits for itself"))
        }
        _ if spec.retry.attempts_max == 0 => Err(Refusal::Invalid("it may not be tried even once")),
        _ => Ok(()),
    }
}

/// Reports whether a worktree can be of the checkout that `cwd` is in, by its words alone.
fn is_worktree(worktree: &Worktree, cwd: &str) -> bool {
    let is_hex = worktree.base.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let is_commit = is_hex && matches!(worktree.base.len(), 40 | 64);
    let is_absolute = |path: &str| path.starts_with('/') && !path.contains('\0');
    let below = cwd.strip_prefix(worktree.checkout.as_str());
    let is_below = below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let is_plain = !cwd.split('/').any(|part| part == "..");
    is_commit && is_absolute(&worktree.git_dir) && is_absolute(&worktree.checkout) && is_below && is_plain
}
