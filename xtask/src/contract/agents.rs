//! What real agents prove: the rows of `docs/agents.md`, which `cargo xtask agents` writes and holds to what it sees.
//!
//! A row counts as a test whose name carries the ids of its last column: `c56_c57_agent_killed`. So do the rules by which the log of
//! every job in every cell is judged.

use std::collections::BTreeSet;

use super::listing::Test;
use super::promise::PromiseId;

/// Where the rows stand.
pub(super) const PAGE: &str = "docs/agents.md";

/// The line that names what is judged in every cell.
const JUDGED: &str = "job is also checked for ";

/// What stands in a cell that holds, and in one that cannot be.
const GOOD: [&str; 2] = ["yes", "–"];

/// Returns what is proven by the page. A row with a cell that does not hold proves nothing.
pub(super) fn rows(page: &str) -> BTreeSet<Test> {
    let mut tests = BTreeSet::new();
    for line in page.lines() {
        if let Some(ids) = line.strip_prefix(JUDGED) {
            tests.extend(test(ids.trim_end_matches('.'), "every log"));
        }
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        if let [name, cells @ .., _, ids] = &cells[..]
            && !cells.is_empty()
            && cells.iter().all(|cell| GOOD.contains(cell))
            && cells.contains(&GOOD[0])
        {
            tests.extend(test(ids, name));
        }
    }
    tests
}

fn test(ids: &str, name: &str) -> Option<Test> {
    let ids: Vec<String> = ids
        .split(' ')
        .filter_map(|id| id.strip_prefix('C')?.parse().ok())
        .map(|id: PromiseId| format!("c{id}_"))
        .collect();
    let function = format!("{}{}", ids.concat(), name.replace(['-', ' '], "_"));
    (!ids.is_empty()).then(|| Test { function, place: PAGE.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str =
        "# Agents\n\n| behaviour | claude 1 | codex 2 | what was seen | promises |\n|---|---|---|---|---|\n";

    fn names(rows: &str) -> Vec<String> {
        self::rows(&format!("{TABLE}{rows}")).into_iter().map(|test| test.function).collect()
    }

    #[test]
    fn a_row_is_a_test_of_its_promises() {
        assert_eq!(names("| agent-killed | yes | yes | it ends | C56 C57 |\n"), ["c56_c57_agent_killed"]);
        assert_eq!(names("| resume | yes | – | it goes on | C82 |\n"), ["c82_resume"]);
        assert_eq!(names("The log of every\njob is also checked for C69 C70.\n"), ["c69_c70_every_log"]);
    }

    #[test]
    fn a_row_that_does_not_hold_everywhere_or_promises_nothing_proves_nothing() {
        let empty: [&str; 0] = [];
        assert_eq!(names("| turn | yes | **no** | it ends | C56 |\n"), empty);
        assert_eq!(names("| turn | yes |  | it ends | C56 |\n"), empty);
        assert_eq!(names("| turn | – | – | it ends | C56 |\n"), empty);
        assert_eq!(names("| turn | yes | yes | it ends |  |\n"), empty);
        assert_eq!(names(""), empty);
    }
}
