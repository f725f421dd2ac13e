//! `interrupt`: interrupts an agent's turn; its job keeps running.

use lastword_api::Interrupt;
use lastword_client::jobs;

use crate::client::Client;
use crate::failure::Outcome;
use crate::ui::describe;

/// Interrupt an agent's turn; its job keeps running
#[derive(Debug, clap::Args)]
#[command(after_help = "The next message starts a new turn. To end the job, use `lastword cancel`.")]
pub(crate) struct Args {
    /// Job of the agent
    #[arg(value_name = "JOB", value_parser = super::which::reference, add = super::completion::jobs())]
    job: String,
    /// Only if this turn is still running
    #[arg(long, value_name = "N")]
    turn: Option<u32>,
}

pub(crate) async fn run(args: Args, client: Client) -> Outcome {
    let result = client.call(&jobs::interrupt(&args.job, &Interrupt { turn: args.turn })).await;
    let job = client.explain(&args.job, result).await?;
    let ui = client.ui();
    match ui.json {
        true => ui.print_json(&job)?,
        false => {
            let job_name = describe::job_name(job.name.as_deref(), &job.short);
            ui.say(&format!("{job_name} was asked to end its turn; the job keeps running"));
        }
    }
    Ok(0)
}
