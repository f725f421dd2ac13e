//! `group`: groups of jobs that share slots.

use clap::Subcommand;
use lastword_api::{Code, Group, GroupChange};
use lastword_client::groups;

use crate::client::Client;
use crate::failure::{Failure, Outcome};
use crate::ui::table::Table;

/// Show and change groups of jobs that share slots
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List groups
    Ls,
    /// Set how many jobs of a group may run at once; creates the group if needed
    Set {
        /// Name of the group
        name: String,
        /// Number of jobs; `none` for no limit
        #[arg(long, value_name = "N", value_parser = slots)]
        slots: Slots,
    },
    /// Start no new jobs of a group; running jobs continue
    Pause {
        /// Name of the group
        name: String,
    },
    /// Start jobs of a paused group again
    Resume {
        /// Name of the group
        name: String,
    },
    /// Remove a group that has no live jobs
    Rm {
        /// Name of the group
        name: String,
    },
}

/// A limit on concurrent jobs, or none.
#[derive(Clone, Copy, Debug)]
struct Slots(Option<u32>);

fn slots(text: &str) -> Result<Slots, String> {
    match text {
        "none" => Ok(Slots(None)),
        _ => match text.parse() {
            Ok(0) => {
                Err("no job could ever run; use `none` for no limit, or `group pause` to pause the group"
                    .to_owned())
            }
            Ok(slots) => Ok(Slots(Some(slots))),
            Err(_) => Err("must be a whole number from 1, or `none`".to_owned()),
        },
    }
}

pub(crate) async fn run(args: Args, client: Client) -> Outcome {
    let (name, change) = match args.verb {
        Verb::Ls => return list(&client).await,
        Verb::Rm { name } => {
            client.call(&groups::remove(&name)).await.map_err(|failure| advised(failure, &name))?;
            if client.ui().json {
                client.ui().print_json(&serde_json::json!({ "name": name }))?;
            }
            return Ok(0);
        }
        Verb::Set { name, slots } => (name, GroupChange { slots: Some(slots.0), paused: None }),
        Verb::Pause { name } => (name, GroupChange { slots: None, paused: Some(true) }),
        Verb::Resume { name } => (name, GroupChange { slots: None, paused: Some(false) }),
    };
    let changed = client.call(&groups::set(&name, &change)).await;
    let group = changed.map_err(|failure| advised(failure, &name))?;
    match client.ui().json {
        true => client.ui().print_json(&group)?,
        false => print(&client, &[group])?,
    }
    Ok(0)
}

/// Suggests how to find or create a group if there is none of this name.
fn advised(failure: Failure, name: &str) -> Failure {
    match failure.problem.code {
        Code::NotFound => failure.next(format!(
            "`lastword group ls` lists groups, and `lastword group set {name} --slots 1` creates one"
        )),
        _ => failure,
    }
}

async fn list(client: &Client) -> Outcome {
    let page = client.call(&groups::list()).await?;
    match client.ui().json {
        true => client.ui().print_json(&page)?,
        false => print(client, &page.items)?,
    }
    Ok(0)
}

/// Prints groups as a table.
pub(super) fn print(client: &Client, groups: &[Group]) -> Result<(), Failure> {
    let ui = client.ui();
    let mut table = Table::new(vec!["GROUP", "SLOTS", "STATE"]);
    for group in groups {
        table.push(vec![
            group.name.clone(),
            group.slots.map_or_else(|| "no limit".to_owned(), |slots| slots.to_string()),
            if group.paused { "paused" } else { "open" }.to_owned(),
        ]);
    }
    let lines = table.lines(ui.width, |row, column, text| match (row, column) {
        (None, _) => ui.out.strong(text),
        (Some(row), 2) if groups[row].paused => ui.out.warn(text),
        _ => text.to_owned(),
    });
    ui.print(&lines.join("\n"))
}
