//! `attach`: comes back to a job: shows its last lines, then what it writes, and passes its exit code on.

use std::time::Duration;

use lastword_api::{Cancel, Cause, Code, Exit, IoKind, Job, Message, Outcome as Ending, Time};
use tokio::signal::unix::{SignalKind, signal};

use super::run::say_it_goes_on;
use crate::client::follow::{self, Recording, Stream, Terminal};
use crate::client::{Call, Client, job_path};
use crate::failure::{Failure, Outcome, exit};
use crate::text::moment;
use crate::ui::words;

mod agent;
mod input;
mod typed;

/// Comes back to a job, and exits as it does
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Ctrl-C lets go of the job again. A job that reads (run -i, run -t) gets what is typed."
)]
pub(crate) struct Args {
    /// Which job
    #[arg(value_name = "JOB", add = super::completion::jobs())]
    job: String,
    /// How many lines of what it wrote are shown first
    #[arg(short = 'n', long, default_value_t = 10, value_name = "LINES")]
    lines: usize,
    /// Passes standard input on, also if it is no terminal
    #[arg(short, long)]
    interactive: bool,
}

pub(crate) async fn run(args: Args, client: Client) -> Outcome {
    use std::io::IsTerminal as _;
    let job = client.job(&args.job).await?;
    let reads = job.io.kind != IoKind::None;
    if args.interactive && !reads {
        let called = words::called(job.name.as_deref(), &job.short);
        let failure =
            Failure::new(Code::Invalid, format!("{called} reads nothing: it was not started with -i or -t"));
        return Err(failure.next(format!("lastword attach {}", words::reference(&job))));
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

/// How long a person sees nothing before they are told why.
const PATIENCE: Duration = Duration::from_secs(1);

/// How to stay with a job.
pub(super) struct Stay {
    /// Passes standard input on.
    pub(super) input: bool,
    /// What Ctrl-C does.
    pub(super) cancel_on_interrupt: bool,
    /// Where its streams begin.
    pub(super) from: [u64; 2],
}

/// Stays with a job until it ends, or until somebody lets go of it.
pub(super) async fn stay(client: &Client, job: Job, stay: Stay) -> Outcome {
    let called = job.clone();
    let unheard =
        |error: std::io::Error| Failure::new(Code::Unavailable, format!("cannot hear signals: {error}"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(unheard)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(unheard)?;
    let mut hang_up = signal(SignalKind::hangup()).map_err(unheard)?;
    let terminal = job.io.kind == IoKind::Terminal;
    let whose = if terminal { Terminal::Given } else { Terminal::Ours };
    let mut typed = std::pin::pin!(async {
        match stay.input {
            true => input::pass_on(client, &called, terminal).await,
            false => std::future::pending().await,
        }
    });
    let mut wants = std::pin::pin!(async {
        if called.agent.is_some() && !client.ui().json {
            agent::listen(client, &called).await?;
        }
        std::future::pending::<Result<(), Failure>>().await
    });
    // In a box: whoever stays would be as large as all that is followed.
    let mut watched = Box::pin(follow::to_the_end(client, job, stay.from, whose));
    let mut patience = std::pin::pin!(tokio::time::sleep(PATIENCE));
    let (mut asked, mut reads, mut patient) = (false, true, client.ui().watched);
    loop {
        tokio::select! {
            () = &mut patience, if patient => {
                patient = false;
                say_what_it_waits_for(client, &called.id).await?;
            }
            ended = &mut watched => {
                let job = ended?;
                tell_ending(client, &job);
                return Ok(code_of(&job));
            }
            failed = &mut wants => failed?,
            let_go = &mut typed, if reads => match let_go? {
                input::Over::LetGo => {
                    // The terminal stands where the job left it.
                    client.ui().say("");
                    say_it_goes_on(client, &called);
                    return Ok(0);
                }
                input::Over::End => reads = false,
            },
            _ = interrupt.recv() => {
                if !stay.cancel_on_interrupt {
                    say_it_goes_on(client, &called);
                    return Ok(exit::INTERRUPTED);
                }
                // The second one means it.
                cancel(client, &called, asked).await?;
                asked = true;
            }
            _ = terminate.recv() => {
                say_it_goes_on(client, &called);
                return Ok(exit::SIGNAL + 15);
            }
            _ = hang_up.recv() => return Ok(exit::SIGNAL + 1),
        }
    }
}

/// Says to a person who sees nothing why that is.
async fn say_what_it_waits_for(client: &Client, id: &str) -> Result<(), Failure> {
    let job = client.job(id).await?;
    if let Some(waits) = &job.waits {
        let now = Time(moment::now_ms());
        let waits = words::waits(waits, |until| moment::between(now, until));
        let called = words::called(job.name.as_deref(), &job.short);
        client.ui().say(&format!("{called} {waits}; Ctrl-C lets go of it"));
    }
    Ok(())
}

async fn cancel(client: &Client, job: &Job, force: bool) -> Result<(), Failure> {
    let call = Call::post(job_path(&job.id, ":cancel"), &Cancel { force, wait_ms: None });
    client.send(&call).await?;
    let how = if force { "with KILL" } else { "; Ctrl-C again for KILL" };
    client.ui().say(&format!("cancelling {} {how}", words::called(job.name.as_deref(), &job.short)));
    Ok(())
}

/// Says how a job ended that did not simply come to its end: its output alone does not tell.
fn tell_ending(client: &Client, job: &Job) {
    let Some(outcome) = &job.outcome else { return };
    let attempt = job.last_attempt();
    let plain = job.agent.is_none()
        && attempt.and_then(|attempt| attempt.exit).is_some_and(|exit| exit.code.is_some());
    if matches!(outcome, Ending::Completed) || (matches!(outcome, Ending::Failed) && plain) {
        return;
    }
    let called = words::called(job.name.as_deref(), &job.short);
    let ending = words::ending(outcome, job.outcome_detail.as_ref(), job.cause.as_ref());
    let why = match attempt.and_then(|attempt| attempt.error.as_deref()) {
        Some(error) => format!(": {}", crate::text::clean::clean(error)),
        None => attempt
            .and_then(|attempt| attempt.exit)
            .map_or_else(String::new, |exit| format!(", {}", words::exit(&exit))),
    };
    client.ui().say(&format!("lastword: {called} {ending}{why}"));
    // Who is used to a shell hands over a line of it as one word.
    if job.cause == Some(Cause::Launch) && job.argv.len() == 1 && job.argv[0].contains(' ') {
        client.ui().say("  lastword run -- sh -c 'LINE'    # runs a line as a shell does");
    }
    if job.cause == Some(Cause::Launch) && job.agent.is_some() {
        client
            .ui()
            .say("  lastword doctor --agents    # says which agents are here, and how to get the others");
    }
}

/// Returns what to exit with for a job one stayed with: its own code, if it came to its own end.
pub(super) fn code_of(job: &Job) -> u8 {
    match job.outcome.as_ref() {
        Some(Ending::Cancelled) => exit::CANCELLED,
        Some(Ending::TimedOut) => exit::TIME,
        Some(Ending::Completed | Ending::Failed) => own_code(job),
        _ => exit::JOB,
    }
}

fn own_code(job: &Job) -> u8 {
    let attempt = job.last_attempt();
    match attempt.and_then(|attempt| attempt.exit) {
        // What an agent exits with says nothing: it may be zero after it failed, and it is stopped once its work is done.
        Some(_) if job.agent.is_some() => match job.outcome {
            Some(Ending::Completed) => 0,
            _ => exit::JOB,
        },
        Some(Exit { code: Some(code), .. }) => u8::try_from(code).unwrap_or(exit::JOB),
        Some(Exit { signal: Some(signal), .. }) => {
            exit::SIGNAL.saturating_add(u8::try_from(signal).unwrap_or(0))
        }
        _ if job.cause == Some(Cause::Launch) => {
            // The keeper says it in the words of the system: what it ran, and why that did not start.
            let error = attempt.and_then(|attempt| attempt.error.as_deref()).unwrap_or_default();
            match (error.contains("cannot run "), error.contains("(os error 2)")) {
                (true, true) => exit::NOT_FOUND,
                (true, false) => exit::NOT_EXECUTABLE,
                _ => exit::OURS,
            }
        }
        _ if job.outcome == Some(Ending::Completed) => 0,
        _ => exit::JOB,
    }
}

/// Returns a message to a job.
pub(super) fn message(job: &Job, message: Message) -> Result<Call, Failure> {
    Call::post(job_path(&job.id, "/messages"), &message).once()
}
