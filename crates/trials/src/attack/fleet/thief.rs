//! A stolen token: an agent has read the enrolment of its worker, ann, and speaks the link with it from elsewhere.

use std::sync::Arc;
use std::time::Duration;

use lastword_core::decide::claim::Claimant;
use lastword_core::event::Stored;
use lastword_core::life::Place;
use lastword_core::view::row::Row;
use lastword_core::worker_labels::WorkerLabels;
use lastword_core::{Append, AppendId, AttemptNo, Event, Fact, Fence, Job, JobId, OwnerId, Seq};
use lastword_store::{Catalog, Claim, Error, Filter, Journal, List, Prune, Renew, Result as Answer, Source};

use super::super::attempt::{Attempt, Ends};
use super::super::bug::Bug;
use super::super::setup::{LOOK, PATIENCE, refused as refused_by_command, says};
use super::parties::{Fleet, stolen};
use crate::clock;
use crate::product::enrol_line;

#[rustfmt::skip] // One row, one attempt.
pub(super) const ATTEMPTS: &[Attempt<Fleet>] = &[
    Attempt { item: 25, what: "a stolen token reads jobs of others: running, waiting, ended", ends: Ends::Refused, make: read },
    Attempt { item: 25, what: "a stolen token lists jobs, lives, groups that are due, the feed", ends: Ends::Refused, make: list },
    Attempt { item: 25, what: "a stolen token ends a job of another worker: last word, receipt, late report", ends: Ends::Refused, make: end },
    Attempt { item: 25, what: "a stolen token cancels, answers, and changes limits, labels, rules and messages", ends: Ends::Refused, make: request },
    Attempt { item: 25, what: "a stolen token renews, claims or ends as another worker", ends: Ends::Refused, make: be_another },
    Attempt { item: 25, what: "a stolen token takes a tree of another worker by naming its place", ends: Ends::Refused, make: take_tree },
    Attempt { item: 25, what: "a stolen token claims jobs for labels that it was not given", ends: Ends::Survived, make: labels },
    Attempt { item: 25, what: "a stolen token says of its worker's own job that it completed", ends: Ends::Limit("A worker is believed about its own jobs"), make: lie },
    Attempt { item: 25, what: "a stolen token is used after `fleet rm`", ends: Ends::Refused, make: revoked },
    Attempt { item: 25, what: "a one-time token is used twice, guessed, or used after another one", ends: Ends::Refused, make: one_time },
];

/// Takes the words of a journal that must have refused something.
fn refused<T: std::fmt::Debug>(what: &str, answer: Answer<T>) -> Result<String, String> {
    match answer {
        Err(Error::Refused(words)) => Ok(words),
        Err(other) => Err(format!("{what}: {other:?}")),
        Ok(got) => {
            let got: String = format!("{got:?}").chars().take(120).collect();
            Err(format!("{what}: it was not refused: {got}"))
        }
    }
}

fn read(fleet: &Fleet) -> Result<String, String> {
    let running = fleet.running("bob", &["sleep", "1000"])?;
    let waiting = fleet.submitted("nowhere", &["true"])?;
    let ended = fleet.submitted("bob", &["true"])?;
    fleet.until(ended, |job| (job["phase"] == "ended").then_some(()))?;
    let (_, fence) = fleet.stored(running)?;
    let life = fence.ok_or("bob does not hold it")?.incarnation;
    let jobs = [running, waiting, ended];
    if fleet.has(Bug::WorkersSpeakSql) {
        return fleet.wait(read_all(&fleet.journal, &jobs)).map_err(|why| format!("it was read: {why}"));
    }
    let link = fleet.link(&fleet.ann.stolen()?)?;
    let words = fleet.wait(read_all(&link, &jobs))?;
    refused("what bob holds", fleet.wait(link.held(life, None, 9)))?;
    Ok(words)
}

/// Reads jobs, each of which must be refused as if it did not exist.
async fn read_all(journal: &impl Journal, jobs: &[JobId]) -> Result<String, String> {
    let nothing = JobId::new(0, jobs[0].made_at(), [7; 10]);
    let plain = |words: String, id: JobId| words.replace(&id.to_string(), "it");
    let mut all = Vec::new();
    for id in jobs.iter().copied().chain([nothing]) {
        all.push(plain(refused("a job", journal.load(id, Seq(0)).await)?, id));
    }
    let unknown = all.pop().unwrap_or_default();
    for words in all {
        if words != unknown {
            return Err(format!("one that exists: {words:?}; one that does not: {unknown:?}"));
        }
    }
    Ok(format!("{} jobs, and one that does not exist: {unknown}", jobs.len()))
}

