//! The catalog: rows one by one and in lists, jobs as people name them, and removing what has ended.

use lastword_core::reference::Reference;
use lastword_core::spec::Spec;
use lastword_core::view::row::{PhaseName, Row};
use lastword_core::{Append, Job, JobId, Seq};
use lastword_store::{Counts, FOUND_MAX, Feed, Filter, Prunable, Prune, Removal, Store};

use super::feed::tail;
use super::stage::{LATER, QUEUE, held, held_of, live_out, register, row, running, submit, write};
use crate::jobs::{self, NOW, id};

async fn list<J: Store>(journal: &J, filter: Filter, before: Option<JobId>, limit: u32) -> Vec<Row> {
    journal.rows(filter, before, limit).await.expect("rows can be read")
}

async fn numbers<J: Store>(journal: &J, filter: Filter) -> Vec<u64> {
    let rows = list(journal, filter, None, 100).await;
    rows.iter().map(|row| (0..100).find(|n| id(*n) == row.job).expect("a job of this case")).collect()
}

/// No row, and no error.
pub async fn an_unknown_job_has_no_row<J: Store>(journal: J) {
    assert_eq!(row(&journal, id(1)).await, None);
    submit(&journal, 1, jobs::spec(QUEUE)).await;
    assert_eq!(row(&journal, id(2)).await, None);
    assert_eq!(list(&journal, Filter::default(), Some(id(1)), 9).await, []);
}

/// Pages join without a gap or a repeat, and a row of a list is the row of the job.
pub async fn rows_come_newest_first_in_pages<J: Store>(journal: J) {
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
pub async fn rows_are_filtered_by_phase_and_group<J: Store>(journal: J) {
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
    let group = |group: &str| Filter { group: Some(group.to_owned()), ..Filter::default() };
    let both = Filter { group: Some(QUEUE.to_owned()), ..phase(PhaseName::Running) };
    for (filter, expected) in [
        (Filter::default(), &[6, 5, 4, 3, 2, 1][..]),
        (phase(PhaseName::Queued), &[2, 1]),
        (phase(PhaseName::Running), &[4, 3]),
        (phase(PhaseName::Stopping), &[6]),
        (phase(PhaseName::Ended), &[5]),
        (phase(PhaseName::Backoff), &[]),
        (group(QUEUE), &[5, 3, 2]),
        (group("nowhere"), &[]),
        (both, &[3]),
    ] {
        assert_eq!(numbers(&journal, filter.clone()).await, expected, "{filter:?}");
    }
}

/// Several phases, how a job ended, what it is called and its labels, each by itself and together.
pub async fn rows_are_filtered_by_ending_name_and_label<J: Store>(journal: J) {
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
    ] {
        assert_eq!(numbers(&journal, filter.clone()).await, expected, "{filter:?}");
    }
}

/// The bound of a page counts what passed the filter, so a short page is the last one.
pub async fn a_page_is_filled_with_rows_that_pass<J: Store>(journal: J) {
    for n in 0..40 {
        let kind = if n < 4 { "rare" } else { QUEUE };
        let labels = [("kind".to_owned(), kind.to_owned())].into();
        submit(&journal, n, Spec { labels, ..jobs::spec(kind) }).await;
    }
    let group = Filter { group: Some("rare".to_owned()), ..Filter::default() };
    let labels = [("kind".to_owned(), "rare".to_owned())].into();
    for rare in [group, Filter { labels, ..Filter::default() }] {
        let page = list(&journal, rare.clone(), None, 3).await;
        assert_eq!(page.iter().map(|row| row.job).collect::<Vec<_>>(), [id(3), id(2), id(1)]);
        let page = list(&journal, rare, Some(id(1)), 3).await;
        assert_eq!(page.iter().map(|row| row.job).collect::<Vec<_>>(), [id(0)]);
    }
}

/// Returns an id made at a moment, with this as its random part.
fn made(at: u64, random: u64) -> JobId {
    let mut bytes = [0; 10];
    bytes[1..9].copy_from_slice(&random.to_be_bytes());
    JobId::new(0, NOW.plus_ms(at), bytes)
}

/// Submits a job under an id.
async fn add<J: Store>(journal: &J, job: JobId, spec: Spec) -> Job {
    let facts = vec![jobs::submitted(spec)];
    let (append, job) =
        Append::new(&Job::unborn(job), None, jobs::append_id(), NOW, facts).expect("it opens a log");
    assert_eq!(journal.append(append).await, Ok(Seq(1)), "a new job goes in");
    job
}

