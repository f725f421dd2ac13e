//! Connections and their bounds, and the path of a request.

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
use lastword_api::{Code, Problem, STOPPING_HEADER, VERSION, VERSION_HEADER};
use lastword_store::Store;
use rustix::process::{Resource, getrlimit};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::task::JoinSet;
use tokio::time::{Sleep, sleep, timeout};
use tower_service::Service as _;

use crate::Endpoint;
use crate::app::{App, Closing};
use crate::failure::{Failure, write_problem};
use crate::principal::Identify;

/// Connections at once. A client that follows a job has three, and a user may run hundreds of clients.
const CONNECTIONS_MAX: usize = 2_048;

/// How long the head of a request may take, and how long a connection may be idle.
const HEAD_TIME_MAX: Duration = Duration::from_secs(10);

/// How long a client may read nothing of what is written to it. A client can resume a stream that is cut off.
const STALL_MAX: Duration = Duration::from_secs(30);

/// How long a response may take to begin: the longest wait that a request can ask for, and time to settle before and after.
const RESPONSE_TIME_MAX: Duration = Duration::from_secs(75);

/// How long requests in flight may take when the daemon stops.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(10);

/// Pause after a failed accept. Mostly there are too few file descriptors, and other connections end meanwhile.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Bytes buffered for the head of a request and for writing. Output is read in pieces of about this size.
const BUFFER_BYTES_MAX: usize = 64 << 10;

