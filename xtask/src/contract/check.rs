//! What a page can get wrong, and finding it.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeInclusive;

use super::agents;
use super::listing::{ACROSS_HOSTS, Listing, Test};
use super::page::{Page, Promise};
use super::promise::{PROMISES, PromiseId, REQUIRED, REQUIRED_ACROSS_HOSTS, REQUIRED_OF_AGENTS};

/// How much is asked of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Demand {
    /// What it says is so.
    Truth,
    /// And the promises of [`REQUIRED`] are proven.
    TruthAndProof,
}

/// Something the page says that is not so, or does not say though it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Lie {
    /// A promise is not there.
    Missing(PromiseId),
    /// A promise is there more than once.
    Twice(PromiseId),
    /// The contract has no such promise.
    Unknown(PromiseId),
    /// A test carries an id of which the contract knows nothing.
    ProvesUnknown(PromiseId, Test),
    /// A test proves the promise and is not named.
    Unnamed(PromiseId, Test),
    /// A test is named and does not exist.
    NoSuchTest(PromiseId, Test),
    /// A test is named that does not carry the id.
    OtherPromise(PromiseId, Test),
    /// A test is named more than once.
    NamedTwice(PromiseId, Test),
    /// A test that carries an id is switched off.
    Ignored(Test),
    /// There is neither a test nor a word about what is missing.
    Silent(PromiseId),
    /// It is said not to be proven, and a test is named.
    ProvenAndNotYet(PromiseId),
    /// It does not say what is missing.
    NothingNamed(PromiseId),
    /// It must be proven by now, and is not.
    Required(PromiseId),
    /// A real agent must show it, and none does.
    RequiredOfAgents(PromiseId),
    /// A test with several workers must show it, and none does.
    RequiredAcrossHosts(PromiseId),
}

impl fmt::Display for Lie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lie::Missing(id) => write!(f, "C{id} is missing"),
            Lie::Twice(id) => write!(f, "C{id} is there more than once"),
            Lie::Unknown(id) => write!(f, "there is no promise C{id}"),
            Lie::ProvesUnknown(id, test) => write!(f, "there is no promise C{id} for {test} to prove"),
            Lie::Unnamed(id, test) => write!(f, "C{id} does not name {test}"),
            Lie::NoSuchTest(id, test) => write!(f, "C{id} names {test}, which does not exist"),
            Lie::OtherPromise(id, test) => write!(f, "C{id} names {test}, which does not carry its id"),
            Lie::NamedTwice(id, test) => write!(f, "C{id} names {test} twice"),
            Lie::Ignored(test) => write!(f, "{test} is ignored and proves nothing"),
            Lie::Silent(id) => write!(f, "C{id} has no test and does not say what is missing"),
            Lie::ProvenAndNotYet(id) => write!(f, "C{id} has a test and is said not to be proven yet"),
            Lie::NothingNamed(id) => write!(f, "C{id} does not say what is missing"),
            Lie::Required(id) => write!(f, "C{id} must be proven by now"),
            Lie::RequiredOfAgents(id) => write!(f, "C{id} must be shown by a row of {}", agents::PAGE),
            Lie::RequiredAcrossHosts(id) => {
                write!(f, "C{id} must be shown across hosts, by a test in a module `{ACROSS_HOSTS}`")
            }
        }
    }
}

/// Returns everything that is wrong with the page.
pub(super) fn lies(page: &Page, listing: &Listing, demand: Demand) -> Vec<Lie> {
    let mut lies = lies_about_ids(page);
    for test in &listing.tests {
        let unknown = test.promises().into_iter().filter(|id| !PROMISES.contains(id));
        lies.extend(unknown.map(|id| Lie::ProvesUnknown(id, test.clone())));
    }
    let ignored = listing.ignored.iter().filter(|test| !test.promises().is_empty());
    lies.extend(ignored.map(|test| Lie::Ignored(test.clone())));
    for promise in page.promises() {
        lies.extend(lies_about_tests(promise, listing));
        lies.extend(lies_about_status(promise));
        if demand == Demand::TruthAndProof {
            lies.extend(lies_by_silence(promise));
        }
    }
    lies
}

fn lies_about_ids(page: &Page) -> Vec<Lie> {
    let mut lies = Vec::new();
    let mut seen = BTreeSet::new();
    for promise in page.promises() {
        if !PROMISES.contains(&promise.id) {
            lies.push(Lie::Unknown(promise.id));
        } else if !seen.insert(promise.id) {
            lies.push(Lie::Twice(promise.id));
        }
    }
    lies.extend(PROMISES.filter(|id| !seen.contains(id)).map(Lie::Missing));
    lies
}

