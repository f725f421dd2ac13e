//! The exit record: how an attempt ended and what proves that it has. Published once, durable before anybody hears of it.

use std::io;

use lastword_core::receipt::{Exit, OutputBytes, Process, Proof, Receipt, RungTaken};

use crate::claim::{self, VERSION};
use crate::folder::{Durable, Folder, Published};
use crate::line::Line;
use crate::words;

/// The record's name in its folder.
pub(crate) const NAME: &str = "exit";

/// Processes named in a record. A fork storm has thousands; the rest is counted.
pub(crate) const PROCESSES_MAX: usize = 256;

/// An ending, with everything its keeper saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExitRecord {
    /// The facts, in the words of core.
    pub receipt: Receipt,
    /// Why nothing was run: the leader's exec failed.
    pub exec_error: Option<String>,
    /// Who wrote it: `shim`, `guard` or `sweep`.
    pub by: String,
    /// When the tree was empty, in nanoseconds of the boot clock.
    pub empty_at_boot_ns: u64,
}

impl ExitRecord {
    /// Returns a record with nothing but its proof.
    pub(crate) fn bare(proof: Proof, by: &str) -> ExitRecord {
        ExitRecord { receipt: Receipt::bare(proof), exec_error: None, by: by.to_owned(), empty_at_boot_ns: 0 }
    }

    /// Publishes it; returns the record that stands, ours or that of whoever was first. What lies there and is no record was put
    /// there by the tree itself, and gives way: keepers publish whole records or none.
    pub(crate) fn publish(&self, folder: &Folder) -> io::Result<ExitRecord> {
        for is_first in [true, false] {
            match folder.publish(NAME, self.encode().as_bytes(), Durable::Yes, false)? {
                Published::Ours(_) => {
                    claim::note_recorded(folder);
                    return Ok(self.clone());
                }
                Published::Taken if is_first && is_no_record(folder) => folder.set_aside(NAME)?,
                Published::Taken => break,
            }
        }
        let stands = ExitRecord::read(folder)?;
        stands.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the exit record cannot be read"))
    }

    /// Reads the record, if there is one. It is made durable first, unless its writer said that it is: it may have died before.
    pub(crate) fn read(folder: &Folder) -> io::Result<Option<ExitRecord>> {
        let Some((_, text)) = folder.read(NAME)? else { return Ok(None) };
        let record = ExitRecord::decode(&text).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "the exit record is torn or of a newer version")
        })?;
        if !claim::is_recorded(folder) {
            folder.sync(NAME)?;
        }
        Ok(Some(record))
    }

    fn encode(&self) -> String {
        let receipt = &self.receipt;
        let mut text = Line::new("exit")
            .with("version", VERSION)
            .with("by", &self.by)
            .with("proof", words::of_proof(receipt.proof))
            .with("level", words::of_level(receipt.level))
            .with_some("how", receipt.exit.map(words::of_exit))
            .with_some("exec_error", self.exec_error.as_ref())
            .with_some("keeper_stop", receipt.keeper_stop.map(words::of_keeper_stop))
            .with_some("asked_to_empty_ms", receipt.asked_to_empty_ms)
            .with("seen", receipt.output.seen)
            .with("kept", receipt.output.kept)
            .with("lost", u8::from(receipt.output_lost))
            .with("may_escape", u8::from(receipt.may_escape))
            .with("found", receipt.found)
            .with("empty_at_boot_ns", self.empty_at_boot_ns)
            .to_string();
        for taken in &receipt.rungs {
            let line = Line::new("rung").with("rung", words::of_rung(taken.rung)).with("at", taken.at.0);
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
        // Whatever has no end was torn.
        let text = text.strip_suffix("end\n")?;
        let mut lines = text.lines().filter_map(Line::parse);
        let first = lines.next().filter(|line| line.word() == "exit")?;
        if first.get::<u32>("version")? > VERSION {
            return None;
        }
        let mut receipt = Receipt {
            level: words::level(first.text("level")?)?,
            exit: first.text("how").and_then(words::exit),
            keeper_stop: first.text("keeper_stop").and_then(words::keeper_stop),
            asked_to_empty_ms: first.get("asked_to_empty_ms"),
            output: OutputBytes { seen: first.get("seen")?, kept: first.get("kept")? },
            output_lost: first.get::<u8>("lost")? == 1,
            may_escape: first.get::<u8>("may_escape")? == 1,
            found: first.get("found")?,
            ..Receipt::bare(words::proof(first.text("proof")?)?)
        };
        for line in lines {
            match line.word() {
                "rung" => receipt.rungs.push(RungTaken {
                    rung: words::rung(line.text("rung")?)?,
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

    /// Returns how the leader exited, if that is known.
    pub fn exit(&self) -> Option<Exit> {
        self.receipt.exit
    }
}

/// Reports whether what lies in the record's place cannot be one. One of a newer version is one.
fn is_no_record(folder: &Folder) -> bool {
    match folder.read(NAME) {
        Ok(Some((_, text))) => {
            let version =
                text.lines().next().and_then(Line::parse).and_then(|line| line.get::<u32>("version"));
            version.is_none_or(|version| version <= VERSION) && ExitRecord::decode(&text).is_none()
        }
        Ok(None) => false,
        // Not for us to read, or no plain file at all; what failed for another reason may be one.
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
