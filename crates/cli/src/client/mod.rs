//! The command line's side of the API: HTTP over the private socket, on one thread.
//!
//! A daemon that goes away in mid-call is no failure: every request may be repeated, because it is a read, or changes nothing
//! the second time, or carries a key. So the call is made again, to the next daemon.

pub(crate) mod connect;
pub(crate) mod follow;
mod silence;
pub(crate) mod sse;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST};
use hyper::{HeaderMap, Method, Request, Response};
use lastword_api::{Code, Job, Page, Problem, Row, VERSION, VERSION_HEADER};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::failure::Failure;
use crate::paths::Paths;
use crate::text::similar;
use crate::ui::Ui;

/// How often a call is made to daemons that go away at once in the middle of it. More is not a restart, it is a crash at each call.
const TRIES_MAX: u32 = 5;

/// A daemon that had a call for so long did not go away because of it. Whoever waits for hours sees many come and go.
const UNRELATED: Duration = Duration::from_millis(300);

/// How long a daemon may find out what became of its jobs.
const STARTING_MAX: Duration = Duration::from_secs(60);

/// After this time somebody is told that it does.
const STARTING_SAID: Duration = Duration::from_secs(3);

/// Pause between two looks at a daemon that is starting: short at first, since most are in no time.
const PAUSE_FIRST: Duration = Duration::from_millis(2);
const PAUSE: Duration = Duration::from_millis(50);

/// How long a daemon that goes may still answer.
const ON_ITS_WAY_OUT: Duration = Duration::from_millis(300);

type Sender = SendRequest<Full<Bytes>>;

/// The daemon, as a verb speaks to it. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Client(Rc<Inner>);

struct Inner {
    paths: Paths,
    ui: Ui,
    /// Connections that nobody uses right now.
    idle: RefCell<Vec<Sender>>,
    reached: Cell<bool>,
    skew_said: Cell<bool>,
    starting_said: Cell<bool>,
}

/// A request that can be made any number of times.
#[derive(Clone)]
pub(crate) struct Call {
    method: Method,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: Bytes,
}

impl Call {
    /// Returns a read.
    pub(crate) fn get(path: impl Into<String>) -> Call {
        Call { method: Method::GET, path: path.into(), headers: Vec::new(), body: Bytes::new() }
    }

    /// Returns a call with a body.
    pub(crate) fn with(method: Method, path: impl Into<String>, body: &impl Serialize) -> Call {
        // The types of the wire are plain data, which always has a JSON form.
        let body = Bytes::from(serde_json::to_vec(body).unwrap_or_default());
        Call {
            method,
            path: path.into(),
            headers: vec![(CONTENT_TYPE.as_str(), "application/json".to_owned())],
            body,
        }
    }

    /// Returns a POST.
    pub(crate) fn post(path: impl Into<String>, body: &impl Serialize) -> Call {
        Call::with(Method::POST, path, body)
    }

    /// Returns a DELETE.
    pub(crate) fn delete(path: impl Into<String>) -> Call {
        Call { method: Method::DELETE, ..Call::get(path) }
    }

    /// Makes sure that it counts once, however often it is made.
    pub(crate) fn once(mut self) -> Result<Call, Failure> {
        let key: String = random::<16>()?.iter().map(|byte| format!("{byte:02x}")).collect();
        self.headers.push(("idempotency-key", key));
        Ok(self)
    }

    /// Asks for a stream of events, from a place on.
    pub(crate) fn stream(mut self, after: Option<&str>) -> Call {
        self.headers.push((ACCEPT.as_str(), "text/event-stream".to_owned()));
        self.headers.extend(after.map(|after| ("last-event-id", after.to_owned())));
        self
    }

    fn request(&self) -> Result<Request<Full<Bytes>>, Failure> {
        let mut request =
            Request::builder().method(self.method.clone()).uri(&self.path).header(HOST, "lastword");
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        let request = request.body(Full::new(self.body.clone()));
        request.map_err(|error| {
            Failure::new(Code::Invalid, format!("`{}` cannot be asked for: {error}", self.path))
        })
    }
}

