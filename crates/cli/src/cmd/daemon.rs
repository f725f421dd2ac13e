//! `daemon`: controls the daemon. Jobs do not depend on it.

use std::time::{Duration, Instant};

use clap::Subcommand;
use lastword_api::{Code, Daemon, JobsFate, StopDaemon, Time};
use lastword_client::daemon as api;
use lastword_proc::Identity;

use super::runtime;
use crate::client::{Client, connect};
use crate::daemon::laptop::Laptop;
use crate::daemon::role::Role;
use crate::daemon::start::{self, StartOptions, Started};
use crate::daemon::{LOG, install, run as service};
use crate::failure::{Failure, Outcome};
use crate::lock::{self, Holder};
use crate::paths::Paths;
use crate::settings;
use crate::text::clean::clean;
use crate::text::duration;
use crate::text::moment::{Clock, between};
use crate::ui::progress::Progress;
use crate::ui::{Ui, describe};

/// Start, stop and inspect the daemon
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Start the daemon in the background
    Start(Settings),
    /// Stop the daemon; jobs keep running, and the next daemon takes them over
    Stop {
        /// Cancel all jobs first
        #[arg(long)]
        cancel_jobs: bool,
    },
    /// Show the daemon, its jobs, and recent problems
    Status,
    /// Restart the daemon with this version; jobs keep running
    Restart(Settings),
    /// Run the daemon in the foreground
    Run {
        #[command(flatten)]
        settings: Settings,
        /// Report on stdout whether it could start, then print nothing more
        #[arg(long, hide = true)]
        detached: bool,
    },
    /// Write units for your service manager, and print how to enable them
    Install,
    /// Remove those units
    Uninstall,
}

#[derive(Debug, clap::Args)]
struct Settings {
    /// Setting for this daemon, such as slots=4; can be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
}

/// How long a daemon may take to exit: it gives open requests ten seconds.
const GONE_MAX: Duration = Duration::from_secs(30);

/// How long a daemon may take to acknowledge a stop, before it is asked whether it is alive.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Pause between two polls.
const POLL: Duration = Duration::from_millis(20);

pub(crate) fn run(args: Args, ui: Ui) -> Outcome {
    let paths = Paths::find()?;
    match args.verb {
        Verb::Run { settings, detached } => service::run(&Laptop, &paths, &settings.set, detached),
        Verb::Install => install::install(&paths, &ui),
        Verb::Uninstall => install::uninstall(&ui),
        Verb::Status => runtime::block_on(status(paths, ui)),
        Verb::Stop { cancel_jobs } => runtime::block_on(async {
            let jobs = if cancel_jobs { JobsFate::Cancel } else { JobsFate::Keep };
            let stopped = stop(&paths, &ui, jobs).await?;
            match ui.json {
                true => ui.print_json(&serde_json::json!({ "stopped": stopped }))?,
                false if stopped => {}
                false => ui.say("no daemon is running"),
            }
            Ok(0)
        }),
        Verb::Start(settings) => runtime::block_on(start(paths, ui, StartOptions { settings: settings.set })),
        Verb::Restart(settings) => runtime::block_on(async {
            // Before the daemon that works is stopped. That of a fleet is started by another command.
            settings::Settings::of_process(&paths, &settings.set)?;
            Role::Daemon.settle(&paths)?;
            stop(&paths, &ui, JobsFate::Keep).await?;
            start(paths, ui, StartOptions { settings: settings.set }).await
        }),
    }
}

async fn start(paths: Paths, ui: Ui, options: StartOptions) -> Outcome {
    if let Some(job) = connect::inside_a_job() {
        let text = format!("cannot start a daemon from inside a job ({job}): it would end with the job");
        return Err(Failure::new(Code::InsideAJob, text).next("start it from outside of a job"));
    }
    let settings = settings::Settings::of_process(&paths, &options.settings)?;
    let started = if lock::is_held(&paths) { Started::Taken } else { start::start(&paths, &options).await? };
    if started == Started::Taken {
        ui.say_not_in_force(&settings, &lock::settings_in_force(&paths));
    }
    let client = Client::new(paths, ui);
    let daemon = client.call(&api::show()).await?;
    match (ui.json, started) {
        (true, _) => ui.print_json(&daemon)?,
        (_, Started::Ready) => ui.say(&format!("daemon started (pid {})", daemon.pid)),
        (_, Started::Taken) => ui.say(&format!("a daemon is already running (pid {})", daemon.pid)),
    }
    Ok(0)
}

