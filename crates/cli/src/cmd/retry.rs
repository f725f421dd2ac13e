//! `retry`: an ended job once more, as a new job.

use lastword_api::RetryJob;

use super::attach::{self, Stay};
use super::run::print_started;
use crate::client::{Call, Client, job_path};
use crate::failure::Outcome;

/// Runs an ended job once more, as a new job
#[derive(Debug, clap::Args)]
#[command(after_help = "The new job has the environment of now: that of the old one was removed at its end.")]
pub(crate) struct Args {
    /// Which job
    #[arg(value_name = "JOB", default_value = "@last", hide_default_value = true, add = super::completion::jobs())]
    job: String,
    /// Lets go of the new job at once and prints its id
    #[arg(short, long)]
    detach: bool,
}

pub(crate) async fn run(args: Args, client: Client) -> Outcome {
    let env = super::environment_of_job(client.ui());
    let asked = super::ask_for_job(&client, |attributes| {
        Call::post(job_path(&args.job, ":retry"), &RetryJob { env: env.clone(), attributes }).once()
    });
    let asked = asked.await;
    let job = client.explain(&args.job, asked).await?;
    match args.detach {
        true => print_started(&client, &job),
        false => {
            attach::stay(&client, job, Stay { input: false, cancel_on_interrupt: false, from: [0, 0] }).await
        }
    }
}
