//! `doctor --orphans`: lists processes that other tools leaked, and ends them on request.

use std::str::FromStr;
use std::time::Duration;

use lastword_api::Code;
use lastword_proc::orphans::{self, Ended, Kind, Orphan};
use serde::Serialize;

use crate::failure::{Failure, Outcome, exit};
use crate::text::clean::{clean, cut};
use crate::text::{duration, size};
use crate::ui::table::Table;
use crate::ui::{JsonList, Ui, describe};

/// How long an orphan may take to exit after TERM; there is no output worth waiting for.
const GRACE: Duration = Duration::from_secs(5);

/// Scans after which new leaks are left for another run: ending a process may orphan others.
const PASSES_MAX: usize = 3;

/// What to do with orphans.
#[derive(Debug)]
pub(super) enum Action {
    /// List them.
    List,
    /// End these.
    Named(Vec<Chosen>),
    /// End every certain leak, possibly after asking.
    All { ask: bool },
}

/// An orphan as the user names it: by pid, optionally with its start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    pid: i32,
    start_ticks: Option<u64>,
}

impl FromStr for Chosen {
    type Err = String;

    fn from_str(text: &str) -> Result<Chosen, String> {
        let (pid, start) = text.split_once(':').map_or((text, None), |(pid, start)| (pid, Some(start)));
        let refused = || format!("`{}` is not a pid, or pid:start_ticks", clean(text));
        let pid = pid.parse().ok().filter(|pid| *pid > 0).ok_or_else(refused)?;
        let start_ticks = start.map(|start| start.parse().map_err(|_| refused())).transpose()?;
        Ok(Chosen { pid, start_ticks })
    }
}

impl Chosen {
    fn is(&self, orphan: &Orphan) -> bool {
        let start = self.start_ticks.unwrap_or(orphan.identity.start_ticks);
        (self.pid, start) == (orphan.identity.pid, orphan.identity.start_ticks)
    }
}

/// An orphan as JSON.
#[derive(Debug, Serialize)]
struct Row {
    pid: i32,
    start_ticks: u64,
    kind: &'static str,
    /// The agent that started it, if known.
    agent: Option<&'static str>,
    command: String,
    folder: Option<String>,
    age_ms: u64,
    cpu_ms: u64,
    memory_bytes: u64,
    descendants: usize,
    /// Why it may be intentional; absent for a certain leak.
    doubt: Option<String>,
    /// What was ended, if it was.
    ended: Option<End>,
}

/// How it was ended.
#[derive(Debug, Serialize)]
struct End {
    processes: Vec<Process>,
    /// Pids that needed KILL.
    killed: Vec<i32>,
    /// Pids that are still alive.
    left: Vec<i32>,
}

#[derive(Debug, Serialize)]
struct Process {
    pid: i32,
    start_ticks: u64,
    command: String,
}

pub(super) fn run(action: &Action, ui: &Ui) -> Outcome {
    let found = scan()?;
    let ended = match action {
        Action::List => Vec::new(),
        Action::Named(chosen) => end_named(chosen, &found)?,
        Action::All { ask } => match confirm(&found, *ask, ui)? {
            true => end_all(&found)?,
            false => Vec::new(),
        },
    };
    let is_left = ended.iter().any(|(_, ended)| !ended.left.is_empty());
    if ui.json {
        let rest =
            found.iter().filter(|orphan| !ended.iter().any(|(done, _)| done.identity == orphan.identity));
        let rows: Vec<Row> = ended
            .iter()
            .map(|(orphan, ended)| row(orphan, Some(ended)))
            .chain(rest.map(|orphan| row(orphan, None)))
            .collect();
        ui.print_json(&JsonList { items: &rows, next_cursor: None })?;
    } else if let Action::List = action {
        show(&found, ui)?;
    } else {
        ended.iter().try_for_each(|(orphan, ended)| print_ended(orphan, ended, ui))?;
    }
    Ok(if is_left { exit::JOB } else { 0 })
}

