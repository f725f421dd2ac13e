//! One read is enough: a read first waits until the deaths that have happened are stored.

use std::time::Duration;

use lastword_core::{Fence, JobId};
use lastword_store::Store;
use tokio::time::timeout;

use super::Worker;
use crate::Duties;

/// How long a read waits for that. A guard ends a tree in milliseconds; a sweep or an unavailable journal takes longer, and then the answer
/// says that it may be older than a death.
const SETTLE_MAX: Duration = Duration::from_secs(5);

impl<J: Store> Worker<J> {
    /// Waits until known endings are stored, of one job or of all. Reports whether one is still not.
    pub(crate) async fn settle(&self, of: Option<JobId>) -> bool {
        let mut unsettled = self.host.gone(of);
        unsettled.extend(self.desk.agenda.tasks.with_ending(of));
        if unsettled.is_empty() {
            return false;
        }
        let all = async {
            for id in unsettled {
                self.settle_one(id).await;
            }
        };
        let late = timeout(SETTLE_MAX, all).await.is_err();
        // What happens after a shutdown began is for the next life.
        late || *self.going_down.borrow()
    }

    /// Reports whether this life holds the job and had its task when it had made so many tasks. A job that an earlier life held and that could
    /// not be taken over, or whose log breaks a rule, has no task: its death would go unnoticed.
    pub(crate) fn follows(&self, id: JobId, holder: Option<&Fence>, tasks: u64) -> bool {
        let incarnation = self.life().map(|life| life.incarnation);
        let ours = holder.is_some_and(|fence| Some(fence.incarnation) == incarnation);
        // A server has no trees: each is followed by the worker that holds it.
        let is_elsewhere = self.options.duties == Duties::Clerk && holder.is_some();
        is_elsewhere || ours && self.desk.agenda.tasks.has_since(id, tasks)
    }

    async fn settle_one(&self, id: JobId) {
        let Some((_, mailbox)) = self.desk.agenda.tasks.mailboxes(Some(id)).pop() else { return };
        let settled =
            || mailbox.is_over() || (!mailbox.has_ending() && !self.host.gone(Some(id)).contains(&id));
        mailbox.until_settled(settled).await;
    }
}