fn lies_about_tests(promise: &Promise, listing: &Listing) -> Vec<Lie> {
    let id = promise.id;
    let mut lies = Vec::new();
    let mut named = BTreeSet::new();
    for test in &promise.tests {
        if !named.insert(test) {
            lies.push(Lie::NamedTwice(id, test.clone()));
        } else if !listing.tests.contains(test) {
            lies.push(Lie::NoSuchTest(id, test.clone()));
        } else if !test.promises().contains(&id) {
            lies.push(Lie::OtherPromise(id, test.clone()));
        }
    }
    let proofs = listing.tests.iter().filter(|test| test.promises().contains(&id));
    lies.extend(proofs.filter(|test| !named.contains(test)).map(|test| Lie::Unnamed(id, test.clone())));
    lies
}

fn lies_by_silence(promise: &Promise) -> Vec<Lie> {
    let is_in = |ranges: &[RangeInclusive<PromiseId>]| ranges.iter().any(|range| range.contains(&promise.id));
    let mut lies = Vec::new();
    if is_in(REQUIRED) && promise.tests.is_empty() {
        lies.push(Lie::Required(promise.id));
    }
    if is_in(REQUIRED_OF_AGENTS) && !promise.is_shown_by_agents() {
        lies.push(Lie::RequiredOfAgents(promise.id));
    }
    if is_in(REQUIRED_ACROSS_HOSTS) && !promise.tests.iter().any(Test::is_across_hosts) {
        lies.push(Lie::RequiredAcrossHosts(promise.id));
    }
    lies
}

