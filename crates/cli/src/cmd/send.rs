//! `send`: says something to an agent, or to a job that reads.

use lastword_api::{Accepted, Code, Message};

use super::attach::message;
use crate::client::Client;
use crate::failure::{Failure, Outcome};
use crate::ui::words;

/// Sends a message to an agent, or a line to a job that reads (run -i, run -t)
#[derive(Debug, clap::Args)]
#[command(after_help = "The next turn of an agent begins with it.")]
pub(crate) struct Args {
    /// Which job
    #[arg(value_name = "JOB", add = super::completion::jobs())]
    job: String,
    /// What to send; standard input if not said
    #[arg(value_name = "TEXT")]
    text: Vec<String>,
    /// Sends the text as it is, without a line break behind it
    #[arg(long)]
    raw: bool,
    /// Closes the job's input afterwards; alone, only closes it
    #[arg(long)]
    eof: bool,
    /// Says it to an agent in the midst of its turn, if it can be told so
    #[arg(long, conflicts_with_all = ["eof", "raw"])]
    steer: bool,
}

pub(crate) async fn run(args: Args, client: Client) -> Outcome {
    let job = client.job(&args.job).await?;
    let mut text = args.text.join(" ");
    if args.text.is_empty() && !args.eof {
        text = std::io::read_to_string(std::io::stdin())
            .map_err(|error| Failure::usage(format!("cannot read a text from standard input: {error}")))?;
    } else if !args.text.is_empty() && !args.raw && job.agent.is_none() {
        text.push('\n');
    }
    let call = message(&job, Message { text, eof: args.eof, steer: args.steer })?;
    let accepted: Accepted = client.call(call).await.map_err(|failure| match failure.problem.code {
        Code::Ended if job.agent.is_some() => {
            failure.next(format!("lastword resume {} PROMPT    # goes on with its conversation", args.job))
        }
        _ => failure,
    })?;
    let ui = client.ui();
    match ui.json {
        true => ui.print_json(&accepted)?,
        false => {
            let called = words::called(job.name.as_deref(), &job.short);
            ui.say(&format!("message {} to {called} is written down, and reaches it once", accepted.input));
        }
    }
    Ok(0)
}
