//! `rm`: removes ended jobs, with their logs, their output and their worktrees.

use lastword_api::{Cancel, Code, Job};

use super::{wait, worktree};
use crate::client::{Call, Client, job_path};
use crate::failure::{Failure, Outcome};
use crate::ui::words;

/// Removes ended jobs, with everything they wrote
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which jobs
    #[arg(value_name = "JOB", required = true, add = super::completion::jobs())]
    jobs: Vec<String>,
    /// Ends a job that has not ended first, with KILL, and gives up work in its worktree that was not applied
    #[arg(short, long)]
    force: bool,
}

pub(crate) async fn run(args: Args, client: Client) -> Outcome {
    let mut failed: Option<Failure> = None;
    for reference in &args.jobs {
        // One that cannot be removed does not keep the others.
        if let Err(failure) = remove(&args, &client, reference).await {
            failed.replace(failure).inspect(|former| client.ui().tell(former));
        }
    }
    failed.map_or(Ok(0), Err)
}

async fn remove(args: &Args, client: &Client, reference: &str) -> Result<(), Failure> {
    let mut job = client.job(reference).await?;
    if args.force && !job.is_ended() {
        let call = Call::post(job_path(&job.id, ":cancel"), &Cancel { force: true, wait_ms: None });
        let stopping: Job = client.call(call).await?;
        job = wait::one(client, stopping, None).await?;
    }
    let lost = if args.force { worktree::tip(&job) } else { None };
    let how = if args.force { "?unsaved=true" } else { "" };
    if let Err(failure) = client.send(&Call::delete(job_path(&job.id, how))).await {
        return Err(with_next_steps(failure, client, &job).await);
    }
    if !client.ui().json {
        client.ui().say(&format!("{} is removed", words::called(job.name.as_deref(), &job.short)));
        if let Some(tip) = lost {
            let short = worktree::short(&tip);
            client.ui().say(&format!("its commits end at {short}; `git branch NAME {short}` keeps them"));
        }
    }
    Ok(())
}

/// Adds what a person can do about a refusal.
async fn with_next_steps(failure: Failure, client: &Client, job: &Job) -> Failure {
    let reference = words::reference(job);
    let force = format!("lastword rm --force {reference}");
    match failure.problem.code {
        Code::Unsaved => {
            let failure =
                failure.next(format!("lastword apply {reference}    # brings it over, diff shows it"));
            match worktree::merge(job) {
                Some(merge) => failure.next(format!("{merge}    # brings its commits over")),
                None => failure,
            }
            .next(format!("{force}    # gives it up"))
        }
        // A later job of the same conversation runs in the worktree. Both often share one name, so it is named by its id.
        Code::NotEnded if job.is_ended() => {
            let Some(user) = failure.problem.job.clone() else { return failure };
            let user = client.job(&user).await.map_or(user, |user| user.short);
            failure
                .next(format!("lastword wait {user}    # then remove it"))
                .next(format!("lastword cancel {user}    # ends it now"))
        }
        _ if job.is_ended() => failure,
        _ => failure.next(force),
    }
}
