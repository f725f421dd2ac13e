//! Idempotency keys: a request is not carried out twice under one key, even after a crash.

use lastword_api::{Answer, Code, Message, Problem, Time};
use lastword_core::{Fact, InputNo, JobId, Seq, Timestamp};
use lastword_store::{KEY_MS, Key, KeyRecord, Store};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::app::App;
use crate::failure::Failure;
use crate::principal::Principal;

/// Reserves a key for the id of a new job. Returns `fresh`, or the id that the key was reserved for before.
pub(crate) async fn job_of<J: Store>(
    app: &App<J>,
    principal: &Principal,
    verb: &str,
    key: &str,
    asked: &impl Serialize,
    fresh: JobId,
) -> Result<JobId, Failure> {
    let kept = reserve(app, scoped(verb, principal, None, key), asked, fresh).await?;
    match kept.removed {
        None => Ok(kept.job),
        Some(at) => Err(removed(&kept, at, &format!("the key `{key}`"))),
    }
}

/// Refuses an id that a client made for a job which was removed. The id is its own key, for every principal.
pub(crate) async fn check_id<J: Store>(app: &App<J>, id: JobId) -> Result<(), Failure> {
    let kept = reserve(app, format!("id {id}"), &(), id).await?;
    match kept.removed {
        None => Ok(()),
        Some(at) => Err(removed(&kept, at, "this id")),
    }
}

/// Returns the refusal of a key whose job was removed: its work must not be started a second time.
fn removed(kept: &KeyRecord, at: Timestamp, what: &str) -> Failure {
    let (at, free) = (Time::from(at), Time::from(at.plus_ms(KEY_MS)));
    let detail = format!(
        "{what} belongs to {}, which was removed at {at}; its work is not started again: to start it, use another one, or wait until this \
         one is free, after {free}",
        kept.job.short()
    );
    Problem::new(Code::Removed, detail).about(kept.job).into()
}

/// Returns the number of the message that was sent under this key, and the job that got it; `None` if it must be sent.
///
/// The key is stored before the message. After a crash in between there is a key without a message, so the log decides. The caller must
/// handle one keyed message at a time.
pub(crate) async fn sent_before<J: Store>(
    app: &App<J>,
    principal: &Principal,
    job: JobId,
    key: &str,
    message: &Message,
) -> Result<Option<(JobId, InputNo)>, Failure> {
    let kept = reserve(app, scoped("send", principal, Some(job), key), message, job).await?;
    let (by, Message { text, eof, steer, .. }) = (principal.name(), message);
    find_input(app, &kept, |fact| match fact {
        Fact::InputRequested(input) => {
            let is_it = input.by == by && input.text == *text && input.eof == *eof && input.steer == *steer;
            is_it.then_some(input.input)
        }
        _ => None,
    })
    .await
}

/// Returns the number of the answer that was sent under this key; `None` if it must be sent.
pub(crate) async fn answered_before<J: Store>(
    app: &App<J>,
    principal: &Principal,
    job: JobId,
    key: &str,
    answer: &Answer,
) -> Result<Option<InputNo>, Failure> {
    let kept = reserve(app, scoped("answer", principal, Some(job), key), answer, job).await?;
    let (by, question, text) =
        (principal.name(), &answer.question, answer.reply().map(|reply| reply.text()).unwrap_or_default());
    find_input(app, &kept, |fact| match fact {
        Fact::AnswerRequested(input) => {
            (input.by == by && input.name == *question && input.text == text).then_some(input.input)
        }
        _ => None,
    })
    .await
    .map(|found| found.map(|(_, input)| input))
}

/// Searches the log for the input of a key that is not new, and the logs of the jobs that follow in the conversation.
async fn find_input<J: Store>(
    app: &App<J>,
    kept: &KeyRecord,
    find: impl Fn(&Fact) -> Option<InputNo>,
) -> Result<Option<(JobId, InputNo)>, Failure> {
    let mut next = kept.replayed.then_some(kept.job);
    while let Some(job) = next {
        let events = app.engine().events(job, Seq(0)).await?;
        if let Some(input) = events.iter().rev().find_map(|event| find(&event.fact)) {
            return Ok(Some((job, input)));
        }
        let follows = events.iter().rev().find_map(|event| match &event.fact {
            Fact::Continued(continued) => Some(continued.job),
            _ => None,
        });
        next = follows.flatten();
    }
    Ok(None)
}

/// Stores a key with the fingerprint of its request. Refuses a key that was used with another request.
async fn reserve<J: Store>(
    app: &App<J>,
    key: String,
    asked: &impl Serialize,
    job: JobId,
) -> Result<KeyRecord, Failure> {
    let fingerprint = fingerprint(asked)?;
    let now = Timestamp(lastword_proc::clock::wall_ms());
    let kept = app.engine().desk().journal().key(Key { key, fingerprint, job, now }).await?;
    if kept.fingerprint != fingerprint {
        let detail = "this `Idempotency-Key` was used with another request; use a new key for each";
        return Err(Problem::new(Code::KeyReused, detail).about(kept.job).into());
    }
    Ok(kept)
}

/// Returns the stored key. It is specific to the principal and the kind of request.
fn scoped(verb: &str, principal: &Principal, job: Option<JobId>, key: &str) -> String {
    let text = |job: Option<JobId>| job.map_or_else(|| "-".to_owned(), |job| job.to_string());
    format!("{verb} {} {} {key}", text(principal.job()), text(job))
}

/// Returns a digest of a request. It must be one-way, since a request contains an environment.
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
    fn fingerprints_differ_and_are_the_same_in_every_build() {
        let message = |text: &str| Message { text: text.to_owned(), ..Message::default() };
        let one = fingerprint(&message("yes")).unwrap();
        assert_eq!(one, fingerprint(&message("yes")).unwrap());
        assert_ne!(one, fingerprint(&message("no")).unwrap());
        assert_eq!(one, 79_551_998_002_301_479_952_298_537_105_218_647_049, "fingerprints are stored");
    }
}
