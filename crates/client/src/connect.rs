//! How a daemon is reached. Every part of the client is generic over the stream: TCP needs one more [`Connect`], and nothing else.

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;

/// A stream of bytes to and from a daemon.
pub trait Io: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

/// Why a daemon cannot be reached. The type is that of the implementation of [`Connect`].
pub type ConnectError = Box<dyn std::error::Error + Send + Sync>;

/// A connection that is being made.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T, ConnectError>> + Send + 'a>>;

/// How a daemon is reached.
pub trait Connect: Send + Sync + 'static {
    /// Connects to the daemon; may start one first. `again` is true if this client was connected before.
    fn connect(&self, again: bool) -> Pending<'_, Box<dyn Io>>;

    /// Connects if a daemon listens; never starts one.
    fn connect_if_listening(&self) -> Pending<'_, Option<Box<dyn Io>>>;

    /// Ends a daemon that does not answer, if it is certain that it is frozen and another can be started. Reports whether it did.
    fn end_frozen(&self) -> Pending<'_, bool> {
        Box::pin(async { Ok(false) })
    }
}

/// A daemon that listens on a unix socket of this machine. None is started.
#[derive(Clone, Debug)]
pub struct Unix(pub PathBuf);

impl Connect for Unix {
    fn connect(&self, _again: bool) -> Pending<'_, Box<dyn Io>> {
        Box::pin(async move {
            let stream = UnixStream::connect(&self.0).await;
            let stream = stream.map_err(|error| format!("{}: {error}", self.0.display()))?;
            Ok(Box::new(stream) as Box<dyn Io>)
        })
    }

    fn connect_if_listening(&self) -> Pending<'_, Option<Box<dyn Io>>> {
        Box::pin(async move {
            match UnixStream::connect(&self.0).await {
                Ok(stream) => Ok(Some(Box::new(stream) as Box<dyn Io>)),
                Err(error) if is_unused(&error) => Ok(None),
                Err(error) => Err(format!("{}: {error}", self.0.display()).into()),
            }
        })
    }
}

/// Reports whether no process listens.
fn is_unused(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}
