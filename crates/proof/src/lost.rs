//! A database that has lost what it gave: whether it is noticed, and whether the new instance waits.

use lastword_core::decide::claim::Claimant;
use lastword_core::worker_labels::WorkerLabels;
use lastword_store::memory::Memory;
use lastword_store::postgres::Postgres;
use lastword_store::{Claim, Journal, Result, Source};

use crate::jobs;
use crate::pg::{Server, options};

async fn register(journal: &impl Journal, owner: &str) -> Result<Claimant> {
    jobs::register(journal, owner, 1 << 20).await
}

/// Claims a job, and returns how many it was given.
async fn claim(journal: &impl Journal, by: Claimant) -> Result<usize> {
    let from = Source::Ready { group: "q".to_owned(), slots: None };
    Ok(journal
        .claim(Claim { by, from, labels: WorkerLabels::default(), at_most: 1, now: jobs::NOW.plus_ms(1) })
        .await?
        .len())
}

/// Begins another instance of a journal, and reports whether it gives a job out before it is settled, or none after.
pub async fn gives_out_too_early() -> Result<bool> {
    let journal = Memory::new(1);
    let (append, _) = jobs::submit(1, jobs::spec("q"), jobs::NOW);
    journal.append(append).await?;
    journal.replace_instance(2);
    let by = register(&journal, "ann").await?;
    let mut early = claim(&journal, by.clone()).await?;
    early += journal
        .claim(Claim {
            by: by.clone(),
            from: Source::Expired,
            labels: WorkerLabels::default(),
            at_most: 9,
            now: jobs::NOW,
        })
        .await?
        .len();
    let settled = journal.settle(journal.instance().await?).await?;
    Ok(early > 0 || !settled || claim(&journal, by).await? != 1)
}

/// Puts the files of a server back under a process, and reports whether that goes on as if nothing was lost.
///
/// # Panics
/// If the server does not start.
pub async fn is_missed(mut server: Server) -> Result<bool> {
    let url = server.url(&server.database().await);
    let journal = Postgres::open(&url, options()).await?;
    let before = register(&journal, "ann").await?;
    let snapshot = server.snapshot().expect("it is copied");
    register(&journal, "bob").await?;
    server.restore(&snapshot).expect("it is put back");
    let again = register(&journal, "ann").await;
    Ok(again.is_ok_and(|again| again.incarnation.instance == before.incarnation.instance)
        || journal.instance().await?.settling.is_none())
}
