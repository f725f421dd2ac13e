//! Rows about turns: they complete, use tools, hear what is said meanwhile, and cost something.

use super::super::stand::{Job, Stand};

pub(super) fn completed(stand: &Stand) -> Result<(), String> {
    let job = stand.run(&[], "Answer. [[say good day]]")?;
    job.completes(1)?;
    let facts = job.facts()?;
    if let Some(fact) = facts.iter().find(|fact| fact["type"].as_str().is_some_and(is_of_limits)) {
        return Err(format!("nobody set a limit, and there is {}", fact["type"]));
    }
    match stand.times_asked("say good day") {
        1 => Ok(()),
        times => Err(format!("the model was asked {times} times")),
    }
}

fn is_of_limits(kind: &str) -> bool {
    kind.contains("limit") || kind.contains("paused")
}

pub(super) fn parallel(stand: &Stand) -> Result<(), String> {
    let command = |own: &str, other: &str| format!("touch {own}; {}", stand.until_made(other));
    let both = format!("[[shells {} ;; {}]]", command("one", "go"), command("two", "go"));
    let job = stand.run(&["--permissions", "allow"], &format!("Run them. {both} [[say done]]"))?;
    // One after the other is as good: then the second begins when the first may end.
    stand.until("a command runs", || stand.made("one").or(stand.made("two")))?;
    stand.make("go")?;
    job.completes(1)?;
    match (stand.made("one").is_some(), stand.made("two").is_some(), stand.times_asked("say done")) {
        (true, true, 1) => Ok(()),
        (one, two, times) => Err(format!("one ran: {one}, two ran: {two}, the model went on {times} times")),
    }
}

pub(super) fn tool(stand: &Stand) -> Result<(), String> {
    let job = stand.run(&["--permissions", "allow"], "Run it. [[sh echo made >> made]] [[say done]]")?;
    ran(stand, &job)
}

/// Makes sure that a job did what is asked for in `tool`, once, and that a fact tells of it.
pub(super) fn ran(stand: &Stand, job: &Job<'_>) -> Result<(), String> {
    job.completes(1)?;
    if stand.made("made").as_deref() != Some("made\n") {
        return Err(format!("the command was not run once: {:?}; {}", stand.made("made"), job.story()));
    }
    let items = job.all("item_completed")?;
    let is_told =
        items.iter().any(|item| item["title"].as_str().is_some_and(|title| title.contains("echo made")));
    if is_told { Ok(()) } else { Err(format!("no item tells of the command: {items:?}")) }
}

pub(super) fn queue(stand: &Stand) -> Result<(), String> {
    let job = stand.run(&[], "Begin. [[gate G1 first]]")?;
    stand.asked("gate G1")?;
    job.tell("send", &["Go on. [[say second]]"])?;
    // Nothing of it may reach the model before the first turn is over.
    if stand.times_asked("say second") > 0 {
        return Err("it was said into the turn".to_owned());
    }
    stand.model.release("G1");
    job.completes(2)?;
    match stand.times_asked("say second") {
        1 => Ok(()),
        times => Err(format!("the model was asked {times} times")),
    }
}

pub(super) fn steer(stand: &Stand) -> Result<(), String> {
    let command = stand.until_made("go");
    let prompt = format!("Begin. [[sh {command}]] [[say not steered]]");
    let job = stand.run(&["--permissions", "allow"], &prompt)?;
    stand.until("the command runs", || (!stand.holding(0).is_empty()).then_some(()))?;
    job.tell("send", &["--steer", "Another way. [[say steered]]"])?;
    job.nth("input_delivered", 1)?;
    stand.make("go")?;
    job.completes(1)?;
    match (stand.times_asked("say steered"), stand.times_asked("say not steered")) {
        (1, 0) => Ok(()),
        (steered, not) => Err(format!("heard in {steered} replies, not heard in {not}; {}", job.story())),
    }
}

pub(super) fn long_text(stand: &Stand) -> Result<(), String> {
    stand.run(&[], "Answer. [[big 1024]]")?.completes(1)
}

pub(super) fn usage(stand: &Stand) -> Result<(), String> {
    let job = stand.run(&[], "Answer. [[@usage 1234 56]] [[say good day]]")?;
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

pub(super) fn cost(stand: &Stand) -> Result<(), String> {
    let job = stand.run(&[], "Answer. [[@usage 100000 5000]] [[say good day]]")?;
    job.completes(1)?;
    let spent: u64 = job.all("spent")?.iter().filter_map(|spent| spent["money_micros"].as_u64()).sum();
    if spent > 0 { Ok(()) } else { Err("no money was counted".to_owned()) }
}
