//! What can be asked of a keeper, one verb after the other.

use super::control::{Request, refusal};
use super::input::Taken;
use super::shim::Shim;
use crate::claim::VERSION;
use crate::clock;
use crate::folder::Durable;
use crate::line::Line;
use crate::tree::{self, Roll};
use crate::words;

impl Shim {
    /// Does what is asked, and returns the answer.
    pub(super) fn answer(&mut self, request: &Request) -> Line {
        let line = &request.line;
        match line.word() {
            "hello" => return Line::new("ok").with("version", VERSION),
            "status" => return self.status(),
            "watch" => {
                self.control.watch(request.client);
                return self.status();
            }
            "input" | "close" | "interrupt" | "stop" | "deadline" | "lease" | "trim" | "hold" => {}
            // Before its epoch is looked at: what is not understood changes nothing, and least of all whom to obey.
            _ => return refusal("unknown", "this keeper does not know that verb"),
        }
        let epoch = line.get::<u64>("epoch").unwrap_or(0);
        if epoch < self.launch.epoch {
            let words = format!("this tree obeys epoch {}", self.launch.epoch);
            return refusal("stale", &words);
        }
        self.launch.epoch = epoch;
        match line.word() {
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
            "hold" => self.hold(line.get::<u8>("still") == Some(1)),
            "deadline" => {
                self.launch.deadline = line.get("at");
                Line::new("ok")
            }
            "lease" => {
                self.set_lease(line.get("at"));
                Line::new("ok")
            }
            _ => self.trim(line),
        }
    }

    fn status(&self) -> Line {
        let now = clock::awake_ms();
        let phase = match (&self.ending, self.stop.is_asked()) {
            (Some(_), _) => "unrecorded",
            (None, true) => "stopping",
            (None, false) => "running",
        };
        let mut roll = Roll::default();
        let alive = tree::signal(rustix::process::getpid().as_raw_nonzero().get(), None, &mut roll).alive;
        let seen = |name| self.streams.iter().find(|stream| stream.name() == name).map(|stream| stream.seen);
        let pids: Vec<String> =
            roll.processes.iter().take(32).map(|process| process.pid.to_string()).collect();
        Line::new("ok")
            .with("phase", phase)
            .with("stuck", u8::from(self.stop.is_stuck(now)))
            .with("alive", alive)
            .with("pids", pids.join(","))
            .with_some("leader", self.leader.as_ref().map(|leader| leader.identity.pid))
            .with_some("level", self.leader.as_ref().map(|leader| words::of_level(leader.level)))
            .with_some("exited", self.exit.map(words::of_exit))
            .with_some("rung", self.stop.rungs.last().map(|taken| words::of_rung(taken.rung)))
            .with("stdout", seen("stdout").unwrap_or(0))
            .with("stderr", seen("stderr").unwrap_or(0))
            .with("told", self.input.told)
            .with("taken", self.input.taken)
            .with_some("deadline", self.launch.deadline)
            .with_some("lease", self.launch.lease)
            .with("epoch", self.launch.epoch)
    }

    fn take_input(&mut self, line: &Line, payload: &[u8]) -> Line {
        let Some(no) = line.get("no") else { return refusal("malformed", "an input has a number") };
        match self.input.take(no, payload.to_vec()) {
            Taken::Yes => Line::new("ok").with("taken", "now"),
            Taken::Before => Line::new("ok").with("taken", "before"),
            Taken::Full => refusal("full", "the leader has not read what was sent before; try again later"),
            Taken::Closed => refusal("closed", "the leader has no input, or it is closed"),
        }
    }

    /// A stop that the journal could not take is made durable here first. If even that fails, the tree is stopped all the same.
    fn take_stop(&mut self, line: &Line) -> Line {
        let force = line.get::<u8>("force") == Some(1);
        let is_local = line.get::<u8>("local") == Some(1);
        let cause = line.text("cause").unwrap_or("cancel");
        let mut durable = true;
        let mut why = None;
        if is_local {
            let record = Line::new("stop").with("cause", cause).with("at", clock::wall_ms()).to_string();
            durable = self.folder.publish("stop", record.as_bytes(), Durable::Yes, false).is_ok();
            why = Some(words::local_stop(cause));
        }
        self.stop_tree(why, force, line.get("term").unwrap_or(self.launch.term_ms));
        Line::new("ok").with("durable", u8::from(durable))
    }

    /// Makes the tree hold still, or go on. Whoever is being stopped does neither.
    fn hold(&mut self, still: bool) -> Line {
        match self.hold_tree(still) {
            true => Line::new("ok"),
            false => refusal("stopping", "the tree is being stopped"),
        }
    }

    fn trim(&mut self, line: &Line) -> Line {
        let (Some(name), Some(upto)) = (line.text("stream"), line.get("upto")) else {
            return refusal("malformed", "a trim names its stream and how far");
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
