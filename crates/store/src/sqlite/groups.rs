//! Groups in SQL.

use rusqlite::{Connection, params};

use super::Sqlite;
use super::claim::{find_group, read_group};
use super::failure::{execute, failed};
use crate::{Error, Group, Groups, Result};

fn groups(connection: &Connection) -> Result<Vec<Group>> {
    const SELECT: &str = "select name, slots, paused from groups order by name";
    let mut select = connection.prepare_cached(SELECT).map_err(failed)?;
    let found = select.query_map([], read_group).map_err(failed)?;
    found.collect::<rusqlite::Result<_>>().map_err(failed)
}

fn add(connection: &Connection, group: &Group) -> Result<Group> {
    const INSERT: &str = "insert or ignore into groups (name, slots, paused) values (?1, ?2, ?3)";
    execute(connection, INSERT, params![group.name, group.slots, group.paused])?;
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
        const SET: &str = "insert into groups (name, slots, paused) values (?1, ?2, ?3) \
             on conflict (name) do update set slots = excluded.slots, paused = excluded.paused";
        let set = move |connection: &Connection| {
            execute(connection, SET, params![group.name, group.slots, group.paused])
        };
        self.0.writer.change(set).await.map(drop)
    }

    async fn remove_group(&self, name: &str) -> Result<bool> {
        let name = name.to_owned();
        let remove =
            move |connection: &Connection| execute(connection, "delete from groups where name = ?1", [&name]);
        self.0.writer.change(remove).await
    }
}
