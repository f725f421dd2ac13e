//! Lanes: steps that run in parallel. Each is a process of its own, so that its output can be printed in one piece.
//!
//! The last lane of a stage yields the processors to the others, whose steps have deadlines.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use super::report::{Report, not_run};
use super::step::{Lane, Step};
use crate::program::{Failure, itself, target};

/// The result of a step that ran as a process.
struct Ended {
    printed: String,
    code: i32,
}

/// Runs lanes in parallel. A step's output is printed when it ends.
pub(super) fn run(verb: &str, lanes: &[Lane], report: &mut Report) {
    let report = Mutex::new(report);
    let hold = || report.lock().expect("no lane panics");
    std::thread::scope(|scope| {
        for (lane, number) in lanes.iter().zip(1..) {
            let hold = &hold;
            scope.spawn(move || {
                for step in *lane {
                    if !hold().goes_on() {
                        hold().lines.push(not_run(step));
                        continue;
                    }
                    eprintln!("── {} has begun ──", step.name);
                    let ended = alone(verb, step, number == lanes.len());
                    hold().note(step, ended);
                }
            });
        }
    });
}

/// Runs one step with `--only` in a new process, which may yield to others.
fn alone(verb: &str, step: &Step, yields: bool) -> Result<Ended, Failure> {
    let folder = target().join("steps");
    let path = folder.join(step.name.replace(|letter: char| !letter.is_alphanumeric(), "-"));
    let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", path.display()));
    fs::create_dir_all(&folder).map_err(failed)?;
    let file = fs::File::create(&path).map_err(failed)?;
    let words = [verb, "--only", step.name];
    let mut command = if yields { yielding(&words) } else { itself(&words) };
    command.stdin(Stdio::null()).stdout(file.try_clone().map_err(failed)?).stderr(file);
    let status = command.status().map_err(failed)?;
    let printed = fs::read(&path).map_err(failed)?;
    Ok(Ended { printed: String::from_utf8_lossy(&printed).into_owned(), code: status.code().unwrap_or(1) })
}

/// Returns a command that runs this program at the lowest priority.
fn yielding(words: &[&str]) -> Command {
    let mut command = Command::new("nice");
    // `/proc/self/exe` would be `nice`.
    command.args(["-n", "19", &format!("/proc/{}/exe", std::process::id())]).args(words);
    command
}

impl Report {
    /// Prints a step's output and adds its report line.
    fn note(&mut self, step: &Step, ended: Result<Ended, Failure>) {
        let Ended { printed, code } = match ended {
            Ok(ended) => ended,
            Err(failure) => {
                self.lines.push(format!("{:<22} FAILED", step.name));
                return self.failures.push(failure);
            }
        };
        eprint!("{printed}");
        let own = format!("{:<22} ", step.name);
        let line = printed.lines().rfind(|line| line.starts_with(&own));
        self.lines.push(line.map_or_else(|| format!("{own}ended without a report"), str::to_owned));
        if code != 0 {
            let why = printed.rsplit_once("\nxtask: ").map_or(step.name, |(_, why)| why.trim_end());
            self.failures.push(Failure { code: u8::try_from(code).unwrap_or(1), why: why.to_owned() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::AfterFailure;
    use super::super::step::{Done, own};
    use super::*;

    const STEP: Step = own("one", || Ok(Done::Passed));

    fn noted(printed: &str, code: i32) -> Report {
        let mut report = Report { after: AfterFailure::Stop, lines: Vec::new(), failures: Vec::new() };
        report.note(&STEP, Ok(Ended { printed: printed.into(), code }));
        report
    }

    #[test]
    fn what_a_step_reported_of_itself_is_taken_over() {
        let line = format!("{:<22}     1.5 s     2.0 CPU s  ok", "one");
        let report = noted(&format!("\n── one ──\nmuch\n\n{line}\n"), 0);
        assert_eq!(report.lines, [line]);
        assert!(report.goes_on());
    }

    #[test]
    fn a_step_that_fails_says_why() {
        let line = format!("{:<22}     1.5 s     2.0 CPU s  FAILED", "one");
        let report = noted(&format!("much\n\n{line}\nxtask: one: it was\nnot so\n"), 3);
        assert_eq!(report.lines, [line]);
        assert_eq!(report.failures[0].why, "one: it was\nnot so");
        assert_eq!(report.failures[0].code, 3);
        assert!(!report.goes_on());
        assert_eq!(noted("killed", 137).failures[0].why, "one");
    }
}
