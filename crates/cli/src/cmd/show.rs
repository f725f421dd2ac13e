//! `show`: everything about one job.

use lastword_api::Job;

use crate::client::Client;
use crate::client::follow::{Recording, Stream};
use crate::failure::{Failure, Outcome};
use crate::text::along::Along;
use crate::ui::{job, words};

/// Lines of output at the end of the screen: enough to see what it does, not to read it.
const LINES: usize = 6;

/// Lines of an agent that are looked at for those: most of them say little.
const LINES_OF_AGENT: usize = 100;

/// Shows a job: its life, its receipt, its last lines
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which job
    #[arg(value_name = "JOB", default_value = "@last", hide_default_value = true, add = super::completion::jobs())]
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
    // What a job has done to its recording does not hide the job.
    let tail = tail.unwrap_or_else(|failure| Some(format!("(cannot be shown: {})", failure.problem.detail)));
    ui.print(&job::screen(&found, tail.as_deref(), ui).join("\n"))?;
    Ok(0)
}

/// Returns the end of what the newest attempt wrote: of its output, or of its errors if that is all there is.
async fn last_lines(client: &Client, job: &Job) -> Result<Option<String>, Failure> {
    let Some(attempt) = job.attempts.last().filter(|attempt| attempt.has_run()) else {
        return Ok(None);
    };
    // Nothing was written: known without asking, once it has ended.
    if words::has_tree(&job.phase) || attempt.receipt.as_ref().is_some_and(|receipt| receipt.output.seen > 0)
    {
        for stream in Stream::BOTH {
            let recording = Recording { job: job.id.clone(), attempt: attempt.no, stream };
            let along = Along::with(job).filter(|_| stream == Stream::Stdout);
            let lines = if along.is_some() { LINES_OF_AGENT } else { LINES };
            let (_, bytes) = recording.tail(client, lines).await?;
            let text = match along {
                Some(mut along) => last_lines_of(&along.read(&bytes)),
                None => String::from_utf8_lossy(&bytes).into_owned(),
            };
            if !text.is_empty() {
                return Ok(Some(text));
            }
        }
    }
    Ok(None)
}

fn last_lines_of(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}
