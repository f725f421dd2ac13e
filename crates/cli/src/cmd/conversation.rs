//! `conversation`: the jobs around one session of an agent, which share name, worktree, rules and budget.

use clap::Subcommand;
use lastword_api::{Conversation, ConversationInFull, Page, Row, Time, Used};
use lastword_client::conversations::{self, Filter};

use super::ls::{PAGE_MAX, print_rows};
use super::rm;
use crate::client::Client;
use crate::failure::{Failure, Outcome};
use crate::text::duration;
use crate::text::moment::{between, now_ms};
use crate::ui::describe;
use crate::ui::table::Table;

/// Show and delete conversations with agents, which jobs share
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A conversation is the jobs that were made from one with send, resume or retry. Its name means its newest job. Its worktree, the \
                  rules that you made with approve --always, and its limits on turns, tokens, money and active time belong to all of its jobs."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List conversations, each by its newest job
    Ls {
        /// Only those of this name
        #[arg(long)]
        name: Option<String>,
        /// Only those whose newest job has this label
        #[arg(long, value_name = "NAME=VALUE")]
        label: Option<String>,
        /// List at most this many
        #[arg(short = 'n', long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
    },
    /// Show a conversation: its jobs, what it used up, its limits and its worktree
    Show {
        /// Any job of it
        #[arg(value_name = "JOB", default_value = "@last", hide_default_value = true, value_parser = super::which::reference, add = super::completion::jobs())]
        job: String,
    },
    /// Delete conversations: all of their jobs, with output and worktree
    Rm {
        /// Any job of each
        #[arg(value_name = "JOB", required = true, value_parser = super::which::reference, add = super::completion::jobs())]
        jobs: Vec<String>,
        /// Kill a job that is still running first, and discard unapplied changes in the worktree
        #[arg(short, long)]
        force: bool,
    },
}

pub(crate) async fn run(args: Args, client: Client) -> Outcome {
    match args.verb {
        Verb::Ls { name, label, limit } => {
            let filter = Filter { name, label, ..Filter::default() };
            let page = fetch(&client, &filter, limit).await?;
            list(&client, &page, limit)
        }
        Verb::Show { job } => {
            let shown = client.call(&conversations::show(&job)).await;
            show(&client, &client.explain(&job, shown).await?)
        }
        Verb::Rm { jobs, force } => rm::run(rm::Args { jobs, force, whole: true }, client).await,
    }
}

/// Fetches as many conversations as requested, page by page.
async fn fetch(client: &Client, filter: &Filter, limit: u32) -> Result<Page<Conversation>, Failure> {
    let mut all: Page<Conversation> = Page::whole(Vec::new());
    loop {
        let left = limit - all.items.len() as u32;
        let (at_most, cursor) = (Some(left.min(PAGE_MAX)), all.next_cursor.take());
        let page =
            client.call(&conversations::list(&Filter { limit: at_most, cursor, ..filter.clone() })).await?;
        all.unsettled |= page.unsettled;
        all.items.extend(page.items);
        all.next_cursor = page.next_cursor;
        if all.next_cursor.is_none() || all.items.len() as u32 >= limit {
            return Ok(all);
        }
    }
}

fn list(client: &Client, page: &Page<Conversation>, limit: u32) -> Outcome {
    let ui = client.ui();
    if ui.json {
        ui.print_json(page)?;
        return Ok(0);
    }
    if page.items.is_empty() {
        ui.say("no conversations; `lastword run --agent NAME PROMPT` begins one");
        return Ok(0);
    }
    let mut table = Table::new(vec![
        "NEWEST",
        "NAME",
        "STATE",
        "JOBS",
        "TURNS",
        "ACTIVE",
        "SPENT",
        "CHANGED",
        "LAST PROMPT",
    ]);
    let now = Time(now_ms());
    for conversation in &page.items {
        let Conversation { newest, used, jobs, .. } = conversation;
        let cells = vec![
            newest.short.clone(),
            newest.name.clone().unwrap_or_default(),
            describe::state(newest, now),
            jobs.to_string(),
            used.turns.to_string(),
            duration::show_ms(used.active_ms),
            describe::money_or_tokens(&used.spent),
            duration::show_coarse(between(newest.changed_at.unwrap_or(newest.updated_at), now)),
            newest.title.clone(),
        ];
        table.push(cells);
    }
    let rows: Vec<&Row> = page.items.iter().map(|conversation| &conversation.newest).collect();
    let lines = table.lines(ui.width, |row, column, text| match row {
        None => ui.out.strong(text),
        Some(row) if column == 2 && rows[row].waiting => ui.out.warn(text),
        Some(row) if column == 2 => ui.out.by_state(&rows[row].phase, rows[row].outcome.as_ref(), text),
        Some(_) => text.to_owned(),
    });
    ui.print(&lines.join("\n"))?;
    if page.next_cursor.is_some() {
        ui.say(&format!("there are more than {limit}; use -n to list more"));
    }
    Ok(0)
}

fn show(client: &Client, conversation: &ConversationInFull) -> Outcome {
    let ui = client.ui();
    if ui.json {
        ui.print_json(conversation)?;
        return Ok(0);
    }
    let ConversationInFull { newest, used, jobs, .. } = conversation;
    let mut facts = vec![("used", describe_used(used))];
    facts.extend(describe::limits(newest).map(|limits| ("limits", limits)));
    if !newest.rules.is_empty() {
        let rules = describe::count(newest.rules.len() as u64, "rule", "rules");
        facts.push(("rules", format!("{rules}; `lastword rule ls {}`", newest.short)));
    }
    facts.extend(newest.worktree.as_ref().filter(|worktree| worktree.present).map(|worktree| {
        ("worktree", format!("{}, branch {}", worktree.path.as_deref().unwrap_or("?"), worktree.branch))
    }));
    ui.print(&ui.out.strong(&describe::job_name(newest.name.as_deref(), &newest.short)))?;
    for (name, fact) in facts {
        ui.print(&format!("  {}  {fact}", ui.out.faint(&format!("{name:<8}"))))?;
    }
    ui.print("")?;
    print_rows(client, jobs)?;
    Ok(0)
}

/// Describes what a conversation used up.
fn describe_used(used: &Used) -> String {
    let turns = describe::count(u64::from(used.turns), "turn", "turns");
    format!("{turns}, {} active, {}", duration::show_ms(used.active_ms), describe::spent(&used.spent))
}
