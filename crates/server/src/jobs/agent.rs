//! What is asked of the agent of a job: an answer, the end of a turn, to go on with its conversation in a new job.

use axum::Json;
use axum::extract::{FromRequest as _, Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse as _;
use lastword_api::{self as api, Accepted, Interrupt, Problem, Resume};
use lastword_core::TurnNo;
use lastword_store::siblings::Siblings;

use super::submit::out_of_another;
use super::{answer_written, environment};
use crate::app::App;
use crate::caller::Caller;
use crate::extract::{Body, EnvBody, idempotency_key};
use crate::router::Answer;
use crate::{agents, keys};

/// Answers a question of an agent.
///
/// It is durable when this is answered, and reaches the agent once. With `Idempotency-Key` the request may be repeated. An agent does
/// not answer its own questions.
#[utoipa::path(
    post, operation_id = "answer_question", path = "/v1/jobs/{ref}/answers", tag = "jobs", request_body = api::Answer,
    params(
        ("ref" = String, Path, description = "An id, a part of one, a name, or `@last`."),
        ("Idempotency-Key" = Option<String>, Header, description = "Names this answer, so that it can be repeated."),
    ),
    responses(
        (status = 202, description = "It will be delivered.", body = Accepted),
        (status = 409, description = "There is no such open question, or several and none was named.", body = Problem),
    ),
)]
pub(crate) async fn answer_question<J: Siblings>(
    State(app): State<App<J>>,
    caller: Caller,
    Path(reference): Path<String>,
    headers: HeaderMap,
    Body(said): Body<api::Answer>,
) -> Answer {
    let id = caller.find(&app, &reference).await?;
    if caller.job() == Some(id) {
        caller.must_be_outside()?;
    }
    let key = idempotency_key(&headers)?;
    // One after the other, so that of two with one key the second finds what the first has said.
    let _turn = if key.is_some() { Some(app.keyed().await) } else { None };
    let before = match &key {
        Some(key) => keys::answered_before(&app, caller, id, key, &said).await?,
        None => None,
    };
    let input = match before {
        Some(input) => input,
        None => {
            let (by, question) = (caller.name(&app), said.question.as_deref());
            app.engine().desk().answer(id, &by, question, &said.text).await?.1
        }
    };
    Ok((StatusCode::ACCEPTED, Json(Accepted { input: input.0 })).into_response())
}

/// Asks an agent to end its turn. The job goes on: what is sent to it begins the next one.
#[utoipa::path(
    post, operation_id = "interrupt_turn", path = "/v1/jobs/{ref}:interrupt", tag = "jobs", request_body = Interrupt,
    params(("ref" = String, Path, description = "An id, a part of one, a name, or `@last`.")),
    responses(
        (status = 202, description = "The agent will be told.", body = api::Job),
        (status = 409, description = "There is no such active turn.", body = Problem),
    ),
)]
pub(crate) async fn interrupt<J: Siblings>(
    app: App<J>,
    caller: Caller,
    reference: &str,
    request: Request,
) -> Answer {
    let id = caller.find(&app, reference).await?;
    let Body(asked) = Body::<Interrupt>::from_request(request, &()).await?;
    let job = app.engine().desk().interrupt(id, &caller.name(&app), asked.turn.map(TurnNo)).await?;
    answer_written(&app, StatusCode::ACCEPTED, job).await
}

/// Goes on with the conversation of an ended job, as a new job. With `Idempotency-Key` the request may be repeated.
///
/// It is the same agent on the same terms, and goes on from the last turn that was completed.
#[utoipa::path(
    post, operation_id = "resume_job", path = "/v1/jobs/{ref}:resume", tag = "jobs", request_body = Resume,
    params(
        ("ref" = String, Path, description = "An id, a part of one, a name, or `@last`."),
        ("Idempotency-Key" = Option<String>, Header, description = "Names this request, so that it can be repeated."),
    ),
    responses(
        (status = 202, description = "The new job.", body = api::Job),
        (status = 409, description = "It has not ended, or has no conversation to go on with.", body = Problem),
        (status = 422, description = "The key was used for something else.", body = Problem),
    ),
)]
pub(crate) async fn resume<J: Siblings>(
    app: App<J>,
    caller: Caller,
    reference: &str,
    request: Request,
) -> Answer {
    caller.must_be_outside()?;
    let key = idempotency_key(request.headers())?;
    let EnvBody(asked) = EnvBody::<Resume>::from_request(request, &()).await?;
    agents::check_prompt(&asked.prompt)?;
    agents::check_resume(&app, caller, reference).await?;
    let (env, by, engine) =
        (environment(&asked.env, asked.attributes.as_ref())?, caller.name(&app), app.engine());
    let prompt = (asked.prompt.as_str(), asked.fork);
    let resume = async |new, id| engine.resume_as(new, id, prompt, env, &by).await;
    out_of_another(&app, caller, reference, ("resume", key.as_deref(), &asked), resume).await
}
