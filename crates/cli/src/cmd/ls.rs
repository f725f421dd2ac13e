//! `ls`: lists jobs, what a person should look at first.

use std::collections::{HashMap, HashSet};

use lastword_api::{Page, Phase, Row, Time};
use lastword_client::jobs::{self, Filter};

use super::which::Which;
use crate::client::Client;
use crate::failure::{Failure, Outcome};
use crate::text::moment::{between, now_ms};
use crate::text::{duration, similar};
use crate::ui::describe;
use crate::ui::table::Table;

/// List jobs; with -a, ended ones too
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Jobs that wait for you come first, then those that ended and whose ending you have not read (with -a), then live ones, \
                  then the rest; each by the last change of its state. A name means the newest job that has it; `retry` and `resume` give \
                  theirs on. It is in parentheses where it means another job of the list: use the id there."
)]
pub(crate) struct Args {
    /// Include ended jobs
    #[arg(short, long)]
    all: bool,
    /// Only jobs in these phases
    #[arg(long, value_delimiter = ',', value_name = "PHASE", value_parser = phase)]
    phase: Vec<String>,
    /// Only jobs with this outcome
    #[arg(long, value_name = "OUTCOME", value_parser = outcome)]
    outcome: Option<String>,
    /// Only jobs of this name
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    which: Which,
    /// Only jobs that wait for you
    #[arg(long)]
    waiting: bool,
    /// Only jobs that have ended and whose ending was not read
    #[arg(long, conflicts_with = "waiting")]
    unread: bool,
    /// List at most this many jobs
    #[arg(short = 'n', long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// List each job below the one from inside which it was submitted
    #[arg(long, conflicts_with = "quiet")]
    tree: bool,
    /// Print only ids
    #[arg(short, long)]
    quiet: bool,
}

/// Unread endings that are named after a list of live jobs.
const NAMED_MAX: usize = 3;

/// The maximum page size of the daemon.
pub(super) const PAGE_MAX: u32 = 500;

/// Checks that a word is one of those that are known.
pub(super) fn one_of<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Result<String, String> {
    let known: Vec<&str> = known.into_iter().collect();
    if known.contains(&word) {
        return Ok(word.to_owned());
    }
    let near = similar::nearest(word, known.iter().copied());
    let near = near.map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"));
    Err(format!("must be one of {}{near}", known.join(", ")))
}

fn phase(word: &str) -> Result<String, String> {
    one_of(word, Phase::ALL.iter().map(Phase::as_str))
}

fn outcome(word: &str) -> Result<String, String> {
    one_of(word, lastword_api::Outcome::ALL.iter().map(lastword_api::Outcome::as_str))
}

pub(crate) async fn run(args: Args, client: Client) -> Outcome {
    let page = fetch(&args, &client).await?;
    let ui = client.ui();
    if ui.json {
        ui.print_json(&page)?;
        return Ok(0);
    }
    if args.quiet {
        for row in &page.items {
            ui.print(&row.id)?;
        }
        return Ok(0);
    }
    if page.items.is_empty() {
        ui.say(&args.none());
        say_unread(&args, &client).await?;
        return Ok(0);
    }
    match args.tree {
        true => print_tree(&client, page.items.clone())?,
        false => print_rows(&client, &page.items)?,
    }
    if page.next_cursor.is_some() {
        let cut = format!("there are more than {}; use -n to list more", args.limit);
        let is_live_cut = page.items.last().is_some_and(|last| last.unread == Some(true)) && !args.unread;
        let live = if is_live_cut { "; `lastword ls` lists those that have not ended" } else { "" };
        ui.say(&format!("{cut}{live}"));
    }
    say_unread(&args, &client).await?;
    Ok(0)
}

/// Tells a person which jobs have ended unread, if the list does not show them.
async fn say_unread(args: &Args, client: &Client) -> Result<(), Failure> {
    if !client.ui().read_by_person || args.shows_ended() || args.is_narrow() {
        return Ok(());
    }
    let unread = Filter { unread: Some(true), limit: Some(PAGE_MAX), ..Filter::default() };
    let page = client.call(&jobs::list(&unread)).await?;
    let now = Time(now_ms());
    let ended =
        |row: &Row| format!("{} ({})", row.name.as_deref().unwrap_or(&row.short), describe::state(row, now));
    // A failure must not be hidden behind what went well.
    let (good, bad): (Vec<&Row>, Vec<&Row>) =
        page.items.iter().partition(|row| row.outcome == Some(lastword_api::Outcome::Completed));
    let named: Vec<String> = bad.into_iter().chain(good).take(NAMED_MAX).map(ended).collect();
    let more = match page.items.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more if page.next_cursor.is_some() => format!(" and more than {more} others"),
        more => format!(" and {more} more"),
    };
    if !named.is_empty() {
        client.ui().say(&format!("ended, not read: {}{more}; `lastword ls --unread`", named.join(", ")));
    }
    Ok(())
}

impl Args {
    /// Says that the list is empty.
    fn none(&self) -> String {
        match self {
            Args { waiting: true, .. } => "no job waits for you".to_owned(),
            Args { unread: true, .. } => "no ending is unread".to_owned(),
            _ if self.shows_ended() && self.is_narrow() => "no matching jobs".to_owned(),
            _ if self.shows_ended() => "no jobs".to_owned(),
            _ if self.is_narrow() => {
                "no matching jobs queued or running; `lastword ls -a` includes ended ones".to_owned()
            }
            _ => "no jobs queued or running; `lastword ls -a` includes ended ones".to_owned(),
        }
    }

    fn shows_ended(&self) -> bool {
        self.all || self.unread || self.outcome.is_some() || self.phase.iter().any(|phase| phase == "ended")
    }

