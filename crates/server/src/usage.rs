//! What jobs spent, summed up by day, agent, group and conversation.

use std::cmp::Reverse;
use std::collections::HashMap;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse as _;
use lastword_api::{Outcome, Problem, Time, Usage, UsageSum, UsageSums};
use lastword_core::Timestamp;
use lastword_core::view::row::Row;
use lastword_store::Store;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::extract::Query;
use crate::failure::{Failure, Reply};
use crate::principal::Unrestricted;

/// How far back it is summed up, unless the request says so.
const SINCE_MS: u64 = 86_400_000;

/// Jobs that one request looks at.
const JOBS_MAX: usize = 100_000;

/// Sums in a response.
const SUMS_MAX: usize = 500;

/// Which jobs, and what kinds of them.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct UsageQuery {
    /// Jobs that have not ended, or ended at this moment or later; by default, within the last 24 hours.
    since: Option<Time>,
    /// What makes the kind of a job: `day`, `agent`, `group`, `conversation`, or several of them, separated by commas. All jobs are of one
    /// kind by default.
    #[param(pattern = "^(day|agent|group|conversation)(,(day|agent|group|conversation))*$")]
    by: Option<String>,
}

/// What makes the kind of a job.
#[derive(Clone, Copy, Debug, Default)]
struct By {
    day: bool,
    agent: bool,
    group: bool,
    conversation: bool,
}

/// Sums up what jobs spent.
#[utoipa::path(get, operation_id = "usage", path = "/v1/usage", tag = "jobs", params(UsageQuery), responses(
    (status = 200, description = "The sums.", body = UsageSums),
    (status = 400, description = "The query is invalid, or more than 100,000 jobs lived since then.", body = Problem),
))]
pub(crate) async fn sums<J: Store>(
    State(app): State<App<J>>,
    _: Unrestricted,
    Query(query): Query<UsageQuery>,
) -> Reply {
    let now = app.engine().desk().now().wall;
    let since = query.since.map_or(Timestamp(now.0.saturating_sub(SINCE_MS)), Timestamp::from);
    let by = query.by.as_deref().map_or(Ok(By::default()), By::parse)?;
    let mut sums: HashMap<[Option<String>; 4], UsageSum> = HashMap::new();
    let add = |row: Row| {
        let kind = by.kind(&row, now);
        let [day, agent, group, conversation] = kind.clone();
        let new = || UsageSum { day, agent, group, conversation, ..UsageSum::default() };
        add(sums.entry(kind).or_insert_with(new), &row);
    };
    if !app.engine().desk().lived_since(since, JOBS_MAX, add).await? {
        return Err(Failure::invalid("more than 100,000 jobs lived since then: choose a later `since`"));
    }
    let mut items: Vec<UsageSum> = sums.into_values().collect();
    items.sort_by_cached_key(|sum| {
        let tokens = sum.spent.tokens_in.saturating_add(sum.spent.tokens_out);
        let kind = [&sum.day, &sum.agent, &sum.group, &sum.conversation].map(Clone::clone);
        (Reverse((sum.spent.money_micros, tokens, sum.jobs)), kind)
    });
    let more = items.len() > SUMS_MAX;
    items.truncate(SUMS_MAX);
    Ok(Json(UsageSums { since: since.into(), items, more }).into_response())
}

impl By {
    fn parse(names: &str) -> Result<By, Failure> {
        let mut by = By::default();
        for name in names.split(',') {
            let kind = match name {
                "day" => &mut by.day,
                "agent" => &mut by.agent,
                "group" => &mut by.group,
                "conversation" => &mut by.conversation,
                _ => {
                    let known = "`by` must be one or more of day, agent, group, conversation";
                    return Err(Failure::invalid(known));
                }
            };
            *kind = true;
        }
        Ok(by)
    }

    /// Returns what makes the kind of a job: each that was asked for, empty if the job has none.
    fn kind(self, row: &Row, now: Timestamp) -> [Option<String>; 4] {
        let day = || Time::from(row.summary.ended_at.unwrap_or(now)).to_string().chars().take(10).collect();
        let conversation = || row.conversation.map_or_else(String::new, |first| first.to_string());
        [
            self.day.then(day),
            self.agent.then(|| row.summary.agent.clone().unwrap_or_default()),
            self.group.then(|| row.group.clone()),
            self.conversation.then(conversation),
        ]
    }
}

/// Adds a job to a sum. Whatever an agent claims to have spent, a sum stays a number.
fn add(sum: &mut UsageSum, row: &Row) {
    let Usage { tokens_in, tokens_out, money_micros } = sum.spent;
    let (more, summary) = (row.summary.usage, &row.summary);
    sum.jobs += 1;
    match row.outcome {
        None => sum.live += 1,
        Some(outcome) => *sum.outcomes.entry(Outcome::from(outcome).as_str().to_owned()).or_default() += 1,
    }
    sum.turns += u64::from(summary.turns);
    sum.active_ms = sum.active_ms.saturating_add(summary.active_ms);
    sum.spent = Usage {
        tokens_in: tokens_in.saturating_add(more.tokens_in),
        tokens_out: tokens_out.saturating_add(more.tokens_out),
        money_micros: money_micros.saturating_add(more.money_micros),
    };
}
