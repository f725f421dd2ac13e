//! Enrolments in PostgreSQL. Times are by its clock, the one that all servers share.

use deadpool_postgres::Pool;
use lastword_core::worker_labels::WorkerLabels;
use lastword_core::{OwnerId, Timestamp};
use tokio_postgres::Row;

use super::Postgres;
use super::batch::number;
use super::connect::{change, query};
use super::failure::Try;
use super::identity::with_here;
use super::options::Clock;
use super::witness::Witness;
use crate::enrolments::REMEMBERED_MS;
use crate::{
    EnrolledWorker, Enrolling, Enrolments, Error, HeldJobs, INVITATION_MS, Invitation, NotEnrolled, Result,
    Said, ServerDoor, TokenHash, Workload,
};

/// Reads the clock: the server's, if the parameter is null.
macro_rules! now {
    ($caller:literal) => {
        concat!(
            "coalesce(",
            $caller,
            "::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint)"
        )
    };
}

const INVITE: &str = with_here!(
    "$7",
    "$8",
    ", swept as (
        delete from invitations
        where name <> $1 and expires_at + $6::bigint < ",
    now!("$4"),
    " and exists (select from here)
    ), invited as (
        insert into invitations (name, token, labels, expires_at)
        select $1::text, $2::bytea, $3::text, ",
    now!("$4"),
    " + $5::bigint from here
        on conflict (name) do update
        set token = excluded.token, labels = excluded.labels, expires_at = excluded.expires_at, used_at = null
    )
    select exists (select from here)"
);

/// The row of the invitation is changed first: of two that use it at once the second waits, and then finds it used.
const ENROL: &str = with_here!(
    "$4",
    "$5",
    ", used as (
        update invitations set used_at = ",
    now!("$3"),
    "
        where token = $1::bytea and used_at is null and expires_at > ",
    now!("$3"),
    " and exists (select from here)
        returning name, labels, used_at
    ), enrolled as (
        insert into workers (name, token, labels, enrolled_at)
        select name, $2::bytea, labels, used_at from used
        on conflict (name) do update
        set token = excluded.token, labels = excluded.labels, enrolled_at = excluded.enrolled_at,
            revoked_at = null, version = null, slots = null, host = null
        returning name
    )
    select exists (select from here), (select name from enrolled)"
);

/// A repeated call finds the worker that its first try enrolled.
const WHY_NOT: &str = "
    select (select name from workers where token = $2), (select used_at is not null from invitations where token = $1)";

const WORKER: &str = "
    select name, token, labels, enrolled_at, revoked_at, version, slots, host from workers
    where token = $1 and revoked_at is null";

const WORKERS: &str =
    "select name, token, labels, enrolled_at, revoked_at, version, slots, host from workers order by name";

/// Most workers say what they said before, which needs no write.
const DESCRIBE: &str = with_here!(
    "$6",
    "$7",
    ", described as (
        update workers set version = $2::text, slots = $3::bigint, host = $4::text, server = $5::text
        where name = $1 and (version, slots, host, server) is distinct from ($2, $3, $4, $5) and exists (select from here)
    )
    select exists (select from here)"
);

const ANNOUNCE: &str = with_here!(
    "$5",
    "$6",
    ", announced as (
        insert into servers (name, address, fingerprint, token)
        select $1::text, $2::text, $3::text, $4::text from here
        on conflict (name) do update
        set address = excluded.address, fingerprint = excluded.fingerprint, token = excluded.token
        where (servers.address, servers.fingerprint, servers.token)
            is distinct from (excluded.address, excluded.fingerprint, excluded.token)
    )
    select exists (select from here)"
);

const SERVER_OF: &str = "
    select s.name, s.address, s.fingerprint, s.token from workers w join servers s on s.name = w.server
    where w.name = $1 and w.revoked_at is null";

const REVOKE: &str = with_here!(
    "$3",
    "$4",
    ", invited as (
        delete from invitations where name = $1 and exists (select from here) returning 1
    ), forgotten as (
        delete from removals where worker = $1 and exists (select from here)
    ), revoked as (
        update workers set revoked_at = coalesce(revoked_at, ",
    now!("$2"),
    ") where name = $1 and exists (select from here) returning 1
    )
    select exists (select from here), exists (select from invited) or exists (select from revoked)"
);

/// Lives of an earlier instance are over, as [`lives`](super::lives) says.
const HELD: &str = "
    select j.holder_owner, count(l.incarnation), count(*) - count(l.incarnation)
    from jobs j cross join meta m
    left join lives l on l.incarnation = j.holder_incarnation
        and l.incarnation between m.instance_first and m.instance_last
    where j.holder_incarnation is not null group by 1 order by 1";

const WAITING: &str = concat!(
    "select r.labels, count(*) from ready r left join groups g on g.name = r.queue
    where r.due <= ",
    now!("$1"),
    " and not coalesce(g.paused, false) group by 1 order by 1"
);

async fn enrol(
    pool: &Pool,
    witness: &Witness,
    enrolling: &Enrolling,
    now: Option<i64>,
) -> Try<std::result::Result<OwnerId, NotEnrolled>> {
    let (one_time, token) = (&enrolling.one_time.0[..], &enrolling.token.0[..]);
    let rows = change(pool, witness, ENROL, &[&one_time, &token, &now]).await?;
    let owner = |name: &str| OwnerId(name.into());
    if let Some(name) = rows[0].get::<_, Option<&str>>(1) {
        return Ok(Ok(owner(name)));
    }
    let rows = query(pool, WHY_NOT, &[&one_time, &token]).await?;
    let found: (Option<&str>, Option<bool>) = (rows[0].get(0), rows[0].get(1));
    Ok(match found {
        (Some(name), _) => Ok(owner(name)),
        (None, Some(true)) => Err(NotEnrolled::Used),
        (None, Some(false)) => Err(NotEnrolled::Expired),
        (None, None) => Err(NotEnrolled::Unknown),
    })
}

