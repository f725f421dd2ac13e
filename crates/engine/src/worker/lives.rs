//! Watches the lives of others, in a task of its own, and ends those whose beat stood still for too long. Waits out the pause of a journal
//! that may have lost something.

use std::sync::Arc;
use std::time::Duration;

use lastword_core::life::{PauseWatch, Watch};
use lastword_store::{Error, Instance, Store};

use super::Worker;

/// The longest time between two looks at lives that other hosts may lead.
const INTERVAL_MAX: Duration = Duration::from_secs(1);

/// Watches lives.
pub(super) struct Watcher<J> {
    worker: Arc<Worker<J>>,
    /// What was seen of them.
    seen: Watch,
    /// What was seen of the pause of the journal.
    pause: PauseWatch<Instance>,
}

impl<J: Store> Watcher<J> {
    pub(super) fn new(worker: Arc<Worker<J>>) -> Watcher<J> {
        Watcher { worker, seen: Watch::default(), pause: PauseWatch::default() }
    }

    /// Runs until the engine is dropped, or the journal leaves it to others.
    pub(super) async fn run(mut self) {
        let options = &self.worker.options;
        let interval = match self.worker.desk.journal.is_shared() {
            true => (options.lease() / 10).min(INTERVAL_MAX),
            // No other host can have a life there, and a life that was replaced is in no hurry.
            false => options.sweep(),
        };
        loop {
            tokio::time::sleep(interval).await;
            match self.look().await {
                Ok(false) => {}
                Ok(true) => {
                    self.worker.desk.agenda.ask_for_sweep();
                    self.worker.desk.agenda.wake();
                }
                // A worker behind a link: its server watches.
                Err(Error::Refused(_)) => return,
                Err(error) => {
                    let what = "lives of other workers cannot be watched";
                    self.worker.desk.troubles.journal(None, what, &error);
                }
            }
        }
    }

    /// Ends the lives of others that are over, and reports whether jobs may be free now.
    async fn look(&mut self) -> Result<bool, Error> {
        let desk = &self.worker.desk;
        let instance = desk.journal.instance().await?;
        if instance.settling.is_some() {
            return self.wait_out(instance).await;
        }
        let mut lives = desk.journal.lives().await?;
        let own = self.worker.life().map(|life| life.incarnation);
        lives.retain(|life| Some(life.incarnation) != own);
        let now = desk.since_boot();
        self.seen.see(&lives, now);
        let over = self.seen.over(self.worker.options.margin_ms, now);
        for (life, beat) in &over {
            desk.journal.end_life(*life, *beat).await?;
        }
        Ok(!over.is_empty())
    }

    /// Ends the pause of the journal once it was seen for longer than any lease of an earlier instance can last. No life is ended before.
    async fn wait_out(&mut self, instance: Instance) -> Result<bool, Error> {
        let now = self.worker.desk.since_boot();
        self.pause.see(instance, now);
        if !self.pause.is_over(instance.lease_max_ms, self.worker.options.margin_ms, now) {
            return Ok(false);
        }
        self.worker.desk.journal.settle(instance).await?;
        self.pause = PauseWatch::default();
        Ok(true)
    }
}
