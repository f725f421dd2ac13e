//! `daemon`: the process behind the other verbs. Jobs do not depend on it living.

use std::time::{Duration, Instant};

use clap::Subcommand;
use lastword_api::{Code, Daemon, JobsFate, StopDaemon, Stopping, Time};

use crate::client::{Call, Client, connect};
use crate::daemon::start::{self, Started, Wish};
use crate::daemon::{LOG, install, run as service};
use crate::failure::{Failure, Outcome};
use crate::lock::{self, Holder};
use crate::paths::Paths;
use crate::text::clean::clean;
use crate::text::duration;
use crate::text::moment::{Clock, between};
use crate::ui::progress::Progress;
use crate::ui::{Ui, words};

/// Starts, stops and shows the daemon
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Starts the daemon in the background
    Start(Settings),
    /// Stops the daemon; jobs go on, and the next daemon adopts them
    Stop {
        /// Cancels every job first
        #[arg(long)]
        cancel_jobs: bool,
    },
    /// Shows the daemon: what it holds, and what went wrong lately
    Status,
    /// Stops the daemon and starts it anew, with this version; jobs go on meanwhile
    Restart(Settings),
    /// Runs the daemon in the foreground
    Run {
        #[command(flatten)]
        settings: Settings,
        /// Says on standard output whether it could start, then nothing more
        #[arg(long, hide = true)]
        detached: bool,
    },
    /// Writes units for the service manager of this user, and says what to run
    Install,
    /// Removes those units
    Uninstall,
}

#[derive(Debug, clap::Args)]
struct Settings {
    /// A setting for this daemon: `--set slots=4`
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
}

/// How long a daemon may take to go: requests that were begun have ten seconds.
const GONE_MAX: Duration = Duration::from_secs(30);

/// How long a daemon may take to take note that it is to stop, before it is asked whether it is there at all.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(20);

pub(crate) fn run(args: Args, ui: Ui) -> Outcome {
    let paths = Paths::find()?;
    match args.verb {
        Verb::Run { settings, detached } => service::run(&paths, &settings.set, detached),
        Verb::Install => install::install(&paths, &ui),
        Verb::Uninstall => install::uninstall(&ui),
        Verb::Status => super::on_one_thread(status(paths, ui)),
        Verb::Stop { cancel_jobs } => super::on_one_thread(async {
            if !stop(&paths, &ui, cancel_jobs).await? {
                ui.say("no daemon runs");
            }
            Ok(0)
        }),
        Verb::Start(settings) => super::on_one_thread(begin(paths, ui, Wish { settings: settings.set })),
        Verb::Restart(settings) => super::on_one_thread(async {
            stop(&paths, &ui, false).await?;
            begin(paths, ui, Wish { settings: settings.set }).await
        }),
    }
}

async fn begin(paths: Paths, ui: Ui, wish: Wish) -> Outcome {
    if let Some(job) = connect::inside_a_job() {
        let text = format!("no daemon is started from inside a job ({job}): it would end with the job");
        return Err(Failure::new(Code::InsideAJob, text).next("start it outside"));
    }
    let started =
        if lock::is_held(&paths) { Started::Taken } else { start::start(&paths, &wish, &ui).await? };
    let client = Client::new(paths, ui);
    let daemon: Daemon = client.call(Call::get("/v1/daemon")).await?;
    match (ui.json, started) {
        (true, _) => ui.print_json(&daemon)?,
        (_, Started::Ready) => ui.say(&format!("the daemon runs (pid {})", daemon.pid)),
        (_, Started::Taken) => ui.say(&format!("a daemon runs already (pid {})", daemon.pid)),
    }
    Ok(0)
}

/// Stops the daemon, and waits until it is gone. Returns whether there was one.
async fn stop(paths: &Paths, ui: &Ui, cancel_jobs: bool) -> Result<bool, Failure> {
    let jobs = if cancel_jobs { JobsFate::Cancel } else { JobsFate::Keep };
    let Some(asked) = ask_to_stop(paths, ui, jobs).await? else { return Ok(false) };
    let mut progress = Progress::new(ui);
    let begin = Instant::now();
    // Another may have the lock next, at once: it is not waited for.
    while lock::is_held(paths) && Holder::of(paths).is_none_or(|holder| holder.pid == asked) {
        progress.show(if cancel_jobs { "cancelling jobs, then stopping" } else { "stopping" });
        if begin.elapsed() > GONE_MAX && !cancel_jobs {
            let text = format!("the daemon (pid {asked}) did not stop within {} s", GONE_MAX.as_secs());
            let failure = Failure::new(Code::Unavailable, text);
            return Err(failure.next("it may be killed: jobs go on, and the next daemon adopts them"));
        }
        tokio::time::sleep(LOOK).await;
    }
    progress.clear();
    if !ui.json {
        ui.say(match cancel_jobs {
            true => "every job is cancelled, and the daemon is stopped",
            false => "the daemon is stopped; jobs go on",
        });
    }
    Ok(true)
}

