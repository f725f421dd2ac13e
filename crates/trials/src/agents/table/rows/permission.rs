//! Rows about permissions: an agent that asks before it runs something.

use serde_json::json;

use super::super::setup::{Job, Setup};

const PROMPT: &str = "Run it. [[sh echo made >> made]] [[say done]]";

/// Starts a job and waits until it asks. What it asks about is not done yet.
fn asking(setup: &Setup) -> Result<Job<'_>, String> {
    let job = setup.run(&["--permissions", "ask"], PROMPT)?;
    let question = job.nth("question_asked", 1)?;
    if !question["text"].as_str().is_some_and(|text| text.contains("echo made")) {
        return Err(format!("the question does not say what it is about: {question}"));
    }
    match setup.made("made") {
        None => Ok(job),
        Some(_) => Err("it was done before it was allowed".to_owned()),
    }
}

pub(super) fn allowed(setup: &Setup) -> Result<(), String> {
    let job = asking(setup)?;
    job.answer("approve", &[])?;
    job.completes(1)?;
    match setup.made("made").as_deref() {
        Some("made\n") => Ok(()),
        other => Err(format!("it was allowed, and came to {other:?}")),
    }
}

/// Allowed for good, the same is not asked of a person again, until the rule is removed.
pub(super) fn rule(setup: &Setup) -> Result<(), String> {
    let command = "[[sh echo made >> made]]";
    let prompt = format!("Run it twice. {command} {command} [[gate G1 done]]");
    let job = setup.run(&["--permissions", "ask"], &prompt)?;
    job.nth("question_asked", 1)?;
    job.answer("approve", &["--always"])?;
    setup.asked("gate G1")?;
    let answers = job.all("answer_requested")?;
    if answers.len() != 2 || answers[1]["by"] != "rule r1" {
        return Err(format!("the answers are {answers:?}"));
    }
    let rules = setup.product.said(&["rule", "ls", &job.id])?;
    if !rules.contains("r1") || !rules.contains("echo made >> made") {
        return Err(format!("the rules are shown as {rules}"));
    }
    setup.product.said(&["rule", "rm", &job.id, "r1"])?;
    job.tell("send", &[&format!("Once more. {command} [[say done]]")])?;
    setup.model.release("G1");
    job.nth("question_asked", 3)?;
    job.answer("deny", &[])?;
    job.completes(2)?;
    match setup.made("made").as_deref() {
        Some("made\nmade\n") => Ok(()),
        other => Err(format!("it was allowed twice, and came to {other:?}")),
    }
}

/// Two commands in one reply: both are asked for, and each answer reaches its own.
pub(super) fn two(setup: &Setup) -> Result<(), String> {
    let both = "[[shells echo one >> one ;; echo two >> two]]";
    let job = setup.run(&["--permissions", "ask"], &format!("Run them. {both} [[say done]]"))?;
    job.nth("question_asked", 2)?;
    let asked = job.all("question_asked")?;
    for (question, verb) in asked.iter().zip(["deny", "approve"]).rev() {
        let name = question["name"].as_str().ok_or("a question has no name")?;
        job.tell(verb, &[name])?;
    }
    job.completes(1)?;
    let is_first = asked[0]["request"].as_str().is_some_and(|request| request.contains("echo one"));
    let (denied, allowed) = if is_first { ("one", "two") } else { ("two", "one") };
    match (setup.made(denied), setup.made(allowed)) {
        (None, Some(_)) => Ok(()),
        other => Err(format!("{denied} was denied, {allowed} was allowed, and they came to {other:?}")),
    }
}

/// A command whose end lies far beyond what fits on a line, on a screen or in a title.
pub(super) fn whole(setup: &Setup) -> Result<(), String> {
    let command =
        format!("true '{}'; echo made >> made", "words that fill many lines of a screen ".repeat(100));
    let job = setup.run(&["--permissions", "ask"], &format!("Run it. [[sh {command}]] [[say done]]"))?;
    let question = job.nth("question_asked", 1)?;
    if !question["request"].as_str().is_some_and(|request| request.contains(&command)) {
        return Err(format!("{} bytes were asked for, and this was shown: {question}", command.len()));
    }
    // The name by which it is answered stands below all of it.
    let name = question["name"].as_str().unwrap_or_default();
    let shown = job.tell("question", &[])?;
    match shown.split_once("echo made >> made") {
        Some((above, below)) if !above.contains(name) && below.contains(name) => {}
        _ => return Err(format!("`{name}` does not stand below all of it: {shown}")),
    }
    job.answer("approve", &[])?;
    job.completes(1)?;
    match setup.made("made").as_deref() {
        Some("made\n") => Ok(()),
        other => Err(format!("it was allowed, and came to {other:?}")),
    }
}

