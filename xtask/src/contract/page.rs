//! The page: groups of promises, and under each promise the tests that prove it or what is missing.
//!
//! ```text
//! ## Truth
//!
//! - **C33** Of two starters exactly one wins.
//!   - `c33_one_wins` in `lastword-core decide::claim::tests`, `lastword-proof::conformance sqlite`
//! - **C37** Agents outlive the daemon.
//!   - not yet: the keeper
//! ```
//!
//! Every list item is a promise; other lines that begin in the first column are prose and are kept as they are.

use std::collections::BTreeMap;
use std::fmt;

use super::agents;
use super::listing::{Listing, Test};
use super::promise::PromiseId;

/// The page, in order.
#[derive(Debug)]
pub(super) struct Page {
    parts: Vec<Part>,
}

#[derive(Debug)]
enum Part {
    Prose(String),
    Promise(Promise),
}

/// What is promised, and what is said of its proof.
#[derive(Debug)]
pub(super) struct Promise {
    pub(super) id: PromiseId,
    /// The heading it stands under.
    pub(super) group: String,
    /// The tests said to prove it, in the order of the page.
    pub(super) tests: Vec<Test>,
    /// What is said to be missing, with its lines joined.
    pub(super) not_yet: Option<String>,
    /// Its lines up to the proof, as they are.
    text: Vec<String>,
    /// The lines that say what is missing, as they are.
    not_yet_lines: Vec<String>,
}

const PROMISE: &str = "- **C";
const PROOF: &str = "  - ";
const NOT_YET: &str = "not yet:";

impl Page {
    /// Reads the page. A line that fits nowhere is an error, since it would not be checked.
    pub(super) fn parse(text: &str) -> Result<Page, String> {
        let mut parts: Vec<Part> = Vec::new();
        let mut group = String::new();
        for (line, number) in text.lines().zip(1..) {
            let fail = |why: &str| format!("line {number} {why}: {line}");
            let last = match parts.last_mut() {
                Some(Part::Promise(promise)) => Some(promise),
                _ => None,
            };
            match last {
                _ if line.starts_with(PROMISE) => {
                    let promise = Promise::open(line, &group).ok_or_else(|| fail("is not a promise"))?;
                    parts.push(Part::Promise(promise));
                }
                _ if line.starts_with("- ") || line.starts_with("* ") => {
                    return Err(fail("is a list item but not a promise"));
                }
                Some(promise) if line.starts_with(PROOF) => {
                    promise.hear(line).ok_or_else(|| fail("is neither a test nor `not yet:`"))?;
                }
                Some(promise) if line.starts_with("  ") => {
                    promise.go_on(line).ok_or_else(|| fail("does not belong to a promise"))?;
                }
                _ if line.starts_with(' ') => return Err(fail("does not belong to a promise")),
                _ => {
                    if let Some(heading) = line.strip_prefix("## ") {
                        group = heading.to_owned();
                    }
                    parts.push(Part::Prose(line.to_owned()));
                }
            }
        }
        Ok(Page { parts })
    }

    /// Returns the promises in the order of the page.
    pub(super) fn promises(&self) -> impl Iterator<Item = &Promise> {
        self.parts.iter().filter_map(|part| match part {
            Part::Promise(promise) => Some(promise),
            Part::Prose(_) => None,
        })
    }

    /// Replaces the tests of every promise by those that carry its id. What was said to be missing goes once
    /// there is a test.
    pub(super) fn take_over(&mut self, listing: &Listing) {
        for part in &mut self.parts {
            let Part::Promise(promise) = part else { continue };
            promise.tests =
                listing.tests.iter().filter(|test| test.promises().contains(&promise.id)).cloned().collect();
            if !promise.tests.is_empty() {
                promise.not_yet = None;
                promise.not_yet_lines.clear();
            }
        }
    }
}

impl Promise {
    /// Reports whether a real agent shows it.
    pub(super) fn is_shown_by_agents(&self) -> bool {
        self.tests.iter().any(|test| test.place == agents::PAGE)
    }

    /// Reads the first line of a promise.
    fn open(line: &str, group: &str) -> Option<Promise> {
        let (id, text) = line.strip_prefix(PROMISE)?.split_once("** ")?;
        Some(Promise {
            id: id.parse().ok().filter(|_| !id.starts_with(['0', '+']) && !text.trim().is_empty())?,
            group: group.to_owned(),
            tests: Vec::new(),
            not_yet: None,
            text: vec![line.to_owned()],
            not_yet_lines: Vec::new(),
        })
    }

