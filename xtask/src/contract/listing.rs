//! The tests there are, as nextest lists them.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use super::promise::PromiseId;
use crate::program::{self, Failure};

/// The module of tests that run two workers or more.
pub(super) const ACROSS_HOSTS: &str = "across_hosts";

/// A test by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Test {
    /// The function; its name opens with the promises it proves.
    pub(super) function: String,
    /// The test binary, and the modules in it: `lastword-core decide::cancel::tests`.
    pub(super) place: String,
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", self.function, self.place)
    }
}

impl Test {
    /// Returns the promises this test says it proves: 10 and 24 for `c10_c24_a_late_cancel_changes_nothing`.
    ///
    /// A word that only looks like an id (`c007`) ends the list and so proves nothing.
    pub(super) fn promises(&self) -> BTreeSet<PromiseId> {
        let mut words: Vec<&str> = self.function.split('_').collect();
        // The last word is never an id: a name says what is proven, not only which promise.
        words.pop();
        words.into_iter().map_while(promise).collect()
    }

    /// Reports whether it shows its promises across hosts.
    pub(super) fn is_across_hosts(&self) -> bool {
        self.place.split([' ', ':']).any(|module| module == ACROSS_HOSTS)
    }
}

/// Reads an id in lower case, written in one way only.
fn promise(word: &str) -> Option<PromiseId> {
    let digits = word.strip_prefix('c')?;
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
    digits.parse().ok().filter(|_| plain)
}

/// What is in the test list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Listing {
    /// Tests that run.
    pub(super) tests: BTreeSet<Test>,
    /// Tests that are switched off. They prove nothing.
    pub(super) ignored: BTreeSet<Test>,
}

/// Returns every test of the workspace.
pub(super) fn all() -> Result<Listing, Failure> {
    let json = program::output("cargo", &["nextest", "list", "--workspace", "--message-format", "json"])?;
    read(&json).ok_or_else(|| Failure::new("the test list of nextest does not read: has its format changed?"))
}

fn read(json: &str) -> Option<Listing> {
    let list: Value = serde_json::from_str(json).ok()?;
    let mut listing = Listing::default();
    for (binary, suite) in list.get("rust-suites")?.as_object()? {
        for (name, case) in suite.get("testcases")?.as_object()? {
            let (modules, function) = name.rsplit_once("::").unwrap_or(("", name));
            let test = Test {
                function: function.to_owned(),
                place: format!("{binary} {modules}").trim_end().to_owned(),
            };
            let ignored = case.get("ignored")?.as_bool()?;
            let tests = if ignored { &mut listing.ignored } else { &mut listing.tests };
            tests.insert(test);
        }
    }
    Some(listing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn promises(function: &str) -> Vec<PromiseId> {
        let test = Test { function: function.to_owned(), place: String::new() };
        test.promises().into_iter().collect()
    }

    #[test]
    fn a_name_opens_with_its_promises() {
        assert_eq!(promises("c16_no_last_word_before_the_tree_is_empty"), [16]);
        assert_eq!(promises("c10_c24_a_late_cancel_changes_nothing"), [10, 24]);
        assert_eq!(promises("c184_is_an_id_though_there_is_no_such_promise"), [184]);
        for no_promise in ["cancel_twice", "c_16_x", "c016_x", "c+1_x", "c1", "C1_x", "two_c1_x", "c99999_x"]
        {
            assert!(promises(no_promise).is_empty(), "{no_promise}");
        }
    }

    #[test]
    fn a_list_of_nextest_reads() {
        let json = r#"{"test-count": 3, "rust-suites": {
            "lastword-core": {"testcases": {
                "job::tests::c31_ended_is_absorbing": {"kind": "test", "ignored": false},
                "job::tests::c23_slow": {"kind": "test", "ignored": true}}},
            "lastword-proof::conformance": {"testcases": {"c33_one_wins": {"ignored": false}}}}}"#;
        let test = |function: &str, place: &str| Test { function: function.into(), place: place.into() };
        let listing = read(json).expect("the list reads");
        assert_eq!(
            listing.tests,
            [
                test("c31_ended_is_absorbing", "lastword-core job::tests"),
                test("c33_one_wins", "lastword-proof::conformance"),
            ]
            .into()
        );
        assert_eq!(listing.ignored, [test("c23_slow", "lastword-core job::tests")].into());
    }

    #[test]
    fn a_list_in_another_format_is_not_an_empty_list() {
        for json in [
            "",
            "[]",
            "{}",
            r#"{"rust-suites": {"a": {}}}"#,
            r#"{"rust-suites": {"a": {"testcases": {"t": {}}}}}"#,
        ] {
            assert_eq!(read(json), None, "{json}");
        }
    }
}
