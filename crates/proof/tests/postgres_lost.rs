//! A journal in PostgreSQL that is created again, emptied, restored, rolled back or made read-only under a process that has it open. In the
//! first two cases nothing more is acknowledged; a journal that has lost something goes on as another instance.

use std::fs;
use std::path::Path;
use std::time::Duration;

use lastword_core::decide::claim::Claimant;
use lastword_core::life::Place;
use lastword_core::worker_labels::WorkerLabels;
use lastword_core::{Append, Fence, Job, OwnerId};
use lastword_proof::crash::proxy::Proxy;
use lastword_proof::jobs;
use lastword_proof::pg::{self, Server, Settings, Shared};
use lastword_store::postgres::{Options, Postgres};
use lastword_store::{
    Behind, Catalog as _, Claim, Enrolling, Enrolments as _, Error, Group, Groups as _, Invitation,
    Journal as _, Key, Keys as _, Renew, Said, Source, TokenHash,
};
use tokio_postgres::{Client, NoTls};

const LEASE_MS: u64 = 1_000_000;

/// Every table that a dump restores.
const TABLES: &str = "meta, migrations, events, jobs, ready, queues, slot_changes, lives, conversations, keys, groups, dependencies, workers, invitations";

async fn open(url: &str) -> Postgres {
    let options = Options { patience: Duration::from_millis(300), ..pg::options() };
    Postgres::open(url, options).await.expect("it opens")
}

/// Connects past the journal.
async fn aside(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("the server is there");
    tokio::spawn(connection);
    client
}

async fn run(url: &str, sql: &str) {
    aside(url).await.batch_execute(sql).await.expect("it runs");
}

/// Creates a database of this name again, empty.
async fn create_again(url: &str) {
    let (server, name) = url.rsplit_once("dbname=").expect("an address names a database");
    let client = aside(&format!("{server}dbname=postgres")).await;
    for sql in [format!("drop database {name} with (force)"), format!("create database {name}")] {
        client.batch_execute(&sql).await.expect("it runs");
    }
}

async fn submit(journal: &Postgres, n: u64) -> lastword_store::Result<Job> {
    let (append, job) = jobs::submit(n, jobs::spec("q"), jobs::NOW.plus_ms(n));
    journal.append(append).await.map(|_| job)
}

async fn register(journal: &Postgres, owner: &str) -> lastword_store::Result<Claimant> {
    jobs::register(journal, owner, LEASE_MS).await
}

/// Ends the pause of a journal, if it pauses.
async fn settle(journal: &Postgres) {
    let instance = journal.instance().await.expect("it is there");
    journal.settle(instance).await.expect("it is there");
}

fn worker() -> OwnerId {
    OwnerId("worker".into())
}

/// Gives out a one-time token.
async fn invite(journal: &Postgres, token: &str) -> lastword_store::Result<()> {
    let (token, labels) = (TokenHash::of(token), WorkerLabels::default());
    journal.invite(Invitation { token, name: worker(), labels, now: jobs::NOW }).await
}

/// Uses it. That it is not known is an answer, too.
async fn enrol(journal: &Postgres, one_time: &str) -> lastword_store::Result<()> {
    let (one_time, token) = (TokenHash::of(one_time), TokenHash::of(&format!("{one_time}'s")));
    journal.enrol(Enrolling { one_time, token, now: jobs::NOW }).await.map(drop)
}

/// A journal in which every write has something to do.
struct Life {
    journal: Postgres,
    by: Claimant,
    /// A job that has ended.
    ended: Job,
    /// A job that is held, and one that is not.
    held: Job,
    free: Job,
    /// What submitted the job that is free.
    repeated: Append,
    fence: Fence,
}

impl Life {
    async fn begin(url: &str) -> Life {
        let journal = open(url).await;
        let by = register(&journal, "ann").await.expect("anyone may register");
        submit(&journal, 1).await.expect("it is new");
        let from = Source::Ready { group: "q".to_owned(), slots: None };
        let claim = Claim {
            by: by.clone(),
            from,
            labels: WorkerLabels::default(),
            at_most: 1,
            now: jobs::NOW.plus_ms(1 << 30),
        };
        let claimed = journal.claim(claim).await.expect("the owner is alive").remove(0);
        let held = Job::fold(claimed.job, &claimed.events).expect("its log folds");
        let ended = submit(&journal, 2).await.expect("it is new");
        let (append, ended) = jobs::append(&ended, None, vec![jobs::cancelled_before_start()]);
        journal.append(append).await.expect("it waits");
        let (repeated, free) = jobs::submit(3, jobs::spec("q"), jobs::NOW);
        journal.append(repeated.clone()).await.expect("it is new");
        let group = Group::new("g", Some(1));
        journal.set_group(group).await.expect("it is set");
        invite(&journal, "one").await.expect("it is invited");
        enrol(&journal, "one").await.expect("it is enrolled");
        Life { journal, by, ended, held, free, repeated, fence: claimed.fence }
    }

