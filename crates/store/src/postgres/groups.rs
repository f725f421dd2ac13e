//! Groups in PostgreSQL.

use deadpool_postgres::Pool;

use super::Postgres;
use super::connect::{execute, query};
use super::failure::{Failure, Try};
use crate::{Group, Groups, Result};

const GROUPS: &str = "select name, slots, paused from groups order by name";
const GROUP: &str = "select name, slots, paused from groups where name = $1";
const ADD_GROUP: &str =
    "insert into groups (name, slots, paused) values ($1, $2, $3) on conflict (name) do nothing";
const SET_GROUP: &str = "
    insert into groups (name, slots, paused) values ($1, $2, $3)
    on conflict (name) do update set slots = excluded.slots, paused = excluded.paused";
const REMOVE_GROUP: &str = "delete from groups where name = $1";

fn read(row: &tokio_postgres::Row) -> Group {
    let slots: Option<i64> = row.get(1);
    let slots = slots.map(|slots| u32::try_from(slots).unwrap_or(u32::MAX));
    Group { name: row.get(0), slots, paused: row.get(2) }
}

async fn write(pool: &Pool, sql: &str, group: &Group) -> Try<bool> {
    execute(pool, sql, &[&group.name, &group.slots.map(i64::from), &group.paused]).await
}

async fn add(pool: &Pool, group: &Group) -> Try<Group> {
    write(pool, ADD_GROUP, group).await?;
    match query(pool, GROUP, &[&group.name]).await?.first() {
        Some(row) => Ok(read(row)),
        None => Err(Failure::Clash("the group was removed at once".to_owned())),
    }
}

impl Groups for Postgres {
    async fn groups(&self) -> Result<Vec<Group>> {
        let rows = self.patiently(|| query(&self.0.readers, GROUPS, &[])).await?;
        Ok(rows.iter().map(read).collect())
    }

    async fn add_group(&self, group: Group) -> Result<Group> {
        self.patiently(|| add(&self.0.readers, &group)).await
    }

    async fn set_group(&self, group: Group) -> Result<()> {
        self.patiently(|| write(&self.0.readers, SET_GROUP, &group)).await.map(drop)
    }

    async fn remove_group(&self, name: &str) -> Result<bool> {
        self.patiently(|| async { execute(&self.0.readers, REMOVE_GROUP, &[&name]).await }).await
    }
}
