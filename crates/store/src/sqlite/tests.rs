//! What only the SQLite journal promises: its file, its copies, its batches. What every journal promises is in the
//! conformance suite.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use crate::hints::Hint;
use lastword_core::decide::claim::Claimant;
use lastword_core::decide::submit;
use lastword_core::event::{DependencySettled, LaunchIntended, LimitChanged, Stored};
use lastword_core::life::Place;
use lastword_core::limits::{Limit, Limits};
use lastword_core::outcome::Outcome;
use lastword_core::spec::{Dependency, Needs, Spec};
use lastword_core::view::row::Section;
use lastword_core::worker_labels::WorkerLabels;
use lastword_core::{
    Append, AppendId, AttemptNo, Fact, Fence, HostId, Incarnation, Job, JobId, OwnerId, Seq, Timestamp,
};
use rusqlite::Connection;
use tempfile::TempDir;
use tokio::sync::oneshot;

use super::append::Prepared;
use super::witness::Void;
use super::writer::{Request, Writer};
use super::{Sqlite, catalog, list, open as opening};
use crate::hints::Bell;
use crate::{
    Catalog as _, Claim, Claimed, Cursor, Error, Feed, Filter, Groups as _, Journal, List, Renew, Source,
};

const NOW: Timestamp = Timestamp(1_794_700_800_000);

fn folder() -> TempDir {
    let private = Permissions::from_mode(0o700);
    tempfile::Builder::new().permissions(private).tempdir().expect("a temporary folder")
}

fn open(folder: &TempDir) -> Sqlite {
    Sqlite::open(folder.path()).expect("it opens")
}

/// A connection past the journal, for damage and for looking.
fn behind(folder: &TempDir) -> Connection {
    Connection::open(folder.path().join("journal.db")).expect("the file is there")
}

fn id(n: u8) -> JobId {
    JobId::new(0, NOW, [n; 10])
}

fn submission(job: JobId) -> (Append, Job) {
    submission_after(job, &[])
}

fn submission_after(job: JobId, others: &[u8]) -> (Append, Job) {
    let after = others.iter().map(|n| Dependency { job: id(*n), on: Needs::AnyEnd }).collect();
    let spec = Spec { group: "q".to_owned(), after, ..Spec::command(["true"], "/") };
    let job = Job::unborn(job);
    let facts = submit::decide(&job, &Arc::new(spec), "tester", Limits::default()).expect("it is valid");
    Append::new(&job, None, AppendId(1), NOW, facts).expect("it is the first")
}

fn limit_changed(job: &Job, append: u128) -> Append {
    let fact = LimitChanged { by: "tester".to_owned(), limit: Limit::Wall, value: 7 };
    Append::new(job, None, AppendId(append), NOW, vec![fact.into()]).expect("it fits a live job").0
}

fn launch(job: &Job, fence: &Fence) -> Append {
    let (epoch, limits) = (fence.epoch, Limits::default());
    let fact = LaunchIntended { attempt: AttemptNo(1), epoch, limits, boot: None };
    let id = AppendId::of_owner(fence, 1);
    Append::new(job, Some(fence), id, NOW, vec![fact.into()]).expect("it was claimed").0
}

async fn register(journal: &Sqlite) -> Incarnation {
    let renew = Renew {
        owner: OwnerId("ann".into()),
        place: Place::new("here", "boot"),
        incarnation: None,
        lease_ms: 5_000,
    };
    journal.renew(renew).await.expect("anyone may register").incarnation
}

async fn claim(journal: &Sqlite, incarnation: Incarnation, from: Source) -> Result<Vec<Claimed>, Error> {
    let by = Claimant { owner: OwnerId("ann".into()), incarnation, host: HostId("here".into()), boot: None };
    journal.claim(Claim { by, from, labels: WorkerLabels::default(), at_most: 10, now: NOW }).await
}

fn ready() -> Source {
    Source::Ready { group: "q".to_owned(), slots: None }
}

fn corrupt(folder: &Path) -> String {
    match Sqlite::open(folder) {
        Err(Error::Corrupt(message)) => message,
        other => panic!("expected damage, got {other:?}"),
    }
}

