//! `seen`: marks endings as read.

use lastword_api::Code;
use lastword_client::jobs::{self, Filter};

use super::ls::PAGE_MAX;
use crate::client::Client;
use crate::failure::{Failure, Outcome};
use crate::ui::describe;

/// Mark how jobs ended as read
#[derive(Debug, clap::Args)]
#[command(
    after_help = "At a terminal, show, result, wait, cancel and attached commands do this by themselves. Unread endings come before \
                  live jobs in lists, and `prune` keeps them."
)]
pub(crate) struct Args {
    /// Ended jobs
    #[arg(value_name = "JOB", required_unless_present = "all", conflicts_with = "all", value_parser = super::which::reference, add = super::completion::jobs())]
    jobs: Vec<String>,
    /// All ended jobs
    #[arg(short, long)]
    all: bool,
}

pub(crate) async fn run(args: Args, client: Client) -> Outcome {
    let (marked, failed) = match args.all {
        true => (all(&client).await?, None),
        false => each(&args.jobs, &client).await,
    };
    let ui = client.ui();
    match ui.json {
        true => ui.print_json(&serde_json::json!({ "seen": marked }))?,
        false => ui.say(&format!("{} marked as read", describe::count(marked, "ending", "endings"))),
    }
    failed.map_or(Ok(0), Err)
}

/// Marks the endings of some jobs, and returns their number. An error does not keep the others from being marked; all but the last are
/// reported here.
async fn each(references: &[String], client: &Client) -> (u64, Option<Failure>) {
    let (mut marked, mut failed) = (0, None);
    for reference in references {
        let seen = client.call(&jobs::seen(reference)).await;
        match client.explain(reference, seen).await.map_err(|failure| not_ended(reference, failure)) {
            Ok(()) => marked += 1,
            Err(failure) => drop(failed.replace(failure).inspect(|former| client.ui().report(former))),
        }
    }
    (marked, failed)
}

fn not_ended(reference: &str, failure: Failure) -> Failure {
    match failure.problem.code {
        Code::NotEnded => {
            Failure::new(Code::NotEnded, format!("`{reference}` has not ended: there is nothing to mark"))
        }
        _ => failure,
    }
}

/// Marks every ending that is unread now, and returns their number.
async fn all(client: &Client) -> Result<u64, Failure> {
    let (mut marked, mut cursor) = (0, None);
    loop {
        let unread = Filter { unread: Some(true), limit: Some(PAGE_MAX), cursor, ..Filter::default() };
        let page = client.call(&jobs::list(&unread)).await?;
        for row in &page.items {
            match client.call(&jobs::seen(&row.id)).await {
                Ok(()) => marked += 1,
                // It was removed meanwhile.
                Err(failure) if failure.problem.code == Code::NotFound => {}
                Err(failure) => return Err(failure),
            }
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(marked);
        }
    }
}
