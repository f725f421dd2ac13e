//! `attach`: reconnects to a job: shows its last lines, then follows its output, and exits with its exit code.

use std::pin::Pin;
use std::time::Duration;

use lastword_api::{
    Cancel, Cause, Code, Exit, IoKind, Job, LaunchError, LaunchStep, Outcome as Ending, Time, Usage,
};
use lastword_client::jobs;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::client::Client;
use crate::client::dialogue::Told;
use crate::client::follow;
use crate::client::passage::Terminal;
use crate::client::recording::{Recording, Stream};
use crate::failure::{Failure, Outcome, exit};
use crate::text::moment;
use crate::ui::describe;
use crate::ui::progress::Progress;

mod agent;
mod input;
pub(super) mod size;
mod typed;

/// Reconnect to a job and exit as it does
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Ctrl-C detaches again. What you type goes to the job if it was started with run -i or run -t. A line that you type for an \
                  agent answers the question that is shown; if there is none, it is sent as a message, as with `send`. Ctrl-D ends that. With --json, prints the same documents as `run`."
)]
pub(crate) struct Args {
    /// Job to attach to
    #[arg(value_name = "JOB", value_parser = super::which::reference, add = super::completion::jobs())]
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
            *place = recording.tail(&client, args.lines, true).await?.0;
        }
    }
    let input = reads && (args.interactive || std::io::stdin().is_terminal());
    stay(&client, job, Stay { input, from, ..Stay::default() }).await
}

/// How long a person sees nothing before being told why.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long to wait for a signal after the reader of our output went away. Ctrl-C or a hangup goes to every process of a pipeline, and the
/// reader may die of it before we notice ours.
const SIGNAL_DELAY: Duration = Duration::from_millis(100);

/// How to follow a job.
#[derive(Default)]
pub(super) struct Stay {
    /// Forward standard input.
    pub(super) input: bool,
    /// Cancel the job on Ctrl-C instead of detaching.
    pub(super) cancel_on_interrupt: bool,
    /// This command started the job, so the job ends with the reader of its output.
    pub(super) is_starter: bool,
    /// Where to start in each output stream.
    pub(super) from: [u64; 2],
}

/// Follows a job until it ends, or until the user detaches.
pub(super) async fn stay(client: &Client, job: Job, stay: Stay) -> Outcome {
    let followed = job.clone();
    let mut signals = Signals::new()?;
    let terminal = job.io.kind == IoKind::Terminal;
    let ui = client.ui();
    let screen = match terminal {
        true => Terminal::Given,
        false if ui.read_by_person || ui.json => Terminal::Ours,
        false => Terminal::Words,
    };
    let mut typed = std::pin::pin!(async {
        match stay.input {
            true => input::forward(client, &followed, terminal).await,
            false => std::future::pending().await,
        }
    });
    // Where no borders are shown, no question waits for them.
    let told = Told::new(if screen == Terminal::Words { u64::MAX } else { 0 });
    let mut questions = std::pin::pin!(async {
        // A command asks only at its limit on output, and only where its own input is not typed.
        let asks = followed.agent.is_some() || followed.limits.output_bytes.is_some() && !stay.input;
        if asks && !client.ui().json {
            let interrupt = if stay.cancel_on_interrupt { "cancels the job" } else { "detaches" };
            Box::pin(agent::listen(client, &followed, interrupt, told.subscribe())).await?;
        }
        std::future::pending::<Result<(), Failure>>().await
    });
    let mut sizes = std::pin::pin!(size::follow(client, &followed, !stay.is_starter));
    let mut watched: Pin<Box<dyn Future<Output = Result<Job, Failure>>>> = Box::pin(async {
        print_document(client, &job)?;
        follow::to_the_end(client, job, stay.from, screen, &told).await
    });
    let mut patience = std::pin::pin!(tokio::time::sleep(PATIENCE));
    // On a fleet it may take until another host is back, which a script should say, too.
    let (mut cancelled, mut reads, mut patient) = (false, true, client.ui().watched || client.is_fleet());
    let mut is_unread = false;
    loop {
        tokio::select! {
            () = &mut patience, if patient => {
                patient = false;
                print_waiting_reason(client, &followed.id).await?;
            }
            ended = &mut watched => match ended {
                Err(failure) if failure.is_quiet() && stay.is_starter && !is_unread => {
                    is_unread = true;
                    watched = Box::pin(stop_unread(client, &followed));
                }
                ended => {
                    let job = ended?;
                    match client.ui().json && !is_unread {
                        true => print_document(client, &job)?,
                        false => print_ending(client, &job),
                    }
                    client.seen(&job).await;
                    return Ok(if is_unread { exit::PIPE } else { code_of(&job) });
                }
            },
            failed = &mut questions => failed?,
            never = &mut sizes, if terminal => match never {},
            over = &mut typed, if reads => match over? {
                input::Over::Detached => {
                    // Undoes what the job changed of our terminal.
                    drop(watched);
                    // The cursor is wherever the job left it.
                    client.ui().say("");
                    print_still_running(client, &followed);
                    return Ok(0);
                }
                input::Over::End => reads = false,
            },
            code = signals.next() => {
                if code != exit::INTERRUPTED || !stay.cancel_on_interrupt {
                    drop(watched);
                    if !is_unread || client.job(&followed.id).await?.stop.is_none() {
                        print_still_running(client, &followed);
                    }
                    return Ok(code);
                }
                // The second Ctrl-C kills.
                cancel(client, &followed, cancelled).await?;
                cancelled = true;
            }
        }
    }
}

