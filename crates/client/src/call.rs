//! A call: one request of the API, with the type of its reply. It can be made any number of times.

use std::marker::PhantomData;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST};
use hyper::{Method, Request};
use serde::Serialize;

use crate::error::Error;

/// A request whose reply is a `T`.
pub struct Call<T> {
    method: Method,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: Bytes,
    reply: PhantomData<fn() -> T>,
}

impl<T> Clone for Call<T> {
    fn clone(&self) -> Call<T> {
        let Call { method, path, headers, body, reply } = self;
        Call {
            method: method.clone(),
            path: path.clone(),
            headers: headers.clone(),
            body: body.clone(),
            reply: *reply,
        }
    }
}

impl<T> std::fmt::Debug for Call<T> {
    /// Names the request without its body, which may hold an environment.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}

impl<T> Call<T> {
    /// Returns a request without a body. The requests of the API have functions; this is for all others.
    pub fn new(method: Method, path: impl Into<String>) -> Call<T> {
        Call { method, path: path.into(), headers: Vec::new(), body: Bytes::new(), reply: PhantomData }
    }

    pub(crate) fn get(path: impl Into<String>) -> Call<T> {
        Call::new(Method::GET, path)
    }

    pub(crate) fn post(path: impl Into<String>, body: &impl Serialize) -> Call<T> {
        Call::new(Method::POST, path).with_body(body)
    }

    /// Adds a body.
    #[must_use]
    pub fn with_body(mut self, body: &impl Serialize) -> Call<T> {
        // The types of the wire are plain data, which always has a JSON form.
        self.body = Bytes::from(serde_json::to_vec(body).unwrap_or_default());
        self.headers.push((CONTENT_TYPE.as_str(), "application/json".to_owned()));
        self
    }

    /// Adds an idempotency key, by which the daemon recognises a repeated call.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<String>) -> Call<T> {
        self.headers.push(("idempotency-key", key.into()));
        self
    }

    /// Adds a random idempotency key, so that the call has its effect once, however often it is sent.
    pub fn once(self) -> Result<Call<T>, Error> {
        let mut key = [0; 16];
        getrandom::fill(&mut key).map_err(|error| Error::NoRandom(error.to_string()))?;
        Ok(self.with_key(key.iter().map(|byte| format!("{byte:02x}")).collect::<String>()))
    }

    /// Asks for a stream of events after a place.
    pub(crate) fn streamed(mut self, after: Option<&str>) -> Call<T> {
        self.headers.push((ACCEPT.as_str(), "text/event-stream".to_owned()));
        self.headers.extend(after.map(|after| ("last-event-id", after.to_owned())));
        self
    }

    /// Returns the same call, with its reply as plain JSON.
    pub fn untyped(self) -> Call<serde_json::Value> {
        let Call { method, path, headers, body, .. } = self;
        Call { method, path, headers, body, reply: PhantomData }
    }

    /// Returns the method.
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// Returns the path, with its query.
    pub fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn request(&self) -> Result<Request<Full<Bytes>>, String> {
        let mut request =
            Request::builder().method(self.method.clone()).uri(&self.path).header(HOST, "lastword");
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        let request = request.body(Full::new(self.body.clone()));
        request.map_err(|error| format!("cannot make a request for `{}`: {error}", self.path))
    }
}

/// Returns the path of a job, or of something below it.
pub(crate) fn job_path(reference: &str, rest: &str) -> String {
    format!("/v1/jobs/{}{rest}", escape(reference))
}

/// Returns the path of a rule of a job.
pub(crate) fn rule_path(reference: &str, rule: &str) -> String {
    job_path(reference, &format!("/rules/{}", escape(rule)))
}

/// Returns the path of a conversation.
pub(crate) fn conversation_path(reference: &str) -> String {
    format!("/v1/conversations/{}", escape(reference))
}

/// Returns the path of a group.
pub(crate) fn group_path(name: &str) -> String {
    format!("/v1/groups/{}", escape(name))
}

/// Returns the path of a worker.
pub(crate) fn worker_path(name: &str) -> String {
    format!("/v1/workers/{}", escape(name))
}

/// The query of a path, as it is built.
#[derive(Default)]
pub(crate) struct Query(String);

impl Query {
    /// Adds a parameter, if it has a value.
    pub(crate) fn with(mut self, name: &str, value: Option<impl ToString>) -> Query {
        if let Some(value) = value {
            self.0.push(if self.0.is_empty() { '?' } else { '&' });
            self.0.push_str(&format!("{name}={}", escape(&value.to_string())));
        }
        self
    }

    /// Returns a path with this query.
    pub(crate) fn after(&self, path: &str) -> String {
        format!("{path}{}", self.0)
    }
}

/// Escapes a text so that it is one part of a path or one value of a query.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'@' => {
                escaped.push(char::from(byte));
            }
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_stays_one_part_of_a_path() {
        assert_eq!(job_path("@last", ":cancel"), "/v1/jobs/@last:cancel");
        assert_eq!(job_path("a/b?c#d e:f%\n", ""), "/v1/jobs/a%2Fb%3Fc%23d%20e%3Af%25%0A");
    }

    #[test]
    fn a_query_has_what_has_a_value() {
        let query = Query::default().with("a", None::<u32>).with("b", Some(7)).with("c", Some("x&y=z"));
        assert_eq!(query.after("/v1/jobs"), "/v1/jobs?b=7&c=x%26y%3Dz");
        assert_eq!(Query::default().after("/v1/jobs"), "/v1/jobs");
    }

    #[test]
    fn each_call_that_counts_once_has_a_key_of_its_own() {
        let key = |call: &Call<()>| call.headers.last().map(|(name, value)| (*name, value.clone()));
        let call: Call<()> = Call::get("/");
        let (one, other) = (key(&call.clone().once().unwrap()), key(&call.once().unwrap()));
        assert_eq!(one.as_ref().map(|(name, key)| (*name, key.len())), Some(("idempotency-key", 32)));
        assert_ne!(one, other);
    }
}
