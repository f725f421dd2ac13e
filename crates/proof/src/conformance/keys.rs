//! Keys of repeated requests.

use lastword_core::Timestamp;
use lastword_store::{KEY_MS, Key, KeyRecord, Removal, Store};

use super::stage::{QUEUE, at_once, submit, write};
use crate::jobs::{self, NOW, id};

/// Returns a key of the `job`th job.
pub(super) fn key(key: &str, fingerprint: u128, job: u64, now: Timestamp) -> Key {
    Key { key: key.to_owned(), fingerprint, job: id(job), now }
}

/// The first job stands, whatever comes with the key later; other keys have their own.
pub async fn c10_a_key_is_given_to_one_job<J: Store>(journal: J) {
    let record =
        |job, fingerprint, replayed| Ok(KeyRecord { job: id(job), fingerprint, replayed, removed: None });
    assert_eq!(journal.key(key("a", u128::MAX, 1, NOW)).await, record(1, u128::MAX, false));
    assert_eq!(journal.key(key("a", u128::MAX, 2, NOW)).await, record(1, u128::MAX, true));
    assert_eq!(journal.key(key("a", 8, 2, NOW)).await, record(1, u128::MAX, true));
    assert_eq!(journal.key(key("A", 8, 2, NOW)).await, record(2, 8, false));
    assert_eq!(journal.key(key("", 0, 3, NOW)).await, record(3, 0, false));
    let odd = "k'; drop table keys; -- \u{1f980}";
    assert_eq!(journal.key(key(odd, 1, 4, NOW)).await, record(4, 1, false));
    assert_eq!(journal.key(key(odd, 1, 5, NOW)).await, record(4, 1, true));
}

/// Of many requests with one key exactly one is the first, and all learn of its job.
pub async fn c10_one_key_sent_many_times_at_once_is_given_once<J: Store>(journal: J) {
    let answers = at_once(24, |n| {
        let journal = journal.clone();
        async move { journal.key(key("k", 7, n, NOW)).await.expect("it is kept") }
    })
    .await;
    let first: Vec<&KeyRecord> = answers.iter().filter(|kept| !kept.replayed).collect();
    assert_eq!(first.len(), 1, "{answers:?}");
    assert!(answers.iter().all(|kept| kept.job == first[0].job));
}

/// A key without a job stands for at least a week; after that it is free again, and unused keys do not pile up.
pub async fn a_key_stands_for_a_week_and_is_swept<J: Store>(journal: J) {
    for n in 0..20 {
        assert!(!journal.key(key(&format!("old-{n}"), 1, n, NOW)).await.expect("it is kept").replayed);
    }
    let week = NOW.plus_ms(KEY_MS);
    assert!(journal.key(key("old-0", 1, 99, week)).await.expect("it is kept").replayed);
    let after = week.plus_ms(1);
    let again = journal.key(key("old-7", 2, 99, after)).await;
    assert_eq!(again, Ok(KeyRecord { job: id(99), fingerprint: 2, replayed: false, removed: None }));
    // It stands again from here on.
    assert!(journal.key(key("old-7", 2, 5, after.plus_ms(5))).await.expect("it is kept").replayed);
    let much_later = after.plus_ms(KEY_MS + 6);
    assert!(!journal.key(key("old-7", 2, 5, much_later)).await.expect("it is kept").replayed);
}

/// A key stands as long as its job is stored, however many other keys come and go.
pub async fn c10_a_key_stands_as_long_as_its_job<J: Store>(journal: J) {
    submit(&journal, 1, jobs::spec(QUEUE)).await;
    for n in 0..40 {
        journal.key(key(&format!("mine-{n}"), 1, 1, NOW)).await.expect("it is kept");
    }
    for n in 0..40 {
        journal.key(key(&format!("other-{n}"), 1, 2, NOW.plus_ms(n))).await.expect("it is kept");
    }
    let year = NOW.plus_ms(52 * KEY_MS);
    for n in 0..8 {
        journal.key(key(&format!("new-{n}"), 1, 3, year)).await.expect("it is kept");
    }
    let kept = Ok(KeyRecord { job: id(1), fingerprint: 1, replayed: true, removed: None });
    for n in 0..40 {
        assert_eq!(journal.key(key(&format!("mine-{n}"), 1, 9, year)).await, kept);
        let other = journal.key(key(&format!("other-{n}"), 1, 9, year)).await.expect("it is kept");
        assert!(!other.replayed, "a key without a job is free after a week");
    }
}

/// A key outlives its job by a week and says when the job was removed; then it is free.
pub async fn c10_a_key_outlives_its_job<J: Store>(journal: J) {
    for n in [1, 2] {
        let mut job = submit(&journal, n, jobs::spec(QUEUE)).await;
        write(&journal, &mut job, None, vec![jobs::cancelled_before_start()]).await;
    }
    for (name, n) in [("mine", 1), ("too", 1), ("other", 2), ("never", 3)] {
        journal.key(key(name, 1, n, NOW)).await.expect("it is kept");
    }
    let removed = NOW.plus_ms(3 * KEY_MS);
    assert_eq!(journal.remove(id(1), removed).await, Ok(Removal::Gone));
    let kept = |job, removed| Ok(KeyRecord { job: id(job), fingerprint: 1, replayed: true, removed });
    let last = removed.plus_ms(KEY_MS);
    for name in ["mine", "too"] {
        assert_eq!(journal.key(key(name, 2, 9, last)).await, kept(1, Some(removed)));
    }
    assert_eq!(journal.key(key("other", 2, 9, last)).await, kept(2, None));
    let free = Ok(KeyRecord { job: id(9), fingerprint: 2, replayed: false, removed: None });
    for name in ["mine", "never"] {
        assert_eq!(journal.key(key(name, 2, 9, last.plus_ms(1))).await, free);
    }
    assert!(journal.key(key("mine", 2, 5, last.plus_ms(1))).await.expect("it is kept").removed.is_none());
}
