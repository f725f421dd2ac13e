//! Speaking with an agent: its recording is read as it grows, what it says is reported, and what is due is written to it, one line at
//! a time. Everything that matters is in the two recordings of the attempt, so whoever comes later rebuilds it from them.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lastword_agents::{self as agents, Dialogue, Heard, Outgoing, Start};
use lastword_core::receipt::Exit;
use lastword_core::report::{Found, Report, Signal};
use lastword_core::{AttemptNo, Epoch, InputNo, Job, TurnNo};
use lastword_proc::{self as proc, Error, KeeperCommand, Line, Recording, SentInput};
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::speak::Said;
use super::wire::Wire;
use super::wishes::Wishes;
use super::{Kept, Reports};

/// Bytes read at once.
const CHUNK_BYTES: usize = 64 << 10;

/// How far an agent may write ahead of us.
pub(super) const AHEAD_MAX: u64 = 32 << 20;

/// How far we read before its keeper is told: so much less may it write ahead.
const TRIM_EVERY: u64 = 4 << 20;

/// What is kept of a recording behind what is understood. Most never come to this.
const KEPT_BYTES: u64 = 64 << 20;

/// How far we read before what is understood is stored, so that what lies before is not needed any more.
const STORE_EVERY: u64 = 16 << 20;

/// Pause before something is said again that had no room.
const FULL: Duration = Duration::from_millis(100);

/// The number of an input counts lines, and names the input of the job that the line carries, if it carries one.
const NUMBER_BITS: u32 = 32;

/// A conversation with one agent.
pub(super) struct Talk {
    attempt: AttemptNo,
    epoch: Epoch,
    dir: PathBuf,
    /// Where what is understood is stored.
    stored: PathBuf,
    dialogue: Dialogue,
    recording: Recording,
    said: Arc<Said>,
    wishes: Arc<Wishes>,
    /// Lines written.
    lines: u64,
    /// Inputs of the job that were taken and are not known to be written.
    untold: VecDeque<(u64, InputNo)>,
    /// The newest line that is known to be written. That may be heard before it is heard that it was taken.
    told: u64,
    /// The newest turn, as the job counts them.
    turn: TurnNo,
    /// The newest turn that was in the log when this began. What is read again may place the beginning of one elsewhere.
    logged: TurnNo,
    /// How far its keeper knows that we have read, and how far what is understood is stored.
    trimmed: u64,
    stored_at: u64,
    /// It has no input any more.
    is_closed: bool,
}

/// A line on its way to the agent.
struct Flight {
    /// Its number.
    no: u64,
    writing: Outgoing,
    answer: oneshot::Receiver<Result<Line, Error>>,
}

/// What a line brought, or an event of the keeper.
enum Came {
    Event(Option<String>),
    Answer(Result<Result<Line, Error>, oneshot::error::RecvError>),
    Wish,
    Again,
}

impl Talk {
    /// Returns the conversation of an attempt, of which nothing was read yet; `None` for a job that is not spoken to.
    pub(super) fn of(kept: &Kept, job: &Job, epoch: Epoch, no: AttemptNo) -> Result<Option<Talk>, String> {
        let Some(spec) = job.spec.as_ref().filter(|spec| spec.work.reports_turns()) else { return Ok(None) };
        let cwd = kept.cwd(job.id, spec);
        let Some((start, terms)) = Start::of(spec, &cwd.to_string_lossy(), resumed(job, no)) else {
            return Ok(None);
        };
        let (dir, stored) = (kept.dir(job.id, no), kept.folder(job.id).join(format!("{}.dialogue", no.0)));
        let recording = Recording::open(&dir, "stdout").map_err(|error| error.to_string())?;
        let attempt = job.attempts.iter().find(|attempt| attempt.no == no);
        let (said, wishes) = kept.0.lines.talk(job.id, no).unwrap_or_default();
        let mut talk = Talk {
            attempt: no,
            epoch,
            dir,
            stored,
            dialogue: Dialogue::new(start.clone(), terms),
            recording,
            said,
            wishes,
            lines: 0,
            untold: VecDeque::new(),
            told: 0,
            turn: attempt.map_or(TurnNo(0), |attempt| attempt.turns_before),
            logged: job.turns,
            trimmed: 0,
            stored_at: 0,
            is_closed: false,
        };
        talk.restore(start);
        Ok(Some(talk))
    }

