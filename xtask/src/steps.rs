//! Steps: the rows that `ci` and `full` run, each timed, and the report at the end.
//!
//! A step that needs something this machine cannot have says that it was skipped, and why; none is left out in silence.

use std::time::{Duration, Instant};

use crate::program::{Failure, cargo, spent_by_children};
use crate::tools;

/// One thing to run, under a name that `--only` takes.
pub(crate) struct Step {
    name: &'static str,
    work: Work,
}

/// What a step runs.
enum Work {
    /// A verb of this program, with its arguments.
    Verb(&'static str),
    /// A verb of cargo, with its arguments.
    Cargo(&'static str),
    Own(fn() -> Result<Done, Failure>),
}

/// Returns a step that runs a verb of this program.
pub(crate) const fn verb(name: &'static str, line: &'static str) -> Step {
    Step { name, work: Work::Verb(line) }
}

/// Returns a step that runs a verb of cargo.
pub(crate) const fn by_cargo(name: &'static str, line: &'static str) -> Step {
    Step { name, work: Work::Cargo(line) }
}

/// Returns a step that runs a function.
pub(crate) const fn own(name: &'static str, run: fn() -> Result<Done, Failure>) -> Step {
    Step { name, work: Work::Own(run) }
}

/// What a step that did not fail has to say.
pub(crate) enum Done {
    Passed,
    Skipped(&'static str),
}

/// What becomes of the steps after one that failed.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum AfterFailure {
    Stop,
    GoOn,
}

/// Runs what was asked for of a table, and reports the time that each step took.
pub(crate) fn run(
    verb: &str,
    steps: &[Step],
    arguments: &[&str],
    after: AfterFailure,
) -> Result<Duration, Failure> {
    let Some(chosen) = chosen(verb, steps, arguments)? else { return Ok(Duration::ZERO) };
    let begin = Instant::now();
    let mut report = Vec::new();
    let mut failures: Vec<Failure> = Vec::new();
    for step in chosen {
        if after == AfterFailure::Stop && !failures.is_empty() {
            report.push(format!("{:<22} {:>22}  not run", step.name, ""));
            continue;
        }
        eprintln!("\n── {} ──", step.name);
        let (step_begin, spent) = (Instant::now(), spent_by_children());
        let done = step.work.run();
        let verdict = match &done {
            Ok(Done::Passed) => "ok".to_owned(),
            Ok(Done::Skipped(why)) => format!("SKIPPED: {why}"),
            Err(_) => "FAILED".to_owned(),
        };
        let took = step_begin.elapsed().as_secs_f64();
        let spent = spent_by_children().saturating_sub(spent).as_secs_f64();
        report.push(format!("{:<22} {took:>7.1} s {spent:>7.1} CPU s  {verdict}", step.name));
        if let Err(failure) = done {
            failures.push(Failure { why: format!("{}: {}", step.name, failure.why), ..failure });
        }
    }
    println!("\n{}", report.join("\n"));
    match failures.pop() {
        None => Ok(begin.elapsed()),
        Some(last) => {
            let all: Vec<String> =
                failures.into_iter().map(|failure| failure.why).chain([last.why]).collect();
            Err(Failure { code: last.code, why: all.join("\n") })
        }
    }
}

/// Returns the steps that are to be run; nothing if they were only to be listed.
fn chosen<'a>(verb: &str, steps: &'a [Step], mut words: &[&str]) -> Result<Option<Vec<&'a Step>>, Failure> {
    if words == ["--list"] {
        for step in steps {
            println!("{:<22} {}", step.name, step.work.line());
        }
        return Ok(None);
    }
    let mut chosen = Vec::new();
    loop {
        words = match words {
            [] => break,
            ["--only", name, rest @ ..] => {
                chosen.push(named(verb, steps, name)?);
                rest
            }
            _ => return Err(Failure::new(format!("usage: cargo xtask {verb} [--list] [--only STEP]..."))),
        }
    }
    Ok(Some(if chosen.is_empty() { steps.iter().collect() } else { chosen }))
}

fn named<'a>(verb: &str, steps: &'a [Step], name: &str) -> Result<&'a Step, Failure> {
    steps.iter().find(|step| step.name == name).ok_or_else(|| {
        let names: Vec<String> = steps.iter().map(|step| format!("`{}`", step.name)).collect();
        Failure::new(format!("`{verb}` has no step `{name}`; its steps are {}", names.join(", ")))
    })
}

impl Work {
    fn run(&self) -> Result<Done, Failure> {
        match self {
            // Which says itself what the verb needs.
            Work::Verb(line) => crate::dispatch(&line.split_whitespace().collect::<Vec<_>>())?,
            Work::Cargo(line) => {
                tools::need(line.split(' ').next().unwrap_or_default())?;
                cargo(line)?;
            }
            Work::Own(run) => return run(),
        }
        Ok(Done::Passed)
    }

    /// Returns what a person would type to run it alone.
    fn line(&self) -> String {
        match self {
            Work::Verb(line) => format!("cargo xtask {line}"),
            Work::Cargo(line) => format!("cargo {line}"),
            Work::Own(_) => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: &[Step] = &[
        Step { name: "one", work: Work::Own(|| Ok(Done::Passed)) },
        Step { name: "two, wrong", work: Work::Own(|| Err(Failure { code: 7, why: "no".into() })) },
        Step { name: "three", work: Work::Own(|| Ok(Done::Skipped("there is none"))) },
        Step { name: "four", work: Work::Own(|| Err(Failure { code: 9, why: "never".into() })) },
    ];

    fn names(arguments: &[&str]) -> Result<Vec<&'static str>, String> {
        let chosen = chosen("ci", STEPS, arguments).map_err(|failure| failure.why)?;
        Ok(chosen.into_iter().flatten().map(|step| step.name).collect())
    }

    #[test]
    fn a_step_is_chosen_by_its_name() {
        assert_eq!(names(&[]).unwrap(), ["one", "two, wrong", "three", "four"]);
        assert_eq!(names(&["--only", "three", "--only", "one"]).unwrap(), ["three", "one"]);
        assert_eq!(names(&["--list"]).unwrap(), [""; 0]);
        let unknown = names(&["--only", "five"]).unwrap_err();
        assert!(unknown.contains("no step `five`") && unknown.contains("`two, wrong`"), "{unknown}");
        for wrong in [&["one"][..], &["--only"], &["--list", "--only", "one"]] {
            assert!(names(wrong).unwrap_err().starts_with("usage: cargo xtask ci"), "{wrong:?}");
        }
    }

    #[test]
    fn a_failure_stops_the_rest_or_is_told_at_the_end() {
        let run = |after| run("ci", STEPS, &[], after).unwrap_err();
        assert_eq!(run(AfterFailure::Stop).why, "two, wrong: no");
        assert_eq!(run(AfterFailure::GoOn).why, "two, wrong: no\nfour: never");
        assert!(super::run("ci", STEPS, &["--only", "one"], AfterFailure::Stop).is_ok());
    }
}
