//! A journal that is away: nothing that could not be made durable is answered as if it were; and a daemon that is not ready yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lastword_core::reference::Reference;
use lastword_core::view::row::Row;
use lastword_core::{Append, Event, JobId, Seq};
use lastword_store::siblings::{Counts, Group, Kept, Key, Prunable, Prune, Removal, Siblings};
use lastword_store::sqlite::Sqlite;
use lastword_store::{Claim, Claimed, Error, Journal, Page, Read, Renew, Renewed, Result};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::{Answer, Daemon, Home, each, id_of};

/// A real journal that can be cut off from whoever writes to it, and made to keep whoever registers waiting.
#[derive(Clone)]
struct Faulty {
    journal: Sqlite,
    is_away: Arc<AtomicBool>,
    registers: Arc<Semaphore>,
}

impl Faulty {
    fn new(home: &Home) -> Faulty {
        let journal = Sqlite::open(&home.path("journal")).unwrap();
        Faulty {
            journal,
            is_away: Arc::default(),
            registers: Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)),
        }
    }

    fn away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::SeqCst);
    }
}

impl Journal for Faulty {
    async fn load(&self, job: JobId, after: Seq) -> Result<Vec<Event>> {
        self.journal.load(job, after).await
    }

    async fn append(&self, append: Append) -> Result<Seq> {
        match self.is_away.load(Ordering::SeqCst) {
            true => Err(Error::Unavailable("cut off by the test".to_owned())),
            false => self.journal.append(append).await,
        }
    }

    async fn claim(&self, claim: Claim) -> Result<Vec<Claimed>> {
        self.journal.claim(claim).await
    }

    async fn renew(&self, renew: Renew) -> Result<Renewed> {
        let _turn = self.registers.acquire().await.unwrap();
        self.journal.renew(renew).await
    }

    async fn read(&self, read: Read) -> Result<Page> {
        self.journal.read(read).await
    }
}

impl Siblings for Faulty {
    async fn find(&self, reference: Reference) -> Result<Vec<Row>> {
        self.journal.find(reference).await
    }

    async fn key(&self, key: Key) -> Result<Kept> {
        self.journal.key(key).await
    }

    async fn groups(&self) -> Result<Vec<Group>> {
        self.journal.groups().await
    }

    async fn add_group(&self, group: Group) -> Result<Group> {
        self.journal.add_group(group).await
    }

    async fn set_group(&self, group: Group) -> Result<()> {
        self.journal.set_group(group).await
    }

    async fn remove_group(&self, name: &str) -> Result<bool> {
        self.journal.remove_group(name).await
    }

    async fn remove(&self, job: JobId) -> Result<Removal> {
        self.journal.remove(job).await
    }

    async fn mark_read(&self, job: JobId) -> Result<()> {
        self.journal.mark_read(job).await
    }

    async fn prunable(&self, prune: Prune) -> Result<Prunable> {
        self.journal.prunable(prune).await
    }

    async fn counts(&self) -> Result<Counts> {
        self.journal.counts().await
    }
}

fn start(home: &Home, journal: &Faulty) -> Daemon {
    home.start_with(journal.clone())
}

fn unavailable(answer: &Answer) {
    assert_eq!(answer.problem(), (503, "unavailable".to_owned()));
    assert_eq!((&answer.json()["retryable"], answer.headers["retry-after"].as_str()), (&json!(true), "1"));
}

#[test]
fn c3_what_could_not_be_made_durable_is_answered_with_a_problem_and_leaves_nothing() {
    let home = Home::new();
    let journal = Faulty::new(&home);
    let daemon = start(&home, &journal);
    daemon.until_ready();
    let mut asked = daemon.script("sleep 100");
    asked["io"] = json!({ "kind": "pipe" });
    let id = daemon.submit(&asked);
    let before = daemon.start_of(&id);
    let path = format!("/v1/jobs/{id}");
    journal.away(true);
    let text = json!({ "text": "hi\n" });
    for (method, path, body) in [
        ("POST", "/v1/jobs".to_owned(), asked.clone()),
        ("POST", format!("{path}:cancel"), json!({ "force": true })),
        ("POST", "/v1/jobs:cancel".to_owned(), json!({})),
        ("POST", format!("{path}/messages"), text),
        ("PATCH", format!("{path}/limits"), json!({ "wall_ms": 90_000 })),
    ] {
        unavailable(&daemon.client.request(method, &path, &[], body.to_string().as_bytes()));
    }
    journal.away(false);
    assert_eq!(daemon.client.get(&path).expect(200), before, "nothing of it was remembered");
    assert_eq!(each(&daemon.client.get("/v1/jobs").expect(200), "id"), [id.as_str()]);
}

#[test]
fn c39_a_key_that_was_noted_before_its_job_could_be_stored_is_that_job_later() {
    let home = Home::new();
    let journal = Faulty::new(&home);
    let daemon = start(&home, &journal);
    daemon.until_ready();
    let body = daemon.script("exit 0").to_string();
    let submit = || daemon.client.request("POST", "/v1/jobs", &[("idempotency-key", "k")], body.as_bytes());
    journal.away(true);
    unavailable(&submit());
    journal.away(false);
    let job: Value = submit().expect(202);
    let again = submit();
    assert_eq!(
        (id_of(&again.expect(202)), &again.headers["idempotency-replayed"]),
        (id_of(&job), &"true".to_owned())
    );
    assert_eq!(each(&daemon.client.get("/v1/jobs").expect(200), "id"), [id_of(&job)]);
}

#[test]
fn a_daemon_that_is_not_ready_says_so_and_answers_for_itself_only() {
    let home = Home::new();
    let journal = Faulty::new(&home);
    let registers = Arc::clone(&journal.registers);
    let all = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let held = all.block_on(registers.acquire_many(Semaphore::MAX_PERMITS as u32)).ok();
    let daemon = start(&home, &journal);
    assert_eq!(daemon.client.get("/livez").status, 204);
    assert_eq!(daemon.client.get("/v1/daemon").expect(200)["ready"], false);
    for (method, path) in [
        ("GET", "/readyz"),
        ("GET", "/v1/jobs"),
        ("POST", "/v1/jobs"),
        ("GET", "/v1/events"),
        ("POST", "/v1/daemon:stop"),
    ] {
        let answer = daemon.client.request(method, path, &[], b"");
        assert_eq!(answer.problem(), (503, "starting".to_owned()), "{method} {path}");
    }
    drop(held);
    daemon.until_ready();
    assert_eq!(daemon.client.get("/v1/jobs").status, 200);
}
