//! A server reads what workers ran, over the connections that they made. Two hosts and a server in one process, with real trees.

use std::time::Duration;

use lastword_core::job::Phase;
use lastword_core::spec::{Io, Ladder, Spec};
use lastword_core::worker_labels::WorkerLabels;
use lastword_core::{AttemptNo, HostId, Job, JobId, OwnerId};
use lastword_engine::{Begin, Engine, Error, LocalHost, Options, Part, Piece, ServerHost, Stream, now};
use lastword_link::{Bells, Fingerprint, Hosts, Identity, Link, Principal, Remote, Timing, Trust, serve};
use lastword_store::memory::Memory;
use tokio::net::TcpListener;

use super::{Bench, end_of, env, leader_of, output_of, until, wish};
use crate::common::{PATIENCE, start_nursery};

/// A server with its own connections, on a journal that hosts share.
struct Fleet {
    bench: Bench,
    journal: Memory,
    address: String,
    fingerprint: Fingerprint,
    server: Engine<Memory>,
}

impl Fleet {
    async fn start() -> Fleet {
        let (bench, journal, hosts) = (Bench::new(), Memory::shared(1), Hosts::default());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, identity) = (listener.local_addr().unwrap().to_string(), Identity::make().unwrap());
        let fingerprint = identity.fingerprint();
        let options = lastword_link::Options {
            journal: "here".to_owned(),
            clock: || now().wall,
            connections: 8,
            timing: Timing::default(),
            bells: Bells::default(),
            hosts: hosts.clone(),
        };
        let gate = |token: &str| {
            Some(Principal::Worker { owner: OwnerId(token.into()), labels: WorkerLabels::default() })
        };
        let store = journal.clone();
        tokio::spawn(async move { serve(listener, &identity, store, gate, options).await });
        let host = ServerHost::new(bench.cwd().join("server"), hosts, journal.clone());
        // It runs nothing.
        let options =
            Options { slots: Some(0), ..Options::new(OwnerId("server".into()), HostId("s".into())) };
        let server = Engine::start(journal.clone(), host, options);
        Fleet { bench, journal, address, fingerprint, server }
    }

    /// Starts a worker. Its link serves for questions only: its journal is the one of the server.
    async fn worker(&self, name: &str) -> (Engine<Memory>, Link) {
        let host = LocalHost::new(self.bench.cwd().join(name), || Ok(start_nursery())).unwrap();
        let link = Link::connect(Remote {
            servers: vec![self.address.clone()],
            trust: Trust::Fingerprints(vec![self.fingerprint]),
            token: name.to_owned(),
            timing: Timing::default(),
            said: Default::default(),
        });
        let link = link.await.unwrap();
        link.answer_for(host.clone());
        let options = Options::new(OwnerId(name.into()), HostId(name.into()));
        (Engine::start(self.journal.clone(), host, options), link)
    }

    async fn job(&self, id: JobId) -> Job {
        self.server.job(id).await.unwrap().value
    }

    /// Reads through the server, waiting for the first byte.
    async fn read(&self, id: JobId, stream: Stream, offset: u64) -> Result<Piece, Error> {
        let part = Part { from: Begin::At(offset), limit: 1 << 16, wait: PATIENCE };
        self.server.read(&self.job(id).await, AttemptNo(1), stream, part).await
    }
}

