//! Typing at random beside questions of every kind: only what is typed after a question was shown answers it, and what is typed at a question
//! is no message.
#![expect(
    clippy::disallowed_methods,
    reason = "`cargo xtask e2e typing` says from outside how many sequences to try"
)]

use std::collections::BTreeMap;

use serde_json::Value;

use crate::agents::{define, until_asks};
use crate::home::{Home, until};
use crate::terminal::Screen;

/// Sequences that are tried if nothing is said.
const SEQUENCES: u64 = 6;

/// What people type into a terminal that shows no question yet.
const TYPED: [&str; 9] = ["y\n", "yes\n", "a\n", "n\n", "\n", "y", "1\n", "n not that\n", "y\ny\ny\n"];

/// A line that answers nothing. What can be typed is said again, after everything before it was read.
const NOTHING: &str = "\n";

/// What is typed, and the answer that it is.
type Typed = (&'static str, &'static str);

/// Words of the agent's prompt, what is shown below such a question, and what is typed there.
const KINDS: [(&str, &str, &[Typed]); 4] = [
    ("permit", "[y] allow", &[("y\n", "allow"), ("n\n", "deny"), ("a\n", "allow"), ("n why\n", "deny why")]),
    ("choose", "type a number, or an answer", &[("1\n", "SQLite"), ("2\n", "PostgreSQL"), ("y\n", "y")]),
    ("words", "type an answer", &[("because\n", "because"), ("y\n", "y"), ("n\n", "n")]),
    ("both", "", &[]),
];

/// Numbers that look random and are the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

fn with_asker() -> Home {
    let home = Home::new();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/scripted_asker.py");
    define(&home, &format!("[asker]\ndialect = 'codex'\ncommand = ['python3', '{script}']\n"));
    home
}

#[test]
fn a_number_given_to_answer_is_the_option_of_that_number() {
    let home = with_asker();
    for (kind, texts, expected) in [
        ("choose", &["2"][..], "PostgreSQL"),
        ("choose", &["neither of them"], "neither of them"),
        ("several", &["1,2"], "SQLite, PostgreSQL"),
        ("words", &["2"], "2"),
        ("both", &["1", "2"], "SQLite\n2"),
    ] {
        let id = home.ok(&["run", "-d", "--agent", "asker", &format!("{kind} which?")]);
        let question = until_asks(&home, &id, 1)[0].clone();
        let name = question["id"].as_str().unwrap();
        assert_eq!(question["parts"][0]["several"] == true, kind == "several", "{question}");
        let shown = home.ok(&["question", &id]);
        assert_eq!(shown.contains("takes several numbers"), kind == "several", "{shown}");
        if kind != "words" {
            let wrong: Vec<&str> = std::iter::once("3").chain(texts[1..].iter().copied()).collect();
            let output = home.run(&[&["answer", &id, name], &wrong[..]].concat());
            let says = "has no option 3; the options are 1 SQLite, 2 PostgreSQL";
            assert!(output.code == 2 && output.stderr.contains(says), "{output:?}");
        }
        let output = home.run(&["answer", &id, name, " "]);
        assert!(output.code == 2 && output.stderr.contains("an answer is empty"), "{output:?}");
        home.ok(&[&["answer", &id, name], texts].concat());
        home.ok(&["wait", &id]);
        let events = home.ok(&["events", &id, "--json"]);
        let events = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let answers: Vec<Value> = events.filter(|event| event["type"] == "answer_requested").collect();
        assert_eq!(answers.len(), 1, "nothing was sent but the right answer");
        assert_eq!(answers[0]["data"]["text"], expected, "{kind}");
    }
}

#[test]
fn c88_nothing_that_is_typed_before_a_question_was_shown_answers_it() {
    let sequences = std::env::var("TYPED_SEQUENCES").ok().and_then(|count| count.parse().ok());
    let home = with_asker();
    for seed in 0..sequences.unwrap_or(SEQUENCES) {
        one(&home, seed);
    }
}

