//! Every backend answers random operations like the journal in memory, and one that does not is found.

use lastword_core::{Append, Event, JobId, Seq};
use lastword_proof::differential::{Coverage, Divergence, compare};
use lastword_proof::{backends, for_each_backend};
use lastword_store::memory::Memory;
use lastword_store::{Claim, Claimed, Journal, Page, Read, Renew, Renewed, Result};

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

/// How a journal can misbehave.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// It has no news for anyone.
    DropsNews,
    /// It forgets the newest event of a job when asked for a part of its log.
    LoadsShort,
    /// It takes a job too many.
    TakesMore,
    /// It answers a repeat with a conflict.
    DeniesRepeats,
    /// It shows rows oldest first.
    ListsBackwards,
    /// It skips the third event of the feed.
    SkipsInFeed,
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

    async fn read(&self, read: Read) -> Result<Page> {
        let mut page = self.0.read(read).await?;
        match &mut page {
            Page::Rows(rows) if self.1 == Fault::ListsBackwards => rows.reverse(),
            Page::Feed { events, .. } if self.1 == Fault::SkipsInFeed && events.len() > 3 => {
                // The count stays right, so only a comparison of what was told can find it.
                let doubled = events[3].clone();
                events[2] = doubled;
            }
            _ => {}
        }
        Ok(page)
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
        Fault::ListsBackwards,
        Fault::SkipsInFeed,
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
