//! `doctor`: checks this installation and suggests fixes.

mod orphans;
mod trees;

use super::runtime;
use crate::doctor::{self, Check, Status};
use crate::failure::{Outcome, exit};
use crate::ui::{JsonList, Ui, describe};

/// Check daemon, journal, disk, machine, agents, and suggest fixes
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Each line is ok, warn or fail, with a suggested fix below it. Exits with 1 if a check failed. Needs no daemon and starts none."
)]
pub(crate) struct Args {
    /// Fix what is safe to fix: remove other users' access to your files
    #[arg(long)]
    fix: bool,
    /// Also start each installed agent and talk to it until it is ready (Claude Code is sent `hello`)
    #[arg(long, conflicts_with = "orphans")]
    agents: bool,
    /// List processes leaked by other tools instead: agents, MCP servers and commands of agents whose parents are gone
    #[arg(long, conflicts_with = "fix")]
    orphans: bool,
    /// List process trees without a job in the journal instead: it was deleted, or an older copy was put in its place
    #[arg(long, conflicts_with_all = ["fix", "agents", "orphans"])]
    trees: bool,
    /// Stop all of these trees: TERM, then KILL after the grace of each
    #[arg(long, requires = "trees")]
    stop: bool,
    /// End an orphan and its descendants: TERM, then KILL. PID:START_TICKS is safe against pid reuse
    #[arg(long, value_name = "PID", requires = "orphans")]
    reap: Vec<orphans::Chosen>,
    /// End all certain leaks; doubtful ones must be named with --reap
    #[arg(long, requires = "orphans", conflicts_with = "reap")]
    reap_all: bool,
    /// Do not ask for confirmation
    #[arg(short, long, requires = "reap_all")]
    yes: bool,
}

pub(crate) fn run(args: Args, ui: Ui) -> Outcome {
    if args.trees {
        return trees::run(args.stop, &ui);
    }
    if args.orphans {
        let action = match (args.reap_all, args.reap) {
            (true, _) => orphans::Action::All { ask: !args.yes },
            (false, named) if named.is_empty() => orphans::Action::List,
            (false, named) => orphans::Action::Named(named),
        };
        return orphans::run(&action, &ui);
    }
    runtime::block_on(async move {
        let mut checks = doctor::check_all(args.agents).await;
        if args.fix {
            checks = fix_all(checks, args.agents).await;
        }
        let failed = checks.iter().filter(|check| check.status == Status::Fail).count();
        match ui.json {
            true => ui.print_json(&JsonList { items: &checks, next_cursor: None })?,
            false => show(&checks, &ui)?,
        }
        Ok(if failed == 0 { 0 } else { exit::JOB })
    })
}

/// Applies all safe fixes, and checks again.
async fn fix_all(checks: Vec<Check>, start_agents: bool) -> Vec<Check> {
    let fix = |check: &Check| Some((check.id.clone(), check.fix.as_ref()?.apply()));
    let done: Vec<_> = checks.iter().filter_map(fix).collect();
    if done.is_empty() {
        return checks;
    }
    let mut again = doctor::check_all(start_agents).await;
    for (id, done) in done {
        let Some(check) = again.iter_mut().find(|check| check.id == id) else { continue };
        match done {
            Ok(done) => check.fixed = Some(done),
            Err(why) => check.text = format!("{}; not fixed: {why}", check.text),
        }
    }
    again
}

fn show(checks: &[Check], ui: &Ui) -> Result<(), crate::failure::Failure> {
    let wide = checks.iter().map(|check| check.id.len()).max().unwrap_or(0);
    for check in checks {
        let status = match check.status {
            Status::Ok => ui.out.good("ok  "),
            Status::Warn => ui.out.warn("warn"),
            Status::Fail => ui.out.bad("fail"),
        };
        ui.print(&format!("{status}  {:<wide$}  {}", check.id, check.text))?;
        let below = |word: &str, text: &str| format!("      {:wide$}  {} {text}", "", ui.out.faint(word));
        if let Some(fixed) = &check.fixed {
            ui.print(&below("did:", fixed))?;
        }
        if let Some(remedy) = &check.remedy {
            ui.print(&below("fix:", &ui.out.strong(remedy)))?;
        }
    }
    let count = |status: Status| checks.iter().filter(|check| check.status == status).count() as u64;
    let warnings = describe::count(count(Status::Warn), "warning", "warnings");
    ui.say(&match count(Status::Fail) {
        0 => format!("no check failed; {warnings}"),
        failed => format!("{}; {warnings}", describe::count(failed, "check failed", "checks failed")),
    });
    Ok(())
}
