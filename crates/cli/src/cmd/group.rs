//! `group`: jobs that share slots.

use clap::Subcommand;
use hyper::Method;
use lastword_api::{Code, Group, GroupChange, Page};

use crate::client::{Call, Client, escape};
use crate::failure::{Failure, Outcome};
use crate::ui::table::Table;

/// Shows and changes groups: jobs that share slots
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Lists groups
    Ls,
    /// Sets how many jobs of a group may run at once, and makes it if it is not there
    Set {
        /// Which group
        name: String,
        /// How many; `none` is no bound
        #[arg(long, value_name = "N", value_parser = slots)]
        slots: Slots,
    },
    /// Starts nothing new of a group; what runs goes on
    Pause {
        /// Which group
        name: String,
    },
    /// Starts jobs of a group again
    Resume {
        /// Which group
        name: String,
    },
    /// Removes a group that has no jobs
    Rm {
        /// Which group
        name: String,
    },
}

/// A bound on jobs that run at once, or none.
#[derive(Clone, Copy, Debug)]
struct Slots(Option<u32>);

fn slots(text: &str) -> Result<Slots, String> {
    match text {
        "none" => Ok(Slots(None)),
        _ => match text.parse() {
            Ok(0) => {
                Err("no job could ever run; `none` is no bound, and `group pause` holds a group".to_owned())
            }
            Ok(slots) => Ok(Slots(Some(slots))),
            Err(_) => Err("a whole number from 1 on, or `none`".to_owned()),
        },
    }
}

pub(crate) async fn run(args: Args, client: Client) -> Outcome {
    let (name, change) = match args.verb {
        Verb::Ls => return list(&client).await,
        Verb::Rm { name } => {
            client.send(&Call::delete(path(&name))).await.map_err(|failure| advised(failure, &name))?;
            return Ok(0);
        }
        Verb::Set { name, slots } => (name, GroupChange { slots: Some(slots.0), paused: None }),
        Verb::Pause { name } => (name, GroupChange { slots: None, paused: Some(true) }),
        Verb::Resume { name } => (name, GroupChange { slots: None, paused: Some(false) }),
    };
    let changed = client.call(Call::with(Method::PUT, path(&name), &change)).await;
    let group: Group = changed.map_err(|failure| advised(failure, &name))?;
    match client.ui().json {
        true => client.ui().print_json(&group)?,
        false => print(&client, &[group])?,
    }
    Ok(0)
}

/// Says where the names are, if there is none of this one.
fn advised(failure: Failure, name: &str) -> Failure {
    match failure.problem.code {
        Code::NotFound => failure.next(format!(
            "`lastword group ls` lists them, and `lastword group set {name} --slots 1` makes one"
        )),
        _ => failure,
    }
}

fn path(name: &str) -> String {
    format!("/v1/groups/{}", escape(name))
}

async fn list(client: &Client) -> Outcome {
    let page: Page<Group> = client.call(Call::get("/v1/groups")).await?;
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
            group.slots.map_or_else(|| "no bound".to_owned(), |slots| slots.to_string()),
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
