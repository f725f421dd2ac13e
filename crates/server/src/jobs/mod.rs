//! Jobs: submit, show, list, stop, retry, remove.

mod agent;
mod cancel;
mod change;
mod environment;
mod label;
mod list;
mod response;
mod seen;
mod send;
mod show;
mod submit;
mod waits;

use axum::extract::{Path, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use lastword_api::{Code, Problem};
use lastword_store::Store;

use crate::app::App;
use crate::failure::{Failure, Reply};
use crate::principal::Principal;

pub(crate) use agent::{
    __path_answer_question, __path_interrupt, __path_remove_rule, __path_resume, answer_question, remove_rule,
};
pub(crate) use cancel::{__path_cancel, __path_cancel_many, cancel_many};
pub(crate) use change::{
    __path_abandon, __path_prune, __path_remove, __path_resize, __path_retry, __path_set_limits, RemoveQuery,
    prune, remove, set_limits,
};
pub(crate) use label::{__path_set_labels, set_labels};
pub(crate) use list::{
    __path_list, cursor, find_conversation, find_parent, label_of, list, page_limit, parse_cursor,
};
pub(crate) use response::view;
pub(crate) use seen::__path_seen;
pub(crate) use send::{__path_send, send};
pub(crate) use show::{__path_show, WAIT_MAX, show};
pub(crate) use submit::{__path_submit, submit};
pub(crate) use waits::{rows as plain_rows, rows_of};

/// Dispatches a verb after a reference: `/v1/jobs/{ref}:cancel`. The last colon counts, since a reference may contain one.
pub(crate) async fn verb<J: Store>(
    State(app): State<App<J>>,
    principal: Principal,
    Path(segment): Path<String>,
    request: Request,
) -> Reply {
    let (reference, verb) = segment.rsplit_once(':').unwrap_or((&segment, ""));
    match verb {
        "cancel" => cancel::cancel(app, &principal, reference, request).await,
        "retry" => change::retry(app, &principal, reference, request).await,
        "resize" => change::resize(app, &principal, reference, request).await,
        "abandon" => change::abandon(app, &principal, reference).await,
        "seen" => seen::seen(app, &principal, reference).await,
        "interrupt" => agent::interrupt(app, &principal, reference, request).await,
        "resume" => agent::resume(app, &principal, reference, request).await,
        _ => Err(no_method(NO_VERB)),
    }
}

/// The verbs of [`verb`].
const VERBS: [&str; 7] = ["cancel", "retry", "resume", "interrupt", "resize", "seen", "abandon"];

/// Why a job itself cannot be posted to.
const NO_VERB: &str = "a POST needs a verb after the reference: `:cancel`, `:retry`, `:resume`, `:interrupt`, `:resize`, `:seen` or `:abandon`";

/// Separates a job from its verbs, which share a route: a job cannot be posted to, and a verb has no other method.
pub(crate) async fn separate_verbs(Path(segment): Path<String>, request: Request, next: Next) -> Response {
    let is_verb = segment.rsplit_once(':').is_some_and(|(_, verb)| VERBS.contains(&verb));
    let is_post = request.method() == Method::POST;
    let (allow, why) = match is_verb {
        true => ("POST", "this path has only the method POST"),
        false => ("GET,HEAD,DELETE", NO_VERB),
    };
    let mut response =
        if is_verb == is_post { next.run(request).await } else { no_method(why).into_response() };
    if response.status() == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
    }
    response
}

fn no_method(why: &str) -> Failure {
    Problem { status: 405, ..Problem::new(Code::Invalid, why) }.into()
}
