//! The proof on the command line. `cargo xtask` calls it; each verb is one function.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command talks to whoever called it")]

use std::error::Error;
use std::process::ExitCode;

use lastword_proof::conformance::Broken;
use lastword_proof::crash::history::Violated;
use lastword_proof::differential::{Coverage, Divergence};
use lastword_proof::{
    backends, bench, bugs, conformance, crash, differential, for_each_backend, history, model, power_loss,
    scale, schedules,
};
use lastword_store::Error as Damaged;

const USAGE: &str = "usage: lastword-proof VERB; with `--bug NAME`, that bug is switched on by `cargo xtask`
  conformance BACKEND
  differential BACKEND [--seed FIRST] [--seeds COUNT] [--steps COUNT]
  model [--fleet [--bug NAME]] [--full]
  sim [--schedules COUNT] [--seed FIRST] [--threads COUNT] [--bug NAME]
  bugs [NAME [--engine | --fleet]]
  crash STORE [--rounds COUNT] [--seed NUMBER] [--bug NAME]
  power-loss STORE [--images COUNT] [--seed NUMBER] [--bug NAME]
  history FOLDER JOBS
  bench store [sqlite|postgres] [--only PART] [--rounds COUNT] [--stored EVENTS] [--json]
  bench link [--rounds COUNT]
  scale fleet [--short]";

/// Operations of a differential run, unless said otherwise.
const STEPS: u64 = 400;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = words.iter().map(String::as_str).collect();
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return misused(&format!("no runtime: {error}")),
    };
    let verb = match args.split_first() {
        Some((&"conformance", rest)) => runtime.block_on(conformance(rest)),
        Some((&"differential", rest)) => runtime.block_on(differential(rest)),
        Some((&"scale", _)) => Ok(ended(scale::main(&words[1..]))),
        Some((&"bench", _)) => Ok(ended(bench::main(&words[1..]))),
        Some((&"crash", rest)) => Ok(ended(expected(rest, crash::main(&words[1..])))),
        Some((&"power-loss", rest)) => Ok(ended(expected(rest, power_loss::main(&words[1..])))),
        Some((&"sim", _)) => Ok(schedules::verb::main(&words[1..])),
        Some((&"bugs", _)) => Ok(ended(runtime.block_on(bugs::main(&words[1..])).map_err(Into::into))),
        Some((&"history", rest)) => Ok(ended(runtime.block_on(history::main(rest)))),
        Some((&"model", _)) => Ok(ended(model::main(&words[1..]).map_err(Into::into))),
        _ => Err("no such verb".to_owned()),
    };
    match verb {
        Ok(code) => code,
        Err(why) => misused(&why),
    }
}

/// With a bug switched on, a broken promise is what must be found.
fn expected(args: &[&str], found: Result<(), Box<dyn Error>>) -> Result<(), Box<dyn Error>> {
    let Some(bug) = args.iter().position(|word| *word == "--bug").and_then(|n| args.get(n + 1)) else {
        return found;
    };
    match found {
        Ok(()) => Err(format!("{bug} was not found").into()),
        Err(error) if error.is::<Violated>() || matches!(error.downcast_ref(), Some(Damaged::Corrupt(_))) => {
            println!("{bug} was found: {error}");
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Says what a verb found; a promise that was broken is a failure.
fn ended(verb: Result<(), Box<dyn Error>>) -> ExitCode {
    match verb {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn misused(why: &str) -> ExitCode {
    eprintln!("{why}\n{USAGE}");
    ExitCode::from(2)
}

/// Runs the suite over a backend and lists the cases that failed; exits with 1 if there are any.
async fn conformance(args: &[&str]) -> Result<ExitCode, String> {
    let (backend, options) = args.split_first().ok_or("which backend?")?;
    if !options.is_empty() {
        return Err(format!("what is {options:?}?"));
    }
    let broken = suite(backend).await?;
    for Broken { case, why } in &broken {
        println!("broken: {case}: {}", why.lines().next().unwrap_or_default());
    }
    println!("{backend}: {} cases, {} broken", conformance::NAMES.len(), broken.len());
    Ok(if broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Compares a backend with the journal in memory; exits with 1 and the replaying command at the first difference.
async fn differential(args: &[&str]) -> Result<ExitCode, String> {
    let (backend, options) = args.split_first().ok_or("which backend?")?;
    let (mut first, mut count, mut steps) = (0, 1, STEPS);
    for option in options.chunks(2) {
        let [name, value] = option else { return Err(format!("{option:?} needs a number")) };
        let number = value.parse().map_err(|_| format!("`{value}` is not a number"))?;
        match *name {
            "--seed" => first = number,
            "--seeds" => count = number,
            "--steps" => steps = number,
            _ => return Err(format!("what is {name}?")),
        }
    }
    let mut coverage = Coverage::default();
    for seed in first..first + count {
        match pair(backend, seed, steps as usize).await? {
            Ok(run) => coverage.add(&run),
            Err(divergence) => {
                println!("{divergence}");
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    println!("{backend}: {count} runs of {steps} operations answered like memory\n{coverage:?}");
    Ok(ExitCode::SUCCESS)
}

/// Writes the two functions that know each backend by its name.
macro_rules! by_name {
    ($($backend:ident;)*) => {
        async fn suite(backend: &str) -> Result<Vec<Broken>, String> {
            match backend {
                $(stringify!($backend) => Ok(conformance::run_all(backends::$backend).await),)*
                _ => Err(format!("no backend is called `{backend}`")),
            }
        }

        async fn pair(
            backend: &str,
            seed: u64,
            steps: usize,
        ) -> Result<Result<Coverage, Box<Divergence>>, String> {
            match backend {
                $(stringify!($backend) => {
                    let (reference, ()) = backends::memory().await;
                    let (journal, _guard) = backends::$backend().await;
                    Ok(differential::compare(stringify!($backend), seed, steps, (reference, journal)).await)
                })*
                _ => Err(format!("no backend is called `{backend}`")),
            }
        }
    };
}

for_each_backend!(by_name);