fn named(name: &str) -> Spec {
    Spec { name: Some(name.to_owned()), ..jobs::spec(QUEUE) }
}

/// Ends a job that waits.
async fn end<J: Store>(journal: &J, job: &mut Job) {
    write(journal, job, None, vec![jobs::cancelled_before_start()]).await;
}

/// Returns what a text means. The rows are those of the jobs.
async fn found<J: Store>(journal: &J, text: &str) -> Vec<JobId> {
    let reference: Reference = text.parse().expect("it can name a job");
    let rows: Vec<Row> = journal.find(reference).await.expect("it can be looked up");
    for found in &rows {
        assert_eq!(row(journal, found.job).await.as_ref(), Some(found));
    }
    rows.iter().map(|row| row.job).collect()
}

/// By the whole id, by every beginning that tells it from its neighbour, with and without the first word.
pub async fn a_job_is_found_by_its_id_and_by_its_beginning<J: Store>(journal: J) {
    let (early, late) = (made(0, 7), made(1_000_000, 7));
    assert_eq!(found(&journal, &early.to_string()).await, []);
    for job in [early, late] {
        add(&journal, job, jobs::spec(QUEUE)).await;
    }
    let text = early.to_string();
    let apart = text.bytes().zip(late.to_string().bytes()).take_while(|(a, b)| a == b).count();
    for end in apart + 1..=text.len() {
        assert_eq!(found(&journal, &text[..end]).await, [early], "{}", &text[..end]);
        assert_eq!(found(&journal, &text[4..end]).await, [early], "{}", &text[4..end]);
    }
    for end in 5..=apart {
        assert_eq!(found(&journal, &text[..end]).await, [late, early], "{}", &text[..end]);
    }
    assert_eq!(found(&journal, "job_01").await, [], "another cell");
}

/// Lists show the last eight characters; four of them are enough where they are the only ones.
pub async fn a_job_is_found_by_its_short_form<J: Store>(journal: J) {
    let (one, two, other) = (made(1, 0xab_cdef_0123), made(2, 0xab_cdef_8123), made(3, 0x12_3456_789a));
    for job in [one, two, other] {
        add(&journal, job, jobs::spec(QUEUE)).await;
    }
    for job in [one, two, other] {
        assert_eq!(found(&journal, &job.short()).await, [job]);
    }
    assert_eq!(found(&journal, &other.short()[..4]).await, [other]);
    let (short, close) = (one.short(), two.short());
    let apart = short.bytes().zip(close.bytes()).take_while(|(a, b)| a == b).count();
    assert!((4..8).contains(&apart), "{short} {close}");
    assert_eq!(found(&journal, &short[..apart]).await, [two, one], "newest first");
    assert_eq!(found(&journal, &short[..apart + 1]).await, [one]);
    assert_eq!(found(&journal, "zzzz").await, []);
}

/// Of several jobs with one name a live one is meant, and the newest of those.
pub async fn a_job_is_found_by_its_name_a_live_one_first<J: Store>(journal: J) {
    let mut all = Vec::new();
    for n in 1..=4 {
        all.push(submit(&journal, n, named("nightly")).await);
    }
    submit(&journal, 9, named("night")).await;
    submit(&journal, 10, jobs::spec(QUEUE)).await;
    assert_eq!(found(&journal, "nightly").await, [id(4)]);
    for (n, meant) in [(3, 3), (2, 2), (0, 2), (1, 4)] {
        end(&journal, &mut all[n]).await;
        assert_eq!(found(&journal, "nightly").await, [id(meant)]);
    }
    assert_eq!(found(&journal, "nigh").await, []);
    assert_eq!(found(&journal, "NIGHTLY").await, []);
}

/// A name may look like part of an id. It wins over a part, and is ambiguous with a whole short form.
pub async fn a_name_does_not_take_over_a_short_form<J: Store>(journal: J) {
    let target = made(1, 0xab_cdef_0123);
    add(&journal, target, jobs::spec(QUEUE)).await;
    let short = target.short();
    let (part, whole) = (made(2, 1), made(3, 2));
    add(&journal, part, named(&short[..5])).await;
    assert_eq!(found(&journal, &short[..5]).await, [part]);
    assert_eq!(found(&journal, &short[..6]).await, [target]);
    add(&journal, whole, named(&short)).await;
    assert_eq!(found(&journal, &short).await, [whole, target]);
    assert_eq!(found(&journal, &target.to_string()).await, [target]);
}

