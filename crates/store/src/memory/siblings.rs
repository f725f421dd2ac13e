//! Siblings in memory.

use std::collections::BTreeMap;

use lastword_core::JobId;
use lastword_core::Timestamp;
use lastword_core::reference::{Loose, Reference};
use lastword_core::view::row::Row;

use super::{Ledger, Memory};
use crate::siblings::{
    Counts, FOUND_MAX, Group, KEY_MS, Kept, Key, Prunable, Prune, Removal, SWEPT_MAX, Siblings,
};
use crate::{Cursor, Result};

/// What a ledger holds beside the jobs.
#[derive(Clone, Debug, Default)]
pub(super) struct Beside {
    keys: BTreeMap<String, (Kept, Timestamp)>,
    groups: BTreeMap<String, Group>,
}

impl Ledger {
    /// Returns the rows that a reference means.
    pub fn find(&self, reference: &Reference) -> Vec<Row> {
        let newest_first = || self.jobs.values().rev().map(|entry| &entry.row);
        let found = match reference {
            Reference::Last => newest_first().take(1).collect(),
            Reference::Id(job) => self.row(*job).into_iter().collect(),
            Reference::Loose(loose) => {
                let Loose { name, ids, shorts, .. } = loose;
                let named = |row: &&Row| name.is_some() && row.summary.name == *name;
                let live = newest_first().filter(named).find(|row| row.outcome.is_none());
                let named = live.or_else(|| newest_first().find(named));
                let in_ids = |row: &&Row| {
                    ids.as_ref().is_some_and(|range| range.contains(&row.job.as_uuid().as_u128()))
                };
                let in_shorts =
                    |row: &&Row| shorts.as_ref().is_some_and(|range| range.contains(&row.job.short_bits()));
                let at_most = FOUND_MAX as usize;
                let ids = newest_first().filter(in_ids).take(at_most).collect();
                let shorts = newest_first().filter(in_shorts).take(at_most).collect();
                let mut meant = loose.settle(|row| row.job, named, shorts, ids);
                meant.truncate(at_most);
                meant
            }
        };
        found.into_iter().cloned().collect()
    }

    /// Keeps a key, or tells for which job it was kept before.
    pub fn key(&mut self, key: Key) -> Kept {
        let keys = &mut self.beside.keys;
        let old = keys.iter().filter(|(_, (_, at))| at.plus_ms(KEY_MS) < key.now);
        let mut old: Vec<_> = old.map(|(name, (_, at))| (*at, name.clone())).collect();
        old.sort();
        for (_, name) in old.into_iter().take(SWEPT_MAX as usize) {
            keys.remove(&name);
        }
        let stands = keys.get(&key.key).filter(|(_, at)| at.plus_ms(KEY_MS) >= key.now);
        if let Some((kept, _)) = stands {
            return Kept { replayed: true, ..kept.clone() };
        }
        let kept = Kept { job: key.job, fingerprint: key.fingerprint, replayed: false };
        keys.insert(key.key, (kept.clone(), key.now));
        kept
    }

    /// Returns every group.
    pub fn groups(&self) -> Vec<Group> {
        self.beside.groups.values().cloned().collect()
    }

    /// Makes a group if there is none of that name.
    pub fn add_group(&mut self, group: Group) -> Group {
        self.beside.groups.entry(group.name.clone()).or_insert(group).clone()
    }

    /// Makes a group or changes it.
    pub fn set_group(&mut self, group: Group) {
        self.beside.groups.insert(group.name.clone(), group);
    }

    /// Removes a group.
    pub fn remove_group(&mut self, name: &str) -> bool {
        self.beside.groups.remove(name).is_some()
    }

    /// Removes an ended job.
    pub fn remove(&mut self, job: JobId) -> Removal {
        match self.row(job) {
            None => Removal::NotThere,
            Some(row) if row.outcome.is_none() => Removal::NotEnded,
            Some(_) => {
                self.jobs.remove(&job);
                let told = self.feed.iter_mut().filter(|place| place.is_some_and(|(known, _)| known == job));
                told.for_each(|place| *place = None);
                self.beside.keys.retain(|_, (kept, _)| kept.job != job);
                Removal::Gone
            }
        }
    }

    /// Notes that the ending of a job was read.
    pub fn mark_read(&mut self, job: JobId) {
        if let Some(entry) = self.jobs.get_mut(&job).filter(|entry| entry.row.outcome.is_some()) {
            entry.read = true;
        }
    }

    /// Returns ended jobs that may be removed.
    pub fn prunable(&self, prune: Prune) -> Prunable {
        let old = self
            .jobs
            .values()
            .filter(|entry| entry.row.summary.ended_at.is_some_and(|ended| ended < prune.before));
        let (free, kept): (Vec<_>, Vec<_>) = old.partition(|entry| entry.read || prune.unread);
        let mut free: Vec<_> = free.into_iter().map(|entry| (entry.row.updated_at, entry.row.job)).collect();
        free.sort();
        let jobs = free.into_iter().take(prune.limit as usize).map(|(_, job)| job).collect();
        Prunable { jobs, kept_unread: kept.len() as u64 }
    }

    /// Counts jobs by phase.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::new();
        for entry in self.jobs.values() {
            *counts.entry(entry.row.phase).or_default() += 1;
        }
        counts
    }
}

impl Siblings for Memory {
    async fn find(&self, reference: Reference) -> Result<Vec<Row>> {
        Ok(self.ledger().find(&reference))
    }

    async fn key(&self, key: Key) -> Result<Kept> {
        Ok(self.ledger().key(key))
    }

    async fn groups(&self) -> Result<Vec<Group>> {
        Ok(self.ledger().groups())
    }

    async fn add_group(&self, group: Group) -> Result<Group> {
        Ok(self.ledger().add_group(group))
    }

    async fn set_group(&self, group: Group) -> Result<()> {
        self.ledger().set_group(group);
        Ok(())
    }

    async fn remove_group(&self, name: &str) -> Result<bool> {
        Ok(self.ledger().remove_group(name))
    }

    async fn remove(&self, job: JobId) -> Result<Removal> {
        Ok(self.ledger().remove(job))
    }

    async fn mark_read(&self, job: JobId) -> Result<()> {
        self.ledger().mark_read(job);
        Ok(())
    }

    async fn prunable(&self, prune: Prune) -> Result<Prunable> {
        Ok(self.ledger().prunable(prune))
    }

    async fn counts(&self) -> Result<Counts> {
        Ok(self.ledger().counts())
    }

    async fn present(&self) -> Result<Option<Cursor>> {
        let end = self.ledger().feed.len();
        Ok((end > 0).then(|| Cursor(end.to_string())))
    }
}
