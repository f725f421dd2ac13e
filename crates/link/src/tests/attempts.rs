//! Questions to workers about their attempts: slow, huge, false and missing answers, and what they cost others.

use std::sync::Arc;
use std::time::Duration;

use lastword_core::life::Place;
use lastword_core::{AttemptNo, OwnerId};
use lastword_store::attempts::{Alive, Begin, BoxFuture, NotRead, Part, Piece, Ran, Stream};
use lastword_store::{Attempts, Journal, Renew};
use tokio::io::{ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_rustls::client::TlsStream;

use super::proxy::{Mode, Proxy};
use super::setup::{NOW, SERVER, SOON, Served, hello, id, register, renewal, submit};
use super::stuck::Stuck;
use crate::ask::{ASKED_MAX, Ask, PIECE_MAX, Told};
use crate::frame::{Inbox, Kind, MESSAGE_MAX, Message};
use crate::{Identity, Link, Peer, Remote, Timing};

type Tls = TlsStream<TcpStream>;

/// A host in memory with one attempt, whose standard output grows as the test wants. Its reads wait for a gate.
#[derive(Clone)]
struct OneAttempt {
    written: watch::Sender<Vec<u8>>,
    gate: Arc<Semaphore>,
    /// How often it was read.
    reads: watch::Sender<usize>,
}

impl OneAttempt {
    fn with(bytes: impl Into<Vec<u8>>) -> OneAttempt {
        OneAttempt {
            written: watch::Sender::new(bytes.into()),
            gate: Arc::new(Semaphore::new(1_000)),
            reads: watch::Sender::default(),
        }
    }

    fn stuck() -> OneAttempt {
        OneAttempt { gate: Arc::new(Semaphore::new(0)), ..OneAttempt::with("stuck") }
    }
}

impl Attempts for OneAttempt {
    fn read(&self, ran: Ran, stream: Stream, part: Part) -> BoxFuture<Result<Piece, NotRead>> {
        let host = self.clone();
        Box::pin(async move {
            host.reads.send_modify(|reads| *reads += 1);
            let _turn = host.gate.acquire().await;
            if (ran.job, ran.attempt, stream) != (id(1), AttemptNo(1), Stream::Stdout) {
                return Err(NotRead::NoAttempt);
            }
            let mut written = host.written.subscribe();
            let from = |size: u64| match part.from {
                Begin::At(offset) => offset,
                Begin::BeforeEnd(bytes) => size.saturating_sub(bytes),
            };
            let has_more = |bytes: &Vec<u8>| bytes.len() as u64 > from(bytes.len() as u64);
            let _ = timeout(part.wait, written.wait_for(has_more)).await;
            let all = written.borrow();
            let (offset, size) = (from(all.len() as u64), all.len() as u64);
            let bytes = all.iter().skip(offset as usize).take(part.limit).copied().collect();
            Ok(Piece { bytes, offset, skipped: 0, size })
        })
    }

    fn alive(&self, _: Ran) -> BoxFuture<Option<Alive>> {
        Box::pin(std::future::ready(Some(Alive { count: 2, pids: vec![7, 8] })))
    }

    fn resize(&self, _: Ran, rows: u16, columns: u16) -> BoxFuture<bool> {
        Box::pin(std::future::ready((rows, columns) == (30, 77)))
    }
}

fn of(owner: &str) -> Ran {
    Ran { job: id(1), attempt: AttemptNo(1), owner: OwnerId(owner.into()) }
}

fn part(from: Begin, limit: usize) -> Part {
    Part { from, limit, wait: Duration::ZERO }
}

async fn read(served: &Served, part: Part) -> Result<Piece, NotRead> {
    timeout(SOON, served.hosts.read(of("ann"), Stream::Stdout, part)).await.expect("a read comes to an end")
}

/// Starts a worker that answers for a host.
async fn worker(served: &Served, host: &OneAttempt) -> Link {
    let link = served.link("ann").await;
    link.answer_for(host.clone());
    link
}

/// Connects as a worker whose messages the test writes itself.
async fn raw_worker(served: &Served) -> (Inbox<ReadHalf<Tls>>, WriteHalf<Tls>) {
    let (reader, mut writer) = tokio::io::split(served.raw().await);
    hello("ann").write(&mut writer).await.unwrap();
    let mut inbox = Inbox::new(reader, MESSAGE_MAX, SOON);
    assert_eq!(inbox.next().await.unwrap().kind, Kind::Welcome);
    (inbox, writer)
}

/// Returns the next question.
async fn asked(inbox: &mut Inbox<ReadHalf<Tls>>) -> (u64, Ask) {
    loop {
        let message = inbox.next().await.unwrap();
        if message.kind == Kind::Ask {
            return (message.stream, serde_json::from_slice(&message.body).unwrap());
        }
    }
}

#[tokio::test]
async fn output_is_read_by_offset_and_from_the_end() {
    let served = Served::start().await;
    let host = OneAttempt::with("0123456789");
    let _link = worker(&served, &host).await;
    for (from, limit, bytes, offset) in [
        (Begin::At(0), 4, &b"0123"[..], 0),
        (Begin::At(4), 99, b"456789", 4),
        (Begin::BeforeEnd(3), 2, b"78", 7),
        (Begin::BeforeEnd(99), 1, b"0", 0),
        (Begin::At(10), 9, b"", 10),
        (Begin::At(99), 9, b"", 99),
    ] {
        let piece = read(&served, part(from, limit)).await.unwrap();
        assert_eq!((piece.bytes.as_slice(), piece.offset), (bytes, offset), "{from:?}");
        assert_eq!((piece.skipped, piece.size), (0, 10.max(piece.next())));
    }
    let other = Ran { attempt: AttemptNo(2), ..of("ann") };
    let missing = served.hosts.read(other, Stream::Stdout, part(Begin::At(0), 1)).await;
    assert_eq!(missing, Err(NotRead::NoAttempt));
    assert_eq!(served.hosts.alive(of("ann")).await, Some(Alive { count: 2, pids: vec![7, 8] }));
    assert!(served.hosts.resize(of("ann"), 30, 77).await);
    assert!(!served.hosts.resize(of("ann"), 1, 1).await);
}

/// As one server asks for the workers of another. A worker may not.
#[tokio::test]
async fn a_worker_is_asked_through_the_server_to_which_it_is_connected() {
    let served = Served::start().await;
    let long: Vec<u8> = (0..PIECE_MAX + 5).map(|n| (n % 251) as u8).collect();
    let _link = worker(&served, &OneAttempt::with(long.clone())).await;
    let peer = Peer::new(served.link(SERVER).await);
    let whole = || part(Begin::At(0), long.len());
    let read = |peer: &Peer, owner: &str| timeout(SOON, peer.read(of(owner), Stream::Stdout, whole()));
    assert_eq!(read(&peer, "ann").await.unwrap().unwrap().bytes, long);
    assert_eq!(read(&peer, "bob").await.unwrap(), Err(NotRead::Away(None)));
    assert_eq!(peer.alive(of("ann")).await, Some(Alive { count: 2, pids: vec![7, 8] }));
    assert!(peer.resize(of("ann"), 30, 77).await);
    let refused = read(&Peer::new(served.link("bob").await), "ann").await.unwrap();
    assert!(matches!(&refused, Err(NotRead::Failed(_))), "{refused:?}");
}

/// Longer than an answer, and longer than a message.
#[tokio::test]
async fn a_long_part_takes_several_answers() {
    let served = Served::start().await;
    let bytes: Vec<u8> = (0..MESSAGE_MAX + 5).map(|n| (n % 251) as u8).collect();
    let host = OneAttempt::with(bytes.clone());
    let _link = worker(&served, &host).await;
    let piece = read(&served, part(Begin::At(0), bytes.len())).await.unwrap();
    assert!(piece.bytes == bytes, "{} bytes", piece.bytes.len());
    let end = read(&served, part(Begin::BeforeEnd(3 * PIECE_MAX as u64), 4 * PIECE_MAX)).await.unwrap();
    assert!(end.bytes == bytes[bytes.len() - 3 * PIECE_MAX..], "{} bytes", end.bytes.len());
}

#[tokio::test]
async fn a_read_waits_for_output() {
    let served = Served::start().await;
    let host = OneAttempt::with("one");
    let _link = worker(&served, &host).await;
    // Longer than one question waits.
    let waits = Part { wait: SOON, ..part(Begin::At(3), 9) };
    let hosts = served.hosts.clone();
    let reading = tokio::spawn(async move { hosts.read(of("ann"), Stream::Stdout, waits).await });
    tokio::time::sleep(2 * crate::ask::WAIT_MAX).await;
    assert!(!reading.is_finished());
    host.written.send_modify(|bytes| bytes.extend(b"two"));
    let piece = timeout(SOON, reading).await.expect("it is told").unwrap().unwrap();
    assert_eq!(piece.bytes, b"two");
    // The time is over before anything is written.
    let short = Part { wait: Duration::from_millis(50), ..part(Begin::At(6), 9) };
    assert_eq!(read(&served, short).await.unwrap().bytes, b"");
}

#[tokio::test]
async fn an_unknown_worker_is_away_and_one_that_left_is_away_since_then() {
    let served = Served::start().await;
    let one = part(Begin::At(0), 9);
    assert_eq!(read(&served, one).await, Err(NotRead::Away(None)));
    let link = worker(&served, &OneAttempt::with("output")).await;
    assert_eq!(read(&served, one).await.unwrap().bytes, b"output");
    drop(link);
    let left = async {
        while !matches!(read(&served, one).await, Err(NotRead::Away(Some(NOW)))) {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, left).await.expect("its end is noticed");
    assert_eq!(served.hosts.alive(of("ann")).await, None);
    assert!(!served.hosts.resize(of("ann"), 30, 77).await);
    let _link = worker(&served, &OneAttempt::with("output")).await;
    assert_eq!(read(&served, one).await.unwrap().bytes, b"output");
}

/// The end of its first connection is noticed after it has made another.
#[tokio::test]
async fn a_worker_that_has_connected_again_is_not_away() {
    let served = Served::of(Timing::default(), Stuck::new(1), "here", Identity::make().unwrap(), 2).await;
    let first = raw_worker(&served).await;
    let _link = worker(&served, &OneAttempt::with("again")).await;
    drop(first);
    // There are two places, so a third connection is let in once the first is over.
    let third = async { while Link::connect(served.remote(super::setup::SERVER)).await.is_err() {} };
    timeout(SOON, third).await.expect("the first connection ends");
    assert_eq!(read(&served, part(Begin::At(0), 9)).await.unwrap().bytes, b"again");
}

/// Another host with a copy of the enrolment connects. It has no lease, and none of the output.
#[tokio::test]
async fn a_second_host_answers_nothing_until_it_has_the_lease() {
    let served = Served::start().await;
    let (mine, theirs) = (OneAttempt::with("mine"), OneAttempt::with("theirs"));
    let first = worker(&served, &mine).await;
    register(&first, "ann").await;
    let second = worker(&served, &theirs).await;
    let elsewhere = Renew { place: Place::new("there", "boot-1"), ..renewal("ann") };
    assert!(second.renew(elsewhere).await.is_err());
    assert_eq!(read(&served, part(Begin::At(0), 9)).await.unwrap().bytes, b"mine");
    // The next life of the worker, whose first connection is not known to be over yet.
    register(&second, "ann").await;
    assert_eq!(read(&served, part(Begin::At(0), 9)).await.unwrap().bytes, b"theirs");
    drop(first);
}

/// The one worker's token says nothing about attempts of the other.
#[tokio::test]
async fn a_worker_is_asked_about_what_it_ran_and_nothing_else() {
    let served = Served::start().await;
    let _link = worker(&served, &OneAttempt::with("of ann")).await;
    let asked = served.hosts.read(of("bob"), Stream::Stdout, part(Begin::At(0), 9)).await;
    assert_eq!(asked, Err(NotRead::Away(None)));
}

#[tokio::test]
async fn a_worker_that_goes_away_in_the_middle_ends_reads_at_once() {
    let served = Served::start().await;
    let proxy = Proxy::to(served.address).await;
    let remote = Remote { servers: vec![proxy.address.clone()], ..served.remote("ann") };
    let link = Link::connect(remote).await.unwrap();
    let host = OneAttempt::stuck();
    link.answer_for(host.clone());
    // More than have a place.
    let mut reads = JoinSet::new();
    for _ in 0..ASKED_MAX + 9 {
        let hosts = served.hosts.clone();
        reads.spawn(async move { hosts.read(of("ann"), Stream::Stdout, part(Begin::At(0), 9)).await });
    }
    let all = |reads: &usize| *reads == ASKED_MAX;
    timeout(SOON, host.reads.subscribe().wait_for(all)).await.expect("they are under way").unwrap();
    let began = Instant::now();
    proxy.set(Mode::Cut);
    for read in timeout(SOON, reads.join_all()).await.expect("all come to an end") {
        assert_eq!(read, Err(NotRead::Away(Some(NOW))));
    }
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    // What was asked over the first connection is not answered over the next.
    proxy.set(Mode::Pass);
    host.gate.add_permits(1_000);
    let healed = async {
        while read(&served, part(Begin::At(0), 9)).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, healed).await.expect("it connects again");
    assert!(link.renew(renewal("ann")).await.is_ok());
}

#[tokio::test]
async fn a_worker_that_does_not_answer_costs_an_error_and_keeps_its_lease() {
    let timing = Timing { answer: Duration::from_millis(500), ..Timing::default() };
    let served = Served::with(timing, Stuck::new(1), "here").await;
    let host = OneAttempt::stuck();
    let link = worker(&served, &host).await;
    let error = read(&served, part(Begin::At(0), 9)).await.unwrap_err();
    assert!(
        matches!(&error, NotRead::Failed(words) if words.starts_with("worker ann did not answer")),
        "{error:?}"
    );
    // Every place is taken by a question that it does not answer.
    for _ in 0..ASKED_MAX {
        let hosts = served.hosts.clone();
        tokio::spawn(async move { hosts.read(of("ann"), Stream::Stdout, part(Begin::At(0), 9)).await });
    }
    let all = |reads: &usize| *reads == ASKED_MAX;
    timeout(SOON, host.reads.subscribe().wait_for(all)).await.expect("they are under way").unwrap();
    assert_eq!(timeout(SOON, served.hosts.alive(of("ann"))).await, Ok(None));
    assert!(link.renew(renewal("ann")).await.is_ok());
    submit(&served.link(super::setup::SERVER).await, 1).await;
}

/// Megabytes of output are asked for, and each is on its way when a lease is renewed. How long that takes depends on the machine; that it is
/// done before any of them does not.
#[tokio::test]
async fn renewals_do_not_wait_for_output() {
    const READERS: usize = 16;
    let served = Served::start().await;
    let host = OneAttempt::with(vec![b'x'; 4 << 20]);
    let link = worker(&served, &host).await;
    let mut readers = JoinSet::new();
    for _ in 0..READERS {
        let hosts = served.hosts.clone();
        readers.spawn(async move {
            hosts.read(of("ann"), Stream::Stdout, part(Begin::At(0), 4 << 20)).await.unwrap().bytes.len()
        });
    }
    let all = |reads: &usize| *reads >= READERS;
    timeout(SOON, host.reads.subscribe().wait_for(all)).await.expect("they are under way").unwrap();
    link.renew(renewal("ann")).await.unwrap();
    assert!(readers.try_join_next().is_none(), "output came first");
    assert_eq!(readers.join_all().await, [4 << 20; READERS]);
}

#[tokio::test]
async fn answers_that_do_not_fit_are_errors_and_break_nothing() {
    let served = Served::start().await;
    let (mut inbox, mut writer) = raw_worker(&served).await;
    let huge = Told::Piece { offset: 0, skipped: 0, size: 9 };
    for (body, words) in [
        (huge.encode(&[b'x'; 10]), "its worker answers something else than was asked"),
        (huge.encode(&vec![b'x'; MESSAGE_MAX - 100]), "its worker answers something else than was asked"),
        (Told::Resized(true).encode(b""), "its worker answers something else than was asked"),
        (b"\xff\xff\xff\xff".to_vec(), "worker ann sent an answer about an attempt that does not read"),
        (Vec::new(), "worker ann sent an answer about an attempt that does not read"),
    ] {
        let hosts = served.hosts.clone();
        let reading =
            tokio::spawn(async move { hosts.read(of("ann"), Stream::Stdout, part(Begin::At(0), 9)).await });
        let (stream, ask) = asked(&mut inbox).await;
        assert_eq!((ask.job, ask.attempt), (id(1), 1));
        Message { kind: Kind::Told, stream, body }.write(&mut writer).await.unwrap();
        let read = timeout(SOON, reading).await.unwrap().unwrap();
        assert_eq!(read, Err(NotRead::Failed(words.to_owned())));
    }
}

/// It says at once and for ever that there is nothing yet.
#[tokio::test]
async fn a_worker_that_does_not_wait_is_asked_in_its_time() {
    let served = Served::start().await;
    let (mut inbox, mut writer) = raw_worker(&served).await;
    let hosts = served.hosts.clone();
    let waits = Part { wait: Duration::from_millis(500), ..part(Begin::At(0), 9) };
    let reading = tokio::spawn(async move { hosts.read(of("ann"), Stream::Stdout, waits).await });
    let mut questions = 0;
    while !reading.is_finished() {
        let Ok((stream, _)) = timeout(Duration::from_millis(200), asked(&mut inbox)).await else { continue };
        questions += 1;
        let body = Told::Piece { offset: 0, skipped: 0, size: 0 }.encode(b"");
        Message { kind: Kind::Told, stream, body }.write(&mut writer).await.unwrap();
    }
    assert_eq!(reading.await.unwrap().unwrap().bytes, b"");
    assert!((2..=30).contains(&questions), "{questions}");
}

#[tokio::test]
async fn an_answer_to_no_question_ends_the_connection() {
    let served = Served::start().await;
    for token in ["ann", super::setup::SERVER] {
        let mut stream = served.raw().await;
        hello(token).write(&mut stream).await.unwrap();
        let body = Told::Resized(true).encode(b"");
        Message { kind: Kind::Told, stream: 1, body }.write(&mut stream).await.unwrap();
        let mut inbox = Inbox::new(stream, MESSAGE_MAX, SOON);
        let over = async { while inbox.next().await.is_ok() {} };
        timeout(SOON, over).await.expect("the server ends the connection");
    }
}
