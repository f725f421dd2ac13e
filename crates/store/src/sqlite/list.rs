//! Lists in SQL: section by section, through the index that has their order.

use lastword_core::view::row::Section;
use rusqlite::{CachedStatement, Connection};

use super::append::{key, moment};
use super::failure::failed;
use super::rows::{bind, columns, passes, passing};
use crate::{Filter, List, Listed, Result};

/// Rows of a section after a key, without those that moved to the next first page.
macro_rules! section {
    ($from:literal) => {
        concat!(
            "select ",
            columns!(),
            " from jobs indexed by ",
            $from,
            " and section = ?15 and (changed_at, job) < (?16, ?1) and not (changed_at > ?17 and changed_at <= ?18) \
             and not (seen_at > ?17 and seen_at <= ?18)",
            passes!(),
            " order by changed_at desc, job desc"
        )
    };
}
pub(super) const SECTION: &str = section!("jobs_listed where true");
pub(super) const SECTION_NAMED: &str = section!("jobs_named where name = ?10");
pub(super) const CONVERSATIONS: &str = section!("jobs_conversations where conversation is not null");
pub(super) const CONVERSATION: &str = section!("jobs_conversation where conversation = ?19");

/// Returns a page of a list. All sections are read in one snapshot: a job that ends meanwhile would be in neither of its two sections.
pub(super) fn list(connection: &Connection, list: &List) -> Result<Vec<Listed>> {
    let sql = match &list.filter {
        Filter { conversation: Some(_), .. } => CONVERSATION,
        Filter { name: Some(_), .. } => SECTION_NAMED,
        Filter { is_newest: true, .. } => CONVERSATIONS,
        _ => SECTION,
    };
    let snapshot = connection.unchecked_transaction().map_err(failed)?;
    let (mut listed, limit) = (Vec::new(), list.limit as usize);
    for section in list.sections() {
        let mut select = snapshot.prepare_cached(sql).map_err(failed)?;
        bind_section(&mut select, list, section).map_err(failed)?;
        let rows = passing(&mut select, &list.filter, limit - listed.len())?;
        listed.extend(rows.into_iter().map(|row| Listed { row, section }));
        if listed.len() == limit {
            break;
        }
    }
    Ok(listed)
}

fn bind_section(select: &mut CachedStatement<'_>, list: &List, section: Section) -> rusqlite::Result<()> {
    let begins = list.begins(section);
    let (since, now) = list.moved();
    bind(select, &list.filter)?;
    select.raw_bind_parameter(15, section.number())?;
    // Without a key, the greatest of each.
    select.raw_bind_parameter(16, begins.map_or(i64::MAX, |(at, _)| moment(at)))?;
    select.raw_bind_parameter(1, begins.map_or([0xff; 16], |(_, job)| key(job)))?;
    select.raw_bind_parameter(17, moment(since))?;
    select.raw_bind_parameter(18, moment(now))
}