fn lies_about_status(promise: &Promise) -> Option<Lie> {
    match (&promise.not_yet, promise.tests.is_empty()) {
        (None, true) => Some(Lie::Silent(promise.id)),
        (Some(_), false) => Some(Lie::ProvenAndNotYet(promise.id)),
        // One word, such as "later", names nothing.
        (Some(reason), true) if reason.split_whitespace().count() < 2 => Some(Lie::NothingNamed(promise.id)),
        (Some(_), true) | (None, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(function: &str) -> Test {
        Test { function: function.into(), place: "core".into() }
    }

    fn listing(functions: &[&str]) -> Listing {
        Listing { tests: functions.iter().map(|name| test(name)).collect(), ignored: BTreeSet::new() }
    }

    /// A true page: C1 has a test of its own and one it shares with C2, nothing else is proven.
    const TESTS: &[&str] = &["c1_one", "c1_c2_both", "other"];

    fn true_page() -> String {
        let proven = "- **C1** First.\n  - `c1_c2_both` in `core`\n  - `c1_one` in `core`\n\
                      - **C2** Second.\n  - `c1_c2_both` in `core`\n";
        let open = (3..=102).map(|id| format!("- **C{id}** Promise.\n  - not yet: the keeper\n"));
        format!("## Group\n\n{proven}{}", open.collect::<String>())
    }

    fn check(page: &str, tests: &Listing, expected: &[Lie]) {
        let page = Page::parse(page).expect("the page reads");
        assert_eq!(lies(&page, tests, Demand::Truth), expected);
    }

    /// Changes one thing on the true page and expects these lies.
    fn check_page(good: &str, bad: &str, expected: &[Lie]) {
        let page = true_page().replacen(good, bad, 1);
        assert_ne!(page, true_page(), "{bad}");
        check(&page, &listing(TESTS), expected);
    }

    #[test]
    fn a_true_page_has_no_lies() {
        check(&true_page(), &listing(TESTS), &[]);
    }

    #[test]
    fn every_promise_is_there_once() {
        let third = "- **C3** Promise.\n  - not yet: the keeper\n";
        check_page(third, "", &[Lie::Missing(3)]);
        check_page(third, &third.repeat(2), &[Lie::Twice(3)]);
        check_page(third, &format!("{third}{}", third.replace("C3", "C103")), &[Lie::Unknown(103)]);
    }

    #[test]
    fn every_named_test_exists_and_carries_the_id() {
        let line = "  - `c1_one` in `core`\n";
        let gone = "  - `c1_gone` in `core`\n";
        check_page(line, &format!("{line}{gone}"), &[Lie::NoSuchTest(1, test("c1_gone"))]);
        check_page(line, &format!("{line}  - `other` in `core`\n"), &[Lie::OtherPromise(1, test("other"))]);
        check_page(line, &line.repeat(2), &[Lie::NamedTwice(1, test("c1_one"))]);
        let elsewhere = Test { place: "store".into(), ..test("c1_one") };
        check_page(
            line,
            &line.replace("core", "store"),
            &[Lie::NoSuchTest(1, elsewhere), Lie::Unnamed(1, test("c1_one"))],
        );
    }

    #[test]
    fn every_test_with_an_id_is_named_at_each_of_its_promises() {
        check_page("  - `c1_one` in `core`\n", "", &[Lie::Unnamed(1, test("c1_one"))]);
        check(
            &true_page(),
            &listing(&["c1_one", "c1_c2_both", "c4_new"]),
            &[Lie::Unnamed(4, test("c4_new"))],
        );
        check_page(
            "Second.\n  - `c1_c2_both` in `core`\n",
            "Second.\n",
            &[Lie::Unnamed(2, test("c1_c2_both")), Lie::Silent(2)],
        );
    }

    #[test]
    fn a_test_of_an_unknown_promise_and_an_ignored_one_are_lies() {
        let mut tests = listing(&["c1_one", "c1_c2_both", "c103_more"]);
        tests.ignored = [test("c5_off"), test("slow")].into();
        check(
            &true_page(),
            &tests,
            &[Lie::ProvesUnknown(103, test("c103_more")), Lie::Ignored(test("c5_off"))],
        );
    }

    #[test]
    fn an_ignored_test_that_is_named_does_not_exist() {
        let mut tests = listing(&["c1_c2_both"]);
        tests.ignored = [test("c1_one")].into();
        check(&true_page(), &tests, &[Lie::Ignored(test("c1_one")), Lie::NoSuchTest(1, test("c1_one"))]);
    }

    #[test]
    fn a_promise_is_proven_or_says_what_is_missing() {
        let third = "Promise.\n  - not yet: the keeper\n";
        check_page(third, "Promise.\n", &[Lie::Silent(3)]);
        check_page(third, "Promise.\n  - not yet:\n", &[Lie::NothingNamed(3)]);
        check_page(third, "Promise.\n  - not yet: later\n", &[Lie::NothingNamed(3)]);
        let line = "  - `c1_one` in `core`\n";
        check_page(line, &format!("{line}  - not yet: the keeper\n"), &[Lie::ProvenAndNotYet(1)]);
    }

    #[test]
    fn what_is_required_is_proven() {
        let page = Page::parse(&true_page()).expect("the page reads");
        let lies = lies(&page, &listing(TESTS), Demand::TruthAndProof);
        let owed = [3..=90, 94..=94, 101..=102].into_iter().flatten().flat_map(|id| {
            let by_agents = matches!(id, 56..=58 | 68..=72 | 74..=82 | 88..=90 | 94);
            let across_hosts = matches!(id, 3 | 33..=39 | 42 | 61 | 63 | 101 | 102);
            [
                Some(Lie::Required(id)),
                by_agents.then_some(Lie::RequiredOfAgents(id)),
                across_hosts.then_some(Lie::RequiredAcrossHosts(id)),
            ]
        });
        // C2 has a test, of one host.
        let owed = [Lie::RequiredAcrossHosts(2)].into_iter().chain(owed.flatten());
        assert_eq!(lies, owed.collect::<Vec<_>>());
    }

    #[test]
    fn a_test_shows_a_promise_across_hosts_by_its_module_and_another_does_not() {
        let across = Test { place: format!("lastword::survival {ACROSS_HOSTS}"), ..test("c33_c2_one_wins") };
        let beside = Test { place: format!("lastword::survival not_{ACROSS_HOSTS}"), ..test("c34_one") };
        let tests = Listing { tests: [across, beside, test("c35_one")].into(), ignored: BTreeSet::new() };
        let mut page = Page::parse(&true_page()).expect("the page reads");
        page.take_over(&tests);
        let lies = lies(&page, &tests, Demand::TruthAndProof);
        let owed = |id| lies.contains(&Lie::RequiredAcrossHosts(id));
        assert_eq!([2, 33, 34, 35, 36].map(owed), [false, false, true, true, true]);
    }

    #[test]
    fn a_row_of_agents_shows_a_promise_and_another_test_does_not() {
        let row = Test { place: agents::PAGE.into(), ..test("c56_every_log") };
        let tests = Listing { tests: [row.clone(), test("c57_one")].into(), ignored: BTreeSet::new() };
        let mut page = Page::parse(&true_page()).expect("the page reads");
        page.take_over(&tests);
        let lies = lies(&page, &tests, Demand::TruthAndProof);
        let owed = |id| lies.contains(&Lie::RequiredOfAgents(id));
        assert_eq!((owed(56), owed(57), owed(58)), (false, true, true));
    }
}