fn list(fleet: &Fleet) -> Result<String, String> {
    let link = fleet.link(&fleet.ann.stolen()?)?;
    let (id, now) = (fleet.submitted("nowhere", &["true"])?, fleet.now());
    fleet.wait(async {
        let mut words = refused("row", link.row(id).await)?;
        refused("rows", link.rows(Filter::default(), None, 9).await)?;
        refused("list", link.list(List { limit: 9, ..List::default() }).await)?;
        refused("find", link.find("@last".parse().map_err(|_| "@last")?).await)?;
        refused("counts", link.counts().await)?;
        refused("feed", link.read(None, 9).await)?;
        refused("end of the feed", link.feed_end().await)?;
        refused("lives", link.lives().await)?;
        refused("ready", link.ready(now).await)?;
        refused("dependents", link.dependents(id).await)?;
        refused("prunable", link.prunable(Prune { before: now, unread: true, limit: 9 }).await)?;
        refused("remove", link.remove(id, now).await)?;
        words.insert_str(0, "12 verbs: ");
        Ok(words)
    })
}

/// Returns an append of a fact, whether or not it can follow.
pub(super) fn forged(job: &Job, fence: Option<&Fence>, kind: &str, body: &str) -> Result<Append, String> {
    let stored = Stored { kind: kind.to_owned(), version: 1, body: body.to_owned() };
    let fact = Fact::decode(stored).map_err(|error| format!("{kind}: {error}"))?;
    let at = job.id.made_at();
    let id = AppendId(u128::from_be_bytes(random()?));
    let events = vec![Event { seq: job.version.next(), at, fact }];
    Ok(Append {
        job: job.id,
        expected: job.version,
        fence: fence.cloned(),
        read_in: None,
        id,
        at,
        events,
        row: Row::of(job),
    })
}

fn random() -> Result<[u8; 16], String> {
    use std::io::Read as _;
    let mut bytes = [0; 16];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map(|()| bytes).map_err(|error| error.to_string())
}

/// Writes facts of these kinds under each fence. None may be stored.
async fn write_all(
    journal: &impl Journal,
    job: &Job,
    fences: &[Option<Fence>],
    facts: &[(&str, &str)],
) -> Result<String, String> {
    let mut last = String::new();
    for (kind, body) in facts {
        for fence in fences {
            let answer = journal.append(forged(job, fence.as_ref(), kind, body)?).await;
            last = refused(kind, answer).map_err(|why| format!("{why} (as {fence:?})"))?;
        }
    }
    Ok(format!("{} of {0} writes: {last}", facts.len() * fences.len()))
}