/// With `--json`, prints the job: before its output, and after it.
fn print_document(client: &Client, job: &Job) -> Result<(), Failure> {
    match client.ui().json {
        true => client.ui().print_json(&serde_json::json!({ "type": "job", "job": job })),
        false => Ok(()),
    }
}

/// Signals that end a command, but not the job it follows.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    fn new() -> Result<Signals, Failure> {
        let listen = |kind| {
            signal(kind)
                .map_err(|error| Failure::new(Code::Unavailable, format!("cannot receive signals: {error}")))
        };
        Ok(Signals {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hang_up: listen(SignalKind::hangup())?,
        })
    }

    /// Returns the exit code for the next signal.
    async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => exit::INTERRUPTED,
            _ = self.terminate.recv() => exit::SIGNAL + 15,
            _ = self.hang_up.recv() => exit::SIGNAL + 1,
        }
    }
}

/// Stops a job whose output is no longer read, unless a signal comes first; returns the ended job.
async fn stop_unread(client: &Client, job: &Job) -> Result<Job, Failure> {
    tokio::time::sleep(SIGNAL_DELAY).await;
    let because = Cancel { reader_gone: true, ..Cancel::default() };
    let job = match client.call(&jobs::cancel(&job.id, &because)).await {
        // A daemon of version 0.1.0 does not know this cause.
        Err(failure) if failure.problem.code == Code::Invalid => {
            client.call(&jobs::cancel(&job.id, &Cancel::default())).await?
        }
        result => result?,
    };
    super::cancel::until_ended(client, job, None, &mut Progress::new(client.ui())).await
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
    client.call(&jobs::cancel(&job.id, &Cancel { force, ..Cancel::default() })).await?;
    let how = if force { " with KILL" } else { "; press Ctrl-C again to kill it" };
    client.ui().say(&format!("cancelling {}{how}", describe::job_name(job.name.as_deref(), &job.short)));
    Ok(())
}

/// Prints how a job ended, unless its exit code says everything, and what its agent has spent.
fn print_ending(client: &Client, job: &Job) {
    print_outcome(client, job);
    if job.spent != Usage::default() {
        let job_name = describe::job_name(job.name.as_deref(), &job.short);
        client.ui().say(&format!("lastword: {job_name} used {}", describe::spent(&job.spent)));
    }
}

fn print_outcome(client: &Client, job: &Job) {
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
