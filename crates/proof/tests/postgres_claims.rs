//! What only the journal in PostgreSQL promises of claims: one clock for all, and as much work however long the line is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use lastword_core::decide::claim::Claimant;
use lastword_core::spec::Spec;
use lastword_core::view::row::PhaseName;
use lastword_core::worker_labels::WorkerLabels;
use lastword_core::{Epoch, Fact, Fence, Job, JobId, Timestamp};
use lastword_proof::jobs;
use lastword_proof::pg::{self, Shared};
use lastword_store::postgres::{Clock, Options, Postgres, claim_statements};
use lastword_store::{Catalog as _, Claim, Group, Groups as _, Journal, Source};
use tokio::task::JoinSet;
use tokio_postgres::NoTls;

struct Stage {
    _server: Shared,
    url: String,
    journal: Postgres,
    ann: Claimant,
}

/// Opens a journal as a fleet does, by the clock of the server.
async fn stage() -> Stage {
    let server = Shared::join().expect("PostgreSQL starts");
    let url = server.database().await;
    let options = Options { clock: Clock::Server, ..pg::options() };
    let journal = Postgres::open(&url, options).await.expect("an empty database becomes a journal");
    let ann = register(&journal, "ann").await;
    Stage { _server: server, url, journal, ann }
}

async fn register(journal: &Postgres, owner: &str) -> Claimant {
    jobs::register(journal, owner, 1 << 30).await.expect("anyone may register")
}

async fn take(Stage { journal, ann, .. }: &Stage, now: Timestamp) -> Vec<JobId> {
    let from = Source::Ready { group: "q".to_owned(), slots: None };
    let taken = journal
        .claim(Claim { by: ann.clone(), from, labels: WorkerLabels::default(), at_most: 9, now })
        .await
        .expect("ann is alive");
    taken.into_iter().map(|claimed| claimed.job).collect()
}

/// Workers claim, end and give back jobs of two groups at once, while one of them gets and loses its bound: what is counted stays
/// right, and a bound that stays is never passed.
#[tokio::test(flavor = "multi_thread")]
async fn slots_are_counted_right_whatever_happens_at_once() {
    const SLOTS: u32 = 5;
    const JOBS: u64 = 120;
    let Stage { journal, .. } = &stage().await;
    journal.set_group(Group::new("fixed", Some(SLOTS))).await.expect("it is set");
    for n in 0..JOBS {
        for (group, n) in [("fixed", n), ("changing", JOBS + n)] {
            let (append, _) = jobs::submit(n, jobs::spec(group), jobs::NOW);
            journal.append(append).await.expect("it is new");
        }
    }
    let held = Arc::new(AtomicU32::new(0));
    let mut workers = JoinSet::new();
    for n in 0..6 {
        let (journal, held) = (journal.clone(), Arc::clone(&held));
        workers.spawn(async move {
            let by = register(&journal, &format!("owner-{n}")).await;
            let mut idle = 0;
            while idle < 20 {
                let taken = [
                    work(&journal, &by, "fixed", Some(&held)).await,
                    work(&journal, &by, "changing", None).await,
                ];
                idle = if taken == [0, 0] { idle + 1 } else { 0 };
            }
        });
    }
    for slots in [Some(3), None, Some(40), Some(1)].into_iter().cycle() {
        journal.set_group(Group::new("changing", slots)).await.expect("it is set");
        if let Ok(ended) = tokio::time::timeout(Duration::from_millis(20), workers.join_next()).await {
            ended.expect("there are six").expect("it keeps the bound");
            break;
        }
    }
    journal.set_group(Group::new("changing", None)).await.expect("it is set");
    workers.join_all().await;
    assert_eq!(journal.check_counts().await, Ok(()));
    let ann = register(journal, "last").await;
    while work(journal, &ann, "changing", None).await + work(journal, &ann, "fixed", Some(&held)).await > 0 {}
    assert_eq!(journal.check_counts().await, Ok(()));
    let counts = journal.counts().await.expect("they are counted");
    assert_eq!(
        counts.into_iter().collect::<Vec<_>>(),
        [(PhaseName::Ended, 2 * JOBS)],
        "all were taken and ended"
    );
}

