//! One connection to a daemon. A call is made once; what to do about a failure is decided by the caller.

use http_body_util::{BodyExt as _, Full};
use hyper::Response;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;

use crate::call::Call;
use crate::connect::Io;
use crate::reply::Reply;

/// An HTTP connection, used by one call at a time.
#[derive(Debug)]
pub struct Connection(SendRequest<Full<Bytes>>);

/// Why a call on a connection has no reply.
#[derive(Debug, thiserror::Error)]
pub enum Lost {
    /// It was not sent: the connection was closed before, or the call is not a valid request.
    #[error("not sent: {0}")]
    NotSent(String),
    /// It was sent, or a part of it, and the connection broke before the reply was complete. It may have taken effect.
    #[error("{0}")]
    Cut(String),
}

impl Connection {
    /// Opens a connection on a stream of bytes. It is driven by a task of its own, which ends with either side.
    pub async fn open(io: impl Io + 'static) -> Result<Connection, Lost> {
        let opened = handshake(TokioIo::new(io)).await;
        let (sender, driver) = opened.map_err(|error| Lost::NotSent(error.to_string()))?;
        // Its error reaches the call that waits for a reply.
        tokio::spawn(async move { drop(driver.await) });
        Ok(Connection(sender))
    }

    /// Reports whether the other side has closed it.
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// Makes a call and reads its reply to the end.
    pub async fn send<T>(&mut self, call: &Call<T>) -> Result<Reply, Lost> {
        read(self.begin(call).await?).await
    }

    /// Makes a call and returns its reply before its body.
    pub(crate) async fn begin<T>(&mut self, call: &Call<T>) -> Result<Response<Incoming>, Lost> {
        let request = call.request().map_err(Lost::NotSent)?;
        self.0.send_request(request).await.map_err(|error| match error.is_canceled() {
            true => Lost::NotSent(error.to_string()),
            false => Lost::Cut(error.to_string()),
        })
    }
}

/// Reads a reply to its end.
pub(crate) async fn read(response: Response<Incoming>) -> Result<Reply, Lost> {
    let (head, body) = response.into_parts();
    let body = body.collect().await.map_err(|error| Lost::Cut(error.to_string()))?.to_bytes();
    Ok(Reply { status: head.status.as_u16(), headers: head.headers, body })
}