/// The one whose id is newest, whatever became of it.
pub async fn the_newest_job_is_found_as_the_last<J: Store>(journal: J) {
    assert_eq!(found(&journal, "@last").await, []);
    let mut newest = submit(&journal, 5, jobs::spec(QUEUE)).await;
    submit(&journal, 3, jobs::spec(QUEUE)).await;
    assert_eq!(found(&journal, "@last").await, [id(5)]);
    end(&journal, &mut newest).await;
    assert_eq!(found(&journal, "@last").await, [id(5)]);
}

/// A person chooses from a few, newest first.
pub async fn what_means_many_shows_a_few<J: Store>(journal: J) {
    for n in 0..30 {
        submit(&journal, n, jobs::spec(QUEUE)).await;
    }
    let newest: Vec<JobId> = (0..30).rev().take(FOUND_MAX as usize).map(id).collect();
    assert_eq!(found(&journal, "job_0").await, newest);
    assert_eq!(found(&journal, "0000").await.len(), FOUND_MAX as usize);
}

/// Nothing of it is left, and its neighbours are as they were.
pub async fn an_ended_job_is_removed_with_all_that_is_stored<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    let (mut job, fence) = held(&journal, 1, named("nightly"), &ann).await;
    let (neighbour, _) = running(&journal, 2, named("nightly"), &ann).await;
    let before = held_of(&journal, neighbour.id).await;
    live_out(&journal, &mut job, &fence).await;
    assert_eq!(journal.remove(id(1), NOW).await, Ok(Removal::Gone));
    assert_eq!(held_of(&journal, id(1)).await, (None, vec![]));
    assert_eq!(found(&journal, &id(1).to_string()).await, []);
    assert_eq!(journal.remove(id(1), NOW).await, Ok(Removal::NotThere));
    assert_eq!(held_of(&journal, neighbour.id).await, before);
    assert_eq!(list(&journal, Filter::default(), None, 9).await.len(), 1);
    // Its id is free: the desk is what refuses it.
    let again = submit(&journal, 1, jobs::spec(QUEUE)).await;
    assert_eq!(row(&journal, id(1)).await, Some(Row::of(&again)));
}

/// A job is removed when its last word was spoken, and in no other phase.
pub async fn c45_a_live_job_is_not_removed<J: Store>(journal: J) {
    assert_eq!(journal.remove(id(1), NOW).await, Ok(Removal::NotThere));
    let ann = register(&journal, "ann").await;
    let (mut stopping, _) = running(&journal, 3, jobs::spec(QUEUE), &ann).await;
    write(&journal, &mut stopping, None, vec![jobs::cancel_requested()]).await;
    running(&journal, 2, jobs::spec(QUEUE), &ann).await;
    submit(&journal, 1, jobs::spec(QUEUE)).await;
    for n in 1..=3 {
        let before = held_of(&journal, id(n)).await;
        assert_eq!(journal.remove(id(n), NOW).await, Ok(Removal::NotEnded));
        assert_eq!(held_of(&journal, id(n)).await, before);
    }
}

/// A reader that continues from a place misses nothing written after a removal, not even if the newest events were removed.
pub async fn c29_a_removal_leaves_the_feed_whole<J: Store>(journal: J) {
    let mut first = submit(&journal, 1, jobs::spec(QUEUE)).await;
    let mut second = submit(&journal, 2, jobs::spec(QUEUE)).await;
    end(&journal, &mut first).await;
    end(&journal, &mut second).await;
    let (_, place) = tail(&journal, None, 100, 4).await;
    for n in [2, 1] {
        assert_eq!(journal.remove(id(n), NOW).await, Ok(Removal::Gone));
        let page = journal.read(place.clone(), 9).await;
        assert_eq!(page, Ok(Feed { events: vec![], next: place.clone() }));
    }
    let kept = submit(&journal, 3, jobs::spec(QUEUE)).await;
    submit(&journal, 4, jobs::spec(QUEUE)).await;
    let (told, _) = tail(&journal, place, 1, 2).await;
    assert_eq!(told.iter().map(|(job, _)| *job).collect::<Vec<_>>(), [kept.id, id(4)]);
    let (all, _) = tail(&journal, None, 100, 2).await;
    assert_eq!(all, told, "of what was removed nothing is told");
}

