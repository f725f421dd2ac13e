//! `question`: shows what is asked, whole.

use crate::client::Client;
use crate::failure::Outcome;
use crate::text::moment::Clock;
use crate::ui::{JsonList, describe, question};

/// Show what an agent asks, whole, and how to answer it
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The name of a question stands below all of it: approve, deny and answer need it, so that nothing is approved unseen."
)]
pub(crate) struct Args {
    /// Job that asks
    #[arg(value_name = "JOB", value_parser = super::which::reference, add = super::completion::jobs())]
    job: String,
}

pub(crate) async fn run(args: Args, client: Client) -> Outcome {
    let job = client.job(&args.job).await?;
    let ui = client.ui();
    let questions = job.open_questions();
    if ui.json {
        ui.print_json(&JsonList { items: &questions, next_cursor: None })?;
        return Ok(0);
    }
    if questions.is_empty() {
        ui.say(&format!("{} asks nothing", describe::job_name(job.name.as_deref(), &job.short)));
    }
    let clock = Clock::local();
    for asked in &questions {
        for line in question::whole(asked, ui.out, ui.width) {
            ui.print(&line)?;
        }
        ui.print(&format!("    {}", question::command(&job, asked)))?;
        if let Some(deadline) = question::deadline(asked, &clock, ui.out) {
            ui.print(&deadline)?;
        }
    }
    Ok(0)
}