/// Stops the daemon and waits until it is gone. Returns whether there was one.
pub(super) async fn stop(paths: &Paths, ui: &Ui, jobs: JobsFate) -> Result<bool, Failure> {
    let role = Role::of(paths).name();
    let before = Holder::of(paths);
    let Some(asked) = ask_to_stop(paths, ui, jobs.clone()).await? else { return Ok(false) };
    // The kernel releases the lock before the process has ended.
    let process = before.filter(|holder| holder.pid == asked).map(|holder| holder.identity());
    let is_alive = || process.as_ref().is_some_and(Identity::is_alive);
    // If another daemon takes the lock at once, do not wait for it.
    let has_lock = || lock::is_held(paths) && Holder::of(paths).is_none_or(|holder| holder.pid == asked);
    let mut progress = Progress::new(ui);
    let begin = Instant::now();
    while has_lock() || is_alive() {
        progress.show(match jobs {
            JobsFate::Cancel => "cancelling jobs, then stopping",
            JobsFate::Finish => "waiting for the jobs that were started, then stopping",
            _ => "stopping",
        });
        if begin.elapsed() > GONE_MAX && jobs == JobsFate::Keep {
            let text = format!("the {role} (pid {asked}) did not stop within {} s", GONE_MAX.as_secs());
            let failure = Failure::new(Code::Unavailable, text);
            return Err(failure.next(format!(
                "kill -KILL {asked}    # safe: jobs keep running, and the next daemon takes them over"
            )));
        }
        tokio::time::sleep(POLL).await;
    }
    progress.clear();
    if !ui.json {
        ui.say(&match jobs {
            JobsFate::Cancel => format!("all jobs were cancelled, and the {role} was stopped"),
            JobsFate::Finish => format!("{role} stopped; the jobs that it had started have ended"),
            _ => format!("{role} stopped; jobs keep running"),
        });
    }
    Ok(true)
}

/// Asks the daemon to stop. Returns its pid, or `None` if there is none.
async fn ask_to_stop(paths: &Paths, ui: &Ui, jobs: JobsFate) -> Result<Option<i32>, Failure> {
    while lock::is_held(paths) {
        if connect::is_reached(paths).await? {
            let client = Client::new(paths.clone(), *ui);
            let call = api::stop(&StopDaemon { jobs: jobs.clone() });
            let mut answer = std::pin::pin!(client.call(&call));
            loop {
                match tokio::time::timeout(ANSWER_MAX, &mut answer).await {
                    Ok(stopping) => return Ok(i32::try_from(stopping?.pid).ok()),
                    Err(_) if client.is_there().await => {}
                    Err(_) => return kill_silent(paths, ui, &jobs).map(Some),
                }
            }
        }
        // It has no socket, or not yet: send a signal instead, if it is the process that wrote the lock.
        if let Some(holder) = Holder::of(paths).filter(|holder| holder.identity().is_alive()) {
            let times = if jobs == JobsFate::Cancel { 2 } else { 1 };
            for _ in 0..times {
                let _ = holder.identity().signal(rustix::process::Signal::TERM);
            }
            return Ok(Some(holder.pid));
        }
        tokio::time::sleep(POLL).await;
    }
    Ok(None)
}

/// Kills a daemon that does not answer; jobs do not need it.
fn kill_silent(paths: &Paths, ui: &Ui, jobs: &JobsFate) -> Result<i32, Failure> {
    let Some(holder) = Holder::of(paths).filter(|holder| holder.identity().is_alive()) else {
        return Err(Failure::new(
            Code::Unavailable,
            "a process listens on the socket but does not answer, and is not the daemon",
        ));
    };
    let what = format!("the daemon (pid {}) did not answer within {} s", holder.pid, ANSWER_MAX.as_secs());
    if *jobs == JobsFate::Cancel {
        return Err(Failure::new(Code::Unavailable, format!("{what}; no job was cancelled"))
            .next("lastword daemon restart && lastword daemon stop --cancel-jobs"));
    }
    let _ = holder.identity().signal(rustix::process::Signal::KILL);
    ui.say(&format!("lastword: {what} and was killed"));
    Ok(holder.pid)
}

async fn status(paths: Paths, ui: Ui) -> Outcome {
    if !lock::is_held(&paths) {
        let failure = Failure {
            code: crate::failure::exit::JOB,
            ..Failure::new(Code::Unavailable, "no daemon is running")
        };
        return Err(
            failure.next("lastword daemon start    # or any other command, which starts one when needed")
        );
    }
    let log = paths.in_state(LOG);
    let socket = paths.socket.clone();
    let client = Client::new(paths, ui);
    let daemon = client.call(&api::show()).await?;
    if ui.json {
        ui.print_json(&daemon)?;
        return Ok(0);
    }
    let clock = Clock::local();
    let up = duration::show_ms(between(daemon.started_at, clock.now()));
    let state = if daemon.ready { ui.out.good("ready") } else { ui.out.warn("recovering jobs") };
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
        ("trees", describe::level(&daemon.level).to_owned()),
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

/// Prints recent problems and what to do about them.
fn troubles(daemon: &Daemon, ui: &Ui, clock: &Clock) -> Result<(), Failure> {
    if daemon.troubles.is_empty() {
        return Ok(());
    }
    ui.print("")?;
    ui.print(&ui.out.bad("Problems"))?;
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
