//! `retry`: runs an ended job again, as a new job.

use lastword_api::{Job, RetryJob};
use lastword_client::jobs;

use super::attach::{self, Stay};
use super::run::print_started;
use super::{job_env, submit};
use crate::client::Client;
use crate::failure::Outcome;
use crate::settings::Settings;
use crate::ui::describe;

/// Run an ended job again, as a new job
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The new job uses your current environment (on a fleet, that of its worker): that of the old one was deleted when it ended. It starts at once, also if the \
                  old one waited for other jobs."
)]
pub(crate) struct Args {
    /// Job to run again; the newest by default
    #[arg(value_name = "JOB", default_value = "@last", hide_default_value = true, value_parser = super::which::reference, add = super::completion::jobs())]
    job: String,
    /// Start the new job in the background and print its id
    #[arg(short, long)]
    detach: bool,
}

pub(crate) async fn run(args: Args, client: Client, settings: Settings) -> Outcome {
    let env = job_env::passed_on(&client);
    let result = submit::submit(&client, |attributes| {
        jobs::retry(&args.job, &RetryJob { env: env.clone(), attributes }).once()
    });
    let result = result.await;
    let job = client.explain(&args.job, result).await?;
    submit::say_limits_are_kept(&client, &settings, &job);
    say_waits_for_none(&client, &job).await;
    match args.detach {
        true => print_started(&client, &job),
        false => attach::stay(&client, job, Stay { is_starter: true, ..Stay::default() }).await,
    }
}

/// Says that the new job does not wait for the jobs that the old one waited for: they may be gone, or have failed.
async fn say_waits_for_none(client: &Client, job: &Job) {
    let Some(old) = &job.retry_of else { return };
    if let Ok(old) = client.job(old).await
        && !old.after.is_empty()
    {
        let job_name = describe::job_name(old.name.as_deref(), &old.short);
        let after = describe::after(&old.after);
        client.ui().say(&format!("lastword: {job_name} ran after {after}; its retry does not wait"));
    }
}
