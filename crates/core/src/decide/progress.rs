//! `progress`: what a process of the job says of its work: how far it is, and its result. Only the job itself says so.

use super::{Decision, Refusal};
use crate::event::ProgressReported;
use crate::job::{Job, Phase};

/// Characters of what is said. It is shown in a line of a list.
pub const TEXT_CHARS_MAX: usize = 200;

/// Bytes of a result. More belongs into a file, which the result can name.
pub const RESULT_BYTES_MAX: usize = 64 * 1024;

/// Reports of one job. A program that says more than this says it in its output.
const REPORTS_MAX: u32 = 10_000;

/// Results of one job: each is kept in its log.
const RESULTS_MAX: u32 = 20;

/// Decides to record what a process of the job says: a line of text, or a result, or both. Adds nothing if it was said before.
pub fn decide(job: &Job, text: Option<&str>, result: Option<&str>) -> Decision {
    let attempt = match job.phase {
        Phase::Unborn => return Err(Refusal::NotFound(job.id)),
        Phase::Ended(_) => return Err(Refusal::Ended(job.id)),
        _ => job.open_attempt().map(|attempt| attempt.no),
    };
    let Some(attempt) = attempt else {
        return Err(Refusal::Nothing(job.id, "has no process that could say so"));
    };
    let is_new_text = text.is_some_and(|text| job.progress().is_none_or(|said| said.text != text));
    let is_new_result = result.is_some() && job.result() != result;
    let made = job.said.as_ref().map_or((0, 0), |said| (said.reports, said.results));
    let is_line = |text: &str| !text.trim().is_empty() && !text.contains(char::is_control);
    match (text, result) {
        (None, None) => Err(Refusal::Invalid("neither a text nor a result is given")),
        (Some(text), _) if !is_line(text) => Err(Refusal::Invalid("progress is said in one line of text")),
        (Some(text), _) if text.chars().count() > TEXT_CHARS_MAX => {
            Err(Refusal::Invalid("progress is said in at most 200 characters"))
        }
        (_, Some(result)) if result.len() > RESULT_BYTES_MAX => {
            Err(Refusal::Invalid("a result is at most 64 KiB: write more to a file, and name that"))
        }
        _ if !is_new_text && !is_new_result => Ok(Vec::new()),
        _ if is_new_result && made.1 >= RESULTS_MAX => {
            Err(Refusal::Nothing(job.id, "reported 20 results already, and the last of them stays"))
        }
        _ if made.0 >= REPORTS_MAX => {
            Err(Refusal::Nothing(job.id, "reported its progress 10,000 times already"))
        }
        _ => {
            let text = text.filter(|_| is_new_text).map(str::to_owned);
            let result = result.filter(|_| is_new_result).map(str::to_owned);
            Ok(vec![ProgressReported { attempt, text, result }.into()])
        }
    }
}
