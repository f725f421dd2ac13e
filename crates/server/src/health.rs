//! Health checks, and the OpenAPI document as it is served.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use lastword_api::{Code, Problem};
use lastword_store::Store;

use crate::app::App;
use crate::failure::Failure;

/// The document as committed. Generating it again would cost the idle daemon memory.
const COMMITTED: &str = include_str!("../../../docs/reference/openapi.json");

/// Reports that the daemon is alive.
#[utoipa::path(get, operation_id = "live", path = "/livez", tag = "daemon", responses((status = 204, description = "It is alive.")))]
pub(crate) async fn live() -> StatusCode {
    StatusCode::NO_CONTENT
}

/// Reports whether the daemon accepts requests.
#[utoipa::path(get, operation_id = "ready", path = "/readyz", tag = "daemon", responses(
    (status = 204, description = "It accepts requests."),
    (status = 503, description = "It is still recovering its jobs.", body = Problem),
))]
pub(crate) async fn ready<J: Store>(State(app): State<App<J>>) -> Result<StatusCode, Failure> {
    match app.is_ready() {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(Problem::new(
            Code::Starting,
            "the daemon is still recovering its jobs; repeat the request shortly",
        )
        .into()),
    }
}

/// Returns this document.
#[utoipa::path(get, operation_id = "openapi", path = "/openapi.json", tag = "daemon", responses((status = 200, description = "This document.", body = Object)))]
pub(crate) async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], COMMITTED).into_response()
}