/// Accepts connections until `stop` completes or the app closes, then waits for requests in flight.
pub(crate) async fn accept<J: Store>(
    endpoint: &Endpoint,
    app: &App<J>,
    router: &Router,
    stop: impl Future<Output = Closing>,
) {
    let (mut connections, max) = (JoinSet::new(), connections_max());
    let mut stop = pin!(stop);
    loop {
        tokio::select! {
            why = &mut stop => {
                app.close(why);
                break;
            }
            () = app.closing() => break,
            Some(_) = connections.join_next() => {}
            accepted = endpoint.accept() => match accepted {
                Ok(accepted) if connections.len() < max => {
                    if let Some((stream, peer)) = accepted.identify() {
                        connections.spawn(serve_connection(stream, Arc::new(peer), app.clone(), router.clone()));
                    }
                }
                Ok(accepted) => {
                    connections.spawn(refuse(accepted.into_stream(), max));
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    let drained = timeout(DRAIN_TIME_MAX, async { while connections.join_next().await.is_some() {} }).await;
    if drained.is_err() {
        tracing::warn!(left = connections.len(), "requests did not finish in time and are cut off");
    }
}

/// Serves the requests of one connection.
async fn serve_connection<J: Store>(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    peer: Arc<dyn Identify<J>>,
    app: App<J>,
    router: Router,
) {
    let closing = app.clone();
    // Boxed: a connection without a request keeps no room for one.
    let service =
        service_fn(move |request| Box::pin(respond(request, app.clone(), router.clone(), Arc::clone(&peer))));
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIME_MAX)
            .max_buf_size(BUFFER_BYTES_MAX)
            .serve_connection(TokioIo::new(StallTimeout::new(stream)), service)
    );
    // A client that disconnects or does not speak HTTP needs no attention.
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = closing.closing() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended with an error");
    }
}

/// Returns the number of connections allowed. Each needs two file descriptors, the socket and the peer's pidfd, and half of all
/// descriptors are reserved for jobs.
fn connections_max() -> usize {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(files / 4).unwrap_or(CONNECTIONS_MAX).min(CONNECTIONS_MAX)
}

/// Responds that there are too many connections, and closes this one.
async fn refuse(mut stream: impl AsyncRead + AsyncWrite + Unpin, max: usize) {
    let detail = format!("the daemon has {max} connections and accepts no more; repeat the request shortly");
    let problem = Problem { status: 503, retryable: true, ..Problem::new(Code::Full, detail) };
    let body = serde_json::to_string(&problem).unwrap_or_default();
    let text = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\n{VERSION_HEADER}: {VERSION}\r\n\
         retry-after: 1\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    // Read what the client sends meanwhile, or it would see a broken connection instead of this response.
    let _ = timeout(ACCEPT_PAUSE, async {
        stream.write_all(text.as_bytes()).await?;
        stream.shutdown().await?;
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await
    })
    .await;
}

/// Handles a request: checks that its peer is admitted, routes it, bounds its time, writes problems, and logs it.
async fn respond<J: Store>(
    mut request: Request<Incoming>,
    app: App<J>,
    mut router: Router,
    peer: Arc<dyn Identify<J>>,
) -> Result<Response, Infallible> {
    let (number, begin) = (app.next_request(), Instant::now());
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = if peer.is_admitted() {
        request.extensions_mut().insert(peer);
        let routed = AssertUnwindSafe(router.call(request)).catch_unwind();
        match timeout(RESPONSE_TIME_MAX, routed).await {
            Ok(Ok(Ok(response))) => response,
            Ok(Ok(Err(never))) => match never {},
            Ok(Err(_)) => Failure::from(Problem::new(Code::Internal, "a bug in the daemon; see its log"))
                .into_response(),
            Err(_) => {
                let detail =
                    "the request took too long, and may still have had an effect; check before you repeat it";
                Failure::from(Problem::new(Code::Unavailable, detail)).into_response()
            }
        }
    } else {
        let detail = "this daemon serves only the user who started it";
        Failure::from(Problem::new(Code::Forbidden, detail)).into_response()
    };
    let mut response = write_problem(name_job(response, &app).await, number);
    let version = HeaderValue::from_static(VERSION);
    response.headers_mut().insert(HeaderName::from_static(VERSION_HEADER), version);
    if let Some(stopping) = app.stopping()
        && let Ok(stopping) = serde_json::to_string(&stopping).unwrap_or_default().parse()
    {
        response.headers_mut().insert(HeaderName::from_static(STOPPING_HEADER), stopping);
    }
    let (status, ms) = (response.status().as_u16(), begin.elapsed().as_millis() as u64);
    if response.status().is_server_error() {
        tracing::warn!(request = number, %method, path, status, ms, "failed");
    } else {
        tracing::debug!(request = number, %method, path, status, ms, "served");
    }
    Ok(response)
}

/// Lets a problem call its job as a person does: by its name and short id. A program has the whole id in `job`.
async fn name_job<J: Store>(mut response: Response, app: &App<J>) -> Response {
    let Some(problem) = response.extensions_mut().get_mut::<Box<Problem>>() else { return response };
    // A job that is not there has no name, and a journal that does not answer knows none.
    let is_known = !matches!(problem.code, Code::NotFound | Code::Unavailable | Code::Corrupt);
    if let Some(id) = problem.job.as_deref().filter(|_| is_known)
        && let Ok(job) = id.parse()
    {
        problem.detail = problem.detail.replace(id, &app.engine().called(job).await);
    }
    response
}

/// A stream whose writes time out when the other end reads nothing.
struct StallTimeout<S> {
    stream: S,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> StallTimeout<S> {
    fn new(stream: S) -> StallTimeout<S> {
        StallTimeout { stream, stalled: None }
    }

    /// Fails once nothing could be written for too long.
    fn check_stall<T>(
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

impl<S: AsyncRead + Unpin> AsyncRead for StallTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StallTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.check_stall(written, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.check_stall(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_is_cut_off() {
        let (here, _there) = tokio::io::duplex(64 << 10);
        let begin = tokio::time::Instant::now();
        let written = StallTimeout::new(here).write_all(&vec![0; 1 << 20]).await;
        assert_eq!(written.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
        assert_eq!(begin.elapsed().as_secs(), STALL_MAX.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_client_is_not_cut_off() {
        let (here, mut there) = tokio::io::duplex(64 << 10);
        let (mut stream, piece) = (StallTimeout::new(here), vec![0; 4 << 20]);
        let begin = tokio::time::Instant::now();
        let slow = async {
            let (mut taken, mut bite) = (0, vec![0; 512 << 10]);
            while taken < piece.len() {
                sleep(STALL_MAX / 2).await;
                taken += there.read(&mut bite).await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(stream.write_all(&piece), slow);
        written.unwrap();
        assert!(begin.elapsed() > STALL_MAX * 2, "it took longer than the stall timeout");
    }
}
