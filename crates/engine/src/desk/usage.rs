//! The jobs that lived at some time since a moment, for sums over them.

use lastword_core::Timestamp;
use lastword_core::view::row::{Row, Section};
use lastword_store::{After, List, Store};

use super::Desk;
use crate::Error;

/// Rows read at once.
const PAGE: usize = 500;

impl<J: Store> Desk<J> {
    /// Passes on the row of each job that has not ended, or ended since a moment; at most `max` of them. Reports whether that was all.
    pub async fn lived_since(
        &self,
        since: Timestamp,
        max: usize,
        mut pass_on: impl FnMut(Row) + Send,
    ) -> Result<bool, Error> {
        let mut left = max;
        for section in Section::ALL {
            let mut after = None;
            loop {
                let list = List { sections: vec![section], after, limit: PAGE as u32, ..List::default() };
                let rows = self.journal.list(list).await?;
                let is_last = rows.len() < PAGE;
                after = rows.last().map(|last| {
                    let now = self.now().wall;
                    let (changed_at, job) = (last.row.changed_at, last.row.job);
                    After { section, changed_at, job, since: now, now }
                });
                // A section is in the order of its changes, so nothing follows an ending that is too old.
                let mut is_over = is_last;
                for listed in rows {
                    if section.is_ended() && listed.row.changed_at < since {
                        is_over = true;
                        break;
                    }
                    if left == 0 {
                        return Ok(false);
                    }
                    left -= 1;
                    pass_on(listed.row);
                }
                if is_over {
                    break;
                }
            }
        }
        Ok(true)
    }
}