fn scan() -> Result<Vec<Orphan>, Failure> {
    orphans::scan()
        .map_err(|error| Failure::new(Code::Unavailable, format!("cannot read the process list: {error}")))
}

/// Ends the named processes, provided each is an orphan.
fn end_named(chosen: &[Chosen], found: &[Orphan]) -> Result<Vec<(Orphan, Ended)>, Failure> {
    let mut orphans = Vec::new();
    for chosen in chosen {
        let Some(orphan) = found.iter().find(|orphan| chosen.is(orphan)) else {
            let text =
                format!("process {} is gone or is not an orphan of an agent; no signal was sent", chosen.pid);
            let failure = Failure { code: exit::JOB, ..Failure::new(Code::NotFound, text) };
            return Err(failure.next("lastword doctor --orphans    # lists the orphans"));
        };
        orphans.push(orphan);
    }
    let ended = orphans.into_iter().map(end).collect::<Result<Vec<_>, _>>()?;
    Ok(ended.into_iter().flatten().collect())
}

/// Ends all leaks, and those that appear once the first are gone.
fn end_all(found: &[Orphan]) -> Result<Vec<(Orphan, Ended)>, Failure> {
    let mut done: Vec<(Orphan, Ended)> = Vec::new();
    let mut leaks: Vec<Orphan> = found.iter().filter(|orphan| orphan.doubt.is_none()).cloned().collect();
    for _ in 0..PASSES_MAX {
        for orphan in &leaks {
            done.extend(end(orphan)?);
        }
        leaks = scan()?;
        leaks.retain(|orphan| {
            orphan.doubt.is_none() && !done.iter().any(|(done, _)| done.identity == orphan.identity)
        });
        if leaks.is_empty() {
            break;
        }
    }
    Ok(done)
}

/// Ends one; `None` if it exited by itself meanwhile.
fn end(orphan: &Orphan) -> Result<Option<(Orphan, Ended)>, Failure> {
    let pid = orphan.identity.pid;
    let ended = orphans::end(&orphan.identity, GRACE)
        .map_err(|error| Failure::new(Code::Unavailable, format!("cannot end process {pid}: {error}")))?;
    Ok(ended.map(|ended| (orphan.clone(), ended)))
}

/// Asks whether to end all leaks.
fn confirm(found: &[Orphan], ask: bool, ui: &Ui) -> Result<bool, Failure> {
    let leaks = found.iter().filter(|orphan| orphan.doubt.is_none()).count() as u64;
    if leaks == 0 {
        if !ui.json {
            ui.say("no leaked processes found");
        }
        return Ok(false);
    }
    if !ask {
        return Ok(true);
    }
    let what = describe::count(leaks, "leak", "leaks");
    if !ui.can_ask {
        return Err(Failure::usage(format!("{what} would be ended")).next("use -y to confirm"));
    }
    show(found, ui)?;
    let agreed = ui.confirm(&format!("End {what} and all descendants?"));
    if !agreed {
        ui.say("no signal was sent");
    }
    Ok(agreed)
}

fn show(found: &[Orphan], ui: &Ui) -> Result<(), Failure> {
    let (leaks, doubtful): (Vec<&Orphan>, Vec<&Orphan>) =
        found.iter().partition(|orphan| orphan.doubt.is_none());
    if leaks.is_empty() {
        ui.say("no leaked processes found");
    } else {
        print(&leaks, ui)?;
    }
    if !doubtful.is_empty() {
        let gap = if leaks.is_empty() { "" } else { "\n" };
        ui.print(&format!("{gap}{}", ui.out.strong("Possibly intentional; ended only if named:")))?;
        print(&doubtful, ui)?;
    }
    if !leaks.is_empty() {
        ui.say("lastword doctor --orphans --reap PID    # ends one with its descendants; --reap-all ends the first list");
    }
    Ok(())
}

