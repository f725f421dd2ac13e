//! `resume`: continues the conversation of an ended agent, as a new job.

use lastword_api::Resume;
use lastword_client::jobs;

use super::attach::{self, Stay};
use super::run::print_started;
use super::send::advised;
use super::{job_env, prompt, submit, unfinished};
use crate::client::Client;
use crate::failure::Outcome;
use crate::settings::Settings;

/// Continue the conversation of an ended agent, as a new job
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The new job has the same agent and settings, and your current environment (on a fleet, that of its worker). It continues after \
                  the last completed turn of the conversation, whichever of its jobs is named; `send` does the same in the background. Limits on \
                  turns, tokens, money and active time count over the whole conversation."
)]
pub(crate) struct Args {
    /// Start the new job in the background and print its id
    #[arg(short, long)]
    detach: bool,
    /// Continue with a copy and leave the original conversation unchanged; its job may still be running
    #[arg(long)]
    fork: bool,
    /// Leave turns that did not complete in the conversation; otherwise the agent is told to forget them, if it can
    #[arg(long)]
    keep_unfinished: bool,
    /// Job whose conversation to continue
    #[arg(value_name = "JOB", value_parser = super::which::reference, add = super::completion::jobs())]
    job: String,
    /// What to do next; read from standard input if missing or `-`
    #[arg(trailing_var_arg = true, value_name = "PROMPT")]
    prompt: Vec<String>,
}

pub(crate) async fn run(
    args: Args,
    client: Client,
    settings: Settings,
    program: fn() -> clap::Command,
) -> Outcome {
    let prompt = prompt::read(&args.prompt)?;
    prompt::say_options(client.ui(), program(), "resume", &args.prompt);
    if !args.keep_unfinished {
        unfinished::say(&client, &client.job(&args.job).await?, args.fork).await?;
    }
    let env = job_env::passed_on(&client);
    let result = submit::submit(&client, |attributes| {
        let (fork, keep_unfinished) = (args.fork, args.keep_unfinished);
        let resume = Resume { prompt: prompt.clone(), fork, keep_unfinished, env: env.clone(), attributes };
        jobs::resume(&args.job, &resume).once()
    });
    let result = result.await;
    let job = match client.explain(&args.job, result).await {
        Ok(job) => job,
        Err(failure) => return Err(advised(failure, &args.job)),
    };
    submit::say_limits_are_kept(&client, &settings, &job);
    match args.detach {
        true => print_started(&client, &job),
        false => attach::stay(&client, job, Stay { is_starter: true, ..Stay::default() }).await,
    }
}
