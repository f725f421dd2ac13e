//! A conversation with an agent: reads its recording as it grows, reports what the agent says, and writes what is due, one line at a time.
//! The recordings of the attempt hold everything that matters, so a later owner rebuilds the session from them.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lastword_agents::{self as agents, Dialogue, Heard, Outgoing, Start};
use lastword_core::receipt::Exit;
use lastword_core::report::{Found, Report, Signal};
use lastword_core::{AttemptNo, Epoch, InputNo, Job, TurnNo};
use lastword_proc::{self as proc, Error, KeeperCommand, Recording, SentInput};
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::connection::KeeperConnection;
use super::edit;
use super::goals::AgentGoals;
use super::local::LocalHost;
use super::outbox::{Answer, Outbox};
use crate::mailbox::Reports;

/// Bytes read at once.
const CHUNK_BYTES: usize = 64 << 10;

/// How far an agent may write ahead of this session.
pub(super) const AHEAD_MAX: u64 = 32 << 20;

/// Bytes read before the keeper is told, which lets the agent write on.
const TRIM_EVERY: u64 = 4 << 20;

/// Bytes of a recording that are kept behind the checkpoint. Most recordings never get that long.
const KEPT_BYTES: u64 = 64 << 20;

/// Bytes read between two checkpoints.
const CHECKPOINT_EVERY: u64 = 16 << 20;

/// Bytes of an agent's error output that are looked at when it has died.
const LAST_BYTES: usize = 4 << 10;

/// Characters that are kept of each of its lines.
const LAST_CHARS: usize = 300;

/// Lines of it that are kept.
const LAST_LINES: usize = 5;

/// Pause before a line is sent again that the keeper had no room for.
const FULL_PAUSE: Duration = Duration::from_millis(100);

/// The number of a line has its own count in the upper bits and the number of the job's input that it carries, or 0, in the lower.
const NUMBER_BITS: u32 = 32;

/// A conversation with one agent.
pub(super) struct AgentSession {
    attempt: AttemptNo,
    epoch: Epoch,
    /// The folder in which the agent works.
    cwd: PathBuf,
    dir: PathBuf,
    /// The file of the checkpoint: the dialogue as it was at an offset of the recording.
    checkpoint: PathBuf,
    dialogue: Dialogue,
    recording: Recording,
    outbox: Arc<Outbox>,
    goals: Arc<AgentGoals>,
    /// Lines written.
    lines: u64,
    /// Inputs of the job that the keeper took and that are not known to be written.
    unconfirmed: VecDeque<(u64, InputNo)>,
    /// The newest line that is known to be written. This may be known before the answer that the line was taken.
    written: u64,
    /// The newest turn, by the job's count.
    turn: TurnNo,
    /// The newest turn that was in the log when this session began. A replay may place the start of a turn elsewhere.
    logged: TurnNo,
    /// The offset that the keeper knows as read.
    trimmed: u64,
    /// The offset of the checkpoint.
    checkpoint_at: u64,
    /// The agent reads no more input.
    is_closed: bool,
}

/// A line on its way to the agent.
struct Flight {
    /// Its number.
    no: u64,
    writing: Outgoing,
    answer: oneshot::Receiver<Answer>,
}

/// What the session reacts to.
enum Event {
    Keeper(Option<String>),
    Answer(Result<Answer, oneshot::error::RecvError>),
    Goals,
    Again,
}

impl AgentSession {
    /// Returns the session of an attempt at its checkpoint; `None` for a job without a dialogue.
    pub(super) fn of(
        host: &LocalHost,
        job: &Job,
        epoch: Epoch,
        no: AttemptNo,
    ) -> Result<Option<AgentSession>, String> {
        let Some(spec) = job.spec.as_ref().filter(|spec| spec.work.reports_turns()) else { return Ok(None) };
        let cwd = host.cwd(job.id, spec);
        let Some((start, terms)) = Start::of(job, no, &cwd.to_string_lossy()) else {
            return Ok(None);
        };
        let (dir, checkpoint) =
            (host.dir(job.id, no), host.folder(job.id).join(format!("{}.dialogue", no.0)));
        let recording = Recording::open(&dir, "stdout").map_err(|error| error.to_string())?;
        let attempt = job.attempts.iter().find(|attempt| attempt.no == no);
        let (outbox, goals) = host.0.keepers.agent(job.id, no).unwrap_or_default();
        let mut session = AgentSession {
            attempt: no,
            epoch,
            cwd,
            dir,
            checkpoint,
            dialogue: Dialogue::new(start.clone(), terms),
            recording,
            outbox,
            goals,
            lines: 0,
            unconfirmed: VecDeque::new(),
            written: 0,
            turn: attempt.map_or(TurnNo(0), |attempt| attempt.turns_before),
            logged: job.turns,
            trimmed: 0,
            checkpoint_at: 0,
            is_closed: false,
        };
        session.restore(start);
        Ok(Some(session))
    }

