//! `cancel`: stops jobs, waits for the proof, and shows the receipt.

mod keepers;

use std::time::{Duration, Instant};

use lastword_api::{Cancel, CancelMany, Cause, HeldIn, Job, Outcome as Ending, Stop};
use lastword_client::jobs::{self, Until};

use crate::client::Client;
use crate::failure::{Failure, Outcome, exit};
use crate::text::duration;
use crate::ui::progress::Progress;
use crate::ui::{JsonList, describe, receipt};

/// Stop jobs and show the receipt
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Sends TERM to every process of a job, then KILL after its grace period. A job that has already ended is not changed."
)]
pub(crate) struct Args {
    /// Jobs to stop
    #[arg(value_name = "JOB", required_unless_present_any = ["all", "group", "label"], value_parser = super::which::reference, add = super::completion::jobs())]
    jobs: Vec<String>,
    /// Send KILL at once
    #[arg(short, long)]
    force: bool,
    /// All jobs that have not ended
    #[arg(short, long, conflicts_with = "jobs")]
    all: bool,
    /// All jobs of this group
    #[arg(short, long, conflicts_with = "jobs")]
    group: Option<String>,
    /// All jobs with this label
    #[arg(short, long, value_name = "NAME=VALUE", conflicts_with = "jobs")]
    label: Option<String>,
    /// Do not wait until the jobs have ended
    #[arg(long, conflicts_with = "timeout")]
    no_wait: bool,
    /// Wait at most this long; the stop continues, and the exit code is 124
    #[arg(long, value_name = "TIME", value_parser = duration::parse_ms)]
    timeout: Option<u64>,
}

/// Pause between two polls during a slow stop.
const POLL: Duration = Duration::from_millis(500);

/// Pids shown during a slow stop.
const PIDS_MAX: usize = 5;

impl Args {
    /// Returns the same arguments with KILL at once.
    pub(crate) fn forced(self) -> Args {
        Args { force: true, ..self }
    }
}

pub(crate) async fn run(args: Args, client: Client) -> Outcome {
    let (jobs, unrecorded, failed) = match args.jobs.is_empty() {
        true => match many(&args, &client).await {
            // Which jobs are of a group or have a label is known to the journal only.
            Err(failure) if args.all => return keepers::stop(None, failure, &client).map(|()| exit::TIME),
            jobs => (jobs?, 0, None),
        },
        false => each(&args, &client).await,
    };
    let printed = match args.no_wait {
        true => print_all(&client, &jobs).await,
        false => wait_for(&args, &client, jobs).await,
    };
    match (failed, printed) {
        (Some(failure), _) => Err(failure),
        // What was stopped without a daemon has no recorded ending yet.
        (None, Ok(0)) if unrecorded > 0 => Ok(exit::TIME),
        (None, printed) => printed,
    }
}

async fn wait_for(args: &Args, client: &Client, jobs: Vec<Job>) -> Outcome {
    let deadline = args.timeout.map(|ms| Instant::now() + Duration::from_millis(ms));
    let mut ended = Vec::new();
    let mut progress = Progress::new(client.ui());
    for job in jobs {
        ended.push(until_ended(client, job, deadline, &mut progress).await?);
    }
    progress.clear();
    print_all(client, &ended).await
}

/// Requests the end of each named job; also returns how many were stopped without a daemon. An error does not prevent the other requests; all
/// but the last are reported here.
async fn each(args: &Args, client: &Client) -> (Vec<Job>, u32, Option<Failure>) {
    let (mut stopping, mut unrecorded, mut failed) = (Vec::new(), 0, None);
    for reference in &args.jobs {
        let how = Cancel { force: args.force, ..Cancel::default() };
        let result = client.call(&jobs::cancel(reference, &how)).await;
        match client.explain(reference, result).await {
            Ok(job) => {
                if let Some(held) = job.stop.as_ref().and_then(|stop| stop.held_in.as_ref()) {
                    client.ui().say(&held_line(&job, held));
                }
                stopping.push(job);
            }
            Err(failure) => match keepers::stop(Some(reference), failure, client) {
                Ok(()) => unrecorded += 1,
                Err(failure) => {
                    failed.replace(failure).inspect(|former| client.ui().report(former));
                }
            },
        }
    }
    (stopping, unrecorded, failed)
}

