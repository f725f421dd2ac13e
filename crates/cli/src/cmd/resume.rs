//! `resume`: the conversation of an ended job goes on, as a new job.

use lastword_api::{Code, Resume};

use super::attach::{self, Stay};
use super::run::{agent, print_started};
use crate::client::{Call, Client, job_path};
use crate::failure::Outcome;

/// Goes on with the conversation of an ended agent, as a new job
#[derive(Debug, clap::Args)]
#[command(
    after_help = "It is the same agent on the same terms, with the environment of now. It goes on from the last turn that was completed."
)]
pub(crate) struct Args {
    /// Lets go of the new job at once and prints its id
    #[arg(short, long)]
    detach: bool,
    /// Goes on with a copy of the conversation, which stays as it is; then the job may still run
    #[arg(long)]
    fork: bool,
    /// Which job
    #[arg(value_name = "JOB", add = super::completion::jobs())]
    job: String,
    /// What it is to do now; standard input if it is missing or `-`
    #[arg(trailing_var_arg = true, value_name = "PROMPT")]
    prompt: Vec<String>,
}

pub(crate) async fn run(args: Args, client: Client) -> Outcome {
    let prompt = agent::prompt(&args.prompt)?;
    let env = super::environment_of_job(client.ui());
    let asked = super::ask_for_job(&client, |attributes| {
        let resume = Resume { prompt: prompt.clone(), fork: args.fork, env: env.clone(), attributes };
        Call::post(job_path(&args.job, ":resume"), &resume).once()
    });
    let asked = asked.await;
    let job = client.explain(&args.job, asked).await.map_err(|failure| match failure.problem.code {
        Code::NotEnded => {
            failure.next(format!("lastword send {} TEXT    # says it to the agent that runs", args.job))
        }
        _ => failure,
    })?;
    match args.detach {
        true => print_started(&client, &job),
        false => {
            attach::stay(&client, job, Stay { input: false, cancel_on_interrupt: false, from: [0, 0] }).await
        }
    }
}
