//! Jobs: submit, show, list, stop, retry, remove.

mod agent;
mod cancel;
mod change;
mod environment;
mod list;
mod response;
mod show;
mod submit;

use axum::extract::{Path, Request, State};
use lastword_store::Store;

use crate::app::App;
use crate::failure::{Failure, Reply};
use crate::principal::Principal;

pub(crate) use agent::{__path_answer_question, __path_interrupt, __path_resume, answer_question};
pub(crate) use cancel::{__path_cancel, __path_cancel_many, cancel_many};
pub(crate) use change::{
    __path_abandon, __path_prune, __path_remove, __path_resize, __path_retry, __path_send, __path_set_limits,
    prune, remove, send, set_limits,
};
pub(crate) use list::{__path_list, list, page_limit};
pub(crate) use response::view;
pub(crate) use show::{__path_show, WAIT_MAX, mark_read, show};
pub(crate) use submit::{__path_submit, submit};

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
        "interrupt" => agent::interrupt(app, &principal, reference, request).await,
        "resume" => agent::resume(app, &principal, reference, request).await,
        _ => Err(Failure::invalid(
            "unknown verb: use `:cancel`, `:retry`, `:resume`, `:interrupt`, `:resize` or `:abandon` after the reference",
        )),
    }
}
