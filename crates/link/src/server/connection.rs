//! One connection: the handshake, then requests in and answers out, in any order.

use std::io;
use std::sync::Arc;

use lastword_store::hints::Hint;
use lastword_store::{Error, NotEnrolled, Said, Store};
use tokio::io::{AsyncRead, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Duration, sleep, timeout};
use tokio_rustls::server::TlsStream;

use super::answer::{Desk, encode};
use super::hosts::Line;
use super::seats::Seat;
use super::shared::{Options, Server};
use crate::carried::Out;
use crate::frame::{HELLO_MAX, Inbox, Kind, Message, broken};
use crate::gate::{Gate, Principal};
use crate::outbox::{Counted, Lane, Outbox, outbox};
use crate::wire::{Enrol, Enrolled, Hello, Request, Welcome};
use crate::{UNDER_WAY_MAX, URGENT_UNDER_WAY_MAX};

/// Between two hints at commits. The first after a pause is sent at once; many commits are one hint.
const HINT_PAUSE: Duration = Duration::from_millis(20);

/// Between two looks at whether the token of a connection is still accepted.
const CHECK_PAUSE: Duration = Duration::from_secs(1);

/// Characters of each thing that a worker says of itself.
const SAID_CHARS_MAX: usize = 64;

type Tls = TlsStream<TcpStream>;

/// Serves one connection until it ends.
pub(super) async fn run<S: Store, G: Gate>(server: &Server<S, G>, stream: TcpStream) {
    let Ok(stranger) = Arc::clone(&server.strangers).try_acquire_owned() else { return };
    let greeting = timeout(server.options.timing.handshake, greet(server, stream));
    let Ok(Ok(Some(Greeted { inbox, mut writer, principal, hello, _seat }))) = greeting.await else { return };
    drop(stranger);
    let watched = watch(&server.gate, principal.clone(), hello);
    let (outbox, mut lanes) = outbox::<Counted>();
    let Options { clock, timing, hosts, bells, .. } = &server.options;
    let answer_max = timing.answer.mul_f32(0.8);
    let (entry, ear, told) = match &principal {
        Principal::Server => (None, None, None),
        Principal::Worker { owner, labels } => {
            let (ear, told) = bells.connect(owner, labels);
            (Some(Arc::new(hosts.enter(owner, outbox.clone(), answer_max, *clock))), Some(ear), Some(told))
        }
    };
    let desk = Desk::new(server.store.clone(), principal, *clock, ear, entry.clone(), hosts.clone());
    let desk = Arc::new(desk);
    // After it has entered: a worker that knows that it is connected is not called away.
    let welcomed = timeout(timing.handshake, welcome(server, &mut writer));
    let Ok(Ok(())) = welcomed.await else { return };
    // Whatever ends first ends the connection; requests that are under way are dropped with their answers.
    tokio::select! {
        _ = lanes.write(writer, timing, |(message, _)| Some(message)) => {}
        _ = requests(&desk, inbox, &outbox, entry.as_ref().map(|entry| &*entry.line), answer_max) => {}
        () = hints(&server.store, told, &outbox) => {}
        () = watched => {}
    }
}

/// A client that was let in.
struct Greeted {
    inbox: Inbox<ReadHalf<Tls>>,
    writer: WriteHalf<Tls>,
    principal: Principal,
    hello: Hello,
    /// Of a worker: it has only so many.
    _seat: Option<Seat>,
}

/// Makes the TLS connection, and asks which principal it is. `None` if the client wanted a token, which is all that it gets.
async fn greet<S: Store, G: Gate>(server: &Server<S, G>, stream: TcpStream) -> io::Result<Option<Greeted>> {
    stream.set_nodelay(true)?;
    let (reader, mut writer) = tokio::io::split(server.tls.accept(stream).await?);
    let mut inbox = Inbox::new(reader, HELLO_MAX, server.options.timing.silence);
    let first = inbox.next().await?;
    let hello: Hello = match first.kind {
        Kind::Hello => serde_json::from_slice(&first.body).map_err(broken_request)?,
        Kind::Enrol => {
            let Enrol { one_time } = serde_json::from_slice(&first.body).map_err(broken_request)?;
            enrol(&server.gate, &one_time).await?.write(&mut writer).await?;
            writer.shutdown().await?;
            return Ok(None);
        }
        _ => return Err(broken("the first message is no hello")),
    };
    let principal = match server.gate.principal(&hello.token).await {
        Ok(Some(principal)) => principal,
        Ok(None) => {
            let words = "the token is not known to this server: enrol the worker again";
            refusal(words).write(&mut writer).await?;
            return Err(broken("an unknown token"));
        }
        Err(error) => {
            refusal(&error.to_string()).write(&mut writer).await?;
            return Err(io::Error::other(error));
        }
    };
    let seat = match &principal {
        Principal::Server => None,
        Principal::Worker { owner, .. } => {
            let Some(seat) = server.seats.take(owner) else {
                refusal(&format!("{owner} has too many connections")).write(&mut writer).await?;
                return Err(broken("a connection too many of one worker"));
            };
            Some(seat)
        }
    };
    inbox.trust();
    Ok(Some(Greeted { inbox, writer, principal, hello, _seat: seat }))
}

