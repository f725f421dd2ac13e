//! The table as it is written: `docs/agents.md`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::judge;
use super::rows::ROWS;
use super::verdict::Verdict;
use crate::agents::known::AGENTS;

/// Where it is written, from the root of the repository.
const PAGE: &str = "docs/agents.md";

/// What stands in a cell.
const YES: &str = "yes";
const NO: &str = "**no**";
const CANNOT: &str = "–";
const NOT_TRIED: &str = "";

/// Where the page goes on with what was compared.
const COMPARED: &str = "\n## What survives a stop\n";

/// Writes what was compared to the end of the page.
pub(super) fn write_compared(text: &str) -> Result<(), String> {
    let page = fs::read_to_string(PAGE).map_err(|error| format!("{PAGE}: {error}"))?;
    let page = page.split_once(COMPARED).map_or(page.as_str(), |(page, _)| page);
    let made_by =
        "Each agent is stopped in the middle of a tool. Written by `cargo xtask agents --compare --write`.";
    fs::write(PAGE, format!("{page}{COMPARED}\n{made_by}\n{text}"))
        .map_err(|error| format!("{PAGE}: {error}"))
}

/// A table, as far as it is filled in.
pub(super) struct Page {
    /// What is in a cell, by the names of its row and its agent; and what is said of it below the table.
    pub(super) cells: BTreeMap<(String, String), (String, Option<String>)>,
    /// The agents that could not be had here, and why.
    pub(super) skipped: Vec<(&'static str, String)>,
}

/// Returns the names of all rows.
pub(super) fn names() -> Vec<&'static str> {
    ROWS.iter().map(|row| row.name).collect()
}

/// Returns promises as the contract calls them.
fn ids(promises: &[u16]) -> String {
    promises.iter().map(|id| format!("C{id}")).collect::<Vec<_>>().join(" ")
}

/// Writes what was found to a file, for the process that waits for it.
pub(super) fn hand_over(file: &Path, found: &BTreeMap<(&str, &str), Verdict>) -> Result<(), String> {
    let cell = |((row, agent), verdict): (&(&str, &str), &Verdict)| {
        let (mark, why) = match verdict {
            Verdict::Pass => (YES, None),
            Verdict::Fail(why) => (NO, Some(why.as_str())),
            Verdict::NotApplicable(why) => (CANNOT, Some(*why)),
        };
        json!([row, agent, mark, why])
    };
    let text = Value::Array(found.iter().map(cell).collect()).to_string();
    fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
}

