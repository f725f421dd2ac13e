//! Keeps one connection: makes it, writes calls, hands out answers, and makes it again.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use lastword_store::Said;
use lastword_store::hints::Hint;
use tokio::io::{AsyncRead, AsyncWrite, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;

use super::attempts::Questions;
use super::shared::{Outgoing, Remote, Shared, State};
use crate::Timing;
use crate::carried::In;
use crate::frame::{HELLO_MAX, Inbox, Kind, Message, broken};
use crate::outbox::{Lane, Lanes, Outbox};
use crate::wire::{Hello, Welcome};

/// A connection to a server.
pub(super) type Tls = TlsStream<TcpStream>;

/// Calls that were sent, by stream. Dropping one tells its caller that the connection was lost.
type Sent = Mutex<HashMap<u64, (oneshot::Sender<Vec<u8>>, OwnedSemaphorePermit)>>;

/// Connects to one server after the other, for ever.
pub(super) async fn drive(
    mut remote: Remote,
    tls: TlsConnector,
    outbox: Outbox<Outgoing>,
    mut lanes: Lanes<Outgoing>,
    shared: Arc<Shared>,
) {
    let timing = remote.timing;
    // Clients that begin with different servers share the load.
    let servers = remote.servers.len();
    remote.servers.rotate_left(if servers > 1 { usize::from(random()) % servers } else { 0 });
    let (mut backoff, mut connections) = (timing.backoff, 0);
    loop {
        let mut troubles = Vec::new();
        for server in &remote.servers {
            let connecting = timeout(timing.handshake, connect(&remote, &tls, server, &shared));
            let connected = connecting.await.unwrap_or_else(|_| {
                let words = format!("no handshake within {} s", timing.handshake.as_secs());
                Err(io::Error::new(io::ErrorKind::TimedOut, words))
            });
            let error = match connected {
                Ok((inbox, writer)) => {
                    shared.state.send_replace(State::Connected);
                    // Hints got lost in between.
                    shared.bell.ring();
                    let since = Instant::now();
                    connections += 1;
                    let questions = Questions::new(&shared, &outbox, connections);
                    let over =
                        exchange(inbox, writer, &mut lanes, &remote.timing, connections, questions).await;
                    if since.elapsed() > timing.silence {
                        backoff = timing.backoff;
                    }
                    over
                }
                Err(error) => error,
            };
            troubles.push(format!("{server}: {error}"));
        }
        shared.state.send_replace(State::Down(troubles.join("; ")));
        // Between half of it and all of it, so that clients of a server that went away do not come back at once.
        sleep(backoff.mul_f32(0.5 + f32::from(random()) / 512.0)).await;
        backoff = (2 * backoff).min(timing.backoff_max);
    }
}

fn random() -> u8 {
    let mut byte = [0];
    // Without random bytes every client takes the same time.
    let _ = getrandom::fill(&mut byte);
    byte[0]
}

/// Connects to a server, and says which principal this is.
async fn connect(
    remote: &Remote,
    tls: &TlsConnector,
    server: &str,
    shared: &Shared,
) -> io::Result<(Inbox<ReadHalf<Tls>>, WriteHalf<Tls>)> {
    let stream = open(server).await?;
    let (reader, mut writer) = tokio::io::split(secure(tls, server, stream).await?);
    let Said { version, slots, host } = remote.said.clone();
    let hello = Hello { token: remote.token.clone(), version, slots, host };
    let body = serde_json::to_vec(&hello).map_err(io::Error::other)?;
    Message { kind: Kind::Hello, stream: 0, body }.write(&mut writer).await?;
    let mut inbox = Inbox::new(reader, HELLO_MAX, remote.timing.silence);
    let first = inbox.next().await?;
    match first.kind {
        Kind::Welcome => {
            let welcome: Welcome = serde_json::from_slice(&first.body).map_err(io::Error::other)?;
            shared.check_journal(&welcome.journal)?;
            inbox.trust();
            Ok((inbox, writer))
        }
        Kind::Refusal => Err(io::Error::new(io::ErrorKind::PermissionDenied, refusal_words(&first))),
        _ => Err(broken("it does not answer a hello")),
    }
}

/// Connects to a server that is named as `host:port`.
pub(super) async fn open(server: &str) -> io::Result<TcpStream> {
    split(server)?;
    let stream = TcpStream::connect(server).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Makes the TLS connection.
pub(super) async fn secure(tls: &TlsConnector, server: &str, stream: TcpStream) -> io::Result<Tls> {
    let name = ServerName::try_from(split(server)?.to_owned()).map_err(io::Error::other)?;
    tls.connect(name, stream).await
}

/// Returns the host of `host:port`.
fn split(server: &str) -> io::Result<&str> {
    let (host, _) = server.rsplit_once(':').ok_or_else(|| io::Error::other("it is not `host:port`"))?;
    Ok(host.trim_start_matches('[').trim_end_matches(']'))
}

/// Returns the words of a refusal.
pub(super) fn refusal_words(refusal: &Message) -> String {
    String::from_utf8_lossy(&refusal.body).escape_default().to_string()
}

/// Writes calls and hands out answers until the connection is lost, and returns why it was.
async fn exchange(
    inbox: Inbox<impl AsyncRead + Unpin>,
    writer: impl AsyncWrite + Unpin,
    lanes: &mut Lanes<Outgoing>,
    timing: &Timing,
    present: u64,
    questions: Questions<'_>,
) -> io::Error {
    let sent = Sent::default();
    let mut streams = 0;
    let send = |outgoing: Outgoing| {
        let call = match outgoing {
            Outgoing::Call(call) => call,
            // What an earlier connection was asked, this one was not.
            Outgoing::Told { connection, message, .. } => {
                return Some(message).filter(|_| connection == present);
            }
        };
        // Its caller has given up.
        if call.answer.is_closed() {
            return None;
        }
        streams += 1;
        let kind = match call.lane {
            Lane::Urgent => Kind::Urgent,
            Lane::Ordinary => Kind::Request,
        };
        sent.lock().unwrap_or_else(PoisonError::into_inner).insert(streams, (call.answer, call.place));
        Some(Message { kind, stream: streams, body: call.body })
    };
    tokio::select! {
        written = lanes.write(writer, timing, send) => match written {
            Ok(()) => io::Error::other("the link is closed"),
            Err(error) => error,
        },
        error = answers(inbox, &sent, questions) => error,
    }
}

/// Hands out answers, and answers questions.
async fn answers(
    mut inbox: Inbox<impl AsyncRead + Unpin>,
    sent: &Sent,
    mut questions: Questions<'_>,
) -> io::Error {
    loop {
        let message = match inbox.next().await {
            Ok(message) => message,
            Err(error) => return error,
        };
        match message.kind {
            Kind::Beat => {}
            Kind::Hint => match serde_json::from_slice::<In<Hint>>(&message.body) {
                Ok(In(Hint::Commit)) => questions.shared.bell.ring(),
                Ok(In(hint)) => questions.shared.bell.tell(hint),
                Err(_) => return broken("a hint that does not read"),
            },
            Kind::Answer => {
                let call = sent.lock().unwrap_or_else(PoisonError::into_inner).remove(&message.stream);
                if let Some((answer, _place)) = call {
                    // Its caller may have given up.
                    let _ = answer.send(message.body);
                }
            }
            Kind::Ask => {
                if let Err(words) = questions.answer(&message) {
                    return broken(words);
                }
            }
            _ => return broken("a message that no server sends"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;
    use std::time::Duration;

    use lastword_store::hints::Bell;
    use tokio::io::duplex;
    use tokio::sync::{Semaphore, watch};

    use super::*;
    use crate::frame::MESSAGE_MAX;
    use crate::outbox::outbox;

    const LONG: Duration = Duration::from_secs(60);

    /// It would answer another question, or none, and the server would end the connection.
    #[tokio::test]
    async fn what_an_earlier_connection_was_asked_is_not_answered_on_the_next() {
        let (near, far) = duplex(1_000);
        let (reader, writer) = tokio::io::split(near);
        let shared = Shared {
            bell: Bell::default(),
            state: watch::Sender::new(State::Connected),
            attempts: OnceLock::new(),
            journal: Mutex::default(),
        };
        let (outbox, mut lanes) = outbox();
        let places = Arc::new(Semaphore::new(4));
        for connection in [1, 2] {
            let place = || Arc::clone(&places).try_acquire_owned().unwrap();
            let message = Message { kind: Kind::Told, stream: connection, body: Vec::new() };
            outbox.put(Lane::Ordinary, Outgoing::Told { connection, message, _places: [place(), place()] });
        }
        let questions = Questions::new(&shared, &outbox, 2);
        let inbox = Inbox::new(reader, MESSAGE_MAX, LONG);
        let timing = Timing::default();
        let exchanging = exchange(inbox, writer, &mut lanes, &timing, 2, questions);
        let told = async {
            let mut inbox = Inbox::new(far, MESSAGE_MAX, LONG);
            loop {
                let message = inbox.next().await.unwrap();
                if message.kind == Kind::Told {
                    return message.stream;
                }
            }
        };
        tokio::select! {
            error = exchanging => panic!("{error}"),
            stream = told => assert_eq!(stream, 2),
        }
        assert_eq!(places.available_permits(), 4, "what is dropped takes no place");
    }
}
