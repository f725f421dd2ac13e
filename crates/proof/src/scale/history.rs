//! What a fleet leaves in its database over years: a partition for each month, with ended jobs in each.

use lastword_core::Timestamp;
use lastword_store::postgres::Postgres;
use tokio_postgres::Client;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// A month, near enough: the jobs of one are all made on its first days.
const MONTH_MS: u64 = 30 * 86_400_000;

/// Events of each job.
const EACH: u64 = 10;

/// The partitions of `months` months before `now`.
pub(super) async fn months(journal: &Postgres, now: Timestamp, months: u64) -> Outcome<()> {
    for month in 0..months {
        journal.prepare_months(Timestamp(now.0 - month * MONTH_MS)).await?;
    }
    Ok(())
}

/// Stores ended jobs in each of the months, until there are `events` events of them in all; `stored` were there before.
pub(super) async fn fill(
    client: &Client,
    now: Timestamp,
    months: u64,
    (stored, events): (u64, u64),
) -> Outcome<()> {
    let id = "(lpad(to_hex($2::bigint + n), 12, '0') || '7000' || '8' || lpad(to_hex($3::bigint + n), 15, '0'))::uuid";
    let body = r#"{"offset":1,"usage":{"tokens_in":1,"tokens_out":0,"money_micros":0}}"#;
    let events_sql = format!(
        "insert into events (job, seq, at, append, kind, version, body, place)
         select {id}, seq, $2 + n, {id}, 'spent', 1, '{body}', 1
         from generate_series(1, $1::bigint) as n, generate_series(1, {EACH}) as seq"
    );
    let jobs_sql = format!(
        "insert into jobs select {id}, {EACH}, 'ended', 'old', 0, null, null, null, null, '\"completed\"', 1, 1, null, null,
             $2 + n, $2 + n, false, repeat('x', 200)
         from generate_series(1, $1::bigint) as n"
    );
    let jobs = (events - stored) / EACH / months;
    for month in 0..months {
        let at = (now.0 - month * MONTH_MS).cast_signed();
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
            [&jobs.cast_signed(), &at, &(stored + month * (events / EACH)).cast_signed()];
        client.execute(&events_sql, &values).await?;
        client.execute(&jobs_sql, &values).await?;
    }
    // Two calls: statements of one call are one transaction, in which nothing can be vacuumed.
    client.batch_execute("vacuum analyze").await?;
    client.batch_execute("checkpoint").await?;
    Ok(())
}
