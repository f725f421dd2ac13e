//! Submitting a job, once per idempotency key.

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use lastword_api::{self as api, Problem, Submit};
use lastword_core::decide::Refusal;
use lastword_core::decide::submit::is_name;
use lastword_core::spec::{Dependency, Spec, Work};
use lastword_core::{Job, JobId};
use lastword_engine::{Env, Error};
use lastword_store::Store;
use serde::Serialize;

use super::environment::environment;
use super::response::{set_location, written_job_response};
use crate::app::App;
use crate::extract::{EnvBody, idempotency_key};
use crate::failure::{Failure, Reply};
use crate::principal::Principal;
use crate::{agents, groups, keys};

/// Submits a job.
///
/// The job is stored when this responds. With `Idempotency-Key` the request may be repeated: a repeat returns the same job with
/// `Idempotency-Replayed: true`. The same key with another body is refused with 422. A key or an `id` belongs to its job: as long as the job
/// is stored, and for a week after its removal, when it is refused with 410.
#[utoipa::path(
    post, operation_id = "submit_job", path = "/v1/jobs", tag = "jobs", request_body = Submit,
    params(("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 255, pattern = "^[\\t -~]*[!-~][\\t -~]*$", description = "Identifies this request, so that it can be repeated.")),
    responses(
        (status = 202, description = "The job, with its path in `Location`.", body = api::Job),
        (status = "4XX", description = "The job is invalid, or the key was used for another request.", body = Problem),
    ),
)]
pub(crate) async fn submit<J: Store>(
    State(app): State<App<J>>,
    principal: Principal,
    headers: HeaderMap,
    EnvBody(asked): EnvBody<Submit>,
) -> Reply {
    let key = idempotency_key(&headers)?;
    let is_fleet = app.about().fleet.is_some();
    let env = environment(&asked.env, asked.attributes.as_ref(), is_fleet)?;
    check(&asked, is_fleet)?;
    let requested: Option<JobId> = match &asked.id {
        None => None,
        Some(id) => Some(id.parse().map_err(|error| Failure::invalid(format!("`id`: {error}")))?),
    };
    if let Some(id) = requested {
        keys::check_id(&app, id).await?;
    }
    let fresh = || requested.map_or_else(|| app.engine().desk().new_id(), Ok);
    let Some(key) = key else {
        let spec = spec(&app, &principal, &asked).await?;
        let job = app.engine().submit(fresh()?, spec, env, principal.name()).await?;
        return accepted(&app, job, false).await;
    };
    // The key is reserved for an id before the job is created: a repeat after a crash, or at the same time, gets the same id. It is never
    // reserved for a job that exists: that one was not submitted with this key.
    let free = match requested {
        Some(id) if existing(&app, id).await?.is_none() => id,
        _ => app.engine().desk().new_id()?,
    };
    let id = keys::job_of(&app, &principal, "submit", &key, &asked, free).await?;
    if let Some(requested) = requested.filter(|requested| *requested != id) {
        return Err(Refusal::IdTaken(requested).into());
    }
    if let Some(job) = existing(&app, id).await? {
        return accepted(&app, job, true).await;
    }
    let spec = spec(&app, &principal, &asked).await?;
    let (job, replayed) = submit_once(&app, &principal, id, spec, env).await?;
    accepted(&app, job, replayed).await
}

/// Submits under an id that concurrent requests with the same key share. The second gets the job of the first, even if its spec differs
/// because a reference such as `@last` changed its meaning.
async fn submit_once<J: Store>(
    app: &App<J>,
    principal: &Principal,
    id: JobId,
    spec: Spec,
    env: Env,
) -> Result<(Job, bool), Failure> {
    match app.engine().submit(id, spec, env, principal.name()).await {
        Ok(job) => Ok((job, false)),
        Err(Error::Refused(Refusal::IdTaken(id))) => match existing(app, id).await? {
            Some(job) => Ok((job, true)),
            None => Err(Refusal::IdTaken(id).into()),
        },
        Err(error) => Err(error.into()),
    }
}

