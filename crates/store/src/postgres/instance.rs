//! Which instance of a journal this is. A server that may have lost what it acknowledged begins a new one: another server took over, a
//! dump was loaded, or the files were put back to an earlier state.
//!
//! A session belongs to one run of one server, so looking when a connection is made is enough; a statement that does not find its
//! journal has the same done. What an earlier instance gave is refused from then on. It may still be acted on, by workers that have not heard:
//! so the new instance pauses, and gives nothing out until the longest lease is over.

use lastword_core::Incarnation;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use uuid::Uuid;

use super::failure::{Failure, Try};
use super::identity::{Known, identity, next_place};

/// What is stored about the server, and what it says of itself.
const LOOK: &str = concat!(
    "select m.journal, m.instance_first, ",
    identity!(),
    ", ",
    next_place!(),
    " - 1, pg_postmaster_start_time()::text, concat_ws('.', b.tableoid, b.xmin),
        m.started, m.origin, m.cluster, m.timeline, m.start_place
    from meta m join migrations b on b.step = 1"
);

const SERVER: &str = "
    select (select system_identifier::text from pg_control_system()),
        left(pg_walfile_name(pg_current_wal_lsn()), 8)";

/// Notes what was found, unless another process was faster. Places in the feed continue above every existing one, and incarnations far
/// above the newest, because some may have been given and lost.
const NOTE: &str = "
    update meta set
        cluster = coalesce($1, cluster), timeline = coalesce($2, timeline), origin = $3, started = $4, start_place = $5,
        instance_first = coalesce($6, instance_first), instance_last = coalesce($7, instance_last),
        settling = case when $8 then $5 else settling end,
        incarnations = case when $8 then incarnations + (1e12 * random())::bigint else incarnations end,
        feed_offset = greatest(feed_offset, coalesce(
            (select place from events order by place desc limit 1), 0
        ) - pg_current_xact_id()::text::bigint + 1)
    where instance_first = $9 and started is not distinct from $10";

/// How often what was found is noted before another try is left to the caller: other processes notice at the same time.
const TRIES: u32 = 4;

/// One look at the server.
pub(super) struct Found {
    pub(super) journal: Uuid,
    pub(super) instance: Uuid,
    pub(super) identity: String,
    /// How far it has come.
    pub(super) place: i64,
    pub(super) started: String,
    origin: String,
    /// Cluster and timeline, if the server tells.
    server: Option<(String, String)>,
    noted: Noted,
}

/// What was noted about the server when it was last looked at.
struct Noted {
    started: Option<String>,
    origin: Option<String>,
    server: Option<(String, String)>,
    start_place: Option<i64>,
}

/// What follows from a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judgement {
    /// Nothing has changed.
    Same,
    /// The same journal, on a server that was started again; with a pause, if it may have lost something.
    Restarted { pause: bool },
    /// Something that was acknowledged is lost, or the rows were copied.
    Replaced,
}

/// Judges what was found, by what this process knew of the journal before.
fn judge(found: &Found, known: &Known) -> Judgement {
    let Found { noted, .. } = found;
    let moved = noted.server.is_some() && found.server.is_some() && noted.server != found.server;
    if moved || noted.origin.as_ref().is_some_and(|origin| *origin != found.origin) {
        return Judgement::Replaced;
    }
    let restarted = noted.started.as_ref().is_some_and(|started| *started != found.started);
    let known = Some(known).filter(|known| known.newest > 0 && known.identity == found.identity);
    // Others may have brought a server that was put back further than it ever was, but not before one of them noted where it began.
    let since_known = known.is_some_and(|known| known.started.as_ref() == Some(&found.started));
    let reached = if restarted || since_known { Some(found.place) } else { noted.start_place };
    match known {
        Some(known) if reached.is_some_and(|reached| known.newest > reached) => Judgement::Replaced,
        // Only a process that had seen the journal before can say that it is as far as it was.
        None if restarted => Judgement::Restarted { pause: true },
        _ if restarted || noted.started.is_none() => Judgement::Restarted { pause: false },
        _ => Judgement::Same,
    }
}

async fn look(client: &Client) -> Try<Option<Found>> {
    let server = match client.query_one(SERVER, &[]).await {
        Ok(row) => Some((row.get(0), row.get(1))),
        Err(error) if error.code().is_some_and(not_told) => None,
        Err(error) => return Err(error.into()),
    };
    let row = client.query_opt(LOOK, &[]).await?;
    Ok(row.map(|row| Found {
        journal: row.get(0),
        instance: row.get(1),
        identity: row.get(2),
        place: row.get(3),
        started: row.get(4),
        origin: row.get(5),
        server,
        noted: Noted {
            started: row.get(6),
            origin: row.get(7),
            server: row.get::<_, Option<String>>(8).zip(row.get(9)),
            start_place: row.get(10),
        },
    }))
}

/// Reports whether a strict server, or one derived from PostgreSQL, does not tell where its rows are.
fn not_told(code: &SqlState) -> bool {
    [SqlState::UNDEFINED_FUNCTION, SqlState::INSUFFICIENT_PRIVILEGE, SqlState::FEATURE_NOT_SUPPORTED]
        .contains(code)
}

