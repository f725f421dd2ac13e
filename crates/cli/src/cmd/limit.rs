//! `limit`: shows or changes the limits of a job.

use lastword_api::LimitsPatch;
use lastword_client::jobs;

use super::which;
use crate::client::Client;
use crate::failure::Outcome;
use crate::text::{duration, similar, size};
use crate::ui::describe;

/// Show or change the limits of a job, even while it runs
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Job whose limits to show or change
    #[arg(value_name = "JOB", value_parser = job, add = super::completion::jobs())]
    job: String,
    /// Limits to change: wall=2h, turn=20m, handshake=5m, idle=1h, stall=10m, output=50M, turns=12, tokens=200000, money=1.50; 0 removes a limit
    #[arg(value_name = "LIMIT=VALUE", value_parser = change)]
    changes: Vec<Change>,
}

/// One limit and its new value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Change {
    name: &'static str,
    value: u64,
}

const NAMES: [&str; 9] = ["wall", "turn", "handshake", "idle", "stall", "output", "turns", "tokens", "money"];

/// Parses the reference to a job. No reference has a `=`: the job was left out before a limit.
fn job(text: &str) -> Result<String, String> {
    match text.contains('=') {
        true => Err("this is a limit: name the job before it".to_owned()),
        false => which::reference(text),
    }
}

fn change(text: &str) -> Result<Change, String> {
    let (name, value) = text.split_once('=').ok_or("write a limit as NAME=VALUE, for example wall=2h")?;
    let Some(name) = NAMES.iter().find(|known| **known == name) else {
        let near = similar::nearest(name, NAMES)
            .map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"));
        return Err(format!("there is no limit `{name}`{near}; the limits are {}", NAMES.join(", ")));
    };
    let whole = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = digits.then(|| text.parse().ok()).flatten();
        number.ok_or_else(|| format!("`{text}` is not a whole number"))
    };
    let value = match *name {
        "wall" | "turn" | "handshake" | "idle" | "stall" => duration::parse_ms(value)?,
        "output" => size::parse(value)?,
        "money" => money(value)?,
        _ => whole(value)?,
    };
    Ok(Change { name, value })
}

/// Parses an amount of dollars, in millionths.
pub(super) fn money(text: &str) -> Result<u64, String> {
    let setting = lastword_core::limits::parse_setting("money", text);
    setting.map(|(_, micros)| micros).map_err(|error| error.to_string())
}

pub(crate) async fn run(args: Args, client: Client) -> Outcome {
    let job = if args.changes.is_empty() {
        client.job(&args.job).await?
    } else {
        let mut patch = LimitsPatch::default();
        for change in &args.changes {
            let slot = match change.name {
                "wall" => &mut patch.wall_ms,
                "turn" => &mut patch.turn_ms,
                "handshake" => &mut patch.handshake_ms,
                "idle" => &mut patch.idle_ms,
                "stall" => &mut patch.stall_ms,
                "output" => &mut patch.output_bytes,
                "turns" => &mut patch.turns,
                "tokens" => &mut patch.tokens,
                _ => &mut patch.money_micros,
            };
            *slot = Some(Some(change.value).filter(|value| *value > 0));
        }
        let changed = client.call(&jobs::set_limits(&args.job, &patch)).await;
        client.explain(&args.job, changed).await?
    };
    let ui = client.ui();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_takes_values_of_its_type() {
        for (text, name, value) in [
            ("wall=2h", "wall", 7_200_000),
            ("turn=20m", "turn", 1_200_000),
            ("handshake=90s", "handshake", 90_000),
            ("stall=0", "stall", 0),
            ("output=50M", "output", 50 << 20),
            ("turns=12", "turns", 12),
            ("tokens=0", "tokens", 0),
            ("money=1.50", "money", 1_500_000),
        ] {
            assert_eq!(change(text), Ok(Change { name, value }), "{text}");
        }
        for text in ["wall", "wall=-1s", "turns=1.5", "turns=-1", "output=x", "money=cheap", "wal=2h"] {
            assert!(change(text).is_err(), "{text}");
        }
        assert!(change("wal=2h").is_err_and(|error| error.contains("did you mean `wall`")));
    }
}
