//! What a request says, read within bounds: bodies, queries, headers.

use std::time::Duration;

use axum::body::to_bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use http_body_util::LengthLimitError;
use lastword_api::{Code, Problem};
use lastword_core::limits::parse_setting;
use serde::de::DeserializeOwned;

use crate::failure::Failure;

/// Bytes of a body. The largest is a message.
const BODY_BYTES_MAX: usize = 1 << 20;

/// Bytes of a body that carries an environment, which some shells make large.
const ENV_BYTES_MAX: usize = 2 << 20;

/// How long a body may take: it comes from this machine.
const BODY_TIME_MAX: Duration = Duration::from_secs(10);

/// A body in JSON; an empty one is the default.
pub(crate) struct Body<T>(pub(crate) T);

/// The same for what carries an environment, which may be larger.
pub(crate) struct EnvBody<T>(pub(crate) T);

impl<T: DeserializeOwned + Default, S: Sync> FromRequest<S> for Body<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &S) -> Result<Body<T>, Failure> {
        read(request, BODY_BYTES_MAX).await.map(Body)
    }
}

impl<T: DeserializeOwned + Default, S: Sync> FromRequest<S> for EnvBody<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &S) -> Result<EnvBody<T>, Failure> {
        read(request, ENV_BYTES_MAX).await.map(EnvBody)
    }
}

async fn read<T: DeserializeOwned + Default>(request: Request, max: usize) -> Result<T, Failure> {
    let too_large =
        || Failure::from(Problem::new(Code::TooLarge, format!("the body is larger than {} KiB", max >> 10)));
    let said =
        request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if said.is_some_and(|length: usize| length > max) {
        return Err(too_large());
    }
    let is_json = is_json(request.headers());
    let body = tokio::time::timeout(BODY_TIME_MAX, to_bytes(request.into_body(), max)).await;
    let body = match body {
        Ok(Ok(body)) => body,
        Ok(Err(error)) if is_too_large(&error) => return Err(too_large()),
        Ok(Err(_)) => return Err(Failure::invalid("the body did not come to its end")),
        Err(_) => {
            let problem = Problem::new(Code::Invalid, "the body did not come within ten seconds");
            return Err(Problem { status: 408, ..problem }.into());
        }
    };
    if body.is_empty() {
        return Ok(T::default());
    }
    if !is_json {
        let problem =
            Problem::new(Code::Invalid, "the body must be JSON, and say so: Content-Type: application/json");
        return Err(Problem { status: 415, ..problem }.into());
    }
    // serde would read a list as the fields in their order: refuse it.
    if body.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return Err(Failure::invalid("the body must be a JSON object"));
    }
    // The reason may quote what it could not use; it goes to the sender only, and into no log.
    serde_json::from_slice(&body)
        .map_err(|error| Failure::invalid(format!("the body cannot be used: {error}")))
}

fn is_too_large(error: &axum::Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<LengthLimitError>())
}

fn is_json(headers: &HeaderMap) -> bool {
    let said = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = said.map(|kind| kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
    matches!(kind.as_deref(), Some("application/json" | "application/merge-patch+json"))
}

/// What stands after the question mark.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Query<T>, Failure> {
        let query = axum::extract::Query::<T>::from_request_parts(parts, state).await;
        let unusable =
            |why: QueryRejection| Failure::invalid(format!("the query cannot be used: {}", why.body_text()));
        query.map(|query| Query(query.0)).map_err(unusable)
    }
}

/// Reads a time to wait, such as `30s`. More than `max` is `max`.
pub(crate) fn duration(name: &str, text: &str, max: Duration) -> Result<Duration, Failure> {
    let (_, ms) = parse_setting("wall", text).map_err(|_| {
        let text: String = text.chars().take(64).collect();
        Failure::invalid(format!("`{name}`: `{text}` is not a duration such as 500ms, 30s or 1m"))
    })?;
    Ok(Duration::from_millis(ms).min(max))
}

/// Characters of an idempotency key: enough for any id a client makes.
const KEY_CHARS_MAX: usize = 255;

/// Returns the idempotency key of a request.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Failure> {
    let Some(key) = headers.get("idempotency-key") else { return Ok(None) };
    let key = key.to_str().ok().filter(|key| !key.is_empty() && key.len() <= KEY_CHARS_MAX);
    key.map(|key| Some(key.to_owned()))
        .ok_or_else(|| Failure::invalid("`Idempotency-Key` must have 1 to 255 characters of ASCII"))
}
