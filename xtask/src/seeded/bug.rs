//! The files of seeded bugs, `bugs/NAME.bug` beside their checker.
//!
//! The first paragraph is a sentence about the rule that the bug breaks. Each further paragraph is a change: the file; after `-` the anchor,
//! which must match exactly once in that file; after `+` its replacement. In a replacement, `SEEDED` is true while the bug is on. Every change
//! contains it, so with every bug off the copy behaves like the workspace.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::anchor;
use crate::program::Failure;

/// The folders that hold bugs.
const FOLDERS: [&str; 3] = ["crates/proof/bugs", "crates/trials/bugs", "fuzz/bugs"];

/// The condition "this bug is on" in a replacement.
const SWITCH: &str = "SEEDED";

/// A bug.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bug {
    pub(crate) name: String,
    /// The file that describes it.
    path: String,
    changes: Vec<Change>,
}

#[derive(Debug, PartialEq, Eq)]
struct Change {
    file: String,
    anchor: String,
    instead: String,
}

impl Bug {
    /// Reports whether its checker is in this folder.
    pub(crate) fn is_of(&self, folder: &str) -> bool {
        self.path.starts_with(folder)
    }

    /// Reports whether it changes files of this folder only.
    pub(crate) fn is_in(&self, folder: &str) -> bool {
        self.changes.iter().all(|change| change.file.starts_with(folder))
    }

    fn parse(path: &str, text: &str) -> Result<Bug, Failure> {
        let wrong = |why: &str| Failure::new(format!("{path}: {why}"));
        let mut paragraphs = text.split("\n\n").map(str::trim_end).filter(|part| !part.is_empty());
        let rule = paragraphs.next().unwrap_or_default();
        if rule.starts_with(['-', '+']) || !rule.ends_with('.') {
            return Err(wrong("it opens with a sentence about the rule it breaks"));
        }
        let mut changes = Vec::new();
        for part in paragraphs {
            let (file, lines) = part.split_once('\n').unwrap_or((part, ""));
            let side = |sign: char| -> Vec<&str> {
                lines.lines().filter_map(|line| line.strip_prefix(sign)).collect()
            };
            let (anchor, instead) = (side('-').join("\n"), side('+').join("\n"));
            if side('-').len() + side('+').len() != lines.lines().count() || anchor.trim().is_empty() {
                return Err(wrong("a change is a file, then lines with `-`, then lines with `+`"));
            }
            if !instead.contains(SWITCH) {
                return Err(wrong(&format!("a change in {file} is not behind `{SWITCH}`")));
            }
            changes.push(Change { file: file.to_owned(), anchor, instead });
        }
        if changes.is_empty() {
            return Err(wrong("it changes nothing"));
        }
        let name = Path::new(path).file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Bug { name, path: path.to_owned(), changes })
    }
}

/// Reads every bug, by name.
pub(crate) fn all() -> Result<Vec<Bug>, Failure> {
    let mut bugs = BTreeMap::new();
    for folder in FOLDERS {
        let listed = fs::read_dir(folder).map_err(|error| Failure::new(format!("{folder}: {error}")))?;
        for path in listed.filter_map(|entry| Some(entry.ok()?.path())) {
            let shown = path.to_string_lossy();
            let text =
                fs::read_to_string(&path).map_err(|error| Failure::new(format!("{shown}: {error}")))?;
            let bug = Bug::parse(&shown, &text)?;
            if let Some(other) = bugs.insert(bug.name.clone(), bug) {
                return Err(Failure::new(format!("{shown}: there is {}, too", other.path)));
            }
        }
    }
    Ok(bugs.into_values().collect())
}