    /// Begins at the checkpoint, or at the start of the recording if there is none that can be read.
    fn restore(&mut self, start: Start) {
        let Ok(bytes) = std::fs::read(&self.checkpoint) else { return };
        let Some((head, state)) = bytes.split_first_chunk::<12>() else { return };
        if let Ok(dialogue) = Dialogue::restored(start, state) {
            let (lines, turn) = head.split_at(8);
            self.lines = lines.try_into().map(u64::from_le_bytes).unwrap_or(0);
            self.turn = turn.try_into().map(u32::from_le_bytes).map_or(self.turn, TurnNo);
            self.checkpoint_at = dialogue.understood();
            self.dialogue = dialogue;
        }
    }

    /// Writes a checkpoint. A failure only keeps the recording longer.
    fn save(&mut self) {
        let mut bytes = self.lines.to_le_bytes().to_vec();
        bytes.extend_from_slice(&self.turn.0.to_le_bytes());
        bytes.extend_from_slice(&self.dialogue.store());
        let half = self.checkpoint.with_extension("half");
        let saved = std::fs::write(&half, bytes).and_then(|()| std::fs::rename(&half, &self.checkpoint));
        if saved.is_ok() {
            self.checkpoint_at = self.dialogue.understood();
        }
    }

    /// Runs the conversation until the keeper is gone or reports the end.
    pub(super) async fn follow(
        &mut self,
        mut connection: KeeperConnection,
        mut written: u64,
        taken: u64,
        reports: &Reports,
    ) {
        // An input that was taken is recorded once it is written.
        while written < taken {
            match connection.next().await {
                Some(event) if !proc::is_ended_event(&event) => {
                    written = proc::parse_written(&event).unwrap_or(written)
                }
                _ => return,
            }
        }
        self.confirm(written, reports).await;
        self.catch_up(reports).await;
        let mut flight: Option<Flight> = None;
        let (mut again, mut unread) = (false, false);
        loop {
            self.trim();
            if flight.is_none() && !again {
                flight = self.due();
            }
            self.goals.set_quiet(flight.is_none() && !again && !self.dialogue.is_busy());
            let event = tokio::select! {
                biased;
                answer = answered(&mut flight) => Event::Answer(answer),
                event = connection.next() => Event::Keeper(event),
                () = self.goals.changed.notified() => Event::Goals,
                () = sleep(FULL_PAUSE), if again => Event::Again,
            };
            match event {
                Event::Goals => {}
                Event::Again => again = false,
                Event::Answer(answer) => {
                    let Some(sent) = flight.take() else { continue };
                    again = self.sent(&sent, answer, reports).await;
                    if std::mem::take(&mut unread) {
                        self.read_new(reports).await;
                    }
                }
                Event::Keeper(None) => return,
                Event::Keeper(Some(event)) => {
                    if proc::is_ended_event(&event) {
                        return;
                    }
                    if let Some((rung, alive)) = proc::parse_climbed(&event) {
                        let attempt = self.attempt;
                        Box::pin(reports.report(Report::Climbed { attempt, rung, alive })).await;
                    }
                    if let Some(upto) = proc::parse_written(&event) {
                        self.confirm(upto, reports).await;
                    }
                    // The reply to a line is read only after the line is known to be written: else it would answer nothing.
                    unread = flight.is_some();
                    if !unread {
                        self.read_new(reports).await;
                    }
                }
            }
        }
    }