/// A change to a file that exists: what is asked shows what it takes away.
pub(super) fn diff(setup: &Setup) -> Result<(), String> {
    let path = setup.work.join("notes.txt");
    std::fs::write(&path, "one\ntwo\nthree\n").map_err(|error| format!("notes.txt: {error}"))?;
    let (tool, name) = match setup.agent.name {
        "claude" => ("Write", "file_path"),
        "gemini" => ("write_file", "file_path"),
        "opencode" => ("write", "filePath"),
        _ => ("write", "path"),
    };
    let (read, call) = (json!({ name: path }), json!({ name: path, "content": "one\nTWO\nthree\n" }));
    // Two of them want a file to be read before it is written.
    let first = match setup.agent.name {
        "claude" => format!("[[tool Read {read}]] "),
        "opencode" => format!("[[tool read {read}]] "),
        _ => String::new(),
    };
    // By the path of the file, which opencode does not say in its request.
    let read_rule =
        format!("{}: {}", if setup.agent.name == "claude" { "Read" } else { "read" }, path.display());
    let flags = ["--permissions", "ask", "--allow", &read_rule];
    let job = setup.run(&flags, &format!("Write it. {first}[[tool {tool} {call}]] [[say done]]"))?;
    let question = job.nth("question_asked", 1)?;
    if !question["request"].as_str().is_some_and(|request| request.contains(" one\n-two\n+TWO\n three\n")) {
        return Err(format!("it is not shown as a diff: {question}"));
    }
    job.answer("approve", &[])?;
    job.completes(1)?;
    match setup.made("notes.txt").as_deref() {
        Some("one\nTWO\nthree\n") => Ok(()),
        other => Err(format!("it was allowed, and came to {other:?}")),
    }
}

/// Two questions with options in one request: each is shown with what its options mean, and gets its own answer.
pub(super) fn choice(setup: &Setup) -> Result<(), String> {
    let option = |label: &str, description: &str| json!({ "label": label, "description": description });
    let ask = |text: &str, several: bool, options: [serde_json::Value; 2]| json!({ "question": text, "header": "Choose", "multiSelect": several, "options": options });
    let databases = [option("SQLite", "one file"), option("PostgreSQL", "a server")];
    let extras = [option("Cache", "faster"), option("Queue", "later")];
    let asked = json!({ "questions": [ask("Which database?", false, databases), ask("Which extras?", true, extras)] });
    let job = setup
        .run(&["--permissions", "ask"], &format!("Ask. [[tool AskUserQuestion {asked}]] [[say done]]"))?;
    let question = job.nth("question_asked", 1)?;
    let shown = job.tell("question", &[])?;
    if question["kind"] != "choice"
        || !shown.contains("2 PostgreSQL: a server")
        || !shown.contains("1 Cache: faster")
    {
        return Err(format!("its options are not shown: {shown}"));
    }
    if job.answer("approve", &[]).is_ok() || job.answer("answer", &["SQLite"]).is_ok() {
        return Err("it took a permission, or one answer for two questions".to_owned());
    }
    job.answer("answer", &["SQLite", "Cache, Queue"])?;
    job.completes(1)?;
    let log = job.tell("logs", &["--raw"])?;
    match log.contains(r#"\"Which database?\"=\"SQLite\""#)
        && log.contains(r#"\"Which extras?\"=\"Cache, Queue\""#)
    {
        true => Ok(()),
        false => Err(format!("the answers did not reach it: {log}")),
    }
}

pub(super) fn denied(setup: &Setup) -> Result<(), String> {
    let job = asking(setup)?;
    job.answer("deny", &["not in this folder"])?;
    job.nth("turn_ended", 1)?;
    job.nth("last_word", 1)?;
    match setup.made("made") {
        None => Ok(()),
        Some(_) => Err("it was denied and done".to_owned()),
    }
}

pub(super) fn cancelled(setup: &Setup) -> Result<(), String> {
    let job = asking(setup)?;
    job.tell("cancel", &[]).or_else(super::ending::cancelled)?;
    job.ends("cancelled", "user")?;
    job.turn_ends(1, "cancelled")?;
    match (job.answer("approve", &[]), setup.made("made")) {
        (Err(_), None) => Ok(()),
        (approved, made) => Err(format!("approved afterwards: {approved:?}, and it came to {made:?}")),
    }
}

/// The name that rules have for a command, and a rule as the agent itself would write it.
const RULES: &[(&str, &str, &str)] = &[
    ("claude", "Bash", "Bash(echo *)"),
    ("codex", "commandExecution", "prefix_rule(pattern=[\"echo\"])"),
    ("goose", "shell", "developer__shell"),
    ("opencode", "execute", "bash: echo *"),
    ("gemini", "execute", "run_shell_command(echo)"),
];

/// The rule names the tool as the agent's page says; one that could never match is refused.
pub(super) fn by_rule(setup: &Setup) -> Result<(), String> {
    let (_, tool, own) =
        RULES.iter().find(|(name, ..)| *name == setup.agent.name).ok_or("this agent has no rules")?;
    match setup.run(&["--allow", own], PROMPT) {
        Err(why) if why.contains("; write `") => {}
        Err(why) => return Err(format!("`{own}` was refused without what to write: {why}")),
        Ok(_) => return Err(format!("`{own}` was accepted")),
    }
    let rule = format!("{tool}: echo made >> made");
    let job = setup.run(&["--permissions", "deny", "--allow", &rule], PROMPT)?;
    job.completes(1)?;
    match (setup.made("made").as_deref(), job.all("question_asked")?.len()) {
        (Some("made\n"), 0) => Ok(()),
        (made, questions) => Err(format!("{questions} questions, and it came to {made:?}")),
    }
}