/// Prints a table; below each row its folder and, if in doubt, the reason.
fn print(orphans: &[&Orphan], ui: &Ui) -> Result<(), Failure> {
    let mut table = Table::new(vec!["PID", "AGE", "MEMORY", "CPU", "CHILDREN", "KIND", "COMMAND"]);
    for orphan in orphans {
        table.push(vec![
            orphan.identity.pid.to_string(),
            duration::show_coarse(ms(orphan.age)),
            size::show(orphan.resident_bytes),
            duration::show_coarse(ms(orphan.cpu)),
            orphan.descendants.to_string(),
            what(orphan),
            orphan.command.clone(),
        ]);
    }
    let lines = table.lines(ui.width, |row, _, text| match row {
        None => ui.out.strong(text),
        Some(_) => text.to_owned(),
    });
    let (head, rows) = lines.split_first().map_or(("", &[][..]), |(head, rows)| (head.as_str(), rows));
    ui.print(head)?;
    for (orphan, line) in orphans.iter().zip(rows) {
        ui.print(line)?;
        let folder = folder(orphan).map(|folder| format!("in {}", clean(&folder)));
        for below in folder.iter().chain(&orphan.doubt) {
            ui.print(&format!("       {}", ui.out.faint(below)))?;
        }
    }
    Ok(())
}

/// Prints the result for one.
fn print_ended(orphan: &Orphan, ended: &Ended, ui: &Ui) -> Result<(), Failure> {
    let gone = match (ended.left.as_slice(), ended.killed.is_empty()) {
        ([], true) => "ended by TERM".to_owned(),
        ([], false) => "ended; some processes ignored TERM and were killed".to_owned(),
        (left, _) => ui.out.bad(&format!(
            "{} still alive: {left:?}",
            describe::count(left.len() as u64, "process is", "processes are")
        )),
    };
    ui.print(&format!("{}  {}  {gone}", orphan.identity.pid, what(orphan)))?;
    for process in &ended.processes {
        let how = if ended.killed.contains(&process.pid) { "KILL" } else { "TERM" };
        let line = format!("  {how}  {:>7}  {}", process.pid, clean(&process.command));
        ui.print(&cut(&line, ui.width))?;
    }
    Ok(())
}

fn what(orphan: &Orphan) -> String {
    match orphan.agent {
        Some(agent) => format!("{} of {agent}", kind(orphan)),
        None => kind(orphan).to_owned(),
    }
}

fn kind(orphan: &Orphan) -> &'static str {
    match orphan.kind {
        Kind::Agent => "agent",
        Kind::Server => "server",
        Kind::Tool => "tool",
    }
}

fn folder(orphan: &Orphan) -> Option<String> {
    orphan.cwd.as_ref().map(|folder| folder.display().to_string())
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn row(orphan: &Orphan, ended: Option<&Ended>) -> Row {
    let end = |ended: &Ended| {
        let process = |process: &lastword_core::receipt::Process| Process {
            pid: process.pid,
            start_ticks: process.start_ticks,
            command: process.command.clone(),
        };
        End {
            processes: ended.processes.iter().map(process).collect(),
            killed: ended.killed.clone(),
            left: ended.left.clone(),
        }
    };
    Row {
        pid: orphan.identity.pid,
        start_ticks: orphan.identity.start_ticks,
        kind: kind(orphan),
        agent: orphan.agent,
        command: orphan.command.clone(),
        folder: folder(orphan),
        age_ms: ms(orphan.age),
        cpu_ms: ms(orphan.cpu),
        memory_bytes: orphan.resident_bytes,
        descendants: orphan.descendants,
        doubt: orphan.doubt.clone(),
        ended: ended.map(end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_orphan_is_named_by_pid_and_optional_start_time() {
        assert_eq!("12".parse(), Ok(Chosen { pid: 12, start_ticks: None }));
        assert_eq!("12:345".parse(), Ok(Chosen { pid: 12, start_ticks: Some(345) }));
        for refused in ["", "0", "-1", "claude", "12:", "12:x", "1e3"] {
            assert!(refused.parse::<Chosen>().is_err(), "{refused}");
        }
    }
}
