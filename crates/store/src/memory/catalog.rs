//! The catalog in memory.

use std::cmp::Reverse;
use std::ops::Bound;

use lastword_core::reference::{Loose, Reference};
use lastword_core::view::row::{Row, Section};
use lastword_core::{JobId, Timestamp};

use super::{Entry, Ledger, Memory};
use crate::{
    Catalog, Counts, FOUND_MAX, Filter, GroupCounts, List, Listed, Prunable, Prune, Removal, Result,
};

impl Entry {
    fn section(&self) -> Section {
        match self.row.section() {
            Section::Unread if self.seen_at > Timestamp(0) => Section::Read,
            section => section,
        }
    }
}

impl Ledger {
    /// Returns the row of a job.
    pub fn row(&self, job: JobId) -> Option<&Row> {
        self.jobs.get(&job).map(|entry| &entry.row)
    }

    /// Returns rows that pass a filter, newest job first.
    pub fn rows(&self, filter: &Filter, before: Option<JobId>, limit: u32) -> Vec<Row> {
        let end = before.map_or(Bound::Unbounded, Bound::Excluded);
        let entries = self.jobs.range((Bound::Unbounded, end)).rev();
        let rows = entries.map(|(_, entry)| &entry.row).filter(|row| filter.passes(row));
        rows.take(limit as usize).cloned().collect()
    }

    /// Returns a page of a list.
    pub fn list(&self, list: &List) -> Vec<Listed> {
        let (since, now) = list.moved();
        let moved = |at: Timestamp| at > since && at <= now;
        let entries = self.jobs.values().filter(|entry| list.filter.passes(&entry.row));
        let entries = entries.filter(|entry| !moved(entry.row.changed_at) && !moved(entry.seen_at));
        let listed = entries.map(|entry| Listed { row: entry.row.clone(), section: entry.section() });
        let mut listed: Vec<Listed> = listed.collect();
        listed.sort_by_key(|listed| (listed.section, Reverse((listed.row.changed_at, listed.row.job))));
        let sections = list.sections();
        let follows = |listed: &Listed| {
            let begins = list.begins(listed.section);
            sections.contains(&listed.section)
                && begins.is_none_or(|begins| (listed.row.changed_at, listed.row.job) < begins)
        };
        listed.into_iter().filter(follows).take(list.limit as usize).collect()
    }

    /// Returns the rows of jobs with their sections.
    pub fn listed(&self, jobs: &[JobId]) -> Vec<Listed> {
        let entries = jobs.iter().filter_map(|job| self.jobs.get(job));
        entries.map(|entry| Listed { row: entry.row.clone(), section: entry.section() }).collect()
    }

    /// Returns the rows that a reference matches.
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

    /// Removes an ended job.
    pub fn remove(&mut self, job: JobId, now: Timestamp) -> Removal {
        match self.row(job) {
            None => Removal::NotThere,
            Some(row) if row.outcome.is_none() => Removal::NotEnded,
            Some(_) if !self.dependents(job).is_empty() => Removal::Awaited,
            Some(_) => {
                self.jobs.remove(&job);
                let told = self.feed.iter_mut().filter(|place| place.is_some_and(|(known, _)| known == job));
                told.for_each(|place| *place = None);
                for (record, at) in self.keys.values_mut().filter(|(record, _)| record.job == job) {
                    (record.removed, *at) = (Some(now), now);
                }
                Removal::Gone
            }
        }
    }

    /// Notes that a person has read the ending of a job.
    pub fn mark_seen(&mut self, job: JobId, now: Timestamp) {
        let entry = self.jobs.get_mut(&job).filter(|entry| entry.section() == Section::Unread);
        if let Some(entry) = entry {
            entry.seen_at = now.max(Timestamp(1));
        }
    }

    /// Returns ended jobs that may be removed.
    pub fn prunable(&self, prune: Prune) -> Prunable {
        let old = self
            .jobs
            .values()
            .filter(|entry| entry.section() != Section::Continued)
            .filter(|entry| entry.row.summary.ended_at.is_some_and(|ended| ended < prune.before));
        let (free, kept): (Vec<_>, Vec<_>) =
            old.partition(|entry| entry.seen_at > Timestamp(0) || prune.unread);
        let mut free: Vec<_> = free.into_iter().map(|entry| (entry.row.updated_at, entry.row.job)).collect();
        free.sort();
        let jobs = free.into_iter().take(prune.limit as usize).map(|(_, job)| job).collect();
        Prunable { jobs, kept_unread: kept.len() as u64 }
    }

    /// Counts live jobs by group and phase.
    pub fn counts_by_group(&self) -> GroupCounts {
        let mut counts = GroupCounts::new();
        for row in self.jobs.values().map(|entry| &entry.row).filter(|row| row.outcome.is_none()) {
            *counts.entry(row.group.clone()).or_default().entry(row.phase).or_default() += 1;
        }
        counts
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

impl Catalog for Memory {
    async fn row(&self, job: JobId) -> Result<Option<Row>> {
        Ok(self.ledger().row(job).cloned())
    }

    async fn rows(&self, filter: Filter, before: Option<JobId>, limit: u32) -> Result<Vec<Row>> {
        Ok(self.ledger().rows(&filter, before, limit))
    }

    async fn list(&self, list: List) -> Result<Vec<Listed>> {
        Ok(self.ledger().list(&list))
    }

    async fn listed(&self, jobs: Vec<JobId>) -> Result<Vec<Listed>> {
        Ok(self.ledger().listed(&jobs))
    }

    async fn find(&self, reference: Reference) -> Result<Vec<Row>> {
        Ok(self.ledger().find(&reference))
    }

    async fn counts(&self) -> Result<Counts> {
        Ok(self.ledger().counts())
    }

    async fn counts_by_group(&self) -> Result<GroupCounts> {
        Ok(self.ledger().counts_by_group())
    }

    async fn mark_seen(&self, job: JobId, now: Timestamp) -> Result<()> {
        self.ledger().mark_seen(job, now);
        Ok(())
    }

    async fn prunable(&self, prune: Prune) -> Result<Prunable> {
        Ok(self.ledger().prunable(prune))
    }

    async fn remove(&self, job: JobId, now: Timestamp) -> Result<Removal> {
        Ok(self.ledger().remove(job, now))
    }
}