/// Claims jobs of a group, and ends each or gives it back. Returns how many it took; `held` counts those that are held.
async fn work(journal: &Postgres, by: &Claimant, group: &str, held: Option<&AtomicU32>) -> usize {
    let from = Source::Ready { group: group.to_owned(), slots: None };
    let claim = Claim { by: by.clone(), from, labels: WorkerLabels::default(), at_most: 3, now: jobs::NOW };
    let taken = journal.claim(claim).await.expect("it is alive");
    let count = taken.len();
    if let Some(held) = held {
        let now = held.fetch_add(count as u32, Ordering::SeqCst) + count as u32;
        assert!(now <= 5, "{now} jobs are held");
    }
    for claimed in taken {
        let mut job = Job::fold(claimed.job, &claimed.events).expect("its log folds");
        let gives_back = job.epoch == Epoch(1) && job.id.short_bits().is_multiple_of(3);
        let life = if gives_back { vec![vec![jobs::released(&job)]] } else { jobs::life(&job) };
        // Before the last append: once that is stored, another may take the slot.
        let (last, rest) = life.split_last().expect("it has a life");
        for facts in rest {
            job = append(journal, &job, &claimed.fence, facts).await;
        }
        held.map(|held| held.fetch_sub(1, Ordering::SeqCst));
        append(journal, &job, &claimed.fence, last).await;
    }
    count
}

async fn append(journal: &Postgres, job: &Job, fence: &Fence, facts: &[Fact]) -> Job {
    let (append, after) = jobs::append(job, Some(fence), facts.to_vec());
    journal.append(append).await.expect("it holds the job");
    after
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

/// Jobs that no worker has the labels for wait by the thousand: a claim of others reads none of them.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_for_other_workers_are_stepped_over_unread() {
    let stage = stage().await;
    let (client, connection) = tokio_postgres::connect(&stage.url, NoTls).await.expect("the server is there");
    tokio::spawn(connection);
    let fill = "insert into ready (job, queue, priority, due, labels)
        select gen_random_uuid(), 'q', n % 3, n, 'gpu l' || n % 20 from generate_series(1, 10000) n";
    let [_, ready, _] = claim_statements(jobs::id(1));
    let prepare = format!(
        "set plan_cache_mode = force_generic_plan; set enable_seqscan = off; set jit = off;
        prepare ready (text, bigint, bigint, smallint, bigint, uuid, uuid[], int, text[], text) as {ready}"
    );
    client.batch_execute(&prepare).await.expect("it is a statement");
    let mut read = Vec::new();
    for (n, fill) in [(1, "select"), (2, fill)] {
        let (append, job) = jobs::submit(n, jobs::spec("q"), jobs::NOW);
        stage.journal.append(append).await.expect("it is new");
        client.batch_execute(fill).await.expect("it runs");
        client.batch_execute("analyze ready").await.expect("it runs");
        let explain = "explain (analyze, buffers, format json) execute ready ('q', 9223372036854775807, 5, 0::smallint, 0,
            '00000000-0000-0000-0000-000000000000', '{}', 1000, '{linux}', '')";
        let told = client.simple_query(explain).await.expect("it explains");
        let text: String = told
            .iter()
            .filter_map(|message| match message {
                tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
                _ => None,
            })
            .collect();
        let plan: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
        let blocks = ["Shared Hit Blocks", "Shared Read Blocks"].map(|name| plan[0]["Plan"][name].as_u64());
        read.push(blocks.into_iter().flatten().sum::<u64>());
        assert_eq!(take(&stage, jobs::NOW).await, [job.id]);
    }
    // Twenty sets of labels, each found in an index of three levels; not ten thousand jobs.
    assert!(read[1] < read[0] + 100, "{read:?}");
}
