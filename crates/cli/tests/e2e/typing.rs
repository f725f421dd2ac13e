//! Typing at random beside questions: only what is typed after a question was shown answers it.
#![expect(
    clippy::disallowed_methods,
    reason = "`cargo xtask e2e typing` says from outside how many sequences to try"
)]

use std::collections::BTreeSet;

use crate::agents::define_agent;
use crate::home::{Home, until};
use crate::terminal::Screen;

/// Sequences that are tried if nothing is said.
const SEQUENCES: u64 = 6;

/// What people type into a terminal that shows no question yet.
const TYPED: [&str; 9] = ["y\n", "yes\n", "a\n", "n\n", "\n", "y", "1\n", "n not that\n", "y\ny\ny\n"];

/// A line that answers nothing. What can be typed is said again, after everything before it was read.
const NOTHING: &str = "hm\n";

/// What is shown below a question.
const HINT: &str = "[y] allow";

/// Numbers that look random and are the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

#[test]
fn c88_nothing_that_is_typed_before_a_question_was_shown_answers_it() {
    let sequences = std::env::var("TYPED_SEQUENCES").ok().and_then(|count| count.parse().ok());
    let home = Home::new();
    define_agent(&home);
    for seed in 0..sequences.unwrap_or(SEQUENCES) {
        one(&home, seed);
    }
}

/// Returns the commands that were answered, by the log.
fn answered(home: &Home, id: &str) -> BTreeSet<String> {
    let events = home.ok(&["events", id, "--json"]);
    let events: Vec<serde_json::Value> =
        events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let data = |kind: &'static str| {
        events.iter().filter(move |event| event["type"] == kind).map(|event| &event["data"])
    };
    let request = |name: &serde_json::Value| {
        let question = data("question_asked").find(|question| question["name"] == *name).unwrap();
        question["request"].as_str().unwrap().to_owned()
    };
    data("answer_requested").map(|answer| request(&answer["name"])).collect()
}

/// Waits for more hints than are known, or for the end of the job, and returns what is shown.
fn next(home: &Home, id: &str, screen: &Screen, known: usize) -> String {
    until("a question is shown, or the job has ended", || {
        let shown = screen.so_far();
        let is_over = || home.json(&["show", id])["phase"] == "ended";
        (hints(&shown) > known || is_over()).then_some(shown)
    })
}

fn hints(shown: &str) -> usize {
    shown.matches(HINT).count()
}

/// Tries one sequence: types at random, and answers each question once it was shown.
fn one(home: &Home, seed: u64) {
    let mut random = Random(seed);
    let count = 1 + random.below(3);
    let prompt: Vec<String> = (0..count).map(|number| format!("ask make q{number}")).collect();
    let id = home.ok(&["run", "-d", "--agent", "echo", "--", &prompt.join("\n")]);
    let mut screen = Screen::start(home, (24, 80), &["attach", &id]);
    for _ in 0..random.below(4) {
        screen.write(TYPED[random.below(TYPED.len())]);
    }
    let (mut meant, mut known) = (BTreeSet::new(), 0);
    loop {
        let shown = next(home, &id, &screen, known);
        if hints(&shown) == known {
            break;
        }
        // Whatever was typed before the question was shown is read by then, and must have answered nothing.
        screen.write(NOTHING);
        let shown = next(home, &id, &screen, hints(&shown));
        known = hints(&shown);
        let early = answered(home, &id);
        assert!(early.is_subset(&meant), "seed {seed}: {early:?} is answered, {meant:?} was meant: {shown}");
        let hint = shown.rfind(HINT).unwrap();
        let at = shown[..hint].rfind("make q").unwrap();
        meant.insert(shown[at..at + "make q0".len()].to_owned());
        // What follows in the same breath is typed before the next question is shown.
        let answer = ["y\n", "n\n", "a\n"][random.below(3)];
        let more = if random.below(2) == 0 { TYPED[random.below(TYPED.len())] } else { "" };
        screen.write(&format!("{answer}{more}"));
    }
    assert_eq!(answered(home, &id).len(), count, "seed {seed}");
}
