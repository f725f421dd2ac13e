//! Events, a page at a time. [`Client::follow_job`](crate::Client::follow_job) and [`Client::follow_all`](crate::Client::follow_all) stream them.

use lastword_api::{Event, Feed, Page};

use crate::call::{Call, Query, job_path};

/// Lists events of a job after a place in its log.
pub fn of_job(reference: &str, after: Option<&str>, limit: u32) -> Call<Page<Event>> {
    let query = Query::default().with("limit", Some(limit)).with("after", after);
    Call::get(query.after(&job_path(reference, "/events")))
}

/// Lists events of all jobs after a cursor; `now` skips all past events.
pub fn of_all(cursor: Option<&str>, limit: u32) -> Call<Feed> {
    let query = Query::default().with("limit", Some(limit)).with("cursor", cursor);
    Call::get(query.after("/v1/events"))
}
