//! Hints: a waiter is woken after a commit, once for many.

use std::time::Duration;

use lastword_store::Store;

use super::stage::{QUEUE, from_queue, register, submit, take, write};
use crate::jobs;

/// A hint may get lost, but not in a journal that is left alone; it comes in milliseconds.
const HINT_MAX: Duration = Duration::from_secs(30);

/// A journal whose commits are seen by another process gives its first hint once it listens there.
const COMMITS_MAX: u64 = 3_000;

/// Appends and claims wake every waiter, also through another handle of the same journal.
pub async fn a_commit_wakes_every_waiter<J: Store>(journal: J) {
    let mut waiters = [journal.hints(), journal.clone().hints()];
    let mut job = submit(&journal, 1, jobs::spec(QUEUE)).await;
    let commits = async {
        for value in 0..COMMITS_MAX {
            write(&journal, &mut job, None, vec![jobs::limit_changed(value)]).await;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let woken = async {
        for waiter in &mut waiters {
            assert!(waiter.next().await.is_some(), "the journal is open");
        }
    };
    tokio::select! {
        woken = tokio::time::timeout(HINT_MAX, woken) => woken.expect("commits wake"),
        () = commits => panic!("{COMMITS_MAX} commits woke nobody"),
    }
    let mut waiter = journal.hints();
    let ann = register(&journal, "ann").await;
    take(&journal, from_queue(&ann, QUEUE, 1)).await;
    let woken = tokio::time::timeout(HINT_MAX, waiter.next()).await;
    assert!(woken.expect("a claim wakes").is_some(), "the journal is open");
}
