//! `read` of the feed: every event of every job once, in the order of its job, while others write.

use std::collections::BTreeMap;
use std::time::Duration;

use lastword_core::{Event, JobId, Seq};
use lastword_store::{Cursor, Error, Feed, Store};

use super::stage::{QUEUE, at_once, from_queue, live_out, register, submit, take, write};
use crate::jobs;

/// How long a tail may lag behind what is stored. A journal may hold an event back while an older transaction is open
/// anywhere in its database; that is over in milliseconds, and a minute means that the event was lost.
const LAG_MAX: Duration = Duration::from_secs(60);

/// Follows the feed from `after` until it has told `count` events, in pages of `limit`.
pub(super) async fn tail<J: Store>(
    journal: &J,
    mut after: Option<Cursor>,
    limit: u32,
    count: usize,
) -> (Vec<(JobId, Event)>, Option<Cursor>) {
    let mut told = Vec::new();
    let following = async {
        while told.len() < count {
            let Feed { events, next } =
                journal.read(after.clone(), limit).await.expect("the feed can be read");
            assert!(events.len() <= limit as usize, "a page is bounded");
            assert!(!events.is_empty() || next == after, "without news the place stays");
            told.extend(events);
            after = next;
            tokio::task::yield_now().await;
        }
    };
    let over = tokio::time::timeout(LAG_MAX, following).await;
    assert!(over.is_ok(), "the feed told {} of {count} events", told.len());
    (told, after)
}

/// Checks that `told` is the log of each of these jobs, once and in order.
async fn tells<J: Store>(journal: &J, told: &[(JobId, Event)]) {
    let mut logs: BTreeMap<JobId, Vec<Event>> = BTreeMap::new();
    for (job, event) in told {
        logs.entry(*job).or_default().push(event.clone());
    }
    for (job, log) in logs {
        assert_eq!(journal.load(job, Seq(0)).await, Ok(log), "the feed tells {job} as it is");
    }
}

/// The feed replays every life from its beginning to its end.
pub async fn c29_the_feed_tells_every_log_in_order<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    let mut count = 0;
    for n in 0..6 {
        submit(&journal, n, jobs::spec(QUEUE)).await;
    }
    for _ in 0..4 {
        let (mut job, fence) = take(&journal, from_queue(&ann, QUEUE, 1)).await;
        live_out(&journal, &mut job, &fence).await;
        count += job.version.0 as usize;
    }
    count += 2;
    for limit in [1, 7, 1_000] {
        let (told, _) = tail(&journal, None, limit, count).await;
        assert_eq!(told.len(), count);
        tells(&journal, &told).await;
    }
}

/// Before the first event there is nothing to resume from.
pub async fn an_empty_feed_has_no_place<J: Store>(journal: J) {
    assert_eq!(journal.read(None, 9).await, Ok(Feed { events: vec![], next: None }));
}

/// A place can be kept, used twice, and used again after more was written.
pub async fn a_place_in_the_feed_can_be_resumed<J: Store>(journal: J) {
    let mut job = submit(&journal, 1, jobs::spec(QUEUE)).await;
    write(&journal, &mut job, None, (1..5).map(jobs::limit_changed).collect()).await;
    let (first, place) = tail(&journal, None, 1, 3).await;
    let (rest, end) = tail(&journal, place.clone(), 9, 2).await;
    assert_eq!(tail(&journal, place, 9, 2).await.0, rest, "a place means the same again");
    tells(&journal, &[first, rest].concat()).await;

    let nothing = Feed { events: vec![], next: end.clone() };
    assert_eq!(journal.read(end.clone(), 9).await, Ok(nothing), "nothing is new");
    let more = write(&journal, &mut job, None, vec![jobs::limit_changed(9)]).await;
    let (told, _) = tail(&journal, end, 9, 1).await;
    assert_eq!(told, [(job.id, more.events[0].clone())]);
}

/// A reader of new events alone need not read the old ones.
pub async fn the_end_of_the_feed_is_a_place_after_which_only_what_is_new_comes<J: Store>(journal: J) {
    assert_eq!(journal.feed_end().await, Ok(None));
    let mut job = submit(&journal, 1, jobs::spec(QUEUE)).await;
    write(&journal, &mut job, None, (1..5).map(jobs::limit_changed).collect()).await;
    let (_, end_before) = tail(&journal, None, 9, 5).await;
    assert!(end_before.is_some());
    ends_at(&journal, &end_before).await;
    let more = write(&journal, &mut job, None, vec![jobs::limit_changed(9)]).await;
    let (told, end) = tail(&journal, end_before, 9, 1).await;
    assert_eq!(told, [(job.id, more.events[0].clone())]);
    ends_at(&journal, &end).await;
}

/// Looks for the end of the feed until it is there: what holds the feed back for a moment holds its end back, too.
async fn ends_at<J: Store>(journal: &J, wanted: &Option<Cursor>) {
    let mut found = None;
    let looking = async {
        while found != *wanted {
            found = journal.feed_end().await.expect("the feed has an end");
            tokio::task::yield_now().await;
        }
    };
    let over = tokio::time::timeout(LAG_MAX, looking).await;
    assert!(over.is_ok(), "the feed ends at {found:?}, not at {wanted:?}");
}

/// A place that no journal of this kind gave is not taken for the beginning.
pub async fn a_foreign_place_in_the_feed_is_an_error<J: Store>(journal: J) {
    submit(&journal, 1, jobs::spec(QUEUE)).await;
    for text in ["yesterday", "", "-1", "1;2;3;4;5", "'; drop table events; --"] {
        let after = Some(Cursor(text.to_owned()));
        let answer = journal.read(after, 9).await;
        assert!(matches!(answer, Err(Error::Corrupt(_))), "`{text}`: {answer:?}");
    }
}

/// A reader that follows while eight writers commit in any order misses nothing and sees nothing twice.
pub async fn writers_at_work_hide_no_event_from_the_feed<J: Store>(journal: J) {
    const WRITERS: u64 = 8;
    const JOBS: u64 = 6;
    const APPENDS: u64 = 5;
    const EVENTS: usize = (WRITERS * JOBS * (1 + 2 * APPENDS)) as usize;
    let reader = tokio::spawn({
        let journal = journal.clone();
        async move { tail(&journal, None, 16, EVENTS).await }
    });
    at_once(WRITERS, |writer| {
        let journal = journal.clone();
        async move {
            for n in 0..JOBS {
                let mut job = submit(&journal, writer * JOBS + n, jobs::spec(QUEUE)).await;
                for value in 0..APPENDS {
                    let facts = vec![jobs::limit_changed(value), jobs::limit_changed(value + 1)];
                    write(&journal, &mut job, None, facts).await;
                    tokio::task::yield_now().await;
                }
            }
        }
    })
    .await;
    let (told, end) = reader.await.expect("the reader is content");
    assert_eq!(told.len(), EVENTS);
    tells(&journal, &told).await;
    assert_eq!(journal.read(end.clone(), 9).await, Ok(Feed { events: vec![], next: end }));
}