/// Tells a client that it was let in.
async fn welcome<S: Store, G: Gate>(server: &Server<S, G>, writer: &mut WriteHalf<Tls>) -> io::Result<()> {
    let welcome = Welcome { journal: server.options.journal.clone() };
    let body = serde_json::to_vec(&welcome).map_err(io::Error::other)?;
    Message { kind: Kind::Welcome, stream: 0, body }.write(writer).await
}

/// Exchanges a one-time token, and returns the answer.
async fn enrol<G: Gate>(gate: &G, one_time: &str) -> io::Result<Message> {
    let again = "run `lastword fleet add` once more, and use what it prints within ten minutes";
    let refused = |what: &str| refusal(&format!("{what}: {again}"));
    Ok(match gate.enrol(one_time).await {
        Ok(Ok((name, token))) => {
            let enrolled = Enrolled { name: name.to_string(), token: token.reveal().to_owned() };
            let body = serde_json::to_vec(&enrolled).map_err(io::Error::other)?;
            Message { kind: Kind::Enrolled, stream: 0, body }
        }
        Ok(Err(NotEnrolled::Unknown)) => {
            refused("this one-time token is not known to the server, or a newer one replaced it")
        }
        Ok(Err(NotEnrolled::Used)) => refused("this one-time token was used already"),
        Ok(Err(NotEnrolled::Expired)) => refused("this one-time token has expired"),
        Err(error) => refusal(&error.to_string()),
    })
}

fn refusal(words: &str) -> Message {
    Message { kind: Kind::Refusal, stream: 0, body: words.as_bytes().to_vec() }
}

/// Notes what a worker says of itself, and returns when its token is not accepted any more.
async fn watch<G: Gate>(gate: &G, principal: Principal, hello: Hello) {
    let Hello { token, version, slots, host } = hello;
    if let Principal::Worker { owner, .. } = &principal {
        let cut = |said: String| said.chars().take(SAID_CHARS_MAX).collect();
        let (version, host) = (version.map(cut), host.map(cut));
        // Nothing is decided by it, and the next hello says it again.
        let _ = gate.describe(owner, Said { version, slots, host }).await;
    }
    loop {
        sleep(CHECK_PAUSE).await;
        // A store that does not answer says nothing of the token.
        if gate.principal(&token).await.is_ok_and(|proven| proven.as_ref() != Some(&principal)) {
            return;
        }
    }
}

/// Takes requests, and answers each in a task of its own. Renewals have their own places, so that no other request keeps them waiting.
async fn requests<S: Store, R: AsyncRead + Unpin>(
    desk: &Arc<Desk<S>>,
    mut inbox: Inbox<R>,
    outbox: &Outbox<Counted>,
    line: Option<&Line>,
    answer_max: Duration,
) -> io::Result<()> {
    let (ordinary, urgent) =
        (Arc::new(Semaphore::new(UNDER_WAY_MAX)), Arc::new(Semaphore::new(URGENT_UNDER_WAY_MAX)));
    let mut tasks = JoinSet::new();
    loop {
        let Message { kind, stream, body } = inbox.next().await?;
        while tasks.try_join_next().is_some() {}
        let (lane, places) = match kind {
            Kind::Beat => continue,
            Kind::Told => {
                line.ok_or_else(|| broken("an answer to no question"))?.told(stream, body)?;
                continue;
            }
            Kind::Request => (Lane::Ordinary, &ordinary),
            Kind::Urgent => (Lane::Urgent, &urgent),
            _ => return Err(broken("a message that no client sends")),
        };
        // A client waits for a place; one that does not is not one of ours.
        let place = Arc::clone(places).try_acquire_owned();
        let place = place.map_err(|_| broken("more requests at once than are allowed"))?;
        let request: Request = serde_json::from_slice(&body).map_err(broken_request)?;
        if (lane == Lane::Urgent) != request.is_urgent() {
            return Err(broken("a request in the wrong lane"));
        }
        let (desk, outbox) = (Arc::clone(desk), outbox.clone());
        tasks.spawn(async move {
            let body = timeout(answer_max, desk.answer(request)).await.unwrap_or_else(|_| {
                let words = format!("the store did not answer within {} s", answer_max.as_secs());
                encode::<()>(&Err(Error::Unavailable(words)))
            });
            outbox.put(lane, (Message { kind: Kind::Answer, stream, body }, Some(place)));
        });
    }
}

fn broken_request(error: serde_json::Error) -> io::Error {
    broken(format!("a request that does not read: {error}"))
}

/// Passes on hints: to a worker those that are for it, and to another server that something was committed.
async fn hints<S: Store>(store: &S, told: Option<mpsc::Receiver<Hint>>, outbox: &Outbox<Counted>) {
    let put = |hint: &Hint| {
        let body = serde_json::to_vec(&Out(hint)).unwrap_or_default();
        outbox.put(Lane::Urgent, (Message { kind: Kind::Hint, stream: 0, body }, None));
    };
    match told {
        Some(mut told) => {
            while let Some(hint) = told.recv().await {
                put(&hint);
            }
        }
        None => {
            let mut hints = store.hints();
            while hints.next().await.is_some() {
                put(&Hint::Commit);
                sleep(HINT_PAUSE).await;
            }
        }
    }
}