/// Returns a file with every bug applied. A bug is identified by its index in `bugs`, counted from one.
///
/// Fails with bug and file for every anchor that does not match exactly once or overlaps with another.
pub(crate) fn apply(bugs: &[Bug], file: &str, text: &str) -> Result<String, Vec<String>> {
    let (mut wrong, mut places) = (Vec::new(), Vec::new());
    for (bug, number) in bugs.iter().zip(1..) {
        for change in bug.changes.iter().filter(|change| change.file == file) {
            match anchor::find(text, &change.anchor).as_slice() {
                [place] => places.push((place.clone(), bug, number, &change.instead)),
                found => wrong.push(format!(
                    "{}: {file} has its anchor {} times, not once: {}",
                    bug.path,
                    found.len(),
                    change.anchor.trim()
                )),
            }
        }
    }
    places.sort_by_key(|(place, ..)| place.start);
    for pair in places.windows(2) {
        if pair[0].0.end > pair[1].0.start {
            wrong.push(format!(
                "{}: {file} has the anchor of {} at this place",
                pair[1].1.path, pair[0].1.name
            ));
        }
    }
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let mut seeded = text.to_owned();
    for (place, _, number, instead) in places.into_iter().rev() {
        let on = format!("lastword_core::seeded::is_on({number})");
        seeded.replace_range(place, &instead.replace(SWITCH, &on));
    }
    Ok(seeded)
}

/// Applies every bug and returns the errors.
pub(crate) fn check() -> Vec<String> {
    let bugs = match all() {
        Ok(bugs) => bugs,
        Err(failure) => return vec![failure.why],
    };
    let mut files: Vec<&str> =
        bugs.iter().flat_map(|bug| &bug.changes).map(|change| change.file.as_str()).collect();
    files.sort_unstable();
    files.dedup();
    let text = |file: &str| fs::read_to_string(file).unwrap_or_default();
    files.into_iter().filter_map(|file| apply(&bugs, file, &text(file)).err()).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bug(name: &str, anchor: &str, instead: &str) -> Bug {
        let text = format!("It is wrong.\n\na.rs\n- {anchor}\n+ {instead}\n");
        Bug::parse(&format!("crates/proof/bugs/{name}.bug"), &text).expect("it is written well")
    }

    #[test]
    fn every_bug_is_put_behind_its_own_switch() {
        let bugs = [bug("one", "if x {", "if x && !SEEDED {"), bug("two", "y()", "if !SEEDED { y() }")];
        let text = "fn f() {\n    if x {\n        // Why.\n        y()\n    }\n}\n";
        let seeded = apply(&bugs, "a.rs", text).expect("both places are there");
        assert!(seeded.contains("if x && !lastword_core::seeded::is_on(1) {"), "{seeded}");
        assert!(seeded.contains("if !lastword_core::seeded::is_on(2) { y() }"), "{seeded}");
        assert_eq!(apply(&bugs, "b.rs", text).as_deref(), Ok(text));
    }

    #[test]
    fn a_lost_or_doubled_or_shared_anchor_names_bug_and_file() {
        let wrong =
            |bugs: &[Bug], text: &str| apply(bugs, "a.rs", text).expect_err("it does not fit").join("\n");
        let one = || bug("one", "x()", "SEEDED || x()");
        for (text, count) in [("y()", "0 times"), ("x(); x()", "2 times")] {
            let why = wrong(&[one()], text);
            assert!(why.contains("bugs/one.bug: a.rs") && why.contains(count), "{why}");
        }
        let why = wrong(&[one(), bug("two", "!x()", "SEEDED")], "!x()");
        assert!(why.contains("one.bug") && why.contains("two"), "{why}");
    }

    #[test]
    fn a_file_without_a_rule_a_change_or_a_switch_is_refused() {
        for text in [
            "",
            "It is wrong.\n",
            "a.rs\n- x\n+ SEEDED\n",
            "It is wrong.\n\na.rs\n- x\n+ y\n",
            "It is wrong.\n\na.rs\n+ SEEDED\n",
            "It is wrong.\n\na.rs\nx\n- x\n+ SEEDED\n",
        ] {
            assert!(Bug::parse("a.bug", text).is_err(), "{text}");
        }
    }
}
