//! `append` of a last word: one per job, and nothing after it.

use lastword_core::view::row::{PhaseName, Row};
use lastword_core::{Fact, Job, Seq};
use lastword_store::Store;

use super::stage::{
    QUEUE, at_once, conflict, end, from_gone, from_queue, held, holds, ids, live_out, load, refused,
    register, row, running, submit, write,
};
use crate::jobs::{self, NOW};

/// Submits the `n`th job and cancels it; returns it with one that went another way to the same version, as
/// a writer with a broken fold would believe it.
async fn ended_and_not<J: Store>(journal: &J, n: u64) -> (Job, Job) {
    let queued = submit(journal, n, jobs::spec(QUEUE)).await;
    let (_, believed) = jobs::append(&queued, None, vec![jobs::limit_changed(1)]);
    let mut ended = queued;
    write(journal, &mut ended, None, vec![jobs::cancelled_before_start()]).await;
    assert_eq!(ended.version, believed.version);
    (ended, believed)
}

/// Once the request is stored the job is in no queue, for no claimer, at no time.
pub async fn c04_a_job_cancelled_before_its_start_is_never_claimed<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    let mut job = submit(&journal, 1, jobs::spec(QUEUE)).await;
    write(&journal, &mut job, None, vec![jobs::cancelled_before_start()]).await;
    assert_eq!(ids(&journal, from_queue(&ann, QUEUE, 9)).await, []);
    assert_eq!(ids(&journal, from_gone(&ann, 9)).await, []);

    // Also a job that was held, given back, and cancelled then.
    let (mut job, fence) = held(&journal, 2, jobs::spec(QUEUE), &ann).await;
    let release = vec![jobs::released(&job)];
    write(&journal, &mut job, Some(&fence), release).await;
    write(&journal, &mut job, None, vec![jobs::cancelled_before_start()]).await;
    assert_eq!(ids(&journal, from_queue(&ann, QUEUE, 9)).await, []);
    holds(&journal, &job).await;
}

/// The very next read shows the end, with nothing left that could run.
pub async fn c08_a_cancelled_queued_job_is_ended_at_once<J: Store>(journal: J) {
    let mut job = submit(&journal, 1, jobs::spec(QUEUE)).await;
    write(&journal, &mut job, None, vec![jobs::cancelled_before_start()]).await;
    let row = row(&journal, job.id).await.expect("the job is there");
    assert_eq!((row.phase, row.due, row.holder.as_ref()), (PhaseName::Ended, None, None));
    assert!(row.outcome.is_some());
    holds(&journal, &job).await;
}

/// Even a writer that names the right version cannot end a job twice: the job row says that it is over.
pub async fn c23_a_second_last_word_is_refused<J: Store>(journal: J) {
    let (ended, believed) = ended_and_not(&journal, 1).await;
    for fact in [jobs::cancelled_before_start(), jobs::last_word(None)] {
        let (second, _) = jobs::append(&believed, None, vec![fact]);
        refused(&journal, second, conflict(&ended, 2)).await;
    }
    holds(&journal, &ended).await;
}

/// Cancellers and a claiming owner race; whichever wins, the log holds one last word and every view agrees.
pub async fn c23_owner_and_cancellers_race_to_one_last_word<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    for n in 0..12 {
        let queued = submit(&journal, n, jobs::spec(QUEUE)).await;
        at_once(6, |racer| {
            let (journal, queued, ann) = (journal.clone(), queued.clone(), ann.clone());
            async move {
                if racer % 3 != 0 {
                    let (cancel, _) = jobs::append(&queued, None, vec![jobs::cancelled_before_start()]);
                    return drop(journal.append(cancel).await);
                }
                for claimed in
                    journal.claim(from_queue(&ann, QUEUE, 1)).await.expect("a live owner may claim")
                {
                    let mut job = Job::fold(claimed.job, &claimed.events).expect("a log folds");
                    live_out(&journal, &mut job, &claimed.fence).await;
                }
            }
        })
        .await;
        let events = journal.load(queued.id, Seq(0)).await.expect("a job can be loaded");
        let words = events.iter().filter(|event| matches!(event.fact, Fact::LastWord(_)));
        assert_eq!(words.count(), 1, "{events:?}");
        holds(&journal, &load(&journal, queued.id).await).await;
    }
}

/// A cancel, a limit or an answer that comes too late is refused and shows nowhere.
pub async fn c24_a_request_after_the_end_changes_nothing<J: Store>(journal: J) {
    let (ended, believed) = ended_and_not(&journal, 1).await;
    let (limit, _) = jobs::append(&believed, None, vec![jobs::limit_changed(5)]);
    refused(&journal, limit, conflict(&ended, 2)).await;

    let ann = register(&journal, "ann").await;
    let (mut job, fence) = running(&journal, 2, jobs::spec(QUEUE), &ann).await;
    let before_end = job.clone();
    let (_, believed) = jobs::append(&job, Some(&fence), vec![jobs::spent(1), jobs::spent(2)]);
    let end = jobs::completed(&job);
    write(&journal, &mut job, Some(&fence), end).await;
    for known in [before_end, believed] {
        let (cancel, _) = jobs::append(&known, None, vec![jobs::cancel_requested()]);
        refused(&journal, cancel, conflict(&job, job.version.0)).await;
    }
    holds(&journal, &job).await;
}

/// The log keeps what was reported late; every view stays as it was but for the number of events.
pub async fn c31_a_late_report_is_kept_and_changes_no_view<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    let (mut job, fence) = held(&journal, 1, jobs::spec(QUEUE), &ann).await;
    live_out(&journal, &mut job, &fence).await;
    let before = row(&journal, job.id).await.expect("the job is there");
    for _ in 0..2 {
        let late = vec![jobs::late_reported(&job)];
        write(&journal, &mut job, None, late).await;
    }
    holds(&journal, &job).await;
    let after = row(&journal, job.id).await.expect("the job is there");
    assert_eq!(after, Row { version: Seq(before.version.0 + 2), ..before });
    let events = journal.load(job.id, Seq(0)).await.expect("a job can be loaded");
    assert!(events[events.len() - 2..].iter().all(|event| matches!(event.fact, Fact::LateReported(_))));
}

/// A late report opens no door for what comes with it.
pub async fn c31_a_late_report_carries_nothing_else_in<J: Store>(journal: J) {
    let (ended, believed) = ended_and_not(&journal, 1).await;
    // A fold that has not seen the end takes a late report too.
    let facts = vec![jobs::late_reported(&believed), jobs::limit_changed(5)];
    let (mixed, _) = jobs::append(&believed, None, facts);
    refused(&journal, mixed, conflict(&ended, 2)).await;
    holds(&journal, &ended).await;
}

/// Neither a queue nor a takeover ever yields a job that is over, also when its last holder is gone.
pub async fn c64_an_ended_job_is_never_taken<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    let (mut job, fence) = held(&journal, 1, jobs::spec(QUEUE), &ann).await;
    live_out(&journal, &mut job, &fence).await;
    let late = vec![jobs::late_reported(&job)];
    write(&journal, &mut job, None, late).await;
    end(&journal, &ann).await;
    let bob = register(&journal, "bob").await;
    assert_eq!(ids(&journal, from_queue(&bob, QUEUE, 9)).await, []);
    assert_eq!(ids(&journal, from_gone(&bob, 9)).await, []);
    holds(&journal, &job).await;
    assert_eq!(job.submitted_at, NOW);
}
