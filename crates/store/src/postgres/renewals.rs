//! Renewals, and reads of all beats: those that come within a few moments are one statement. A server renews the leases of all its workers,
//! which would be as many commits a second as there are workers, and watches the lives of all others.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use deadpool_postgres::Pool;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep_until};
use tokio_postgres::Row;
use uuid::Uuid;

use super::batch::job_id;
use super::connect::change;
use super::failure::{Failure, Try};
use super::identity::with_here;
use super::lives::{lease, life, refusal};
use super::pause::instance_of;
use super::witness::Witness;
use crate::{Beats, Instance, Renew, Renewed, Result};

/// Renews leases, finds the news of each life, and reads the beats of all lives if `$4` says so, in one round trip. The first row is about the
/// instance, then comes one for each renewal that was asked for, in their order, then one for each life, as it is after them.
/// Rows are locked in one order, so that two statements never wait for each other.
const RENEW: &str = with_here!(
    "$5",
    "$6",
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
        returning l.owner, l.incarnation, l.beat, l.lease_ms,
            pg_current_xact_id()::text::bigint + m.feed_offset as place
    )
    select exists (select from here), 0::bigint, m.instance_first, null::text, null::text, null::text, m.settling,
        m.lease_max_ms, null::bigint, null::uuid[]
    from meta m
    union all
    select exists (select from here), a.n, a.life, a.owner, null, null, r.beat, a.lease_ms, r.place,
        array(select j.job from jobs j where j.news and j.holder_incarnation = a.life order by j.job)
    from asked a left join renewed r on r.incarnation = a.life and r.owner = a.owner
    union all
    select exists (select from here), null, l.incarnation, l.owner, l.host, l.boot, coalesce(r.beat, l.beat),
        coalesce(r.lease_ms, l.lease_ms), null, null
    from lives l cross join meta m left join renewed r on r.incarnation = l.incarnation
    where $4::boolean and l.incarnation between m.instance_first and m.instance_last
    order by 2 nulls last, 3"
);

/// Renewals and reads that wait for each other.
#[derive(Default)]
pub(super) struct Renewals {
    waiting: Mutex<Batch>,
    /// Notified when what waits is due earlier than before.
    sooner: Notify,
}

/// A renewal, and where its answer goes.
struct Waiting {
    renew: Renew,
    answer: oneshot::Sender<Result<Renewed>>,
}

/// Renewals that are written together, and reads that are answered with them.
#[derive(Default)]
pub(super) struct Batch {
    renewals: Vec<Waiting>,
    reads: Vec<oneshot::Sender<Result<Beats>>>,
    /// When the first of them has waited for long enough; none if nothing waits.
    due: Option<Instant>,
}

/// The answers to a batch.
pub(super) struct Answers {
    renewals: Vec<Result<Renewed>>,
    beats: Beats,
}

impl Renewals {
    /// Adds a renewal that may wait for this long. The caller of the first one that waits is told so: it takes them all when they are due.
    pub(super) fn put(&self, renew: Renew, within: Duration) -> (oneshot::Receiver<Result<Renewed>>, bool) {
        let (answer, answered) = oneshot::channel();
        let is_first = self.add(within, |batch| batch.renewals.push(Waiting { renew, answer }));
        (answered, is_first)
    }

    /// Adds a read, likewise.
    pub(super) fn put_read(&self, within: Duration) -> (oneshot::Receiver<Result<Beats>>, bool) {
        let (answer, answered) = oneshot::channel();
        let is_first = self.add(within, |batch| batch.reads.push(answer));
        (answered, is_first)
    }

    fn add(&self, within: Duration, add: impl FnOnce(&mut Batch)) -> bool {
        let due = Instant::now() + within;
        let mut waiting = self.waiting();
        add(&mut waiting);
        let before = waiting.due;
        waiting.due = Some(before.map_or(due, |before| before.min(due)));
        if before.is_some_and(|before| due < before) {
            self.sooner.notify_one();
        }
        before.is_none()
    }

    /// Waits until what waits is due, and takes it.
    pub(super) async fn take(&self) -> Batch {
        loop {
            let due = self.waiting().due.unwrap_or_else(Instant::now);
            tokio::select! {
                () = sleep_until(due) => return std::mem::take(&mut *self.waiting()),
                () = self.sooner.notified() => {}
            }
        }
    }

    /// Locks, ignoring poison: no critical section here can panic half-way.
    fn waiting(&self) -> MutexGuard<'_, Batch> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Batch {
    /// Renews and reads all of them.
    pub(super) async fn write(&self, pool: &Pool, witness: &Witness) -> Try<Answers> {
        let known = witness.known();
        let renewals = || self.renewals.iter().map(|waiting| &waiting.renew);
        let owners: Vec<&str> = renewals().map(|renew| &*renew.owner.0).collect();
        let lives = renewals()
            .map(|renew| renew.incarnation.map_or(Uuid::nil(), |life| Uuid::from_u128(life.as_u128())));
        let lives: Vec<Uuid> = lives.collect();
        let leases: Vec<i64> = renewals().map(lease).collect();
        let rows = change(pool, witness, RENEW, &[&owners, &lives, &leases, &!self.reads.is_empty()]).await?;
        if let Some(place) = rows.iter().find_map(|row| row.get::<_, Option<i64>>(8)) {
            witness.note(&known, place);
        }
        let (about, rows) = rows.split_first().ok_or(Failure::Moved)?;
        let instance = instance_of(about.get(2), about.get(6), about.get(7));
        let (answers, lives) = rows.split_at(self.renewals.len().min(rows.len()));
        let renewed = |(renew, row)| renewed(renew, row, &instance);
        Ok(Answers {
            renewals: renewals().zip(answers).map(renewed).collect(),
            beats: Beats { instance, lives: lives.iter().map(|row| life(row, 2)).collect() },
        })
    }

    /// Gives each its answer. A caller may have gone.
    pub(super) fn answer(self, answers: Result<Answers>) {
        let beats = answers.as_ref().map(|answers| answers.beats.clone()).map_err(Clone::clone);
        for read in self.reads {
            let _ = read.send(beats.clone());
        }
        let mut renewals = answers.map(|answers| answers.renewals.into_iter());
        for Waiting { answer, .. } in self.renewals {
            let one = match &mut renewals {
                Ok(renewals) => renewals.next(),
                Err(error) => Some(Err(error.clone())),
            };
            if let Some(one) = one {
                let _ = answer.send(one);
            }
        }
    }
}

fn renewed(renew: &Renew, row: &Row, instance: &Instance) -> Result<Renewed> {
    let (Some(incarnation), Some(beat)) = (renew.incarnation, row.get::<_, Option<i64>>(6)) else {
        return Err(refusal(renew, instance.lease_max_ms.cast_signed()));
    };
    let news = row.get::<_, Vec<Uuid>>(9).into_iter().map(job_id).collect::<Result<_>>()?;
    Ok(Renewed { incarnation, beat: beat.cast_unsigned(), news, settling: instance.settling.is_some() })
}
