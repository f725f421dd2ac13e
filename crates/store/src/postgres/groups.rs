//! Groups in PostgreSQL.

use deadpool_postgres::Pool;

use super::Postgres;
use super::connect::{change, query};
use super::failure::{Failure, Try};
use super::witness::{Witness, with_here};
use crate::{Group, Groups, Result};

const GROUPS: &str = "select name, slots, paused from groups order by name";
const GROUP: &str = "select name, slots, paused from groups where name = $1";
const ADD_GROUP: &str = with_here!(
    "$4",
    "$5",
    ", added as (
        insert into groups (name, slots, paused) select $1::text, $2::bigint, $3::boolean from here
        on conflict (name) do nothing
    )
    select exists (select from here)"
);
const SET_GROUP: &str = with_here!(
    "$4",
    "$5",
    ", set_to as (
        insert into groups (name, slots, paused) select $1::text, $2::bigint, $3::boolean from here
        on conflict (name) do update set slots = excluded.slots, paused = excluded.paused
    )
    select exists (select from here)"
);
const REMOVE_GROUP: &str = with_here!(
    "$2",
    "$3",
    ", removed as (delete from groups where name = $1 and exists (select from here) returning 1)
    select exists (select from here), exists (select from removed)"
);

fn read(row: &tokio_postgres::Row) -> Group {
    let slots: Option<i64> = row.get(1);
    let slots = slots.map(|slots| u32::try_from(slots).unwrap_or(u32::MAX));
    Group { name: row.get(0), slots, paused: row.get(2) }
}

async fn write(pool: &Pool, witness: &Witness, sql: &str, group: &Group) -> Try<()> {
    change(pool, witness, sql, &[&group.name, &group.slots.map(i64::from), &group.paused]).await.map(drop)
}

async fn add(pool: &Pool, witness: &Witness, group: &Group) -> Try<Group> {
    write(pool, witness, ADD_GROUP, group).await?;
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
        self.patiently(|| add(&self.0.readers, &self.0.witness, &group)).await
    }

    async fn set_group(&self, group: Group) -> Result<()> {
        self.patiently(|| write(&self.0.readers, &self.0.witness, SET_GROUP, &group)).await
    }

    async fn remove_group(&self, name: &str) -> Result<bool> {
        let removed = || async { change(&self.0.readers, &self.0.witness, REMOVE_GROUP, &[&name]).await };
        let told = self.patiently(removed).await?;
        Ok(told.first().is_some_and(|row| row.get(1)))
    }
}
