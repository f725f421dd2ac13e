//! The first words of a worker to a server: a one-time token that it exchanges for its own, or its own to see whether that is accepted.

use std::future::Future;
use std::io;
use std::sync::Arc;

use tokio::io::{AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::connection::{Tls, open, refusal_words, secure};
use crate::frame::{HELLO_MAX, Inbox, Kind, Message, broken};
use crate::wire::{Enrol, Enrolled, Hello};
use crate::{Timing, Trust};

/// Why a server did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Unwelcome {
    /// It cannot be reached.
    #[error("{0}")]
    Unreachable(io::Error),
    /// It is not the server that was meant, or speaks something else.
    #[error("{0}")]
    Untrusted(io::Error),
    /// It refuses, in these words.
    #[error("{0}")]
    Refused(String),
    /// It did not answer. What was asked may have happened.
    #[error("{0}")]
    Silent(io::Error),
}

/// Exchanges a one-time token, and returns the name and the token of the worker.
pub async fn enrol(
    server: &str,
    trust: &Trust,
    one_time: &str,
    timing: &Timing,
) -> Result<(String, String), Unwelcome> {
    let first = message(Kind::Enrol, &Enrol { one_time: one_time.to_owned() })?;
    let answer = ask(server, trust, first, timing).await?;
    match answer.kind {
        Kind::Enrolled => {
            let read = serde_json::from_slice(&answer.body).map_err(io::Error::other);
            let Enrolled { name, token } = read.map_err(Unwelcome::Silent)?;
            Ok((name, token))
        }
        _ => Err(other(&answer)),
    }
}

/// Fails if a server does not accept the token of a worker.
pub async fn prove(server: &str, trust: &Trust, token: &str, timing: &Timing) -> Result<(), Unwelcome> {
    let first =
        message(Kind::Hello, &Hello { token: token.to_owned(), version: None, slots: None, host: None })?;
    let answer = ask(server, trust, first, timing).await?;
    match answer.kind {
        Kind::Welcome => Ok(()),
        _ => Err(other(&answer)),
    }
}

fn message(kind: Kind, body: &impl serde::Serialize) -> Result<Message, Unwelcome> {
    let body = serde_json::to_vec(body).map_err(|error| Unwelcome::Silent(error.into()))?;
    Ok(Message { kind, stream: 0, body })
}

fn other(answer: &Message) -> Unwelcome {
    match answer.kind {
        Kind::Refusal => Unwelcome::Refused(refusal_words(answer)),
        _ => Unwelcome::Silent(broken("it answers something else")),
    }
}

/// Sends the first message of a connection, and returns the answer.
async fn ask(server: &str, trust: &Trust, first: Message, timing: &Timing) -> Result<Message, Unwelcome> {
    let tls = trust.config().map_err(Unwelcome::Untrusted)?;
    let tls = TlsConnector::from(Arc::new(tls));
    let stream = in_time(timing, open(server)).await.map_err(Unwelcome::Unreachable)?;
    let secured = in_time(timing, secure(&tls, server, stream)).await;
    let (reader, mut writer) = tokio::io::split(secured.map_err(Unwelcome::Untrusted)?);
    let answer = in_time(timing, exchange(reader, &mut writer, &first, timing)).await;
    // What is not said is not missed: the answer is here.
    let _ = writer.shutdown().await;
    answer.map_err(Unwelcome::Silent)
}

async fn exchange(
    reader: ReadHalf<Tls>,
    writer: &mut WriteHalf<Tls>,
    first: &Message,
    timing: &Timing,
) -> io::Result<Message> {
    first.write(writer).await?;
    Inbox::new(reader, HELLO_MAX, timing.silence).next().await
}

async fn in_time<T>(timing: &Timing, doing: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(timing.handshake, doing).await.unwrap_or_else(|_| {
        let words = format!("no answer within {} s", timing.handshake.as_secs());
        Err(io::Error::new(io::ErrorKind::TimedOut, words))
    })
}
