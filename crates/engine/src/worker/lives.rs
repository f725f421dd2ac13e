//! Watches the lives of others, in a task of its own, and ends those whose beat stood still for too long. Waits out the pause of a journal
//! that may have lost something.

use std::sync::Arc;
use std::time::Duration;

use lastword_core::life::{PauseWatch, Watch};
use lastword_store::{Beats, Error, Instance, Store};

use super::Worker;

/// The longest time between two reads of lives that other hosts may lead. A beat is seen so much later at most, and a life counts as over
/// so much later. Whether it is over is looked at when it may be.
const INTERVAL_MAX: Duration = Duration::from_secs(2);

/// And the part of a lease that it is at most.
const INTERVALS_PER_LEASE: u32 = 7;

/// Pause after the journal was unavailable.
const RETRY: Duration = Duration::from_millis(500);

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
        loop {
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
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    /// Returns how long to wait for the next beats: until a life, or the pause of the journal, may be over, and not for longer than a beat
    /// may go unseen.
    fn next_within(&self) -> Duration {
        let options = &self.worker.options;
        if !self.worker.desk.journal.is_shared() {
            // No other host can have a life there, and a life that was replaced is in no hurry.
            return options.sweep();
        }
        let interval = (options.lease() / INTERVALS_PER_LEASE).min(INTERVAL_MAX);
        let now = self.worker.desk.since_boot();
        let over = match self.pause.seen() {
            Some(pause) => self.pause.ends(pause.lease_max_ms, options.margin_ms),
            None => self.seen.first_over(options.margin_ms),
        };
        over.map_or(interval, |over| interval.min(Duration::from_millis(over.0.saturating_sub(now.0))))
    }

    /// Waits for the next beats, ends the lives of others that are over, and reports whether jobs may be free now.
    async fn look(&mut self) -> Result<bool, Error> {
        let desk = &self.worker.desk;
        let Beats { instance, mut lives } = desk.journal.beats(self.next_within()).await?;
        if instance.settling.is_some() {
            return self.wait_out(instance).await;
        }
        self.pause = PauseWatch::default();
        let own = self.worker.life().map(|life| life.incarnation);
        lives.retain(|life| Some(life.incarnation) != own);
        let now = desk.since_boot();
        // One that is gone was ended by another process, which may not have come to taking over its jobs.
        let is_one_gone = self.seen.see(&lives, now);
        let over = self.seen.over(self.worker.options.margin_ms, now);
        for (life, beat) in &over {
            desk.journal.end_life(*life, *beat).await?;
            self.seen.forget(*life);
        }
        Ok(is_one_gone || !over.is_empty())
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
