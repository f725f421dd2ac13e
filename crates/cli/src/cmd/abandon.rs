//! `abandon`: a person gives up on a job whose host does not return.

use hyper::Method;
use lastword_api::Job;

use crate::client::{Call, Client, job_path};
use crate::failure::{Failure, Outcome};
use crate::ui::words;

/// Gives up a job that nobody can reach any more
#[derive(Debug, clap::Args)]
#[command(
    after_help = "What it started may still be alive. Only for a job that stays out of reach; `cancel` is the way to end one."
)]
pub(crate) struct Args {
    /// Which job
    #[arg(value_name = "JOB", add = super::completion::jobs())]
    job: String,
    /// Does not ask
    #[arg(short, long)]
    yes: bool,
}

pub(crate) async fn run(args: Args, client: Client) -> Outcome {
    let job = client.job(&args.job).await?;
    let ui = *client.ui();
    let called = words::called(job.name.as_deref(), &job.short);
    if !args.yes {
        let question = format!("Give up {called}? What it started may still be alive.");
        if !ui.can_ask {
            return Err(Failure::usage(question).next("-y gives it up without asking"));
        }
        if !ui.ask(&question) {
            ui.say("nothing was given up");
            return Ok(0);
        }
    }
    let call = Call::with(Method::POST, job_path(&job.id, ":abandon"), &serde_json::json!({}));
    let job: Job = client.call(call).await?;
    match ui.json {
        true => ui.print_json(&job)?,
        false => {
            let ending = job
                .outcome
                .as_ref()
                .map(|outcome| words::ending(outcome, job.outcome_detail.as_ref(), job.cause.as_ref()));
            ui.print(&format!("{called}  {}", ending.unwrap_or_else(|| job.phase.to_string())))?;
        }
    }
    Ok(0)
}
