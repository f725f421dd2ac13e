//! What is done to a job that has ended: it is marked as seen, run again, removed; and prunes, which take many at once. Whatever may be
//! removed is read before.

use std::time::{Duration, Instant};

use lastword_api::{Prune, RetryJob, Submit};
use lastword_client::jobs;

use super::ask::{ask, key};
use super::canary;
use super::plan::{Order, Remove};
use super::reading::{Unread, read};
use super::stage::{Entry, Stage};
use crate::clock;

/// How long the end of a job is waited for.
const END_MAX: Duration = Duration::from_secs(60);

/// How long a job is tried to be read before its removal.
const READ_MAX: Duration = Duration::from_secs(20);

/// How often it is looked.
const LOOK: Duration = Duration::from_millis(5);

/// A clock that was wrong so recently may have dated an end too early for a prune.
const CLOCK_NS: u64 = 5_000_000_000;

/// Does what is to be done once the job has ended.
pub(crate) fn afterwards(stage: &Stage, order: &Order, id: &str, submit: Option<&Submit>) {
    if !order.seen && !order.again && order.remove.is_none() {
        return;
    }
    let ended = clock::until(END_MAX, LOOK, || {
        let is_over = stage.entry(order.number, |entry| entry.is_over()).unwrap_or(true);
        (is_over || stage.is_over()).then_some(is_over)
    });
    if ended != Some(true) {
        return;
    }
    let begin = Instant::now();
    if order.seen && ask(stage, &jobs::seen(id)).is_ok() {
        stage.count("marked as seen");
    }
    if order.again {
        again(stage, order, id);
    }
    if let Some(how) = order.remove {
        clock::rest(Duration::from_millis(how.after_ms).saturating_sub(begin.elapsed()));
        remove(stage, order, id, how);
        if let Some(submit) = submit {
            key_again(stage, order, submit);
        }
    }
}

/// Runs the job again, as a new one that is judged by itself.
fn again(stage: &Stage, order: &Order, id: &str) {
    let repeated = order.repeated();
    stage.enter(&repeated);
    if let Err(error) = canary::repeat(order, id, &stage.ground.notes()) {
        return eprintln!("job {}: {error}", repeated.number);
    }
    let new = match order.by_command {
        true => {
            let output = stage.product.run(&["retry", "--detach", id]).ok();
            let output = output.filter(|output| output.status.success());
            output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        }
        false => {
            let (env, _) = stage.members.environment();
            let call = jobs::retry(id, &RetryJob { env: env.into_iter().collect(), attributes: None });
            ask(stage, &call.with_key(key(stage, &repeated))).ok().map(|job| job.id)
        }
    };
    match new {
        Some(new) => {
            stage.acknowledged(repeated.number, &new);
            stage.count("run again");
        }
        // It may be gone; or taken, and the answer was lost.
        None => _ = stage.entry(repeated.number, |entry| entry.unanswered = true),
    }
}

/// Reads the job and removes it.
fn remove(stage: &Stage, order: &Order, id: &str, how: Remove) {
    if !read_before_removal(stage, order.number) {
        stage.count("not removed, since it could not be read");
        return;
    }
    // Noted first: from here on it may be gone.
    stage.entry(order.number, |entry| entry.removing_ns = Some(clock::boot_ns()));
    let gone = match how.by_command {
        true => stage.product.run(&["rm", id]).is_ok_and(|output| output.status.success()),
        false => match ask(stage, &jobs::remove(id, false)) {
            Ok(()) => true,
            // An earlier request, whose answer was lost, or a prune.
            Err(code) => code == "not_found",
        },
    };
    if gone {
        stage.entry(order.number, |entry| entry.gone = true);
        stage.count("removed");
    }
}

/// Asks for the same job once more, with the key that it had: it must not be run a second time.
fn key_again(stage: &Stage, order: &Order, submit: &Submit) {
    if stage.entry(order.number, |entry| entry.gone) != Some(true) {
        return;
    }
    let answer = ask(stage, &jobs::submit(submit).with_key(key(stage, order)));
    let answer = match answer {
        Ok(job) => job.id,
        Err(code) if code.is_empty() => return,
        Err(code) => code,
    };
    stage.entry(order.number, |entry| entry.acts.key_later = Some(answer));
    stage.count("keys used again after a removal");
}

/// Reads all there is about a job, so that it can be judged when it is gone. Reports whether that is known.
fn read_before_removal(stage: &Stage, number: u64) -> bool {
    let mut client = stage.product.client();
    let done = clock::until(READ_MAX, Duration::from_millis(50), || {
        let entry = stage.entry(number, |entry| entry.clone())?;
        if entry.read.is_some() || entry.judged {
            return Some(true);
        }
        match read(stage, &mut client, &entry) {
            Ok(known) => {
                stage.entry(number, |entry| entry.read.get_or_insert(known).told.phase.len());
                Some(true)
            }
            Err(Unread::Gone) => Some(false),
            Err(Unread::Away(_)) => stage.is_over().then_some(false),
        }
    });
    done.unwrap_or(false)
}

/// Removes what ended some time ago, once, after everything was read that has ended.
pub(crate) fn prune(stage: &Stage, older_than_ms: u64) {
    for entry in stage.entries() {
        let is_unread = entry.seen.is_some() && !entry.judged && entry.read.is_none() && !entry.gone;
        if is_unread && !read_before_removal(stage, entry.order.number) {
            return stage.count("prunes left out, since something could not be read");
        }
    }
    mark_prunable(stage, older_than_ms);
    let which = Prune { older_than_ms, unread: true, unsaved: false, dry_run: false };
    // Once: whatever has ended by the time of another try is not read.
    if let Ok(pruned) = stage.product.client().call(&jobs::prune(&which)) {
        stage.count("prunes");
        stage.add("pruned", pruned.removed as usize);
    }
    mark_prunable(stage, older_than_ms);
}

/// Marks the jobs that a prune may remove now: those that ended long enough ago, and all if the clock was wrong a moment ago.
fn mark_prunable(stage: &Stage, older_than_ms: u64) {
    let now = clock::boot_ns();
    let anything = stage.had_wrong_clock((now.saturating_sub(CLOCK_NS), now));
    // Half of it: the end of a job is seen some time after it.
    let before = now.saturating_sub(older_than_ms * 500_000);
    let is_old = |entry: &Entry| entry.seen.as_ref().is_some_and(|(seen, _)| *seen < before);
    let may = |entry: &Entry| entry.id.is_some() && (anything || is_old(entry));
    for entry in stage.entries().into_iter().filter(may) {
        stage.entry(entry.order.number, |entry| entry.prunable = true);
    }
}
