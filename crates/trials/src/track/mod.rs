//! `record`: failures that were reported in public, of other tools and of our own first release, re-enacted here with real processes.
//!
//! - [`row`]: a row. [`report`]: the public reports that rows come from.
//! - [`rows`]: the rows, by subject.
//! - [`left_out`]: items of the reports that have no row, and why.
//! - [`home`]: the installation of a row.
//! - [`page`]: the page, `docs/track-record.md`.

mod home;
mod left_out;
mod page;
mod report;
mod row;
mod rows;

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::place::Programs;
use home::Home;
use row::{Found, Held, Needs, Row, Seen};

const USAGE: &str = "record [ID...] [--short] [--against EXECUTABLE] [--list] [--write]

Re-enacts reported failures. Each row must hold here. Without further arguments, docs/track-record.md is written afterwards.

  ID...                 only these rows: `000-01`, `A1`; `000` is every row of that report
  --short               only rows that take a few seconds in all
  --against EXECUTABLE  on another executable, the one of 0.1.0: every row that is marked as its defect must fail there
  --list                prints the rows and runs none
  --write               writes the page and runs none";

/// How many rows run at once. Most of their time they wait.
const AT_ONCE: usize = 4;

/// Rows of `--short`: one or two of each subject, those that wait for nothing.
const SHORT: &[&str] = &[
    "000-01", "000-03", "000-08", "000-12", "000-13", "000-15", "000-22", "000-32", "000-37", "001-01",
    "001-03", "001-11", "001-12", "002-10", "002-12", "002-13", "002-15", "002-17", "A2", "A3", "A3-alone",
    "A4", "A5", "A13", "A16",
];

/// What the arguments ask for.
struct Asked {
    /// Another executable than the one of this repository.
    against: Option<PathBuf>,
    rows: Vec<&'static Row>,
    is_whole: bool,
}

/// A row that was run.
struct Done {
    seen: Seen,
    took: Duration,
}

/// Runs `record`.
pub(crate) fn run(words: &[&str]) -> Result<bool, String> {
    if words.iter().any(|word| matches!(*word, "--help" | "-h")) {
        println!("{USAGE}");
        return Ok(true);
    }
    let asked = Asked::parse(words)?;
    if words.contains(&"--list") {
        asked.rows.iter().for_each(|row| println!("{:<7} {}", row.id, row.there));
        return Ok(true);
    }
    if words.contains(&"--write") {
        return page::write().map(|()| true);
    }
    let begin = Instant::now();
    let program = match &asked.against {
        Some(program) => program.clone(),
        None => Programs::beside()?.lastword,
    };
    let wrong = run_rows(&asked, &program);
    println!("\n{} rows in {:.0} s", asked.rows.len(), begin.elapsed().as_secs_f64());
    if !wrong.is_empty() {
        eprintln!("FAILED: {}", wrong.join(", "));
        return Ok(false);
    }
    if asked.is_whole {
        page::write()?;
    }
    Ok(true)
}

impl Asked {
    fn parse(words: &[&str]) -> Result<Asked, String> {
        let mut asked = Asked { against: None, rows: Vec::new(), is_whole: true };
        let (mut ids, mut rest) = (Vec::new(), words.iter());
        while let Some(word) = rest.next() {
            match *word {
                "--against" => {
                    asked.against = Some(rest.next().ok_or("--against needs an executable")?.into())
                }
                "--short" => ids.extend(SHORT),
                "--list" | "--write" => asked.is_whole = false,
                id if id.starts_with('-') => return Err(format!("what is `{id}`?\n{USAGE}")),
                id => ids.push(id),
            }
        }
        asked.is_whole &= ids.is_empty() && asked.against.is_none();
        let is_asked = |row: &Row| ids.is_empty() || ids.iter().any(|id| row.is_called(id));
        asked.rows = rows::all().filter(|row| is_asked(row)).collect();
        match ids.iter().find(|id| !asked.rows.iter().any(|row| row.is_called(id))) {
            Some(id) => Err(format!("there is no row `{id}`: `cargo xtask record --list` has them")),
            None => Ok(asked),
        }
    }
}

