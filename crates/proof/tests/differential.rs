//! Every backend answers random operations like the journal in memory, and one that does not is found.

use lastword_core::budget::{Budget, Day, Spent};
use lastword_core::life::Life;
use lastword_core::reference::Reference;
use lastword_core::view::row::Row;
use lastword_core::{Append, Event, Incarnation, JobId, Seq, Timestamp};
use lastword_proof::differential::{Coverage, Divergence, compare};
use lastword_proof::{backends, for_each_backend};
use lastword_store::hints::Hints;
use lastword_store::memory::Memory;
use lastword_store::{
    Catalog, Claim, Claimed, Counts, Cursor, Feed, Filter, Group, GroupCounts, Groups, Instance, Journal,
    Key, KeyRecord, Keys, List, Listed, Prunable, Prune, Ready, Removal, Renew, Renewed, Result, WaitOver,
};

/// Runs of one test. Coverage is full long before; the rest is for what two journals might differ in.
const SEEDS: u64 = 25;

/// Operations of one run: some thirty jobs, most of them through several owners.
const STEPS: usize = 400;

/// Makes one test for each backend.
macro_rules! tests {
    ($($backend:ident;)*) => {
        $(mod $backend {
            use super::*;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn answers_like_memory() {
                let mut coverage = Coverage::default();
                for seed in 0..SEEDS {
                    let (reference, ()) = backends::memory().await;
                    let (journal, _guard) = backends::$backend().await;
                    let run = compare(stringify!($backend), seed, STEPS, (reference, journal)).await;
                    coverage.add(&run.unwrap_or_else(|divergence| panic!("{divergence}")));
                }
                assert!(coverage.is_full(), "{coverage:?}");
            }
        })*
    };
}

for_each_backend!(tests);

/// PostgreSQL keeps a count of held jobs for each group with a bound: it is that of the jobs, whatever was done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_are_counted_as_they_are() {
    for seed in 100..106 {
        let (reference, ()) = backends::memory().await;
        let (journal, _guard) = backends::postgres().await;
        let run = compare("postgres", seed, STEPS, (reference, journal.clone())).await;
        run.unwrap_or_else(|divergence| panic!("{divergence}"));
        assert_eq!(journal.check_counts().await, Ok(()), "seed {seed}");
    }
}

/// How a journal can misbehave.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// It reports no news to any owner.
    DropsNews,
    /// It forgets the newest event of a job when asked for a part of its log.
    LoadsShort,
    /// It takes a job too many.
    TakesMore,
    /// It answers a repeat with a conflict.
    DeniesRepeats,
    /// It begins anew when asked what an owner holds after a job.
    HoldsFromTheBeginning,
    /// It shows rows oldest first.
    ListsBackwards,
    /// It skips the third event of the feed.
    SkipsInFeed,
    /// It stores no budget.
    ForgetsBudgets,
}

/// The journal in memory, with a fault.
#[derive(Clone)]
struct Faulty(Memory, Fault);

impl Journal for Faulty {
    async fn load(&self, job: JobId, after: Seq) -> Result<Vec<Event>> {
        let mut events = self.0.load(job, after).await?;
        if self.1 == Fault::LoadsShort && after > Seq(0) {
            events.pop();
        }
        Ok(events)
    }

    async fn append(&self, append: Append) -> Result<Seq> {
        let (job, expected) = (append.job, append.expected);
        let before = self.0.load(job, Seq(0)).await?.len() as u64;
        let answer = self.0.append(append).await;
        if self.1 == Fault::DeniesRepeats && answer.is_ok() && expected < Seq(before) {
            return Err(lastword_store::Error::Conflict { job, actual: Seq(before) });
        }
        answer
    }

    async fn claim(&self, mut claim: Claim) -> Result<Vec<Claimed>> {
        if self.1 == Fault::TakesMore {
            claim.at_most += 1;
        }
        self.0.claim(claim).await
    }

    async fn renew(&self, renew: Renew) -> Result<Renewed> {
        let mut renewed = self.0.renew(renew).await?;
        if self.1 == Fault::DropsNews {
            renewed.news.clear();
        }
        Ok(renewed)
    }

    async fn lives(&self) -> Result<Vec<Life>> {
        self.0.lives().await
    }

    async fn end_life(&self, life: Incarnation, beat: u64) -> Result<bool> {
        self.0.end_life(life, beat).await
    }

    fn is_shared(&self) -> bool {
        self.0.is_shared()
    }

    async fn instance(&self) -> Result<Instance> {
        self.0.instance().await
    }

    fn instance_seen(&self) -> Option<u64> {
        self.0.instance_seen()
    }

    async fn settle(&self, instance: Instance) -> Result<bool> {
        self.0.settle(instance).await
    }

    async fn held(&self, by: Incarnation, after: Option<JobId>, limit: u32) -> Result<Vec<JobId>> {
        let after = after.filter(|_| self.1 != Fault::HoldsFromTheBeginning);
        self.0.held(by, after, limit).await
    }

