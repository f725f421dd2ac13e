//! Keys in memory.

use lastword_core::Timestamp;

use super::{Ledger, Memory};
use crate::keys::SWEPT_MAX;
use crate::{KEY_MS, Key, KeyRecord, Keys, Result};

impl Ledger {
    /// Stores a key for a job, or returns what is stored for it.
    pub fn key(&mut self, key: Key) -> KeyRecord {
        let is_expired = |(record, at): &(KeyRecord, Timestamp)| {
            at.plus_ms(KEY_MS) < key.now && !self.jobs.contains_key(&record.job)
        };
        let old = self.keys.iter().filter(|(_, stored)| is_expired(stored));
        let mut old: Vec<_> = old.map(|(name, (_, at))| (name != &key.key, *at, name.clone())).collect();
        old.sort();
        for (_, _, name) in old.into_iter().take(SWEPT_MAX as usize) {
            self.keys.remove(&name);
        }
        if let Some((record, _)) = self.keys.get(&key.key) {
            return KeyRecord { replayed: true, ..record.clone() };
        }
        let record = KeyRecord { job: key.job, fingerprint: key.fingerprint, replayed: false, removed: None };
        self.keys.insert(key.key, (record.clone(), key.now));
        record
    }
}

impl Keys for Memory {
    async fn key(&self, key: Key) -> Result<KeyRecord> {
        Ok(self.ledger().key(key))
    }
}
