//! `attach`: reconnects to a job: shows its last lines, then follows its output, and exits with its exit code.

use std::time::Duration;

use lastword_api::{
    Cancel, Cause, Code, Exit, IoKind, Job, LaunchError, LaunchStep, Outcome as Ending, Time,
};
use lastword_client::jobs;
use tokio::signal::unix::{SignalKind, signal};

use crate::client::Client;
use crate::client::follow::{self, Recording, Stream, Terminal};
use crate::failure::{Failure, Outcome, exit};
use crate::text::moment;
use crate::ui::describe;

mod agent;
mod input;
mod typed;

/// Reconnect to a job and exit as it does
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Ctrl-C detaches again. What you type goes to the job if it was started with run -i or run -t."
)]
pub(crate) struct Args {
    /// Job to attach to
    #[arg(value_name = "JOB", add = super::completion::jobs())]
    job: String,
    /// Lines of earlier output to show first
    #[arg(short = 'n', long, default_value_t = 10, value_name = "LINES")]
    lines: usize,
    /// Forward standard input even if it is not a terminal
    #[arg(short, long)]
    interactive: bool,
}

pub(crate) async fn run(args: Args, client: Client) -> Outcome {
    use std::io::IsTerminal as _;
    let job = client.job(&args.job).await?;
    let reads = job.io.kind != IoKind::None;
    if args.interactive && !reads {
        let job_name = describe::job_name(job.name.as_deref(), &job.short);
        let failure = Failure::new(
            Code::Invalid,
            format!("{job_name} reads no input: it was not started with -i or -t"),
        );
        return Err(failure.next(format!("lastword attach {}", describe::reference(&job))));
    }
    let mut from = [0, 0];
    if let Some(attempt) = job.attempts.last().filter(|attempt| attempt.has_run()) {
        for (place, stream) in from.iter_mut().zip(Stream::BOTH) {
            let recording = Recording { job: job.id.clone(), attempt: attempt.no, stream };
            *place = recording.tail(&client, args.lines).await?.0;
        }
    }
    let input = reads && (args.interactive || std::io::stdin().is_terminal());
    stay(&client, job, Stay { input, cancel_on_interrupt: false, from }).await
}

/// How long a person sees nothing before being told why.
const PATIENCE: Duration = Duration::from_secs(1);

/// How to follow a job.
pub(super) struct Stay {
    /// Forward standard input.
    pub(super) input: bool,
    /// Cancel the job on Ctrl-C instead of detaching.
    pub(super) cancel_on_interrupt: bool,
    /// Where to start in each output stream.
    pub(super) from: [u64; 2],
}

