//! Rows about turns: they complete, use tools, take messages while they run, and cost something.

use super::super::setup::{Job, Setup};

pub(super) fn completed(setup: &Setup) -> Result<(), String> {
    let job = setup.run(&[], "Answer. [[say good day]]")?;
    job.completes(1)?;
    let facts = job.facts()?;
    if let Some(fact) = facts.iter().find(|fact| fact["type"].as_str().is_some_and(is_of_limits)) {
        return Err(format!("nobody set a limit, and there is {}", fact["type"]));
    }
    match setup.times_asked("say good day") {
        1 => Ok(()),
        times => Err(format!("the model was asked {times} times")),
    }
}

fn is_of_limits(kind: &str) -> bool {
    kind.contains("limit") || kind.contains("paused")
}

pub(super) fn parallel(setup: &Setup) -> Result<(), String> {
    let command = |own: &str, other: &str| format!("touch {own}; {}", setup.until_made(other));
    let both = format!("[[shells {} ;; {}]]", command("one", "go"), command("two", "go"));
    let job = setup.run(&["--permissions", "allow"], &format!("Run them. {both} [[say done]]"))?;
    // One after the other is as good: then the second begins when the first may end.
    setup.until("a command runs", || setup.made("one").or(setup.made("two")))?;
    setup.make("go")?;
    job.completes(1)?;
    match (setup.made("one").is_some(), setup.made("two").is_some(), setup.times_asked("say done")) {
        (true, true, 1) => Ok(()),
        (one, two, times) => Err(format!("one ran: {one}, two ran: {two}, the model went on {times} times")),
    }
}

pub(super) fn tool(setup: &Setup) -> Result<(), String> {
    let job = setup.run(&["--permissions", "allow"], "Run it. [[sh echo made >> made]] [[say done]]")?;
    ran(setup, &job)
}

/// Makes sure that a job did what is asked for in `tool`, once, and that a fact tells of it.
pub(super) fn ran(setup: &Setup, job: &Job<'_>) -> Result<(), String> {
    job.completes(1)?;
    if setup.made("made").as_deref() != Some("made\n") {
        return Err(format!("the command was not run once: {:?}; {}", setup.made("made"), job.story()));
    }
    let items = job.all("item_completed")?;
    let is_told =
        items.iter().any(|item| item["title"].as_str().is_some_and(|title| title.contains("echo made")));
    if is_told { Ok(()) } else { Err(format!("no item tells of the command: {items:?}")) }
}

pub(super) fn queue(setup: &Setup) -> Result<(), String> {
    let job = setup.run(&[], "Begin. [[gate G1 first]]")?;
    setup.asked("gate G1")?;
    job.tell("send", &["Go on. [[say second]]"])?;
    // Nothing of it may reach the model before the first turn is over.
    if setup.times_asked("say second") > 0 {
        return Err("it was said into the turn".to_owned());
    }
    setup.model.release("G1");
    job.completes(2)?;
    match setup.times_asked("say second") {
        1 => Ok(()),
        times => Err(format!("the model was asked {times} times")),
    }
}

pub(super) fn steer(setup: &Setup) -> Result<(), String> {
    let command = setup.until_made("go");
    let prompt = format!("Begin. [[sh {command}]] [[say not steered]]");
    let job = setup.run(&["--permissions", "allow"], &prompt)?;
    setup.until("the command runs", || (!setup.holding(0).is_empty()).then_some(()))?;
    job.tell("send", &["--steer", "Another way. [[say steered]]"])?;
    job.nth("input_delivered", 1)?;
    setup.make("go")?;
    job.completes(1)?;
    match (setup.times_asked("say steered"), setup.times_asked("say not steered")) {
        (1, 0) => Ok(()),
        (steered, not) => Err(format!("heard in {steered} replies, not heard in {not}; {}", job.story())),
    }
}

pub(super) fn long_text(setup: &Setup) -> Result<(), String> {
    setup.run(&[], "Answer. [[big 1024]]")?.completes(1)
}

pub(super) fn usage(setup: &Setup) -> Result<(), String> {
    let job = setup.run(&[], "Answer. [[@usage 1234 56]] [[say good day]]")?;
    used(&job)
}

/// Makes sure that a job completed, and counted what its model says that it used.
pub(super) fn used(job: &Job<'_>) -> Result<(), String> {
    job.completes(1)?;
    let sum = |name: &str| -> Result<u64, String> {
        Ok(job.all("spent")?.iter().filter_map(|spent| spent[name].as_u64()).sum())
    };
    match (sum("tokens_in")?, sum("tokens_out")?) {
        (1234, 56) => Ok(()),
        (read, written) => Err(format!("{read} tokens read and {written} written, not 1234 and 56")),
    }
}

pub(super) fn cost(setup: &Setup) -> Result<(), String> {
    let job = setup.run(&[], "Answer. [[@usage 100000 5000]] [[say good day]]")?;
    job.completes(1)?;
    let spent: u64 = job.all("spent")?.iter().filter_map(|spent| spent["money_micros"].as_u64()).sum();
    if spent > 0 { Ok(()) } else { Err("no money was counted".to_owned()) }
}
