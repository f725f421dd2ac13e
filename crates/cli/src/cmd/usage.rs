//! `usage`: what jobs spent, summed up.

use lastword_api::{Time, UsageSum};
use lastword_client::jobs;
use lastword_core::limits::dollars;

use super::ls::one_of;
use crate::client::Client;
use crate::failure::Outcome;
use crate::text::duration;
use crate::text::moment::now_ms;
use crate::ui::describe;
use crate::ui::table::Table;

/// What makes the kind of a job.
const KINDS: [&str; 4] = ["day", "agent", "group", "conversation"];

/// Sum up what jobs spent
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Sums up the jobs that have not ended, and those that ended within the time. Each counts with all that it spent, also before \
                  that. A day is one of UTC: that on which a job ended, or today."
)]
pub(crate) struct Args {
    /// How far back to look, such as 7d
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = duration::parse_ms)]
    since: u64,
    /// Sum up by these: day, agent, group, conversation
    #[arg(long, value_delimiter = ',', value_name = "KIND", default_value = "agent", value_parser = kind)]
    by: Vec<String>,
}

fn kind(word: &str) -> Result<String, String> {
    one_of(word, KINDS)
}

pub(crate) async fn run(args: Args, client: Client) -> Outcome {
    let since = Time(now_ms().saturating_sub(args.since));
    let sums = client.call(&jobs::usage(since, &args.by)).await?;
    let ui = client.ui();
    if ui.json {
        ui.print_json(&sums)?;
        return Ok(0);
    }
    if sums.items.is_empty() {
        ui.say(&format!("no job lived in the last {}", duration::spell_ms(args.since)));
        return Ok(0);
    }
    let kinds: Vec<&str> = KINDS.into_iter().filter(|kind| args.by.iter().any(|by| by == kind)).collect();
    let mut heads: Vec<&'static str> = kinds.iter().map(|kind| head(kind)).collect();
    heads.extend(["JOBS", "LIVE", "NOT COMPLETED", "TURNS", "ACTIVE", "TOKENS", "MONEY"]);
    let mut table = Table::new(heads);
    for sum in &sums.items {
        let mut cells: Vec<String> = kinds.iter().map(|kind| cell(kind, sum)).collect();
        let ended: u64 = sum.outcomes.values().sum();
        let completed = sum.outcomes.get("completed").copied().unwrap_or(0);
        let counts = [sum.jobs, sum.live, ended - completed.min(ended), sum.turns];
        cells.extend(counts.map(|count| if count == 0 { "-".to_owned() } else { count.to_string() }));
        let some = |is: bool, text: String| if is { text } else { "-".to_owned() };
        let tokens = sum.spent.tokens_in.saturating_add(sum.spent.tokens_out);
        cells.push(some(sum.active_ms > 0, duration::show_ms(sum.active_ms)));
        cells.push(some(tokens > 0, tokens.to_string()));
        cells.push(some(sum.spent.money_micros > 0, dollars(sum.spent.money_micros)));
        table.push(cells);
    }
    let lines = table.lines(ui.width, |row, _, text| match row {
        None => ui.out.strong(text),
        Some(_) => text.to_owned(),
    });
    ui.print(&lines.join("\n"))?;
    if sums.more {
        ui.say(&format!("these are the first {}", describe::count(sums.items.len() as u64, "row", "rows")));
    }
    Ok(0)
}

fn head(kind: &str) -> &'static str {
    match kind {
        "day" => "DAY",
        "agent" => "AGENT",
        "group" => "GROUP",
        _ => "CONVERSATION",
    }
}

/// Returns what makes a sum's kind; commands have no agent, and jobs without turns no conversation.
fn cell(kind: &str, sum: &UsageSum) -> String {
    let value = match kind {
        "day" => &sum.day,
        "agent" => &sum.agent,
        "group" => &sum.group,
        _ => &sum.conversation,
    };
    let value = value.as_deref().unwrap_or_default();
    match (kind, value) {
        (_, "") => "-".to_owned(),
        // By its short id, as everywhere.
        ("conversation", id) => id.get(id.len().saturating_sub(8)..).unwrap_or(id).to_owned(),
        (_, value) => value.to_owned(),
    }
}
