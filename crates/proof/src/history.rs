//! `history`: a state folder full of jobs that have ended, quickly: real facts through the real journal, folded into rows by the
//! code that ships, and for each job the folder with its recording. For trials of how a long history weighs.

use std::error::Error;
use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use lastword_core::worker_labels::WorkerLabels;
use lastword_core::{Append, Fact, Job, JobId, Timestamp};
use lastword_store::sqlite::Sqlite;
use lastword_store::{Claim, Claimed, Journal, Source};
use tokio::task::JoinSet;

use crate::jobs;

/// Lives that go on at once: as many as one commit may carry.
const AT_ONCE: u64 = 256;

/// When the first was submitted: 2025-01-01, long before whatever is added.
const BEGIN: Timestamp = Timestamp(1_735_689_600_000);

/// Between one submission and the next, in milliseconds.
const APART_MS: u64 = 60_000;

/// The queue they wait in. No other owner claims from it, and it is empty afterwards.
const QUEUE: &str = "default";

/// Runs `history FOLDER JOBS`.
pub async fn main(words: &[&str]) -> Result<(), Box<dyn Error>> {
    let [folder, count] = words else { return Err("history FOLDER JOBS".into()) };
    let count: u64 = count.parse().map_err(|_| "history: how many jobs?")?;
    make(Path::new(folder), count).await
}

/// Fills the state folder with so many ended jobs.
pub async fn make(folder: &Path, count: u64) -> Result<(), Box<dyn Error>> {
    let journal = Sqlite::open(folder)?;
    let by = jobs::register(&journal, "history", 1 << 40).await?;
    for first in (0..count).step_by(AT_ONCE as usize) {
        let numbers = first..count.min(first + AT_ONCE);
        let at_most = (numbers.end - numbers.start) as u32;
        let mut submissions = JoinSet::new();
        for number in numbers {
            let journal = journal.clone();
            submissions.spawn(async move { journal.append(submission(number)).await });
        }
        for submitted in submissions.join_all().await {
            submitted?;
        }
        let from = Source::Ready { group: QUEUE.to_owned(), slots: None };
        let now = BEGIN.plus_ms((count + 1) * APART_MS);
        let claimed = journal
            .claim(Claim { by: by.clone(), from, labels: WorkerLabels::default(), at_most, now })
            .await?;
        let mut lives = JoinSet::new();
        for claimed in claimed {
            record(folder, claimed.job)?;
            lives.spawn(live(journal.clone(), claimed));
        }
        for lived in lives.join_all().await {
            lived?;
        }
    }
    journal.end_life(by.incarnation, 0).await?;
    Ok(())
}

fn submission(number: u64) -> Append {
    let mut random = [0x5a; 10];
    random[2..].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    let at = BEGIN.plus_ms(number * APART_MS);
    let job = Job::unborn(JobId::new(0, at, random));
    let submitted = jobs::submitted(jobs::spec(QUEUE));
    Append::new(&job, None, jobs::append_id(), at, vec![submitted]).expect("a submission opens a log").0
}

/// Appends what an owner says of a job that runs and completes.
async fn live(journal: Sqlite, claimed: Claimed) -> lastword_store::Result<()> {
    let mut job = Job::fold(claimed.job, &claimed.events).expect("a claimed log folds");
    let attempt = jobs::next_attempt(&job);
    let facts = |job: &Job, step: usize| -> Vec<Fact> {
        match step {
            0 => vec![jobs::launch_intended(job)],
            1 => vec![jobs::launched(attempt)],
            _ => jobs::completed(job),
        }
    };
    for step in 0..3 {
        let (append, next) = jobs::append(&job, Some(&claimed.fence), facts(&job, step));
        journal.append(append).await?;
        job = next;
    }
    Ok(())
}

/// Makes the folder of a job as its keeper leaves it: small files, and no process.
fn record(folder: &Path, job: JobId) -> std::io::Result<()> {
    let attempt = folder.join("jobs").join(job.to_string()).join("1");
    // The daemon refuses a folder that other users can open.
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&attempt)?;
    fs::write(attempt.join("stdout"), "one line of output\n")?;
    fs::write(attempt.join("stderr"), "")
}

#[cfg(test)]
mod tests {
    use lastword_core::view::row::PhaseName;
    use lastword_store::{Catalog as _, Filter};

    use super::*;

    #[tokio::test]
    async fn a_history_is_made_of_ended_jobs() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        make(&home, 300).await.unwrap();
        let journal = Sqlite::open(&home).unwrap();
        let rows = journal.rows(Filter::default(), None, 500).await.unwrap();
        assert_eq!(rows.len(), 300);
        assert!(rows.iter().all(|row| row.phase == PhaseName::Ended));
        assert_eq!(fs::read_dir(home.join("jobs")).unwrap().count(), 300);
    }
}
