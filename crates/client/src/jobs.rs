//! Requests about jobs: submit, list, show, wait, cancel, retry, resume, interrupt, messages, answers, limits, remove.

use std::collections::BTreeMap;
use std::time::Duration;

use hyper::Method;
use lastword_api::{
    Accepted, Answer, Cancel, CancelMany, Interrupt, Job, LimitsPatch, Message, Page, Processes, Prune,
    Pruned, ReportProgress, Resize, Resized, Resume, RetryJob, Row, Submit, Time, UsageSums,
};

use crate::call::{Call, Query, job_path, rule_path};

/// Which jobs a list has.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// In one of these phases; any if there is none.
    pub phases: Vec<String>,
    /// Ended as this.
    pub outcome: Option<String>,
    /// Of this group.
    pub group: Option<String>,
    /// With this label, as `name=value`.
    pub label: Option<String>,
    /// With this name.
    pub name: Option<String>,
    /// Submitted from this directory or below it.
    pub cwd: Option<String>,
    /// Submitted by a process of this job.
    pub parent: Option<String>,
    /// Of the conversation that this job is in.
    pub conversation: Option<String>,
    /// Changed at this moment or later.
    pub changed_since: Option<Time>,
    /// Those that wait for a person, or the others.
    pub waiting: Option<bool>,
    /// Those with an ending that was not read, or the others.
    pub unread: Option<bool>,
    /// At most this many.
    pub limit: Option<u32>,
    /// After the page that returned this cursor.
    pub cursor: Option<String>,
}

/// Lists jobs: those that wait for a person, unread endings, live ones, the rest; each by the last change.
pub fn list(filter: &Filter) -> Call<Page<Row>> {
    let phases = (!filter.phases.is_empty()).then(|| filter.phases.join(","));
    let query = Query::default()
        .with("phase", phases)
        .with("outcome", filter.outcome.as_ref())
        .with("group", filter.group.as_ref())
        .with("label", filter.label.as_ref())
        .with("name", filter.name.as_ref())
        .with("cwd", filter.cwd.as_ref())
        .with("parent", filter.parent.as_ref())
        .with("conversation", filter.conversation.as_ref())
        .with("changed_since", filter.changed_since)
        .with("waiting", filter.waiting)
        .with("unread", filter.unread)
        .with("limit", filter.limit)
        .with("cursor", filter.cursor.as_ref());
    Call::get(query.after("/v1/jobs"))
}

/// Submits a job. With an id or a key, a repeated request is recognised.
pub fn submit(job: &Submit) -> Call<Job> {
    Call::post("/v1/jobs", job)
}

/// Shows a job.
pub fn show(reference: &str) -> Call<Job> {
    Call::get(job_path(reference, ""))
}

/// Returns the living processes of a job.
pub fn processes(reference: &str) -> Call<Processes> {
    Call::get(job_path(reference, "/processes"))
}

/// Sums up what jobs spent that have not ended, or ended since a moment, by these kinds.
pub fn usage(since: Time, by: &[String]) -> Call<UsageSums> {
    let by = (!by.is_empty()).then(|| by.join(","));
    Call::get(Query::default().with("since", Some(since)).with("by", by).after("/v1/usage"))
}

/// Says from inside a job how far its work is. A repeated call says nothing new.
pub fn progress(said: &ReportProgress) -> Call<()> {
    Call::post("/v1/progress", said)
}

/// How far a job must be for a wait to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Its first process runs, or it has ended.
    Started,
    /// It has ended.
    Ended,
}

/// Waits until a job has started or ended, or the time is over. The reply is the job as it is then.
pub fn wait(reference: &str, until: Until, at_most: Duration) -> Call<Job> {
    let wait = format!("{}ms", at_most.as_millis().max(1));
    let until = match until {
        Until::Started => "started",
        Until::Ended => "ended",
    };
    let query = Query::default().with("wait", Some(wait)).with("until", Some(until));
    Call::get(query.after(&job_path(reference, "")))
}

/// Cancels a job.
pub fn cancel(reference: &str, how: &Cancel) -> Call<Job> {
    Call::post(job_path(reference, ":cancel"), how)
}

/// Cancels many jobs.
pub fn cancel_many(which: &CancelMany) -> Call<Page<Row>> {
    Call::post("/v1/jobs:cancel", which)
}

/// Runs an ended job again, as a new one. Needs a key to be repeated.
pub fn retry(reference: &str, how: &RetryJob) -> Call<Job> {
    Call::post(job_path(reference, ":retry"), how)
}

/// Continues the conversation of a job, as a new one. Needs a key to be repeated.
pub fn resume(reference: &str, how: &Resume) -> Call<Job> {
    Call::post(job_path(reference, ":resume"), how)
}

/// Asks an agent to end its turn.
pub fn interrupt(reference: &str, which: &Interrupt) -> Call<Job> {
    Call::post(job_path(reference, ":interrupt"), which)
}

/// Changes the size of the terminal of a job.
pub fn resize(reference: &str, size: &Resize) -> Call<Resized> {
    Call::post(job_path(reference, ":resize"), size)
}

/// Gives up on the host of a job that does not return.
pub fn abandon(reference: &str) -> Call<Job> {
    Call::post(job_path(reference, ":abandon"), &serde_json::json!({}))
}

/// Says that a person has read how a job ended.
pub fn seen(reference: &str) -> Call<()> {
    Call::new(Method::POST, job_path(reference, ":seen"))
}

/// Changes limits of a job.
pub fn set_limits(reference: &str, patch: &LimitsPatch) -> Call<Job> {
    Call::new(Method::PATCH, job_path(reference, "/limits")).with_body(patch)
}

/// Changes labels of a job; one without a value is removed.
pub fn set_labels(reference: &str, changes: &BTreeMap<String, Option<String>>) -> Call<Job> {
    Call::new(Method::PATCH, job_path(reference, "/labels")).with_body(changes)
}

/// Sends a message to a job. Needs a key to be repeated.
pub fn send(reference: &str, message: &Message) -> Call<Accepted> {
    Call::post(job_path(reference, "/messages"), message)
}

/// Answers a question of an agent. Needs a key to be repeated.
pub fn answer(reference: &str, answer: &Answer) -> Call<Accepted> {
    Call::post(job_path(reference, "/answers"), answer)
}

/// Removes a rule of a job, by its name.
pub fn remove_rule(reference: &str, rule: &str) -> Call<Job> {
    Call::new(Method::DELETE, rule_path(reference, rule))
}

/// Removes an ended job; with `unsaved` also if its worktree holds work that was not applied.
pub fn remove(reference: &str, unsaved: bool) -> Call<()> {
    let query = Query::default().with("unsaved", unsaved.then_some(true));
    Call::new(Method::DELETE, query.after(&job_path(reference, "")))
}

/// Removes ended jobs that are old enough.
pub fn prune(which: &Prune) -> Call<Pruned> {
    Call::post("/v1/jobs:prune", which)
}
