//! The exit record: how an attempt ended, and the proof that nothing of it is left. Published once, and durable before it is announced.

use std::io;

use lastword_core::receipt::{
    Exit, LaunchError, LaunchStep, OutputBytes, Process, Proof, Receipt, RungTaken,
};

use crate::claim::{self, VERSION};
use crate::folder::{Durable, Folder, Published};
use crate::line_format::Line;
use crate::spelling;

/// The name of the file.
pub(crate) const NAME: &str = "exit";

/// Processes listed in a record. A fork storm has thousands; the rest are only counted.
pub(crate) const PROCESSES_MAX: usize = 256;

/// How an attempt ended, with everything its keeper observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExitRecord {
    /// The facts, as a type of core.
    pub receipt: Receipt,
    /// Why nothing ran, in words; the receipt says at which step.
    pub exec_error: Option<String>,
    /// The author: `shim`, `guard` or `sweep`.
    pub by: String,
    /// When the tree became empty, in nanoseconds of the boot clock.
    pub empty_at_boot_ns: u64,
}

impl ExitRecord {
    /// Returns a record that holds only a proof.
    pub(crate) fn bare(proof: Proof, by: &str) -> ExitRecord {
        ExitRecord { receipt: Receipt::bare(proof), exec_error: None, by: by.to_owned(), empty_at_boot_ns: 0 }
    }

    /// Publishes the record and returns the one that stands: ours, or an earlier one. A malformed file of that name is moved aside:
    /// keepers publish records whole or not at all, so the tree itself put it there.
    pub(crate) fn publish(&self, folder: &Folder) -> io::Result<ExitRecord> {
        for is_first in [true, false] {
            match folder.publish(NAME, self.encode().as_bytes(), Durable::Yes, false)? {
                Published::Ours(_) => {
                    claim::mark_exit_durable(folder);
                    return Ok(self.clone());
                }
                Published::Taken if is_first && is_no_record(folder) => folder.set_aside(NAME)?,
                Published::Taken => break,
            }
        }
        let stands = ExitRecord::read(folder)?;
        stands.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the exit record cannot be parsed"))
    }

    /// Reads the record; `None` if there is none. Flushes it first unless it is known to be durable: its writer may have died before.
    pub(crate) fn read(folder: &Folder) -> io::Result<Option<ExitRecord>> {
        let Some((_, text)) = folder.read(NAME)? else { return Ok(None) };
        let record = ExitRecord::decode(&text).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "the exit record is incomplete or from a newer version",
            )
        })?;
        if !claim::is_exit_durable(folder) {
            folder.sync(NAME)?;
        }
        Ok(Some(record))
    }

    fn encode(&self) -> String {
        let receipt = &self.receipt;
        let mut text = Line::new("exit")
            .with("version", VERSION)
            .with("by", &self.by)
            .with("proof", spelling::proof_name(receipt.proof))
            .with("level", spelling::level_name(receipt.level))
            .with_some("how", receipt.exit.map(spelling::exit_name))
            .with("exited_first", u8::from(receipt.exited_first))
            .with_some("exec_error", self.exec_error.as_ref())
            .with_some("exec_step", receipt.launch_error.map(|error| spelling::step_name(error.step)))
            .with_some("exec_errno", receipt.launch_error.and_then(|error| error.errno))
            .with_some("keeper_stop", receipt.keeper_stop.map(spelling::keeper_stop_name))
            .with_some("asked_to_empty_ms", receipt.asked_to_empty_ms)
            .with("seen", receipt.output.seen)
            .with("kept", receipt.output.kept)
            .with("lost", u8::from(receipt.output_lost))
            .with("may_escape", u8::from(receipt.may_escape))
            .with("found", receipt.found)
            .with("empty_at_boot_ns", self.empty_at_boot_ns)
            .with_some("empty_at_awake_ms", receipt.empty_at.map(|at| at.0))
            .to_string();
        for taken in &receipt.rungs {
            let line = Line::new("rung").with("rung", spelling::rung_name(taken.rung)).with("at", taken.at.0);
            text.push_str(&line.to_string());
        }
        for (word, processes) in [("process", &receipt.processes), ("leftover", &receipt.leftovers)] {
            for process in processes.iter().take(PROCESSES_MAX) {
                let line = Line::new(word)
                    .with("pid", process.pid)
                    .with("start", process.start_ticks)
                    .with("command", &process.command);
                text.push_str(&line.to_string());
            }
        }
        text.push_str("end\n");
        text
    }

    fn decode(text: &str) -> Option<ExitRecord> {
        // A record without its last line is incomplete.
        let text = text.strip_suffix("end\n")?;
        let mut lines = text.lines().filter_map(Line::parse);
        let first = lines.next().filter(|line| line.kind() == "exit")?;
        if first.get::<u32>("version")? > VERSION {
            return None;
        }
        let mut receipt = Receipt {
            level: spelling::parse_level(first.text("level")?)?,
            exit: first.text("how").and_then(spelling::parse_exit),
            // A keeper of 0.1.0 does not say so.
            exited_first: first.get::<u8>("exited_first") == Some(1),
            keeper_stop: first.text("keeper_stop").and_then(spelling::parse_keeper_stop),
            launch_error: first.text("exec_step").map(|step| LaunchError {
                step: spelling::parse_step(step).unwrap_or(LaunchStep::Other),
                errno: first.get("exec_errno"),
            }),
            asked_to_empty_ms: first.get("asked_to_empty_ms"),
            // A keeper of 0.1.0 does not say so.
            empty_at: first.get("empty_at_awake_ms").map(lastword_core::Awake),
            output: OutputBytes { seen: first.get("seen")?, kept: first.get("kept")? },
            output_lost: first.get::<u8>("lost")? == 1,
            may_escape: first.get::<u8>("may_escape")? == 1,
            found: first.get("found")?,
            ..Receipt::bare(spelling::parse_proof(first.text("proof")?)?)
        };
        for line in lines {
            match line.kind() {
                "rung" => receipt.rungs.push(RungTaken {
                    rung: spelling::parse_rung(line.text("rung")?)?,
                    at: lastword_core::ids::Timestamp(line.get("at")?),
                }),
                "process" => receipt.processes.push(process(&line)?),
                "leftover" => receipt.leftovers.push(process(&line)?),
                _ => {}
            }
        }
        Some(ExitRecord {
            receipt,
            exec_error: first.text("exec_error").map(str::to_owned),
            by: first.text("by")?.to_owned(),
            empty_at_boot_ns: first.get("empty_at_boot_ns")?,
        })
    }

    /// Returns the leader's exit, if known.
    pub fn exit(&self) -> Option<Exit> {
        self.receipt.exit
    }
}

/// Reports whether the file in the record's place cannot be a record. One of a newer version can.
fn is_no_record(folder: &Folder) -> bool {
    match folder.read(NAME) {
        Ok(Some((_, text))) => {
            let version =
                text.lines().next().and_then(Line::parse).and_then(|line| line.get::<u32>("version"));
            version.is_none_or(|version| version <= VERSION) && ExitRecord::decode(&text).is_none()
        }
        Ok(None) => false,
        // Unreadable by us, or not a regular file. Other errors may be temporary, so the file may still be a record.
        Err(error) => {
            error.kind() == io::ErrorKind::PermissionDenied
                || folder.is_plain(NAME).is_ok_and(|is_plain| !is_plain)
        }
    }
}

fn process(line: &Line) -> Option<Process> {
    Some(Process {
        pid: line.get("pid")?,
        start_ticks: line.get("start")?,
        command: line.text("command")?.to_owned(),
    })
}
