//! How many relations the journal in PostgreSQL locks at a time: as many after three years as in its first month. Beyond sixteen a lock
//! costs more, and all sessions share the table that they are kept in.

use std::time::Duration;

use lastword_core::worker_labels::WorkerLabels;
use lastword_core::{JobId, Seq, Timestamp};
use lastword_proof::jobs;
use lastword_proof::pg::{self, Shared};
use lastword_store::postgres::{Options, Postgres, load_statement, settle_statement};
use lastword_store::{Claim, Journal, Source};
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

/// As the sessions of the journal are set up.
const SESSION: &str = "set plan_cache_mode = force_generic_plan; set enable_seqscan = off; set jit = off";

/// Relations that one session has locked.
const LOCKED: &str = "select count(distinct relation) from pg_locks l join pg_class c on c.oid = l.relation
    where l.pid = $1 and l.locktype = 'relation' and c.relnamespace = 'public'::regnamespace";

/// Holds every transaction that writes a job at its end, where it has taken all its locks.
const GATE: &str = "
    create function gate() returns trigger language plpgsql as $$ begin
        perform pg_advisory_xact_lock(7);
        return null;
    end $$;
    create constraint trigger gate after insert or update on jobs deferrable initially deferred
        for each row execute function gate()";

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("the server is there");
    tokio::spawn(connection);
    client
}

/// Counts what a statement locks that is run twice: the first run plans it.
async fn locked_by(url: &str, sql: &str, values: &[&(dyn tokio_postgres::types::ToSql + Sync)]) -> i64 {
    let mut client = connect(url).await;
    client.batch_execute(SESSION).await.expect("it is set");
    let statement = client.prepare(sql).await.expect("it is a statement");
    client.query(&statement, values).await.expect("it runs");
    let me: i32 = client.query_one("select pg_backend_pid()", &[]).await.expect("it reads").get(0);
    let transaction = client.transaction().await.expect("it begins");
    transaction.query(&statement, values).await.expect("it runs");
    let watcher = connect(url).await;
    watcher.query_one(LOCKED, &[&me]).await.expect("it reads").get(0)
}

/// Counts what a call has locked when it is about to commit.
async fn locked_at_commit<T: Send + 'static>(
    gate: &Client,
    call: impl Future<Output = T> + Send + 'static,
) -> (i64, T) {
    gate.execute("select pg_advisory_lock(7)", &[]).await.expect("it is free");
    let call = tokio::spawn(call);
    let waits = "select pid from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock' and wait_event = 'advisory'";
    let pid: i32 = loop {
        if let Some(row) = gate.query_opt(waits, &[]).await.expect("it reads") {
            break row.get(0);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    };
    let locked = gate.query_one(LOCKED, &[&pid]).await.expect("it reads").get(0);
    gate.execute("select pg_advisory_unlock(7)", &[]).await.expect("it was held");
    (locked, call.await.expect("it returns"))
}

/// What each verb locks.
#[derive(Debug, PartialEq)]
struct Locked {
    load: i64,
    settle: i64,
    append: i64,
    claim: i64,
}

async fn locked(months: u64) -> Locked {
    let server = Shared::join().expect("PostgreSQL starts");
    let url = server.database().await;
    // One connection reads, so that the second claim finds the plans of the first.
    let options = Options { readers: 1, wake: false, ..pg::options() };
    let journal = Postgres::open(&url, options).await.expect("an empty database becomes a journal");
    for month in 0..months {
        let at = Timestamp(jobs::NOW.0 - month * 30 * 86_400_000);
        journal.prepare_months(at).await.expect("months are made");
    }
    let gate = connect(&url).await;
    gate.batch_execute(GATE).await.expect("it runs");
    // The first of each plans the statements.
    let mut counted = Vec::new();
    for n in [1, 2] {
        let (append, job) = jobs::submit(n, jobs::spec("q"), jobs::NOW);
        let (append, stored) = locked_at_commit(&gate, {
            let journal = journal.clone();
            async move { journal.append(append).await }
        })
        .await;
        assert_eq!(stored, Ok(Seq(1)));
        let by = jobs::register(&journal, "ann", 1 << 30).await.expect("anyone may register");
        let from = Source::Ready { group: "q".to_owned(), slots: None };
        let claim =
            Claim { by, from, labels: WorkerLabels::default(), at_most: 1, now: jobs::NOW.plus_ms(1 << 30) };
        let (claim, taken) = locked_at_commit(&gate, {
            let journal = journal.clone();
            async move { journal.claim(claim).await }
        })
        .await;
        assert_eq!(taken.expect("ann is alive").len(), 1);
        counted.push((append, claim, job.id));
    }
    let (append, claim, id): (i64, i64, JobId) = counted.remove(1);
    let (jobs, seqs): (Vec<Uuid>, Vec<i64>) = (vec![id.as_uuid()], vec![0]);
    Locked {
        load: locked_by(&url, &load_statement(id), &[&id.as_uuid(), &0_i64]).await,
        settle: locked_by(&url, &settle_statement(id), &[&jobs, &seqs]).await,
        append,
        claim,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_do_not_grow_with_the_months() {
    let (young, old) = (Box::pin(locked(1)).await, Box::pin(locked(37)).await);
    assert_eq!(young, old, "after one month, and after three years");
    assert!(old.load <= 8 && old.settle <= 8, "{old:?}");
}
