//! `interrupt`: an agent ends its turn, and its job goes on.

use lastword_api::{Interrupt, Job};

use crate::client::{Call, Client, job_path};
use crate::failure::Outcome;
use crate::ui::words;

/// Ends the turn of an agent, and not its job
#[derive(Debug, clap::Args)]
#[command(after_help = "What is sent to it begins the next turn. To end the job: lastword cancel.")]
pub(crate) struct Args {
    /// Which job
    #[arg(value_name = "JOB", add = super::completion::jobs())]
    job: String,
    /// Only this turn, if it is not over
    #[arg(long, value_name = "N")]
    turn: Option<u32>,
}

pub(crate) async fn run(args: Args, client: Client) -> Outcome {
    let call = Call::post(job_path(&args.job, ":interrupt"), &Interrupt { turn: args.turn });
    let asked = client.call(call).await;
    let job: Job = client.explain(&args.job, asked).await?;
    let ui = client.ui();
    match ui.json {
        true => ui.print_json(&job)?,
        false => {
            let called = words::called(job.name.as_deref(), &job.short);
            ui.say(&format!("{called} is asked to end its turn, and goes on"));
        }
    }
    Ok(0)
}