/// Looks at the server, and begins a new instance if it may have lost something. Of all that notice, one does so.
pub(super) async fn recognise(
    client: &Client,
    journal: Uuid,
    known: impl Fn() -> Known,
) -> Try<Option<Found>> {
    for _ in 0..TRIES {
        // Before the look: what is committed during it is not missed by it.
        let known = known();
        let Some(found) = look(client).await? else { return Ok(None) };
        let judgement = judge(&found, &known);
        // Another journal is none of our business.
        if judgement == Judgement::Same || found.journal != journal {
            return Ok(Some(found));
        }
        note(client, &found, judgement).await?;
    }
    Err(Failure::Clash("other processes note another server".to_owned()))
}

async fn note(client: &Client, found: &Found, judgement: Judgement) -> Try<()> {
    let next = match judgement {
        Judgement::Replaced => Some(range(client.query_one("select gen_random_uuid()", &[]).await?.get(0))),
        Judgement::Same | Judgement::Restarted { .. } => None,
    };
    let (first, last) = next.unzip();
    let pause = next.is_some() || judgement == Judgement::Restarted { pause: true };
    let (cluster, timeline) = found.server.clone().unzip();
    let Found { origin, started, place, instance, noted, .. } = found;
    client
        .execute(
            NOTE,
            &[&cluster, &timeline, origin, started, place, &first, &last, &pause, instance, &noted.started],
        )
        .await?;
    Ok(())
}

/// Returns the first and the last incarnation of an instance whose number is the upper half of `random`.
pub(super) fn range(random: Uuid) -> (Uuid, Uuid) {
    let instance = (random.as_u128() >> 64) as u64;
    let incarnation = |number| Uuid::from_u128(Incarnation { instance, number }.as_u128());
    (incarnation(0), incarnation(u64::MAX))
}

/// Returns the first incarnation of an instance, which names it in the database.
pub(super) fn first(number: u64) -> Uuid {
    Uuid::from_u128(Incarnation { instance: number, number: 0 }.as_u128())
}

/// Returns the number of the instance whose first incarnation this is.
pub(super) fn number(first: Uuid) -> u64 {
    Incarnation::from_u128(first.as_u128()).instance
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that noted its first start at place 100 and has come to place 200 since.
    fn found() -> Found {
        let server = || Some(("c".to_owned(), "1".to_owned()));
        Found {
            journal: Uuid::nil(),
            instance: Uuid::nil(),
            identity: "i".to_owned(),
            place: 200,
            started: "monday".to_owned(),
            origin: "o".to_owned(),
            server: server(),
            noted: Noted {
                started: Some("monday".to_owned()),
                origin: Some("o".to_owned()),
                server: server(),
                start_place: Some(100),
            },
        }
    }

    fn known(newest: i64, started: &str) -> Known {
        Known { identity: "i".to_owned(), instance: 0, newest, started: Some(started.to_owned()) }
    }

    fn restarted() -> Found {
        Found { started: "tuesday".to_owned(), ..found() }
    }

    #[test]
    fn what_has_not_changed_is_the_same() {
        assert_eq!(judge(&found(), &known(0, "monday")), Judgement::Same);
        assert_eq!(judge(&found(), &known(200, "monday")), Judgement::Same);
        assert_eq!(judge(&found(), &known(100, "sunday")), Judgement::Same);
    }

    #[test]
    fn a_new_journal_is_noted_without_a_pause() {
        let noted = Noted { started: None, origin: None, server: None, start_place: None };
        let new = Found { noted, ..found() };
        assert_eq!(judge(&new, &known(0, "monday")), Judgement::Restarted { pause: false });
    }

    #[test]
    fn another_server_or_another_row_is_another_instance() {
        let promoted = Found { server: Some(("c".to_owned(), "2".to_owned())), ..found() };
        assert_eq!(judge(&promoted, &known(1, "monday")), Judgement::Replaced);
        let loaded = Found { origin: "p".to_owned(), ..found() };
        assert_eq!(judge(&loaded, &known(0, "monday")), Judgement::Replaced);
        // A server that does not tell is not another one.
        assert_eq!(judge(&Found { server: None, ..found() }, &known(0, "monday")), Judgement::Same);
    }

    #[test]
    fn a_server_that_has_lost_what_was_seen_is_another_instance() {
        assert_eq!(judge(&restarted(), &known(201, "monday")), Judgement::Replaced);
        assert_eq!(judge(&found(), &known(201, "monday")), Judgement::Replaced);
        // It was put back to place 100, and another process brought it further since.
        assert_eq!(judge(&found(), &known(101, "sunday")), Judgement::Replaced);
    }

    #[test]
    fn a_restart_is_vouched_for_by_a_process_that_had_seen_the_journal() {
        assert_eq!(judge(&restarted(), &known(200, "monday")), Judgement::Restarted { pause: false });
        // It had stored nothing.
        assert_eq!(judge(&restarted(), &known(0, "monday")), Judgement::Restarted { pause: true });
        // It had seen an earlier instance.
        let stranger = Known { identity: "h".to_owned(), ..known(1, "monday") };
        assert_eq!(judge(&restarted(), &stranger), Judgement::Restarted { pause: true });
    }
}
