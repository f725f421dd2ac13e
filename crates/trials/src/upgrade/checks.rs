//! The verdict on what jobs share: processes, groups, environments, worktrees, the feed, keys, attached clients, stored dialogues.

use std::collections::BTreeSet;

use lastword_agents::{Dialogue, Start};
use lastword_api::Job;
use lastword_client::FromReply as _;
use serde_json::Value;

use super::account::{Account, differ, feed_after, pages_after};
use super::home::{Home, Version};
use super::jobs::Row;
use super::judge::{self, Left};
use crate::product::client::code_of;
use crate::product::figures::Stat;

/// Kinds of events that 0.1.0 must have written, so that reading them back is shown. It also has `abandoned`, `late_reported` and
/// `released`, which no step here can cause; core's golden files show that those are read.
#[rustfmt::skip] // As on the page of events, a group a line.
const KINDS: [&str; 29] = [
    "submitted", "dependency_settled", "cancel_requested", "limit_changed", "input_requested", "answer_requested", "interrupt_requested",
    "claimed", "launch_intended", "launched", "adopted", "stop_began", "rung_climbed", "limit_fired", "limit_neared", "paused", "unpaused",
    "input_delivered", "session_started", "session_changed", "turn_started", "question_asked", "question_closed", "item_completed", "spent",
    "turn_ended", "attempt_ended", "retry_scheduled", "last_word",
];

/// The order in which jobs of groups with one slot must have started.
const ORDERS: [(&str, &[&str]); 2] =
    [("lane", &["lane-1", "lane-3", "lane-2", "lane-tree"]), ("shut", &["shut-1", "shut-2"])];

/// Files that jobs changed in their worktrees, and that `apply` brought to the checkout.
const APPLIED: [&str; 4] = ["applied", "live", "queued", "kept"];

/// The leaders of running jobs, identified by pid and start time.
pub(super) struct Leaders(Vec<Leader>);

struct Leader {
    job: String,
    pid: i32,
    start_ticks: u64,
    /// It may end while no daemon runs.
    may_end: bool,
}

impl Leaders {
    /// Returns those that 0.1.0 reports.
    pub(super) fn of(rows: &[Row], before: &Account) -> Result<Leaders, String> {
        let leader = |row: &Row| {
            let attempts = before.jobs[&row.name].shown["attempts"].as_array()?;
            let pid = i32::try_from(attempts.last()?["pid"].as_i64()?).ok()?;
            let start_ticks = Stat::of(pid).filter(Stat::is_alive)?.start_ticks;
            Some(Leader { job: row.name.clone(), pid, start_ticks, may_end: row.changes_in_gap })
        };
        let adopted = rows.iter().filter(|row| row.is_adopted());
        let leaders = adopted.map(|row| leader(row).ok_or_else(|| format!("{} is not running", row.name)));
        leaders.collect::<Result<_, _>>().map(Leaders)
    }

    /// Checks that they run, below keepers of 0.1.0.
    pub(super) fn still_run(&self, home: &Home) -> Vec<String> {
        let wrong = self.0.iter().filter(|leader| !leader.may_end).filter_map(|leader| match leader.stat() {
            None => Some(format!("{}: its process {} is gone after the takeover", leader.job, leader.pid)),
            Some(stat) if home.runs_old(stat.parent) == Some(false) => {
                Some(format!("{}: its keeper does not run 0.1.0", leader.job))
            }
            Some(_) => None,
        });
        wrong.collect()
    }

    /// Checks that they are gone, with every other process of either executable.
    pub(super) fn are_gone(&self, home: &Home) -> Vec<String> {
        let alive = self.0.iter().filter(|leader| leader.stat().is_some());
        let mut found: Vec<String> = alive
            .map(|leader| format!("{}: its process {} is alive after its last word", leader.job, leader.pid))
            .collect();
        // A keeper exits a moment after it has written its record.
        if let Err(why) = home.until("every process is gone", || home.processes().is_empty().then_some(())) {
            found.push(format!("{why}: {:?}", home.processes()));
        }
        found
    }
}

impl Leader {
    /// Reads its state, if it is alive.
    fn stat(&self) -> Option<Stat> {
        Stat::of(self.pid).filter(|stat| stat.is_alive() && stat.start_ticks == self.start_ticks)
    }
}

/// Checks that dialogues that 0.1.0 stored are read, and that storing them again loses nothing.
pub(super) fn dialogues(home: &Home, rows: &[Row]) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    let parse = |text: &[u8]| serde_json::from_slice::<Value>(text).map_err(|error| error.to_string());
    for row in rows {
        for file in row.by_old.iter().filter_map(|step| step.strip_prefix("stored ")) {
            let bytes = home.stored(&row.name, file)?;
            // Twelve bytes come first: the lines written to the agent, and its turns.
            let stored = bytes.get(12..).unwrap_or_default();
            match Dialogue::restored(Start::default(), stored) {
                Ok(dialogue) => {
                    let place = format!("{}, its stored dialogue", row.name);
                    differ(&parse(stored)?, &parse(&dialogue.store())?, &place, &mut found);
                }
                Err(error) => found.push(format!("{}: {error}", row.name)),
            }
        }
    }
    Ok(found)
}

