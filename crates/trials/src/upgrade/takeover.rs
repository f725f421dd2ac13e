//! The three ways to replace the daemon of 0.1.0.

use std::time::Duration;

use super::home::{Home, Version, kill};
use super::jobs::Row;
use crate::clock;
use crate::product::figures::Stat;

/// How the daemon of 0.1.0 is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// `kill -9`, then the new executable is started.
    Killed,
    /// `daemon stop`, then the new executable is started.
    Stopped,
    /// `daemon restart` by the new executable.
    Restarted,
}

impl Way {
    pub(super) const ALL: [Way; 3] = [Way::Killed, Way::Stopped, Way::Restarted];

    pub(super) fn name(self) -> &'static str {
        match self {
            Way::Killed => "killed",
            Way::Stopped => "stopped",
            Way::Restarted => "restarted",
        }
    }

    /// Replaces the daemon, and takes the steps of rows that come while no daemon runs.
    pub(super) fn take_over(self, home: &mut Home, rows: &[Row]) -> Result<(), String> {
        let old = home.product(Version::Old).daemon().ok_or("0.1.0 does not answer")?;
        match self {
            Way::Killed | Way::Stopped => {
                // An attached client would start 0.1.0 again or give up after 5 s, so it is frozen during the gap.
                home.clients.iter().for_each(|client| kill(client.child.id() as i32, libc::SIGSTOP));
                match self {
                    Way::Killed => kill(old, libc::SIGKILL),
                    _ => drop(home.ask(Version::Old, &["daemon", "stop"])?),
                }
                until_gone(old)?;
                take_gap_steps(home, rows)?;
                home.ask(Version::New, &["daemon", "start"])?;
                home.clients.iter().for_each(|client| kill(client.child.id() as i32, libc::SIGCONT));
            }
            Way::Restarted => {
                home.ask(Version::New, &["daemon", "restart"])?;
                until_gone(old)?;
            }
        }
        home.product(Version::New).start()?;
        let daemon = home.product(Version::New).daemon().ok_or("the new daemon does not answer")?;
        match home.runs_old(daemon) {
            Some(true) => Err("the daemon is still 0.1.0".to_owned()),
            _ => Ok(()),
        }
    }

    /// Reports whether no daemon runs for a while.
    pub(super) fn has_gap(self) -> bool {
        self != Way::Restarted
    }
}

/// Takes the steps that come while no daemon runs, and waits until the processes concerned are gone.
fn take_gap_steps(home: &mut Home, rows: &[Row]) -> Result<(), String> {
    for row in rows.iter().filter(|row| !row.in_gap.is_empty()) {
        for step in &row.in_gap {
            home.step(row, step, Version::New)?;
        }
        let leader = home.lines("runs", &row.name).last().and_then(|line| line.parse().ok());
        until_gone(leader.ok_or_else(|| format!("{} was not started", row.name))?)?;
    }
    Ok(())
}

fn until_gone(pid: i32) -> Result<(), String> {
    let is_gone = || Stat::of(pid).is_none_or(|stat| !stat.is_alive()).then_some(());
    let gone = clock::until(Duration::from_secs(60), Duration::from_millis(5), is_gone);
    gone.ok_or_else(|| format!("process {pid} is still alive"))
}