    /// Begins where the recording was understood and stored. Where that cannot be read, it begins at the beginning.
    fn restore(&mut self, start: Start) {
        let Ok(bytes) = std::fs::read(&self.stored) else { return };
        let Some((head, state)) = bytes.split_first_chunk::<12>() else { return };
        if let Ok(dialogue) = Dialogue::restored(start, state) {
            let (lines, turn) = head.split_at(8);
            self.lines = lines.try_into().map(u64::from_le_bytes).unwrap_or(0);
            self.turn = turn.try_into().map(u32::from_le_bytes).map_or(self.turn, TurnNo);
            self.stored_at = dialogue.understood();
            self.dialogue = dialogue;
        }
    }

    /// Stores what is understood. That it cannot be stored only keeps the recording longer.
    fn store(&mut self) {
        let mut bytes = self.lines.to_le_bytes().to_vec();
        bytes.extend_from_slice(&self.turn.0.to_le_bytes());
        bytes.extend_from_slice(&self.dialogue.store());
        let half = self.stored.with_extension("half");
        let stored = std::fs::write(&half, bytes).and_then(|()| std::fs::rename(&half, &self.stored));
        if stored.is_ok() {
            self.stored_at = self.dialogue.understood();
        }
    }

    /// Speaks with the agent until its keeper is gone, or has said that all is over.
    pub(super) async fn follow(&mut self, mut wire: Wire, mut told: u64, taken: u64, reports: &Reports) {
        // What was taken and not written yet is recorded once it is.
        while told < taken {
            match wire.next().await {
                Some(event) if !proc::is_ended_event(&event) => {
                    told = proc::parse_written(&event).unwrap_or(told)
                }
                _ => return,
            }
        }
        self.tell(told, reports).await;
        self.catch_up(reports).await;
        let mut flight: Option<Flight> = None;
        let (mut again, mut unheard) = (false, false);
        loop {
            self.trim();
            if flight.is_none() && !again {
                flight = self.due();
            }
            self.wishes.tell_quiet(flight.is_none() && !again && !self.dialogue.is_busy());
            let came = tokio::select! {
                biased;
                answer = answered(&mut flight) => Came::Answer(answer),
                event = wire.next() => Came::Event(event),
                () = self.wishes.came.notified() => Came::Wish,
                () = sleep(FULL), if again => Came::Again,
            };
            match came {
                Came::Wish => {}
                Came::Again => again = false,
                Came::Answer(answer) => {
                    let Some(sent) = flight.take() else { continue };
                    again = self.sent(&sent, answer, reports).await;
                    if std::mem::take(&mut unheard) {
                        self.hear(reports).await;
                    }
                }
                Came::Event(None) => return,
                Came::Event(Some(event)) => {
                    if proc::is_ended_event(&event) {
                        return;
                    }
                    if let Some((rung, alive)) = proc::parse_climbed(&event) {
                        let attempt = self.attempt;
                        Box::pin(reports.report(Report::Climbed { attempt, rung, alive })).await;
                    }
                    if let Some(upto) = proc::parse_written(&event) {
                        self.tell(upto, reports).await;
                    }
                    // What the agent says to a line is heard after that it was written, or nobody knows what it answers.
                    unheard = flight.is_some();
                    if !unheard {
                        self.hear(reports).await;
                    }
                }
            }
        }
    }

    /// Reads and reports what there is, and what was written to the agent besides: by an earlier owner, or by us on a line to the
    /// keeper that broke before we heard of it.
    async fn catch_up(&mut self, reports: &Reports) {
        // What cannot be read was not sent by anybody we could go on for.
        let all = proc::sent_inputs(&self.dir).unwrap_or_default();
        let sent = all.into_iter().filter(|input| input.no >> NUMBER_BITS > self.lines).collect();
        self.hear_beside(sent, reports).await;
    }

    /// Reads and reports what there is.
    async fn hear(&mut self, reports: &Reports) {
        self.hear_beside(VecDeque::new(), reports).await;
    }