    /// Reads what is new, and replays the lines that were written without this session knowing: by an earlier owner, or over a connection
    /// that broke before the answer.
    async fn catch_up(&mut self, reports: &Reports) {
        // An unreadable input log is treated as empty.
        let all = proc::sent_inputs(&self.dir).unwrap_or_default();
        let sent = all.into_iter().filter(|input| input.no >> NUMBER_BITS > self.lines).collect();
        self.replay(sent, reports).await;
    }

    /// Reads what is new.
    async fn read_new(&mut self, reports: &Reports) {
        self.replay(VecDeque::new(), reports).await;
    }

    /// Reads to the end of the recording, with each line that was sent at its place.
    async fn replay(&mut self, mut sent: VecDeque<SentInput>, reports: &Reports) {
        let mut chunk = vec![0; CHUNK_BYTES];
        let before = self.dialogue.next_byte();
        loop {
            let at = self.dialogue.next_byte();
            while sent.front().is_some_and(|input| input.output_at <= at) {
                let Some(input) = sent.pop_front() else { break };
                self.wrote(input.no, &input.bytes, reports).await;
            }
            let room = sent.front().map_or(u64::MAX, |input| input.output_at - at);
            let room = usize::try_from(room).unwrap_or(usize::MAX).min(CHUNK_BYTES);
            let Ok(read) = self.recording.read(at, &mut chunk[..room]) else { break };
            if read.skipped > 0 {
                self.dialogue.skip(read.skipped);
            }
            if read.bytes == 0 && read.skipped == 0 {
                break;
            }
            let heard = self.dialogue.read(&chunk[..read.bytes]);
            self.report(heard, reports).await;
            if self.dialogue.understood().saturating_sub(self.checkpoint_at) > CHECKPOINT_EVERY {
                self.save();
            }
        }
        for input in sent {
            self.wrote(input.no, &input.bytes, reports).await;
        }
        let total_bytes = self.dialogue.next_byte();
        if total_bytes > before {
            let wrote = Heard { offset: total_bytes, signal: Signal::Wrote { total_bytes } };
            self.report(vec![wrote], reports).await;
        }
    }

    /// Reads the rest of an ended attempt, and reports what follows from its exit.
    pub(super) async fn read_to_end(&mut self, exit: Option<Exit>, reports: &Reports) {
        self.catch_up(reports).await;
        let heard = match exit {
            Some(exit) => self.dialogue.exited(exit, &last_lines(&self.dir)),
            None => Vec::new(),
        };
        self.report(heard, reports).await;
    }

    /// Notes a line that was written.
    async fn wrote(&mut self, no: u64, line: &[u8], reports: &Reports) {
        let input = InputNo((no & u64::from(u32::MAX)) as u32);
        self.lines = self.lines.max(no >> NUMBER_BITS);
        if input != InputNo(0) {
            self.unconfirmed.push_back((no, input));
        }
        let begun = self.dialogue.wrote(line, input);
        self.report(begun.into_iter().collect(), reports).await;
        self.confirm(self.written, reports).await;
    }

    /// Reports every input up to this line as delivered.
    async fn confirm(&mut self, upto: u64, reports: &Reports) {
        self.written = self.written.max(upto);
        let upto = self.written;
        while let Some((_, input)) = self.unconfirmed.pop_front_if(|(no, _)| *no <= upto) {
            reports.report(Report::Told { input }).await;
        }
    }

    async fn report(&mut self, heard: Vec<Heard>, reports: &Reports) {
        let last = heard.len().saturating_sub(1);
        for (index, Heard { offset, mut signal }) in heard.into_iter().enumerate() {
            match &mut signal {
                // One sign of life is enough.
                Signal::Progress if index < last => continue,
                Signal::TurnStarted => {
                    self.turn = self.turn.next();
                    if self.turn <= self.logged {
                        continue;
                    }
                }
                Signal::QuestionAsked { ask, edits, .. } => {
                    Box::pin(edit::show(&self.cwd, ask, std::mem::take(edits))).await;
                }
                _ => {}
            }
            Box::pin(reports.report(Report::Heard { attempt: self.attempt, offset, signal })).await;
        }
    }

