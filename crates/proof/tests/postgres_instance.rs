//! A database that lost what it had acknowledged: another server took over, or its volume was put back. Each such event begins a new
//! instance, in which nothing that an earlier one gave counts.

use std::time::Duration;

use lastword_core::decide::claim::Claimant;
use lastword_core::life::Place;
use lastword_core::worker_labels::WorkerLabels;
use lastword_core::{Append, Job, JobId, Seq};
use lastword_proof::pg::{self, Server, Settings, Shared};
use lastword_proof::{jobs, lost};
use lastword_store::postgres::{Options, Postgres};
use lastword_store::{Claim, Claimed, Error, Instance, Journal as _, Renew, Renewed, Result, Source};

const LEASE_MS: u64 = 10_000;

async fn open(url: &str) -> Postgres {
    let options = Options { patience: Duration::from_secs(5), ..pg::options() };
    Postgres::open(url, options).await.expect("it opens")
}

fn renewal(by: &Claimant) -> Renew {
    let incarnation = Some(by.incarnation);
    Renew { owner: by.owner.clone(), place: Place::new("here", "boot"), incarnation, lease_ms: LEASE_MS }
}

async fn renew(journal: &Postgres, by: &Claimant) -> Result<Renewed> {
    journal.renew(renewal(by)).await
}

async fn register(journal: &Postgres, owner: &str) -> Claimant {
    jobs::register(journal, owner, LEASE_MS).await.expect("anyone may register")
}

async fn submit(journal: &Postgres, n: u64) -> Job {
    let (append, job) = jobs::submit(n, jobs::spec("q"), jobs::NOW);
    journal.append(append).await.expect("it is new");
    job
}

async fn claim(journal: &Postgres, by: &Claimant, from: Source) -> Result<Vec<Claimed>> {
    journal
        .claim(Claim {
            by: by.clone(),
            from,
            labels: WorkerLabels::default(),
            at_most: 1,
            now: jobs::NOW.plus_ms(1 << 30),
        })
        .await
}

fn ready() -> Source {
    Source::Ready { group: "q".to_owned(), slots: None }
}

/// Claims what is ready and what is left behind, and returns how many jobs were taken.
async fn take(journal: &Postgres, by: &Claimant) -> usize {
    let ready = claim(journal, by, ready()).await.expect("the owner is alive");
    let left = claim(journal, by, Source::Expired).await.expect("the owner is alive");
    ready.len() + left.len()
}

async fn instance(journal: &Postgres) -> Instance {
    journal.instance().await.expect("it is there")
}

async fn load(journal: &Postgres, job: JobId) -> Job {
    Job::fold(job, &journal.load(job, Seq(0)).await.expect("it reads")).expect("its log folds")
}

/// A worker that holds a job, and its next append.
struct Holder {
    journal: Postgres,
    by: Claimant,
    next: Append,
}

impl Holder {
    async fn begin(journal: Postgres, owner: &str) -> Holder {
        let by = register(&journal, owner).await;
        let Claimed { job, events, fence } =
            claim(&journal, &by, ready()).await.expect("it is alive").remove(0);
        let job = Job::fold(job, &events).expect("its log folds");
        let (next, _) = jobs::append(&job, Some(&fence), vec![jobs::launch_intended(&job)]);
        Holder { journal, by, next }
    }

    async fn append(&self) -> Result<()> {
        self.journal.append(self.next.clone()).await.map(drop)
    }

    /// Whatever it was given counts for nothing, and it goes on under a new life without being opened again.
    async fn is_over(&self) -> Claimant {
        assert_eq!(self.append().await, Err(Error::Fenced { job: self.next.job }));
        assert_eq!(renew(&self.journal, &self.by).await, Err(Error::Lapsed { owner: self.by.owner.clone() }));
        let again = register(&self.journal, &self.by.owner.0).await;
        assert_ne!(again.incarnation, self.by.incarnation);
        again
    }
}

