//! `docs/track-record.md`: the rows as a page.

use std::fmt::Write as _;
use std::fs;

use super::left_out;
use super::report::{Report, THREADS};
use super::row::{Held, Needs, Row};
use super::rows;

/// Where it is written, from the root of the repository.
const PAGE: &str = "docs/track-record.md";

const INTRODUCTION: &str = "# Track record

Failures of supervisors that were reported in public, and those that we found by attack in our own first release. Each one is re-enacted with real
processes: the command in the last column runs the product, does what the report describes, and judges the result. `cargo xtask record` runs all
of them and writes this page; a row that fails fails the command.

The promises are lines of [the contract](contract.md). A row marked † failed in version 0.1.0: `cargo xtask record --against 0.1.0` runs the rows
there and fails unless each of these does.
";

const OURS: &str = "Found by our own attacks on version 0.1.0.";

/// Writes the page.
pub(super) fn write() -> Result<(), String> {
    fs::write(PAGE, text()).map_err(|error| format!("{PAGE}: {error}"))?;
    println!("{PAGE} was written");
    Ok(())
}

/// Returns the page.
fn text() -> String {
    let mut page = INTRODUCTION.to_owned();
    for (report, title) in THREADS {
        let Report { name, link } = report;
        let _ = write!(page, "\n## {title}\n\nReported and discussed in [{name}]({link}).\n\n");
        table(&mut page, rows::sorted().filter(|row| row.report == Some(report)));
        let left: Vec<_> = left_out::ITEMS.iter().filter(|item| item.report == report).collect();
        if !left.is_empty() {
            page.push_str("\nNot re-enacted:\n\n");
            for item in left {
                let _ = writeln!(page, "- {}: {}: {}.", item.id, item.what, item.why);
            }
        }
    }
    page.push_str("\n## Other reports\n\n");
    table(&mut page, rows::sorted().filter(|row| row.report.is_some() && !row.is_of_thread()));
    let _ = write!(page, "\n## Found in version 0.1.0\n\n{OURS}\n\n");
    table(&mut page, rows::sorted().filter(|row| row.report.is_none()));
    page
}

impl Row {
    fn is_of_thread(&self) -> bool {
        THREADS.iter().any(|(thread, _)| self.report == Some(thread))
    }
}

fn table(page: &mut String, rows: impl Iterator<Item = &'static Row>) {
    page.push_str(
        "| | What happens there | What happens here | Promise | Command |\n|---|---|---|---|---|\n",
    );
    for row in rows {
        let Row { id, there, here, .. } = row;
        let name = match row.report {
            Some(Report { name, link }) if !row.is_of_thread() => format!("[{name}]({link})"),
            _ => (*id).to_owned(),
        };
        let mark = match row.held {
            Held::From010 => "",
            Held::After010 => " †",
        };
        let rights = if row.needs == Needs::Nothing { "" } else { " (as root)" };
        let promises: Vec<String> = row.promises.iter().map(|promise| format!("C{promise}")).collect();
        let promises = promises.join(" ");
        let _ = writeln!(
            page,
            "| {name}{mark} | {there} | {here} | {promises} | `cargo xtask record {id}`{rights} |"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTRACT: &str = include_str!("../../../../docs/contract.md");

    /// Returns the lines of a promise, up to its proof.
    fn promise(id: u8) -> Option<String> {
        let (_, rest) = CONTRACT.split_once(&format!("\n- **C{id}** "))?;
        Some(rest.split("\n  - ").next()?.replace("\n  ", " "))
    }

    #[test]
    fn the_page_is_current() {
        let page = include_str!("../../../../docs/track-record.md");
        assert_eq!(page, text(), "run `cargo xtask record --write`");
    }

    #[test]
    fn promises_are_in_the_contract_and_name_the_reports_they_answer() {
        for row in rows::all() {
            for id in row.promises {
                let promise = promise(*id).unwrap_or_else(|| panic!("{}: there is no promise C{id}", row.id));
                if let Some(report) = row.report.filter(|_| row.is_of_thread()) {
                    assert!(promise.contains(&format!("[{}]", report.name)), "C{id} lacks [{}]", report.name);
                    assert!(CONTRACT.contains(&format!("\n[{}]: {}\n", report.name, report.link)));
                }
            }
        }
    }

    #[test]
    fn cells_do_not_break_the_table() {
        for row in rows::all() {
            for cell in [row.there, row.here] {
                assert!(!cell.contains(['|', '\n']) && cell.ends_with('.'), "{}: {cell}", row.id);
            }
        }
    }
}