impl Row {
    fn is_called(&self, name: &str) -> bool {
        self.id == name || self.id.strip_prefix(name).is_some_and(|rest| rest.starts_with('-'))
    }

    /// Re-enacts it.
    fn run(&self, program: &std::path::Path) -> Done {
        let begin = Instant::now();
        let home = Home::new(program).and_then(|home| match self.needs {
            Needs::SmallDisk => home.with_small_disk(),
            Needs::Nothing | Needs::Root => Ok(home),
        });
        let seen = home.and_then(|home| (self.act)(&home));
        Done { seen, took: begin.elapsed() }
    }

    /// Reports whether this is as it must be, on this executable or on 0.1.0.
    fn is_fine(&self, seen: &Seen, on_first: bool) -> bool {
        match (self.held, on_first) {
            (Held::From010, true) => true,
            (Held::After010, true) => matches!(seen, Ok(Found::Broken(_))),
            (Held::From010 | Held::After010, false) => matches!(seen, Ok(Found::Held(_))),
        }
    }
}

/// Runs rows side by side, prints each, and returns the ids of those that are not as they must be.
fn run_rows(asked: &Asked, program: &std::path::Path) -> Vec<&'static str> {
    let is_root = rustix::process::geteuid().is_root();
    let next = Mutex::new(asked.rows.iter());
    let wrong = Mutex::new(Vec::new());
    let work = || {
        loop {
            let Some(row) = next.lock().expect("no holder panics").next() else { break };
            if row.needs != Needs::Nothing && !is_root {
                println!("{:<7} skipped   needs root", row.id);
                continue;
            }
            let done = row.run(program);
            let is_fine = row.is_fine(&done.seen, asked.against.is_some());
            print_row(row, &done, is_fine);
            if !is_fine {
                wrong.lock().expect("no holder panics").push(row.id);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(work);
        }
    });
    let mut wrong = wrong.into_inner().expect("no holder panics");
    wrong.sort_unstable();
    wrong
}

fn print_row(row: &Row, done: &Done, is_fine: bool) {
    let (word, evidence) = match &done.seen {
        Ok(Found::Held(evidence)) => ("held", evidence),
        Ok(Found::Broken(evidence)) => ("broken", evidence),
        Err(why) => ("NOT RUN", why),
    };
    let mark = if is_fine { "" } else { "  <<< must not be" };
    let evidence: String = evidence.chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect();
    println!("{:<7} {word:<8} {:>5.1} s  {evidence}{mark}", row.id, done.took.as_secs_f64());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_of_the_threads_has_a_row_or_a_reason() {
        let mut ids: Vec<&str> = rows::all().map(|row| row.id).collect();
        ids.extend(left_out::ITEMS.iter().map(|item| item.id));
        for (thread, items) in [("000", 46), ("001", 19), ("002", 30)] {
            for item in 1..=items {
                let id = format!("{thread}-{item:02}");
                assert_eq!(ids.iter().filter(|known| **known == id).count(), 1, "{id}");
            }
        }
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count, "every id is there once");
        assert!(SHORT.iter().all(|id| ids.contains(id)));
    }

    #[test]
    fn a_defect_of_0_1_0_must_be_seen_there_and_not_here() {
        let row = |held| Row { held, ..rows::all().next().map(|row| Row { ..*row }).unwrap() };
        let (held, broken) = (Ok(Found::Held(String::new())), Ok(Found::Broken(String::new())));
        let not_run = Err(String::new());
        let fine = |row: &Row, first| [&held, &broken, &not_run].map(|seen| row.is_fine(seen, first));
        assert_eq!(fine(&row(Held::After010), true), [false, true, false]);
        assert_eq!(fine(&row(Held::After010), false), [true, false, false]);
        assert_eq!(fine(&row(Held::From010), false), [true, false, false]);
        assert_eq!(fine(&row(Held::From010), true), [true, true, true]);
    }
}
