//! Renewals: those that come within a few milliseconds are one statement. A server renews the leases of all its workers, which would be as
//! many commits a second as there are workers.

use std::sync::{Mutex, PoisonError};

use deadpool_postgres::Pool;
use tokio::sync::oneshot;
use tokio_postgres::Row;
use uuid::Uuid;

use super::batch::job_id;
use super::connect::change;
use super::failure::Try;
use super::identity::with_here;
use super::lives::{lease, refusal};
use super::witness::Witness;
use crate::{Renew, Renewed, Result};

/// Renews leases and finds the news of each life, so that a renewal is one round trip. One row for each that was asked for, in their order.
/// Rows are locked in one order, so that two statements never wait for each other.
const RENEW: &str = with_here!(
    "$4",
    "$5",
    ", asked as (
        select * from unnest($1::text[], $2::uuid[], $3::bigint[]) with ordinality as a (owner, life, lease_ms, n)
    ), locked as (
        select incarnation from lives where incarnation = any ($2) order by incarnation for update
    ), renewed as (
        update lives l set beat = l.beat + 1, lease_ms = a.lease_ms
        from asked a join locked k on k.incarnation = a.life cross join meta m
        where l.incarnation = a.life and l.owner = a.owner
            and l.incarnation between m.instance_first and m.instance_last
            and not exists (
                select from lives n
                where n.owner = l.owner and n.incarnation > l.incarnation and n.incarnation <= m.instance_last
            )
            and a.lease_ms <= m.lease_max_ms
            and exists (select from here)
        returning l.owner, l.incarnation, l.beat, pg_current_xact_id()::text::bigint + m.feed_offset as place
    )
    select exists (select from here), r.beat, r.place, m.settling is not null, m.lease_max_ms,
        array(select j.job from jobs j where j.news and j.holder_incarnation = a.life order by j.job)
    from meta m cross join asked a
    left join renewed r on r.incarnation = a.life and r.owner = a.owner
    order by a.n"
);

/// Renewals that wait for each other.
#[derive(Default)]
pub(super) struct Renewals(Mutex<Vec<Waiting>>);

/// A renewal, and where its answer goes.
struct Waiting {
    renew: Renew,
    answer: oneshot::Sender<Result<Renewed>>,
}

/// Renewals that are written together.
pub(super) struct Batch(Vec<Waiting>);

impl Renewals {
    /// Adds a renewal. The caller of the first one takes them all after [`Options::gather`](super::Options).
    pub(super) fn put(&self, renew: Renew) -> (oneshot::Receiver<Result<Renewed>>, bool) {
        let (answer, answered) = oneshot::channel();
        // Ignores poison: nothing here can panic half-way.
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push(Waiting { renew, answer });
        (answered, waiting.len() == 1)
    }

    pub(super) fn take(&self) -> Batch {
        Batch(std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl Batch {
    /// Renews all of them.
    pub(super) async fn renew(&self, pool: &Pool, witness: &Witness) -> Try<Vec<Result<Renewed>>> {
        let known = witness.known();
        let renewals = || self.0.iter().map(|waiting| &waiting.renew);
        let owners: Vec<&str> = renewals().map(|renew| &*renew.owner.0).collect();
        let lives = renewals()
            .map(|renew| renew.incarnation.map_or(Uuid::nil(), |life| Uuid::from_u128(life.as_u128())));
        let lives: Vec<Uuid> = lives.collect();
        let leases: Vec<i64> = renewals().map(lease).collect();
        let rows = change(pool, witness, RENEW, &[&owners, &lives, &leases]).await?;
        if let Some(place) = rows.iter().find_map(|row| row.get::<_, Option<i64>>(2)) {
            witness.note(&known, place);
        }
        Ok(renewals().zip(&rows).map(|(renew, row)| renewed(renew, row)).collect())
    }

    /// Gives each its answer. A caller may have gone.
    pub(super) fn answer(self, answers: Result<Vec<Result<Renewed>>>) {
        let mut answers = answers.map(Vec::into_iter);
        for Waiting { answer, .. } in self.0 {
            let one = match &mut answers {
                Ok(answers) => answers.next(),
                Err(error) => Some(Err(error.clone())),
            };
            if let Some(one) = one {
                let _ = answer.send(one);
            }
        }
    }
}

fn renewed(renew: &Renew, row: &Row) -> Result<Renewed> {
    let (Some(incarnation), Some(beat)) = (renew.incarnation, row.get::<_, Option<i64>>(1)) else {
        return Err(refusal(renew, row.get(4)));
    };
    let news = row.get::<_, Vec<Uuid>>(5).into_iter().map(job_id).collect::<Result<_>>()?;
    Ok(Renewed { incarnation, beat: beat.cast_unsigned(), news, settling: row.get(3) })
}
