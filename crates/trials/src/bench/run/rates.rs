//! `true` per second, two and eight at once, with whatever each has around it: ours until the last word of every job is on
//! the disk.

use std::process::Stdio;
use std::time::{Duration, Instant};

use lastword_client::daemon;

use super::super::cost::Cpu;
use super::super::folders::Folders;
use super::super::rates::{AT_ONCE, BARE, Contender, SPOOLER, TRUE, bare, in_turn, xargs};
use super::super::rivals::Rivals;
use super::super::timed::timed;
use super::product::{Ours, submit};
use crate::clock;
use crate::product::client::Client;
use crate::statistics::median;

/// The longest that the last job of a round may take.
const LAST_MAX: Duration = Duration::from_secs(120);

/// Compares all, prints the table and reports whether there was a goal that was missed: there is none for rates.
pub(super) fn compare(
    ours: &Ours,
    folders: &Folders,
    rivals: &Rivals,
    cpu: &Cpu,
    rounds: usize,
    short: bool,
) -> Result<bool, String> {
    let mut contenders = vec![
        Contender { name: BARE, jobs: 800, run: Box::new(bare) },
        Contender { name: "xargs -P", jobs: 800, run: Box::new(xargs) },
        Contender {
            name: "ours, one client of the API",
            jobs: 200,
            run: Box::new(|n, jobs| by_api(ours, n, jobs)),
        },
        Contender {
            name: "ours, a command for each",
            jobs: 100,
            run: Box::new(|n, jobs| by_command(ours, n, jobs)),
        },
    ];
    if let Some(spooler) = &rivals.spooler {
        let run = Box::new(|at_once, jobs| spooler.run(folders, at_once, jobs));
        contenders.push(Contender { name: SPOOLER, jobs: 200, run });
    }
    if let Some(pueue) = &rivals.pueue {
        let run = Box::new(|at_once, jobs| pueue.run(folders, at_once, jobs));
        contenders.push(Contender { name: "pueue", jobs: 40, run });
    }
    let mut figures = in_turn(&contenders, cpu, rounds, short)?;
    let medians: Vec<(f64, f64)> = figures
        .iter_mut()
        .map(|figures| (median(&mut figures.per_second), median(&mut figures.cpu_ms)))
        .collect();
    let of = |name: &str, at: usize| {
        let place = contenders.iter().position(|contender| contender.name == name)?;
        medians.get(place * AT_ONCE.len() + at).map(|(rate, _)| *rate)
    };
    println!(
        "\n{:<30} {:>8} {:>11} {:>8} {:>16} {:>9} {:>12}",
        "`true`, the whole product",
        "at once",
        "per second",
        "of bare",
        "of task-spooler",
        "of pueue",
        "CPU ms each"
    );
    for (place, contender) in contenders.iter().enumerate() {
        for (at, at_once) in AT_ONCE.iter().enumerate() {
            let (rate, cpu) = medians[place * AT_ONCE.len() + at];
            let part = |name: &str| of(name, at).map_or(f64::NAN, |other| rate / other);
            println!(
                "{:<30} {at_once:>8} {rate:>11.0} {:>8.3} {:>16.2} {:>9.2} {cpu:>12.2}",
                contender.name,
                part(BARE),
                part(SPOOLER),
                part("pueue")
            );
        }
    }
    println!(
        "ours: each job in the journal before it starts, its output, exit and proof on the disk before its last word"
    );
    println!("others: nothing is on the disk; task-spooler and pueue keep the output");
    Ok(true)
}

/// One client submits all, then waits until the last has its last word.
pub(super) fn by_api(ours: &Ours, at_once: usize, jobs: usize) -> Result<f64, String> {
    let mut client = ours.product.client();
    ours.slots(&mut client, at_once)?;
    let before = ended(&mut client)?;
    let call = submit(vec![TRUE.to_owned()]);
    let begin = Instant::now();
    for _ in 0..jobs {
        client.call(&call)?;
    }
    to_the_last(&mut client, before + jobs as u64)?;
    Ok(jobs as f64 / begin.elapsed().as_secs_f64())
}

/// A command for each job, as many at a time as run at once.
pub(super) fn by_command(ours: &Ours, at_once: usize, jobs: usize) -> Result<f64, String> {
    let mut client = ours.product.client();
    ours.slots(&mut client, at_once)?;
    let before = ended(&mut client)?;
    let begin = Instant::now();
    timed(at_once, jobs, |_| {
        let mut command = ours.product.command(&["run", "--detach", "--", TRUE]);
        match command.stdout(Stdio::null()).stderr(Stdio::null()).status() {
            Ok(status) if status.success() => Ok(()),
            other => Err(format!("lastword run: {other:?}")),
        }
    })?;
    to_the_last(&mut client, before + jobs as u64)?;
    Ok(jobs as f64 / begin.elapsed().as_secs_f64())
}

fn ended(client: &mut Client) -> Result<u64, String> {
    Ok(client.call(&daemon::show())?.counts.get("ended").copied().unwrap_or(0))
}

fn to_the_last(client: &mut Client, count: u64) -> Result<(), String> {
    let mut seen = 0;
    let all = clock::until(LAST_MAX, Duration::from_millis(1), || {
        seen = ended(client).unwrap_or(seen);
        (seen >= count).then_some(())
    });
    all.ok_or_else(|| format!("{seen} of {count} jobs have ended"))
}
