//! `group`: groups of jobs that share slots and a budget for each day.

use clap::{ArgGroup, Subcommand};
use lastword_api::{Code, Group, GroupChange, Spent};
use lastword_client::groups;
use lastword_core::limits::{self, BadSetting, dollars};

use crate::client::Client;
use crate::failure::{Failure, Outcome};
use crate::ui::table::Table;

/// Show and change groups, which share slots and a daily budget
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List groups
    Ls,
    /// Set how many jobs of a group may run at once, and what they may spend in a day; creates the group if needed
    ///
    /// When the jobs of a group have spent its budget, agents in the middle of a turn are stopped, as by a limit of their own, and no
    /// job of the group is started until the next day of UTC begins.
    #[command(group = ArgGroup::new("change").required(true).multiple(true).args(["slots", "money", "tokens"]))]
    Set {
        /// Name of the group
        #[arg(value_parser = name)]
        name: String,
        /// Number of jobs; `none` for no limit
        #[arg(long, value_name = "N", value_parser = slots)]
        slots: Option<Slots>,
        /// Dollars that its jobs may spend in a day; `none` for no limit
        #[arg(long = "money-per-day", value_name = "DOLLARS", value_parser = |text: &str| amount("money", text))]
        money: Option<Amount>,
        /// Tokens that its jobs may spend in a day; `none` for no limit
        #[arg(long = "tokens-per-day", value_name = "N", value_parser = |text: &str| amount("tokens", text))]
        tokens: Option<Amount>,
    },
    /// Start no new jobs of a group; running jobs continue
    Pause {
        /// Name of the group
        #[arg(value_parser = name)]
        name: String,
    },
    /// Start jobs of a paused group again
    Resume {
        /// Name of the group
        #[arg(value_parser = name)]
        name: String,
    },
    /// Remove a group that has no live jobs
    Rm {
        /// Name of the group
        #[arg(value_parser = name)]
        name: String,
    },
}

fn name(text: &str) -> Result<String, String> {
    match text {
        "" => Err("it is empty: `lastword group ls` shows the names of groups".to_owned()),
        text => Ok(text.to_owned()),
    }
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

/// A budget for a day, or none.
#[derive(Clone, Copy, Debug)]
struct Amount(Option<u64>);

fn amount(limit: &str, text: &str) -> Result<Amount, String> {
    match text {
        "none" => Ok(Amount(None)),
        _ => match limits::parse_setting(limit, text) {
            Ok((_, 0)) => {
                Err("no job could ever start; use `none` for no limit, or `group pause` to pause the group"
                    .to_owned())
            }
            Ok((_, amount)) => Ok(Amount(Some(amount))),
            Err(BadSetting::Malformed { expected, .. }) => Err(format!("must be {expected}, or `none`")),
            Err(unknown) => Err(unknown.to_string()),
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
        Verb::Set { name, slots, money, tokens } => {
            let change = GroupChange {
                slots: slots.map(|Slots(slots)| slots),
                day_money_micros: money.map(|Amount(money)| money),
                day_tokens: tokens.map(|Amount(tokens)| tokens),
                ..GroupChange::default()
            };
            (name, change)
        }
        Verb::Pause { name } => (name, GroupChange { paused: Some(true), ..GroupChange::default() }),
        Verb::Resume { name } => (name, GroupChange { paused: Some(false), ..GroupChange::default() }),
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
    // Where nothing costs anything, there is no column for it.
    let spends = groups.iter().any(|group| spent_today(group).is_some());
    let mut head = vec!["GROUP", "SLOTS", "STATE", "RUNNING", "QUEUED"];
    head.extend(spends.then_some("SPENT TODAY"));
    let mut table = Table::new(head);
    for group in groups {
        let slots = group.slots.map_or_else(|| "no limit".to_owned(), |slots| slots.to_string());
        let mut row = vec![group.name.clone(), slots, state(group).to_owned()];
        row.extend([group.running.to_string(), group.queued.to_string()]);
        row.extend(spends.then(|| spent_today(group).unwrap_or_else(|| "-".to_owned())));
        table.push(row);
    }
    let lines = table.lines(ui.width, |row, column, text| match (row, column) {
        (None, _) => ui.out.strong(text),
        (Some(row), 2) if state(&groups[row]) != "open" => ui.out.warn(text),
        _ => text.to_owned(),
    });
    ui.print(&lines.join("\n"))
}

/// Returns whether a group starts jobs, and if not, why.
fn state(group: &Group) -> &'static str {
    let is_used_up = |spent: u64, budget: Option<u64>| budget.is_some_and(|budget| spent >= budget);
    let Spent { tokens, money_micros } = group.spent_today;
    if group.paused {
        "paused"
    } else if is_used_up(tokens, group.day_tokens) || is_used_up(money_micros, group.day_money_micros) {
        "closed until tomorrow (UTC)"
    } else {
        "open"
    }
}

/// Returns what a group has spent today, and of how much. Nothing if it has neither spent anything nor a budget.
fn spent_today(group: &Group) -> Option<String> {
    let Spent { tokens, money_micros } = group.spent_today;
    let money = match group.day_money_micros {
        Some(budget) => Some(format!("{} of {}", dollars(money_micros), dollars(budget))),
        None => (money_micros > 0).then(|| dollars(money_micros)),
    };
    let tokens = match group.day_tokens {
        Some(budget) => Some(format!("{tokens} of {budget} tokens")),
        None => (tokens > 0).then(|| format!("{tokens} tokens")),
    };
    let parts: Vec<String> = [money, tokens].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}
