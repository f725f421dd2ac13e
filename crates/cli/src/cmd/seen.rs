//! `seen`: marks endings as read.

use lastword_client::jobs::{self, Filter};

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
    #[arg(value_name = "JOB", required_unless_present = "all", conflicts_with = "all", add = super::completion::jobs())]
    jobs: Vec<String>,
    /// All ended jobs
    #[arg(short, long)]
    all: bool,
}

/// Jobs per request.
const PAGE: u32 = 500;

pub(crate) async fn run(args: Args, client: Client) -> Outcome {
    for reference in &args.jobs {
        let marked = client.call(&jobs::seen(reference)).await;
        client.explain(reference, marked).await?;
    }
    let marked = if args.all { all(&client).await? } else { args.jobs.len() as u64 };
    let ui = client.ui();
    match ui.json {
        true => ui.print_json(&serde_json::json!({ "seen": marked }))?,
        false => ui.say(&format!("{} marked as read", describe::count(marked, "ending", "endings"))),
    }
    Ok(0)
}

/// Marks every ending that is unread now, and returns their number.
async fn all(client: &Client) -> Result<u64, Failure> {
    let (mut marked, mut cursor) = (0, None);
    loop {
        let unread = Filter { unread: Some(true), limit: Some(PAGE), cursor, ..Filter::default() };
        let page = client.call(&jobs::list(&unread)).await?;
        for row in &page.items {
            client.call(&jobs::seen(&row.id)).await?;
            marked += 1;
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(marked);
        }
    }
}