/// What ends a job.
#[rustfmt::skip] // One row, one fact.
const ENDINGS: &[(&str, &str)] = &[
    ("attempt_ended", r#"{"attempt":1,"cause":"finished","outcome":"completed","receipt":{"level":"subreaper","proof":"no_children","processes":[],"rungs":[],"leftovers":[],"output":{"seen":0,"kept":0}}}"#),
    ("last_word", r#"{"attempt":1,"cause":"finished","outcome":"completed"}"#),
    ("late_reported", r#"{"epoch":1,"what":"attempt 1: tree empty"}"#),
    ("released", r#"{"epoch":1}"#),
];

/// What only people and servers write.
#[rustfmt::skip] // One row, one fact.
const REQUESTS: &[(&str, &str)] = &[
    ("cancel_requested", r#"{"asked":"user","by":"ann","force":true}"#),
    ("answer_requested", r#"{"by":"ann","input":1,"question":"q1","text":"yes"}"#),
    ("limit_changed", r#"{"by":"ann","limit":"wall","value":0}"#),
    ("labels_changed", r#"{"by":"ann","labels":{"team":"core"}}"#),
    ("rule_added", r#"{"by":"ann","exact":"[\"Bash\",{\"command\":\"make\"}]","request":"make","rule":1,"tool":"Bash"}"#),
    ("input_requested", r#"{"by":"ann","input":1,"text":"and the docs"}"#),
    ("interrupt_requested", r#"{"by":"ann","turn":1}"#),
    ("abandoned", r#"{"by":"ann"}"#),
];

/// Makes sure that the log of a job is as it was.
fn is_unchanged(fleet: &Fleet, before: &Job) -> Result<(), String> {
    let (after, _) = fleet.stored(before.id)?;
    match after.version == before.version {
        true => Ok(()),
        false => Err(format!("it was written: version {} is now {}", before.version, after.version)),
    }
}

fn end(fleet: &Fleet) -> Result<String, String> {
    let id = fleet.running("bob", &["sleep", "1000"])?;
    let (job, fence) = fleet.stored(id)?;
    let bobs = fence.ok_or("bob does not hold it")?;
    let as_ann = Fence { owner: OwnerId("ann".into()), ..bobs.clone() };
    let link = fleet.link(&fleet.ann.stolen()?)?;
    let words = fleet.wait(write_all(&link, &job, &[Some(bobs), Some(as_ann), None], ENDINGS))?;
    is_unchanged(fleet, &job)?;
    Ok(words)
}

fn request(fleet: &Fleet) -> Result<String, String> {
    let (others, own) =
        (fleet.running("bob", &["sleep", "1000"])?, fleet.running("ann", &["sleep", "1000"])?);
    let ((others, _), (own, fence)) = (fleet.stored(others)?, fleet.stored(own)?);
    if fleet.has(Bug::WorkersSpeakSql) {
        let written = fleet.wait(write_all(&fleet.journal, &own, &[None], &REQUESTS[..1]));
        return written.map_err(|why| format!("it was written: {why}"));
    }
    let link = fleet.link(&fleet.ann.stolen()?)?;
    fleet.wait(write_all(&link, &others, &[None, fence.clone()], REQUESTS))?;
    let words = fleet.wait(write_all(&link, &own, &[None, fence], REQUESTS))?;
    is_unchanged(fleet, &others)?;
    is_unchanged(fleet, &own)?;
    Ok(format!("a job of another, and its own: {words}"))
}

fn be_another(fleet: &Fleet) -> Result<String, String> {
    let id = fleet.running("bob", &["sleep", "1000"])?;
    let (job, fence) = fleet.stored(id)?;
    let (life, holder) = (fence.ok_or("bob does not hold it")?.incarnation, job.holder.ok_or("no holder")?);
    let bob = OwnerId("bob".into());
    let place = Place::new(&holder.host.0, "another-boot");
    let link = fleet.link(&fleet.ann.stolen()?)?;
    let renew =
        |incarnation| Renew { owner: bob.clone(), place: place.clone(), incarnation, lease_ms: 60_000 };
    let by = Claimant { owner: bob.clone(), incarnation: life, host: holder.host, boot: None };
    fleet.wait(async {
        refused("registers as bob", link.renew(renew(None)).await)?;
        refused("renews bob's lease", link.renew(renew(Some(life))).await)?;
        refused("claims as bob", link.claim(claim(fleet, by, Source::Expired, &[])).await)?;
        let words = refused("ends bob's life", link.end_life(life, 0).await)?;
        Ok::<String, String>(format!("4 of 4: {words}"))
    })
}

fn claim(fleet: &Fleet, by: Claimant, from: Source, labels: &[&str]) -> Claim {
    let labels = WorkerLabels::from_key(&labels.join(" "));
    Claim { by, from, labels, at_most: 9, now: fleet.now() }
}

/// Returns ann's present life as a claimant, which an attacker learns from a job that it holds.
fn ann(fleet: &Fleet) -> Result<Claimant, String> {
    let id = fleet.running("ann", &["sleep", "1000"])?;
    let (job, fence) = fleet.stored(id)?;
    let holder = job.holder.ok_or("ann does not hold it")?;
    let fence = fence.ok_or("ann does not hold it")?;
    Ok(Claimant { owner: fence.owner, incarnation: fence.incarnation, host: holder.host, boot: None })
}

fn take_tree(fleet: &Fleet) -> Result<String, String> {
    let id = fleet.running("bob", &["sleep", "1000"])?;
    let (job, _) = fleet.stored(id)?;
    let there = job.holder.clone().ok_or("bob does not hold it")?.host;
    let ann = ann(fleet)?;
    let link = fleet.link(&fleet.ann.stolen()?)?;
    let alive = Source::Alive { trees: vec![(id, AttemptNo(1))] };
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let boot: Arc<str> = boot.trim().into();
    let named = Claimant { host: there, ..ann.clone() };
    let words = fleet.wait(async {
        let words =
            refused("another place", link.claim(claim(fleet, named.clone(), alive.clone(), &[])).await)?;
        refused("another place", link.claim(claim(fleet, named, Source::Expired, &[])).await)?;
        let at_boot = Claimant { boot: Some(boot), ..ann };
        match link.claim(claim(fleet, at_boot, alive, &[])).await {
            Ok(taken) if taken.is_empty() => Ok(words),
            other => Err(format!("its own place: {other:?}")),
        }
    })?;
    is_unchanged(fleet, &job)?;
    Ok(words)
}

fn labels(fleet: &Fleet) -> Result<String, String> {
    let id = fleet.submitted("vault", &["true"])?;
    let by = ann(fleet)?;
    let link = fleet.link(&fleet.ann.stolen()?)?;
    let (job, _) = fleet.stored(id)?;
    let group = job.spec.as_ref().map(|spec| spec.group.clone()).unwrap_or_default();
    let from = Source::Ready { group, slots: None };
    let taken = fleet.wait(link.claim(claim(fleet, by, from, &["ann", "vault", "bob"])));
    is_unchanged(fleet, &job)?;
    match taken {
        Ok(taken) if taken.is_empty() => Ok("it gets none: its labels are those of its enrolment".to_owned()),
        other => Err(format!("{other:?}")),
    }
}

fn lie(fleet: &Fleet) -> Result<String, String> {
    let id = fleet.running("ann", &["sleep", "1000"])?;
    let (job, fence) = fleet.stored(id)?;
    let fence = fence.ok_or("ann does not hold it")?;
    let link = fleet.link(&fleet.ann.stolen()?)?;
    let written = fleet.wait(async {
        let mut append = forged(&job, Some(&fence), ENDINGS[0].0, ENDINGS[0].1)?;
        let mut last = forged(&job, Some(&fence), ENDINGS[1].0, ENDINGS[1].1)?.events.remove(0);
        last.seq = last.seq.next();
        append.events.push(last);
        link.append(append).await.map_err(|error| error.to_string())
    });
    written.map_err(|why| format!("the lie did not count: {why}; mend the page"))?;
    let shown = fleet.show(id)?;
    let leader = shown["attempts"][0]["pid"].as_i64().unwrap_or_default();
    let is_gone = || (!std::path::Path::new(&format!("/proc/{leader}")).exists()).then_some(());
    // Its worker is not told: it is the one that writes so.
    let goes_on = clock::until(Duration::from_secs(2), LOOK, is_gone).is_none();
    match shown["outcome"] == "completed" {
        true => Ok(format!("it is shown as completed, and its process goes on: {goes_on}")),
        false => Err(format!("{}; mend the page", shown["outcome"])),
    }
}

fn revoked(fleet: &Fleet) -> Result<String, String> {
    let eve = fleet.enrolled("eve", None)?;
    let stolen = stolen(&eve)?;
    let link = fleet.link(&stolen)?;
    fleet.server.product.said(&["fleet", "rm", "eve"])?;
    let id = JobId::new(0, fleet.now(), [9; 10]);
    // A connection that is cut off is one without an answer; a new one is refused.
    let cut = clock::until(PATIENCE, LOOK, || match fleet.wait(link.load(id, Seq(0))) {
        Err(Error::Refused(_)) => None,
        other => Some(format!("{other:?}")),
    });
    let cut = cut.ok_or("its connection goes on")?;
    says(&cut, "Unavailable")?;
    match fleet.link(&stolen) {
        Ok(_) => Err("it is let in again".to_owned()),
        Err(words) => says(&words, "not known"),
    }
}

fn one_time(fleet: &Fleet) -> Result<String, String> {
    let add = || fleet.server.product.said(&["fleet", "add", "dan"]);
    let (replaced, used) = (add()?, add()?);
    let own = fleet.install("dan", None)?;
    own.said(&enrol_line(&used)?)?;
    let guessed = used.split_whitespace().map(|word| match word.len() == 64 && !replaced.contains(word) {
        true => "0".repeat(64),
        false => word.to_owned(),
    });
    let guessed = guessed.collect::<Vec<_>>().join(" ");
    let guessed = &guessed[guessed.find("lastword ").unwrap_or(0)..];
    let other = fleet.install("thief", None)?;
    let mut words = Vec::new();
    for line in [used.as_str(), guessed, replaced.as_str()] {
        let said = refused_by_command(&other.run(&enrol_line(line)?)?)?;
        words.push(says(&said, "one-time token")?);
    }
    match other.home().join("enrolment.json").exists() {
        true => Err("it is enrolled".to_owned()),
        false => Ok(words.join("; ")),
    }
}
