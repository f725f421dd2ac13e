//! Bodies, queries and headers of requests, parsed.

use std::time::Duration;

use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::Response;
use lastword_api::{Code, Problem};
use lastword_core::limits::parse_setting;
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;

use crate::body::{self, Unread};
use crate::failure::Failure;

/// Bytes of a body. The largest ones are messages.
const BODY_BYTES_MAX: usize = 1 << 20;

/// Bytes of a body with an environment, which can be large.
const ENV_BYTES_MAX: usize = 2 << 20;

/// A JSON body.
pub(crate) struct Body<T>(pub(crate) T);

/// A JSON body that may be missing, because the path says what to do.
pub(crate) struct OptionalBody<T>(pub(crate) T);

/// A JSON body with an environment, which may be larger.
pub(crate) struct EnvBody<T>(pub(crate) T);

impl<T: DeserializeOwned + Serialize, S: Sync> FromRequest<S> for Body<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &S) -> Result<Body<T>, Failure> {
        read(request, BODY_BYTES_MAX).await?.map(Body).ok_or_else(no_body)
    }
}

impl<T: DeserializeOwned + Serialize + Default, S: Sync> FromRequest<S> for OptionalBody<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &S) -> Result<OptionalBody<T>, Failure> {
        Ok(OptionalBody(read(request, BODY_BYTES_MAX).await?.unwrap_or_default()))
    }
}

impl<T: DeserializeOwned + Serialize, S: Sync> FromRequest<S> for EnvBody<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &S) -> Result<EnvBody<T>, Failure> {
        read(request, ENV_BYTES_MAX).await?.map(EnvBody).ok_or_else(no_body)
    }
}

fn no_body() -> Failure {
    Failure::invalid("this request needs a body: a JSON object that says what to do, `{}` for the defaults")
}

/// Reads a body; `None` if it is empty.
async fn read<T: DeserializeOwned + Serialize>(request: Request, max: usize) -> Result<Option<T>, Failure> {
    let is_json = is_json(request.headers());
    let body = body::receive(request.into_body(), max).await.map_err(|why| unread(why, max))?;
    if body.is_empty() {
        return Ok(None);
    }
    if !is_json {
        let problem =
            Problem::new(Code::Invalid, "the body must be JSON, with Content-Type: application/json");
        return Err(Problem { status: 415, ..problem }.into());
    }
    // The error may quote the body, so it is returned to the client but never logged.
    let invalid = |error: serde_json::Error| Failure::invalid(format!("invalid body: {error}"));
    if !body.trim_ascii_start().starts_with(b"{") {
        let _: IgnoredAny = serde_json::from_slice(&body).map_err(invalid)?;
        return Err(Failure::invalid("the body must be a JSON object"));
    }
    // First what is bounded by its type: the tree of arbitrary values takes many times the memory of its text.
    let parsed: T = serde_json::from_slice(&body).map_err(invalid)?;
    let sent: Value = serde_json::from_slice(&body).map_err(invalid)?;
    let understood = serde_json::to_value(&parsed).map_err(invalid)?;
    match list_for_object(&sent, &understood) {
        None => Ok(Some(parsed)),
        Some(name) => Err(Failure::invalid(format!("invalid body: `{name}` must be an object, not a list"))),
    }
}

/// Says why a body of at most `max` bytes was not read.
fn unread(why: Unread, max: usize) -> Failure {
    match why {
        Unread::TooLarge => {
            Problem::new(Code::TooLarge, format!("the body is larger than {} KiB", max >> 10)).into()
        }
        Unread::Full => {
            let detail = "the daemon reads other large bodies; repeat the request shortly";
            Problem { status: 503, ..Problem::new(Code::Full, detail) }.into()
        }
        Unread::Late => {
            let problem = Problem::new(Code::Invalid, "the body did not arrive within ten seconds");
            Problem { status: 408, ..problem }.into()
        }
        Unread::Incomplete => Failure::invalid("the body is incomplete"),
    }
}

/// Returns the name of a field that was sent as a list although it is an object: serde takes a list for the fields in order.
fn list_for_object<'a>(sent: &'a Value, understood: &Value) -> Option<&'a str> {
    let pairs: Vec<(&str, &Value, &Value)> = match (sent, understood) {
        (Value::Object(sent), Value::Object(understood)) => sent
            .iter()
            .filter_map(|(name, sent)| Some((name.as_str(), sent, understood.get(name)?)))
            .collect(),
        (Value::Array(sent), Value::Array(understood)) => {
            sent.iter().zip(understood).map(|(sent, understood)| ("[]", sent, understood)).collect()
        }
        _ => return None,
    };
    pairs.into_iter().find_map(|(name, sent, understood)| match sent.is_array() && understood.is_object() {
        true => Some(name),
        false => list_for_object(sent, understood),
    })
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.map(|kind| kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
    matches!(kind.as_deref(), Some("application/json" | "application/merge-patch+json"))
}

/// The query string.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Query<T>, Failure> {
        let query = axum::extract::Query::<T>::from_request_parts(parts, state).await;
        let invalid = |why: QueryRejection| Failure::invalid(format!("invalid query: {}", why.body_text()));
        query.map(|query| Query(query.0)).map_err(invalid)
    }
}

/// Refuses parameters of a request that takes none.
pub(crate) async fn refuse_query(request: Request, next: Next) -> Result<Response, Failure> {
    let query = request.uri().query().unwrap_or_default();
    match query.split('&').find(|parameter| !parameter.is_empty()) {
        None => Ok(next.run(request).await),
        Some(parameter) => {
            let name: String = parameter.split('=').next().unwrap_or_default().chars().take(64).collect();
            Err(Failure::invalid(format!(
                "invalid query: there is no parameter `{name}`; this request takes none"
            )))
        }
    }
}

/// Parses a duration such as `30s`, capped at `max`.
pub(crate) fn duration(name: &str, text: &str, max: Duration) -> Result<Duration, Failure> {
    let (_, ms) = parse_setting("wall", text).map_err(|_| {
        let text: String = text.chars().take(64).collect();
        Failure::invalid(format!("`{name}`: `{text}` is not a duration such as 500ms, 30s or 1m"))
    })?;
    Ok(Duration::from_millis(ms).min(max))
}

/// Characters of an idempotency key: enough for any id.
const KEY_CHARS_MAX: usize = 255;

/// Returns the idempotency key of a request, if it has one.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Failure> {
    let Some(key) = headers.get("idempotency-key") else { return Ok(None) };
    let key = key.to_str().ok().filter(|key| !key.is_empty() && key.len() <= KEY_CHARS_MAX);
    key.map(|key| Some(key.to_owned()))
        .ok_or_else(|| Failure::invalid("`Idempotency-Key` must have 1 to 255 characters of ASCII"))
}
