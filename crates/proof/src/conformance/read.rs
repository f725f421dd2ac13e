//! `read` of rows: one job, or a list in pages.

use lastword_core::view::row::{PhaseName, Row};
use lastword_core::{Incarnation, JobId};
use lastword_store::{Filter, Journal, Read};

use super::stage::{QUEUE, held, live_out, register, row, running, submit, write};
use crate::jobs::{self, id};

async fn list<J: Journal>(journal: &J, filter: Filter, before: Option<JobId>, limit: u32) -> Vec<Row> {
    journal.read(Read::Rows { filter, before, limit }).await.expect("rows can be read").rows()
}

async fn numbers<J: Journal>(journal: &J, filter: Filter) -> Vec<u64> {
    let rows = list(journal, filter, None, 100).await;
    rows.iter().map(|row| (0..100).find(|n| id(*n) == row.job).expect("a job of this case")).collect()
}

/// No row, and no error.
pub async fn an_unknown_job_has_no_row<J: Journal>(journal: J) {
    assert_eq!(row(&journal, id(1)).await, None);
    submit(&journal, 1, jobs::spec(QUEUE)).await;
    assert_eq!(row(&journal, id(2)).await, None);
    assert_eq!(list(&journal, Filter::default(), Some(id(1)), 9).await, []);
}

/// Pages join without a gap or a repeat, and a row of a list is the row of the job.
pub async fn rows_come_newest_first_in_pages<J: Journal>(journal: J) {
    for n in [3, 7, 1, 9, 5, 2, 8, 4, 6, 0] {
        submit(&journal, n, jobs::spec(QUEUE)).await;
    }
    let all = list(&journal, Filter::default(), None, 100).await;
    let newest_first: Vec<JobId> = (0..10).rev().map(id).collect();
    assert_eq!(all.iter().map(|row| row.job).collect::<Vec<_>>(), newest_first);
    for row_of_list in &all {
        assert_eq!(row(&journal, row_of_list.job).await.as_ref(), Some(row_of_list));
    }
    for size in [1, 3, 10, 11] {
        let (mut pages, mut before) = (Vec::new(), None);
        loop {
            let page = list(&journal, Filter::default(), before, size).await;
            assert!(page.len() <= size as usize);
            let Some(last) = page.last() else { break };
            before = Some(last.job);
            pages.extend(page);
        }
        assert_eq!(pages, all);
    }
    assert_eq!(list(&journal, Filter::default(), None, 0).await, []);
}

/// Each filter by itself, and all of them together.
pub async fn rows_are_filtered_by_phase_queue_and_holder<J: Journal>(journal: J) {
    let ann = register(&journal, "ann").await;
    let bob = register(&journal, "bob").await;
    submit(&journal, 1, jobs::spec("idle")).await;
    held(&journal, 2, jobs::spec(QUEUE), &ann).await;
    running(&journal, 3, jobs::spec(QUEUE), &ann).await;
    running(&journal, 4, jobs::spec("other"), &bob).await;
    let (mut ended, fence) = held(&journal, 5, jobs::spec(QUEUE), &ann).await;
    live_out(&journal, &mut ended, &fence).await;
    let (mut stopping, _) = running(&journal, 6, jobs::spec("other"), &ann).await;
    write(&journal, &mut stopping, None, vec![jobs::cancel_requested()]).await;

    let phase = |phase| Filter { phase: Some(phase), ..Filter::default() };
    let queue = |queue: &str| Filter { queue: Some(queue.to_owned()), ..Filter::default() };
    let holder = |life| Filter { holder: Some(life), ..Filter::default() };
    let both = Filter { queue: Some(QUEUE.to_owned()), ..phase(PhaseName::Running) };
    let elsewhere = Incarnation { instance: ann.incarnation.instance.wrapping_add(1), ..ann.incarnation };
    for (filter, expected) in [
        (Filter::default(), &[6, 5, 4, 3, 2, 1][..]),
        (phase(PhaseName::Queued), &[2, 1]),
        (phase(PhaseName::Running), &[4, 3]),
        (phase(PhaseName::Stopping), &[6]),
        (phase(PhaseName::Ended), &[5]),
        (phase(PhaseName::Backoff), &[]),
        (queue(QUEUE), &[5, 3, 2]),
        (queue("nowhere"), &[]),
        (holder(ann.incarnation), &[6, 3, 2]),
        (holder(bob.incarnation), &[4]),
        (holder(elsewhere), &[]),
        (both.clone(), &[3]),
        (Filter { holder: Some(ann.incarnation), ..both.clone() }, &[3]),
        (Filter { holder: Some(bob.incarnation), ..both }, &[]),
    ] {
        assert_eq!(numbers(&journal, filter.clone()).await, expected, "{filter:?}");
    }
}

/// The bound of a page counts what passed the filter, so a short page is the last one.
pub async fn a_page_is_filled_with_rows_that_pass<J: Journal>(journal: J) {
    for n in 0..40 {
        submit(&journal, n, jobs::spec(if n < 4 { "rare" } else { QUEUE })).await;
    }
    let rare = Filter { queue: Some("rare".to_owned()), ..Filter::default() };
    let page = list(&journal, rare.clone(), None, 3).await;
    assert_eq!(page.iter().map(|row| row.job).collect::<Vec<_>>(), [id(3), id(2), id(1)]);
    let page = list(&journal, rare, Some(id(1)), 3).await;
    assert_eq!(page.iter().map(|row| row.job).collect::<Vec<_>>(), [id(0)]);
}