    /// Sends the next line that is due.
    fn due(&self) -> Option<Flight> {
        if self.is_closed {
            return None;
        }
        let writing = self.goals.read(|goals| {
            let interrupt = goals.stop || goals.interrupt == Some(self.turn);
            self.dialogue.next(&agents::Goals { inputs: &goals.inputs, interrupt, stop: goals.stop })
        })?;
        let no = (self.lines + 1) << NUMBER_BITS | u64::from(writing.input.0);
        let line = format!("{}\n", writing.line);
        let command = KeeperCommand::Input { no, bytes: line.as_bytes() };
        let answer = self.outbox.add(command.encode(self.epoch.0.into()));
        Some(Flight { no, writing, answer })
    }

    /// Notes what became of a line. Reports whether to send it again after a pause.
    async fn sent(
        &mut self,
        Flight { no, writing, .. }: &Flight,
        answer: Result<Answer, oneshot::error::RecvError>,
        reports: &Reports,
    ) -> bool {
        match answer {
            Ok(Ok(_)) => {
                self.wrote(*no, writing.line.as_bytes(), reports).await;
                false
            }
            Ok(Err(Error::Declined { code, .. })) if code == "full" => true,
            // It reads no more, or a later owner has it.
            Ok(Err(_)) => {
                self.is_closed = true;
                false
            }
            // The connection is gone; the watch finds out.
            Err(_) => true,
        }
    }

    /// Tells the keeper how far this session has read, which lets the agent write on, and which bytes it may discard.
    fn trim(&mut self) {
        let upto = self.dialogue.next_byte();
        if upto.saturating_sub(self.trimmed) >= TRIM_EVERY {
            self.trimmed = upto;
            let free = self.checkpoint_at.saturating_sub(KEPT_BYTES);
            // The outbox drops commands whose caller is gone, so a task waits for the answer.
            let answer = self.outbox.add(KeeperCommand::Trim { upto, free }.encode(self.epoch.0.into()));
            tokio::spawn(answer);
        }
    }
}

/// Waits for the answer to a line, if one is on its way.
async fn answered(flight: &mut Option<Flight>) -> Result<Answer, oneshot::error::RecvError> {
    match flight {
        Some(flight) => (&mut flight.answer).await,
        None => std::future::pending().await,
    }
}

/// Returns the last lines of an attempt's error output, in one line. Empty if there are none.
fn last_lines(dir: &Path) -> String {
    let mut tail = vec![0; LAST_BYTES];
    let read = Recording::open(dir, "stderr").and_then(|mut stderr| {
        let from = stderr.size()?.saturating_sub(LAST_BYTES as u64);
        stderr.read(from, &mut tail)
    });
    tail.truncate(read.map_or(0, |read| read.bytes));
    let text = String::from_utf8_lossy(&tail);
    let is_word = |line: &&str| !line.is_empty() && !is_frame(line);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(is_word).collect();
    let last = lines[lines.len().saturating_sub(LAST_LINES)..].iter();
    last.map(|line| line.chars().take(LAST_CHARS).collect()).collect::<Vec<String>>().join(" | ")
}

/// Reports whether a line is part of a backtrace, which follows the error that is worth reading: `12: name`, or `at file:line`.
fn is_frame(line: &str) -> bool {
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    (rest.len() < line.len() && rest.starts_with(": ")) || line.starts_with("at ")
}

/// Returns how the leader of an ended tree exited, if that is known.
pub(super) fn exit_of(report: &Report) -> Option<Exit> {
    match report {
        Report::Located { found: Found::Ended(receipt), .. } => receipt.exit,
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backtrace_does_not_hide_the_last_words() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("1");
        std::fs::create_dir(&dir).unwrap();
        std::fs::set_permissions(&dir, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        assert_eq!(last_lines(&dir), "");
        let frames: String =
            (0..40).map(|frame| format!("  {frame}: <unknown>\n      at src/main.rs:1\n")).collect();
        let text = format!("starting\n\nError: the database is locked\nLocation: src/state.rs\n{frames}");
        std::fs::write(dir.join("stderr"), text).unwrap();
        assert_eq!(last_lines(&dir), "starting | Error: the database is locked | Location: src/state.rs");
        std::fs::write(dir.join("stderr"), "1\n2\n3\n4\n5\n6\n7").unwrap();
        assert_eq!(last_lines(&dir), "3 | 4 | 5 | 6 | 7");
    }
}
