//! Watches the lives of others, and ends those whose beat stood still for too long.

use std::time::Duration;

use lastword_store::{Error, Instance, Store};
use tokio::time::Instant;

use super::life::Life;

/// The longest pause between two looks at lives that other hosts may lead.
const PAUSE_MAX: Duration = Duration::from_secs(1);

impl<J: Store> Life<J> {
    /// Ends the lives of others that are over, and reports whether there were any. A journal that cannot be read is read again later.
    pub(super) async fn end_lives(&mut self) -> bool {
        let options = &self.worker.options;
        // A sweep is often enough where no other host can have a life.
        let pause = (options.lease() / 10).min(PAUSE_MAX);
        self.watch_at = self.worker.desk.journal.is_shared().then(|| Instant::now() + pause);
        match self.try_end_lives().await {
            Ok(ended) => ended,
            Err(error) => {
                self.worker.desk.troubles.journal(None, "lives of other workers cannot be watched", &error);
                false
            }
        }
    }

    async fn try_end_lives(&mut self) -> Result<bool, Error> {
        let desk = &self.worker.desk;
        let instance = desk.journal.instance().await?;
        if instance.settling.is_some() {
            return self.wait_for_pause(instance).await;
        }
        let mut lives = desk.journal.lives().await?;
        let own = self.worker.life().map(|life| life.incarnation);
        lives.retain(|life| Some(life.incarnation) != own);
        let now = desk.since_boot();
        self.watch.see(&lives, now);
        let over = self.watch.over(self.worker.options.margin_ms, now);
        for (life, beat) in &over {
            desk.journal.end_life(*life, *beat).await?;
        }
        Ok(!over.is_empty())
    }

    /// Ends the pause of the journal once it was seen for longer than any lease of an earlier instance can last. Nobody's life is ended before.
    async fn wait_for_pause(&mut self, instance: Instance) -> Result<bool, Error> {
        // After the answer: the pause may be as young as that.
        let now = self.worker.desk.since_boot();
        let seen = self.pause.filter(|(seen, _)| *seen == instance);
        let (_, since) = *self.pause.insert(seen.unwrap_or((instance, now)));
        let longest = instance.lease_max_ms.saturating_add(self.worker.options.margin_ms);
        if since.plus_ms(longest) > now {
            return Ok(false);
        }
        self.worker.desk.journal.settle(instance).await?;
        self.pause = None;
        self.worker.desk.agenda.ask_for_sweep();
        Ok(true)
    }
}
