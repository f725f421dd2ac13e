//! Git at work: a bounded number of calls at once, on threads of their own.

use std::io;
use std::sync::Arc;

use lastword_git::{Error, Worktrees};
use tokio::sync::Semaphore;

/// Git calls at once. Each holds a thread, perhaps for minutes; two keep a disk busy.
const GITS_MAX: usize = 2;

/// The worktrees of this host, and the permits to call git on them.
pub(super) struct Gits {
    pub(super) worktrees: Arc<Worktrees>,
    permits: Arc<Semaphore>,
}

impl Gits {
    pub(super) fn new(worktrees: Worktrees) -> Gits {
        Gits { worktrees: Arc::new(worktrees), permits: Arc::new(Semaphore::new(GITS_MAX)) }
    }

    /// Runs git on a thread that may block.
    pub(super) async fn run<R: Send + 'static>(
        &self,
        run: impl FnOnce(&Worktrees) -> Result<R, Error> + Send + 'static,
    ) -> Result<R, Error> {
        let worktrees = Arc::clone(&self.worktrees);
        // The semaphore is never closed.
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.map_err(|error| failed(error.to_string()))?;
        let ran = tokio::task::spawn_blocking(move || {
            let answer = run(&worktrees);
            drop(permit);
            answer
        });
        ran.await.map_err(|error| failed(error.to_string()))?
    }
}

/// Returns the error of a call that did not come to git.
pub(super) fn failed(why: String) -> Error {
    Error::Disk { what: "cannot use worktrees".to_owned(), source: io::Error::other(why) }
}