/// Asks the daemon to stop. Returns its process number, or `None` if there is none.
async fn ask_to_stop(paths: &Paths, ui: &Ui, jobs: JobsFate) -> Result<Option<i32>, Failure> {
    while lock::is_held(paths) {
        if connect::is_reached(paths).await? {
            let client = Client::new(paths.clone(), *ui);
            let call = Call::post("/v1/daemon:stop", &StopDaemon { jobs: jobs.clone() });
            let mut answer = std::pin::pin!(client.call::<Stopping>(call));
            loop {
                match tokio::time::timeout(ANSWER_MAX, &mut answer).await {
                    Ok(stopping) => return Ok(i32::try_from(stopping?.pid).ok()),
                    Err(_) if client.is_there().await => {}
                    Err(_) => return end_silent(paths, ui, &jobs).map(Some),
                }
            }
        }
        // It has lost its socket, or has none yet: it still hears signals, if it is who wrote the lock.
        if let Some(holder) = Holder::of(paths).filter(|holder| holder.identity().is_alive()) {
            let times = if jobs == JobsFate::Cancel { 2 } else { 1 };
            for _ in 0..times {
                let _ = holder.identity().signal(rustix::process::Signal::TERM);
            }
            return Ok(Some(holder.pid));
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(None)
}

/// Ends a daemon that does not answer. It does not hear a request to stop either, and jobs do not need it.
fn end_silent(paths: &Paths, ui: &Ui, jobs: &JobsFate) -> Result<i32, Failure> {
    let Some(holder) = Holder::of(paths).filter(|holder| holder.identity().is_alive()) else {
        return Err(Failure::new(
            Code::Unavailable,
            "whoever listens does not answer, and is not the daemon",
        ));
    };
    let who = format!("the daemon (pid {}) did not answer within {} s", holder.pid, ANSWER_MAX.as_secs());
    if *jobs == JobsFate::Cancel {
        return Err(Failure::new(Code::Unavailable, format!("{who}, and no job was cancelled"))
            .next("lastword daemon restart && lastword daemon stop --cancel-jobs"));
    }
    let _ = holder.identity().signal(rustix::process::Signal::KILL);
    ui.say(&format!("lastword: {who}, and was killed"));
    Ok(holder.pid)
}

async fn status(paths: Paths, ui: Ui) -> Outcome {
    if !lock::is_held(&paths) {
        let failure =
            Failure { code: crate::failure::exit::JOB, ..Failure::new(Code::Unavailable, "no daemon runs") };
        return Err(failure.next("the next command starts one; or: lastword daemon start"));
    }
    let log = paths.in_state(LOG);
    let socket = paths.socket.clone();
    let client = Client::new(paths, ui);
    let daemon: Daemon = client.call(Call::get("/v1/daemon")).await?;
    if ui.json {
        ui.print_json(&daemon)?;
        return Ok(0);
    }
    let clock = Clock::local();
    let up = duration::show_ms(between(daemon.started_at, clock.now()));
    let state =
        if daemon.ready { ui.out.good("ready") } else { ui.out.warn("finding out what became of its jobs") };
    let counts: Vec<String> = daemon
        .counts
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(phase, count)| format!("{count} {phase}"))
        .collect();
    let facts = [
        ("version", clean(&daemon.version).into_owned()),
        ("pid", daemon.pid.to_string()),
        ("up", up),
        ("state", clean(&daemon.state_dir).into_owned()),
        ("socket", socket.display().to_string()),
        ("log", log.display().to_string()),
        ("trees", words::level(&daemon.level).to_owned()),
        ("jobs", if counts.is_empty() { "none".to_owned() } else { counts.join(", ") }),
    ];
    ui.print(&format!("{}  {state}", ui.out.strong("daemon")))?;
    for (name, value) in facts {
        ui.print(&format!("  {}  {value}", ui.out.faint(&format!("{name:<7}"))))?;
    }
    ui.print("")?;
    super::group::print(&client, &daemon.groups)?;
    troubles(&daemon, &ui, &clock)?;
    Ok(0)
}

/// Prints what went wrong lately, and what to do about it.
fn troubles(daemon: &Daemon, ui: &Ui, clock: &Clock) -> Result<(), Failure> {
    if daemon.troubles.is_empty() {
        return Ok(());
    }
    ui.print("")?;
    ui.print(&ui.out.bad("Troubles"))?;
    for trouble in &daemon.troubles {
        let job = trouble.job.as_deref().map_or_else(String::new, |job| format!("{}  ", clean(job)));
        let time = |moment: Time| ui.out.faint(&clock.show(moment));
        ui.print(&format!("  {}  {job}{}", time(trouble.time), clean(&trouble.text)))?;
        if !trouble.remedy.is_empty() {
            ui.print(&format!("      {}", clean(&trouble.remedy)))?;
        }
    }
    Ok(())
}