impl Page {
    /// Reads what was handed over.
    pub(super) fn read(file: &Path) -> Result<Page, String> {
        let text = fs::read_to_string(file).map_err(|_| "the table was not filled in".to_owned())?;
        let found: Vec<(String, String, String, Option<String>)> =
            serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))?;
        let cells = found.into_iter().map(|(row, agent, mark, why)| ((row, agent), (mark, why))).collect();
        Ok(Page { cells, skipped: Vec::new() })
    }

    fn mark(&self, row: &str, agent: &str) -> &str {
        self.cells.get(&(row.to_owned(), agent.to_owned())).map_or(NOT_TRIED, |(mark, _)| mark)
    }

    /// Returns the table alone.
    pub(super) fn table(&self) -> String {
        let heads: Vec<String> =
            AGENTS.iter().map(|agent| format!("{} {}", agent.name, agent.version())).collect();
        let mut text = format!(
            "| behaviour | {} | what was seen | promises |\n|---|{}---|---|\n",
            heads.join(" | "),
            "---|".repeat(AGENTS.len())
        );
        for row in ROWS {
            let marks: Vec<&str> = AGENTS.iter().map(|agent| self.mark(row.name, agent.name)).collect();
            let promises = ids(row.promises);
            text.push_str(&format!(
                "| {} | {} | {} | {promises} |\n",
                row.name,
                marks.join(" | "),
                row.about
            ));
        }
        text
    }

    /// Returns the page as a whole.
    fn text(&self) -> String {
        let mut text = format!(
            "# Agents, tested\n\nWhat each agent does under Lastword. The agents are the real programs, in a network namespace with nothing but the loopback; only\n\
             their model is scripted. `cargo xtask agents --write` writes the table, and `cargo xtask agents` compares it with a new run.\n\n{}\n\
             The last column names the promises of the [contract](contract.md) that a behaviour proves. In every cell the log of every\n\
             job is also checked for {}.\n",
            self.table(),
            ids(judge::PROMISES)
        );
        let mut notes: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for ((row, agent), (mark, why)) in &self.cells {
            if let Some(why) = why.as_deref().filter(|_| mark == CANNOT) {
                notes.entry(why).or_default().push(format!("{agent} {row}"));
            }
        }
        if !notes.is_empty() {
            text.push_str("\nWhat an agent does not support:\n\n");
        }
        for (why, cells) in notes {
            text.push_str(&format!("- {}: {why}\n", cells.join(", ")));
        }
        text
    }

    /// Writes the page; what was compared stays on it. Only a table that is whole may be written.
    pub(super) fn write(&self) -> Result<(), String> {
        let missing = ROWS.len() * AGENTS.len() - self.cells.len();
        if missing > 0 {
            return Err(format!("{missing} cells are not filled in: the page is left as it was"));
        }
        let compared = fs::read_to_string(PAGE).unwrap_or_default();
        let compared = compared.split_once(COMPARED).map(|(_, compared)| format!("{COMPARED}{compared}"));
        fs::write(PAGE, self.text() + &compared.unwrap_or_default())
            .map_err(|error| format!("{PAGE}: {error}"))
    }

    /// Compares what was tried with what is written, and says what is different.
    pub(super) fn compare(&self) -> Result<bool, String> {
        let written =
            fs::read_to_string(PAGE).map_err(|error| format!("{PAGE}: {error}; `--write` makes it"))?;
        let written = marks(&written);
        let mut is_as_written = true;
        for ((row, agent), (mark, _)) in &self.cells {
            let before = written.get(&(row.clone(), agent.clone())).map_or(NOT_TRIED, String::as_str);
            if before != mark {
                println!("{PAGE} says `{before}` of {agent} and {row}: it is `{mark}`");
                is_as_written = false;
            }
        }
        for (agent, why) in &self.skipped {
            println!("SKIPPED: {agent}, all rows: {why}");
        }
        Ok(is_as_written)
    }
}

/// Reads the marks of a page, by row and agent. An agent of another version is another one.
fn marks(page: &str) -> BTreeMap<(String, String), String> {
    let mut lines = page.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let heads = lines.next().map(cells).unwrap_or_default();
    let mut marks = BTreeMap::new();
    for line in lines {
        let line = cells(line);
        let row = line.first().cloned().unwrap_or_default();
        for (head, mark) in heads.iter().zip(&line).skip(1) {
            let of = |head: &str| {
                AGENTS.iter().find(|agent| format!("{} {}", agent.name, agent.version()) == head)
            };
            if let Some(agent) = of(head) {
                marks.insert((row.clone(), agent.name.to_owned()), mark.clone());
            }
        }
    }
    marks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_reads_as_it_was_written() {
        let cell = |mark: &str, why: Option<&str>| (mark.to_owned(), why.map(str::to_owned));
        let mut cells = BTreeMap::new();
        cells.insert(("turn".to_owned(), "claude".to_owned()), cell(YES, None));
        cells.insert(("steer".to_owned(), "goose".to_owned()), cell(CANNOT, Some("it cannot")));
        let text = Page { cells, skipped: Vec::new() }.text();
        let read = marks(&text);
        assert_eq!(read[&("turn".to_owned(), "claude".to_owned())], YES);
        assert_eq!(read[&("steer".to_owned(), "goose".to_owned())], CANNOT);
        assert_eq!(read[&("turn".to_owned(), "codex".to_owned())], NOT_TRIED);
        assert!(text.contains("- goose steer: it cannot\n"), "{text}");
    }

    #[test]
    fn rows_have_names_of_their_own() {
        let mut names = names();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ROWS.len());
    }
}
