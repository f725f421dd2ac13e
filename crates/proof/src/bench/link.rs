//! `bench link`, the part without processes: what a link costs beside the journal behind it. What has servers and workers is in the trials.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the result of a verb, and how far it is")]

use std::time::Duration;

use lastword_core::OwnerId;
use lastword_core::worker_labels::WorkerLabels;
use lastword_link::{Bells, Hosts, Identity, Link, Options, Principal, Remote, Timing, Trust, serve};
use lastword_store::Said;
use lastword_store::postgres::Postgres;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::postgres::load;
use super::table::median;
use crate::args::Args;
use crate::jobs;
use crate::pg::{Server, Settings, options};

/// Jobs in flight: as many as a link lets through at once.
const IN_FLIGHT: usize = 64;

/// How long a life round takes.
const ROUND: Duration = Duration::from_secs(3);

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Measures whole lives, and prints them.
pub fn bench(args: &Args<'_>) -> Outcome<()> {
    let rounds: usize = args.value("--rounds", if args.has("--short") { 2 } else { 5 })?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let server = Server::start(Settings::default())?;
        println!("{}", life(&server, rounds).await?);
        Ok(())
    })
}

/// A server of a link. The token of a worker is its name.
struct Served {
    remote: Remote,
    serving: JoinHandle<()>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Served {
    async fn start(journal: Postgres, connections: usize) -> Outcome<Served> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let servers = vec![listener.local_addr()?.to_string()];
        let identity = Identity::make()?;
        let (trust, timing) = (Trust::Fingerprints(vec![identity.fingerprint()]), Timing::default());
        // Every job that a bench submits is due by then.
        let clock = || jobs::NOW.plus_ms(1 << 40);
        let options = Options {
            journal: "bench".to_owned(),
            clock,
            connections,
            timing,
            bells: Bells::default(),
            hosts: Hosts::default(),
        };
        let gate = |token: &str| {
            Some(Principal::Worker { owner: OwnerId(token.into()), labels: WorkerLabels::default() })
        };
        let serving = tokio::spawn(async move {
            let Err(error) = serve(listener, &identity, journal, gate, options).await;
            panic!("the server cannot serve: {error}");
        });
        Ok(Served {
            remote: Remote { servers, trust, token: String::new(), said: Said::default(), timing },
            serving,
        })
    }

    async fn link(&self, worker: &str) -> Outcome<Link> {
        Ok(Link::connect(Remote { token: worker.to_owned(), ..self.remote.clone() }).await?)
    }
}

/// Whole lives of jobs, driven by a worker over a link and by one at the journal itself, in turn.
async fn life(server: &Server, rounds: usize) -> Outcome<String> {
    let database = server.database().await;
    let journal = Postgres::open(&server.url(&database), options()).await?;
    let served = Served::start(journal.clone(), 8).await?;
    // The name of the first owner of a load.
    let link = served.link("life-0").await?;
    let labels = WorkerLabels::default();
    let (mut over, mut direct, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        // The one that goes first has the warmer machine, so the two take turns.
        for turn in [round % 2, (round + 1) % 2] {
            match turn {
                0 => over.push(load::life_rate(&labels, &journal, &link, 1, IN_FLIGHT, ROUND).await?),
                _ => direct.push(load::life_rate(&labels, &journal, &journal, 1, IN_FLIGHT, ROUND).await?),
            }
        }
        ratios.push(over[round] / direct[round]);
        eprintln!("life, round {round}: {:.0} / {:.0}", over[round], direct[round]);
    }
    server.drop_database(&database).await;
    let middle = median(&mut ratios);
    let [least, .., most] = ratios[..] else { return Err("two rounds are the least".into()) };
    Ok(format!(
        "life, {IN_FLIGHT} jobs in flight, link / journal: {middle:.2} ({least:.2} to {most:.2} in {rounds} rounds), {:.0} / {:.0} jobs/s",
        median(&mut over),
        median(&mut direct),
    ))
}
