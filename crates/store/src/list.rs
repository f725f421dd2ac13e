//! Which rows a list has, and in which order.
//!
//! A list as people read it has what needs a person first, then endings that were not read, then the rest, each by its last change. A page continues the list as it was when its first page was read. A row that changed since then comes again on the next first page.

use std::collections::BTreeMap;

use lastword_core::view::row::{PhaseName, Row, Section};
use lastword_core::{JobId, Timestamp};

/// Which rows. An empty filter lets all of them pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// In one of these phases; none means any.
    pub phases: Vec<PhaseName>,
    /// Ended like this, by [`Outcome::name`](lastword_core::outcome::Outcome::name).
    pub outcome: Option<String>,
    /// In this group.
    pub group: Option<String>,
    /// With this name.
    pub name: Option<String>,
    /// With each of these labels.
    pub labels: BTreeMap<String, String>,
    /// Submitted from this directory or below it.
    pub cwd: Option<String>,
    /// Submitted by a process of this job.
    pub parent: Option<JobId>,
    /// Of the conversation that this job began.
    pub conversation: Option<JobId>,
    /// The newest of its conversation. A job without turns is in none.
    pub is_newest: bool,
    /// Changed at this moment or later.
    pub changed_since: Option<Timestamp>,
}

impl Filter {
    /// Reports whether only live jobs can pass.
    pub(crate) fn is_live_only(&self) -> bool {
        !self.phases.is_empty() && !self.phases.contains(&PhaseName::Ended)
    }

    /// Reports whether jobs that have ended can pass, or those that have not.
    pub(crate) fn can_pass(&self, is_ended: bool) -> bool {
        let is_asked = |phase: &PhaseName| (*phase == PhaseName::Ended) == is_ended;
        (is_ended || self.outcome.is_none()) && (self.phases.is_empty() || self.phases.iter().any(is_asked))
    }

    /// Reports whether it compares columns.
    pub(crate) fn compares_columns(&self) -> bool {
        let Filter { phases, outcome, group, name, conversation, changed_since, .. } = self;
        let compares = outcome.is_some() || group.is_some() || name.is_some() || changed_since.is_some();
        compares || !phases.is_empty() || conversation.is_some()
    }

    /// Reports whether it compares anything in a summary, which is compared row by row.
    pub(crate) fn compares_summary(&self) -> bool {
        !self.labels.is_empty() || self.cwd.is_some() || self.parent.is_some() || self.is_newest
    }

    /// Reports whether a row passes.
    pub fn passes(&self, row: &Row) -> bool {
        (self.phases.is_empty() || self.phases.contains(&row.phase))
            && self.outcome.as_ref().is_none_or(|name| row.outcome.is_some_and(|found| found.name() == name))
            && self.group.as_ref().is_none_or(|group| row.group == *group)
            && self.name.as_ref().is_none_or(|name| row.summary.name.as_ref() == Some(name))
            && self.changed_since.is_none_or(|since| row.changed_at >= since)
            && self.conversation.is_none_or(|first| row.conversation == Some(first))
            && self.passes_summary(row)
    }

    /// Reports whether the summary of a row passes.
    pub(crate) fn passes_summary(&self, row: &Row) -> bool {
        let summary = &row.summary;
        let is_below = |folder: &String| {
            let below = summary.cwd.strip_prefix(folder.trim_end_matches('/'));
            below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.labels.iter().all(|(name, value)| summary.labels.get(name) == Some(value))
            && self.cwd.as_ref().is_none_or(is_below)
            && self.parent.is_none_or(|parent| summary.parent == Some(parent))
            && (!self.is_newest || (row.conversation.is_some() && summary.continued_by.is_none()))
    }
}

/// A page of a list.
#[derive(Clone, Debug, Default)]
pub struct List {
    /// Which rows.
    pub filter: Filter,
    /// Rows of these sections only; none means all.
    pub sections: Vec<Section>,
    /// Where to continue.
    pub after: Option<After>,
    /// At most so many rows.
    pub limit: u32,
}

/// Where a list continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct After {
    /// The section of the last row.
    pub section: Section,
    /// When that row last changed.
    pub changed_at: Timestamp,
    /// Its job.
    pub job: JobId,
    /// When the first page was read.
    pub since: Timestamp,
    /// The present moment. A row that changed between the two is left out; one with a later date was written by a clock that was ahead.
    pub now: Timestamp,
}

/// A row of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The row.
    pub row: Row,
    /// Its section.
    pub section: Section,
}

impl List {
    /// Returns the sections that have rows of this page, in order. A phase that is asked for can rule out a section.
    pub(crate) fn sections(&self) -> Vec<Section> {
        let begins = self.after.map_or(Section::NeedsPerson, |after| after.section);
        let wanted = |section: &Section| self.sections.is_empty() || self.sections.contains(section);
        let possible = |section: &Section| {
            let is_followed = *section == Section::Continued;
            self.filter.can_pass(section.is_ended()) && !(is_followed && self.filter.is_newest)
        };
        Section::ALL
            .into_iter()
            .filter(|section| *section >= begins)
            .filter(wanted)
            .filter(possible)
            .collect()
    }

    /// Returns the key that rows of a section come after; `None` from the beginning of the section.
    pub(crate) fn begins(&self, section: Section) -> Option<(Timestamp, JobId)> {
        let after = self.after.filter(|after| after.section == section)?;
        Some((after.changed_at, after.job))
    }

    /// Returns the moments between which a change moves a row to the next first page; none on a first page.
    pub(crate) fn moved(&self) -> (Timestamp, Timestamp) {
        self.after.map_or((Timestamp(0), Timestamp(0)), |after| (after.since, after.now))
    }
}