/// Submits a job that this worker claims.
async fn run(worker: &Engine<Memory>, spec: Spec) -> JobId {
    let id = worker.desk().new_id().unwrap();
    worker.submit(id, spec, env(), "ann").await.unwrap();
    leader_of(worker, id).await;
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn output_of_a_worker_is_read_live_and_by_offset() {
    let fleet = Fleet::start().await;
    let (ann, _link) = fleet.worker("ann").await;
    let go = fleet.bench.cwd().join("go");
    let script = "echo one; while [ ! -e go ]; do sleep 0.02; done; echo two; echo three >&2";
    let id = run(&ann, fleet.bench.script(script)).await;
    let first = fleet.read(id, Stream::Stdout, 0).await.unwrap();
    assert_eq!((first.bytes.as_slice(), first.next()), (&b"one\n"[..], 4));
    // What is written later comes when it is written.
    let job = fleet.job(id).await;
    let part = Part { from: Begin::At(4), limit: 9, wait: PATIENCE };
    let second = fleet.server.read(&job, AttemptNo(1), Stream::Stdout, part);
    let (second, ()) = tokio::join!(second, async { std::fs::write(&go, "").unwrap() });
    assert_eq!(second.unwrap().bytes, b"two\n");
    end_of(&ann, id).await;
    assert_eq!(fleet.read(id, Stream::Stderr, 0).await.unwrap().bytes, b"three\n");
    assert_eq!(output_of(&fleet.server, id, "two").await, "one\ntwo\n", "the same after its end");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_worker_answers_for_what_it_ran() {
    let fleet = Fleet::start().await;
    let (ann, _link) = fleet.worker("ann").await;
    let of_ann = run(&ann, fleet.bench.script("echo ann; sleep 100")).await;
    ann.shut_down(lastword_engine::Jobs::Keep).await.unwrap();
    let (bob, _other) = fleet.worker("bob").await;
    let of_bob = run(&bob, fleet.bench.script("echo bob; sleep 100")).await;
    assert_eq!(fleet.read(of_ann, Stream::Stdout, 0).await.unwrap().bytes, b"ann\n");
    assert_eq!(fleet.read(of_bob, Stream::Stdout, 0).await.unwrap().bytes, b"bob\n");
    drop(ann);
    let (ann, _again) = fleet.worker("ann").await;
    for (engine, id) in [(&ann, of_ann), (&bob, of_bob)] {
        engine.desk().cancel(id, &wish(true)).await.unwrap();
        end_of(engine, id).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_shows_the_living_processes_of_a_worker() {
    let fleet = Fleet::start().await;
    let (ann, _link) = fleet.worker("ann").await;
    let stubborn = Spec {
        ladder: Ladder { interrupt_ms: 0, term_ms: 60_000 },
        ..fleet.bench.script("trap '' TERM; echo ready; while :; do sleep 0.1; done")
    };
    let id = run(&ann, stubborn).await;
    output_of(&fleet.server, id, "ready").await;
    let leader = leader_of(&ann, id).await;
    assert_eq!(fleet.server.alive(&fleet.job(id).await).await, None, "it is not being stopped");
    ann.desk().cancel(id, &wish(false)).await.unwrap();
    let stopping = until(&ann, id, |job| matches!(job.phase, Phase::Stopping { .. })).await;
    let alive = fleet.server.alive(&stopping).await.expect("its keeper answers");
    assert!(alive.count >= 1 && alive.pids.contains(&leader.pid), "{alive:?}");
    ann.desk().cancel(id, &wish(true)).await.unwrap();
    end_of(&ann, id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_on_a_worker_gets_its_size() {
    let fleet = Fleet::start().await;
    let (ann, _link) = fleet.worker("ann").await;
    let script = "echo ready; until [ \"$(stty size)\" = '30 77' ]; do sleep 0.02; done; echo resized";
    let spec = Spec { io: Io::Terminal { rows: 24, columns: 80 }, ..fleet.bench.script(script) };
    let id = run(&ann, spec).await;
    assert!(fleet.server.resize(id, 30, 77).await.unwrap());
    output_of(&fleet.server, id, "resized").await;
    end_of(&ann, id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn output_of_a_host_that_is_away_is_never_called_empty() {
    let fleet = Fleet::start().await;
    let (ann, link) = fleet.worker("ann").await;
    let id = run(&ann, fleet.bench.script("echo one; sleep 100")).await;
    output_of(&fleet.server, id, "one").await;
    let before = now().wall;
    // A read that is under way ends, too.
    let reading = fleet.read(id, Stream::Stdout, 4);
    let (read, ()) = tokio::join!(reading, async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        drop(link);
    });
    let away = |read: Result<Piece, Error>| match read {
        Err(Error::Away(away)) => away,
        other => panic!("{other:?}"),
    };
    let told = away(read);
    assert_eq!((&*told.owner.0, told.may_be_elsewhere), ("ann", true), "its life goes on");
    assert!(told.since.is_some_and(|since| since >= before));
    assert!(told.to_string().starts_with("the output of "), "{told}");
    // Its life is over.
    ann.desk().cancel(id, &wish(true)).await.unwrap();
    end_of(&ann, id).await;
    ann.shut_down(lastword_engine::Jobs::Cancel).await.unwrap();
    let told = away(fleet.read(id, Stream::Stdout, 0).await);
    assert!(!told.may_be_elsewhere);
    // It comes back, with its files.
    drop(ann);
    let (_ann, _link) = fleet.worker("ann").await;
    assert_eq!(fleet.read(id, Stream::Stdout, 0).await.unwrap().bytes, b"one\n");
}