    fn is_narrow(&self) -> bool {
        let is_job = self.outcome.is_some() || self.name.is_some() || !self.phase.is_empty();
        is_job || self.which.is_narrow() || self.waiting || self.unread
    }

    fn filter(&self) -> Result<Filter, Failure> {
        let phases = match (self.phase.as_slice(), self.shows_ended()) {
            ([], true) => Vec::new(),
            ([], false) => Phase::ALL
                .iter()
                .filter(|phase| **phase != Phase::Ended)
                .map(|phase| phase.as_str().to_owned())
                .collect(),
            (phases, _) => phases.to_vec(),
        };
        Ok(Filter {
            phases,
            outcome: self.outcome.clone(),
            group: self.which.group.clone(),
            label: self.which.label.clone(),
            name: self.name.clone(),
            cwd: self.which.folder()?,
            parent: self.which.parent.clone(),
            conversation: None,
            changed_since: self.which.since(),
            waiting: self.waiting.then_some(true),
            unread: self.unread.then_some(true),
            limit: None,
            cursor: None,
        })
    }
}

/// Fetches as many rows as requested, page by page.
async fn fetch(args: &Args, client: &Client) -> Result<Page<Row>, Failure> {
    let (mut all, filter): (Page<Row>, _) = (Page::whole(Vec::new()), args.filter()?);
    loop {
        let left = args.limit - all.items.len() as u32;
        let (limit, cursor) = (Some(left.min(PAGE_MAX)), all.next_cursor.take());
        let page = client.call(&jobs::list(&Filter { limit, cursor, ..filter.clone() })).await?;
        all.unsettled |= page.unsettled;
        all.items.extend(page.items);
        all.next_cursor = page.next_cursor;
        if all.next_cursor.is_none() || all.items.len() as u32 >= args.limit {
            return Ok(all);
        }
    }
}

/// Returns how long a job has run, or when it will start.
fn time_of(row: &Row, now: Time) -> String {
    match (row.started_at, row.due_at) {
        (_, Some(due)) if row.ended_at.is_none() && due > now => {
            format!("in {}", duration::show_coarse(between(now, due)))
        }
        (Some(started), _) => duration::show_ms(between(started, row.ended_at.unwrap_or(now))),
        (None, _) => "-".to_owned(),
    }
}

/// Returns what a job asks a person, or else its command or prompt.
fn what(row: &Row) -> String {
    let again = if row.attempts > 1 { format!("[{}×] ", row.attempts) } else { String::new() };
    match (&row.asks, &row.progress) {
        (Some(asks), _) => format!("{again}{}", describe::asks(asks)),
        (None, Some(said)) if row.outcome.is_none() => format!("{again}{said}: {}", row.title),
        (None, _) => format!("{again}{}", row.title),
    }
}

/// Prints rows as a table, each below its parent, with its depth shown before its command.
fn print_tree(client: &Client, rows: Vec<Row>) -> Result<(), Failure> {
    let listed: HashSet<String> = rows.iter().map(|row| row.id.clone()).collect();
    let is_below = |row: &Row| row.parent.as_ref().is_some_and(|parent| listed.contains(parent));
    let (below, tops): (Vec<Row>, Vec<Row>) = rows.into_iter().partition(is_below);
    let mut left: Vec<(usize, Row)> = tops.into_iter().rev().map(|row| (0, row)).collect();
    let mut ordered = Vec::new();
    while let Some((depth, mut row)) = left.pop() {
        let children = below.iter().rev().filter(|child| child.parent.as_ref() == Some(&row.id));
        left.extend(children.cloned().map(|child| (depth + 1, child)));
        if depth > 0 {
            row.title = format!("{}└ {}", "  ".repeat(depth - 1), row.title);
        }
        ordered.push(row);
    }
    print_rows(client, &ordered)
}

/// Prints rows as a table, without columns that would be empty or the same in every row.
pub(super) fn print_rows(client: &Client, rows: &[Row]) -> Result<(), Failure> {
    let ui = client.ui();
    let named = rows.iter().any(|row| row.name.is_some());
    let grouped = rows.iter().any(|row| row.group != lastword_api::GROUP);
    // A name means the newest job that has it.
    let mut newest: HashMap<&str, (Time, &str)> = HashMap::new();
    for row in rows {
        let known = newest.entry(row.name.as_deref().unwrap_or_default()).or_default();
        *known = (*known).max((row.submitted_at, &row.id));
    }
    let mut heads = vec!["ID"];
    heads.extend(named.then_some("NAME"));
    heads.push("STATE");
    heads.extend(grouped.then_some("GROUP"));
    heads.extend(["AGE", "TIME", "COMMAND"]);
    let state_column = heads.iter().position(|head| *head == "STATE");
    let mut table = Table::new(heads);
    let now = Time(now_ms());
    for row in rows {
        let mut cells = vec![row.short.clone()];
        if named {
            let name = row.name.as_deref().unwrap_or_default();
            let is_meant = name.is_empty() || newest[name].1 == row.id;
            cells.push(if is_meant { name.to_owned() } else { format!("({name})") });
        }
        cells.push(describe::state(row, now));
        if grouped {
            cells.push(row.group.clone());
        }
        cells.push(duration::show_coarse(between(row.submitted_at, now)));
        cells.push(time_of(row, now));
        cells.push(what(row));
        table.push(cells);
    }
    let lines = table.lines(ui.width, |row, column, text| match row {
        None => ui.out.strong(text),
        Some(row) if Some(column) == state_column && rows[row].waiting => ui.out.warn(text),
        Some(row) if Some(column) == state_column => {
            ui.out.by_state(&rows[row].phase, rows[row].outcome.as_ref(), text)
        }
        Some(_) => text.to_owned(),
    });
    ui.print(&lines.join("\n"))
}
