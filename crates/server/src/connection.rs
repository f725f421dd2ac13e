//! Connections: how many, how slow, how long; and the way of one request through the program.

use std::convert::Infallible;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use lastword_api::{Code, Problem, VERSION, VERSION_HEADER};
use lastword_proc::Peer;
use lastword_store::siblings::Siblings;
use rustix::process::{Resource, getrlimit};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::UnixStream;
use tokio::task::JoinSet;
use tokio::time::{Sleep, sleep, timeout};
use tower_service::Service as _;

use crate::Endpoint;
use crate::app::App;
use crate::caller::Visitor;
use crate::failure::{Failure, write_problem};

/// Connections at once. A client that stays with a job has three of them, and some people run hundreds of those.
const CONNECTIONS_MAX: usize = 2_048;

/// How long the head of a request may take, and how long a connection may wait for its next one.
const HEAD_TIME_MAX: Duration = Duration::from_secs(10);

/// How long a client may take nothing of what is written to it. A stream is resumed where it was cut.
const STALL_MAX: Duration = Duration::from_secs(30);

/// How long any answer may take to begin: the longest wait that can be asked for, and time to settle before and after.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(75);

/// How long requests that were begun may take when the daemon goes.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(10);

/// Pause after a connection could not be accepted, for want of descriptors mostly: others end meanwhile.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Bytes kept for the head of a request and for what waits to be written. What is read by offset comes in pieces of this order.
const BUFFER_BYTES_MAX: usize = 64 << 10;

/// Accepts until `stop` is over or the app closes, then lets what was begun come to its end.
pub(crate) async fn accept<J: Siblings>(
    endpoint: &Endpoint,
    app: &App<J>,
    router: &Router,
    stop: impl Future<Output = ()>,
) {
    let (mut connections, room) = (JoinSet::new(), room());
    let mut stop = pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => break,
            () = app.closing() => break,
            Some(_) = connections.join_next() => {}
            accepted = endpoint.accept() => match accepted {
                Ok(socket) if connections.len() < room => {
                    connections.spawn(hold(socket, app.clone(), router.clone()));
                }
                Ok(socket) => {
                    connections.spawn(turn_away(socket, room));
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    app.close();
    let drained = timeout(DRAIN_TIME_MAX, async { while connections.join_next().await.is_some() {} }).await;
    if drained.is_err() {
        tracing::warn!(left = connections.len(), "requests did not come to their end and are cut");
    }
}

/// Answers on one connection for as long as it lasts.
async fn hold<J: Siblings>(socket: UnixStream, app: App<J>, router: Router) {
    let Ok(peer) = Peer::of(&socket) else { return };
    let visitor = Arc::new(Visitor::new(peer));
    let going = app.clone();
    let service =
        service_fn(move |request| answer(request, app.clone(), router.clone(), Arc::clone(&visitor)));
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIME_MAX)
            .max_buf_size(BUFFER_BYTES_MAX)
            .serve_connection(TokioIo::new(Patient::new(socket)), service)
    );
    // A client that goes away or speaks no HTTP is not worth a log line.
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = going.closing() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended badly");
    }
}

/// Returns how many connections there may be: each is two files, the socket and the pidfd of its peer, and jobs need half of those
/// that this process may open.
fn room() -> usize {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(files / 4).unwrap_or(CONNECTIONS_MAX).min(CONNECTIONS_MAX)
}

/// Says that there is no room, in as few words as HTTP allows, and hangs up.
async fn turn_away(mut socket: UnixStream, room: usize) {
    let detail = format!("the daemon has {room} connections and takes no more; repeat in a moment");
    let problem = Problem { status: 503, retryable: true, ..Problem::new(Code::Full, detail) };
    let body = serde_json::to_string(&problem).unwrap_or_default();
    let text = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\n{VERSION_HEADER}: {VERSION}\r\n\
         retry-after: 1\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    // Drain the request: a client that still writes would see a broken connection instead of this answer.
    let _ = timeout(ACCEPT_PAUSE, async {
        socket.write_all(text.as_bytes()).await?;
        socket.shutdown().await?;
        tokio::io::copy(&mut socket, &mut tokio::io::sink()).await
    })
    .await;
}

/// The way of one request: number, rights, route, time, problem, log.
async fn answer<J: Siblings>(
    mut request: Request<Incoming>,
    app: App<J>,
    mut router: Router,
    visitor: Arc<Visitor>,
) -> Result<Response, Infallible> {
    let (number, begin) = (app.next_request(), Instant::now());
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = if visitor.is_user() {
        request.extensions_mut().insert(visitor);
        let routed = AssertUnwindSafe(router.call(request)).catch_unwind();
        match timeout(ANSWER_TIME_MAX, routed).await {
            Ok(Ok(Ok(response))) => response,
            Ok(Ok(Err(never))) => match never {},
            Ok(Err(_)) => {
                Failure::from(Problem::new(Code::Internal, "the daemon failed at this; its log says more"))
                    .into_response()
            }
            Err(_) => {
                let detail =
                    "this took too long; what was asked for may have happened: look before you repeat it";
                Failure::from(Problem::new(Code::Unavailable, detail)).into_response()
            }
        }
    } else {
        let detail = "this daemon answers the user it works for, and nobody else";
        Failure::from(Problem::new(Code::Forbidden, detail)).into_response()
    };
    let mut response = write_problem(response, number);
    let version = HeaderValue::from_static(VERSION);
    response.headers_mut().insert(HeaderName::from_static(VERSION_HEADER), version);
    let (status, ms) = (response.status().as_u16(), begin.elapsed().as_millis() as u64);
    if response.status().is_server_error() {
        tracing::warn!(request = number, %method, path, status, ms, "not answered");
    } else {
        tracing::debug!(request = number, %method, path, status, ms, "answered");
    }
    Ok(response)
}

/// A socket that is written to with patience, but not without end.
struct Patient {
    socket: UnixStream,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Patient {
    fn new(socket: UnixStream) -> Patient {
        Patient { socket, stalled: None }
    }

    /// Counts the time in which nothing could be written.
    fn patience<T>(
        &mut self,
        written: Poll<std::io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(STALL_MAX)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(std::io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.patience(written, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(context, pieces);
        self.patience(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn whoever_takes_nothing_is_cut_off() {
        let (here, _there) = UnixStream::pair().unwrap();
        let begin = tokio::time::Instant::now();
        let written = Patient::new(here).write_all(&vec![0; 1 << 20]).await;
        assert_eq!(written.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
        assert_eq!(begin.elapsed().as_secs(), STALL_MAX.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_takes_something_now_and_then_is_not() {
        let (here, mut there) = UnixStream::pair().unwrap();
        let (mut patient, piece) = (Patient::new(here), vec![0; 4 << 20]);
        let begin = tokio::time::Instant::now();
        let slow = async {
            let (mut taken, mut bite) = (0, vec![0; 512 << 10]);
            while taken < piece.len() {
                sleep(STALL_MAX / 2).await;
                taken += there.read(&mut bite).await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(patient.write_all(&piece), slow);
        written.unwrap();
        assert!(begin.elapsed() > STALL_MAX * 2, "it took longer than anybody may take nothing");
    }
}
