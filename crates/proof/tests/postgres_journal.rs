//! What only the journal in PostgreSQL promises: commits that come late, databases that were restored, schemas of
//! other builds, partitions, and hints from process to process.

use std::time::Duration;

use lastword_core::decide::claim::Claimant;
use lastword_core::life::Place;
use lastword_core::worker_labels::WorkerLabels;
use lastword_core::{Append, Job, JobId, OwnerId, Timestamp};
use lastword_proof::jobs;
use lastword_proof::late_commit::{feed, read_around};
use lastword_proof::pg::{self, Shared};
use lastword_store::hints::Hint;
use lastword_store::postgres::{Options, Postgres};
use lastword_store::{
    Catalog as _, Claim, Claimed, Error, Group, Groups as _, Journal, Key, Keys as _, Renew, Source,
};
use tokio_postgres::{Client, NoTls};

const LEASE_MS: u64 = 1_000_000;

struct Stage {
    _server: Shared,
    url: String,
    journal: Postgres,
}

async fn stage() -> Stage {
    let server = Shared::join().expect("PostgreSQL starts");
    let url = server.database().await;
    let journal = open(&url).await.expect("an empty database becomes a journal");
    Stage { _server: server, url, journal }
}

async fn open(url: &str) -> lastword_store::Result<Postgres> {
    Postgres::open(url, pg::options()).await
}

/// Connects past the journal.
async fn aside(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("the server is there");
    tokio::spawn(connection);
    client
}

async fn register(journal: &Postgres, owner: &str) -> Claimant {
    jobs::register(journal, owner, LEASE_MS).await.expect("anyone may register")
}

async fn take(journal: &Postgres, by: &Claimant, at_most: u32) -> Vec<Claimed> {
    let from = Source::Ready { group: "q".to_owned(), slots: None };
    let now = jobs::NOW.plus_ms(1 << 30);
    journal
        .claim(Claim { by: by.clone(), from, labels: WorkerLabels::default(), at_most, now })
        .await
        .expect("the owner is alive")
}

async fn submit(journal: &Postgres, n: u64) -> Job {
    let (append, job) = jobs::submit(n, jobs::spec("q"), jobs::NOW.plus_ms(n));
    journal.append(append).await.expect("it is new");
    job
}

/// A job whose row in `ready` is committed long after those of younger jobs. The mark has moved past its place, and
/// the queue never runs empty; it is found all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_committed_late_below_the_mark_is_claimed() {
    let Stage { url, journal, .. } = &stage().await;
    let by = register(journal, "ann").await;
    let late = submit(journal, 1).await;
    for n in 2..200 {
        submit(journal, n).await;
    }
    let mut client = aside(url).await;
    client.execute("delete from ready where job = $1", &[&late.id.as_uuid()]).await.expect("it is there");
    let transaction = client.transaction().await.expect("it begins");
    let due = late.due().expect("it may be claimed").0 as i64;
    let sql = "insert into ready (job, queue, priority, due) values ($1, 'q', 0, $2)";
    transaction.execute(sql, &[&late.id.as_uuid(), &due]).await.expect("it is not there");
    for _ in 0..5 {
        assert!(take(journal, &by, 2).await.iter().all(|claimed| claimed.job != late.id));
    }
    transaction.commit().await.expect("it commits");
    let mut claims = 0;
    while take(journal, &by, 1).await.first().expect("the queue is not empty").job != late.id {
        claims += 1;
        assert!(claims <= 16, "a scan from the beginning is due by now");
    }
}

/// A server renews for all its workers, and a commit for each would be its most frequent one.
#[tokio::test]
async fn renewals_at_once_are_one_transaction() {
    let Stage { url, journal, .. } = &stage().await;
    let sql = format!("update meta set lease_max_ms = {LEASE_MS}");
    aside(url).await.execute(&sql, &[]).await.expect("it is there");
    let mut workers = Vec::new();
    for n in 0..100 {
        workers.push(register(journal, &format!("worker-{n}")).await);
    }
    let mut calls = tokio::task::JoinSet::new();
    for (n, Claimant { owner, incarnation, .. }) in workers.into_iter().enumerate() {
        // The last one asks for too much, which is no reason to refuse the others.
        let lease_ms = LEASE_MS + u64::from(n == 99);
        let place = Place::new("here", "boot");
        let renew = Renew { owner, place, incarnation: Some(incarnation), lease_ms };
        let journal = journal.clone();
        calls.spawn(async move { (n, journal.renew(renew).await) });
    }
    while let Some(called) = calls.join_next().await {
        let (n, renewed) = called.expect("no call panics");
        match n {
            99 => assert!(matches!(renewed, Err(Error::LeaseTooLong { .. })), "{renewed:?}"),
            _ => assert_eq!(renewed.map(|renewed| renewed.beat), Ok(1), "{n}"),
        }
    }
    let sql = "select count(distinct xmin::text) from lives where beat = 1";
    let transactions: i64 = aside(url).await.query_one(sql, &[]).await.expect("it is there").get(0);
    // More than one on a machine that pauses for longer than they wait for each other.
    assert!(transactions < 10, "{transactions}");
}

