//! `submit`: a new job. The client makes its id, so a repeated submission is recognised.

use std::sync::Arc;

use super::label::LABELS_MAX;
use super::limit;
use super::{Decision, Refusal};
use crate::conversation::Carried;
use crate::event::Submitted;
use crate::ids::JobId;
use crate::job::Job;
use crate::limits::Limits;
use crate::spec::{Io, Spec, Work, Worktree};

/// Bytes of everything that the submitter chooses in a spec. A spec is stored for good.
const SPEC_BYTES_MAX: usize = 256 * 1024;

/// Dependencies per job. Each end of one is recorded in the job.
const DEPENDENCIES_MAX: usize = 256;

/// Decides a submission. The job's own limits take precedence over the `global` ones of the installation.
pub fn decide(job: &Job, spec: &Arc<Spec>, by: &str, global: Limits) -> Decision {
    decide_next(job, spec, by, global, None)
}

/// Decides the submission of a job that takes over something from the job of its conversation before it.
pub fn decide_next(
    job: &Job,
    spec: &Arc<Spec>,
    by: &str,
    global: Limits,
    carried: Option<Box<Carried>>,
) -> Decision {
    match &job.spec {
        None => {
            check(job, spec)?;
            let limits = spec.limits.or(global).or(spec.work.default_limits());
            limit::check_measured(&spec.work, &limits)?;
            if let (Some(position), Some(carried)) = (spec.conversation, &carried) {
                limit::check_left(position.after, &limits, &carried.spent)?;
            }
            Ok(vec![Submitted { spec: Arc::clone(spec), by: by.to_owned(), limits, carried }.into()])
        }
        Some(before) if before == spec => Ok(Vec::new()),
        Some(_) => Err(Refusal::IdTaken(job.id)),
    }
}

/// Characters of a name. It is shown in a column of a list.
const NAME_CHARS_MAX: usize = 64;

/// Reports whether this is a valid job name: letters, digits, and after the first character also `.`, `_` and `-`. A job id is not a
/// valid name, since it would be ambiguous.
pub fn is_name(text: &str) -> bool {
    let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    let begins = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    plain && begins && text.len() <= NAME_CHARS_MAX && text.parse::<JobId>().is_err()
}

fn check(job: &Job, spec: &Spec) -> Result<(), Refusal> {
    spec.on.check().map_err(Refusal::Invalid)?;
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
        _ if too_large => {
            Err(Refusal::Invalid("its command or prompt, with its labels and paths, is larger than 256 KiB"))
        }
        Spec { name: Some(name), .. } if !is_name(name) => Err(Refusal::Invalid(
            "its name must be 1 to 64 letters, digits, `.`, `_` or `-`, start with a letter or digit, and not be a job id",
        )),
        Spec { io: Io::Terminal { rows: 0, .. } | Io::Terminal { columns: 0, .. }, .. } => {
            Err(Refusal::Invalid("its terminal has no size"))
        }
        _ if spec.work.is_agent() && spec.io != Io::Null => {
            Err(Refusal::Invalid("an agent takes no pipe or terminal: it is driven through its protocol"))
        }
        _ if spec.wait_for_quota.is_some() && !tells_refusals(spec) => Err(Refusal::Invalid(
            "its agent does not say when its quota is used up, so it cannot wait for that",
        )),
        _ if spec.stays_open && !spec.work.shakes_hands() => Err(Refusal::Invalid(
            "its agent takes a single prompt or does not say when a turn ends, so it cannot stay open between turns",
        )),
        _ if spec.stays_open && spec.limits.idle_ms == Some(0) => {
            Err(Refusal::Invalid("an agent that stays open between turns needs a limit on its idle time"))
        }
        _ if spec.parent == Some(job.id) => Err(Refusal::Invalid("it is its own parent")),
        Spec { worktree: Some(worktree), .. } if !is_worktree(worktree, &spec.cwd) => Err(Refusal::Invalid(
            "its worktree needs a full commit id and absolute paths, and its folder must be inside the checkout",
        )),
        _ if spec.group.is_empty() => Err(Refusal::Invalid("the group has no name")),
        _ if spec.labels.len() > LABELS_MAX => Err(Refusal::Invalid("it has more than 64 labels")),
        _ if spec.after.len() > DEPENDENCIES_MAX => Err(Refusal::Invalid("it waits for more than 256 jobs")),
        _ if spec.after.iter().any(|other| other.job == job.id) => {
            Err(Refusal::Invalid("it waits for itself"))
        }
        _ if spec.retry.attempts_max == 0 => Err(Refusal::Invalid("it must be allowed at least one attempt")),
        _ => Ok(()),
    }
}

/// Reports whether a worktree request is well-formed and `cwd` is inside its checkout.
fn is_worktree(worktree: &Worktree, cwd: &str) -> bool {
    let is_hex = worktree.base.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let is_commit = is_hex && matches!(worktree.base.len(), 40 | 64);
    let is_absolute = |path: &str| path.starts_with('/') && !path.contains('\0');
    let below = cwd.strip_prefix(worktree.checkout.as_str());
    let is_below = below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let is_plain = !cwd.split('/').any(|part| part == "..");
    is_commit && is_absolute(&worktree.git_dir) && is_absolute(&worktree.checkout) && is_below && is_plain
}

fn tells_refusals(spec: &Spec) -> bool {
    matches!(&spec.work, Work::Agent { terms, .. } if terms.tells_refusals)
}