/// An answer that was a success.
pub(crate) struct Answer {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Client {
    /// Returns a client; nothing is connected yet.
    pub(crate) fn new(paths: Paths, ui: Ui) -> Client {
        Client(Rc::new(Inner {
            paths,
            ui,
            idle: RefCell::default(),
            reached: Cell::new(false),
            skew_said: Cell::new(false),
            starting_said: Cell::new(false),
        }))
    }

    /// Makes a call and reads what it answers.
    pub(crate) async fn call<T: DeserializeOwned>(&self, call: Call) -> Result<T, Failure> {
        let answer = self.send(&call).await?;
        serde_json::from_slice(&answer.body).map_err(|error| {
            Failure::new(
                Code::Internal,
                format!("the daemon's answer to {} does not read: {error}", call.path),
            )
            .next("lastword daemon restart    # if the daemon is of another version; jobs go on meanwhile")
        })
    }

    /// Makes a call and returns its answer as it came.
    pub(crate) async fn send(&self, call: &Call) -> Result<Answer, Failure> {
        let (mut tries, mut may_pass, mut pause) = (0, true, PAUSE_FIRST);
        let mut since = Instant::now();
        loop {
            let begin = Instant::now();
            match self.try_once(call).await {
                Ok(answer) => return Ok(answer),
                // It may be on its way out, with another to come; if it is not, it says the same again.
                Err(Lost::Unavailable(_)) if may_pass => {
                    may_pass = false;
                    tokio::time::sleep(ON_ITS_WAY_OUT).await;
                }
                Err(Lost::Told(failure) | Lost::Unavailable(failure)) => return Err(failure),
                Err(Lost::Starting(failure)) if since.elapsed() > STARTING_MAX => return Err(failure),
                Err(Lost::Starting(failure)) => {
                    if since.elapsed() > STARTING_SAID && !self.0.starting_said.replace(true) {
                        let why = crate::text::clean::clean(&failure.problem.detail).into_owned();
                        self.0.ui.say(&format!("lastword: {why}; waiting for it"));
                    }
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE);
                }
                Err(Lost::Connection(_)) if begin.elapsed() > UNRELATED => {
                    (tries, may_pass, pause, since) = (0, true, PAUSE_FIRST, Instant::now());
                }
                Err(Lost::Connection(error)) if tries >= TRIES_MAX => {
                    let text = format!("the daemon went away in the middle of {}: {error}", call.path);
                    return Err(Failure::new(Code::Unavailable, text).next(format!(
                        "its log says why: {}",
                        self.0.paths.in_state(crate::daemon::LOG).display()
                    )));
                }
                Err(Lost::Connection(_)) => tries += 1,
            }
        }
    }

    async fn try_once(&self, call: &Call) -> Result<Answer, Lost> {
        let (sender, response) = self.open(call).await?;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.map_err(Lost::Connection)?.to_bytes();
        self.0.idle.borrow_mut().push(sender);
        Ok(Answer { headers: parts.headers, body })
    }

    /// Makes a call and returns its answer before its body has come. A refusal is read to its end.
    async fn open(&self, call: &Call) -> Result<(Sender, Response<Incoming>), Lost> {
        let mut sender = self.sender().await.map_err(Lost::Told)?;
        let request = call.request().map_err(Lost::Told)?;
        let response = self.patiently(sender.send_request(request)).await?;
        self.notice_version(response.headers()).map_err(Lost::Told)?;
        if response.status().is_success() {
            return Ok((sender, response));
        }
        let status = response.status();
        let body = response.into_body().collect().await.map_err(Lost::Connection)?.to_bytes();
        self.0.idle.borrow_mut().push(sender);
        let problem: Problem = serde_json::from_slice(&body).unwrap_or_else(|_| {
            Problem::new(
                Code::Internal,
                format!("the daemon answered {status} to {} {}", call.method, call.path),
            )
        });
        match problem.code {
            // Of too many that ask at once, those who were turned away ask again.
            Code::Starting | Code::Full if problem.status == 503 => Err(Lost::Starting(Failure::of(problem))),
            Code::Unavailable => Err(Lost::Unavailable(Failure::of(problem))),
            _ => Err(Lost::Told(Failure::answered(problem))),
        }
    }