/// Checks every job and everything else after all jobs have ended.
pub(super) fn at_the_end(home: &mut Home, rows: &[Row], before: &Account) -> Result<Vec<String>, String> {
    let end = Account::of(home, rows, Version::New)?;
    let mut found = Vec::new();
    for row in rows {
        let left = Left { runs: home.lines("runs", &row.name), heard: home.lines("heard", &row.name) };
        found.extend(judge::job(row, before.jobs.get(&row.name), &end.jobs[&row.name], &left));
    }
    orders(home, &mut found);
    environments(home, rows, &mut found);
    applied(home, &mut found);
    feed(home, before, &end, &mut found)?;
    key(home, &mut found)?;
    clients(home, &end, &mut found);
    Ok(found)
}

fn orders(home: &Home, found: &mut Vec<String>) {
    for (group, order) in ORDERS {
        let started = home.lines("order", group);
        if started != order {
            found.push(format!("the jobs of {group} started in the order {started:?} instead of {order:?}"));
        }
    }
}

/// Checks that jobs which the new daemon starts have the environment that 0.1.0 stored.
fn environments(home: &Home, rows: &[Row], found: &mut Vec<String>) {
    let expected = home.lines("env", "done");
    for row in rows.iter().filter(|row| row.is_waiting() && row.starts > 0) {
        let env = home.lines("env", &row.name);
        if env != expected {
            found.push(format!("{}: its environment is {env:?} instead of {expected:?}", row.name));
        }
    }
}

fn applied(home: &Home, found: &mut Vec<String>) {
    for file in APPLIED {
        let text = std::fs::read_to_string(home.repository().join(file)).unwrap_or_default();
        if text.trim_end() != file {
            found.push(format!("the checkout has no `{file}`: {text:?}"));
        }
    }
}

/// Checks that the feed goes on after the cursor of 0.1.0 without a gap or a repeat.
fn feed(home: &Home, before: &Account, end: &Account, found: &mut Vec<String>) -> Result<(), String> {
    let later = pages_after(&mut home.client(), feed_after, &before.cursor)?.0;
    let place = |event: &Value| (event["job"].to_string(), event["seq"].to_string());
    let seen: Vec<_> = before.feed.iter().chain(&later).map(place).collect();
    let distinct: BTreeSet<_> = seen.iter().cloned().collect();
    let all: BTreeSet<_> = end.feed.iter().map(place).collect();
    if distinct.len() != seen.len() || distinct != all {
        let (seen, distinct, all) = (seen.len(), distinct.len(), all.len());
        found.push(format!("before and after the cursor are {seen} events, {distinct} distinct, of {all}"));
    }
    let kinds = before.kinds();
    let missing: Vec<_> = KINDS.iter().filter(|kind| !kinds.contains(*kind)).collect();
    if !missing.is_empty() {
        found.push(format!("0.1.0 wrote no event of {missing:?}, so reading it back was not shown"));
    }
    Ok(())
}

/// Checks that the key of a request to 0.1.0 still stands for its job, and for no other request.
fn key(home: &Home, found: &mut Vec<String>) -> Result<(), String> {
    let again = home.submit_keyed()?;
    let is_replayed = again.header("idempotency-replayed") == Some("true");
    let body = String::from_utf8_lossy(&again.body).into_owned();
    if !is_replayed || Job::from_reply(again)?.id != home.id("keyed")? {
        found.push(format!("the repeated request was not recognised: {body}"));
    }
    let other = home.submit_under_key("exit 1")?;
    if code_of(&other) != "key_reused" {
        found.push(format!("another request under the same key was answered with {}", code_of(&other)));
    }
    Ok(())
}

/// Checks that attached clients of 0.1.0 got every line and event once, and exited as their job did.
fn clients(home: &mut Home, end: &Account, found: &mut Vec<String>) {
    let events = end.jobs["count-1"].events.len();
    for client in &mut home.clients {
        let code = client.child.wait().ok().and_then(|status| status.code());
        let text = std::fs::read_to_string(&client.output).unwrap_or_default();
        let verb = client.line.split(' ').next().unwrap_or_default();
        let expected = if verb == "run" { 4 } else { 0 };
        if code != Some(expected) {
            found.push(format!("the client `{}` exited with {code:?} instead of {expected}", client.line));
        }
        match verb {
            "run" | "logs" => judge::counted(text.as_bytes(), found),
            "events" if text.lines().count() != events => {
                found.push(format!(
                    "the client `{}` got {} events of {events}",
                    client.line,
                    text.lines().count()
                ));
            }
            _ => {}
        }
    }
}
