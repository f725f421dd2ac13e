//! The requests a keeper answers, one method per verb.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use super::control::{Request, refusal};
use super::input::Offered;
use super::shim::Shim;
use crate::claim::VERSION;
use crate::clock;
use crate::lease::LeaseFile;
use crate::line_format::Line;
use crate::spelling;
use crate::tree::{self, SeenProcesses};

impl Shim {
    /// Executes a request and returns the answer.
    pub(super) fn answer(&mut self, request: &Request) -> Line {
        let line = &request.line;
        match line.kind() {
            "hello" => return Line::new("ok").with("version", VERSION),
            "status" => return self.status(),
            "watch" => {
                self.control.watch(request.client);
                return self.status();
            }
            // The size is that of a terminal somewhere else: no concern of the owner.
            "resize" => return self.resize(line),
            "input" | "close" | "interrupt" | "stop" | "deadline" | "follow" | "trim" | "hold" => {}
            // Checked before the epoch: an unknown verb must not change which owner is obeyed.
            _ => return refusal("unknown", "this keeper does not know this request"),
        }
        let epoch = line.get::<u64>("epoch").unwrap_or(0);
        if epoch < self.launch.epoch {
            let reason = format!("a newer owner controls this tree (epoch {})", self.launch.epoch);
            return refusal("stale", &reason);
        }
        self.launch.epoch = epoch;
        match line.kind() {
            "input" => self.take_input(line, &request.payload),
            "close" => {
                self.input.close();
                Line::new("ok")
            }
            "interrupt" => match self.interrupt() {
                true => Line::new("ok"),
                false => refusal("gone", "the leader has exited"),
            },
            "stop" => self.take_stop(line),
            "hold" => self.freeze(line.get::<u8>("still") == Some(1)),
            // The tree is gone: a limit would only wake the keeper, again and again.
            "deadline" | "follow" if self.ending.is_some() => Line::new("ok"),
            "deadline" => {
                self.launch.deadline = line.get("at");
                Line::new("ok")
            }
            "follow" => {
                let file = line.bytes("lease_file").map(|path| LeaseFile::new(OsStr::from_bytes(path)));
                match self.follow(file) {
                    Ok(()) => Line::new("ok"),
                    Err(_) => refusal("full", "its guard does not listen; try again later"),
                }
            }
            _ => self.trim(line),
        }
    }

    fn status(&self) -> Line {
        let now = clock::awake_ms();
        let phase = match (&self.ending, self.stop.is_requested()) {
            (Some(_), _) => "unrecorded",
            (None, true) => "stopping",
            (None, false) => "running",
        };
        let mut seen = SeenProcesses::default();
        let alive = tree::signal(rustix::process::getpid().as_raw_nonzero().get(), None, &mut seen).alive;
        let bytes_seen =
            |name| self.streams.iter().find(|stream| stream.name() == name).map(|stream| stream.seen);
        let pids: Vec<String> =
            seen.processes.iter().take(32).map(|process| process.pid.to_string()).collect();
        Line::new("ok")
            .with("phase", phase)
            .with("stuck", u8::from(self.stop.is_stuck(now)))
            .with("alive", alive)
            .with("pids", pids.join(","))
            .with_some("leader", self.leader.as_ref().map(|leader| leader.identity.pid))
            .with_some("level", self.leader.as_ref().map(|leader| spelling::level_name(leader.level)))
            .with_some("exited", self.exit.map(spelling::exit_name))
            .with_some("rung", self.stop.rungs.last().map(|taken| spelling::rung_name(taken.rung)))
            .with("stdout", bytes_seen("stdout").unwrap_or(0))
            .with("stderr", bytes_seen("stderr").unwrap_or(0))
            .with("told", self.input.completed)
            .with("taken", self.input.accepted)
            .with_some("deadline", self.launch.deadline)
            .with_some("lease", self.lease.until())
            .with("epoch", self.launch.epoch)
    }

    fn take_input(&mut self, line: &Line, payload: &[u8]) -> Line {
        let Some(no) = line.get("no") else { return refusal("malformed", "an input needs a number") };
        match self.input.offer(no, payload.to_vec()) {
            Offered::Accepted => Line::new("ok").with("taken", "now"),
            Offered::AlreadyAccepted => Line::new("ok").with("taken", "before"),
            Offered::Full => refusal("full", "the leader has not read earlier input; try again later"),
            Offered::Closed => refusal("closed", "the leader has no input, or it is closed"),
        }
    }

    /// Stops the tree. A local stop is first recorded in the claim, whose block on disk has room for a line; if that fails, the tree is
    /// stopped anyway, and the exit record will say why.
    fn take_stop(&mut self, line: &Line) -> Line {
        let force = line.get::<u8>("force") == Some(1);
        let is_local = line.get::<u8>("local") == Some(1);
        let cause = line.text("cause").unwrap_or("cancel");
        let mut durable = true;
        let mut why = None;
        if is_local {
            let reason = spelling::local_stop(cause);
            durable = self.record_stop(reason);
            why = Some(reason);
        }
        self.stop_tree(why, force, line.get("term").unwrap_or(self.launch.term_ms));
        Line::new("ok").with("durable", u8::from(durable))
    }

    /// Freezes or thaws the tree, unless it is being stopped.
    fn freeze(&mut self, on: bool) -> Line {
        match self.freeze_tree(on) {
            true => Line::new("ok"),
            false => refusal("stopping", "the tree is being stopped"),
        }
    }

    fn resize(&self, line: &Line) -> Line {
        let (Some(rows), Some(columns)) = (line.get("rows"), line.get("columns")) else {
            return refusal("malformed", "a size needs rows and columns");
        };
        match self.streams.iter().any(|stream| stream.resize(rows, columns)) {
            true => Line::new("ok"),
            false => refusal("gone", "the leader has no terminal, or it is closed"),
        }
    }

    fn trim(&mut self, line: &Line) -> Line {
        let (Some(name), Some(upto)) = (line.text("stream"), line.get("upto")) else {
            return refusal("malformed", "a trim needs a stream and an offset");
        };
        match self.streams.iter_mut().find(|stream| stream.name() == name) {
            Some(stream) => {
                stream.trim(upto, line.get("free"));
                Line::new("ok")
            }
            None => refusal("malformed", "there is no such stream"),
        }
    }
}