/// Answers by the command that a question is about.
type Answers = BTreeMap<String, String>;

/// Returns the answers that the log has, and the number of messages.
fn logged(home: &Home, id: &str) -> (Answers, usize) {
    let events = home.ok(&["events", id, "--json"]);
    let events: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let data = |kind: &'static str| {
        events.iter().filter(move |event| event["type"] == kind).map(|event| &event["data"])
    };
    let asked = |name: &Value| {
        let question = data("question_asked").find(|question| question["name"] == *name).unwrap();
        command(question["text"].as_str().unwrap())
    };
    let text = |answer: &Value| answer["text"].as_str().unwrap().to_owned();
    let answers = data("answer_requested").map(|answer| (asked(&answer["name"]), text(answer))).collect();
    (answers, data("input_requested").count())
}

/// Returns the last command that a text is about.
fn command(text: &str) -> String {
    let at = text.rfind("make q").unwrap();
    text[at..at + "make q0".len()].to_owned()
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
    KINDS.iter().filter(|(_, hint, _)| !hint.is_empty()).map(|(_, hint, _)| shown.matches(hint).count()).sum()
}

/// Tries one sequence: types at random, and answers each question once it was shown.
fn one(home: &Home, seed: u64) {
    let mut random = Random(seed);
    let count = 1 + random.below(3);
    let prompt: Vec<String> =
        (0..count).map(|number| format!("{} make q{number}", random.of(&KINDS).0)).collect();
    let id = home.ok(&["run", "-d", "--agent", "asker", "--", &prompt.join("\n")]);
    let mut screen = Screen::start(home, (24, 80), &["attach", &id]);
    let early: String = (0..random.below(4)).map(|_| random.of(&TYPED)).collect();
    screen.write(&early);
    let (mut meant, mut known) = (Answers::new(), 0);
    loop {
        let shown = next(home, &id, &screen, known);
        if hints(&shown) == known {
            break;
        }
        // Whatever was typed before the question was shown is read by then, and must have answered nothing.
        screen.write(NOTHING);
        let shown = next(home, &id, &screen, hints(&shown));
        known = hints(&shown);
        let (answers, _) = logged(home, &id);
        let is_meant = answers.iter().all(|(asked, answer)| meant.get(asked) == Some(answer));
        assert!(is_meant, "seed {seed}: {answers:?} is answered, {meant:?} was meant: {shown}");
        let place = |hint: &str| shown.rfind(hint).filter(|_| !hint.is_empty());
        let (_, hint, words) = *KINDS.iter().max_by_key(|(_, hint, _)| place(hint)).unwrap();
        let (above, below) = shown.split_at(place(hint).unwrap());
        let (typed, answer) = random.of(words);
        let is_later_part = above.ends_with("answer 2 of 2: ");
        match meant.entry(command(above)) {
            std::collections::btree_map::Entry::Occupied(mut first) if is_later_part => {
                first.insert(format!("{}\n{answer}", first.get()));
            }
            entry => drop(entry.insert_entry(answer.to_owned())),
        }
        assert!(!below.contains("make q"), "seed {seed}: {below}");
        // What follows in the same breath is typed before the next question is shown.
        let more = if random.below(2) == 0 { random.of(&TYPED) } else { "" };
        screen.write(&format!("{typed}{more}"));
    }
    let (answers, messages) = logged(home, &id);
    assert_eq!(answers, meant, "seed {seed}: {}", screen.so_far());
    assert_eq!(answers.len(), count, "seed {seed}");
    // A yes or a no is no message, whenever it is typed.
    let is_message = |line: &&str| !["", "y", "yes", "a", "n"].contains(line);
    let lines = early.lines().filter(is_message).count();
    assert!(messages <= lines, "seed {seed}: {messages} messages of {early:?}: {}", screen.so_far());
}