/// A server, its standby, and a journal that both have.
struct Pair {
    first: Server,
    second: Server,
    database: String,
}

impl Pair {
    async fn start() -> Pair {
        let first = Server::start(Settings::default()).expect("PostgreSQL starts");
        let database = first.database().await;
        submit(&open(&first.url(&database)).await, 1).await;
        let second = first.standby().expect("a standby starts");
        first.is_followed_by(&second).await;
        Pair { first, second, database }
    }

    /// Opens the journal on whichever server can be written.
    async fn open(&self) -> Postgres {
        open(&pg::either([&self.first, &self.second], &self.database)).await
    }

    /// The first server dies with what it stored since the second was cut off.
    async fn fail_over(&mut self) {
        self.first.crash().expect("it is killed");
        self.second.promote().await;
    }
}

/// Registration, claim and append of the first owner are acknowledged and lost.
#[tokio::test(flavor = "multi_thread")]
async fn c101_an_asynchronous_failover_fences_what_the_lost_server_gave() {
    let mut pair = Pair::start().await;
    let (ann, bob) = (pair.open().await, pair.open().await);
    let old = instance(&ann).await;
    assert_eq!(old.settling, None, "it is new");
    pair.second.cut_off().await;
    let ann = Holder::begin(ann, "ann").await;
    ann.append().await.expect("it holds the job");
    pair.fail_over().await;
    let by = register(&bob, "bob").await;
    assert_ne!(by.incarnation.instance, old.number);
    assert_eq!(take(&bob, &by).await, 0, "ann may still run it");
    ann.is_over().await;
    let new = instance(&bob).await;
    assert_eq!(
        (new.number, instance(&ann.journal).await),
        (by.incarnation.instance, new),
        "there is one new instance"
    );
    assert!(renew(&bob, &by).await.expect("it is alive").settling);
    assert_eq!(bob.settle(old).await, Ok(false), "another instance is none of its business");
    assert_eq!(take(&bob, &by).await, 0);
    assert_eq!(bob.settle(new).await, Ok(true));
    assert_eq!(bob.settle(new).await, Ok(false), "it was settled before");
    assert_eq!(take(&bob, &by).await, 1);
    assert_eq!(ann.append().await, Err(Error::Fenced { job: ann.next.job }));
}

/// That the job was claimed is lost, so its log says that it waits: a cancel could end it while its tree is alive.
#[tokio::test(flavor = "multi_thread")]
async fn c101_no_job_is_ended_before_its_lost_lease_is_over() {
    let mut pair = Pair::start().await;
    let (ann, bob) = (pair.open().await, pair.open().await);
    pair.second.cut_off().await;
    let ann = Holder::begin(ann, "ann").await;
    ann.append().await.expect("it holds the job");
    pair.fail_over().await;
    let by = register(&bob, "bob").await;
    let job = load(&bob, ann.next.job).await;
    assert_eq!(job.holder, None, "the claim is lost");
    let (ends, _) = jobs::append(&job, None, vec![jobs::cancelled_before_start()]);
    let refused = bob.append(ends.clone()).await.expect_err("its tree may be alive").to_string();
    assert!(refused.contains("before every lease from before that is over"), "{refused}");
    let (labelled, job) = jobs::append(&job, None, vec![jobs::limit_changed(9)]);
    bob.append(labelled).await.expect("it ends nothing");
    assert_eq!(bob.settle(instance(&bob).await).await, Ok(true));
    let (ends, _) = jobs::append(&job, None, vec![jobs::cancelled_before_start()]);
    bob.append(ends).await.expect("every lease is over");
    assert_eq!(take(&bob, &by).await, 0, "it has ended");
}

