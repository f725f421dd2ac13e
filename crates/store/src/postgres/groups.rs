//! Groups in PostgreSQL.

use deadpool_postgres::Pool;
use lastword_core::budget::{Budget, Day, Spent};

use super::Postgres;
use super::batch::number;
use super::claim::read_group;
use super::connect::{Value, change, query};
use super::failure::{Failure, Try};
use super::identity::with_here;
use super::witness::Witness;
use crate::{Group, Groups, Result};

const GROUPS: &str = "select name, slots, paused, day_tokens, day_money_micros from groups order by name";
const GROUP: &str = "select name, slots, paused, day_tokens, day_money_micros from groups where name = $1";
const SPENT: &str = "select name, tokens, money_micros from spent where day = $1 order by name";
const ADD_GROUP: &str = with_here!(
    "$6",
    "$7",
    ", added as (
        insert into groups (name, slots, paused, day_tokens, day_money_micros)
        select $1::text, $2::bigint, $3::boolean, $4::bigint, $5::bigint from here
        on conflict (name) do nothing
    )
    select exists (select from here)"
);
const SET_GROUP: &str = with_here!(
    "$6",
    "$7",
    ", set_to as (
        insert into groups (name, slots, paused, day_tokens, day_money_micros)
        select $1::text, $2::bigint, $3::boolean, $4::bigint, $5::bigint from here
        on conflict (name) do update set
            slots = excluded.slots, paused = excluded.paused,
            day_tokens = excluded.day_tokens, day_money_micros = excluded.day_money_micros
    )
    select exists (select from here)"
);
const REMOVE_GROUP: &str = with_here!(
    "$2",
    "$3",
    ", removed as (delete from groups where name = $1 and exists (select from here) returning 1)
    select exists (select from here), exists (select from removed)"
);

fn read(row: &tokio_postgres::Row) -> Option<Group> {
    read_group(row.get(0), row, 1)
}

async fn write(pool: &Pool, witness: &Witness, sql: &str, group: &Group) -> Try<()> {
    let Budget { tokens, money_micros } = group.budget;
    let (tokens, money) = (tokens.map(number), money_micros.map(number));
    let columns: [Value<'_>; 5] = [&group.name, &group.slots.map(i64::from), &group.paused, &tokens, &money];
    change(pool, witness, sql, &columns).await.map(drop)
}

async fn add(pool: &Pool, witness: &Witness, group: &Group) -> Try<Group> {
    write(pool, witness, ADD_GROUP, group).await?;
    match query(pool, GROUP, &[&group.name]).await?.first().and_then(read) {
        Some(group) => Ok(group),
        None => Err(Failure::Clash("the group was removed at once".to_owned())),
    }
}

impl Groups for Postgres {
    async fn groups(&self) -> Result<Vec<Group>> {
        let rows = self.patiently(|| query(&self.0.readers, GROUPS, &[])).await?;
        Ok(rows.iter().filter_map(read).collect())
    }

    async fn add_group(&self, group: Group) -> Result<Group> {
        self.patiently(|| add(&self.0.readers, &self.0.witness, &group)).await
    }

    async fn set_group(&self, group: Group) -> Result<()> {
        self.patiently(|| write(&self.0.readers, &self.0.witness, SET_GROUP, &group)).await?;
        // More of its jobs may be claimed now.
        self.0.wake.ring();
        Ok(())
    }

    async fn spent(&self, day: Day) -> Result<Vec<(String, Spent)>> {
        let day = number(day.0);
        let read = || async { query(&self.0.readers, SPENT, &[&day]).await };
        let rows = self.patiently(read).await?;
        let spent = |row: &tokio_postgres::Row| Spent { tokens: row.get(1), money_micros: row.get(2) };
        Ok(rows.iter().map(|row| (row.get(0), spent(row))).collect())
    }

    async fn remove_group(&self, name: &str) -> Result<bool> {
        let removed = || async { change(&self.0.readers, &self.0.witness, REMOVE_GROUP, &[&name]).await };
        let told = self.patiently(removed).await?;
        Ok(told.first().is_some_and(|row| row.get(1)))
    }
}
