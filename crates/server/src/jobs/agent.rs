//! Requests to the agent of a job: answer, rules, interrupt, resume.

use axum::Json;
use axum::extract::{FromRequest as _, Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse as _;
use lastword_api::{self as api, Accepted, Code, Interrupt, Problem, Resume};
use lastword_core::TurnNo;
use lastword_core::decide::resume::How;
use lastword_core::decide::rule;
use lastword_store::Store;

use super::environment::environment;
use super::response::written_job_response;
use super::submit::derive_job;
use crate::app::App;
use crate::extract::{Body, EnvBody, OptionalBody, idempotency_key};
use crate::failure::Reply;
use crate::principal::{Principal, Unrestricted};
use crate::{agents, keys};

/// Answers a question of an agent, or the one at a limit.
///
/// The answer is stored when this responds, and is delivered once. With `Idempotency-Key` the request may be repeated. A job cannot answer
/// its own questions, nor raise a limit. The answer at a limit is one word, its new value; a denial stops the job.
#[utoipa::path(
    post, operation_id = "answer_question", path = "/v1/jobs/{ref}/answers", tag = "jobs", request_body = api::Answer,
    params(
        ("ref" = String, Path, description = "An id or a prefix of one, a name, or `@last`."),
        ("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 255, pattern = "^[\\t -~]*[!-~][\\t -~]*$", description = "Identifies this answer, so that the request can be repeated."),
    ),
    responses(
        (status = 202, description = "It will be delivered.", body = Accepted),
        (status = 409, description = "The question is not open, or needs another kind of answer.", body = Problem),
    ),
)]
pub(crate) async fn answer_question<J: Store>(
    State(app): State<App<J>>,
    principal: Principal,
    Path(reference): Path<String>,
    headers: HeaderMap,
    Body(answer): Body<api::Answer>,
) -> Reply {
    let id = principal.find(&app, &reference).await?;
    // Questions of a family are answered from outside it.
    principal.must_be_unrestricted()?;
    // Before a key is taken: what is no answer takes none.
    let reply = answer.reply().map_err(|why| Problem::new(Code::Invalid, why))?;
    let key = idempotency_key(&headers)?;
    // One at a time, so that of two requests with the same key the second finds the answer of the first.
    let _turn = if key.is_some() { Some(app.keyed().await) } else { None };
    let before = match &key {
        Some(key) => keys::answered_before(&app, &principal, id, key, &answer).await?,
        None => None,
    };
    let input = match before {
        Some(input) => input,
        None if answer.always => {
            app.engine().desk().allow_always(id, principal.name(), &answer.question).await?.1
        }
        None => app.engine().desk().answer(id, principal.name(), &answer.question, &reply).await?.1,
    };
    Ok((StatusCode::ACCEPTED, Json(Accepted { input: input.0, job: None })).into_response())
}

/// Removes a rule that a person made: what it allows is asked again.
///
/// It has no effect on what it allowed before.
#[utoipa::path(
    delete, operation_id = "remove_rule", path = "/v1/jobs/{ref}/rules/{rule}", tag = "jobs",
    params(
        ("ref" = String, Path, description = "An id or a prefix of one, a name, or `@last`."),
        ("rule" = String, Path, description = "The `id` of the rule, as the job shows it."),
    ),
    responses(
        (status = 200, description = "The job, with its current rules.", body = api::Job),
        (status = 409, description = "It has ended, or has no such rule.", body = Problem),
    ),
)]
pub(crate) async fn remove_rule<J: Store>(
    State(app): State<App<J>>,
    Unrestricted(principal): Unrestricted,
    Path((reference, name)): Path<(String, String)>,
) -> Reply {
    let id = principal.find(&app, &reference).await?;
    // No rule has the number 0.
    let rule = rule::parse(&name).unwrap_or(0);
    let job = app.engine().desk().remove_rule(id, principal.name(), rule).await?;
    written_job_response(&app, StatusCode::OK, job).await
}

/// Asks an agent to end its turn. The job continues, and the next message begins the next turn.
#[utoipa::path(
    post, operation_id = "interrupt_turn", path = "/v1/jobs/{ref}:interrupt", tag = "jobs", request_body = Interrupt,
    params(("ref" = String, Path, description = "An id or a prefix of one, a name, or `@last`.")),
    responses(
        (status = 202, description = "The agent will be interrupted.", body = api::Job),
        (status = 409, description = "That turn is not active.", body = Problem),
    ),
)]
pub(crate) async fn interrupt<J: Store>(
    app: App<J>,
    principal: &Principal,
    reference: &str,
    request: Request,
) -> Reply {
    let id = principal.find(&app, reference).await?;
    let OptionalBody(asked) = OptionalBody::<Interrupt>::from_request(request, &()).await?;
    let job = app.engine().desk().interrupt(id, principal.name(), asked.turn.map(TurnNo)).await?;
    written_job_response(&app, StatusCode::ACCEPTED, job).await
}

/// Resumes the conversation of an ended job in a new job. With `Idempotency-Key` the request may be repeated.
///
/// The new job has the same agent, rules and limits, and continues after the last completed turn of the conversation, whichever of its jobs
/// is named.
#[utoipa::path(
    post, operation_id = "resume_job", path = "/v1/jobs/{ref}:resume", tag = "jobs", request_body = Resume,
    params(
        ("ref" = String, Path, description = "An id or a prefix of one, a name, or `@last`."),
        ("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 255, pattern = "^[\\t -~]*[!-~][\\t -~]*$", description = "Identifies this request, so that it can be repeated."),
    ),
    responses(
        (status = 202, description = "The new job.", body = api::Job),
        (status = 409, description = "It has not ended, or has no conversation to resume.", body = Problem),
        (status = 422, description = "The key was used for another request.", body = Problem),
    ),
)]
pub(crate) async fn resume<J: Store>(
    app: App<J>,
    principal: &Principal,
    reference: &str,
    request: Request,
) -> Reply {
    principal.must_be_unrestricted()?;
    let key = idempotency_key(request.headers())?;
    let EnvBody(asked) = EnvBody::<Resume>::from_request(request, &()).await?;
    agents::check_prompt(&asked.prompt)?;
    if let Ok(id) = principal.find(&app, reference).await {
        agents::check_resume(&app, &app.engine().job(id).await?.value)?;
    }
    let env = environment(&asked.env, asked.attributes.as_ref(), app.about().fleet.is_some())?;
    let (by, engine) = (principal.name(), app.engine());
    let how = How { fork: asked.fork, keep_unfinished: asked.keep_unfinished };
    let prompt = (asked.prompt.as_str(), how);
    let resume = async |new, id| engine.resume_as(new, id, prompt, env, by).await;
    derive_job(&app, principal, reference, ("resume", key.as_deref(), &asked), resume).await
}
