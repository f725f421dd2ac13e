//! Lists as people read them: sections, the order by the last change, pages, and filters.

use lastword_core::event::Paused;
use lastword_core::limits::Limit;
use lastword_core::spec::Spec;
use lastword_core::view::row::Section;
use lastword_core::{Append, Awake, Fact, Fence, Job, JobId, Timestamp};
use lastword_store::{After, Filter, List, Listed, Store};

use super::stage::{LATER, QUEUE, held, live_out, register, row, running, submit, write};
use crate::jobs::{self, NOW, id};

async fn list<J: Store>(journal: &J, list: List) -> Vec<Listed> {
    journal.list(list).await.expect("a list can be read")
}

/// Lists everything.
async fn all<J: Store>(journal: &J) -> Vec<(Section, JobId)> {
    let listed = list(journal, List { limit: 100, ..List::default() }).await;
    listed.iter().map(|listed| (listed.section, listed.row.job)).collect()
}

/// Appends facts at a moment.
async fn write_at<J: Store>(
    journal: &J,
    job: &mut Job,
    fence: Option<&Fence>,
    at: Timestamp,
    facts: Vec<Fact>,
) {
    let (append, after) = Append::new(job, fence, jobs::append_id(), at, facts).expect("the facts follow");
    journal.append(append).await.expect("it goes in");
    *job = after;
}

fn paused(job: &Job) -> Fact {
    let attempt = job.open_attempt().expect("an attempt is open").no;
    Paused { attempt, limit: Limit::Money, measured: 2, allowed: 1, awake: Awake(0) }.into()
}

/// What needs a person, endings that were not read, live jobs, and the rest; each by its last change. Reading moves an ending, and a late
/// report does not move it back.
pub async fn c62_a_list_begins_with_what_a_person_should_look_at<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    let (mut ended, mut live) = (Vec::new(), Vec::new());
    for n in [1, 2, 3] {
        let (mut job, fence) = held(&journal, n, jobs::spec(QUEUE), &ann).await;
        live_out(&journal, &mut job, &fence).await;
        ended.push(job);
    }
    for n in [4, 5, 6] {
        live.push(running(&journal, n, jobs::spec(QUEUE), &ann).await);
    }
    // The oldest job is the last to change, and then a newer one asks.
    let (job, _) = &mut live[0];
    write_at(&journal, job, None, LATER.plus_ms(5_000), vec![jobs::cancel_requested()]).await;
    let (job, fence) = &mut live[1];
    let facts = vec![paused(job)];
    write_at(&journal, job, Some(fence), LATER.plus_ms(4_000), facts).await;
    use Section::{Live, NeedsPerson, Read, Unread};
    let expected = [(NeedsPerson, 5), (Unread, 3), (Unread, 2), (Unread, 1), (Live, 4), (Live, 6)];
    assert_eq!(all(&journal).await, expected.map(|(section, n)| (section, id(n))));
    for n in [2, 4, 77] {
        journal.mark_seen(id(n), LATER).await.expect("it is noted, or there is nothing to note");
    }
    let (late, _) = jobs::append(&ended[1], None, vec![jobs::late_reported(&ended[1])]);
    journal.append(late).await.expect("it is kept");
    let expected = [(NeedsPerson, 5), (Unread, 3), (Unread, 1), (Live, 4), (Live, 6), (Read, 2)];
    assert_eq!(all(&journal).await, expected.map(|(section, n)| (section, id(n))));
    let mut whole = list(&journal, List { limit: 100, ..List::default() }).await;
    for listed in &whole {
        assert_eq!(row(&journal, listed.row.job).await, Some(listed.row.clone()));
    }
    // By name each has the row and the section that it has in the list.
    let mut jobs: Vec<JobId> = whole.iter().map(|listed| listed.row.job).collect();
    jobs.push(id(77));
    let mut named = journal.listed(jobs).await.expect("rows are read by name");
    whole.sort_by_key(|listed| listed.row.job);
    named.sort_by_key(|listed| listed.row.job);
    assert_eq!(named, whole, "one that is not there is left out");
}

/// What is written without a change of state does not move a job.
pub async fn a_job_moves_in_a_list_only_when_its_state_changes<J: Store>(journal: J) {
    let mut first = submit(&journal, 1, jobs::spec(QUEUE)).await;
    submit(&journal, 2, jobs::spec(QUEUE)).await;
    write(&journal, &mut first, None, vec![jobs::limit_changed(7)]).await;
    assert_eq!(all(&journal).await, [2, 1].map(|n| (Section::Live, id(n))));
    // A worker has taken these: that their trees are started is no further change.
    let ann = register(&journal, "ann").await;
    let (mut third, fence) = held(&journal, 3, jobs::spec("others"), &ann).await;
    held(&journal, 4, jobs::spec("others"), &ann).await;
    let facts = vec![jobs::launch_intended(&third)];
    write_at(&journal, &mut third, Some(&fence), LATER.plus_ms(1_000), facts).await;
    let facts = vec![jobs::launched(jobs::newest_attempt(&third))];
    write_at(&journal, &mut third, Some(&fence), LATER.plus_ms(2_000), facts).await;
    assert_eq!(all(&journal).await, [4, 3, 2, 1].map(|n| (Section::Live, id(n))));
    write_at(&journal, &mut third, None, LATER.plus_ms(3_000), vec![jobs::cancel_requested()]).await;
    assert_eq!(all(&journal).await, [3, 4, 2, 1].map(|n| (Section::Live, id(n))));
}

