//! `doctor`: what is wrong with this installation and what mends it.

mod orphans;

use serde::Serialize;

use crate::doctor::{self, Check, Status};
use crate::failure::{Outcome, exit};
use crate::ui::{Ui, words};

/// Looks at daemon, journal, disk, machine and agents, and says what mends what is wrong
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Each line is ok, warn or fail; under it stands what mends it. Exits with 1 if anything failed. It needs no daemon, and starts none."
)]
pub(crate) struct Args {
    /// Mends what can be mended without risk: takes away rights of others to what is yours alone
    #[arg(long)]
    fix: bool,
    /// Also starts each agent that is there, and speaks with it up to its first prompt
    #[arg(long, conflicts_with = "orphans")]
    agents: bool,
    /// Shows instead what other tools leaked: agents, tool servers and what agents ran, whose parents are gone
    #[arg(long, conflicts_with = "fix")]
    orphans: bool,
    /// Ends an orphan and all below it: TERM, then KILL. PID:START_TICKS names it beyond doubt
    #[arg(long, value_name = "PID", requires = "orphans")]
    reap: Vec<orphans::Chosen>,
    /// Ends every leak; what may be meant to go on has to be named
    #[arg(long, requires = "orphans", conflicts_with = "reap")]
    reap_all: bool,
    /// Does not ask
    #[arg(short, long, requires = "reap_all")]
    yes: bool,
}

pub(crate) fn run(args: Args, ui: Ui) -> Outcome {
    if args.orphans {
        let wish = match (args.reap_all, args.reap) {
            (true, _) => orphans::Wish::All { ask: !args.yes },
            (false, named) if named.is_empty() => orphans::Wish::Show,
            (false, named) => orphans::Wish::Named(named),
        };
        return orphans::run(&wish, &ui);
    }
    super::on_one_thread(async move {
        let mut checks = doctor::examine(args.agents).await;
        if args.fix {
            checks = mend(checks, args.agents).await;
        }
        let failed = checks.iter().filter(|check| check.status == Status::Fail).count();
        match ui.json {
            true => ui.print_json(&List { items: &checks, next_cursor: None })?,
            false => show(&checks, &ui)?,
        }
        Ok(if failed == 0 { 0 } else { exit::JOB })
    })
}

/// What is printed for programs: a list like any other, which has no next piece.
#[derive(Serialize)]
struct List<'a, T> {
    items: &'a [T],
    next_cursor: Option<String>,
}

/// Mends what is safe to mend, and looks again.
async fn mend(checks: Vec<Check>, greet: bool) -> Vec<Check> {
    let fix = |check: &Check| Some((check.id.clone(), check.fix.as_ref()?.apply()));
    let done: Vec<_> = checks.iter().filter_map(fix).collect();
    if done.is_empty() {
        return checks;
    }
    let mut again = doctor::examine(greet).await;
    for (id, done) in done {
        let Some(check) = again.iter_mut().find(|check| check.id == id) else { continue };
        match done {
            Ok(done) => check.fixed = Some(done),
            Err(why) => check.text = format!("{}; not mended: {why}", check.text),
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
    let warnings = words::count(count(Status::Warn), "warning", "warnings");
    ui.say(&match count(Status::Fail) {
        0 => format!("nothing failed; {warnings}"),
        failed => format!("{failed} failed; {warnings}"),
    });
    Ok(())
}