/// A request was decided on an event that is lost. Another one is in its place when the request is stored.
#[tokio::test(flavor = "multi_thread")]
async fn c101_a_request_that_was_decided_on_lost_events_is_decided_again() {
    let mut pair = Pair::start().await;
    let (ann, bob) = (pair.open().await, pair.open().await);
    let id = jobs::id(1);
    let job = load(&ann, id).await;
    pair.second.cut_off().await;
    let (lost, known) = jobs::append(&job, None, vec![jobs::limit_changed(9)]);
    ann.append(lost).await.expect("anyone may ask");
    let read_in = ann.instance_seen();
    let (decided, _) = jobs::append(&known, None, vec![jobs::limit_changed(9)]);
    pair.fail_over().await;
    let (other, now) = jobs::append(&job, None, vec![jobs::limit_changed(9)]);
    bob.append(other).await.expect("anyone may ask");
    assert_eq!(now.version, known.version);
    let conflict = Err(Error::Conflict { job: id, actual: now.version });
    assert_eq!(ann.append(Append { read_in, ..decided.clone() }).await, conflict);
    assert_ne!(ann.instance_seen(), read_in);
    assert_eq!(load(&ann, id).await.version, now.version);
    ann.append(Append { read_in: ann.instance_seen(), ..decided }).await.expect("it was read again");
}

/// The last renewal of a lease is acknowledged and lost. Many processes notice at once; one of them slept through it all.
#[tokio::test(flavor = "multi_thread")]
async fn c38_an_asynchronous_failover_shortens_no_lease() {
    let mut pair = Pair::start().await;
    let ann = Holder::begin(pair.open().await, "ann").await;
    let others = [pair.open().await, pair.open().await, pair.open().await];
    for other in &others {
        register(other, "anyone").await;
    }
    renew(&ann.journal, &ann.by).await.expect("it is alive");
    pair.first.is_followed_by(&pair.second).await;
    pair.second.cut_off().await;
    renew(&ann.journal, &ann.by).await.expect("it is alive");
    pair.fail_over().await;
    let [one, two, asleep] = &others;
    let (one_by, two_by) = tokio::join!(register(one, "one"), register(two, "two"));
    assert_eq!(one_by.incarnation.instance, two_by.incarnation.instance, "two that notice make one instance");
    assert_eq!(take(one, &one_by).await, 0, "the lease that was lost may run");
    ann.is_over().await;
    let by = register(asleep, "asleep").await;
    assert_eq!(by.incarnation.instance, one_by.incarnation.instance);
    assert_eq!(asleep.settle(instance(one).await).await, Ok(true));
    assert_eq!(take(two, &two_by).await, 1);
}

