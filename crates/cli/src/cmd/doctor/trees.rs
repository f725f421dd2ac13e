//! `doctor --trees`: lists process trees without a job in the journal, and stops them on request. Without a daemon it lists the others, too.

use lastword_api::Code;
use lastword_proc::Kept;
use serde::Serialize;

use crate::doctor::trees::{STOPPED_MAX, kept, unowned};
use crate::failure::{Failure, Outcome, exit};
use crate::lock::{self, Holder};
use crate::paths::Paths;
use crate::ui::table::Table;
use crate::ui::{JsonList, Ui};

/// A tree as JSON.
#[derive(Debug, Serialize)]
struct Row {
    /// The job that it had.
    job: String,
    pid: Option<i32>,
    command: String,
    /// Whether the journal has the job. Listed only while no daemon runs, which would answer for it.
    has_job: bool,
    /// Whether it was stopped, and nothing of it is left.
    stopped: bool,
}

pub(super) fn run(stop: bool, ui: &Ui) -> Outcome {
    let failed = |why: String| Failure::new(Code::Unavailable, why);
    let paths = Paths::find()?;
    let trees = match unowned(&paths) {
        Ok(trees) => trees,
        Err(why) => return without_journal(&paths, stop, &why, ui),
    };
    let mut rows = Vec::new();
    for tree in &trees {
        let stopped = stop && tree.stop(STOPPED_MAX).map_err(|error| failed(error.to_string()))?.is_some();
        rows.push(row(tree, false, stopped));
    }
    // The lock of a daemon that was killed may be held for a moment by a process that it was starting.
    let runs = lock::is_held(&paths) && Holder::of(&paths).is_some_and(|holder| holder.identity().is_alive());
    if !runs {
        let is_listed = |tree: &&Kept| !trees.iter().any(|listed| listed.job == tree.job);
        let others = kept(&paths).map_err(failed)?;
        rows.extend(others.iter().filter(is_listed).map(|tree| row(tree, true, false)));
    }
    match ui.json {
        true => ui.print_json(&JsonList { items: &rows, next_cursor: None })?,
        false => show(&rows, stop, ui)?,
    }
    let is_left = stop && rows.iter().any(|row| !row.stopped && !row.has_job);
    Ok(if is_left { exit::JOB } else { 0 })
}

/// Lists every tree, since the journal cannot say which of them have a job. Those are not stopped all at once.
fn without_journal(paths: &Paths, stop: bool, why: &str, ui: &Ui) -> Outcome {
    let trees = kept(paths).map_err(|why| Failure::new(Code::Unavailable, why))?;
    let unknown =
        Failure::new(Code::Unavailable, format!("which process trees have a job is unknown: {why}"));
    let unknown = unknown.next("lastword cancel ID    # stops one of them; --all stops all");
    if stop {
        return Err(unknown);
    }
    let rows: Vec<Row> = trees.iter().map(|tree| row(tree, false, false)).collect();
    match ui.json {
        true => ui.print_json(&JsonList { items: &rows, next_cursor: None })?,
        false => table(&rows, ui)?,
    }
    Err(unknown)
}

fn row(tree: &Kept, has_job: bool, stopped: bool) -> Row {
    let pid = tree.leader.as_ref().map(|leader| leader.pid);
    Row { job: tree.job.clone(), pid, command: tree.command.clone(), has_job, stopped }
}

fn show(rows: &[Row], stop: bool, ui: &Ui) -> Result<(), Failure> {
    if rows.is_empty() {
        ui.say("every process tree has a job in the journal");
        return Ok(());
    }
    table(rows, ui)?;
    if !stop && rows.iter().any(|row| !row.has_job) {
        ui.say("lastword doctor --trees --stop    # stops all that have no job");
    }
    if rows.iter().any(|row| row.has_job) {
        ui.say("lastword cancel ID    # stops one that has a job, also while no daemon can start");
    }
    Ok(())
}

fn table(rows: &[Row], ui: &Ui) -> Result<(), Failure> {
    let mut table = Table::new(vec!["PID", "JOB", "STATE", "COMMAND"]);
    for row in rows {
        let state = match (row.stopped, row.has_job) {
            (true, _) => "stopped",
            (false, true) => "has a job",
            (false, false) => "running",
        };
        let pid = row.pid.map_or_else(String::new, |pid| pid.to_string());
        table.push(vec![pid, row.job.clone(), state.to_owned(), row.command.clone()]);
    }
    for line in table.lines(ui.width, |row, _, text| match row {
        None => ui.out.strong(text),
        Some(_) => text.to_owned(),
    }) {
        ui.print(&line)?;
    }
    Ok(())
}
