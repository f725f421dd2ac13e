//! A transaction that began first and commits last, beside a reader of the feed in PostgreSQL.

use std::time::{Duration, Instant};

use lastword_core::JobId;
use lastword_store::postgres::Postgres;
use lastword_store::{Cursor, Feed, Journal};
use tokio_postgres::NoTls;

use crate::backends::postgres_options;
use crate::jobs;
use crate::pg::Server;

/// After this an event that the feed does not tell is lost.
const LAG_MAX: Duration = Duration::from_secs(60);

/// Reads the feed once it tells so many events. It may hold one back while an older transaction is open in its database, as one of the
/// server's own may be for a moment.
pub async fn feed(journal: &Postgres, after: Option<Cursor>, count: usize) -> (Vec<JobId>, Option<Cursor>) {
    let begin = Instant::now();
    loop {
        let Feed { events, next } = journal.read(after.clone(), 1_000).await.expect("the feed can be read");
        if events.len() >= count {
            return (events.into_iter().map(|(job, _)| job).collect(), next);
        }
        assert!(begin.elapsed() < LAG_MAX, "the feed told {} of {count} events", events.len());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Has job 2 commit after job 3, in the empty database of `journal`. Returns what a reader is told before that, and what after, which are
/// at least so many.
pub async fn read_around(url: &str, journal: &Postgres, after: usize) -> (Vec<JobId>, Vec<JobId>) {
    let (append, first) = jobs::submit(1, jobs::spec("q"), jobs::NOW.plus_ms(1));
    journal.append(append).await.expect("it is new");
    feed(journal, None, 1).await;
    let (mut client, connection) = tokio_postgres::connect(url, NoTls).await.expect("the server is there");
    tokio::spawn(connection);
    let transaction = client.transaction().await.expect("it begins");
    let sql = "
        insert into events select $1, 1, at, append, kind, version, body, pg_current_xact_id()::text::bigint
        from events where job = $2";
    let late = jobs::id(2);
    transaction.execute(sql, &[&late.as_uuid(), &first.id.as_uuid()]).await.expect("it is new");
    let (append, _) = jobs::submit(3, jobs::spec("q"), jobs::NOW.plus_ms(3));
    journal.append(append).await.expect("it is new");
    // A reader looks, and goes on from there when the late one has committed.
    let (before, next) = feed(journal, None, 1).await;
    transaction.commit().await.expect("it commits");
    (before, feed(journal, next, after).await.0)
}

/// Reports whether the feed skips a late commit, as it does with the bug `feed-skips-late`.
pub async fn is_skipped(server: &Server) -> bool {
    let database = server.database().await;
    let url = server.url(&database);
    let journal =
        Postgres::open(&url, postgres_options()).await.expect("an empty database becomes a journal");
    read_around(&url, &journal, 0).await == (vec![jobs::id(1), jobs::id(3)], vec![])
}
