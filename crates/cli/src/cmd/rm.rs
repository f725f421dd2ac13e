//! `rm`: removes ended jobs, with their logs and their output.

use lastword_api::{Cancel, Job};

use super::wait;
use crate::client::{Call, Client, job_path};
use crate::failure::Outcome;
use crate::ui::words;

/// Removes ended jobs, with everything they wrote
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which jobs
    #[arg(value_name = "JOB", required = true, add = super::completion::jobs())]
    jobs: Vec<String>,
    /// Ends a job that has not ended first, with KILL
    #[arg(short, long)]
    force: bool,
}

pub(crate) async fn run(args: Args, client: Client) -> Outcome {
    for reference in &args.jobs {
        let mut job = client.job(reference).await?;
        if args.force && !job.is_ended() {
            let call = Call::post(job_path(&job.id, ":cancel"), &Cancel { force: true, wait_ms: None });
            let stopping: Job = client.call(call).await?;
            job = wait::one(&client, stopping, None).await?;
        }
        client.send(&Call::delete(job_path(&job.id, ""))).await.map_err(|failure| match job.is_ended() {
            true => failure,
            false => failure.next(format!("lastword rm --force {}", words::reference(&job))),
        })?;
        if !client.ui().json {
            client.ui().say(&format!("{} is removed", words::called(job.name.as_deref(), &job.short)));
        }
    }
    Ok(0)
}
