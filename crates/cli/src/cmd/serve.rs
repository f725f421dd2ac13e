//! `serve`: runs a server of a fleet in the foreground.

use std::net::SocketAddr;

use crate::daemon::run as service;
use crate::environment;
use crate::failure::{Failure, Outcome};
use crate::fleet::server::Server;
use crate::paths::Paths;
use crate::text::duration;

/// Run a server of a fleet, with its journal in PostgreSQL
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The server has a state folder of its own (LASTWORD_HOME). Other commands with the same folder talk to it: \
                       `lastword run` there starts a job on one of the workers. Several servers can share a database; none is special."
)]
pub(crate) struct Args {
    /// The database: postgres://USER@HOST/NAME. The variable LASTWORD_STORE is another way to give it, which other users cannot read
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Where workers connect
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7420")]
    listen: SocketAddr,
    /// Where workers on other hosts reach it, if that is another address
    #[arg(long, value_name = "HOST:PORT", value_parser = reachable)]
    advertise: Option<String>,
    /// How long this server may hold a job without a word to the database
    #[arg(long, value_name = "TIME", value_parser = duration::parse_ms, default_value = "15s", hide = true)]
    lease: u64,
    /// Setting for this server, such as limits.wall=2h; can be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
}

/// Checks an address: a host and a port, and nothing that belongs to a URL.
fn reachable(text: &str) -> Result<String, String> {
    let (host, port) = text.rsplit_once(':').ok_or("write it as HOST:PORT")?;
    let is_host =
        !host.is_empty() && !host.contains(['/', '@', ' ']) && (host.starts_with('[') || !host.contains(':'));
    match (is_host, port.parse::<u16>()) {
        (true, Ok(1..)) => Ok(text.to_owned()),
        (true, _) => Err(format!("`{port}` is no port")),
        (false, _) => Err("write it as HOST:PORT, without a scheme".to_owned()),
    }
}

pub(crate) fn run(args: Args) -> Outcome {
    let store = args.store.or_else(|| environment::get(environment::STORE));
    let store = store.filter(|store| !store.is_empty()).ok_or_else(|| {
        Failure::usage("which database? give --store postgres://USER@HOST/NAME, or set LASTWORD_STORE")
    })?;
    let server = Server::new(store, args.listen, args.advertise, args.lease);
    service::run(&server, &Paths::find()?, &args.set, false)
}
