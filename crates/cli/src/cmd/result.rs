//! `result`: what came of a job that has ended.

use std::io::IsTerminal as _;

use lastword_api::{Code, JobResult, Outcome as Ending};

use crate::client::follow::{Passage, Stream, Terminal};
use crate::client::{Call, Client, job_path};
use crate::failure::Outcome;
use crate::text::size;
use crate::ui::words;

/// Prints the end of what an ended job wrote, or the last message of an agent
#[derive(Debug, clap::Args)]
#[command(after_help = "How it ended is said on standard error, unless it completed.")]
pub(crate) struct Args {
    /// Which job
    #[arg(value_name = "JOB", default_value = "@last", hide_default_value = true, add = super::completion::jobs())]
    job: String,
}

pub(crate) async fn run(args: Args, client: Client) -> Outcome {
    let found = client.call(Call::get(job_path(&args.job, "/result"))).await;
    let result: JobResult =
        client.explain(&args.job, found).await.map_err(|failure| match failure.problem.code {
            Code::NotEnded => failure.next(format!("lastword wait {}    # until it has", args.job)),
            _ => failure,
        })?;
    let ui = client.ui();
    if ui.json {
        ui.print_json(&result)?;
        return Ok(0);
    }
    if result.text_skipped > 0 {
        let skipped = size::show(result.text_skipped);
        ui.say(&format!(
            "lastword: {skipped} before this are left out; `lastword logs {}` has them",
            args.job
        ));
    }
    // What the job wrote goes out like its logs.
    let mut passage = Passage::open(Stream::Stdout, Terminal::Ours);
    passage.pass_on(result.text.as_bytes())?;
    // A message has no line break at its end, and who reads it at a terminal goes on in the next line.
    if std::io::stdout().is_terminal() && !result.text.is_empty() && !result.text.ends_with('\n') {
        passage.pass_on(b"\n")?;
    }
    if result.outcome != Ending::Completed {
        let ending = words::ending(&result.outcome, result.outcome_detail.as_ref(), Some(&result.cause));
        let exit = result.exit.as_ref().map_or_else(String::new, |exit| format!(", {}", words::exit(exit)));
        let error = result
            .error
            .as_deref()
            .map_or_else(String::new, |error| format!(": {}", crate::text::clean::clean(error)));
        ui.say(&format!("lastword: {ending}{exit}{error}"));
    }
    Ok(0)
}