    /// Writes in every way there is, and returns what each call was told.
    async fn write(&self) -> Vec<(&'static str, lastword_store::Result<()>)> {
        let Life { journal, by, .. } = self;
        let renew = Renew {
            owner: by.owner.clone(),
            place: Place::new("here", "boot"),
            incarnation: Some(by.incarnation),
            lease_ms: LEASE_MS,
        };
        let claim = |from| Claim {
            by: by.clone(),
            from,
            labels: WorkerLabels::default(),
            at_most: 9,
            now: jobs::NOW.plus_ms(1 << 30),
        };
        let ready = claim(Source::Ready { group: "q".to_owned(), slots: None });
        let (fenced, _) =
            jobs::append(&self.held, Some(&self.fence), vec![jobs::launch_intended(&self.held)]);
        let (ask, free) = jobs::append(&self.free, None, vec![jobs::limit_changed(9)]);
        let (end, _) = jobs::append(&free, None, vec![jobs::cancelled_before_start()]);
        let group = |name: &str| Group { paused: true, ..Group::new(name, None) };
        let key = Key { key: "k".to_owned(), fingerprint: 1, job: jobs::id(90), now: jobs::NOW };
        vec![
            ("submit", submit(journal, 90).await.map(drop)),
            ("repeat a submission", journal.append(self.repeated.clone()).await.map(drop)),
            ("ask", journal.append(ask).await.map(drop)),
            ("end", journal.append(end).await.map(drop)),
            ("a fact of the holder", journal.append(fenced).await.map(drop)),
            ("claim", journal.claim(ready).await.map(drop)),
            ("take over", journal.claim(claim(Source::Expired)).await.map(drop)),
            ("renew", journal.renew(renew).await.map(drop)),
            ("register", register(journal, "bob").await.map(drop)),
            ("mark as seen", journal.mark_seen(self.ended.id, jobs::NOW).await),
            ("remove", journal.remove(self.ended.id, jobs::NOW).await.map(drop)),
            ("add a group", journal.add_group(group("new")).await.map(drop)),
            ("set a group", journal.set_group(group("g")).await),
            ("remove a group", journal.remove_group("g").await.map(drop)),
            ("keep a key", journal.key(key).await.map(drop)),
            ("invite a worker", invite(journal, "two").await),
            ("enrol a worker", enrol(journal, "two").await),
            (
                "describe a worker",
                journal.describe(worker(), Said { slots: Some(4), ..Said::default() }, None).await,
            ),
            ("revoke a worker", journal.revoke(worker(), jobs::NOW).await.map(drop)),
        ]
    }

    /// Writes, and is refused each time with these words; nothing is changed.
    async fn is_refused(&self, url: &str, what: &str, words: &str) {
        let before = content(url).await;
        for (call, told) in self.write().await {
            let right = matches!(&told, Err(Error::Unavailable(text)) if text.contains(words) && text.contains("restart"));
            assert!(right, "{what}: {call}: {told:?}");
        }
        assert_eq!(content(url).await, before, "{what}: nothing was written");
    }
}

impl Life {
    /// Goes on without being opened again: what it holds counts for nothing any more, and requests are stored, except for one that ends a job.
    async fn is_fenced(&self, what: &str) {
        for (call, told) in self.write().await {
            let right = match call {
                "a fact of the holder" => told == Err(Error::Fenced { job: self.held.id }),
                "claim" | "take over" | "renew" => {
                    told == Err(Error::Lapsed { owner: self.by.owner.clone() })
                }
                "end" => matches!(&told, Err(Error::Unavailable(text)) if text.contains("lease")),
                _ => told.is_ok(),
            };
            assert!(right, "{what}: {call}: {told:?}");
        }
    }
}

/// The network loses its way to connections that wait in the pool, without an error.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_does_not_answer_is_not_used_again() {
    let server = Server::start(Settings::default()).expect("PostgreSQL starts");
    let proxy = Proxy::start(server.host(), 0, 1).expect("it listens");
    let url = format!("host={} user=postgres dbname={}", proxy.host().display(), server.database().await);
    let journal = Postgres::open(&url, pg::options()).await.expect("it opens");
    let job = submit(&journal, 1).await.expect("it is new");
    register(&journal, "ann").await.expect("anyone may register");
    proxy.swallow();
    let (stored, row, by) = tokio::join!(submit(&journal, 2), journal.row(job.id), register(&journal, "bob"));
    assert!(stored.is_ok() && row.is_ok_and(|row| row.is_some()) && by.is_ok());
}