    /// Reads a line about the proof.
    fn hear(&mut self, line: &str) -> Option<()> {
        let said = line.strip_prefix(PROOF)?;
        if let Some(reason) = said.strip_prefix(NOT_YET) {
            if self.not_yet.is_some() {
                return None;
            }
            self.not_yet = Some(reason.trim().to_owned());
            self.not_yet_lines.push(line.to_owned());
            return Some(());
        }
        let (function, places) = said.split_once(" in ")?;
        let function = quoted(function)?;
        for place in places.split(", ") {
            self.tests.push(Test { function: function.to_owned(), place: quoted(place)?.to_owned() });
        }
        Some(())
    }

    /// Reads a line that continues the one before.
    fn go_on(&mut self, line: &str) -> Option<()> {
        match &mut self.not_yet {
            Some(reason) if line.starts_with("    ") => {
                reason.push(' ');
                reason.push_str(line.trim());
                self.not_yet_lines.push(line.to_owned());
                Some(())
            }
            None if self.tests.is_empty() && !line.starts_with("   ") => {
                self.text.push(line.to_owned());
                Some(())
            }
            _ => None,
        }
    }
}

fn quoted(text: &str) -> Option<&str> {
    text.strip_prefix('`')?.strip_suffix('`').filter(|inner| !inner.is_empty() && !inner.contains('`'))
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts.iter().try_for_each(|part| match part {
            Part::Prose(line) => writeln!(f, "{line}"),
            Part::Promise(promise) => write!(f, "{promise}"),
        })
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.text {
            writeln!(f, "{line}")?;
        }
        // One test that runs in several places, such as over every backend, is one line.
        let mut places: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for test in &self.tests {
            places.entry(&test.function).or_default().push(format!("`{}`", test.place));
        }
        for (function, places) in places {
            writeln!(f, "{PROOF}`{function}` in {}", places.join(", "))?;
        }
        self.not_yet_lines.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# The contract

Words, and what a `c1_` test is.

## Truth

- **C1** One ending,
  whoever races.
  - `c1_one` in `core a::tests`, `core b::tests`
  - `c1_two` in `proof::suite`
- **C2** One more.
  - not yet: the keeper, which
    comes with processes

## Turns

More words.

- **C3** The last.
  - not yet: the engine
";

    fn test(function: &str, place: &str) -> Test {
        Test { function: function.into(), place: place.into() }
    }

    #[test]
    fn a_page_reads_and_writes_back_as_it_was() {
        let page = Page::parse(PAGE).expect("the page reads");
        assert_eq!(page.to_string(), PAGE);
        let promises: Vec<&Promise> = page.promises().collect();
        assert_eq!(promises.iter().map(|promise| promise.id).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(
            promises[0].tests,
            [
                test("c1_one", "core a::tests"),
                test("c1_one", "core b::tests"),
                test("c1_two", "proof::suite")
            ]
        );
        assert_eq!(promises[1].not_yet.as_deref(), Some("the keeper, which comes with processes"));
        assert_eq!((promises[0].group.as_str(), promises[2].group.as_str()), ("Truth", "Turns"));
    }

    #[test]
    fn the_test_list_replaces_the_names_and_nothing_else() {
        let mut page = Page::parse(PAGE).expect("the page reads");
        let tests = [test("c1_c2_three", "core"), test("c2_four", "core x"), test("unnamed", "core")].into();
        page.take_over(&Listing { tests, ignored: [test("c3_off", "core")].into() });
        let expected = PAGE
            .replace("  - `c1_one` in `core a::tests`, `core b::tests`\n", "")
            .replace("  - `c1_two` in `proof::suite`\n", "  - `c1_c2_three` in `core`\n")
            .replace(
                "  - not yet: the keeper, which\n    comes with processes\n",
                "  - `c1_c2_three` in `core`\n  - `c2_four` in `core x`\n",
            );
        assert_eq!(page.to_string(), expected);
    }

    #[test]
    fn a_line_that_would_not_be_checked_is_refused() {
        for (good, bad) in [
            ("- **C1** One", "- C1 One"),
            ("- **C1** One", "* **C1** One"),
            ("- **C1** One", "- **C01** One"),
            ("- **C1** One", "- **Cx** One"),
            ("- **C1** One ending,\n  whoever races.", "- **C1** "),
            ("  - `c1_two`", "  - c1_two"),
            ("  - `c1_two` in `proof::suite`", "  - `c1_two`"),
            ("  - `c1_two` in `proof::suite`", "  - proven by thought"),
            ("  - `c1_two` in `proof::suite`", "  and more"),
            ("  - not yet: the engine", "  - not yet the engine"),
            ("  - not yet: the engine", "  - not yet: the engine\n  - not yet: the keeper"),
            ("More words.", "  indented"),
        ] {
            let text = PAGE.replacen(good, bad, 1);
            assert_ne!(text, PAGE, "{bad}");
            assert!(Page::parse(&text).is_err(), "{bad}");
        }
    }
}
