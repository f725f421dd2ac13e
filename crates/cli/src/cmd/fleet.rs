//! `fleet`: the workers of a server, new ones, and what is stuck.

use std::path::Path;

use clap::Subcommand;
use lastword_api::{Fleet, Invite, Worker, WorkerState};
use lastword_client::workers;

use crate::client::Client;
use crate::failure::{Failure, Outcome};
use crate::text::clean::clean;
use crate::text::duration;
use crate::text::shell;
use crate::ui::describe;
use crate::ui::table::Table;

/// Show the workers of a fleet, add and remove them
#[derive(Debug, clap::Args)]
#[command(
    after_help = "It talks to the server whose state folder this is (LASTWORD_HOME). A worker is connected while it renews its lease, silent \
                  when it did not in time, and away when it has none."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List workers
    Ls,
    /// Make a one-time token, and print the command to run on the worker's host within ten minutes
    #[command(
        after_help = "A name belongs to one worker: once the token is used, the worker that was enrolled under this name before is refused."
    )]
    Add {
        /// Name of the worker
        name: String,
        /// What the worker has; jobs that need it go there; can be repeated
        #[arg(long = "label", value_name = "LABEL")]
        labels: Vec<String>,
    },
    /// Remove a worker: it is cut off within seconds, and its jobs end with its lease
    Rm {
        /// Name of the worker
        name: String,
    },
}

pub(crate) async fn run(args: Args, client: Client) -> Outcome {
    match args.verb.unwrap_or(Verb::Ls) {
        Verb::Ls => list(&client).await,
        Verb::Add { name, labels } => add(&client, Invite { name, labels }).await,
        Verb::Rm { name } => {
            client.call(&workers::remove(&name)).await?;
            if client.ui().json {
                client.ui().print_json(&serde_json::json!({ "name": name }))?;
            }
            Ok(0)
        }
    }
}

async fn add(client: &Client, invite: Invite) -> Outcome {
    let ui = client.ui();
    let invitation = client.call(&workers::invite(&invite)).await?;
    if ui.json {
        ui.print_json(&invitation)?;
        return Ok(0);
    }
    let name = clean(&invitation.name);
    ui.say(&format!("run this on the host of {name} within {}:", duration::spell_ms(invitation.valid_ms)));
    if invitation.replaces {
        ui.say(&format!("{name} is enrolled: once you run it, the worker that has this name now is refused"));
    }
    let (address, fingerprint) = (shell::quoted(Path::new(&invitation.address)), &invitation.fingerprint);
    let token = &invitation.token;
    ui.print(&format!(
        "lastword worker enroll --server {address} --fingerprint {fingerprint} --token {token}"
    ))?;
    Ok(0)
}

async fn list(client: &Client) -> Outcome {
    let fleet = client.call(&workers::list()).await?;
    match client.ui().json {
        true => client.ui().print_json(&fleet)?,
        false => print(client, &fleet)?,
    }
    Ok(0)
}

fn print(client: &Client, fleet: &Fleet) -> Result<(), Failure> {
    let ui = client.ui();
    if fleet.workers.is_empty() {
        ui.print("no workers: `lastword fleet add NAME` adds one")?;
    } else {
        let lines = table(&fleet.workers).lines(ui.width, |row, column, text| match (row, column) {
            (None, _) => ui.out.strong(text),
            (Some(row), 1) if fleet.workers[row].state == WorkerState::Connected => ui.out.good(text),
            (Some(_), 1) => ui.out.warn(text),
            _ => text.to_owned(),
        });
        ui.print(&lines.join("\n"))?;
    }
    for line in stuck(fleet) {
        ui.print(&ui.out.warn(&clean(&line)))?;
    }
    ui.print(&ui.out.faint(&clean(&format!("server {}, fingerprint {}", fleet.address, fleet.fingerprint))))
}

fn table(workers: &[Worker]) -> Table {
    let mut table = Table::new(vec!["WORKER", "STATE", "JOBS", "LAST BEAT", "VERSION", "LABELS", "HOST"]);
    let or_dash =
        |text: Option<String>| text.filter(|text| !text.is_empty()).unwrap_or_else(|| "-".to_owned());
    for worker in workers {
        let slots = worker.slots.map_or_else(|| "?".to_owned(), |slots| slots.to_string());
        table.push(vec![
            worker.name.clone(),
            worker.state.to_string(),
            format!("{} of {slots}", worker.jobs),
            or_dash(worker.beat_ago_ms.map(|ago| format!("{} ago", duration::show_coarse(ago)))),
            or_dash(worker.version.clone()),
            or_dash(Some(worker.labels.join(" "))),
            or_dash(worker.host.clone()),
        ]);
    }
    table
}

/// Returns what keeps jobs from running, a line for each reason.
fn stuck(fleet: &Fleet) -> Vec<String> {
    let jobs = |count: u64| if count == 1 { "1 job".to_owned() } else { format!("{count} jobs") };
    let mut lines = Vec::new();
    if fleet.paused {
        lines.push(
            "paused: the database may have lost something, so no job is given out until every lease from before is over"
                .to_owned(),
        );
    }
    for left in &fleet.left_behind {
        let count = jobs(left.jobs);
        lines.push(format!(
            "{count} held by {}, whose lease is over; a server takes over within seconds",
            left.owner
        ));
    }
    for waiting in &fleet.unmatched {
        let count = jobs(waiting.jobs);
        lines.push(match describe::worker_named(&waiting.labels) {
            _ if waiting.labels.is_empty() => format!("{count} waiting, and no worker is connected"),
            Some(worker) => format!("{count} waiting for worker {worker}, which is not connected"),
            None => {
                format!("{count} waiting for a worker with {}: none is connected", waiting.labels.join(" "))
            }
        });
    }
    lines
}

#[cfg(test)]
mod tests {
    use lastword_api::{LeftBehind, Time, Unmatched};

    use super::*;

    fn worker(name: &str, state: WorkerState) -> Worker {
        Worker {
            name: name.to_owned(),
            labels: Vec::new(),
            state,
            beat_ago_ms: None,
            host: None,
            host_id: None,
            slots: None,
            jobs: 0,
            version: None,
            enrolled_at: Time(0),
        }
    }

    #[test]
    fn the_table_says_what_is_known_and_is_clean() {
        let ann = Worker {
            labels: vec!["gpu".to_owned(), "linux".to_owned()],
            beat_ago_ms: Some(2_400),
            host: Some("b35cd9".to_owned()),
            slots: Some(4),
            jobs: 2,
            version: Some("0.2.0\u{1b}[2J".to_owned()),
            ..worker("ann", WorkerState::Connected)
        };
        let lines = table(&[ann, worker("bob", WorkerState::Away)]).lines(100, |_, _, text| text.to_owned());
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn each_reason_has_its_line() {
        let unmatched = |labels: &[&str], jobs| Unmatched {
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
            jobs,
        };
        let fleet = Fleet {
            address: "here:7420".to_owned(),
            fingerprint: "ab".repeat(32),
            workers: Vec::new(),
            paused: true,
            left_behind: vec![LeftBehind { owner: "ann".to_owned(), jobs: 1 }],
            unmatched: vec![unmatched(&[], 12), unmatched(&["arm", "gpu"], 1)],
        };
        insta::assert_snapshot!(stuck(&fleet).join("\n"));
    }
}
