//! `show`: shows everything about one job.

use lastword_api::{Job, Proof, Receipt};
use lastword_client::output;

use crate::client::Client;
use crate::client::recording::{Recording, Stream};
use crate::failure::{Failure, Outcome};
use crate::text::transcript::Transcript;
use crate::ui::{describe, job};

/// Lines of output at the end of the screen.
const LINES: usize = 6;

/// Lines of an agent's output to render for those: most of them show nothing.
const LINES_OF_AGENT: usize = 100;

/// Show a job: its timeline, receipt and last lines of output
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Job to show; the newest by default
    #[arg(value_name = "JOB", default_value = "@last", hide_default_value = true, value_parser = super::which::reference, add = super::completion::jobs())]
    job: String,
}

pub(crate) async fn run(args: Args, client: Client) -> Outcome {
    let found = client.job(&args.job).await?;
    let ui = client.ui();
    if ui.json {
        ui.print_json(&found)?;
        return Ok(0);
    }
    let tail = last_lines(&client, &found).await;
    // A job that damaged its recording can still be shown.
    let tail = tail.unwrap_or_else(|failure| Some(format!("(cannot be read: {})", failure.problem.detail)));
    ui.print(&job::screen(&found, tail.as_deref(), ui).join("\n"))?;
    client.seen(&found).await;
    Ok(0)
}

/// Returns the end of the newest attempt's stdout, or of its stderr if stdout is empty.
async fn last_lines(client: &Client, job: &Job) -> Result<Option<String>, Failure> {
    let Some(attempt) = job.attempts.last().filter(|attempt| attempt.has_run()) else {
        return Ok(None);
    };
    // Skip the requests if the receipt says that nothing was written. That of a host that went away says nothing.
    let may_have = |receipt: &Receipt| receipt.output.seen > 0 || receipt.proof == Proof::LeaseSelfFenced;
    if describe::has_tree(&job.phase) || attempt.receipt.as_ref().is_some_and(may_have) {
        for stream in Stream::BOTH {
            let recording = Recording { job: job.id.clone(), attempt: attempt.no, stream };
            let transcript = Transcript::midway(job).filter(|_| stream == Stream::Stdout);
            let lines = if transcript.is_some() { LINES_OF_AGENT } else { LINES };
            let (_, bytes) = recording.tail(client, lines, false).await?;
            let text = match transcript {
                Some(mut transcript) => last_lines_of(&transcript.render(&bytes)),
                None => String::from_utf8_lossy(&bytes).into_owned(),
            };
            if !text.is_empty() {
                return Ok(Some(text));
            }
            // Its last message is longer than what was read.
            if job.agent.is_some() && stream == Stream::Stdout && job.outcome.is_some() {
                let result = client.call(&output::result(&job.id)).await?;
                if !result.text.is_empty() {
                    return Ok(Some(last_lines_of(&result.text)));
                }
            }
        }
    }
    Ok(None)
}

fn last_lines_of(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}
