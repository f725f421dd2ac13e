//! Jobs: asked for, shown, listed, stopped, tried again, removed.

mod agent;
mod cancel;
mod change;
mod list;
mod show;
mod submit;

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use lastword_api as api;
use lastword_core::{Job, Seq};
use lastword_engine::{Env, Settled};
use lastword_proc::{Attributes, ResourceLimit};
use lastword_store::siblings::Siblings;

use crate::app::App;
use crate::caller::Caller;
use crate::failure::Failure;
use crate::router::Answer;

pub(crate) use agent::{__path_answer_question, __path_interrupt, __path_resume, answer_question};
pub(crate) use cancel::{__path_cancel, __path_cancel_many, cancel_many};
pub(crate) use change::{
    __path_abandon, __path_prune, __path_remove, __path_retry, __path_send, __path_set_limits, prune, remove,
    send, set_limits,
};
pub(crate) use list::{__path_list, list, page_limit};
pub(crate) use show::{__path_show, WAIT_MAX, seen, show};
pub(crate) use submit::{__path_submit, submit};

/// What is asked of one job by a verb behind its reference: `/v1/jobs/{ref}:cancel`. A reference may hold a colon itself, so
/// the last one counts.
pub(crate) async fn verb<J: Siblings>(
    State(app): State<App<J>>,
    caller: Caller,
    Path(segment): Path<String>,
    request: Request,
) -> Answer {
    let (reference, verb) = segment.rsplit_once(':').unwrap_or((&segment, ""));
    match verb {
        "cancel" => cancel::cancel(app, caller, reference, request).await,
        "retry" => change::retry(app, caller, reference, request).await,
        "abandon" => change::abandon(app, caller, reference).await,
        "interrupt" => agent::interrupt(app, caller, reference, request).await,
        "resume" => agent::resume(app, caller, reference, request).await,
        _ => Err(Failure::invalid(
            "a job is asked something with `:cancel`, `:retry`, `:resume`, `:interrupt` or `:abandon` behind its reference",
        )),
    }
}

/// Returns a job as the API shows it, at one version. It was settled by whoever read it; what was written since is left for the
/// next read.
pub(crate) async fn view<J: Siblings>(app: &App<J>, job: &Settled<Job>) -> Result<api::Job, Failure> {
    let events = app.engine().desk().journal().load(job.value.id, Seq(0)).await?;
    let shown =
        api::Job::of(&job.value, &events).ok_or(lastword_core::decide::Refusal::NotFound(job.value.id))?;
    let mut shown = api::Job { unsettled: job.unsettled, ..shown };
    if let Some(waits) = &mut shown.waits
        && waits.on == api::WaitsFor::Slot
        && app.engine().desk().is_paused(&shown.group)
    {
        waits.on = api::WaitsFor::Paused;
    }
    if let Some(stop) = &mut shown.stop {
        stop.pids = app.engine().alive(&job.value).await;
    }
    if let Some(worktree) = &mut shown.worktree {
        let path = app.engine().worktree(job.value.id);
        worktree.present = path.as_ref().is_some_and(|path| path.is_dir());
        worktree.path = path.map(|path| path.to_string_lossy().into_owned());
    }
    Ok(shown)
}

/// Answers with a job, its version as ETag.
async fn answer<J: Siblings>(app: &App<J>, status: StatusCode, job: Settled<Job>) -> Answer {
    let shown = view(app, &job).await?;
    let etag = etag(shown.version);
    let mut response = (status, Json(shown)).into_response();
    response.headers_mut().insert(header::ETAG, etag);
    Ok(response)
}

/// Answers with a job that was just written to.
async fn answer_written<J: Siblings>(app: &App<J>, status: StatusCode, job: Job) -> Answer {
    answer(app, status, Settled { value: job, unsettled: false }).await
}

/// Adds where a job that was just made is found.
fn locate(response: &mut Response, job: &Job) -> Result<(), Failure> {
    let location = HeaderValue::try_from(format!("/v1/jobs/{}", job.id));
    let location = location.map_err(|_| Failure::invalid("an id that is no text"))?;
    response.headers_mut().insert(header::LOCATION, location);
    Ok(())
}

fn etag(version: u64) -> HeaderValue {
    // Digits and quotes fit into any header.
    HeaderValue::try_from(format!("\"{version}\"")).unwrap_or(HeaderValue::from_static("\"\""))
}

/// Returns an environment as the engine keeps it, or says what no process can be started with.
fn environment(env: &BTreeMap<String, String>, attributes: Option<&api::Attributes>) -> Result<Env, Failure> {
    let bad = env
        .iter()
        .find(|(name, value)| name.is_empty() || name.contains(['=', '\0']) || value.contains('\0'));
    if let Some((name, _)) = bad {
        let name: String = name.chars().take(64).flat_map(char::escape_default).collect();
        return Err(Failure::invalid(format!("no process can have the variable `{name}`")));
    }
    let variables = env.iter().map(|(name, value)| (name.into(), value.into())).collect();
    let attributes = attributes.map(known_attributes).transpose()?.unwrap_or_default();
    Ok(Env { variables, attributes })
}

/// Returns umask, resource limits and nice value as a keeper gives them, or says which of them no process can have.
fn known_attributes(asked: &api::Attributes) -> Result<Attributes, Failure> {
    let usual = Attributes::default();
    let umask = asked.umask.unwrap_or(usual.umask);
    if umask > 0o777 {
        return Err(Failure::invalid("`attributes`: `umask` is at most 511, which is 0777"));
    }
    if asked.nice.is_some_and(|nice| !(-20..=19).contains(&nice)) {
        return Err(Failure::invalid("`attributes`: `nice` is from -20 to 19"));
    }
    let limit = |(name, limit): (&String, &api::ResourceLimit)| {
        if limit.soft.unwrap_or(u64::MAX) > limit.hard.unwrap_or(u64::MAX) {
            return Err(Failure::invalid("`attributes`: a soft limit is above its hard one"));
        }
        ResourceLimit::new(name, limit.soft, limit.hard).ok_or_else(|| {
            Failure::invalid("`attributes`: `limits` names a resource that this system does not have")
        })
    };
    let limits = asked.limits.iter().map(limit).collect::<Result<_, _>>()?;
    Ok(Attributes { umask, nice: asked.nice, limits })
}
