//! What a job writes, read by offset: a piece, the end of it, or all of it as it comes.

use std::io::{IsTerminal as _, Write as _};

use lastword_api::{Event, Job, Receipt};
use lastword_client::output::{self, Part, Piece};

use super::Client;
use crate::failure::Failure;
use crate::text::clean::{Cleaner, clean};
use crate::text::size;
use crate::text::transcript::Transcript;

/// Bytes looked at for each of the last lines. Those are few that are longer on the average, and begin in the middle then.
const LINE: u64 = 2 << 10;

/// Bytes of one piece, and those looked at for the last lines at most.
const PIECE: u64 = 256 << 10;

/// How long the daemon waits for more before it answers with nothing.
const WAIT_MS: u64 = 25_000;

/// Which stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    /// Both of them.
    pub(crate) const BOTH: [Stream; 2] = [Stream::Stdout, Stream::Stderr];

    fn name(self) -> &'static str {
        match self {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        }
    }

    fn is_terminal(self) -> bool {
        match self {
            Stream::Stdout => std::io::stdout().is_terminal(),
            Stream::Stderr => std::io::stderr().is_terminal(),
        }
    }
}

/// Whose a terminal is while a job writes to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Terminal {
    /// A person's, who looks at what a job wrote.
    Ours,
    /// A person's, who wants what an agent writes as it is.
    Raw,
    /// The job's: it was given to it.
    Given,
}

/// Our own stream of the same name, for what a job writes: as it is into a file or a pipe, made harmless at a terminal, which it could
/// steer otherwise.
#[derive(Debug)]
pub(crate) struct Passage {
    stream: Stream,
    /// Makes words of what an agent writes.
    along: Option<Transcript>,
    cleaner: Option<Cleaner>,
}

impl Passage {
    /// Opens it.
    pub(crate) fn open(stream: Stream, terminal: Terminal) -> Passage {
        let is_steered = terminal != Terminal::Given && stream.is_terminal();
        Passage { stream, along: None, cleaner: is_steered.then(Cleaner::default) }
    }

    /// Opens it for what the job of an agent writes, in words.
    fn along(self, job: &Job) -> Passage {
        let along = Transcript::of(job).filter(|_| self.stream == Stream::Stdout);
        Passage { along, ..self }
    }

    /// Passes bytes of a job on.
    pub(crate) fn pass_on(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let words = self.along.as_mut().map(|along| along.render(bytes));
        let bytes = words.as_ref().map_or(bytes, String::as_bytes);
        let cleaned = self.cleaner.as_mut().map(|cleaner| cleaner.clean(bytes));
        let bytes = cleaned.as_ref().map_or(bytes, String::as_bytes);
        match self.stream {
            Stream::Stdout => {
                let mut out = std::io::stdout().lock();
                out.write_all(bytes)?;
                Ok(out.flush()?)
            }
            Stream::Stderr => Ok(std::io::stderr().lock().write_all(bytes)?),
        }
    }
}

/// A recording: one stream of one attempt.
#[derive(Clone, Debug)]
pub(crate) struct Recording {
    pub(crate) job: String,
    pub(crate) attempt: u32,
    pub(crate) stream: Stream,
}

impl Recording {
    /// Reads a piece; with `wait`, the reply comes when there is something, or nothing more will come.
    async fn read(&self, client: &Client, offset: u64, wait: bool) -> Result<Piece, Failure> {
        let wait_ms = wait.then_some(WAIT_MS);
        self.ask(client, Part { offset: Some(offset), wait_ms, ..Part::default() }).await
    }

    async fn ask(&self, client: &Client, part: Part<'_>) -> Result<Piece, Failure> {
        let (stream, attempt) = (Some(self.stream.name()), Some(self.attempt));
        client.call(&output::read(&self.job, &Part { stream, attempt, limit: Some(PIECE), ..part })).await
    }

    /// Passes on everything from an offset, to its end with `follow`, otherwise as far as there is something. What an agent
    /// writes is passed on in words if its job is given.
    pub(crate) async fn pass_on(
        &self,
        client: &Client,
        from: u64,
        follow: bool,
        agent: Option<&Job>,
    ) -> Result<(), Failure> {
        let passage = Passage::open(self.stream, Terminal::Ours);
        let passage = match agent {
            Some(job) => passage.along(job),
            None => passage,
        };
        self.pass_through(client, from, follow, passage).await
    }