/// A read of beats waits for renewals, is answered by their statement with the beats after them, and a read in a hurry hurries them.
#[tokio::test(flavor = "multi_thread")]
async fn beats_are_read_with_the_next_renewals() {
    const LONG: Duration = Duration::from_secs(3_600);
    let Stage { url, .. } = &stage().await;
    let journal = Postgres::open(url, Options { gather: LONG, ..pg::options() }).await.expect("it opens");
    // A seventh of this lease is an hour as well.
    let lease_ms = 8 * LONG.as_millis() as u64;
    let Claimant { owner, incarnation, .. } =
        jobs::register(&journal, "ann", lease_ms).await.expect("anyone may register");
    let read = |within| {
        let journal = journal.clone();
        tokio::spawn(async move { journal.beats(within).await })
    };
    let waits = read(LONG);
    let renew = Renew { owner, place: Place::new("here", "boot"), incarnation: Some(incarnation), lease_ms };
    let renewal = tokio::spawn({
        let journal = journal.clone();
        async move { journal.renew(renew).await }
    });
    // The reads that do not wait take the two with them, once these are there: in either order.
    let mut beat = 0;
    while beat == 0 || !waits.is_finished() {
        let seen = read(Duration::ZERO).await.expect("it does not panic").expect("it reads");
        assert_eq!(seen.instance, journal.instance().await.expect("it reads"));
        assert_eq!(seen.lives.len(), 1);
        beat = seen.lives[0].beat;
    }
    assert_eq!(beat, 1, "the beat after the renewal of the same statement");
    assert_eq!(renewal.await.expect("it does not panic").map(|renewed| renewed.beat), Ok(1));
    waits.await.expect("it does not panic").expect("it was answered with the others");
}

#[tokio::test(flavor = "multi_thread")]
async fn c29_a_late_commit_is_not_skipped_by_the_feed() {
    let Stage { url, journal, .. } = &stage().await;
    let (before, rest) = read_around(url, journal, 2).await;
    assert_eq!(before, [jobs::id(1)], "nothing is shown above a transaction that is still open");
    assert_eq!(rest, [jobs::id(2), jobs::id(3)]);
}

/// A transaction in another database of the server may stay open for hours.
#[tokio::test(flavor = "multi_thread")]
async fn c29_another_database_does_not_hold_the_feed_back() {
    let (ours, other) = (stage().await, stage().await);
    let mut client = aside(&other.url).await;
    let transaction = client.transaction().await.expect("it begins");
    transaction.execute("select pg_current_xact_id()", &[]).await.expect("it is given a number");
    submit(&ours.journal, 1).await;
    assert_eq!(feed(&ours.journal, None, 1).await.0, [jobs::id(1)]);
    transaction.rollback().await.expect("it was open all the time");
}

