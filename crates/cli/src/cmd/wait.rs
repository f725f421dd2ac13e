//! `wait`: waits until jobs have ended; the exit code says how.

use std::time::{Duration, Instant};

use lastword_api::{Job, Outcome as Ending};
use lastword_client::jobs::{self, Until};

use crate::client::Client;
use crate::failure::{Failure, Outcome, exit};
use crate::text::duration;
use crate::ui::describe;
use crate::ui::progress::Progress;

/// Wait until jobs have ended
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exits with 0 if all completed, 3 if one was cancelled, 1 if one ended in another way, and 124 if --timeout expired first."
)]
pub(crate) struct Args {
    /// Jobs to wait for; the newest by default
    #[arg(value_name = "JOB", default_value = "@last", hide_default_value = true, value_parser = super::which::reference, add = super::completion::jobs())]
    jobs: Vec<String>,
    /// Wait only until the first of them has ended
    #[arg(long)]
    any: bool,
    /// Wait at most this long
    #[arg(long, value_name = "TIME", value_parser = duration::parse_ms)]
    timeout: Option<u64>,
    /// Print nothing
    #[arg(short, long)]
    quiet: bool,
}

/// How long the daemon delays its answer at most; the request is then repeated.
const REQUEST_WAIT: Duration = Duration::from_secs(25);

pub(crate) async fn run(args: Args, client: Client) -> Outcome {
    let mut jobs = Vec::new();
    for reference in &args.jobs {
        jobs.push(client.job(reference).await?);
    }
    let deadline = args.timeout.map(|ms| Instant::now() + Duration::from_millis(ms));
    let mut progress = Progress::new(client.ui());
    let waiting = jobs.iter().filter(|job| !job.is_ended()).count() as u64;
    if waiting > 0 {
        progress.show(&format!("waiting for {}", describe::count(waiting, "job", "jobs")));
    }
    let ended = until_ended(&client, jobs, args.any, deadline).await?;
    progress.clear();
    let mut code = 0;
    for job in &ended {
        code = worse(code, code_of(job));
        if !args.quiet {
            print(&client, job)?;
            client.seen(job).await;
        }
    }
    Ok(code)
}

/// Waits for all jobs, or for the first; returns them as they are then.
async fn until_ended(
    client: &Client,
    jobs: Vec<Job>,
    any: bool,
    deadline: Option<Instant>,
) -> Result<Vec<Job>, Failure> {
    let mut waits = tokio::task::JoinSet::new();
    let local = tokio::task::LocalSet::new();
    let count = jobs.len();
    for (place, job) in jobs.into_iter().enumerate() {
        let client = client.clone();
        waits.spawn_local_on(async move { (place, one(&client, job, deadline).await) }, &local);
    }
    local
        .run_until(async {
            let mut ended: Vec<Option<Job>> = (0..count).map(|_| None).collect();
            while let Some(Ok((place, job))) = waits.join_next().await {
                let job = job?;
                let first = any && job.is_ended();
                ended[place] = Some(job);
                if first {
                    break;
                }
            }
            Ok(ended.into_iter().flatten().collect())
        })
        .await
}

/// Waits for one job; returns it when it has ended or the time is up.
pub(super) async fn one(client: &Client, mut job: Job, deadline: Option<Instant>) -> Result<Job, Failure> {
    while !job.is_ended() {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            break;
        }
        job = client
            .call(&jobs::wait(&job.id, Until::Ended, left.unwrap_or(REQUEST_WAIT).min(REQUEST_WAIT)))
            .await?;
    }
    Ok(job)
}

/// Returns the exit code for a job.
fn code_of(job: &Job) -> u8 {
    match &job.outcome {
        Some(Ending::Completed) => 0,
        Some(Ending::Cancelled) => exit::CANCELLED,
        Some(_) => exit::JOB,
        None => exit::TIME,
    }
}

/// Returns the more severe exit code: timeout, then failure, then cancelled.
fn worse(one: u8, other: u8) -> u8 {
    let weight = |code: u8| match code {
        exit::TIME => 3,
        exit::JOB => 2,
        exit::CANCELLED => 1,
        _ => 0,
    };
    if weight(other) > weight(one) { other } else { one }
}

fn print(client: &Client, job: &Job) -> Result<(), Failure> {
    let ui = client.ui();
    if ui.json {
        return ui.print_json(job);
    }
    let job_name = describe::job_name(job.name.as_deref(), &job.short);
    let state = match &job.outcome {
        Some(outcome) => describe::ending(outcome, job.outcome_detail.as_ref(), job.cause.as_ref()),
        None => format!("still {}", job.phase),
    };
    let exit = job.last_attempt().and_then(|attempt| attempt.exit.as_ref()).map(describe::exit);
    let exit = exit.map_or_else(String::new, |exit| format!(" ({exit})"));
    ui.print(&format!("{job_name}  {}{exit}", ui.out.by_state(&job.phase, job.outcome.as_ref(), &state)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_severe_exit_code_wins() {
        assert_eq!(worse(0, exit::CANCELLED), exit::CANCELLED);
        assert_eq!(worse(exit::JOB, exit::CANCELLED), exit::JOB);
        assert_eq!(worse(exit::CANCELLED, exit::JOB), exit::JOB);
        assert_eq!(worse(exit::TIME, exit::JOB), exit::TIME);
    }
}