/// A job whose ending is unread is kept and counted; pruning removes it only if asked to include unread jobs.
pub async fn c45_what_nobody_has_seen_is_not_pruned<J: Store>(journal: J) {
    let mut ended = Vec::new();
    for n in 1..=5 {
        let mut job = submit(&journal, n, jobs::spec(QUEUE)).await;
        // The older the id, the later the end: what counts is the end.
        let at = NOW.plus_ms(100 - 10 * n);
        let facts = vec![jobs::cancelled_before_start()];
        let (append, after) =
            Append::new(&job, None, jobs::append_id(), at, facts).expect("it can be cancelled");
        journal.append(append).await.expect("it goes in");
        job = after;
        ended.push(job);
    }
    submit(&journal, 9, jobs::spec(QUEUE)).await;
    let prunable = |before, unread, limit| journal.prunable(Prune { before, unread, limit });
    let jobs =
        |ids: &[u64], kept_unread| Ok(Prunable { jobs: ids.iter().copied().map(id).collect(), kept_unread });
    assert_eq!(prunable(LATER, false, 10).await, jobs(&[], 5));
    assert_eq!(prunable(LATER, true, 10).await, jobs(&[5, 4, 3, 2, 1], 0));
    for n in [2, 4, 9, 77] {
        journal.mark_seen(id(n), LATER).await.expect("it is noted, or there is nothing to note");
        journal.mark_seen(id(n), LATER).await.expect("once is enough");
    }
    assert_eq!(prunable(LATER, false, 10).await, jobs(&[4, 2], 3));
    assert_eq!(prunable(LATER, false, 1).await, jobs(&[4], 3));
    assert_eq!(prunable(LATER, true, 2).await, jobs(&[5, 4], 0));
    // Those that ended at this moment or later stay: job 3 did at 70.
    assert_eq!(prunable(NOW.plus_ms(70), false, 10).await, jobs(&[4], 1));
    assert_eq!(prunable(NOW.plus_ms(71), true, 10).await, jobs(&[5, 4, 3], 0));
    // A late report is no new ending, and does not make it unread.
    let (late, _) = jobs::append(&ended[3], None, vec![jobs::late_reported(&ended[3])]);
    journal.append(late).await.expect("it is kept");
    assert_eq!(prunable(LATER, false, 10).await, jobs(&[4, 2], 3));
}

/// Every phase with the jobs in it, and no phase without.
pub async fn jobs_are_counted_by_phase<J: Store>(journal: J) {
    assert_eq!(journal.counts().await.map(|counts| counts.len()), Ok(0));
    let ann = register(&journal, "ann").await;
    for n in 11..14 {
        let (mut job, fence) = held(&journal, n, jobs::spec(QUEUE), &ann).await;
        live_out(&journal, &mut job, &fence).await;
    }
    running(&journal, 3, jobs::spec(QUEUE), &ann).await;
    held(&journal, 4, jobs::spec(QUEUE), &ann).await;
    submit(&journal, 1, jobs::spec(QUEUE)).await;
    let (mut stopping, _) = running(&journal, 5, jobs::spec("other"), &ann).await;
    write(&journal, &mut stopping, None, vec![jobs::cancel_requested()]).await;
    let counts = journal.counts().await.expect("they can be counted");
    let expected =
        [(PhaseName::Queued, 2), (PhaseName::Running, 1), (PhaseName::Stopping, 1), (PhaseName::Ended, 3)];
    assert_eq!(counts, expected.into());
    let by_group = journal.counts_by_group().await.expect("they can be counted");
    let of_queue = [(PhaseName::Queued, 2), (PhaseName::Running, 1)];
    let expected = [(QUEUE, Counts::from(of_queue)), ("other", [(PhaseName::Stopping, 1)].into())];
    assert_eq!(by_group, expected.map(|(group, counts)| (group.to_owned(), counts)).into(), "live ones");
    assert_eq!(journal.remove(id(12), NOW).await, Ok(Removal::Gone));
    assert_eq!(journal.counts().await.expect("they can be counted").get(&PhaseName::Ended), Some(&2));
}
