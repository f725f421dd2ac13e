//! Prints the output of a job: what is recorded now, or all of it until the job ends.

use lastword_api::{Event, Job, Receipt};
use lastword_client::events::Filter;

use super::Client;
use super::dialogue::{Dialogue, Told};
use super::passage::{Passage, Terminal};
use super::recording::{Recording, Stream, say_skipped};
use crate::failure::Failure;
use crate::text::clean::clean;
use crate::ui::conversation::Conversation;

/// How to print a recording.
#[derive(Clone, Copy)]
pub(crate) struct How<'a> {
    pub(crate) terminal: Terminal,
    /// Until it ends; otherwise what is recorded now.
    pub(crate) follow: bool,
    pub(crate) told: &'a Told,
}

/// Prints a recording of a job from an offset on.
pub(crate) async fn pass_on(
    client: &Client,
    job: &Job,
    recording: &Recording,
    from: u64,
    how: How<'_>,
) -> Result<(), Failure> {
    let mut passage = Passage::of(client.ui(), recording, how.terminal, job);
    let is_dialogue = how.terminal == Terminal::Ours && recording.stream == Stream::Stdout;
    if let Some(conversation) = Conversation::of(job, recording.attempt).filter(|_| is_dialogue) {
        let (offset, told) = (from, how.told);
        let dialogue = Dialogue { client, job, recording, passage, conversation, offset, told };
        return if how.follow { dialogue.follow().await } else { dialogue.pass_on().await };
    }
    let mut offset = from;
    loop {
        let piece = recording.read(client, offset, how.follow).await?;
        say_skipped(client, recording.stream, piece.skipped);
        passage.pass_on(&piece.bytes)?;
        offset = piece.next;
        if piece.is_end || (!how.follow && piece.bytes.is_empty()) {
            return passage.end();
        }
    }
}

/// Passes on the output of a job, attempt by attempt, until the job has ended; returns the ended job. `from` has the offsets at which to
/// start in stdout and stderr of the current attempt; later attempts start at 0.
pub(crate) async fn to_the_end(
    client: &Client,
    job: Job,
    from: [u64; 2],
    terminal: Terminal,
    told: &Told,
) -> Result<Job, Failure> {
    // The newest attempt whose output was passed on.
    let mut shown = job.attempts.last().map_or(0, |attempt| attempt.no);
    say_withheld(client, job.attempts.last().and_then(|attempt| attempt.withheld.as_deref()));
    if let Some(attempt) = job.attempts.last().filter(|attempt| attempt.has_run()) {
        pass_on_both(client, &job, attempt.no, from, terminal, told).await?;
    } else {
        // It has no recording yet; the event of its launch shows it.
        shown = shown.saturating_sub(1);
    }
    let mut events = client.follow_job(&job.id, &Filter::default(), Some(job.version.saturating_sub(1)));
    while let Some(event) = events.next().await? {
        let begun = event.attempt.filter(|_| has_recording(&event));
        if let Some(attempt) = begun.filter(|attempt| *attempt > shown) {
            shown = attempt;
            say_withheld(client, event.data["withheld"].as_str());
            pass_on_both(client, &job, attempt, [0, 0], terminal, told).await?;
        }
    }
    client.job(&job.id).await
}

/// Prints which of our resource limits, and whether our nice value, the job could not be given.
fn say_withheld(client: &Client, withheld: Option<&str>) {
    if let Some(withheld) = withheld {
        let withheld = clean(withheld);
        client
            .ui()
            .say(&format!("lastword: the daemon could not give the job all of your limits: {withheld}"));
    }
}

/// Reports whether an event shows that its attempt has a recording. If the daemon was killed during the launch, the end of the attempt is
/// the only event that does.
fn has_recording(event: &Event) -> bool {
    let receipt = || serde_json::from_value::<Receipt>(event.data["receipt"].clone());
    match event.kind.as_str() {
        "launched" | "adopted" => true,
        "attempt_ended" => receipt().is_ok_and(|receipt| receipt.has_seen_a_tree()),
        _ => false,
    }
}

/// Passes on both streams of an attempt until they end.
async fn pass_on_both(
    client: &Client,
    job: &Job,
    attempt: u32,
    from: [u64; 2],
    terminal: Terminal,
    told: &Told,
) -> Result<(), Failure> {
    let recording = |stream: Stream| Recording { job: job.id.clone(), attempt, stream };
    let (out, err) = (recording(Stream::Stdout), recording(Stream::Stderr));
    let how = How { terminal, follow: true, told };
    tokio::try_join!(pass_on(client, job, &out, from[0], how), pass_on(client, job, &err, from[1], how))?;
    Ok(())
}