/// The volume is put back under a process; another one, which knows nothing, is there first and brings the server further than ever.
#[tokio::test(flavor = "multi_thread")]
async fn c101_a_volume_that_is_put_back_gives_no_number_twice() {
    let mut server = Server::start(Settings::default()).expect("PostgreSQL starts");
    let url = server.url(&server.database().await);
    let ann = open(&url).await;
    submit(&ann, 1).await;
    let snapshot = server.snapshot().expect("it is copied");
    let ann = Holder::begin(ann, "ann").await;
    assert_eq!(ann.by.incarnation.number, 1);
    ann.append().await.expect("it holds the job");
    server.restore(&snapshot).expect("it is put back");
    let bob = open(&url).await;
    let by = register(&bob, "bob").await;
    assert_ne!(by.incarnation.number, 1);
    assert_eq!(take(&bob, &by).await, 0, "nothing says that the server is as far as it was");
    for n in 2..40 {
        submit(&bob, n).await;
    }
    let paused = instance(&bob).await;
    ann.is_over().await;
    let new = instance(&bob).await;
    assert_ne!(new.number, paused.number, "ann had seen what the server has lost");
    assert_eq!(bob.settle(paused).await, Ok(false), "it pauses anew");
    assert_eq!(renew(&bob, &by).await, Err(Error::Lapsed { owner: by.owner.clone() }));
    let by = register(&bob, "bob").await;
    assert_eq!(bob.settle(new).await, Ok(true));
    assert_eq!(take(&bob, &by).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_started_again_finds_the_same_instance() {
    let server = Server::start(Settings::default()).expect("PostgreSQL starts");
    let url = server.url(&server.database().await);
    let folder = tempfile::tempdir().expect("a folder");
    let remember = || Options { remember: Some(folder.path().to_owned()), ..pg::options() };
    let first = Postgres::open(&url, remember()).await.expect("it opens");
    let old = instance(&first).await;
    for job in 1..4 {
        submit(&first, job).await;
    }
    drop(first);
    assert_eq!(instance(&Postgres::open(&url, remember()).await.expect("it opens")).await, old);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_started_again_is_the_same_instance() {
    let mut server = Server::start(Settings::default()).expect("PostgreSQL starts");
    let url = server.url(&server.database().await);
    let folder = tempfile::tempdir().expect("a folder");
    let remember = || Options { remember: Some(folder.path().to_owned()), ..pg::options() };
    let remembering = Postgres::open(&url, remember()).await.expect("it opens");
    let old = instance(&remembering).await;
    submit(&remembering, 1).await;
    let ann = Holder::begin(open(&url).await, "ann").await;
    server.restart().expect("it starts");
    ann.append().await.expect("nothing was lost");
    renew(&ann.journal, &ann.by).await.expect("nothing was lost");
    assert_eq!(instance(&open(&url).await).await, old, "ann had seen it before, and was there first");
    drop(remembering);
    server.restart().expect("it starts");
    assert_eq!(instance(&Postgres::open(&url, remember()).await.expect("it opens")).await, old);
    server.restart().expect("it starts");
    let stranger = open(&url).await;
    let paused = instance(&stranger).await;
    assert!(paused.number == old.number && paused.settling.is_some(), "{paused:?}");
    renew(&ann.journal, &ann.by).await.expect("a pause ends no life");
    assert_eq!(stranger.settle(old).await, Ok(false), "it was never in this pause");
    assert_eq!(stranger.settle(paused).await, Ok(true));
    assert_eq!(instance(&ann.journal).await, old);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_no_longer_than_the_pause_after_a_loss() {
    let server = Shared::join().expect("PostgreSQL starts");
    let url = server.database().await;
    let open = |lease_max_ms| {
        let options = Options { lease_max_ms, ..pg::options() };
        async { Postgres::open(&url, options).await.expect("it opens") }
    };
    let journal = open(None).await;
    let by = register(&journal, "ann").await;
    let long = Renew { lease_ms: 20_001, ..renewal(&by) };
    let refused = Error::LeaseTooLong { owner: by.owner.clone(), lease_ms: 20_001, max_ms: 15_000 };
    assert_eq!(journal.renew(long.clone()).await, Err(refused.clone()));
    assert_eq!(journal.renew(Renew { incarnation: None, ..long.clone() }).await, Err(refused));
    renew(&journal, &by).await.expect("what was refused has changed nothing");
    let raised = open(Some(20_001)).await;
    assert_eq!(
        instance(&open(Some(5)).await).await.lease_max_ms,
        20_001,
        "leases that run are not shortened"
    );
    raised.renew(long).await.expect("it is the longest");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_keep_the_promises_is_refused_in_words() {
    let settings = Settings { set: vec!["full_page_writes=off".to_owned()], ..Settings::default() };
    let server = Server::start(settings).expect("PostgreSQL starts");
    let url = server.url(&server.database().await);
    let refused = |told: Result<Postgres>, words: &str| {
        let told = told.expect_err("it must not be used").to_string();
        assert!(told.contains(words), "{told}");
    };
    refused(Postgres::open(&url, Options::default()).await, "set full_page_writes = on");
    let standby = server.standby().expect("a standby starts");
    let impatient = Options { patience: Duration::from_millis(300), ..Options::default() };
    refused(Postgres::open(&standby.url("postgres"), impatient).await, "connect to the primary");
}

#[tokio::test]
async fn a_new_instance_gives_nothing_out_until_it_is_settled() {
    assert_eq!(lost::gives_out_too_early().await, Ok(false));
}