    async fn sender(&self) -> Result<Sender, Failure> {
        while let Some(idle) = self.take_idle() {
            if !idle.is_closed() {
                return Ok(idle);
            }
        }
        let sender = connect::connect(&self.0.paths, self.0.reached.get()).await?;
        self.0.reached.set(true);
        Ok(sender)
    }

    fn take_idle(&self) -> Option<Sender> {
        self.0.idle.borrow_mut().pop()
    }

    /// Says once when daemon and command line are of different versions; refuses what is no daemon of ours.
    fn notice_version(&self, headers: &HeaderMap) -> Result<(), Failure> {
        let Some(version) = headers.get(VERSION_HEADER).and_then(|version| version.to_str().ok()) else {
            let socket = self.0.paths.socket.display();
            let text = format!("whoever listens at {socket} is not the daemon of Lastword");
            return Err(
                Failure::new(Code::Unavailable, text).next("end it; the next command starts a daemon")
            );
        };
        if version != VERSION && !self.0.skew_said.replace(true) {
            let version = crate::text::clean::clean(version);
            self.0.ui.say(&format!(
                "lastword: this is {VERSION}, the daemon is {version}; `lastword daemon restart` makes them one, and jobs go on"
            ));
        }
        Ok(())
    }

    /// Returns a job by any reference.
    pub(crate) async fn job(&self, reference: &str) -> Result<Job, Failure> {
        let found = self.call(Call::get(job_path(reference, ""))).await;
        self.explain(reference, found).await
    }

    /// Adds a close guess to the failure of a call that named a job nobody knows.
    pub(crate) async fn explain<T>(&self, reference: &str, done: Result<T, Failure>) -> Result<T, Failure> {
        let failure = match done {
            Err(failure) if failure.problem.code == Code::NotFound => failure,
            other => return other,
        };
        let Ok(page) = self.call::<Page<Row>>(Call::get("/v1/jobs?limit=200")).await else {
            return Err(failure);
        };
        let names =
            page.items.iter().flat_map(|row| row.name.as_deref().into_iter().chain([row.short.as_str()]));
        Err(match similar::nearest(reference, names) {
            Some(near) => failure.next(format!("did you mean `{near}`?")),
            None => failure.next("lastword ls -a    # shows every job"),
        })
    }

    /// Returns how to speak.
    pub(crate) fn ui(&self) -> &Ui {
        &self.0.ui
    }
}

/// Why one try of a call came to nothing.
enum Lost {
    /// The daemon went away.
    Connection(hyper::Error),
    /// It is still finding out what became of its jobs, or too many ask.
    Starting(Failure),
    /// It cannot do it now.
    Unavailable(Failure),
    /// It said no, or there is none.
    Told(Failure),
}

/// Returns the path of a job, or of something below it.
pub(crate) fn job_path(reference: &str, rest: &str) -> String {
    format!("/v1/jobs/{}{rest}", escape(reference))
}

/// Writes a text so that it is one part of a path or one value of a query.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'@' => {
                escaped.push(byte as char)
            }
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

/// Returns random bytes.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    let flags = rustix::rand::GetRandomFlags::empty();
    match rustix::rand::getrandom(&mut bytes[..], flags) {
        Ok(filled) if filled == N => Ok(bytes),
        _ => Err(Failure::new(Code::Unavailable, "this system gives no random bytes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_stays_one_part_of_a_path() {
        assert_eq!(job_path("@last", ":cancel"), "/v1/jobs/@last:cancel");
        assert_eq!(job_path("a/b?c#d e:f%\n", ""), "/v1/jobs/a%2Fb%3Fc%23d%20e%3Af%25%0A");
    }
}
