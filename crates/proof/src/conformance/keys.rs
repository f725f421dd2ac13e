//! Keys of repeated requests.

use lastword_core::Timestamp;
use lastword_store::{KEY_MS, Key, KeyRecord, Store};

use super::stage::at_once;
use crate::jobs::{NOW, id};

/// Returns a key of the `job`th job.
pub(super) fn key(key: &str, fingerprint: u128, job: u64, now: Timestamp) -> Key {
    Key { key: key.to_owned(), fingerprint, job: id(job), now }
}

/// The first job stands, whatever comes with the key later; other keys have their own.
pub async fn c10_a_key_is_given_to_one_job<J: Store>(journal: J) {
    let record = |job, fingerprint, replayed| Ok(KeyRecord { job: id(job), fingerprint, replayed });
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

/// A key is kept for at least a day; after that it is free again, and unused keys do not pile up.
pub async fn a_key_stands_for_a_day_and_is_swept<J: Store>(journal: J) {
    for n in 0..20 {
        assert!(!journal.key(key(&format!("old-{n}"), 1, n, NOW)).await.expect("it is kept").replayed);
    }
    let day = NOW.plus_ms(KEY_MS);
    assert!(journal.key(key("old-0", 1, 99, day)).await.expect("it is kept").replayed);
    let after = day.plus_ms(1);
    let again = journal.key(key("old-7", 2, 99, after)).await;
    assert_eq!(again, Ok(KeyRecord { job: id(99), fingerprint: 2, replayed: false }));
    // It stands again from here on.
    assert!(journal.key(key("old-7", 2, 5, after.plus_ms(5))).await.expect("it is kept").replayed);
    let much_later = after.plus_ms(KEY_MS + 6);
    assert!(!journal.key(key("old-7", 2, 5, much_later)).await.expect("it is kept").replayed);
}