    async fn pass_through(
        &self,
        client: &Client,
        from: u64,
        follow: bool,
        mut passage: Passage,
    ) -> Result<(), Failure> {
        let mut offset = from;
        loop {
            let piece = self.read(client, offset, follow).await?;
            if piece.skipped > 0 {
                let lost = size::show(piece.skipped);
                client.ui().say(&format!(
                    "lastword: {lost} of {} are not kept, and are left out here",
                    self.stream.name()
                ));
            }
            passage.pass_on(&piece.bytes)?;
            offset = piece.next;
            if piece.is_end || (!follow && piece.bytes.is_empty()) {
                return Ok(());
            }
        }
    }

    /// Returns where the last `lines` lines begin, and what is there now from that place on.
    pub(crate) async fn tail(&self, client: &Client, lines: usize) -> Result<(u64, Vec<u8>), Failure> {
        let bytes = (lines as u64).saturating_mul(LINE).min(PIECE);
        let piece = self.ask(client, Part { tail: Some(bytes), ..Part::default() }).await?;
        let begin = piece.next - piece.bytes.len() as u64;
        let cut = last_lines(&piece.bytes, lines);
        Ok((begin + cut as u64, piece.bytes[cut..].to_vec()))
    }
}

/// Returns where the last `lines` lines of a text begin.
fn last_lines(bytes: &[u8], lines: usize) -> usize {
    let body = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let mut breaks = body.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
    match lines {
        0 => bytes.len(),
        _ => breaks.nth(lines - 1).map_or(0, |(at, _)| at + 1),
    }
}

/// Passes on what a job writes, attempt by attempt, until it has ended, and returns it as it ended. `from` says where the
/// first recording of each stream begins.
pub(crate) async fn to_the_end(
    client: &Client,
    job: Job,
    from: [u64; 2],
    terminal: Terminal,
) -> Result<Job, Failure> {
    let mut shown = job.attempts.last().map_or(0, |attempt| attempt.no);
    say_withheld(client, job.attempts.last().and_then(|attempt| attempt.withheld.as_deref()));
    if let Some(attempt) = job.attempts.last().filter(|attempt| attempt.has_run()) {
        both(client, &job, attempt.no, from, terminal).await?;
    } else {
        shown = shown.saturating_sub(1);
    }
    let mut events = client.follow_job(&job.id, Some(job.version.saturating_sub(1)));
    while let Some(event) = events.next().await? {
        let begun = event.attempt.filter(|_| tells_of_a_tree(&event));
        if let Some(attempt) = begun.filter(|attempt| *attempt > shown) {
            shown = attempt;
            say_withheld(client, event.data["withheld"].as_str());
            both(client, &job, attempt, [0, 0], terminal).await?;
        }
    }
    client.job(&job.id).await
}

/// Says what of our resource limits and nice value the job could not be given.
fn say_withheld(client: &Client, withheld: Option<&str>) {
    if let Some(withheld) = withheld {
        let withheld = clean(withheld);
        client
            .ui()
            .say(&format!("lastword: the daemon could not give the job all of your limits: {withheld}"));
    }
}

/// Reports whether an event says that an attempt has a recording. Its end says so, too: it may be all that is known.
fn tells_of_a_tree(event: &Event) -> bool {
    let receipt = || serde_json::from_value::<Receipt>(event.data["receipt"].clone());
    match event.kind.as_str() {
        "launched" | "adopted" => true,
        "attempt_ended" => receipt().is_ok_and(|receipt| receipt.has_seen_a_tree()),
        _ => false,
    }
}

/// Passes on both streams of an attempt to their ends.
async fn both(
    client: &Client,
    job: &Job,
    attempt: u32,
    from: [u64; 2],
    terminal: Terminal,
) -> Result<(), Failure> {
    let recording = |stream: Stream| Recording { job: job.id.clone(), attempt, stream };
    let (out, err) = (recording(Stream::Stdout), recording(Stream::Stderr));
    let passage = |stream: Stream| match terminal {
        Terminal::Raw => Passage::open(stream, terminal),
        _ => Passage::open(stream, terminal).along(job),
    };
    tokio::try_join!(
        out.pass_through(client, from[0], true, passage(Stream::Stdout)),
        err.pass_through(client, from[1], true, passage(Stream::Stderr))
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_found_with_or_without_a_break_at_the_end() {
        for (text, lines, rest) in [
            ("a\nb\nc\n", 2, "b\nc\n"),
            ("a\nb\nc", 2, "b\nc"),
            ("a\nb\nc\n", 9, "a\nb\nc\n"),
            ("a\n\n\n", 2, "\n\n"),
            ("", 3, ""),
            ("a\nb\n", 0, ""),
        ] {
            assert_eq!(&text[last_lines(text.as_bytes(), lines)..], rest, "{lines} of {text:?}");
        }
    }
}
