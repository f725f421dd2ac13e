//! Siblings: finding jobs as people name them, keys of repeated requests, groups, and tidying up.

use lastword_core::reference::Reference;
use lastword_core::spec::Spec;
use lastword_core::view::row::{PhaseName, Row};
use lastword_core::{Append, Job, JobId, Seq, Timestamp};
use lastword_store::siblings::{FOUND_MAX, Group, KEY_MS, Kept, Key, Prunable, Prune, Removal, Siblings};
use lastword_store::{Filter, Journal, Read};

use super::feed::tail;
use super::stage::{
    LATER, QUEUE, at_once, feed, held, held_of, live_out, register, row, running, submit, write,
};
use crate::jobs::{self, NOW, id};

/// Returns an id made at a moment, with this as its random part.
fn made(at: u64, random: u64) -> JobId {
    let mut bytes = [0; 10];
    bytes[1..9].copy_from_slice(&random.to_be_bytes());
    JobId::new(0, NOW.plus_ms(at), bytes)
}

/// Submits a job under an id.
async fn add<J: Journal>(journal: &J, job: JobId, spec: Spec) -> Job {
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
async fn end<J: Journal>(journal: &J, job: &mut Job) {
    write(journal, job, None, vec![jobs::cancelled_before_start()]).await;
}

/// Returns what a text means. The rows are those of the jobs.
async fn found<J: Siblings>(journal: &J, text: &str) -> Vec<JobId> {
    let reference: Reference = text.parse().expect("it can name a job");
    let rows: Vec<Row> = journal.find(reference).await.expect("it can be looked up");
    for found in &rows {
        assert_eq!(row(journal, found.job).await.as_ref(), Some(found));
    }
    rows.iter().map(|row| row.job).collect()
}

/// By the whole id, by every beginning that tells it from its neighbour, with and without the first word.
pub async fn a_job_is_found_by_its_id_and_by_its_beginning<J: Siblings>(journal: J) {
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
pub async fn a_job_is_found_by_its_short_form<J: Siblings>(journal: J) {
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
pub async fn a_job_is_found_by_its_name_a_live_one_first<J: Siblings>(journal: J) {
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
pub async fn a_name_does_not_take_over_a_short_form<J: Siblings>(journal: J) {
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
pub async fn the_newest_job_is_found_as_the_last<J: Siblings>(journal: J) {
    assert_eq!(found(&journal, "@last").await, []);
    let mut newest = submit(&journal, 5, jobs::spec(QUEUE)).await;
    submit(&journal, 3, jobs::spec(QUEUE)).await;
    assert_eq!(found(&journal, "@last").await, [id(5)]);
    end(&journal, &mut newest).await;
    assert_eq!(found(&journal, "@last").await, [id(5)]);
}

/// A person chooses from a few, newest first.
pub async fn what_means_many_shows_a_few<J: Siblings>(journal: J) {
    for n in 0..30 {
        submit(&journal, n, jobs::spec(QUEUE)).await;
    }
    let newest: Vec<JobId> = (0..30).rev().take(FOUND_MAX as usize).map(id).collect();
    assert_eq!(found(&journal, "job_0").await, newest);
    assert_eq!(found(&journal, "0000").await.len(), FOUND_MAX as usize);
}

fn key(key: &str, fingerprint: u128, job: u64, now: Timestamp) -> Key {
    Key { key: key.to_owned(), fingerprint, job: id(job), now }
}

/// The first job stands, whatever comes with the key later; other keys have their own.
pub async fn c10_a_key_is_given_to_one_job<J: Siblings>(journal: J) {
    let kept = |job, fingerprint, replayed| Ok(Kept { job: id(job), fingerprint, replayed });
    assert_eq!(journal.key(key("a", u128::MAX, 1, NOW)).await, kept(1, u128::MAX, false));
    assert_eq!(journal.key(key("a", u128::MAX, 2, NOW)).await, kept(1, u128::MAX, true));
    assert_eq!(journal.key(key("a", 8, 2, NOW)).await, kept(1, u128::MAX, true));
    assert_eq!(journal.key(key("A", 8, 2, NOW)).await, kept(2, 8, false));
    assert_eq!(journal.key(key("", 0, 3, NOW)).await, kept(3, 0, false));
    let odd = "k'; drop table keys; -- \u{1f980}";
    assert_eq!(journal.key(key(odd, 1, 4, NOW)).await, kept(4, 1, false));
    assert_eq!(journal.key(key(odd, 1, 5, NOW)).await, kept(4, 1, true));
}

/// Of many requests with one key exactly one is the first, and all learn of its job.
pub async fn c10_one_key_sent_many_times_at_once_is_given_once<J: Siblings>(journal: J) {
    let answers = at_once(24, |n| {
        let journal = journal.clone();
        async move { journal.key(key("k", 7, n, NOW)).await.expect("it is kept") }
    })
    .await;
    let first: Vec<&Kept> = answers.iter().filter(|kept| !kept.replayed).collect();
    assert_eq!(first.len(), 1, "{answers:?}");
    assert!(answers.iter().all(|kept| kept.job == first[0].job));
}

/// A day is the least; after it a key is free again, and keys nobody asks for do not pile up.
pub async fn a_key_stands_for_a_day_and_is_swept<J: Siblings>(journal: J) {
    for n in 0..20 {
        assert!(!journal.key(key(&format!("old-{n}"), 1, n, NOW)).await.expect("it is kept").replayed);
    }
    let day = NOW.plus_ms(KEY_MS);
    assert!(journal.key(key("old-0", 1, 99, day)).await.expect("it is kept").replayed);
    let after = day.plus_ms(1);
    let again = journal.key(key("old-7", 2, 99, after)).await;
    assert_eq!(again, Ok(Kept { job: id(99), fingerprint: 2, replayed: false }));
    // It stands again from here on.
    assert!(journal.key(key("old-7", 2, 5, after.plus_ms(5))).await.expect("it is kept").replayed);
    let much_later = after.plus_ms(KEY_MS + 6);
    assert!(!journal.key(key("old-7", 2, 5, much_later)).await.expect("it is kept").replayed);
}

fn group(name: &str, slots: Option<u32>, paused: bool) -> Group {
    Group { name: name.to_owned(), slots, paused }
}

/// Groups are listed by name and say what was last set.
pub async fn a_group_is_made_changed_and_removed<J: Siblings>(journal: J) {
    assert_eq!(journal.groups().await, Ok(vec![]));
    for made in
        [group("web", None, false), group("default", Some(4), false), group("ci", Some(u32::MAX), true)]
    {
        journal.set_group(made).await.expect("it is set");
    }
    let all =
        vec![group("ci", Some(u32::MAX), true), group("default", Some(4), false), group("web", None, false)];
    assert_eq!(journal.groups().await, Ok(all));
    journal.set_group(group("ci", None, false)).await.expect("it is set");
    journal.set_group(group("web", Some(0), true)).await.expect("it is set");
    assert_eq!(journal.remove_group("default").await, Ok(true));
    assert_eq!(journal.remove_group("default").await, Ok(false));
    assert_eq!(journal.groups().await, Ok(vec![group("ci", None, false), group("web", Some(0), true)]));
    // Adding leaves alone what is there.
    assert_eq!(journal.add_group(group("ci", Some(1), true)).await, Ok(group("ci", None, false)));
    assert_eq!(journal.add_group(group("new", Some(1), true)).await, Ok(group("new", Some(1), true)));
    assert_eq!(journal.groups().await.expect("they are there").len(), 3);
}

/// Whoever comes second gets the first one's.
pub async fn a_group_added_by_many_is_made_once<J: Siblings>(journal: J) {
    let answers = at_once(16, |n| {
        let journal = journal.clone();
        async move { journal.add_group(group("new", Some(n as u32), false)).await.expect("it is made") }
    })
    .await;
    assert_eq!(journal.groups().await, Ok(vec![answers[0].clone()]));
    assert!(answers.iter().all(|group| *group == answers[0]), "{answers:?}");
}

/// Nothing of it is left, its key is free, and its neighbours are as they were.
pub async fn an_ended_job_is_removed_with_all_that_is_stored<J: Siblings>(journal: J) {
    let ann = register(&journal, "ann").await;
    let (mut job, fence) = held(&journal, 1, named("nightly"), &ann).await;
    let (neighbour, _) = running(&journal, 2, named("nightly"), &ann).await;
    let before = held_of(&journal, neighbour.id).await;
    for (name, n) in [("mine", 1), ("other", 2)] {
        journal.key(key(name, 1, n, NOW)).await.expect("it is kept");
    }
    live_out(&journal, &mut job, &fence).await;
    assert_eq!(journal.remove(id(1)).await, Ok(Removal::Gone));
    assert_eq!(held_of(&journal, id(1)).await, (None, vec![]));
    assert_eq!(found(&journal, &id(1).to_string()).await, []);
    assert_eq!(journal.remove(id(1)).await, Ok(Removal::NotThere));
    assert_eq!(held_of(&journal, neighbour.id).await, before);
    assert!(!journal.key(key("mine", 2, 5, NOW)).await.expect("it is kept").replayed, "its key is free");
    assert!(journal.key(key("other", 2, 5, NOW)).await.expect("it is kept").replayed);
    let rows = journal.read(Read::Rows { filter: Filter::default(), before: None, limit: 9 }).await;
    assert_eq!(rows.expect("rows can be read").rows().len(), 1);
    // The id is free as well.
    let again = submit(&journal, 1, jobs::spec(QUEUE)).await;
    assert_eq!(row(&journal, id(1)).await, Some(Row::of(&again)));
}

/// A job is removed when its last word was spoken, and in no other phase.
pub async fn c45_a_live_job_is_not_removed<J: Siblings>(journal: J) {
    assert_eq!(journal.remove(id(1)).await, Ok(Removal::NotThere));
    let ann = register(&journal, "ann").await;
    let (mut stopping, _) = running(&journal, 3, jobs::spec(QUEUE), &ann).await;
    write(&journal, &mut stopping, None, vec![jobs::cancel_requested()]).await;
    running(&journal, 2, jobs::spec(QUEUE), &ann).await;
    submit(&journal, 1, jobs::spec(QUEUE)).await;
    for n in 1..=3 {
        let before = held_of(&journal, id(n)).await;
        assert_eq!(journal.remove(id(n)).await, Ok(Removal::NotEnded));
        assert_eq!(held_of(&journal, id(n)).await, before);
    }
}

/// Whoever reads on from a place misses nothing that is written after a removal, not even one of the newest events.
pub async fn c29_a_removal_leaves_the_feed_whole<J: Siblings>(journal: J) {
    let mut first = submit(&journal, 1, jobs::spec(QUEUE)).await;
    let mut second = submit(&journal, 2, jobs::spec(QUEUE)).await;
    end(&journal, &mut first).await;
    end(&journal, &mut second).await;
    let (_, place) = tail(&journal, None, 100, 4).await;
    for n in [2, 1] {
        assert_eq!(journal.remove(id(n)).await, Ok(Removal::Gone));
        let page = journal.read(Read::Feed { after: place.clone(), limit: 9 }).await;
        assert_eq!(feed(page.expect("the place stands")), (vec![], place.clone()));
    }
    let kept = submit(&journal, 3, jobs::spec(QUEUE)).await;
    submit(&journal, 4, jobs::spec(QUEUE)).await;
    let (told, _) = tail(&journal, place, 1, 2).await;
    assert_eq!(told.iter().map(|(job, _)| *job).collect::<Vec<_>>(), [kept.id, id(4)]);
    let (all, _) = tail(&journal, None, 100, 2).await;
    assert_eq!(all, told, "of what was removed nothing is told");
}

/// An ending that nobody has seen stays, is counted, and goes when that is asked for.
pub async fn c45_what_nobody_has_seen_is_not_pruned<J: Siblings>(journal: J) {
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
        journal.mark_read(id(n)).await.expect("it is noted, or there is nothing to note");
        journal.mark_read(id(n)).await.expect("once is enough");
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
pub async fn jobs_are_counted_by_phase<J: Siblings>(journal: J) {
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
    assert_eq!(journal.remove(id(12)).await, Ok(Removal::Gone));
    assert_eq!(journal.counts().await.expect("they can be counted").get(&PhaseName::Ended), Some(&2));
}