/// Returns every row of a journal; nothing if it has no tables.
async fn content(url: &str) -> Vec<String> {
    let client = aside(url).await;
    let mut found = Vec::new();
    for table in TABLES.split(", ") {
        let sql = format!("select '{table}' || t::text from {table} t order by 1");
        let rows = client.query(&sql, &[]).await.unwrap_or_default();
        found.extend(rows.iter().map(|row| row.get::<_, String>(0)));
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn c3_a_database_that_is_replaced_under_a_process_acknowledges_nothing_that_is_lost() {
    let server = Shared::join().expect("PostgreSQL starts");
    let emptied = format!("truncate {TABLES}");
    for (what, words) in [
        ("dropped", Some("is gone")),
        ("created again and opened by another process", Some("created again")),
        ("dropped and restored", None),
        ("restored over itself", None),
        ("emptied", Some("emptied")),
        ("emptied and filled from a dump", None),
    ] {
        let url = server.database().await;
        let life = Life::begin(&url).await;
        let whole = pg::dump(&url, &[]).expect("it is dumped");
        let rows = pg::dump(&url, &["--data-only"]).expect("it is dumped");
        submit(&life.journal, 4).await.expect("it is acknowledged, and lost");
        match what {
            "emptied" => run(&url, &emptied).await,
            "emptied and filled from a dump" => {
                run(&url, &emptied).await;
                run(&url, &rows).await;
            }
            "restored over itself" => run(&url, "drop schema public cascade; create schema public").await,
            _ => create_again(&url).await,
        }
        if ["dropped and restored", "restored over itself"].contains(&what) {
            run(&url, &whole).await;
        }
        if what == "created again and opened by another process" {
            submit(&open(&url).await, 5).await.expect("it is new there");
        }
        match words {
            Some(words) => life.is_refused(&url, what, words).await,
            None => life.is_fenced(what).await,
        }
        if what != "emptied" {
            submit(&open(&url).await, 6).await.expect("opened again, it counts as it is");
        }
    }
}

/// A database that was away for a while is the same one when it is back.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_put_back_is_written_again() {
    let server = Shared::join().expect("PostgreSQL starts");
    let url = server.database().await;
    let journal = open(&url).await;
    submit(&journal, 1).await.expect("it is new");
    let (elsewhere, name) = url.rsplit_once("dbname=").expect("an address names a database");
    let client = aside(&format!("{elsewhere}dbname=postgres")).await;
    let closed = format!("alter database {name} allow_connections false");
    client.batch_execute(&closed).await.expect("it runs");
    // One that was about to connect shows up later.
    let ended = "select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = $1";
    while client.query_one(ended, &[&name]).await.expect("it runs").get::<_, i64>(0) > 0 {}
    client.batch_execute(&format!("alter database {name} rename to {name}_away")).await.expect("it runs");
    assert!(matches!(submit(&journal, 2).await, Err(Error::Unavailable(_))));
    let back = format!("alter database {name}_away rename to {name}");
    client.batch_execute(&back).await.expect("it runs");
    let allowed = format!("alter database {name} allow_connections true");
    client.batch_execute(&allowed).await.expect("it runs");
    submit(&journal, 2).await.expect("it is the same database");
}

/// The files of the server are put back to an earlier state: all that is stored in it looks as it did.
#[tokio::test(flavor = "multi_thread")]
async fn c3_a_server_that_is_rolled_back_under_a_process_is_another_instance() {
    let mut server = Server::start(Settings::default()).expect("PostgreSQL starts");
    let url = server.url(&server.database().await);
    let folder = tempfile::tempdir().expect("a folder");
    let remember = || Options { remember: Some(folder.path().to_owned()), ..pg::options() };
    let life = Life::begin(&url).await;
    let other = Postgres::open(&url, remember()).await.expect("it opens");
    server.crash().expect("it is killed");
    let backup = server.data().with_file_name("backup");
    pg::copy(server.data(), &backup).expect("it is copied");
    server.restart().expect("it starts");
    for n in 10..60 {
        submit(&life.journal, n).await.expect("it is acknowledged, and lost");
    }
    submit(&other, 60).await.expect("it is acknowledged, and lost");
    server.crash().expect("it is killed");
    fs::remove_dir_all(server.data()).expect("it is there");
    fs::rename(&backup, server.data()).expect("it is restored");
    server.restart().expect("it starts");
    life.is_fenced("rolled back").await;
    drop(other);
    let again = Postgres::open(&url, remember()).await.expect("it opens");
    assert!(again.behind().is_some_and(|Behind { had, has }| had > has), "{:?}", again.behind());
    submit(&again, 100).await.expect("opened again, it counts as it is");
}

/// Transactions that wrote nothing are counted again after a crash. Nothing that was acknowledged is lost by that.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_crashed_is_not_taken_for_one_that_was_rolled_back() {
    let settings = Settings { set: vec!["wal_writer_delay=10s".to_owned()], ..Settings::default() };
    let mut server = Server::start(settings).expect("PostgreSQL starts");
    let url = server.url(&server.database().await);
    let first = Life::begin(&url).await;
    let client = aside(&url).await;
    for _ in 0..50 {
        let sql = "begin; select pg_current_xact_id(); rollback";
        client.batch_execute(sql).await.expect("it runs");
    }
    let second = open(&url).await;
    server.crash().expect("it is killed");
    server.restart().expect("it starts");
    submit(&second, 10).await.expect("it has lost nothing");
    settle(&second).await;
    for (call, told) in first.write().await {
        assert!(told.is_ok(), "{call}: {told:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c3_a_standby_that_takes_over_is_another_instance() {
    let mut server = Server::start(Settings::default()).expect("PostgreSQL starts");
    let url = server.url(&server.database().await);
    let life = Life::begin(&url).await;
    server.crash().expect("it is killed");
    let signal = server.data().join("standby.signal");
    fs::write(&signal, "").expect("it is written");
    pg::own(&signal).expect("it is given away");
    server.restart().expect("it starts");
    assert!(matches!(submit(&life.journal, 10).await, Err(Error::Unavailable(_))), "it can only be read");
    server.execute("postgres", "select pg_promote()").await;
    submit(&life.journal, 10).await.expect("it is stored in the new instance");
    life.is_fenced("promoted").await;
    submit(&open(&url).await, 11).await.expect("opened again, it counts as it is");
}

/// Sessions keep the defaults they began with, so a journal that waits for better times in the same session waits for ever.
#[tokio::test(flavor = "multi_thread")]
async fn c3_a_journal_that_was_read_only_for_a_while_recovers_by_itself() {
    let server = Shared::join().expect("PostgreSQL starts");
    let url = server.database().await;
    let life = Life::begin(&url).await;
    let set = "do $$ begin
            execute format('alter database %I set default_transaction_read_only = on', current_database());
        end $$;
        select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid()";
    run(&url, set).await;
    for (call, told) in life.write().await {
        let right = matches!(&told, Err(Error::Unavailable(text)) if text.contains("only allows reading"));
        // A claim that finds nothing to take writes nothing.
        assert!(right || (call == "take over" && told.is_ok()), "{call}: {told:?}");
    }
    assert!(life.journal.row(life.free.id).await.is_ok_and(|row| row.is_some()), "it can be read");
    let reset = "set transaction read write;
        do $$ begin
            execute format('alter database %I reset default_transaction_read_only', current_database());
        end $$";
    run(&url, reset).await;
    for (call, told) in life.write().await {
        assert!(told.is_ok(), "{call}: {told:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c3_an_older_dump_in_the_place_of_a_newer_journal_is_noticed_when_it_is_opened() {
    let server = Shared::join().expect("PostgreSQL starts");
    let url = server.database().await;
    let folder = tempfile::tempdir().expect("a folder");
    let url_of = |folder: &Path| Options { remember: Some(folder.to_owned()), ..pg::options() };
    let reopen = || async { Postgres::open(&url, url_of(folder.path())).await.expect("it opens") };
    let journal = reopen().await;
    assert_eq!(journal.behind(), None, "it is new");
    submit(&journal, 1).await.expect("it is new");
    let older = pg::dump(&url, &[]).expect("it is dumped");
    let ended = submit(&journal, 2).await.expect("it is new");
    let (append, _) = jobs::append(&ended, None, vec![jobs::cancelled_before_start()]);
    journal.append(append).await.expect("it waits");
    drop(journal);
    assert_eq!(reopen().await.behind(), None, "nothing has happened");
    let newer = pg::dump(&url, &[]).expect("it is dumped");
    create_again(&url).await;
    run(&url, &newer).await;
    assert_eq!(reopen().await.behind(), None, "moved as it was, it has lost nothing");
    create_again(&url).await;
    run(&url, &older).await;
    let journal = reopen().await;
    assert!(journal.behind().is_some_and(|Behind { had, has }| had > has), "{:?}", journal.behind());
    let ended = submit(&journal, 3).await.expect("from here on it counts as it is");
    settle(&journal).await;
    let (append, _) = jobs::append(&ended, None, vec![jobs::cancelled_before_start()]);
    journal.append(append).await.expect("it waits");
    journal.remove(ended.id, jobs::NOW).await.expect("it has ended");
    drop(journal);
    assert_eq!(reopen().await.behind(), None, "what was removed is not lost");
    create_again(&url).await;
    assert_eq!(reopen().await.behind().map(|behind| behind.has), Some(0));
}