/// Follows a job until it ends, or until the user detaches.
pub(super) async fn stay(client: &Client, job: Job, stay: Stay) -> Outcome {
    let followed = job.clone();
    let no_signals =
        |error: std::io::Error| Failure::new(Code::Unavailable, format!("cannot receive signals: {error}"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(no_signals)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(no_signals)?;
    let mut hang_up = signal(SignalKind::hangup()).map_err(no_signals)?;
    let terminal = job.io.kind == IoKind::Terminal;
    let screen = if terminal { Terminal::Given } else { Terminal::Ours };
    let mut typed = std::pin::pin!(async {
        match stay.input {
            true => input::forward(client, &followed, terminal).await,
            false => std::future::pending().await,
        }
    });
    let mut questions = std::pin::pin!(async {
        if followed.agent.is_some() && !client.ui().json {
            agent::listen(client, &followed).await?;
        }
        std::future::pending::<Result<(), Failure>>().await
    });
    // Boxed, because this future would otherwise be as large as everything it follows.
    let mut watched = Box::pin(follow::to_the_end(client, job, stay.from, screen));
    let mut patience = std::pin::pin!(tokio::time::sleep(PATIENCE));
    let (mut cancelled, mut reads, mut patient) = (false, true, client.ui().watched);
    loop {
        tokio::select! {
            () = &mut patience, if patient => {
                patient = false;
                print_waiting_reason(client, &followed.id).await?;
            }
            ended = &mut watched => {
                let job = ended?;
                print_ending(client, &job);
                return Ok(code_of(&job));
            }
            failed = &mut questions => failed?,
            over = &mut typed, if reads => match over? {
                input::Over::Detached => {
                    // The cursor is wherever the job left it.
                    client.ui().say("");
                    print_still_running(client, &followed);
                    return Ok(0);
                }
                input::Over::End => reads = false,
            },
            _ = interrupt.recv() => {
                if !stay.cancel_on_interrupt {
                    print_still_running(client, &followed);
                    return Ok(exit::INTERRUPTED);
                }
                // The second Ctrl-C kills.
                cancel(client, &followed, cancelled).await?;
                cancelled = true;
            }
            _ = terminate.recv() => {
                print_still_running(client, &followed);
                return Ok(exit::SIGNAL + 15);
            }
            _ = hang_up.recv() => return Ok(exit::SIGNAL + 1),
        }
    }
}

/// Tells the user what a job without output is waiting for.
async fn print_waiting_reason(client: &Client, id: &str) -> Result<(), Failure> {
    let job = client.job(id).await?;
    if let Some(waits) = &job.waits {
        let now = Time(moment::now_ms());
        let waits = describe::waits(waits, |until| moment::between(now, until));
        let job_name = describe::job_name(job.name.as_deref(), &job.short);
        client.ui().say(&format!("{job_name} is {waits}; Ctrl-C detaches"));
    }
    Ok(())
}

async fn cancel(client: &Client, job: &Job, force: bool) -> Result<(), Failure> {
    client.call(&jobs::cancel(&job.id, &Cancel { force, wait_ms: None })).await?;
    let how = if force { " with KILL" } else { "; press Ctrl-C again to kill it" };
    client.ui().say(&format!("cancelling {}{how}", describe::job_name(job.name.as_deref(), &job.short)));
    Ok(())
}

/// Prints how a job ended, unless its exit code says everything.
fn print_ending(client: &Client, job: &Job) {
    let Some(outcome) = &job.outcome else { return };
    let attempt = job.last_attempt();
    let plain = job.agent.is_none()
        && attempt.and_then(|attempt| attempt.exit).is_some_and(|exit| exit.code.is_some());
    if matches!(outcome, Ending::Completed) || (matches!(outcome, Ending::Failed) && plain) {
        return;
    }
    let job_name = describe::job_name(job.name.as_deref(), &job.short);
    let ending = describe::ending(outcome, job.outcome_detail.as_ref(), job.cause.as_ref());
    let why = match attempt.and_then(|attempt| attempt.error.as_deref()) {
        Some(error) => format!(": {}", crate::text::clean::clean(error)),
        None => attempt
            .and_then(|attempt| attempt.exit)
            .map_or_else(String::new, |exit| format!(", {}", describe::exit(&exit))),
    };
    client.ui().say(&format!("lastword: {job_name} {ending}{why}"));
    // Users accustomed to a shell pass a whole command line as one argument.
    if job.cause == Some(Cause::Launch) && job.argv.len() == 1 && job.argv[0].contains(' ') {
        client.ui().say("  lastword run -- sh -c 'COMMAND'    # runs a command line in a shell");
    }
    if job.cause == Some(Cause::Launch) && job.agent.is_some() {
        client.ui().say(
            "  lastword doctor --agents    # checks which agents are installed, and how to install others",
        );
    }
}

/// Returns our exit code for a job we followed: its own, if it exited by itself.
pub(super) fn code_of(job: &Job) -> u8 {
    match job.outcome.as_ref() {
        Some(Ending::Cancelled) => exit::CANCELLED,
        Some(Ending::TimedOut) => exit::TIME,
        Some(Ending::Completed | Ending::Failed) => own_code(job),
        _ => exit::JOB,
    }
}

/// The error number of a program that is not there.
const ENOENT: i32 = rustix::io::Errno::NOENT.raw_os_error();

fn own_code(job: &Job) -> u8 {
    let attempt = job.last_attempt();
    match attempt.and_then(|attempt| attempt.exit) {
        // An agent's exit code means little: it may be 0 after a failure, and the agent is stopped once its work is done.
        Some(_) if job.agent.is_some() => match job.outcome {
            Some(Ending::Completed) => 0,
            _ => exit::JOB,
        },
        Some(Exit { code: Some(code), .. }) => u8::try_from(code).unwrap_or(exit::JOB),
        Some(Exit { signal: Some(signal), .. }) => {
            exit::SIGNAL.saturating_add(u8::try_from(signal).unwrap_or(0))
        }
        _ if job.cause == Some(Cause::Launch) => {
            match attempt.and_then(|attempt| attempt.launch_error.as_ref()) {
                Some(LaunchError { step: LaunchStep::Exec, errno: Some(ENOENT) }) => exit::NOT_FOUND,
                Some(LaunchError { step: LaunchStep::Exec, .. }) => exit::NOT_EXECUTABLE,
                _ => exit::OURS,
            }
        }
        _ if job.outcome == Some(Ending::Completed) => 0,
        _ => exit::JOB,
    }
}

/// Tells the user how to return to a job that keeps running.
fn print_still_running(client: &Client, job: &Job) {
    let job_name = describe::job_name(job.name.as_deref(), &job.short);
    let reference = describe::reference(job);
    client.ui().say(&format!("{job_name} keeps running; `lastword attach {reference}` reconnects to it"));
}
