//! `abandon`: gives up on a job whose host does not return.

use lastword_client::jobs;

use crate::client::Client;
use crate::failure::{Failure, Outcome};
use crate::ui::describe;

/// Give up on a job that can no longer be reached
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Its processes may still be running. Use this only for a job that stays unreachable; to end a job, use `cancel`."
)]
pub(crate) struct Args {
    /// Job to abandon
    #[arg(value_name = "JOB", value_parser = super::which::reference, add = super::completion::jobs())]
    job: String,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

pub(crate) async fn run(args: Args, client: Client) -> Outcome {
    let job = client.job(&args.job).await?;
    let ui = *client.ui();
    let job_name = describe::job_name(job.name.as_deref(), &job.short);
    if !args.yes {
        let question = format!("Give up on {job_name}? Its processes may still be running.");
        if !ui.can_ask {
            return Err(Failure::usage(question).next("use -y to confirm"));
        }
        if !ui.confirm(&question) {
            ui.say("nothing was changed");
            return Ok(0);
        }
    }
    let job = client.call(&jobs::abandon(&job.id)).await?;
    match ui.json {
        true => ui.print_json(&job)?,
        false => {
            let ending = job
                .outcome
                .as_ref()
                .map(|outcome| describe::ending(outcome, job.outcome_detail.as_ref(), job.cause.as_ref()));
            ui.print(&format!("{job_name}  {}", ending.unwrap_or_else(|| job.phase.to_string())))?;
        }
    }
    Ok(0)
}