/// A database that wakes up in another cluster, or on another timeline, is another instance.
#[tokio::test(flavor = "multi_thread")]
async fn c34_a_restored_database_honours_nothing_given_before() {
    for column in ["cluster", "timeline"] {
        let Stage { url, journal, .. } = &stage().await;
        let by = register(journal, "ann").await;
        submit(journal, 1).await;
        let claimed = take(journal, &by, 1).await.remove(0);
        let (_, next) = feed(journal, None, 1).await;
        aside(url)
            .await
            .execute(&format!("update meta set {column} = 'elsewhere'"), &[])
            .await
            .expect("it is there");
        let restored = open(url).await.expect("it opens");
        let job = Job::fold(claimed.job, &claimed.events).expect("its log folds");
        let (append, _) = jobs::append(&job, Some(&claimed.fence), vec![jobs::launch_intended(&job)]);
        assert_eq!(restored.append(append).await, Err(Error::Fenced { job: job.id }));
        let renew = Renew {
            owner: by.owner.clone(),
            place: Place::new("here", "boot"),
            incarnation: Some(by.incarnation),
            lease_ms: LEASE_MS,
        };
        assert_eq!(restored.renew(renew).await, Err(Error::Lapsed { owner: by.owner.clone() }));
        let told = restored.read(next, 1).await;
        assert!(matches!(told, Err(Error::Corrupt(_))), "{told:?}");
        let bob = register(&restored, "bob").await;
        assert_ne!(bob.incarnation.instance, by.incarnation.instance);
        let from = Source::Expired;
        let claim = Claim { by: bob, from, labels: WorkerLabels::default(), at_most: 1, now: jobs::NOW };
        let taken = restored.claim(claim.clone()).await.expect("bob is alive");
        assert_eq!(taken, [], "ann may not have heard of it");
        let paused = restored.instance().await.expect("it is there");
        assert_eq!(restored.settle(paused).await, Ok(true));
        let taken = restored.claim(claim).await.expect("bob is alive");
        assert_eq!(taken.first().map(|claimed| claimed.job), Some(job.id));
        assert_eq!(feed(&restored, None, 3).await.0.len(), 3, "what was stored before is still told");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c43_a_schema_this_build_does_not_know_is_an_error_that_says_so() {
    for (sql, says) in [
        ("insert into migrations select max(step) + 1, now() from migrations", "upgrade"),
        ("delete from migrations; insert into migrations values (7, now())", "backup"),
        ("delete from meta", "backup"),
        ("drop table migrations", "another database"),
    ] {
        let Stage { url, .. } = &stage().await;
        aside(url).await.batch_execute(sql).await.expect("it runs");
        match open(url).await {
            Err(error @ (Error::Corrupt(_) | Error::Newer { .. })) => {
                assert_eq!(matches!(error, Error::Newer { .. }), says == "upgrade", "{sql}: {error}");
                assert!(error.to_string().contains(says), "{sql}: {error}");
            }
            other => panic!("{sql}: {other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c43_what_does_not_read_is_an_error_and_not_nothing() {
    let Stage { url, journal, .. } = &stage().await;
    let job = submit(journal, 1).await;
    aside(url)
        .await
        .batch_execute("update events set body = '{'; update jobs set phase = 'asleep'")
        .await
        .expect("it runs");
    let corrupt = |told: &Error| matches!(told, Error::Corrupt(_));
    assert!(journal.load(job.id, lastword_core::Seq(0)).await.is_err_and(|error| corrupt(&error)));
    assert!(journal.row(job.id).await.is_err_and(|error| corrupt(&error)));
    assert!(journal.read(None, 1).await.is_err_and(|error| corrupt(&error)));
}

#[tokio::test(flavor = "multi_thread")]
async fn c44_an_empty_database_opened_by_many_becomes_one_journal() {
    let server = Shared::join().expect("PostgreSQL starts");
    let url = server.database().await;
    let openers: Vec<_> = (0..8)
        .map(|_| {
            tokio::spawn({
                let url = url.clone();
                async move { open(&url).await }
            })
        })
        .collect();
    for (n, opener) in openers.into_iter().enumerate() {
        let journal = opener.await.expect("it does not panic").expect("it opens");
        submit(&journal, n as u64).await;
    }
    let client = aside(&url).await;
    let row = client
        .query_one("select (select count(*) from meta), (select count(*) from jobs)", &[])
        .await
        .expect("it reads");
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (1, 8));
}

/// Jobs of a month that was prepared are in its partition; all others are kept in the common one.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_kept_in_the_month_of_its_id() {
    let Stage { url, journal, .. } = &stage().await;
    journal.prepare_months(jobs::NOW).await.expect("months are made");
    submit(journal, 1).await;
    let old = JobId::new(0, Timestamp(1_000), [7; 10]);
    let facts = vec![jobs::submitted(jobs::spec("q"))];
    let (append, _) =
        Append::new(&Job::unborn(old), None, jobs::append_id(), jobs::NOW, facts).expect("it opens a log");
    journal.append(append).await.expect("it is new");
    let client = aside(url).await;
    let rows = client
        .query("select tableoid::regclass::text, job from events order by job", &[])
        .await
        .expect("it reads");
    let found: Vec<(String, _)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let expected =
        [("events_other".to_owned(), old.as_uuid()), ("events_2026_11".to_owned(), jobs::id(1).as_uuid())];
    assert_eq!(found, expected);
}

/// In one batch, an append that is refused leaves its neighbours alone.
#[tokio::test(flavor = "multi_thread")]
async fn c03_a_refused_append_does_not_disturb_its_neighbours() {
    let Stage { journal, .. } = &stage().await;
    let mut calls = Vec::new();
    for n in 0..100 {
        let job = submit(journal, n).await;
        let (append, _) = jobs::append(&job, None, vec![jobs::limit_changed(n)]);
        let stale = n % 3 == 0;
        if stale {
            let (other, _) = jobs::append(&job, None, vec![jobs::limit_changed(1_000)]);
            journal.append(other).await.expect("it is the first");
        }
        calls.push((stale, append));
    }
    let calls: Vec<_> = calls
        .into_iter()
        .map(|(stale, append)| {
            (
                stale,
                tokio::spawn({
                    let journal = journal.clone();
                    async move { journal.append(append).await }
                }),
            )
        })
        .collect();
    for (stale, call) in calls {
        let told = call.await.expect("it does not panic");
        assert_eq!(told.is_err(), stale, "{told:?}");
    }
}

/// A commit of one process wakes another.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_wakes_another_process() {
    let Stage { url, journal, .. } = &stage().await;
    let other = open(url).await.expect("it opens");
    let mut hints = other.hints();
    let woken = tokio::spawn(async move { hints.next().await });
    // The listener may still be connecting and miss a commit. A real waiter polls as well; this test keeps writing.
    let mut n = 0;
    while !woken.is_finished() {
        n += 1;
        submit(journal, n).await;
        tokio::task::yield_now().await;
        assert!(n < 10_000, "nobody was woken");
    }
    assert!(woken.await.expect("it does not panic").is_some());
}

/// What waits for the job in the process that stored its last word need not look at the feed first.
#[tokio::test(flavor = "multi_thread")]
async fn a_last_word_is_told_to_its_own_process_by_name() {
    let Stage { journal, .. } = &stage().await;
    let by = register(journal, "ann").await;
    submit(journal, 1).await;
    let claimed = take(journal, &by, 1).await.remove(0);
    let job = Job::fold(claimed.job, &claimed.events).expect("it is sound");
    let (append, job) = jobs::append(&job, Some(&claimed.fence), vec![jobs::launch_intended(&job)]);
    let mut hints = journal.hints();
    journal.append(append).await.expect("it holds the job");
    assert_eq!(hints.next().await, Some(Hint::Commit));
    let (append, job) = jobs::append(&job, Some(&claimed.fence), jobs::completed(&job));
    journal.append(append).await.expect("it holds the job");
    assert_eq!(hints.next().await, Some(Hint::News(job.id)));
}

/// A server that is not there is named as such, after a bounded time.
#[tokio::test(flavor = "multi_thread")]
async fn c41_a_server_that_is_away_is_unavailable_and_never_empty() {
    let options = Options { patience: Duration::from_millis(300), ..pg::options() };
    let opened = Postgres::open("host=/nonexistent user=nobody dbname=none", options);
    let told = tokio::time::timeout(Duration::from_secs(30), opened).await;
    assert!(matches!(told, Ok(Err(Error::Unavailable(_)))), "{told:?}");
}

/// A role or a database may say that commits are acknowledged before they are durable, or durable here and on no standby. The journal's own
/// sessions never do.
#[tokio::test(flavor = "multi_thread")]
async fn c3_a_commit_is_durable_on_standbys_whatever_the_default_is() {
    for (default, used) in [
        ("off", "on"),
        ("local", "on"),
        ("remote_write", "on"),
        ("on", "on"),
        ("remote_apply", "remote_apply"),
    ] {
        let Stage { _server, url, .. } = &stage().await;
        let client = aside(url).await;
        // The database writes down what a session that stores a job uses.
        let watch = format!(
            "create table seen (setting text);
            create function note() returns trigger language plpgsql as $$ begin
                insert into seen values (current_setting('synchronous_commit'));
                return new;
            end $$;
            create trigger note after insert or update on jobs for each row execute function note();
            do $$ begin
                execute format('alter database %I set synchronous_commit = {default}', current_database());
            end $$"
        );
        client.batch_execute(&watch).await.expect("it runs");
        let journal = open(url).await.expect("it opens");
        submit(&journal, 1).await;
        assert_eq!(take(&journal, &register(&journal, "ann").await, 1).await.len(), 1);
        let seen = client.query("select distinct setting from seen", &[]).await.expect("it reads");
        let seen: Vec<String> = seen.iter().map(|row| row.get(0)).collect();
        assert_eq!(seen, [used], "by default {default}");
    }
}

/// A missing database, a missing table: named with their code, at once, and never called damage.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_damage_is_not_called_damage() {
    let Stage { _server, url, journal } = &stage().await;
    let unavailable = |told: Error, code: &str| match told {
        Error::Unavailable(text) => assert!(text.contains(code), "{text}"),
        other => panic!("{code}: {other:?}"),
    };
    let begin = std::time::Instant::now();
    let elsewhere = format!("{url}_not_there");
    unavailable(open(&elsewhere).await.expect_err("there is no such database"), "3D000");
    let client = aside(url).await;
    submit(journal, 1).await;
    client.batch_execute("alter table keys rename to kept_keys").await.expect("it runs");
    let key = Key { key: "k".to_owned(), fingerprint: 1, job: jobs::id(1), now: jobs::NOW };
    unavailable(journal.key(key.clone()).await.expect_err("there is no such table"), "42P01");
    client.batch_execute("alter table kept_keys rename to keys").await.expect("it runs");
    assert!(journal.key(key).await.is_ok(), "nothing is lost by it");
    assert!(begin.elapsed() < Duration::from_secs(10), "no patience is spent on what does not pass");
}

/// A job whose log does not read stays where it is, and keeps no other from being claimed.
#[tokio::test(flavor = "multi_thread")]
async fn c43_a_damaged_job_is_not_taken_and_keeps_no_other_from_being() {
    let Stage { url, journal, .. } = &stage().await;
    let by = register(journal, "ann").await;
    for n in 1..=3 {
        submit(journal, n).await;
    }
    let client = aside(url).await;
    let damage = "update events set body = '{' where job = $1";
    client.execute(damage, &[&jobs::id(1).as_uuid()]).await.expect("it runs");
    let taken = take(journal, &by, 9).await;
    assert_eq!(taken.iter().map(|claimed| claimed.job).collect::<Vec<_>>(), [jobs::id(2), jobs::id(3)]);
    let from = Source::Ready { group: "q".to_owned(), slots: None };
    let alone =
        Claim { by, from, labels: WorkerLabels::default(), at_most: 9, now: jobs::NOW.plus_ms(1 << 30) };
    assert!(matches!(journal.claim(alone).await, Err(Error::Corrupt(_))), "it is told when it is alone");
}

/// Citus refuses a renewal and a claim. A trigger stands in for it, with the code that such a server answers with.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_refuses_a_statement_is_named_and_nothing_is_called_damaged() {
    let Stage { url, journal, .. } = &stage().await;
    let refuse = "
        create function refuse() returns trigger language plpgsql as $$ begin
            raise exception 'functions must be immutable here' using errcode = '0A000';
        end $$;
        create trigger refuse before insert on lives for each row execute function refuse()";
    aside(url).await.batch_execute(refuse).await.expect("it runs");
    let owner = OwnerId("ann".into());
    let renew = Renew { owner, place: Place::new("here", "boot"), incarnation: None, lease_ms: LEASE_MS };
    let begin = std::time::Instant::now();
    match journal.renew(renew).await {
        Err(Error::Unavailable(text)) => assert!(text.contains("needs PostgreSQL itself"), "{text}"),
        other => panic!("{other:?}"),
    }
    assert!(begin.elapsed() < Duration::from_secs(10), "no patience is spent on what does not pass");
}

