//! Events, a page at a time. [`Client::follow_job`](crate::Client::follow_job) and [`Client::follow_all`](crate::Client::follow_all) stream them.

use lastword_api::{Event, Feed, Page, Time};

use crate::call::{Call, Query, job_path};

/// Which events a list or a stream has; by default all.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Of one of these types; of any if there is none.
    pub types: Vec<String>,
    /// Of jobs of this group. Not for the events of one job.
    pub group: Option<String>,
    /// Of jobs with this label, as `name=value`. Not for the events of one job.
    pub label: Option<String>,
    /// Of jobs that were submitted from this directory or below it. Not for the events of one job.
    pub cwd: Option<String>,
    /// Of jobs that were submitted by a process of this job. Not for the events of one job.
    pub parent: Option<String>,
    /// Of jobs of the conversation that this job is in. Not for the events of one job.
    pub conversation: Option<String>,
    /// Of this moment or later.
    pub since: Option<Time>,
}

impl Filter {
    pub(crate) fn query(&self) -> Query {
        let types = (!self.types.is_empty()).then(|| self.types.join(","));
        let query = Query::default().with("type", types);
        query
            .with("group", self.group.as_ref())
            .with("label", self.label.as_ref())
            .with("cwd", self.cwd.as_ref())
            .with("parent", self.parent.as_ref())
            .with("conversation", self.conversation.as_ref())
            .with("since", self.since)
    }
}

/// Lists events of a job after a place in its log.
pub fn of_job(reference: &str, filter: &Filter, after: Option<&str>, limit: u32) -> Call<Page<Event>> {
    let query = filter.query().with("limit", Some(limit)).with("after", after);
    Call::get(query.after(&job_path(reference, "/events")))
}

/// Lists events of all jobs after a cursor; `now` skips all past events.
pub fn of_all(filter: &Filter, cursor: Option<&str>, limit: u32) -> Call<Feed> {
    let query = filter.query().with("limit", Some(limit)).with("cursor", cursor);
    Call::get(query.after("/v1/events"))
}