#[tokio::test]
async fn what_was_written_is_there_after_closing() {
    let folder = folder();
    let (append, job) = submission(id(1));
    let row = append.row.clone();
    let events = append.events.clone();
    let journal = open(&folder);
    assert_eq!(journal.append(append).await, Ok(Seq(1)));
    drop(journal);
    let journal = open(&folder);
    assert_eq!(journal.load(job.id, Seq(0)).await, Ok(events));
    assert_eq!(journal.row(job.id).await, Ok(Some(row)));
    assert_eq!(journal.check().await, Ok(()));
}

#[tokio::test]
async fn c43_an_unreadable_file_is_an_error_and_never_an_empty_store() {
    let whole = folder();
    open(&whole).append(submission(id(1)).0).await.expect("it goes in");
    let bytes = fs::read(whole.path().join("journal.db")).expect("it is closed");
    let mut scratched = bytes.clone();
    scratched[..16].fill(b'x');
    let cases: [(&str, &[u8]); 4] = [
        ("empty", &[]),
        (
            "not a database",
            b"once upon a time, long before there were databases, and in a land without any of them",
        ),
        ("truncated", &bytes[..bytes.len() / 2]),
        ("with a broken header", &scratched),
    ];
    for (what, content) in cases {
        let damaged = folder();
        let file = damaged.path().join("journal.db");
        fs::write(&file, content).expect("it is ours");
        let message = corrupt(damaged.path());
        assert!(message.contains("restore it from a backup"), "{what}: {message}");
        assert_eq!(fs::read(&file).expect("it is still there"), content, "{what}: left as it was found");
    }
}

#[tokio::test]
async fn c43_a_file_that_is_gone_while_its_log_is_there_is_an_error() {
    let folder = folder();
    fs::write(folder.path().join("journal.db-wal"), b"what was written last").expect("it is ours");
    assert!(corrupt(folder.path()).contains("write-ahead log"));
}

#[tokio::test]
async fn c43_a_newer_schema_and_a_foreign_database_are_errors() {
    let newer = folder();
    drop(open(&newer));
    behind(&newer).execute("insert into migrations (version) values (99)", []).expect("it is ours");
    let error = Sqlite::open(newer.path()).expect_err("it cannot be read");
    assert_eq!(error, Error::Newer { found: 99, known: 10 });

    let foreign = folder();
    behind(&foreign).execute("create table recipes (name text)", []).expect("a database of another program");
    assert!(corrupt(foreign.path()).contains("another program"));
}

#[tokio::test]
async fn c43_a_missing_event_is_damage() {
    let folder = folder();
    let journal = open(&folder);
    let (append, job) = submission(id(1));
    journal.append(append).await.expect("it goes in");
    journal.append(limit_changed(&job, 2)).await.expect("it goes in");
    behind(&folder).execute("delete from events where seq = 1", []).expect("it is ours");
    assert!(matches!(journal.load(job.id, Seq(0)).await, Err(Error::Corrupt(_))));
}

#[tokio::test]
async fn c43_a_damaged_job_is_not_taken_and_keeps_no_other_from_being() {
    let folder = folder();
    let journal = open(&folder);
    for n in 1..=3 {
        journal.append(submission(id(n)).0).await.expect("it goes in");
    }
    let damaged = id(2).as_uuid().into_bytes();
    behind(&folder).execute("delete from events where job = ?1", [damaged]).expect("it is ours");
    let incarnation = register(&journal).await;
    let taken = claim(&journal, incarnation, ready()).await.expect("two can be read");
    assert_eq!(taken.iter().map(|claimed| claimed.job).collect::<Vec<_>>(), [id(1), id(3)]);
    let alone = claim(&journal, incarnation, ready()).await;
    assert!(matches!(alone, Err(Error::Corrupt(_))), "told when there is nothing else to tell: {alone:?}");
}

#[tokio::test]
async fn what_is_appended_is_taken_by_the_claim_that_comes_with_it() {
    let folder = folder();
    let journal = open(&folder);
    let mut hints = journal.hints();
    let incarnation = register(&journal).await;
    assert!(hints.next().await.is_some());
    let by = Claimant { owner: OwnerId("ann".into()), incarnation, host: HostId("here".into()), boot: None };
    let both = |n, append: Append| {
        let claim =
            Claim { by: by.clone(), from: ready(), labels: WorkerLabels::default(), at_most: n, now: NOW };
        journal.append_and_claim(append, claim)
    };
    let (stored, taken) = both(1, submission(id(1)).0).await;
    assert_eq!((stored, taken.expect("it is taken")[0].job), (Ok(Seq(1)), id(1)));
    assert!(hints.next().await.is_some());
    let again = tokio::time::timeout(std::time::Duration::ZERO, hints.next()).await;
    assert!(again.is_err(), "one commit for both");
    // Each is answered by itself.
    let (taken_before, nothing) = both(1, submission(id(1)).0).await;
    assert_eq!((taken_before, nothing), (Ok(Seq(1)), Ok(Vec::new())), "a repeat, and nothing to take");
}

