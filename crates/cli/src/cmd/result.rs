//! `result`: prints the result of an ended job.

use std::io::IsTerminal as _;

use lastword_api::{Code, Outcome as Ending};
use lastword_client::output;

use crate::client::Client;
use crate::client::passage::{Passage, Terminal};
use crate::client::recording::Stream;
use crate::failure::Outcome;
use crate::text::clean::clean;
use crate::text::size;
use crate::ui::describe;

/// Print the last message of an ended agent, or output of a command
#[derive(Debug, clap::Args)]
#[command(
    after_help = "If the job reported a result (`lastword progress --result`), that is printed instead. Unless the job completed, how it ended is printed to standard error."
)]
pub(crate) struct Args {
    /// Job whose result to print; the newest by default
    #[arg(value_name = "JOB", default_value = "@last", hide_default_value = true, value_parser = super::which::reference, add = super::completion::jobs())]
    job: String,
}

pub(crate) async fn run(args: Args, client: Client) -> Outcome {
    let found = client.call(&output::result(&args.job)).await;
    let result = client.explain(&args.job, found).await.map_err(|failure| match failure.problem.code {
        Code::NotEnded => failure.next(format!("lastword wait {}    # waits until it has ended", args.job)),
        _ => failure,
    })?;
    let ui = client.ui();
    if ui.json {
        ui.print_json(&result)?;
        return Ok(0);
    }
    let text = result.reported.as_ref().unwrap_or(&result.text);
    if result.text_skipped > 0 && result.reported.is_none() {
        let skipped = size::show(result.text_skipped);
        ui.say(&format!(
            "lastword: the first {skipped} are omitted; `lastword logs {}` prints everything",
            args.job
        ));
    }
    if let Some(words) = result.text_away.as_ref().filter(|_| result.reported.is_none()) {
        ui.say(&format!("lastword: {}", clean(words)));
    }
    // Printed like the job's logs.
    let mut passage = Passage::open(ui, Stream::Stdout, Terminal::Ours);
    passage.pass_on(text.as_bytes())?;
    // A message does not end with a line feed; at a terminal, the prompt should start on a new line.
    if std::io::stdout().is_terminal() && !text.is_empty() && !text.ends_with('\n') {
        passage.pass_on(b"\n")?;
    }
    client.seen_ended(&result.id).await;
    if result.outcome != Ending::Completed {
        let ending = describe::ending(&result.outcome, result.outcome_detail.as_ref(), Some(&result.cause));
        let exit =
            result.exit.as_ref().map_or_else(String::new, |exit| format!(", {}", describe::exit(exit)));
        let error = result.error.as_deref().map_or_else(String::new, |error| format!(": {}", clean(error)));
        ui.say(&format!("lastword: {ending}{exit}{error}"));
        if text.is_empty() && result.text_away.is_none() {
            ui.say(&format!("  lastword logs {}    # prints everything it wrote", args.job));
        }
    }
    Ok(0)
}