/// Says that the keeper of a job was told, because the journal cannot store the request.
fn held_line(job: &Job, held_in: &HeldIn) -> String {
    let job_name = describe::job_name(job.name.as_deref(), &job.short);
    format!(
        "the journal cannot be written: the keeper of {job_name} stops it and holds the request ({}); the end is recorded once it can be",
        match held_in {
            HeldIn::Disk => "on disk",
            _ => "in memory",
        }
    )
}

/// Requests the end of all jobs that match.
async fn many(args: &Args, client: &Client) -> Result<Vec<Job>, Failure> {
    let (group, label) = (args.group.clone(), args.label.clone());
    let request = CancelMany { all: args.all, group, label, force: args.force };
    let page = client.call(&jobs::cancel_many(&request)).await?;
    if page.items.is_empty() {
        client.ui().say("no job to cancel");
    }
    let mut stopping = Vec::new();
    for row in page.items {
        stopping.push(client.job(&row.id).await?);
    }
    Ok(stopping)
}

/// Waits until a job has ended, and shows meanwhile what is still alive.
pub(super) async fn until_ended(
    client: &Client,
    mut job: Job,
    deadline: Option<Instant>,
    progress: &mut Progress,
) -> Result<Job, Failure> {
    while !job.is_ended() {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            break;
        }
        progress.show(&stopping(&job));
        job = client.call(&jobs::wait(&job.id, Until::Ended, left.unwrap_or(POLL).min(POLL))).await?;
    }
    Ok(job)
}

/// Describes the progress of a stop.
fn stopping(job: &Job) -> String {
    let job_name = describe::job_name(job.name.as_deref(), &job.short);
    let stop = job.stop.as_ref();
    let rung = stop
        .and_then(|stop| stop.rung.as_ref())
        .map_or_else(String::new, |rung| format!(" with {}", describe::rung(rung)));
    format!("{job_name}: {}{rung}{}", job.phase, alive(stop))
}

/// Describes what is alive: with pids if the keeper reports them, otherwise the number at the last rung.
fn alive(stop: Option<&Stop>) -> String {
    let Some(stop) = stop else { return String::new() };
    let named: Vec<String> = stop.pids.iter().take(PIDS_MAX).map(i32::to_string).collect();
    let more = if stop.pids.len() > PIDS_MAX { ", …" } else { "" };
    match (named.is_empty(), stop.alive) {
        (false, alive) => {
            let count = alive.unwrap_or_default().max(u32::try_from(stop.pids.len()).unwrap_or(u32::MAX));
            format!(", {count} alive: pid {}{more}", named.join(", "))
        }
        (true, Some(0)) => ", none alive".to_owned(),
        (true, Some(alive)) => format!(", {alive} were alive then"),
        (true, None) => String::new(),
    }
}

async fn print_all(client: &Client, jobs: &[Job]) -> Outcome {
    let ui = client.ui();
    if ui.json {
        ui.print_json(&JsonList { items: jobs, next_cursor: None })?;
    } else {
        for job in jobs {
            print(client, job)?;
            client.seen(job).await;
        }
    }
    let all_ended = jobs.iter().all(Job::is_ended);
    Ok(if all_ended { 0 } else { exit::TIME })
}

/// Prints the result for one job.
fn print(client: &Client, job: &Job) -> Result<(), Failure> {
    let ui = client.ui();
    let job_name = ui.out.strong(&describe::job_name(job.name.as_deref(), &job.short));
    let Some(outcome) = &job.outcome else {
        return ui.print(&format!(
            "{job_name}  {}",
            ui.out.warn(stopping(job).split_once(": ").map_or("", |(_, text)| text))
        ));
    };
    let ending = describe::ending(outcome, job.outcome_detail.as_ref(), job.cause.as_ref());
    let ending = ui.out.by_state(&job.phase, Some(outcome), &ending);
    let is_stopped = job.stop.as_ref().is_some_and(|stop| stop.cause == Cause::User);
    let first = match outcome {
        Ending::Cancelled => format!("{job_name}  {ending}"),
        Ending::Completed | Ending::Failed if is_stopped => {
            format!("{job_name}  {ending}: it had finished, and what it left running was stopped")
        }
        _ => return ui.print(&format!("{job_name}  had already ended: {ending}")),
    };
    let mut lines = vec![first];
    match job.last_attempt() {
        Some(attempt) => lines.extend(receipt::lines(attempt, job.stop.as_ref(), ui.out, ui.width.min(140))),
        None => lines.push(format!("  {}", ui.out.faint("nothing was ever started"))),
    }
    ui.print(&lines.join("\n"))
}
