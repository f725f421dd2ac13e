//! What a job waits for before it starts.

use lastword_core::job::Phase as CorePhase;
use lastword_core::view::row::{self, PhaseName};
use lastword_core::{Timestamp, job, provider, spec};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Time;
use crate::enums::{Needs, WaitsFor};

/// What a job waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Waits {
    /// The kind of wait.
    #[serde(rename = "for")]
    pub on: WaitsFor,
    /// Until when, if it waits for a point in time.
    pub until: Option<Time>,
    /// Dependencies that have not ended.
    pub jobs: Vec<After>,
    /// The jobs to wait for, as people call them: dependencies, those that have the slots of its group, or the one that drives its
    /// conversation. At most ten.
    #[serde(default)]
    pub by: Vec<Awaited>,
    /// The number of slots of its group, if all are taken.
    #[serde(default)]
    pub slots: Option<u32>,
    /// The labels that its worker must have, if it waits for one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
}

/// A job that another one waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Awaited {
    /// Its id.
    pub id: String,
    /// The last eight characters of the id.
    pub short: String,
    /// Its name.
    pub name: Option<String>,
}

impl Awaited {
    /// Converts a journal's row.
    pub fn of(row: &row::Row) -> Awaited {
        Awaited { id: row.job.to_string(), short: row.job.short(), name: row.summary.name.clone() }
    }
}

/// A job that must end before another starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct After {
    /// The job: an id in a response, any reference in a request.
    pub job: String,
    /// How it must end; `success` by default.
    #[serde(default = "success")]
    pub on: Needs,
}

fn success() -> Needs {
    Needs::Success
}

impl Waits {
    /// Returns what a job waits for, by its log alone; `None` if it does not wait.
    pub(crate) fn of(job: &job::Job) -> Option<Waits> {
        let (on, until) = match job.phase {
            CorePhase::Queued { waits: job::Waits::Slot } => (WaitsFor::Slot, None),
            CorePhase::Queued { waits: job::Waits::Dependencies } => (WaitsFor::Dependencies, None),
            CorePhase::Queued { waits: job::Waits::Until(at) } => (WaitsFor::Time, Some(at)),
            CorePhase::Backoff { until } => match &job.provider_wait {
                Some(wait) if !wait.is_opened => (on_provider(wait), Some(wait.until)),
                _ => (WaitsFor::Time, Some(until)),
            },
            CorePhase::Awaiting(_) => (WaitsFor::Children, None),
            CorePhase::Running if job.idle && job.wants_turn() => (WaitsFor::Slot, None),
            _ => return None,
        };
        let jobs = job.unmet.iter().map(After::of).collect();
        Some(Waits { jobs, ..Waits::of_kind(on, until) })
    }

    /// Returns what the job of a row waits for, by the row alone; `None` if it does not wait.
    pub fn of_row(row: &row::Row, now: Timestamp) -> Option<Waits> {
        let (on, until) = match (row.phase, row.due) {
            _ if row.summary.awaits => (WaitsFor::Children, None),
            (PhaseName::Queued, _) if row.summary.unmet > 0 => (WaitsFor::Dependencies, None),
            (PhaseName::Backoff, None) if let Some(wait) = &row.summary.provider_wait => {
                (on_provider(wait), Some(wait.until))
            }
            (PhaseName::Queued | PhaseName::Backoff, Some(due)) if due > now => (WaitsFor::Time, Some(due)),
            (PhaseName::Queued | PhaseName::Backoff, _) | (PhaseName::Idle, Some(_)) => {
                (WaitsFor::Slot, None)
            }
            _ => return None,
        };
        Some(Waits::of_kind(on, until))
    }

    fn of_kind(on: WaitsFor, until: Option<Timestamp>) -> Waits {
        let (jobs, by, labels) = (Vec::new(), Vec::new(), Vec::new());
        Waits { on, until: until.map(Time::from), jobs, by, slots: None, labels }
    }
}

impl After {
    /// Converts a dependency.
    pub fn of(dependency: &spec::Dependency) -> After {
        After { job: dependency.job.to_string(), on: dependency.on.into() }
    }
}

/// Returns what a job waits for whose provider refused to answer.
fn on_provider(wait: &provider::Wait) -> WaitsFor {
    match wait.why {
        provider::Refused::Quota => WaitsFor::Quota,
        provider::Refused::Overload => WaitsFor::Overload,
    }
}