    async fn hear_beside(&mut self, mut sent: VecDeque<SentInput>, reports: &Reports) {
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
            if self.dialogue.understood().saturating_sub(self.stored_at) > STORE_EVERY {
                self.store();
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

    /// Reads and reports what there is of an attempt that is over, and what follows from how its agent exited.
    pub(super) async fn hear_out(&mut self, exit: Option<Exit>, reports: &Reports) {
        self.catch_up(reports).await;
        let heard = exit.map(|exit| self.dialogue.exited(exit)).unwrap_or_default();
        self.report(heard, reports).await;
    }

    /// Takes note of a line that was written.
    async fn wrote(&mut self, no: u64, line: &[u8], reports: &Reports) {
        let input = InputNo((no & u64::from(u32::MAX)) as u32);
        self.lines = self.lines.max(no >> NUMBER_BITS);
        if input != InputNo(0) {
            self.untold.push_back((no, input));
        }
        let begun = self.dialogue.wrote(line, input);
        self.report(begun.into_iter().collect(), reports).await;
        self.tell(self.told, reports).await;
    }

    /// Reports that inputs up to this line were written.
    async fn tell(&mut self, upto: u64, reports: &Reports) {
        self.told = self.told.max(upto);
        let upto = self.told;
        while let Some((_, input)) = self.untold.pop_front_if(|(no, _)| *no <= upto) {
            reports.report(Report::Told { input }).await;
        }
    }

    async fn report(&mut self, heard: Vec<Heard>, reports: &Reports) {
        let last = heard.len().saturating_sub(1);
        for (index, Heard { offset, signal }) in heard.into_iter().enumerate() {
            match signal {
                // One sign of life is as good as many.
                Signal::Progress if index < last => continue,
                Signal::TurnStarted => {
                    self.turn = self.turn.next();
                    if self.turn <= self.logged {
                        continue;
                    }
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
        let writing = self.wishes.look(|wanted| {
            let interrupt = wanted.stop || wanted.interrupt == Some(self.turn);
            self.dialogue.next(&agents::Goals { inputs: &wanted.inputs, interrupt, stop: wanted.stop })
        })?;
        let no = (self.lines + 1) << NUMBER_BITS | u64::from(writing.input.0);
        let line = format!("{}\n", writing.line);
        let saying = KeeperCommand::Input { no, bytes: line.as_bytes() };
        let answer = self.said.add(saying.encode(self.epoch.0.into()));
        Some(Flight { no, writing, answer })
    }

    /// Takes note of what became of a line. Reports whether it is to be sent again, after a pause.
    async fn sent(
        &mut self,
        Flight { no, writing, .. }: &Flight,
        answer: Result<Result<Line, Error>, oneshot::error::RecvError>,
        reports: &Reports,
    ) -> bool {
        match answer {
            Ok(Ok(_)) => {
                self.wrote(*no, writing.line.as_bytes(), reports).await;
                false
            }
            Ok(Err(Error::Declined { code, .. })) if code == "full" => true,
            // It reads no more, or a later owner speaks to it.
            Ok(Err(_)) => {
                self.is_closed = true;
                false
            }
            // The connection is gone, and who holds it finds that out.
            Err(_) => true,
        }
    }

    /// Tells the keeper how far we have read, so that the agent may go on, and what we will never read again.
    fn trim(&mut self) {
        let upto = self.dialogue.next_byte();
        if upto.saturating_sub(self.trimmed) >= TRIM_EVERY {
            self.trimmed = upto;
            let free = self.stored_at.saturating_sub(KEPT_BYTES);
            // Said again with the next: nobody waits for the answer, and what nobody waits for is not said.
            let answer = self.said.add(KeeperCommand::Trim { upto, free }.encode(self.epoch.0.into()));
            tokio::spawn(answer);
        }
    }
}

/// Waits for the answer to a line, if one is on its way.
async fn answered(flight: &mut Option<Flight>) -> Result<Result<Line, Error>, oneshot::error::RecvError> {
    match flight {
        Some(flight) => (&mut flight.answer).await,
        None => std::future::pending().await,
    }
}

/// Returns how the leader of a tree exited that is over, if that is known.
pub(super) fn exit_of(report: &Report) -> Option<Exit> {
    match report {
        Report::Located { found: Found::Ended(receipt), .. } => receipt.exit,
        _ => None,
    }
}

/// Returns the conversation that an attempt goes on with: in a later attempt that of the one before, if a turn of it counts.
pub(super) fn resumed(job: &Job, attempt: AttemptNo) -> Option<&str> {
    let session = job.session.as_ref()?;
    match session.attempt == attempt {
        true => session.resumed_from.as_deref(),
        false => session.resume_reference(),
    }
}
