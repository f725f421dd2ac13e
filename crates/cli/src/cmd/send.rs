//! `send`: sends a message to an agent, or input to a job.

use lastword_api::{Accepted, Code, Job, Message};
use lastword_client::{Call, jobs};

use super::{job_env, prompt, submit, unfinished};
use crate::client::Client;
use crate::failure::{Failure, Outcome};
use crate::ui::describe;

/// Send a message to an agent, or a line to a job with input
#[derive(Debug, clap::Args)]
#[command(
    after_help = "An agent starts its next turn with the message. If it has ended, its conversation goes on as a new job, with your current \
                  environment (on a fleet, that of its worker). A command has input if it was started with run -i or run -t."
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
    let asked = Message { text, eof: args.eof, steer: args.steer, ..Message::default() };
    let accepted = match client.call(&message(&job, &asked)?).await {
        Err(failure) if failure.problem.code == Code::Ended && job.agent.is_some() && !args.eof => {
            go_on(&client, &job, asked).await?
        }
        result => result?,
    };
    let ui = client.ui();
    match (ui.json, &accepted.job) {
        (true, _) => ui.print_json(&accepted)?,
        (false, Some(next)) => say_next(&client, &job, next, accepted.input).await,
        (false, None) => ui.say(&queued(&job, &accepted)),
    }
    Ok(0)
}

/// Sends a message to an agent that has ended: its conversation goes on.
async fn go_on(client: &Client, job: &Job, asked: Message) -> Result<Accepted, Failure> {
    unfinished::say(client, job, false).await?;
    let env = Some(job_env::passed_on(client));
    let message = Message { env, attributes: submit::attributes(client), ..asked };
    let sent = client.call(&jobs::send(&job.id, &message).once()?).await;
    sent.map_err(|failure| advised(failure, describe::reference(job)))
}

/// Says which job of the conversation got the message.
async fn say_next(client: &Client, job: &Job, next: &str, input: u32) {
    let name = describe::job_name(job.name.as_deref(), &job.short);
    let next = client.job(next).await.map_or_else(|_| next.to_owned(), |next| next.short);
    client.ui().say(&match input {
        0 => format!("{name} goes on as {next}; `lastword attach {next}` follows it"),
        input => format!("message {input} queued for {next}, the newest job of {name}"),
    });
}

/// Says that a message was accepted.
pub(super) fn queued(job: &Job, accepted: &Accepted) -> String {
    format!("message {} queued for {}", accepted.input, describe::job_name(job.name.as_deref(), &job.short))
}

/// Returns the request that sends a message to a job.
pub(super) fn message(job: &Job, message: &Message) -> Result<Call<Accepted>, Failure> {
    Ok(jobs::send(&job.id, message).once()?)
}

/// Adds what to do about a conversation that cannot go on. `name` is how it was named.
pub(super) fn advised(failure: Failure, name: &str) -> Failure {
    match failure.problem.code {
        Code::NotEnded => {
            failure.next(format!("lastword send {name} TEXT    # sends it to the running agent"))
        }
        Code::UsedUp => failure
            .next(format!("lastword conversation show {name}    # shows what it used up"))
            .next(format!("lastword limit {name} money=5    # raises a limit; 0 removes it")),
        _ => failure,
    }
}
