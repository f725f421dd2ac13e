//! One read is enough: whoever reads waits first until the deaths that have happened are stored.

use std::time::Duration;

use lastword_core::{Fence, JobId};
use lastword_store::siblings::Siblings;
use tokio::time::timeout;

use crate::shared::{Shared, lock};

/// How long a read waits for that. A guard ends a tree in milliseconds; a sweep, or a journal that is away, takes longer, and
/// then the answer says that it may be older than a death.
const SETTLE_MAX: Duration = Duration::from_secs(5);

impl<J: Siblings> Shared<J> {
    /// Waits until what is known to have ended is stored, of one job or of all. Reports whether something is still not.
    pub(crate) async fn settle(&self, of: Option<JobId>) -> bool {
        let mut unsettled = self.trees.gone(of);
        unsettled.extend(self.tasks.with_ending(of));
        if unsettled.is_empty() {
            return false;
        }
        let all = async {
            for id in unsettled {
                self.settle_one(id).await;
            }
        };
        let late = timeout(SETTLE_MAX, all).await.is_err();
        // Whoever goes down leaves what happens from then on to the next life.
        late || *self.going_down.borrow()
    }

    /// Reports whether this life follows what becomes of a job that is held like that, and did so when it had made so many tasks.
    /// Of one that an earlier life held and that could not be taken over, or whose log breaks a rule, nobody would hear.
    pub(crate) fn follows(&self, id: JobId, holder: Option<&Fence>, tasks: u64) -> bool {
        let incarnation = lock(&self.claimant).as_ref().map(|life| life.incarnation);
        let ours = holder.is_some_and(|fence| Some(fence.incarnation) == incarnation);
        ours && self.tasks.has_since(id, tasks)
    }

    async fn settle_one(&self, id: JobId) {
        let Some((_, mailbox)) = self.tasks.mailboxes(Some(id)).pop() else { return };
        let settled =
            || mailbox.is_over() || (!mailbox.has_ending() && !self.trees.gone(Some(id)).contains(&id));
        mailbox.until_settled(settled).await;
    }
}