/// Pages join without a gap or a repeat. A row that changes or is read meanwhile is left out of the later pages, and a clock that was ahead
/// hides nothing.
pub async fn a_list_continues_as_it_was<J: Store>(journal: J) {
    let mut jobs_made = Vec::new();
    for n in 0..12 {
        let mut job = submit(&journal, n, jobs::spec(QUEUE)).await;
        if n < 6 {
            write_at(&journal, &mut job, None, NOW.plus_ms(n), vec![jobs::cancelled_before_start()]).await;
        }
        jobs_made.push(job);
    }
    // Written by a clock that was ahead.
    let ahead = LATER.plus_ms(1_000_000);
    write_at(&journal, &mut jobs_made[6], None, ahead, vec![jobs::cancelled_before_start()]).await;
    let whole = all(&journal).await;
    assert_eq!(whole.len(), 12);
    for size in [1, 5, 12, 13] {
        assert_eq!(pages(&journal, None, size).await, whole, "{size} at a time");
    }
    let first = list(&journal, List { limit: 3, ..List::default() }).await;
    // One is read, one ends, and one is submitted.
    journal.mark_seen(id(0), LATER.plus_ms(1)).await.expect("it is noted");
    let ends = vec![jobs::cancelled_before_start()];
    write_at(&journal, &mut jobs_made[11], None, LATER.plus_ms(1), ends).await;
    let (append, _) = jobs::submit(20, jobs::spec(QUEUE), LATER.plus_ms(1));
    journal.append(append).await.expect("a new job goes in");
    let rest = pages(&journal, first.last().map(after), 3).await;
    let unchanged = whole.into_iter().skip(3).filter(|(_, job)| ![id(0), id(11)].contains(job));
    assert_eq!(rest, unchanged.collect::<Vec<_>>());
    assert_eq!(pages(&journal, None, 30).await.len(), 13, "a new first page has them all");
}

/// Returns where a list continues after a row.
fn after(last: &Listed) -> After {
    let Listed { row, section } = last;
    let (since, now) = (LATER, LATER.plus_ms(10));
    After { section: *section, changed_at: row.changed_at, job: row.job, since, now }
}

/// Reads a list page by page.
async fn pages<J: Store>(journal: &J, mut begin: Option<After>, size: u32) -> Vec<(Section, JobId)> {
    let mut whole = Vec::new();
    loop {
        let rows = list(journal, List { after: begin, limit: size, ..List::default() }).await;
        let Some(last) = rows.last() else { return whole };
        begin = Some(after(last));
        whole.extend(rows.iter().map(|listed| (listed.section, listed.row.job)));
    }
}

/// By folder, by parent, by time and by section, each in lists and in rows where both have it.
pub async fn lists_are_filtered_by_folder_parent_time_and_section<J: Store>(journal: J) {
    let spec = |cwd: &str, parent: Option<u64>| Spec {
        cwd: cwd.to_owned(),
        parent: parent.map(id),
        ..jobs::spec(QUEUE)
    };
    for (n, cwd, parent) in
        [(1, "/src/a", None), (2, "/src/a/b", Some(1)), (3, "/src/ab", Some(1)), (4, "/src/\"q\"/é", Some(2))]
    {
        submit(&journal, n, spec(cwd, parent)).await;
    }
    let mut ended = submit(&journal, 5, spec("/other", None)).await;
    write_at(&journal, &mut ended, None, NOW.plus_ms(500), vec![jobs::cancelled_before_start()]).await;
    let cwd = |cwd: &str| Filter { cwd: Some(cwd.to_owned()), ..Filter::default() };
    let parent = |n| Filter { parent: Some(id(n)), ..Filter::default() };
    let since = |ms| Filter { changed_since: Some(NOW.plus_ms(ms)), ..Filter::default() };
    for (filter, expected) in [
        (cwd("/src/a"), &[2, 1][..]),
        (cwd("/src/a/"), &[2, 1]),
        (cwd("/src/\"q\""), &[4]),
        (cwd("/"), &[5, 4, 3, 2, 1]),
        (cwd("/nowhere"), &[]),
        (parent(1), &[3, 2]),
        (parent(9), &[]),
        (since(500), &[5]),
        (since(501), &[]),
        (Filter { labels: [("x".to_owned(), "y".to_owned())].into(), ..cwd("/src") }, &[]),
        (Filter { parent: Some(id(1)), ..cwd("/src/a") }, &[2]),
    ] {
        let rows = journal.rows(filter.clone(), None, 100).await.expect("rows can be read");
        let rows: Vec<JobId> = rows.iter().map(|row| row.job).collect();
        let expected: Vec<JobId> = expected.iter().copied().map(id).collect();
        assert_eq!(rows, expected, "{filter:?}");
        let mut listed: Vec<JobId> =
            list(&journal, List { filter: filter.clone(), limit: 100, ..List::default() })
                .await
                .iter()
                .map(|listed| listed.row.job)
                .collect();
        listed.sort_by(|a, b| b.cmp(a));
        assert_eq!(listed, expected, "{filter:?}");
    }
    let section = |section| List { sections: vec![section], limit: 100, ..List::default() };
    assert_eq!(list(&journal, section(Section::Unread)).await.len(), 1);
    assert_eq!(list(&journal, section(Section::Live)).await.len(), 4);
    assert_eq!(list(&journal, section(Section::NeedsPerson)).await, []);
}
