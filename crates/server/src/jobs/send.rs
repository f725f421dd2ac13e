//! Messages to a job. The conversation of an agent that has ended goes on with one, as a new job.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse as _;
use lastword_api::{Accepted, Code, Message, Problem};
use lastword_core::decide::resume::How;
use lastword_core::{Job, JobId};
use lastword_engine::Until;
use lastword_store::Store;

use super::environment::environment;
use super::submit::{existing, make_once};
use crate::app::App;
use crate::extract::{EnvBody, idempotency_key};
use crate::failure::{Failure, Reply};
use crate::principal::Principal;
use crate::{agents, keys};

/// Sends a message to a job.
///
/// The message is stored when this responds, and is delivered once. With `Idempotency-Key` the request may be repeated. If the job has ended
/// and `env` is given, the conversation of its agent goes on with the message: in its newest job if that has not ended, otherwise as a new
/// job, which the answer names.
#[utoipa::path(
    post, operation_id = "send_message", path = "/v1/jobs/{ref}/messages", tag = "jobs", request_body = Message,
    params(
        ("ref" = String, Path, description = "An id or a prefix of one, a name, or `@last`."),
        ("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 255, pattern = "^[\\t -~]*[!-~][\\t -~]*$", description = "Identifies this message, so that the request can be repeated."),
    ),
    responses(
        (status = 202, description = "It will be delivered.", body = Accepted),
        (status = 409, description = "The job has ended, or has no input.", body = Problem),
        (status = 429, description = "Too many messages are not delivered yet.", body = Problem),
    ),
)]
pub(crate) async fn send<J: Store>(
    State(app): State<App<J>>,
    principal: Principal,
    Path(reference): Path<String>,
    headers: HeaderMap,
    EnvBody(message): EnvBody<Message>,
) -> Reply {
    let key = idempotency_key(&headers)?;
    // One at a time, so that of two requests with the same key the second finds the message of the first.
    let _turn = if key.is_some() { Some(app.keyed().await) } else { None };
    let new = match (&key, &message.env) {
        // The reference as given, not the job it means: afterwards a name means the new job.
        (Some(key), Some(_)) => {
            check(&message)?;
            let fresh = app.engine().desk().new_id()?;
            keys::job_of(&app, &principal, "continue", key, &(&reference, &message), fresh).await?
        }
        _ => app.engine().desk().new_id()?,
    };
    if let Some(job) = existing(&app, new).await? {
        return Ok(accepted(0, Some(job.id)));
    }
    let named = principal.find(&app, &reference).await?;
    check(&message)?;
    if let Some(key) = &key
        && let Some((job, input)) = keys::sent_before(&app, &principal, named, key, &message).await?
    {
        return Ok(accepted(input.0, Some(job).filter(|job| *job != named)));
    }
    for _ in 1..TRIES {
        let failure = match send_once(&app, &principal, named, new, &message).await {
            Err(failure) if message.env.is_some() => failure,
            reply => return reply,
        };
        match failure.code() {
            // Another request continued the conversation.
            Code::Continued => {}
            // The newest job ended meanwhile, or has finished its work and is about to.
            Code::Ended => {
                let job = app.engine().job(named).await?.value;
                let newest = app.engine().desk().newest_of(&job).await?;
                app.engine().wait(newest.id, Until::Ended, WINDS_DOWN).await?;
            }
            _ => return Err(failure),
        }
    }
    send_once(&app, &principal, named, new, &message).await
}

/// How long a message waits for an agent that has finished its work to end.
const WINDS_DOWN: Duration = Duration::from_secs(15);

/// How often a message looks for the newest job of a conversation. Each time, another request was quicker.
const TRIES: u32 = 8;

/// Sends a message to a job, or to the newest one of its conversation if it has ended.
async fn send_once<J: Store>(
    app: &App<J>,
    principal: &Principal,
    named: JobId,
    new: JobId,
    message: &Message,
) -> Reply {
    let job = app.engine().job(named).await?.value;
    let newest = match job.is_ended() && message.env.is_some() {
        true => app.engine().desk().newest_of(&job).await?,
        false => job,
    };
    match newest.is_ended() && newest.reports_turns() && message.env.is_some() {
        true => go_on(app, principal, &newest, new, message).await,
        false => deliver(app, principal, named, newest.id, message).await,
    }
}

/// Refuses what is no message.
fn check(message: &Message) -> Result<(), Failure> {
    match () {
        () if message.text.is_empty() && !message.eof => {
            Err(Failure::invalid("`text` is empty: there is nothing to send"))
        }
        () if message.steer && message.eof => {
            Err(Failure::invalid("`steer` and `eof` cannot be combined: only agents can be steered"))
        }
        () => Ok(()),
    }
}

/// Sends a message to a live job.
async fn deliver<J: Store>(
    app: &App<J>,
    principal: &Principal,
    named: JobId,
    job: JobId,
    message: &Message,
) -> Reply {
    let (desk, by) = (app.engine().desk(), principal.name());
    let input = match message.steer {
        true => desk.steer(job, by, &message.text).await?.1,
        false => desk.send(job, by, &message.text, message.eof, None).await?.1,
    };
    Ok(accepted(input.0, Some(job).filter(|job| *job != named)))
}

/// Continues a conversation with a message, as a new job.
async fn go_on<J: Store>(
    app: &App<J>,
    principal: &Principal,
    newest: &Job,
    new: JobId,
    message: &Message,
) -> Reply {
    principal.must_be_unrestricted()?;
    agents::check_prompt(&message.text)?;
    agents::check_resume(app, newest)?;
    let env = message.env.clone().unwrap_or_default();
    let env = environment(&env, message.attributes.as_ref(), app.about().fleet.is_some())?;
    let prompt = (message.text.as_str(), How::default());
    let made = app.engine().resume_as(new, newest.id, prompt, env, principal.name()).await;
    let (job, _) = make_once(app, new, made).await?;
    Ok(accepted(0, Some(job.id)))
}

fn accepted(input: u32, job: Option<JobId>) -> axum::response::Response {
    let accepted = Accepted { input, job: job.map(|job| job.to_string()) };
    (StatusCode::ACCEPTED, Json(accepted)).into_response()
}
