//! Rows of jobs: their columns, and the values of a filter.

use lastword_core::view::row::{PhaseName, Row, Section};
use lastword_core::{Seq, Timestamp};
use rusqlite::CachedStatement;

use super::append::{drives, holder, job_id, key, moment};
use super::failure::failed;
use crate::{Error, Filter, Listed, Result};

/// The columns of a row, in the order in which `job_row` reads them.
macro_rules! columns {
    () => {
        "job, version, phase, queue, priority, due, holder_owner, holder_incarnation, holder_epoch, outcome, \
         least_reader, provider, reference, submitted_at, updated_at, summary, changed_at, conversation, section"
    };
}
pub(super) use columns;

/// The values of a filter, from `?2` to `?14`, and `?19`.
macro_rules! passes {
    () => {
        " and (?2 is null or phase in (?2, ?3, ?4, ?5, ?6, ?7)) \
         and (?8 is null or instr(outcome, ?8) between 1 and 2) and (?9 is null or queue = ?9) \
         and (?10 is null or name = ?10) and (?11 is null or instr(summary, ?11) > 0) \
         and (?12 is null or instr(summary, ?12) > 0) and (?13 is null or instr(summary, ?13) > 0) \
         and (?14 is null or changed_at >= ?14) and (?19 is null or conversation = ?19)"
    };
}
pub(super) use passes;

/// Binds the values of a filter.
pub(super) fn bind(select: &mut CachedStatement<'_>, filter: &Filter) -> rusqlite::Result<()> {
    // All of them are no filter, and one less is as many as there is room for.
    let is_any = PhaseName::ALL.iter().all(|phase| filter.phases.contains(phase));
    let phases = PhaseName::ALL.into_iter().filter(|phase| !is_any && filter.phases.contains(phase));
    for (index, phase) in phases.enumerate() {
        select.raw_bind_parameter(2 + index, phase.as_str())?;
    }
    // An outcome is stored as its name in quotes, or as an object that opens with it.
    select.raw_bind_parameter(8, filter.outcome.as_ref().map(|name| ["\"", name, "\""].concat()))?;
    select.raw_bind_parameter(9, &filter.group)?;
    select.raw_bind_parameter(10, &filter.name)?;
    // As the summary spells them. A title may contain the same text, so these only skip most of the other rows.
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let label = filter.labels.iter().next();
    let label = label.map(|(name, value)| [quoted(name), quoted(value)].join(":"));
    let cwd =
        filter.cwd.as_ref().map(|folder| ["\"cwd\":", quoted(folder).trim_end_matches(['"', '/'])].concat());
    let parent = filter.parent.map(|parent| ["\"parent\":", &quoted(&parent.to_string())].concat());
    select.raw_bind_parameter(11, label)?;
    select.raw_bind_parameter(12, cwd)?;
    select.raw_bind_parameter(13, parent)?;
    select.raw_bind_parameter(14, filter.changed_since.map(moment))?;
    select.raw_bind_parameter(19, filter.conversation.map(key))
}

/// Returns the rows of a statement whose summaries pass too.
pub(super) fn passing(select: &mut CachedStatement<'_>, filter: &Filter, limit: usize) -> Result<Vec<Row>> {
    let found = select.raw_query().mapped(|row| Ok(job_row(row)));
    let found = found.map(|row| row.map_err(failed)?);
    let found = found.filter(|row| row.as_ref().map_or(true, |row| filter.passes_summary(row)));
    found.take(limit).collect()
}

/// Reads a row of `columns` with its section.
pub(super) fn listed_row(row: &rusqlite::Row<'_>) -> Result<Listed> {
    let section: i16 = row.get(18).map_err(failed)?;
    let row = job_row(row)?;
    let unknown = || Error::Corrupt(format!("the row of {} does not read: its section", row.job));
    Ok(Listed { section: Section::parse(section).ok_or_else(unknown)?, row })
}

/// Reads a row of `columns`.
pub(super) fn job_row(row: &rusqlite::Row<'_>) -> Result<Row> {
    let job = job_id(row.get(0).map_err(failed)?)?;
    let unreadable = |what: &str| Error::Corrupt(format!("the row of {job} does not read: {what}"));
    let json = |error: serde_json::Error| unreadable(&error.to_string());
    let read = || -> rusqlite::Result<_> {
        let phase = row.get_ref(2)?.as_str()?;
        let outcome: Option<&str> = row.get_ref(9)?.as_str_or_null()?;
        Ok((phase, outcome, row.get_ref(15)?.as_str()?))
    };
    let (phase, outcome, summary) = read().map_err(failed)?;
    let phase = PhaseName::parse(phase).ok_or_else(|| unreadable("its phase"))?;
    let outcome = outcome.map(serde_json::from_str).transpose().map_err(json)?;
    let summary = serde_json::from_str(summary).map_err(json)?;
    let conversation = row.get::<_, Option<[u8; 16]>>(17).map_err(failed)?.map(job_id).transpose()?;
    let rest = || -> rusqlite::Result<_> {
        Ok(Row {
            job,
            version: Seq(row.get(1)?),
            phase,
            group: row.get(3)?,
            priority: row.get(4)?,
            due: row.get::<_, Option<u64>>(5)?.map(Timestamp),
            holder: holder(row, 6)?,
            outcome,
            least_reader: row.get(10)?,
            drives: drives(row, 11)?,
            conversation,
            submitted_at: Timestamp(row.get(13)?),
            updated_at: Timestamp(row.get(14)?),
            changed_at: Timestamp(row.get(16)?),
            summary,
        })
    };
    rest().map_err(failed)
}
