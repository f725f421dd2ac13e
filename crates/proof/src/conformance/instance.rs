//! `instance` and `settle`: which instance of a journal this is, and the pause that a new one begins with.

use lastword_store::{Instance, Store};

use super::stage::{LEASE_MS, QUEUE, from_queue, register, renew, submit, take};
use crate::jobs;

/// Nothing was given before, so there is nothing to wait for.
pub async fn a_new_journal_does_not_pause<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    let instance = journal.instance().await.expect("it is there");
    assert_eq!((instance.number, instance.settling), (ann.incarnation.instance, None));
    assert!(instance.lease_max_ms >= LEASE_MS, "{instance:?}");
    assert!(!renew(&journal, &ann).await.expect("it is alive").settling);
    submit(&journal, 1, jobs::spec(QUEUE)).await;
    take(&journal, from_queue(&ann, QUEUE, 1)).await;
}

/// A caller that comes late, or means another instance, ends no pause.
pub async fn only_the_present_pause_can_be_ended<J: Store>(journal: J) {
    let present = journal.instance().await.expect("it is there");
    let other = Instance { number: present.number ^ 1, settling: Some(1), ..present };
    for instance in [present, other, Instance { settling: Some(1), ..present }] {
        assert_eq!(journal.settle(instance).await, Ok(false), "{instance:?}");
    }
    assert_eq!(journal.instance().await, Ok(present));
}
