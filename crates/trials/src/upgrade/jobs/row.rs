//! A job of the trial: how 0.1.0 makes it, its state at the takeover, what the new executable does with it, and how it must end.
//!
//! A step is a command line in which `{}` stands for the job and `{NAME}` for another one, or one of the words that `Home::step` knows.
//! A condition is `/POINTER=VALUE`, with a JSON pointer into the output of `show --json`.

use std::time::Duration;

/// When a job is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::upgrade) enum When {
    /// First: it has ended before the live jobs are made.
    First,
    /// It is live at the takeover.
    Live,
    /// It is live at the takeover and one of its clocks is running. Made last, so that the clock does not run out too early.
    Timed,
    /// The new executable makes it out of a job of 0.1.0.
    After,
}

/// What a job must have written to its standard output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::upgrade) enum Wrote {
    /// Not checked.
    Anything,
    /// Lines numbered from 1, each once, and their count at the end.
    Counted,
    /// Exactly this text.
    Text(&'static str),
    /// This many bytes.
    Bytes(u64),
}

/// A job of the trial.
#[derive(Clone, Debug)]
pub(in crate::upgrade) struct Row {
    pub(in crate::upgrade) name: String,
    pub(in crate::upgrade) when: When,
    /// The command line that makes it; empty if `Home::make` has a way of its own.
    pub(in crate::upgrade) ask: Vec<String>,
    /// Steps of 0.1.0, after the job was made.
    pub(in crate::upgrade) by_old: Vec<&'static str>,
    /// Conditions that hold at the takeover.
    pub(in crate::upgrade) before: Vec<String>,
    /// Steps while no daemon runs.
    pub(in crate::upgrade) in_gap: Vec<&'static str>,
    /// Its state changes while no daemon runs, so the new daemon's first answer differs.
    pub(in crate::upgrade) changes_in_gap: bool,
    /// Steps of the new executable, after the takeover.
    pub(in crate::upgrade) by_new: Vec<&'static str>,
    /// Conditions that hold at its end.
    pub(in crate::upgrade) ends: Vec<String>,
    /// Number of times that its program is started, over all attempts.
    pub(in crate::upgrade) starts: usize,
    pub(in crate::upgrade) wrote: Wrote,
    /// Messages that its agent receives, in order.
    pub(in crate::upgrade) heard: Option<Vec<&'static str>>,
    /// A limit stops it after this time, counted from its start.
    pub(in crate::upgrade) stops_after: Option<Duration>,
}

/// Returns a job that runs a script. `job.sh` has the functions that scripts use.
pub(super) fn run(name: &str, flags: &str, script: &str) -> Row {
    let work = ["--", "sh", "-c", &format!(r#". "$PLACE/job.sh"; {script}"#)];
    let ask = ["run", "-d", "--name", name].into_iter().chain(flags.split_whitespace()).chain(work);
    Row::new(name, ask.map(str::to_owned).collect())
}

/// Returns a job that runs an agent of `agents.toml`.
pub(super) fn agent(name: &str, agent: &str, flags: &str, prompt: &str) -> Row {
    let ask = ["run", "-d", "--name", name, "--agent", agent].into_iter().chain(flags.split_whitespace());
    Row::new(name, ask.chain(["--", prompt]).map(str::to_owned).collect())
}

/// Returns a job that another command line makes.
pub(super) fn command(name: &str, line: &str) -> Row {
    Row::new(name, line.split_whitespace().map(str::to_owned).collect())
}

/// Returns a job that `Home::make` has a way of its own for.
pub(super) fn special(name: &str) -> Row {
    Row::new(name, Vec::new())
}

impl Row {
    fn new(name: &str, ask: Vec<String>) -> Row {
        Row {
            name: name.to_owned(),
            when: When::Live,
            ask,
            by_old: Vec::new(),
            before: vec!["/phase=running".to_owned()],
            in_gap: Vec::new(),
            changes_in_gap: false,
            by_new: Vec::new(),
            ends: vec!["/outcome=completed".to_owned()],
            starts: 1,
            wrote: Wrote::Anything,
            heard: None,
            stops_after: None,
        }
    }

    /// Sets that it ends with this outcome before the upgrade.
    pub(super) fn ended(mut self, outcome: &str) -> Row {
        (self.when, self.before) = (When::First, vec!["/phase=ended".to_owned()]);
        self.ends(outcome)
    }

    /// Sets that one of its clocks is running at the takeover.
    pub(super) fn timed(mut self) -> Row {
        self.when = When::Timed;
        self
    }

    /// Sets that a limit stops it when its clock runs out; `jobs::all` fills in the time.
    pub(super) fn stopped_by_clock(mut self) -> Row {
        self.stops_after = Some(Duration::ZERO);
        self.timed()
    }

    /// Sets that the new executable makes it.
    pub(super) fn after(mut self) -> Row {
        self.when = When::After;
        self
    }

    /// Adds a step of 0.1.0.
    pub(super) fn old(mut self, step: &'static str) -> Row {
        self.by_old.push(step);
        self
    }

    /// Adds a step while no daemon runs.
    pub(super) fn gap(mut self, step: &'static str) -> Row {
        self.in_gap.push(step);
        self.changes_in_gap()
    }

    /// Sets that its state changes while no daemon runs.
    pub(super) fn changes_in_gap(mut self) -> Row {
        self.changes_in_gap = true;
        self
    }

    /// Adds steps of the new executable.
    pub(super) fn then(mut self, steps: &[&'static str]) -> Row {
        self.by_new.extend(steps);
        self
    }

    /// Sets what it waits for at the takeover.
    pub(super) fn waits(self, on: &str) -> Row {
        self.phase("queued").is(&format!("/waits/for={on}"))
    }

    /// Sets its phase at the takeover.
    pub(super) fn phase(mut self, phase: &str) -> Row {
        self.before = vec![format!("/phase={phase}")];
        self
    }

    /// Adds a condition that holds at the takeover.
    pub(super) fn is(mut self, condition: &str) -> Row {
        self.before.push(condition.to_owned());
        self
    }

    /// Sets its outcome.
    pub(super) fn ends(mut self, outcome: &str) -> Row {
        self.ends = vec![format!("/outcome={outcome}")];
        self
    }

    /// Adds a condition that holds at its end.
    pub(super) fn with(mut self, condition: &str) -> Row {
        self.ends.push(condition.to_owned());
        self
    }

    pub(super) fn starts(mut self, count: usize) -> Row {
        self.starts = count;
        self
    }

    pub(super) fn wrote(mut self, wrote: Wrote) -> Row {
        self.wrote = wrote;
        self
    }

    pub(super) fn heard(mut self, heard: &[&'static str]) -> Row {
        self.heard = Some(heard.to_vec());
        self
    }

    /// Reports whether it is live at the takeover.
    pub(in crate::upgrade) fn is_live(&self) -> bool {
        matches!(self.when, When::Live | When::Timed)
    }

    /// Reports whether it has a process at the takeover, which the new daemon adopts.
    pub(in crate::upgrade) fn is_adopted(&self) -> bool {
        self.is_live() && !["/phase=queued", "/phase=backoff"].contains(&self.before[0].as_str())
    }

    /// Reports whether it has none and waits for its next start.
    pub(in crate::upgrade) fn is_waiting(&self) -> bool {
        self.is_live() && !self.is_adopted()
    }
}