fn read(row: &Row) -> Result<EnrolledWorker> {
    let name: &str = row.get(0);
    let corrupt = |what: &str| Error::Corrupt(format!("the row of the worker {name} does not read: {what}"));
    let moment = |at: i64| Timestamp(at.cast_unsigned());
    let slots = row.get::<_, Option<i64>>(6).map(u32::try_from).transpose();
    Ok(EnrolledWorker {
        name: OwnerId(name.into()),
        token: TokenHash(row.get::<_, &[u8]>(1).try_into().map_err(|_| corrupt("its token"))?),
        labels: WorkerLabels::from_key(row.get(2)),
        enrolled_at: moment(row.get(3)),
        revoked_at: row.get::<_, Option<i64>>(4).map(moment),
        said: Said { version: row.get(5), slots: slots.map_err(|_| corrupt("its slots"))?, host: row.get(7) },
    })
}

async fn workload(pool: &Pool, now: Option<i64>) -> Try<Workload> {
    let count = |row: &Row, at: usize| row.get::<_, i64>(at).cast_unsigned();
    let held = query(pool, HELD, &[]).await?.into_iter().map(|row| HeldJobs {
        owner: OwnerId(row.get::<_, &str>(0).into()),
        live: count(&row, 1),
        left: count(&row, 2),
    });
    let held = held.collect();
    let waiting = query(pool, WAITING, &[&now]).await?;
    let waiting = waiting.iter().map(|row| (WorkerLabels::from_key(row.get(0)), count(row, 1)));
    Ok(Workload { held, waiting: waiting.collect() })
}

impl Postgres {
    /// Returns the caller's time, if that counts.
    fn time(&self, now: Timestamp) -> Option<i64> {
        (self.0.clock == Clock::Caller).then(|| number(now.0))
    }
}

impl Enrolments for Postgres {
    async fn invite(&self, invitation: Invitation) -> Result<()> {
        let Invitation { token, name, labels, now } = &invitation;
        let (name, token, labels, now) = (&*name.0, &token.0[..], labels.key(), self.time(*now));
        let (valid, remembered) = (number(INVITATION_MS), number(REMEMBERED_MS));
        let stored = || async {
            let values = [&name as super::connect::Value<'_>, &token, &labels, &now, &valid, &remembered];
            change(&self.0.readers, &self.0.witness, INVITE, &values).await
        };
        self.patiently(stored).await.map(drop)
    }

    async fn enrol(&self, enrolling: Enrolling) -> Result<std::result::Result<OwnerId, NotEnrolled>> {
        let now = self.time(enrolling.now);
        let enrolled = self.patiently(|| enrol(&self.0.readers, &self.0.witness, &enrolling, now)).await?;
        // The token that the name had before counts no more.
        self.0.wake.ring();
        Ok(enrolled)
    }

    async fn worker_of(&self, token: TokenHash) -> Result<Option<EnrolledWorker>> {
        let token = &token.0[..];
        let found = || async { query(&self.0.readers, WORKER, &[&token]).await };
        self.patiently(found).await?.first().map(read).transpose()
    }

    async fn workers(&self) -> Result<Vec<EnrolledWorker>> {
        self.patiently(|| query(&self.0.readers, WORKERS, &[])).await?.iter().map(read).collect()
    }

    async fn describe(&self, name: OwnerId, said: Said, server: Option<OwnerId>) -> Result<()> {
        let (name, slots, server) =
            (&*name.0, said.slots.map(i64::from), server.as_ref().map(|server| &*server.0));
        let stored = || async {
            let values = [&name as super::connect::Value<'_>, &said.version, &slots, &said.host, &server];
            change(&self.0.readers, &self.0.witness, DESCRIBE, &values).await
        };
        self.patiently(stored).await.map(drop)
    }

    async fn announce(&self, server: ServerDoor) -> Result<()> {
        let ServerDoor { name, address, fingerprint, token } = &server;
        let name = &*name.0;
        let stored = || async {
            change(&self.0.readers, &self.0.witness, ANNOUNCE, &[&name, address, fingerprint, token]).await
        };
        self.patiently(stored).await.map(drop)
    }

    async fn server_of(&self, worker: OwnerId) -> Result<Option<ServerDoor>> {
        let worker = &*worker.0;
        let found = self.patiently(|| async { query(&self.0.readers, SERVER_OF, &[&worker]).await }).await?;
        Ok(found.first().map(|row| ServerDoor {
            name: OwnerId(row.get::<_, &str>(0).into()),
            address: row.get(1),
            fingerprint: row.get(2),
            token: row.get(3),
        }))
    }

    async fn revoke(&self, name: OwnerId, now: Timestamp) -> Result<bool> {
        let (name, now) = (&*name.0, self.time(now));
        let revoked = || async { change(&self.0.readers, &self.0.witness, REVOKE, &[&name, &now]).await };
        let told = self.patiently(revoked).await?;
        self.0.wake.ring();
        Ok(told.first().is_some_and(|row| row.get(1)))
    }

    async fn workload(&self, now: Timestamp) -> Result<Workload> {
        let now = self.time(now);
        self.patiently(|| workload(&self.0.readers, now)).await
    }
}
