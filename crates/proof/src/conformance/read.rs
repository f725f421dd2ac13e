//! `read` of rows: one job, or a list in pages.

use lastword_core::spec::Spec;
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

    let phase = |phase| Filter { phases: vec![phase], ..Filter::default() };
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

/// Several phases, how a job ended, what it is called and its labels, each by itself and together.
pub async fn rows_are_filtered_by_ending_name_and_label<J: Journal>(journal: J) {
    let ann = register(&journal, "ann").await;
    let labels = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let spec = |name: Option<&str>, pairs: &[(&str, &str)]| {
        let name = name.map(str::to_owned);
        Spec { name, labels: labels(pairs), ..jobs::spec(QUEUE) }
    };
    let (mut done, fence) = held(&journal, 1, spec(Some("a"), &[("team", "x")]), &ann).await;
    live_out(&journal, &mut done, &fence).await;
    let odd = [("a.b\"c", "it's"), ("team", "x")];
    let mut cancelled = submit(&journal, 2, spec(None, &odd)).await;
    write(&journal, &mut cancelled, None, vec![jobs::cancelled_before_start()]).await;
    running(&journal, 3, spec(Some("a"), &[("team", "y")]), &ann).await;
    submit(&journal, 4, spec(Some("b"), &[("team", "x")])).await;

    let phases = |phases: &[PhaseName]| Filter { phases: phases.to_vec(), ..Filter::default() };
    let outcome = |name: &str| Filter { outcome: Some(name.to_owned()), ..Filter::default() };
    let name = |name: &str| Filter { name: Some(name.to_owned()), ..Filter::default() };
    let label = |pairs: &[(&str, &str)]| Filter { labels: labels(pairs), ..Filter::default() };
    for (filter, expected) in [
        (phases(&[PhaseName::Queued, PhaseName::Running]), &[4, 3][..]),
        (phases(&[PhaseName::Ended, PhaseName::Queued, PhaseName::Ended]), &[4, 2, 1]),
        (phases(&PhaseName::ALL), &[4, 3, 2, 1]),
        (outcome("completed"), &[1]),
        (outcome("cancelled"), &[2]),
        (outcome("lost"), &[]),
        (outcome("before_start"), &[]),
        (outcome(""), &[]),
        (outcome("%"), &[]),
        (name("a"), &[3, 1]),
        (name("c"), &[]),
        (label(&[("team", "x")]), &[4, 2, 1]),
        (label(&[("team", "x"), ("a.b\"c", "it's")]), &[2]),
        (label(&[("team", "")]), &[]),
        (label(&[("teams", "x")]), &[]),
        (Filter { name: Some("a".to_owned()), ..outcome("completed") }, &[1]),
        (Filter { labels: labels(&[("team", "x")]), ..phases(&[PhaseName::Ended]) }, &[2, 1]),
        (Filter { labels: labels(&[("team", "x")]), ..name("a") }, &[1]),
        (Filter { phases: vec![PhaseName::Running], ..name("a") }, &[3]),
        (Filter { holder: Some(ann.incarnation), ..name("a") }, &[3]),
        (Filter { holder: Some(ann.incarnation), ..name("b") }, &[]),
    ] {
        assert_eq!(numbers(&journal, filter.clone()).await, expected, "{filter:?}");
    }
}

/// The bound of a page counts what passed the filter, so a short page is the last one.
pub async fn a_page_is_filled_with_rows_that_pass<J: Journal>(journal: J) {
    for n in 0..40 {
        let kind = if n < 4 { "rare" } else { QUEUE };
        let labels = [("kind".to_owned(), kind.to_owned())].into();
        submit(&journal, n, Spec { labels, ..jobs::spec(kind) }).await;
    }
    let queue = Filter { queue: Some("rare".to_owned()), ..Filter::default() };
    let labels = [("kind".to_owned(), "rare".to_owned())].into();
    for rare in [queue, Filter { labels, ..Filter::default() }] {
        let page = list(&journal, rare.clone(), None, 3).await;
        assert_eq!(page.iter().map(|row| row.job).collect::<Vec<_>>(), [id(3), id(2), id(1)]);
        let page = list(&journal, rare, Some(id(1)), 3).await;
        assert_eq!(page.iter().map(|row| row.job).collect::<Vec<_>>(), [id(0)]);
    }
}
