//! Groups in SQL.

use lastword_core::budget::{Budget, Day, Spent};
use rusqlite::{Connection, params};

use super::Sqlite;
use super::claim::{find_group, read_group};
use super::failure::{execute, failed};
use crate::{Error, Group, Groups, Result};

fn groups(connection: &Connection) -> Result<Vec<Group>> {
    const SELECT: &str = "select name, slots, paused, day_tokens, day_money_micros from groups order by name";
    let mut select = connection.prepare_cached(SELECT).map_err(failed)?;
    let found = select.query_map([], read_group).map_err(failed)?;
    found.collect::<rusqlite::Result<_>>().map_err(failed)
}

fn spent(connection: &Connection, day: Day) -> Result<Vec<(String, Spent)>> {
    const SELECT: &str = "select name, tokens, money_micros from spent where day = ?1 order by name";
    let mut select = connection.prepare_cached(SELECT).map_err(failed)?;
    let found = select.query_map([day.0], |row| {
        Ok((row.get(0)?, Spent { tokens: row.get(1)?, money_micros: row.get(2)? }))
    });
    found.and_then(Iterator::collect).map_err(failed)
}

/// Writes a group with this statement, which takes its columns in their order.
fn write(connection: &Connection, sql: &str, group: &Group) -> Result<bool> {
    let Budget { tokens, money_micros } = group.budget;
    execute(connection, sql, params![group.name, group.slots, group.paused, tokens, money_micros])
}

fn add(connection: &Connection, group: &Group) -> Result<Group> {
    const INSERT: &str = "insert or ignore into groups (name, slots, paused, day_tokens, day_money_micros) \
         values (?1, ?2, ?3, ?4, ?5)";
    write(connection, INSERT, group)?;
    find_group(connection, &group.name)?.ok_or_else(|| Error::Corrupt("a group was not stored".to_owned()))
}

impl Groups for Sqlite {
    async fn groups(&self) -> Result<Vec<Group>> {
        self.0.readers.run(groups).await
    }

    async fn add_group(&self, group: Group) -> Result<Group> {
        self.0.writer.change(move |connection| add(connection, &group)).await
    }

    async fn set_group(&self, group: Group) -> Result<()> {
        const SET: &str = "insert into groups (name, slots, paused, day_tokens, day_money_micros) \
             values (?1, ?2, ?3, ?4, ?5) \
             on conflict (name) do update set slots = excluded.slots, paused = excluded.paused, \
             day_tokens = excluded.day_tokens, day_money_micros = excluded.day_money_micros";
        let set = move |connection: &Connection| write(connection, SET, &group);
        self.0.writer.change(set).await.map(drop)
    }

    async fn spent(&self, day: Day) -> Result<Vec<(String, Spent)>> {
        self.0.readers.run(move |connection| spent(connection, day)).await
    }

    async fn remove_group(&self, name: &str) -> Result<bool> {
        let name = name.to_owned();
        let remove =
            move |connection: &Connection| execute(connection, "delete from groups where name = ?1", [&name]);
        self.0.writer.change(remove).await
    }
}