    async fn read(&self, after: Option<Cursor>, limit: u32) -> Result<Feed> {
        let mut feed = self.0.read(after, limit).await?;
        if self.1 == Fault::SkipsInFeed && feed.events.len() > 3 {
            // The count stays right, so only a comparison of what was told can find it.
            let doubled = feed.events[3].clone();
            feed.events[2] = doubled;
        }
        Ok(feed)
    }

    async fn dependents(&self, other: JobId) -> Result<Vec<JobId>> {
        self.0.dependents(other).await
    }

    async fn waits_over(&self, after: Option<(JobId, JobId)>, limit: u32) -> Result<Vec<WaitOver>> {
        self.0.waits_over(after, limit).await
    }

    async fn ready(&self, now: Timestamp) -> Result<Ready> {
        self.0.ready(now).await
    }

    fn hints(&self) -> Hints {
        self.0.hints()
    }
}

impl Catalog for Faulty {
    async fn row(&self, job: JobId) -> Result<Option<Row>> {
        self.0.row(job).await
    }

    async fn rows(&self, filter: Filter, before: Option<JobId>, limit: u32) -> Result<Vec<Row>> {
        let mut rows = self.0.rows(filter, before, limit).await?;
        if self.1 == Fault::ListsBackwards {
            rows.reverse();
        }
        Ok(rows)
    }

    async fn list(&self, list: List) -> Result<Vec<Listed>> {
        self.0.list(list).await
    }

    async fn listed(&self, jobs: Vec<JobId>) -> Result<Vec<Listed>> {
        self.0.listed(jobs).await
    }

    async fn find(&self, reference: Reference) -> Result<Vec<Row>> {
        self.0.find(reference).await
    }

    async fn counts(&self) -> Result<Counts> {
        self.0.counts().await
    }

    async fn counts_by_group(&self) -> Result<GroupCounts> {
        self.0.counts_by_group().await
    }

    async fn mark_seen(&self, job: JobId, now: Timestamp) -> Result<()> {
        self.0.mark_seen(job, now).await
    }

    async fn prunable(&self, prune: Prune) -> Result<Prunable> {
        self.0.prunable(prune).await
    }

    async fn remove(&self, job: JobId, now: Timestamp) -> Result<Removal> {
        self.0.remove(job, now).await
    }
}

impl Groups for Faulty {
    async fn groups(&self) -> Result<Vec<Group>> {
        self.0.groups().await
    }

    async fn add_group(&self, group: Group) -> Result<Group> {
        self.0.add_group(group).await
    }

    async fn set_group(&self, group: Group) -> Result<()> {
        let forgets = self.1 == Fault::ForgetsBudgets;
        let budget = if forgets { Budget::default() } else { group.budget };
        self.0.set_group(Group { budget, ..group }).await
    }

    async fn spent(&self, day: Day) -> Result<Vec<(String, Spent)>> {
        self.0.spent(day).await
    }

    async fn remove_group(&self, name: &str) -> Result<bool> {
        self.0.remove_group(name).await
    }
}

impl Keys for Faulty {
    async fn key(&self, key: Key) -> Result<KeyRecord> {
        self.0.key(key).await
    }
}

async fn found(fault: Fault) -> Box<Divergence> {
    for seed in 0..SEEDS {
        let pair = (Memory::new(1), Faulty(Memory::new(2), fault));
        if let Err(divergence) = compare("memory", seed, STEPS, pair).await {
            return divergence;
        }
    }
    panic!("{fault:?} was not found in {SEEDS} runs")
}

#[tokio::test]
async fn each_fault_of_a_journal_is_found() {
    for fault in [
        Fault::DropsNews,
        Fault::LoadsShort,
        Fault::TakesMore,
        Fault::DeniesRepeats,
        Fault::HoldsFromTheBeginning,
        Fault::ListsBackwards,
        Fault::SkipsInFeed,
        Fault::ForgetsBudgets,
    ] {
        found(fault).await;
    }
}

#[tokio::test]
async fn a_divergence_prints_the_command_that_replays_it() {
    let divergence = found(Fault::DropsNews).await;
    let text = divergence.to_string();
    let command = format!(
        "replay: cargo run -p lastword-proof -- differential memory --seed {} --steps {STEPS}",
        divergence.seed
    );
    assert_eq!(text.lines().last(), Some(command.as_str()));
    assert!(text.contains("Renew"), "{text}");
}

#[tokio::test]
async fn a_seed_always_goes_the_same_way() {
    let runs = [
        compare("memory", 3, STEPS, (Memory::new(1), Memory::new(2))).await,
        compare("memory", 3, STEPS, (Memory::new(7), Memory::new(8))).await,
    ];
    let [Ok(one), Ok(other)] = runs else { panic!("{runs:?}") };
    assert_eq!(one, other);
}
