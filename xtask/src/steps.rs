//! Steps: the rows that `ci` and `full` run, each timed, and the report at the end.
//!
//! A step that this machine cannot run is reported as skipped, with the reason.

mod lanes;
mod report;
mod step;

use crate::program::{Failure, Outcome};
use report::Report;

pub(crate) use report::AfterFailure;
pub(crate) use step::{Done, Lane, Step, by_cargo, own, verb};

/// Runs a table: stage after stage, the lanes of a stage in parallel. With `--only`, runs the named steps one after the other.
pub(crate) fn run(verb: &str, stages: &[&[Lane]], arguments: &[&str], after: AfterFailure) -> Outcome {
    let all: Vec<&Step> = stages.iter().copied().flatten().copied().flatten().collect();
    let mut report = Report { after, lines: Vec::new(), failures: Vec::new() };
    match chosen(verb, &all, arguments)? {
        Chosen::Listed => return Ok(()),
        Chosen::Some(steps) => report.in_turn(&steps),
        Chosen::All => {
            for stage in stages {
                match stage {
                    [lane] => report.in_turn(&lane.iter().collect::<Vec<_>>()),
                    lanes => lanes::run(verb, lanes, &mut report),
                }
            }
        }
    }
    report.end()
}

/// Which steps to run.
enum Chosen<'a> {
    All,
    Some(Vec<&'a Step>),
    /// None: `--list` printed them.
    Listed,
}

fn chosen<'a>(verb: &str, steps: &[&'a Step], mut words: &[&str]) -> Result<Chosen<'a>, Failure> {
    match words {
        [] => return Ok(Chosen::All),
        ["--list"] => {
            for step in steps {
                println!("{:<22} {}", step.name, step.line());
            }
            return Ok(Chosen::Listed);
        }
        _ => {}
    }
    let mut chosen = Vec::new();
    loop {
        words = match words {
            [] => return Ok(Chosen::Some(chosen)),
            ["--only", name, rest @ ..] => {
                chosen.push(named(verb, steps, name)?);
                rest
            }
            _ => return Err(Failure::new(format!("usage: cargo xtask {verb} [--list] [--only STEP]..."))),
        }
    }
}

fn named<'a>(verb: &str, steps: &[&'a Step], name: &str) -> Result<&'a Step, Failure> {
    steps.iter().copied().find(|step| step.name == name).ok_or_else(|| {
        let names: Vec<String> = steps.iter().map(|step| format!("`{}`", step.name)).collect();
        Failure::new(format!("`{verb}` has no step `{name}`; its steps are {}", names.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: Lane = &[
        own("one", || Ok(Done::Passed)),
        own("two, wrong", || Err(Failure { code: 7, why: "no".into() })),
        own("three", || Ok(Done::Skipped("there is none"))),
        own("four", || Err(Failure { code: 9, why: "never".into() })),
    ];

    fn names(arguments: &[&str]) -> Result<Vec<&'static str>, String> {
        let all: Vec<&Step> = STEPS.iter().collect();
        match chosen("ci", &all, arguments).map_err(|failure| failure.why)? {
            Chosen::All => Ok(all.iter().map(|step| step.name).collect()),
            Chosen::Some(steps) => Ok(steps.iter().map(|step| step.name).collect()),
            Chosen::Listed => Ok(Vec::new()),
        }
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
        let run = |after| run("ci", &[&[STEPS]], &[], after).unwrap_err();
        assert_eq!(run(AfterFailure::Stop).why, "two, wrong: no");
        assert_eq!(run(AfterFailure::GoOn).why, "two, wrong: no\nfour: never");
        assert!(super::run("ci", &[&[STEPS]], &["--only", "one"], AfterFailure::Stop).is_ok());
    }
}