#[tokio::test]
async fn a_journal_is_for_its_user_alone() {
    let parent = folder();
    let made = parent.path().join("a/b");
    drop(Sqlite::open(&made).expect("it is made"));
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!((mode(&made), mode(&made.join("journal.db"))), (0o700, 0o600));

    fs::set_permissions(&made, Permissions::from_mode(0o750)).expect("it is ours");
    match Sqlite::open(&made) {
        Err(Error::Unavailable(message)) => assert!(message.contains("chmod 700"), "{message}"),
        other => panic!("others may look in: {other:?}"),
    }
}

#[tokio::test]
async fn c35_a_copied_file_is_another_instance_and_refuses_what_was_given_before() {
    let (first, second) = (folder(), folder());
    let journal = open(&first);
    let (append, _) = submission(id(1));
    journal.append(append).await.expect("it goes in");
    let incarnation = register(&journal).await;
    let taken = claim(&journal, incarnation, ready()).await.expect("the lease runs").remove(0);
    let job = Job::fold(taken.job, &taken.events).expect("it was written");
    drop(journal);
    fs::copy(first.path().join("journal.db"), second.path().join("journal.db")).expect("both are ours");

    let copy = open(&second);
    let write = copy.append(launch(&job, &taken.fence)).await;
    assert_eq!(write, Err(Error::Fenced { job: job.id }));
    assert!(matches!(claim(&copy, incarnation, ready()).await, Err(Error::Lapsed { .. })));
    let renew = Renew {
        owner: OwnerId("ann".into()),
        place: Place::new("here", "boot"),
        incarnation: Some(incarnation),
        lease_ms: 1,
    };
    assert!(matches!(copy.renew(renew).await, Err(Error::Lapsed { .. })));
    // A new incarnation gets the job although the old lease has not run out: it was not given by this database.
    let again = register(&copy).await;
    assert_ne!(again.instance, incarnation.instance);
    let taken = claim(&copy, again, Source::Expired).await.expect("the lease runs");
    assert_eq!(taken.len(), 1);

    let original = open(&first);
    assert_eq!(original.append(launch(&job, &taken_fence(&job))).await, Ok(Seq(3)), "the first one goes on");
}

fn taken_fence(job: &Job) -> Fence {
    job.holder.clone().expect("it was claimed").fence
}

