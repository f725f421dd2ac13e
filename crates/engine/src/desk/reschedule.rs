//! Due times that were set by a clock that was ahead are set anew.

use lastword_core::JobId;
use lastword_core::decide::reschedule;
use lastword_store as store;
use lastword_store::Store;

use super::Desk;
use crate::Error;

impl<J: Store> Desk<J> {
    /// Sets every due time anew that is too far ahead of the clock.
    pub(crate) async fn reschedule_all(&self) -> Result<(), store::Error> {
        let now = self.now().wall;
        let rows = self.live_rows().await?;
        for row in rows.iter().filter(|row| row.due.is_some_and(|due| due > now)) {
            self.reschedule(row.job).await?;
        }
        Ok(())
    }

    async fn reschedule(&self, id: JobId) -> Result<(), store::Error> {
        match self.request(id, None, |job| reschedule::decide(job, self.now().wall)).await {
            Ok(_) => Ok(()),
            Err(Error::Journal(error @ store::Error::Unavailable(_))) => Err(error),
            Err(error) => {
                let what = format!("its due time could not be checked after the clock was set back: {error}");
                self.troubles.add(
                    Some(id),
                    what,
                    "it starts when the clock shows its due time; `lastword show` tells when",
                );
                Ok(())
            }
        }
    }
}
