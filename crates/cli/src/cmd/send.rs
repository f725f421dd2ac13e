//! `send`: sends a message to an agent, or input to a job.

use lastword_api::{Accepted, Code, Job, Message};
use lastword_client::{Call, jobs};

use super::prompt;
use crate::client::Client;
use crate::failure::{Failure, Outcome};
use crate::ui::describe;

/// Send a message to an agent, or a line to a job with input
#[derive(Debug, clap::Args)]
#[command(
    after_help = "An agent starts its next turn with the message. A command has input if it was started with run -i or run -t."
)]
pub(crate) struct Args {
    /// Job to send to
    #[arg(value_name = "JOB", value_parser = super::which::reference, add = super::completion::jobs())]
    job: String,
    /// Text to send; read from standard input if omitted
    #[arg(value_name = "TEXT")]
    text: Vec<String>,
    /// Send the text as it is, without a line feed at the end
    #[arg(long)]
    raw: bool,
    /// Close the job's input afterwards; without TEXT, only close it
    #[arg(long)]
    eof: bool,
    /// Deliver the message during the agent's current turn, if the agent supports that
    #[arg(long, conflicts_with_all = ["eof", "raw"])]
    steer: bool,
}

pub(crate) async fn run(args: Args, client: Client) -> Outcome {
    let job = client.job(&args.job).await?;
    let mut text = args.text.join(" ");
    if args.text.is_empty() && !args.eof {
        text = std::io::read_to_string(std::io::stdin())
            .map_err(|error| Failure::usage(format!("cannot read the text from standard input: {error}")))?;
    } else if !args.text.is_empty() && !args.raw && job.agent.is_none() {
        text.push('\n');
    }
    let text = prompt::bounded("message", text)?;
    let call = message(&job, &Message { text, eof: args.eof, steer: args.steer })?;
    let accepted = client.call(&call).await.map_err(|failure| match failure.problem.code {
        Code::Ended if job.agent.is_some() => {
            failure.next(format!("lastword resume {} PROMPT    # continues its conversation", args.job))
        }
        _ => failure,
    })?;
    let ui = client.ui();
    match ui.json {
        true => ui.print_json(&accepted)?,
        false => ui.say(&queued(&job, &accepted)),
    }
    Ok(0)
}

/// Says that a message was accepted.
pub(super) fn queued(job: &Job, accepted: &Accepted) -> String {
    format!("message {} queued for {}", accepted.input, describe::job_name(job.name.as_deref(), &job.short))
}

/// Returns the request that sends a message to a job.
pub(super) fn message(job: &Job, message: &Message) -> Result<Call<Accepted>, Failure> {
    Ok(jobs::send(&job.id, message).once()?)
}
