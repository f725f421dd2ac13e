//! Clients that are slow, silent, huge, or not let in. None of them may hold anything for long.

use std::io;
use std::time::Duration;

use lastword_core::Seq;
use lastword_core::spec::{Spec, Work};
use lastword_store::{Catalog, Journal};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::setup::{SERVER, SOON, Served, hello, id, spec, submission};
use super::stuck::Stuck;
use crate::frame::{Inbox, Kind, Message};
use crate::server::SEATS_MAX;
use crate::wire::{LoadLog, Request, StoreAppend};
use crate::{Identity, Link, Timing, UNDER_WAY_MAX};

/// Short waits of the server; clients of the test are as patient as ever.
fn strict() -> Timing {
    Timing {
        handshake: Duration::from_millis(500),
        silence: Duration::from_millis(500),
        write: Duration::from_millis(500),
        beat: Duration::from_millis(50),
        ..Timing::default()
    }
}

/// Waits that no test comes to: the connection ends for another reason.
fn patient() -> Timing {
    let long = 2 * SOON;
    Timing { handshake: long, silence: long, write: long, ..Timing::default() }
}

async fn patiently_served() -> Served {
    Served::with(patient(), Stuck::new(1), "here").await
}

/// Reads until the connection ends, and fails if it does not.
async fn ends(mut stream: impl AsyncRead + Unpin) {
    let mut rest = [0; 4096];
    let over = async { while matches!(stream.read(&mut rest).await, Ok(1..)) {} };
    timeout(SOON, over).await.expect("the server ends the connection");
}

/// Fails unless an honest client is served.
async fn serves(served: &Served) {
    let link = served.link(SERVER).await;
    assert!(link.counts().await.is_ok());
}

fn request(stream: u64, request: impl Into<Request>) -> Message {
    let body = serde_json::to_vec(&request.into()).unwrap();
    Message { kind: Kind::Request, stream, body }
}

#[tokio::test]
async fn a_stranger_that_says_nothing_is_cut_off() {
    let served = Served::with(strict(), Stuck::new(1), "here").await;
    // Before TLS, and after it.
    ends(TcpStream::connect(served.address).await.unwrap()).await;
    ends(served.raw().await).await;
    serves(&served).await;
}

