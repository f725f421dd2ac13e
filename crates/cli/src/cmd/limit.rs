//! `limit`: shows or changes the limits of a job.

use lastword_api::{Job, LimitsPatch, Phase};
use lastword_client::jobs;
use lastword_core::limits::Limit;

use super::which;
use crate::client::Client;
use crate::failure::Outcome;
use crate::text::limit;
use crate::ui::describe;

/// Show or change the limits of a job, even while it runs
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Job whose limits to show or change
    #[arg(value_name = "JOB", value_parser = job, add = super::completion::jobs())]
    job: String,
    /// Limits to change: wall=2h, turn=20m, active=8h, handshake=5m, idle=1h, stall=10m, output=50M, turns=12, tokens=200000, money=1.50; 0 removes a limit
    #[arg(value_name = "LIMIT=VALUE", value_parser = change)]
    changes: Vec<Change>,
}

/// One limit and its new value.
type Change = (Limit, u64);

/// Parses the reference to a job. No reference has a `=`: the job was left out before a limit.
fn job(text: &str) -> Result<String, String> {
    match text.contains('=') {
        true => Err("this is a limit: name the job before it".to_owned()),
        false => which::reference(text),
    }
}

fn change(text: &str) -> Result<Change, String> {
    let (name, value) = text.split_once('=').ok_or("write a limit as NAME=VALUE, for example wall=2h")?;
    limit::parse(name, value)
}

pub(crate) async fn run(args: Args, client: Client) -> Outcome {
    let job = if args.changes.is_empty() {
        client.job(&args.job).await?
    } else {
        let mut patch = LimitsPatch::default();
        for (limit, value) in &args.changes {
            let slot = match limit {
                Limit::Wall => &mut patch.wall_ms,
                Limit::Turn => &mut patch.turn_ms,
                Limit::Active => &mut patch.active_ms,
                Limit::Handshake => &mut patch.handshake_ms,
                Limit::Idle => &mut patch.idle_ms,
                Limit::Stall => &mut patch.stall_ms,
                Limit::Output => &mut patch.output_bytes,
                Limit::Turns => &mut patch.turns,
                Limit::Tokens => &mut patch.tokens,
                Limit::Money => &mut patch.money_micros,
                // No setting of a job.
                Limit::GroupTokens | Limit::GroupMoney => continue,
            };
            *slot = Some(Some(*value).filter(|value| *value > 0));
        }
        let changed = client.call(&jobs::set_limits(&args.job, &patch)).await;
        client.explain(&args.job, changed).await?
    };
    let ui = client.ui();
    for (limit, value) in &args.changes {
        if let Some(measured) = used(&job, *limit).filter(|used| *value > 0 && used > value) {
            let name = limit.name();
            ui.say(&format!(
                "lastword: the {name} limit is used up already, {}: the job is stopped, or paused if it asks at limits",
                describe::used(name, measured, *value)
            ));
        }
    }
    if ui.json {
        ui.print_json(&job)?;
    } else {
        let limits = describe::limits(&job).unwrap_or_else(|| "none".to_owned());
        ui.print(&format!(
            "{}  {limits}",
            ui.out.strong(&describe::job_name(job.name.as_deref(), &job.short))
        ))?;
    }
    Ok(0)
}

/// Returns how much of a budget a running job has used, if that is known here.
fn used(job: &Job, limit: Limit) -> Option<u64> {
    let session = job.session.as_ref().filter(|_| matches!(job.phase, Phase::Running | Phase::Idle))?;
    match limit {
        Limit::Turns => session.turns.last().map(|turn| turn.turn.into()),
        Limit::Tokens => Some(job.spent.tokens_in + job.spent.tokens_out),
        Limit::Money => Some(job.spent.money_micros),
        _ => None,
    }
}
