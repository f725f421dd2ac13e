//! Keys in memory.

use super::{Ledger, Memory};
use crate::keys::SWEPT_MAX;
use crate::{KEY_MS, Key, KeyRecord, Keys, Result};

impl Ledger {
    /// Stores a key for a job, or returns what is stored for it.
    pub fn key(&mut self, key: Key) -> KeyRecord {
        let old = self.keys.iter().filter(|(_, (_, at))| at.plus_ms(KEY_MS) < key.now);
        let mut old: Vec<_> = old.map(|(name, (_, at))| (*at, name.clone())).collect();
        old.sort();
        for (_, name) in old.into_iter().take(SWEPT_MAX as usize) {
            self.keys.remove(&name);
        }
        let stored = self.keys.get(&key.key).filter(|(_, at)| at.plus_ms(KEY_MS) >= key.now);
        if let Some((record, _)) = stored {
            return KeyRecord { replayed: true, ..record.clone() };
        }
        let record = KeyRecord { job: key.job, fingerprint: key.fingerprint, replayed: false };
        self.keys.insert(key.key, (record.clone(), key.now));
        record
    }
}

impl Keys for Memory {
    async fn key(&self, key: Key) -> Result<KeyRecord> {
        Ok(self.ledger().key(key))
    }
}
