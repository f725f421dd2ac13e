//! `worker enroll`: makes the state folder that of a worker, which a server knows.

use lastword_api::Code;
use lastword_link::{Fingerprint, Timing, Trust, Unwelcome, enrol, prove};

use crate::cmd::runtime;
use crate::daemon::role::Role;
use crate::failure::{Failure, Outcome};
use crate::fleet::enrolment::{Enrolment, KnownServer};
use crate::paths::{self, Paths};
use crate::ui::Ui;

/// Enrol this worker at a server: run the line that `lastword fleet add` printed there
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A worker that is enrolled needs no token to use another server of the same fleet: its own token proves its name there."
)]
pub(crate) struct Args {
    /// The server
    #[arg(long, value_name = "HOST:PORT")]
    server: String,
    /// SHA-256 of the server's certificate; any other server is refused
    #[arg(long, value_name = "SHA256")]
    fingerprint: Fingerprint,
    /// One-time token, which is good for ten minutes
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
}

pub(crate) fn run(args: &Args, ui: Ui) -> Outcome {
    let paths = Paths::find()?;
    paths::make_private(&paths.state)?;
    // Before the token is used: a folder that is something else cannot become a worker's.
    Role::Worker.settle(&paths)?;
    let known = Enrolment::load(&paths.state)?;
    runtime::block_on(async {
        let enrolment = enrolment(args, known).await?;
        enrolment.store(&paths.state)?;
        let Enrolment { name, servers, .. } = &enrolment;
        match ui.json {
            true => ui.print_json(&serde_json::json!({ "name": name, "servers": servers }))?,
            false => {
                ui.print(&format!("enrolled as {name} at {}\nlastword worker    # starts it", args.server))?;
            }
        }
        Ok(0)
    })
}

/// Asks the server, and returns what to store.
async fn enrolment(args: &Args, known: Option<Enrolment>) -> Result<Enrolment, Failure> {
    let server = KnownServer { address: args.server.clone(), fingerprint: args.fingerprint };
    let Some(one_time) = &args.token else {
        let Some(mut enrolment) = known else {
            let failure = Failure::usage("this worker is not enrolled yet, so it needs a one-time token");
            return Err(
                failure.next("lastword fleet add NAME    # on the server's host; it prints what to run here")
            );
        };
        prove_at(&server, &enrolment.token).await.map_err(|unwelcome| failure(&args.server, &unwelcome))?;
        enrolment.add_server(server);
        return Ok(enrolment);
    };
    let trust = Trust::Fingerprints(vec![server.fingerprint]);
    let enrolled = enrol(&server.address, &trust, one_time, &Timing::default()).await;
    let (name, token) = enrolled.map_err(|unwelcome| failure(&args.server, &unwelcome))?;
    let mut enrolment = Enrolment { name, token, servers: Vec::new() };
    // Servers of the same fleet know the new token; one that is away may.
    for other in known.into_iter().flat_map(|known| known.servers) {
        if !matches!(prove_at(&other, &enrolment.token).await, Err(Unwelcome::Refused(_))) {
            enrolment.add_server(other);
        }
    }
    enrolment.add_server(server);
    Ok(enrolment)
}

async fn prove_at(server: &KnownServer, token: &str) -> Result<(), Unwelcome> {
    let trust = Trust::Fingerprints(vec![server.fingerprint]);
    prove(&server.address, &trust, token, &Timing::default()).await
}

fn failure(server: &str, unwelcome: &Unwelcome) -> Failure {
    match unwelcome {
        Unwelcome::Unreachable(error) => {
            Failure::new(Code::Unavailable, format!("cannot reach {server}: {error}"))
                .next("check the address, and that `lastword serve` runs there and listens on an address that this host can reach")
        }
        Unwelcome::Untrusted(error) => {
            Failure::new(Code::Forbidden, format!("{server} is not the server that was meant, so no token was sent: {error}"))
                .next("lastword fleet    # on the server's host; it shows the address and the fingerprint")
        }
        Unwelcome::Refused(words) => Failure::new(Code::Forbidden, format!("{server} refuses: {words}")),
        Unwelcome::Silent(error) => {
            let text = format!("{server} did not answer, and the token may have been used: {error}");
            Failure::new(Code::Unavailable, text)
                .next("lastword fleet add NAME    # on the server's host, for another token")
        }
    }
}
