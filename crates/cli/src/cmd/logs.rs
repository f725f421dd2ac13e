//! `logs`: prints the output of a job.

use lastword_api::{Code, Job};

use crate::client::Client;
use crate::client::dialogue::Told;
use crate::client::follow::{self, How};
use crate::client::passage::Terminal;
use crate::client::recording::{Recording, Stream};
use crate::failure::{Failure, Outcome};
use crate::ui::describe;

/// Print the output of a job
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Lines of an agent that begin with < are messages it was sent, with > tools it used, with ! errors. With --json, each line of \
                  output is a document of its own: {\"type\": \"output\", \"attempt\", \"stream\", \"text\"}."
)]
pub(crate) struct Args {
    /// Job whose output to print; the newest by default
    #[arg(value_name = "JOB", default_value = "@last", hide_default_value = true, value_parser = super::which::reference, add = super::completion::jobs())]
    job: String,
    /// Keep printing until the job ends
    #[arg(short, long)]
    follow: bool,
    /// Print only the last lines
    #[arg(short = 'n', long, value_name = "LINES")]
    lines: Option<usize>,
    /// Print only standard output
    #[arg(long, conflicts_with = "stderr")]
    stdout: bool,
    /// Print only standard error
    #[arg(long)]
    stderr: bool,
    /// Number of the attempt; the newest by default
    #[arg(long, value_name = "N", conflicts_with = "follow")]
    attempt: Option<u32>,
    /// Print an agent's output as it is, not as readable text
    #[arg(long)]
    raw: bool,
}

pub(crate) async fn run(args: Args, client: Client) -> Outcome {
    let job = client.job(&args.job).await?;
    let terminal = if args.raw { Terminal::Raw } else { Terminal::Ours };
    let Some(attempt) = which(&args, &job)? else {
        if args.follow {
            follow::to_the_end(&client, job, [0, 0], terminal, &Told::default()).await?;
        } else {
            let job_name = describe::job_name(job.name.as_deref(), &job.short);
            let what = if job.is_ended() { "was never started" } else { "has not been started yet" };
            client.ui().say(&format!("{job_name} {what}"));
        }
        return Ok(0);
    };
    let streams: Vec<Stream> = match (args.stdout, args.stderr) {
        (true, _) => vec![Stream::Stdout],
        (_, true) => vec![Stream::Stderr],
        _ => Stream::BOTH.to_vec(),
    };
    let mut from = [0, 0];
    if let Some(lines) = args.lines {
        for (place, stream) in from.iter_mut().zip(Stream::BOTH) {
            let recording = Recording { job: job.id.clone(), attempt, stream };
            *place = recording.tail(&client, lines, args.follow).await?.0;
        }
    }
    if args.follow && streams.len() == 2 {
        follow::to_the_end(&client, job, from, terminal, &Told::default()).await?;
        return Ok(0);
    }
    let how = How { terminal, follow: args.follow, told: &Told::default() };
    for stream in streams {
        let recording = Recording { job: job.id.clone(), attempt, stream };
        let place = from[usize::from(stream == Stream::Stderr)];
        follow::pass_on(&client, &job, &recording, place, how).await?;
    }
    Ok(0)
}

/// Returns the selected attempt; `None` if there is none yet.
fn which(args: &Args, job: &Job) -> Result<Option<u32>, Failure> {
    let newest = job.attempts.last().map(|attempt| attempt.no);
    match args.attempt {
        Some(wanted) if !job.attempts.iter().any(|attempt| attempt.no == wanted) => {
            let job_name = describe::job_name(job.name.as_deref(), &job.short);
            let there = describe::count(newest.unwrap_or(0).into(), "attempt", "attempts");
            Err(Failure::new(Code::NotFound, format!("{job_name} has {there}; there is no attempt {wanted}")))
        }
        Some(wanted) => Ok(Some(wanted)),
        None => Ok(job.attempts.last().filter(|attempt| attempt.has_run()).map(|attempt| attempt.no)),
    }
}
