//! What only the journal in PostgreSQL promises of claims: one clock for all, and as much work however long the line is.

use std::time::{Duration, SystemTime};

use lastword_core::decide::claim::Claimant;
use lastword_core::spec::Spec;
use lastword_core::{HostId, JobId, OwnerId, Timestamp};
use lastword_proof::jobs;
use lastword_proof::pg::Shared;
use lastword_store::postgres::{Options, Postgres};
use lastword_store::{Claim, Journal, Renew, Source};

struct Stage {
    _server: Shared,
    journal: Postgres,
    ann: Claimant,
}

/// Opens a journal as a fleet does, by the clock of the server.
async fn stage() -> Stage {
    let server = Shared::join().expect("PostgreSQL starts");
    let url = server.database().await;
    let journal =
        Postgres::open(&url, Options::default()).await.expect("an empty database becomes a journal");
    let owner = OwnerId("ann".into());
    let renew = Renew { owner: owner.clone(), incarnation: None, lease_ms: 1 << 30, now: jobs::NOW };
    let incarnation = journal.renew(renew).await.expect("anyone may register").incarnation;
    let ann = Claimant { owner, incarnation, host: HostId("here".into()), boot: None };
    Stage { _server: server, journal, ann }
}

async fn take(Stage { journal, ann, .. }: &Stage, now: Timestamp) -> Vec<JobId> {
    let from = Source::Ready { group: "q".to_owned(), slots: None };
    let taken = journal.claim(Claim { by: ann.clone(), from, at_most: 9, now }).await.expect("ann is alive");
    taken.into_iter().map(|claimed| claimed.job).collect()
}

/// The server runs on this machine, and has its clock.
fn server_now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is after 1970");
    Timestamp(since.as_millis() as u64)
}

/// Neither a worker whose clock is ahead starts a job early, nor one whose clock is behind starts it late.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_due_by_the_clock_of_the_server() {
    const HOUR_MS: u64 = 3_600_000;
    let stage = stage().await;
    let due = server_now().plus_ms(500);
    let (append, job) = jobs::submit(1, Spec { not_before: Some(due), ..jobs::spec("q") }, jobs::NOW);
    stage.journal.append(append).await.expect("it is new");
    let (append, later) =
        jobs::submit(2, Spec { not_before: Some(due.plus_ms(HOUR_MS)), ..jobs::spec("q") }, jobs::NOW);
    stage.journal.append(append).await.expect("it is new");
    let behind = |by: Timestamp| Timestamp(by.0 - HOUR_MS);
    let mut taken = Vec::new();
    while taken.is_empty() {
        let before = server_now();
        assert!(before < due.plus_ms(30_000), "a worker whose clock is behind finds it");
        taken = take(&stage, before.plus_ms(2 * HOUR_MS)).await;
        if taken.is_empty() {
            taken = take(&stage, behind(server_now())).await;
        }
        assert!(taken.is_empty() || server_now() >= due, "it is taken before it is due");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(taken, [job.id], "and not {}", later.id);
    // The claim is stored with the same clock.
    let claimed = stage.journal.load(job.id, lastword_core::Seq(1)).await.expect("it loads");
    assert!(claimed[0].at >= due && claimed[0].at <= server_now(), "{claimed:?}");
}