pub(super) async fn existing<J: Store>(app: &App<J>, id: JobId) -> Result<Option<Job>, Failure> {
    match app.engine().job(id).await {
        Ok(job) => Ok(job.value.spec.is_some().then_some(job.value)),
        Err(Error::Refused(Refusal::NotFound(_))) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Creates a new job from another one, once per key. `make` gets the id of the new job and that of the other.
pub(super) async fn derive_job<J: Store, R: Serialize>(
    app: &App<J>,
    principal: &Principal,
    reference: &str,
    (verb, key, asked): (&'static str, Option<&str>, &R),
    make: impl AsyncFnOnce(JobId, JobId) -> Result<Job, Error>,
) -> Reply {
    let fresh = app.engine().desk().new_id()?;
    // The reference as given, not the job it means: afterwards `@last` means the new job.
    let new = match key {
        Some(key) => keys::job_of(app, principal, verb, key, &(reference, asked), fresh).await?,
        None => fresh,
    };
    if let Some(job) = existing(app, new).await?.filter(|_| key.is_some()) {
        return accepted(app, job, true).await;
    }
    let id = principal.find(app, reference).await?;
    let (job, replayed) = make_once(app, new, make(new, id).await).await?;
    accepted(app, job, replayed).await
}

/// Returns the job that was made, or the one of a concurrent request under the same key, which was first.
pub(super) async fn make_once<J: Store>(
    app: &App<J>,
    new: JobId,
    made: Result<Job, Error>,
) -> Result<(Job, bool), Failure> {
    match made {
        Ok(job) => Ok((job, false)),
        Err(error @ Error::Refused(_)) => match existing(app, new).await? {
            Some(job) => Ok((job, true)),
            None => Err(error.into()),
        },
        Err(error) => Err(error.into()),
    }
}

pub(super) async fn accepted<J: Store>(app: &App<J>, job: Job, replayed: bool) -> Reply {
    let mut response = written_job_response(app, StatusCode::ACCEPTED, job.clone()).await?;
    set_location(&mut response, &job)?;
    if replayed {
        response.headers_mut().insert("idempotency-replayed", HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// Refuses what no process can be started with. Core checks the rest of the spec.
fn check(asked: &Submit, is_fleet: bool) -> Result<(), Failure> {
    let has_zero = |text: &String| text.contains('\0');
    match () {
        () if asked.agent.is_some() && !asked.argv.is_empty() => {
            Err(Failure::invalid("`argv` and `agent` cannot be combined"))
        }
        () if asked.agent.is_none() && asked.argv.is_empty() => Err(Failure::invalid("`argv` is empty")),
        () if asked.argv.first().is_some_and(String::is_empty) => {
            Err(Failure::invalid("`argv` starts with an empty program name"))
        }
        () if asked.argv.iter().any(has_zero) => Err(Failure::invalid("`argv` contains a zero byte")),
        () if is_fleet && asked.cwd.is_empty() => Ok(()),
        () if !asked.cwd.starts_with('/') => Err(Failure::invalid("`cwd` must be an absolute path")),
        () if has_zero(&asked.cwd) => Err(Failure::invalid("`cwd` contains a zero byte")),
        () if asked.group.as_deref().is_some_and(|group| !is_name(group)) => Err(groups::invalid_name()),
        () => Ok(()),
    }
}

/// Returns the spec, with its agent and dependencies looked up with the rights of the principal.
async fn spec<J: Store>(app: &App<J>, principal: &Principal, asked: &Submit) -> Result<Spec, Failure> {
    let mut after = Vec::with_capacity(asked.after.len());
    for dependency in &asked.after {
        let on = dependency
            .on
            .to_core()
            .ok_or_else(|| Failure::invalid("`after`: `on` must be `success` or `any`"))?;
        after.push(Dependency { job: principal.find(app, &dependency.job).await?, on });
    }
    let work = match &asked.agent {
        Some(request) => agents::work(app, request)?,
        None => Work::Command { argv: asked.argv.clone() },
    };
    agents::check_money(&work, asked.limits.money_micros)?;
    asked.spec(work, after, principal.job()).map_err(|why| Failure::invalid(why.to_string()))
}
