//! Idempotency keys: what was asked under one before is not done again, also after a crash.

use lastword_api::{Answer, Code, Message, Problem};
use lastword_core::{Fact, InputNo, JobId, Seq, Timestamp};
use lastword_store::siblings::{Kept, Key, Siblings};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::app::App;
use crate::caller::Caller;
use crate::failure::Failure;

/// Ties a key to the id of the job that is asked for under it, and returns that id: `fresh`, or the one that was tied before.
pub(crate) async fn job_of<J: Siblings>(
    app: &App<J>,
    caller: Caller,
    verb: &str,
    key: &str,
    asked: &impl Serialize,
    fresh: JobId,
) -> Result<JobId, Failure> {
    let kept = reserve(app, scoped(verb, caller, None, key), asked, fresh).await?;
    Ok(kept.job)
}

/// Returns the number of a message that was sent under this key before; `None` if it must be sent.
///
/// The key is noted before the message is stored, so after a crash in between it is there without one. Then the log tells: it holds
/// what was said. Two at once are told apart by their caller, who lets only one of them ask and send at a time.
pub(crate) async fn sent_before<J: Siblings>(
    app: &App<J>,
    caller: Caller,
    job: JobId,
    key: &str,
    message: &Message,
) -> Result<Option<InputNo>, Failure> {
    let kept = reserve(app, scoped("send", caller, Some(job), key), message, job).await?;
    let (by, Message { text, eof, steer }) = (caller.name(app), message);
    said_before(app, &kept, |fact| match fact {
        Fact::InputRequested(input) => {
            let is_it = input.by == by && input.text == *text && input.eof == *eof && input.steer == *steer;
            is_it.then_some(input.input)
        }
        _ => None,
    })
    .await
}

/// The same for an answer.
pub(crate) async fn answered_before<J: Siblings>(
    app: &App<J>,
    caller: Caller,
    job: JobId,
    key: &str,
    answer: &Answer,
) -> Result<Option<InputNo>, Failure> {
    let kept = reserve(app, scoped("answer", caller, Some(job), key), answer, job).await?;
    let (by, Answer { question, text }) = (caller.name(app), answer);
    said_before(app, &kept, |fact| match fact {
        Fact::AnswerRequested(input) => {
            let meant = question.as_ref().is_none_or(|question| input.question == *question);
            (input.by == by && meant && input.text == *text).then_some(input.input)
        }
        _ => None,
    })
    .await
}

/// Looks in the log for what was said under a key that is not new.
async fn said_before<J: Siblings>(
    app: &App<J>,
    kept: &Kept,
    find: impl Fn(&Fact) -> Option<InputNo>,
) -> Result<Option<InputNo>, Failure> {
    if !kept.replayed {
        return Ok(None);
    }
    let events = app.engine().events(kept.job, Seq(0)).await?;
    Ok(events.iter().rev().find_map(|event| find(&event.fact)))
}

/// Notes a key with what was asked under it, and refuses it with anything else.
async fn reserve<J: Siblings>(
    app: &App<J>,
    key: String,
    asked: &impl Serialize,
    job: JobId,
) -> Result<Kept, Failure> {
    let fingerprint = fingerprint(asked)?;
    let now = Timestamp(lastword_proc::clock::wall_ms());
    let kept = app.engine().desk().journal().key(Key { key, fingerprint, job, now }).await?;
    if kept.fingerprint != fingerprint {
        let detail = "this `Idempotency-Key` was used with another request; make a new one for each";
        return Err(Problem::new(Code::KeyReused, detail).about(kept.job).into());
    }
    Ok(kept)
}

/// A key counts for one caller and one kind of request.
fn scoped(verb: &str, caller: Caller, job: Option<JobId>, key: &str) -> String {
    let text = |job: Option<JobId>| job.map_or_else(|| "-".to_owned(), |job| job.to_string());
    format!("{verb} {} {} {key}", text(caller.job()), text(job))
}

/// Returns what tells a request from another one. A digest that cannot be turned back: a request holds an environment.
fn fingerprint(asked: &impl Serialize) -> Result<u128, Failure> {
    let text = serde_json::to_vec(asked).map_err(|error| Failure::invalid(error.to_string()))?;
    let digest = Sha256::digest(&text);
    let (half, _) = digest.as_slice().split_at(16);
    Ok(half.iter().fold(0, |number, byte| (number << 8) | u128::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_tells_requests_apart_and_is_the_same_in_every_build() {
        let say = |text: &str| Message { text: text.to_owned(), ..Message::default() };
        let one = fingerprint(&say("yes")).unwrap();
        assert_eq!(one, fingerprint(&say("yes")).unwrap());
        assert_ne!(one, fingerprint(&say("no")).unwrap());
        assert_eq!(
            one, 79_551_998_002_301_479_952_298_537_105_218_647_049,
            "kept over restarts and upgrades"
        );
    }
}