#[tokio::test]
async fn a_stranger_gets_no_answer() {
    let served = patiently_served().await;
    let mut stream = served.raw().await;
    request(1, LoadLog { job: id(1), after: Seq(0) }).write(&mut stream).await.unwrap();
    let mut bytes = Vec::new();
    timeout(SOON, stream.read_to_end(&mut bytes)).await.expect("it is cut off").ok();
    assert_eq!(bytes, b"");

    let mut stream = served.raw().await;
    hello("eve").write(&mut stream).await.unwrap();
    let mut inbox = Inbox::new(stream, 4096, SOON);
    let refusal = inbox.next().await.unwrap();
    assert_eq!(refusal.kind, Kind::Refusal);
    assert_eq!(inbox.next().await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
}

#[tokio::test]
async fn a_long_hello_is_cut_off_unread() {
    let served = patiently_served().await;
    let mut stream = served.raw().await;
    hello(&"x".repeat(5_000)).write(&mut stream).await.unwrap();
    let mut bytes = Vec::new();
    timeout(SOON, stream.read_to_end(&mut bytes)).await.expect("it is cut off").ok();
    assert_eq!(bytes, b"", "the token was not looked at");
}

#[tokio::test]
async fn a_huge_frame_is_cut_off_and_not_waited_for() {
    let served = patiently_served().await;
    let mut stream = served.raw().await;
    hello(SERVER).write(&mut stream).await.unwrap();
    stream.write_all(&u32::MAX.to_be_bytes()).await.unwrap();
    stream.write_all(&[Kind::Request as u8, 1, 0, 0, 0, 0, 0, 0, 0, 1]).await.unwrap();
    stream.flush().await.unwrap();
    ends(stream).await;
    serves(&served).await;
}

/// A machine that was switched off sends neither beats nor an end.
#[tokio::test]
async fn a_half_open_connection_is_cut_off() {
    let served = Served::with(strict(), Stuck::new(1), "here").await;
    let mut stream = served.raw().await;
    hello(SERVER).write(&mut stream).await.unwrap();
    ends(stream).await;
}

/// One byte at a time, for ever.
#[tokio::test]
async fn a_frame_that_trickles_in_is_cut_off() {
    let served = Served::with(strict(), Stuck::new(1), "here").await;
    let mut stream = served.raw().await;
    hello(SERVER).write(&mut stream).await.unwrap();
    let (reader, mut writer) = tokio::io::split(stream);
    let trickle = tokio::spawn(async move {
        writer.write_all(&[0, 0, 255, 0, Kind::Request as u8, 1, 0, 0, 0, 0, 0, 0, 0, 1]).await.ok();
        while writer.write_all(b"x").await.is_ok() && writer.flush().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    ends(reader).await;
    trickle.abort();
}

#[tokio::test]
async fn more_requests_than_are_allowed_are_cut_off() {
    let served = patiently_served().await;
    served.store.close();
    let mut stream = served.raw().await;
    hello(SERVER).write(&mut stream).await.unwrap();
    for n in 0..=UNDER_WAY_MAX as u8 {
        let append = submission(n, spec()).0;
        request(1 + u64::from(n), StoreAppend { append }).write(&mut stream).await.ok();
    }
    ends(stream).await;
    served.store.open();
    serves(&served).await;
}

/// It asks for megabytes again and again and reads none of them. With one place at the server, the next client is served only after it
/// was cut off.
#[tokio::test]
async fn a_client_that_does_not_read_is_cut_off() {
    let timing = Timing { write: Duration::from_millis(500), ..patient() };
    let served = Served::of(timing, Stuck::new(1), "here", Identity::make().unwrap(), 1).await;
    let argv = vec!["x".repeat(4 << 20)];
    served.store.append(submission(1, Spec { work: Work::Command { argv }, ..spec() }).0).await.unwrap();
    let mut stream = served.raw().await;
    hello(SERVER).write(&mut stream).await.unwrap();
    let asks = tokio::spawn(async move {
        for n in 0..4 {
            request(1 + n, LoadLog { job: id(1), after: Seq(0) }).write(&mut stream).await.ok();
        }
        // It beats, so it is not silent.
        while Message::bare(Kind::Beat).write(&mut stream).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        stream
    });
    let next = async {
        loop {
            if let Ok(link) = Link::connect(served.remote(SERVER)).await {
                return link;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let link = timeout(SOON, next).await.expect("the slow client was cut off");
    assert!(link.row(id(1)).await.is_ok_and(|row| row.is_some()));
    asks.abort();
}

/// A stolen token does not take the places of others. A connection that ends makes room.
#[tokio::test]
async fn a_worker_has_a_few_connections() {
    let served = patiently_served().await;
    let mut links = Vec::new();
    for _ in 0..SEATS_MAX {
        links.push(served.link("ann").await);
    }
    let words = Link::connect(served.remote("ann")).await.err().expect("it is refused").to_string();
    assert!(words.contains("ann has too many connections"), "{words}");
    served.link("bob").await;
    serves(&served).await;
    links.pop();
    let again = async { while Link::connect(served.remote("ann")).await.is_err() {} };
    timeout(SOON, again).await.expect("there is room again");
}

#[tokio::test]
async fn a_request_that_does_not_read_ends_the_connection() {
    let served = patiently_served().await;
    for (kind, body) in [
        (Kind::Request, &b"{\"fly\":{}}"[..]),
        (Kind::Request, b"["),
        (Kind::Urgent, b"{\"feed_end\":{}}"),
        (Kind::Welcome, b"{}"),
    ] {
        let mut stream = served.raw().await;
        hello(SERVER).write(&mut stream).await.unwrap();
        Message { kind, stream: 1, body: body.to_vec() }.write(&mut stream).await.unwrap();
        ends(stream).await;
    }
}