#[tokio::test]
async fn a_fact_of_a_newer_build_is_kept_as_it_came() {
    let folder = folder();
    let journal = open(&folder);
    let (append, job) = submission(id(1));
    journal.append(append).await.expect("it goes in");
    let newer = "insert into events (job, seq, at, append, kind, version, body) \
        values (?1, 2, 5, ?1, 'teleported', 3, '{ \"b\": 1,  \"a\": 2 }')";
    behind(&folder).execute(newer, [job.id.as_uuid().into_bytes()]).expect("it is ours");
    let kept =
        Stored { kind: "teleported".to_owned(), version: 3, body: r#"{ "b": 1,  "a": 2 }"#.to_owned() };
    let events = journal.load(job.id, Seq(1)).await.expect("it is readable");
    assert_eq!(events[0].fact, Fact::Unknown(kept));
}

#[tokio::test]
async fn a_job_that_needs_a_newer_reader_is_not_claimed_and_keeps_needing_it() {
    let folder = folder();
    let journal = open(&folder);
    let (append, job) = submission(id(1));
    journal.append(append).await.expect("it goes in");
    behind(&folder).execute("update jobs set least_reader = 9", []).expect("it is ours");
    let incarnation = register(&journal).await;
    assert_eq!(claim(&journal, incarnation, ready()).await, Ok(Vec::new()));
    // Anyone may still ask something of it; that does not make it readable.
    journal.append(limit_changed(&job, 2)).await.expect("a request goes in");
    assert_eq!(journal.row(job.id).await.map(|row| row.expect("it is there").least_reader), Ok(9));
    assert_eq!(claim(&journal, incarnation, ready()).await, Ok(Vec::new()));
}

/// Writes appends as one batch.
fn in_one_batch(folder: &TempDir, appends: Vec<Append>) -> Vec<Result<Seq, Error>> {
    let opened = opening::open(folder.path()).expect("it opens");
    let mut writer = Writer::new(opened, Void::default(), 100, Arc::new(Bell::default()));
    let (batch, answers): (Vec<_>, Vec<_>) = appends
        .into_iter()
        .map(|append| {
            let (reply, answer) = oneshot::channel();
            (Request::Append(Box::new(Prepared::new(append)), reply), answer)
        })
        .unzip();
    writer.write(batch);
    answers
        .into_iter()
        .map(|mut answer| answer.try_recv().expect("it was answered").map(|(seq, _)| seq))
        .collect()
}

#[tokio::test]
async fn c33_a_refused_append_does_not_disturb_the_others_of_its_batch() {
    let folder = folder();
    let journal = open(&folder);
    let (append, job) = submission(id(1));
    journal.append(append).await.expect("it goes in");
    let batch = vec![limit_changed(&job, 2), limit_changed(&job, 3), submission(id(2)).0];
    let answers = in_one_batch(&folder, batch);
    assert_eq!(answers[2], Ok(Seq(1)));
    let won = answers[..2].iter().filter(|answer| **answer == Ok(Seq(2))).count();
    let lost = answers[..2].iter().filter(|a| **a == Err(Error::Conflict { job: job.id, actual: Seq(2) }));
    assert_eq!((won, lost.count()), (1, 1), "{answers:?}");
    assert_eq!(journal.load(job.id, Seq(0)).await.expect("it is readable").len(), 2);
}

#[tokio::test]
async fn c42_an_append_that_breaks_in_the_middle_leaves_nothing_and_only_it_fails() {
    let folder = folder();
    drop(open(&folder));
    // A stray event stands where the second of this append would go.
    let (first, job) = submission(id(1));
    let change = limit_changed(&job, 1);
    let row = change.row.clone();
    let broken = Append { events: [first.events.clone(), change.events].concat(), row, ..first };
    let stray = "insert into events (job, seq, at, append, kind, version, body) \
        values (?1, 2, 5, ?1, 'teleported', 3, '{}')";
    behind(&folder).execute(stray, [job.id.as_uuid().into_bytes()]).expect("it is ours");
    let batch = vec![submission(id(2)).0, broken, submission(id(3)).0];
    let answers = in_one_batch(&folder, batch);
    assert!(matches!(answers[1], Err(Error::Corrupt(_))), "{answers:?}");
    assert_eq!((&answers[0], &answers[2]), (&Ok(Seq(1)), &Ok(Seq(1))));
    let left: u32 = behind(&folder)
        .query_row("select count(*) from events where job = ?1", [job.id.as_uuid().into_bytes()], |row| {
            row.get(0)
        })
        .expect("it is ours");
    assert_eq!(left, 1, "only the stray one");
}

#[tokio::test(flavor = "multi_thread")]
async fn c44_two_that_opened_the_same_file_lose_no_job() {
    let folder = folder();
    let (one, two) = (open(&folder), open(&folder));
    let mut tasks = Vec::new();
    for n in 0..200 {
        let journal = if n % 2 == 0 { one.clone() } else { two.clone() };
        tasks.push(tokio::spawn(async move { journal.append(submission(id(n)).0).await }));
    }
    for task in tasks {
        assert_eq!(task.await.expect("no panic"), Ok(Seq(1)));
    }
    let all = one.rows(Filter::default(), None, 1_000).await;
    assert_eq!(all.as_ref().map(Vec::len), Ok(200));
    assert_eq!(all, two.rows(Filter::default(), None, 1_000).await);
}

#[tokio::test]
async fn a_feed_cursor_from_beyond_the_end_is_refused() {
    let folder = folder();
    let journal = open(&folder);
    journal.append(submission(id(1)).0).await.expect("it goes in");
    let feed = journal.read(None, 10).await.expect("the feed can be read");
    assert_eq!(feed.events.len(), 1);
    let empty = journal.read(feed.next.clone(), 10).await;
    assert_eq!(empty, Ok(Feed { events: Vec::new(), next: feed.next }));
    for wrong in ["2", "one", ""] {
        let read = journal.read(Some(Cursor(wrong.to_owned())), 10).await;
        assert!(matches!(read, Err(Error::Corrupt(_))), "{wrong}");
    }
}

#[tokio::test]
async fn a_commit_wakes_whoever_waits_for_a_hint() {
    let folder = folder();
    let journal = open(&folder);
    let mut hints = journal.hints();
    let waiting = tokio::spawn(async move { (hints.next().await, hints.next().await) });
    journal.append(submission(id(1)).0).await.expect("it goes in");
    drop(journal);
    assert_eq!(
        waiting.await.expect("no panic"),
        (Some(Hint::Commit), None),
        "one hint, then the journal is closed"
    );
}

/// Returns how SQLite would go about a statement.
fn plan(connection: &Connection, sql: &str) -> String {
    let mut explain = connection.prepare(&["explain query plan ", sql].concat()).expect("it is a statement");
    let steps = explain.raw_query().mapped(|row| row.get::<_, String>(3));
    steps.collect::<Result<Vec<_>, _>>().expect("it is explained").join("; ")
}

/// However many jobs are over: what is asked often goes through an index, and is in its order.
#[tokio::test]
async fn what_is_asked_often_is_answered_from_an_index() {
    let folder = folder();
    let _journal = open(&folder);
    let connection = behind(&folder);
    let check = |sql: &str, expected: &str| assert_eq!(plan(&connection, sql), expected, "{sql}");
    check(catalog::ALL, "SEARCH jobs USING PRIMARY KEY (job<?)");
    check(catalog::LIVE, "SEARCH jobs USING INDEX jobs_live (job<?)");
    check(catalog::NAMED, "SEARCH jobs USING INDEX jobs_named (name=? AND job<?)");
    check(list::SECTION, "SEARCH jobs USING INDEX jobs_listed (section=? AND (changed_at,job)<(?,?))");
    check(catalog::LAST, "SCAN jobs");
    check(catalog::BEGUN, "SEARCH jobs USING PRIMARY KEY (job>? AND job<?)");
    check(catalog::NAMED_ANY, "SEARCH jobs USING INDEX jobs_named (name=?)");
    check(catalog::NAMED_LIVE, "SEARCH jobs USING INDEX jobs_named_live (name=?)");
    // A beginning of a short form means few: those are put in order.
    let short = "SEARCH jobs USING INDEX jobs_short (<expr>>? AND <expr><?); USE TEMP B-TREE FOR ORDER BY";
    check(catalog::SHORT, short);
    check(catalog::PRUNABLE, "SEARCH jobs USING COVERING INDEX jobs_ended (updated_at<?)");
    check(catalog::UNREAD, "SEARCH jobs USING COVERING INDEX jobs_ended (updated_at<?)");
    check(catalog::COUNT, "SCAN jobs USING COVERING INDEX jobs_short");
}

/// A file that an older build has written is brought up to date, with everything that is in it.
#[tokio::test]
async fn a_journal_of_an_older_build_goes_on() {
    let folder = folder();
    let journal = open(&folder);
    let (append, job) = submission(id(1));
    journal.append(append).await.expect("it is new");
    // Each of them is told of one of the two, and still waits for the other.
    for (n, told) in [(2, 3), (4, 1)] {
        let (append, job) = submission_after(id(n), &[1, 3]);
        journal.append(append).await.expect("it is new");
        let settled = DependencySettled { job: id(told), outcome: Outcome::Completed };
        let append = Append::new(&job, None, AppendId(2), NOW, vec![settled.into()]).expect("it fits").0;
        journal.append(append).await.expect("it goes in");
    }
    drop(journal);
    let before = "drop index jobs_named; drop index jobs_named_live; drop index jobs_short; drop index jobs_ended; \
        drop index jobs_listed; drop index jobs_conversation; drop index jobs_conversations; drop index jobs_idle; \
        alter table jobs drop column conversation; alter table jobs drop column name; alter table jobs drop column seen_at; \
        alter table jobs drop column section; alter table jobs drop column changed_at; \
        update jobs set summary = json_remove(summary, '$.cwd', '$.parent'); \
        drop table keys; drop table groups; drop table spent; drop table dependencies; drop table lives; \
        create table owners (owner text not null primary key, incarnation blob not null, until integer not null) strict; \
        alter table ready rename to later; \
        create table ready (queue text not null, rank integer not null, due integer not null, job blob not null, \
            primary key (queue, rank, due, job)) strict, without rowid; \
        insert into ready select queue, rank, due, job from later; drop table later; \
        delete from migrations where version > 1";
    behind(&folder).execute_batch(before).expect("it is as it was");
    let journal = open(&folder);
    let found = journal.find(job.id.short().parse().expect("it is a reference")).await.expect("it is found");
    assert_eq!(found, [lastword_core::view::row::Row::of(&job)]);
    journal.append(limit_changed(&job, 2)).await.expect("it goes on");
    let listed = journal.list(List { limit: 9, ..List::default() }).await.expect("it is listed");
    assert_eq!(listed.len(), 3);
    assert!(listed.iter().all(|listed| listed.section == Section::Live && listed.row.summary.cwd == "/"));
    assert_eq!(journal.groups().await, Ok(Vec::new()));
    assert_eq!(journal.dependents(id(1)).await, Ok(vec![id(2)]));
    assert_eq!(journal.dependents(id(3)).await, Ok(vec![id(4)]));
    let taken = claim(&journal, register(&journal).await, ready()).await.expect("the owner is alive");
    assert_eq!(taken.iter().map(|claimed| claimed.job).collect::<Vec<_>>(), [job.id]);
}

#[tokio::test]
async fn c3_a_journal_that_is_deleted_or_replaced_while_open_acknowledges_nothing() {
    let folder = folder();
    let journal = open(&folder);
    let (append, _) = submission(id(1));
    journal.append(append).await.expect("it is stored");
    let place = |name: &str| folder.path().join(name);
    for (n, name) in [(3, "journal.db"), (4, "journal.db-wal")] {
        fs::rename(place(name), place("away")).expect("it is there");
        for is_replaced in [false, true] {
            if is_replaced {
                fs::copy(place("away"), place(name)).expect("it is copied");
            }
            let (append, _) = submission(id(2));
            let error = journal.append(append).await.expect_err("nothing may be acknowledged");
            assert!(
                matches!(&error, Error::Unavailable(why) if why.contains("was deleted or replaced")),
                "{error}"
            );
        }
        fs::rename(place("away"), place(name)).expect("it is put back");
        journal.append(submission(id(n)).0).await.expect("it is the same file again");
    }
}

#[tokio::test]
async fn c3_an_older_journal_in_the_place_of_a_newer_one_is_noticed() {
    let folder = folder();
    let journal = open(&folder);
    journal.append(submission(id(1)).0).await.expect("it is stored");
    drop(journal);
    let (file, backup) = (folder.path().join("journal.db"), folder.path().join("backup"));
    fs::copy(&file, &backup).expect("a backup");
    let journal = open(&folder);
    assert_eq!(journal.behind(), None);
    journal.append(submission(id(2)).0).await.expect("it is stored");
    drop(journal);
    fs::copy(&backup, &file).expect("it is restored");
    let journal = open(&folder);
    let behind = journal.behind().expect("it had been further");
    assert!(behind.has < behind.had, "{behind:?}");
    // From here on it counts as it is.
    journal.append(submission(id(3)).0).await.expect("it is stored");
    drop(journal);
    assert_eq!(open(&folder).behind(), None);
    fs::remove_file(&file).expect("it is deleted");
    assert_eq!(open(&folder).behind().map(|behind| behind.has), Some(0));
}

#[tokio::test]
async fn c3_a_connection_that_cannot_write_is_replaced() {
    let folder = folder();
    let journal = open(&folder);
    let mut opened = opening::open(folder.path()).expect("it opens");
    opened.connection =
        opening::connect(&opened.file, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY).expect("it opens");
    let mut writer = Writer::new(opened, Void::default(), 100, Arc::new(Bell::default()));
    let mut write = |n: u8| {
        let (reply, mut answer) = oneshot::channel();
        writer.write(vec![Request::Append(Box::new(Prepared::new(submission(id(n)).0)), reply)]);
        answer.try_recv().expect("it was answered").map(|(seq, _)| seq)
    };
    assert!(matches!(write(1), Err(Error::Unavailable(_))));
    write(1).expect("the next write gets a connection that can");
    assert_eq!(journal.load(id(1), Seq(0)).await.map(|events| events.len()), Ok(1));
}
