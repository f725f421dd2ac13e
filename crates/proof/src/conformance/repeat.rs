//! `append`, again: after a reply that got lost the writer repeats the very same call.

use lastword_core::{Append, AppendId, Seq};
use lastword_store::Store;

use super::stage::{
    QUEUE, at_once, end, from_gone, from_queue, held, held_of, holds, live_out, register, running, submit,
    take, write,
};
use crate::jobs::{self, NOW};

/// Checks that repeating an append is answered like the first time and changes nothing.
async fn repeats<J: Store>(journal: &J, append: &Append) {
    let before = held_of(journal, append.job).await;
    let last = append.events.last().expect("an append holds events").seq;
    for _ in 0..3 {
        assert_eq!(journal.append(append.clone()).await, Ok(last), "a repeat is a success");
    }
    assert_eq!(held_of(journal, append.job).await, before, "and it was written once");
}

/// A submission, a request and an owner's fact can each be sent again.
pub async fn c10_a_repeated_append_is_stored_once<J: Store>(journal: J) {
    let (first, _) = jobs::submit(1, jobs::spec(QUEUE), NOW);
    assert_eq!(journal.append(first.clone()).await, Ok(Seq(1)));
    repeats(&journal, &first).await;

    let ann = register(&journal, "ann").await;
    let (mut job, fence) = take(&journal, from_queue(&ann, QUEUE, 1)).await;
    let intent = vec![jobs::launch_intended(&job)];
    let intent = write(&journal, &mut job, Some(&fence), intent).await;
    repeats(&journal, &intent).await;
    let request =
        write(&journal, &mut job, None, vec![jobs::cancel_requested(), jobs::limit_changed(1)]).await;
    repeats(&journal, &request).await;
    holds(&journal, &job).await;
}

/// The version has moved on since, and the repeat is still recognised.
pub async fn c10_a_repeat_after_others_wrote_is_a_success<J: Store>(journal: J) {
    let (first, mut job) = jobs::submit(1, jobs::spec(QUEUE), NOW);
    assert_eq!(journal.append(first.clone()).await, Ok(Seq(1)));
    let request = write(&journal, &mut job, None, vec![jobs::limit_changed(1), jobs::limit_changed(2)]).await;
    write(&journal, &mut job, None, vec![jobs::limit_changed(3)]).await;
    repeats(&journal, &first).await;
    repeats(&journal, &request).await;
    holds(&journal, &job).await;
}

/// What an owner wrote while it held the job stays written, also when it asks only after it was replaced.
pub async fn c10_a_repeat_after_a_takeover_is_a_success<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    let (mut job, fence) = held(&journal, 1, jobs::spec(QUEUE), &ann).await;
    let intent = vec![jobs::launch_intended(&job)];
    let intent = write(&journal, &mut job, Some(&fence), intent).await;
    end(&journal, &ann).await;
    let bob = register(&journal, "bob").await;
    let (job, _) = take(&journal, from_gone(&bob, 1)).await;
    repeats(&journal, &intent).await;
    holds(&journal, &job).await;
}

/// The reply to a last word can get lost like any other.
pub async fn c10_a_repeated_last_word_is_a_success<J: Store>(journal: J) {
    let mut queued = submit(&journal, 1, jobs::spec(QUEUE)).await;
    let cancel = write(&journal, &mut queued, None, vec![jobs::cancelled_before_start()]).await;
    repeats(&journal, &cancel).await;

    let ann = register(&journal, "ann").await;
    let (mut job, fence) = held(&journal, 2, jobs::spec(QUEUE), &ann).await;
    let mut last = None;
    for facts in jobs::life(&job) {
        last = Some(write(&journal, &mut job, Some(&fence), facts).await);
    }
    repeats(&journal, &last.expect("a life has an end")).await;
    let late = vec![jobs::late_reported(&job)];
    let late = write(&journal, &mut job, None, late).await;
    repeats(&journal, &late).await;
    holds(&journal, &job).await;
}

/// A caller that is too impatient to wait sends twelve at once.
pub async fn c10_one_append_sent_many_times_at_once_is_stored_once<J: Store>(journal: J) {
    let mut job = submit(&journal, 1, jobs::spec(QUEUE)).await;
    for n in 0..8 {
        let (append, after) = jobs::append(&job, None, vec![jobs::limit_changed(n), jobs::limit_changed(n)]);
        let answers = at_once(12, |_| {
            let (journal, append) = (journal.clone(), append.clone());
            async move { journal.append(append).await }
        })
        .await;
        assert!(answers.iter().all(|answer| *answer == Ok(after.version)), "{answers:?}");
        job = after;
        holds(&journal, &job).await;
    }
}

/// An owner counts its appends per claim, so two of its jobs see the same id, and both must be written.
pub async fn one_append_id_may_be_used_once_in_each_job<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    for n in 1..4 {
        let (mut job, fence) = running(&journal, n, jobs::spec(QUEUE), &ann).await;
        let (mut append, after) = jobs::append(&job, Some(&fence), vec![jobs::spent(n)]);
        append.id = AppendId::of_owner(&fence, 0);
        assert_eq!(journal.append(append.clone()).await, Ok(after.version));
        job = after;
        repeats(&journal, &append).await;
        holds(&journal, &job).await;
    }
    let (mut job, fence) = held(&journal, 9, jobs::spec(QUEUE), &ann).await;
    live_out(&journal, &mut job, &fence).await;
    holds(&journal, &job).await;
}
