//! `events`: prints the events of one job or of all.

use std::collections::HashMap;

use lastword_api::Event;
use lastword_client::events::{self, Filter};

use super::which::Which;
use crate::client::Client;
use crate::failure::{Failure, Outcome};
use crate::text::clean::{clean, cut};
use crate::text::moment::Clock;

/// Print the events of a job, or of all jobs
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Job whose events to print; all jobs if omitted
    #[arg(value_name = "JOB", value_parser = super::which::reference, add = super::completion::jobs())]
    job: Option<String>,
    /// Keep printing new events: of a job from its beginning, of all jobs from now on
    #[arg(short, long)]
    follow: bool,
    /// Only events of these types, such as last_word; can be repeated
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',')]
    types: Vec<String>,
    #[command(flatten)]
    which: Which,
    /// Only jobs of the conversation that this job is in
    #[arg(long, value_name = "JOB", conflicts_with = "job", value_parser = super::which::reference, add = super::completion::jobs())]
    conversation: Option<String>,
    /// Start after this position: a sequence number of the job, or a cursor over all jobs
    #[arg(long, value_name = "POSITION")]
    after: Option<String>,
}

/// Events per request.
const PAGE_EVENTS: u32 = 200;

pub(crate) async fn run(args: Args, client: Client) -> Outcome {
    let clock = Clock::local();
    let place = match (&args.job, &args.after) {
        (Some(_), Some(after)) => Some(parse_place(after)?),
        _ => None,
    };
    // Resolved once: the name may refer to another job later.
    let job = match &args.job {
        Some(reference) => Some(client.job(reference).await?.id),
        None => None,
    };
    if args.job.is_some() && args.which.is_about_jobs() {
        let text = "a job is named, so --group, --label, --folder and --parent have nothing to select";
        return Err(Failure::usage(text.to_owned()));
    }
    let (since, cwd) = (args.which.since(), args.which.folder()?);
    let Which { group, label, parent, .. } = args.which;
    let conversation = args.conversation;
    let filter = Filter { types: args.types, group, label, cwd, parent, conversation, since };
    if args.follow {
        let mut events = match (&job, args.after) {
            (None, None) => client.follow_all(&filter, end_of_feed(&client).await?),
            (None, after) => client.follow_all(&filter, after),
            (Some(job), _) => client.follow_job(job, &filter, place),
        };
        // A stream over all jobs may repeat events after it was interrupted.
        let mut newest: HashMap<String, u64> = HashMap::new();
        while let Some(event) = events.next().await? {
            let seen = newest.entry(event.job.clone()).or_default();
            if event.seq <= *seen {
                continue;
            }
            *seen = event.seq;
            print(&client, &clock, &event, job.is_none())?;
        }
        return Ok(0);
    }
    let mut after = args.after;
    loop {
        let (events, next) = page(&client, job.as_deref(), &filter, after.as_deref()).await?;
        for event in &events {
            print(&client, &clock, event, job.is_none())?;
        }
        // With a filter, a page without events need not be the last one.
        if next.is_none() || next == after {
            return Ok(0);
        }
        after = next;
    }
}

/// Parses a place in the log of a job.
fn parse_place(text: &str) -> Result<u64, Failure> {
    let number = text.parse();
    number.map_err(|_| Failure::usage(format!("--after: `{}` is not the number of an event", clean(text))))
}

/// Returns the current end of the feed.
async fn end_of_feed(client: &Client) -> Result<Option<String>, Failure> {
    Ok(client.call(&events::of_all(&Filter::default(), Some("now"), 1)).await?.next_cursor)
}

/// Fetches the events after a position, and the position after them.
async fn page(
    client: &Client,
    job: Option<&str>,
    filter: &Filter,
    after: Option<&str>,
) -> Result<(Vec<Event>, Option<String>), Failure> {
    let Some(job) = job else {
        let feed = client.call(&events::of_all(filter, after, PAGE_EVENTS)).await?;
        return Ok((feed.items, feed.next_cursor));
    };
    let page = client.call(&events::of_job(job, filter, Some(after.unwrap_or("0")), PAGE_EVENTS)).await?;
    let next = page.items.last().map(|event| event.seq.to_string());
    Ok((page.items, next))
}

fn print(client: &Client, clock: &Clock, event: &Event, with_job: bool) -> Result<(), Failure> {
    let ui = client.ui();
    if ui.json {
        return ui.print_json(event);
    }
    let time = ui.out.faint(&clock.show(event.time));
    let short = event.job.get(event.job.len().saturating_sub(8)..).unwrap_or(&event.job);
    let job = if with_job { format!("{}  ", clean(short)) } else { String::new() };
    let kind = format!("{:<18}", clean(&event.kind));
    let used = clock.show(event.time).len() + job.len() + 4 + 2 + 18 + 4;
    let text = cut(&clean(&event.text), ui.width.saturating_sub(used).max(20));
    ui.print(format!("{time}  {job}{:>4}  {}  {text}", event.seq, ui.out.strong(&kind)).trim_end())
}