/// A claim that waited for its turn takes what the group allows when its turn comes, not when it began to wait.
#[tokio::test(flavor = "multi_thread")]
async fn slots_changed_while_a_claim_waits_bind_that_claim() {
    let Stage { url, journal, .. } = &stage().await;
    let by = register(journal, "ann").await;
    for n in 1..=9 {
        submit(journal, n).await;
    }
    let group = |slots, paused| Group { paused, ..Group::new("q", Some(slots)) };
    journal.set_group(group(2, false)).await.expect("it is set");
    assert_eq!(take(journal, &by, 9).await.len(), 2, "and the group has its row to lock");
    let mut holder = aside(url).await;
    let client = aside(url).await;
    // Fewer slots, more, a pause, and no pause any more: (what the claim begins with, what is set, what it takes).
    for (before, after, taken) in [
        (group(5, false), group(3, false), 1),
        (group(4, false), group(6, false), 3),
        (group(9, false), group(9, true), 0),
        (group(7, false), group(8, false), 2),
    ] {
        journal.set_group(before).await.expect("it is set");
        let turn = holder.transaction().await.expect("it begins");
        turn.execute("select 1 from queues where queue = 'q' for update", &[]).await.expect("it is there");
        let claim = tokio::spawn({
            let (journal, by) = (journal.clone(), by.clone());
            async move { take(&journal, &by, 9).await.len() }
        });
        let waits =
            "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
        while client.query(waits, &[]).await.expect("it reads").is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        journal.set_group(after.clone()).await.expect("it is set");
        turn.commit().await.expect("it ends");
        assert_eq!(claim.await.expect("it returns"), taken, "{after:?}");
    }
}
