//! Everything that a daemon and the command line report, compared between 0.1.0 and the new executable.
//!
//! Every field that 0.1.0 reports must still be there with the same value; new fields may come. The `text` of an event is prose for
//! people and may be reworded.

use std::collections::BTreeMap;

use lastword_client::jobs::Filter;
use lastword_client::output::{self, Part, Piece};
use lastword_client::{Call, FromReply as _, daemon, events, groups, jobs};
use serde_json::Value;

use super::home::{Home, Version};
use super::jobs::{Row, When};
use crate::product::client::Client;

/// Bytes of output that one call returns at most.
const PIECE: u64 = 256 << 10;

/// Items of a page.
const PAGE: u32 = 500;

/// Fields of a live job that an adoption changes.
const CHANGED_BY_ADOPTION: [&str; 2] = ["/version", "/updated_at"];

/// Fields that a stop in progress changes.
const CHANGED_BY_STOP: [&str; 3] = ["/stop/rung", "/stop/alive", "/stop/pids"];

/// Everything that a daemon reports.
pub(super) struct Account {
    /// Jobs, by the names of their rows.
    pub(super) jobs: BTreeMap<String, Told>,
    /// Rows of the list, by id.
    lines: BTreeMap<String, Value>,
    groups: Value,
    /// Counts of `prune --dry-run`: results that were not read, and worktrees that were not applied.
    prunes: Value,
    /// The feed: every event of every job.
    pub(super) feed: Vec<Value>,
    /// The cursor after the last event of the feed.
    pub(super) cursor: String,
}

/// Everything that a daemon reports of one job.
pub(super) struct Told {
    pub(super) shown: Value,
    pub(super) events: Vec<Value>,
    /// Output by attempt and stream, such as `1/stdout`.
    pub(super) streams: BTreeMap<String, Vec<u8>>,
}

impl Account {
    /// Reads everything; timed jobs first, before their clocks run out.
    pub(super) fn of(home: &Home, rows: &[Row], version: Version) -> Result<Account, String> {
        let mut client = home.client();
        let mut jobs = BTreeMap::new();
        for row in rows.iter().rev() {
            jobs.insert(row.name.clone(), Told::of(&mut client, home.id(&row.name)?)?);
        }
        let lines = pages(&mut client, rows_after)?.0.into_iter();
        let prunes = home.ask(version, &["--json", "prune", "--dry-run", "--older-than", "0s"])?;
        let mut prunes = read(&prunes)?;
        prunes.as_object_mut().and_then(|counts| counts.remove("removed"));
        let (feed, cursor) = pages(&mut client, feed_after)?;
        Ok(Account {
            jobs,
            lines: lines.map(|line| (line["id"].as_str().unwrap_or_default().to_owned(), line)).collect(),
            groups: client.call(&groups::list().untyped())?["items"].take(),
            prunes,
            feed,
            cursor,
        })
    }

    /// Reads the jobs that were not read yet.
    pub(super) fn add(&mut self, home: &Home, rows: &[Row]) -> Result<(), String> {
        let mut client = home.client();
        for row in rows {
            if !self.jobs.contains_key(&row.name) {
                self.jobs.insert(row.name.clone(), Told::of(&mut client, home.id(&row.name)?)?);
            }
        }
        Ok(())
    }

    /// Returns the differences to what the new daemon reports right after the takeover.
    pub(super) fn compare(&self, rows: &[Row], later: &Account) -> Vec<String> {
        let mut found = Vec::new();
        for row in rows {
            let (told, now) = (&self.jobs[&row.name], &later.jobs[&row.name]);
            if !row.changes_in_gap {
                told.compare(row, now, &mut found);
            }
            told.compare_history(row, now, &mut found);
            let id = told.shown["id"].as_str().unwrap_or_default();
            if row.is_live() {
                continue;
            }
            match (self.lines.get(id), later.lines.get(id)) {
                (Some(old), Some(new)) => differ(old, new, &format!("{} in the list", row.name), &mut found),
                _ => found.push(format!("{} is missing in a list", row.name)),
            }
        }
        let known = |id: &&String| self.jobs.values().any(|told| told.shown["id"].as_str() == Some(id));
        let fewer = self.lines.keys().filter(|id| !later.lines.contains_key(*id));
        let more = later.lines.keys().filter(|id| !self.lines.contains_key(*id) && !known(id));
        found.extend(fewer.chain(more).map(|id| format!("{id} is in one of the lists only")));
        differ(&self.groups, &later.groups, "groups", &mut found);
        self.compare_prunes(rows, later, &mut found);
        found
    }

    /// Compares what `prune` keeps. Jobs that ended since then are unread as well.
    fn compare_prunes(&self, rows: &[Row], later: &Account, found: &mut Vec<String>) {
        let ended = |row: &&Row| {
            row.is_live() && later.jobs[&row.name].shown["phase"] == "ended" || row.when == When::Timed
        };
        let more = rows.iter().filter(ended).count() as u64;
        let count = |account: &Account, name: &str| account.prunes[name].as_u64().unwrap_or_default();
        for (name, more) in [("kept_unread", more), ("kept_unsaved", 0)] {
            let (old, new) = (count(self, name), count(later, name));
            if old == 0 || !(old..=old + more).contains(&new) {
                found.push(format!("prune: {name} was {old} and is {new}"));
            }
        }
    }

    /// Returns the kinds of events in the feed.
    pub(super) fn kinds(&self) -> std::collections::BTreeSet<&str> {
        self.feed.iter().filter_map(|event| event["type"].as_str()).collect()
    }
}

impl Told {
    /// Reads everything; of the output of a live job only the first piece.
    pub(super) fn of(client: &mut Client, id: &str) -> Result<Told, String> {
        let shown = client.call(&jobs::show(id).untyped())?;
        let events =
            pages(client, |cursor| events::of_job(id, &events::Filter::default(), cursor, PAGE).untyped())?.0;
        let mut streams = BTreeMap::new();
        for attempt in shown["attempts"].as_array().into_iter().flatten() {
            for stream in ["stdout", "stderr"] {
                let no = attempt["no"].as_u64().and_then(|no| u32::try_from(no).ok()).unwrap_or_default();
                let part =
                    Part { attempt: Some(no), stream: Some(stream), limit: Some(PIECE), ..Part::default() };
                let bytes = read_output(client, id, part, shown["phase"] == "ended")?;
                streams.insert(format!("{no}/{stream}"), bytes);
            }
        }
        Ok(Told { shown, events, streams })
    }

    /// Compares the job itself.
    fn compare(&self, row: &Row, now: &Told, found: &mut Vec<String>) {
        let (mut old, new) = (self.shown.clone(), &now.shown);
        let changed: Vec<&str> = match (row.is_live(), old["phase"] == "stopping") {
            (false, _) => Vec::new(),
            (true, false) => CHANGED_BY_ADOPTION.to_vec(),
            (true, true) => CHANGED_BY_ADOPTION.into_iter().chain(CHANGED_BY_STOP).collect(),
        };
        for pointer in changed {
            if let Some((parent, field)) = pointer.rsplit_once('/')
                && let Some(fields) = old.pointer_mut(parent).and_then(Value::as_object_mut)
            {
                fields.remove(field);
            }
        }
        differ(&old, new, &row.name, found);
    }

    /// Compares what can only grow: events and output. Those of a job that has ended do not grow either.
    pub(super) fn compare_history(&self, row: &Row, now: &Told, found: &mut Vec<String>) {
        let name = &row.name;
        for (at, event) in self.events.iter().enumerate() {
            match now.events.get(at) {
                Some(new) => differ(event, new, &format!("{name}, event {}", at + 1), found),
                None => found.push(format!("{name}: event {} is gone: {event}", at + 1)),
            }
        }
        let more = now.events.get(self.events.len()..).unwrap_or_default().iter();
        let more: Vec<&str> = more.filter_map(|event| event["type"].as_str()).collect();
        // Jobs that resumed one another become a conversation, in which another job may follow.
        if !row.is_live() && more.iter().any(|kind| !OF_A_CONVERSATION.contains(kind)) {
            found.push(format!("{name}: it had ended, and since then has {more:?}"));
        }
        for (stream, bytes) in &self.streams {
            let new = now.streams.get(stream).map_or(&[][..], Vec::as_slice);
            if !new.starts_with(bytes) || (!row.is_live() && new.len() != bytes.len()) {
                found.push(format!("{name}: {stream} had {} bytes, which have changed", bytes.len()));
            }
        }
    }
}

/// The JSON that the command line prints of the jobs that ended before the upgrade.
pub(super) struct Screens {
    /// `show` by the name of the row, and `the list`.
    printed: BTreeMap<String, Value>,
    /// Lines of standard error.
    errors: Vec<String>,
    /// Client and daemon have different versions.
    is_skewed: bool,
}

impl Screens {
    /// Runs the commands of one executable, whichever daemon answers.
    pub(super) fn of(home: &Home, rows: &[Row], version: Version) -> Result<Screens, String> {
        let own = home.ask(version, &["--json", "version"])?;
        let daemon = home.client().call(&daemon::show().untyped())?;
        let is_skewed = read(&own)?["version"] != daemon["version"];
        let mut screens = Screens { printed: BTreeMap::new(), errors: Vec::new(), is_skewed };
        for row in rows.iter().filter(|row| row.when == When::First) {
            screens.add(home, version, &row.name, &["--json", "show", home.id(&row.name)?])?;
        }
        screens.add(
            home,
            version,
            "the list",
            &["--json", "ls", "--all", "--limit", "500", "--phase", "ended"],
        )?;
        Ok(screens)
    }

    fn add(&mut self, home: &Home, version: Version, name: &str, words: &[&str]) -> Result<(), String> {
        let output = home.run(version, words)?;
        self.printed.insert(name.to_owned(), read(&String::from_utf8_lossy(&output.stdout))?);
        self.errors.extend(String::from_utf8_lossy(&output.stderr).lines().map(str::to_owned));
        Ok(())
    }

    /// Returns the differences to what another client prints. If its daemon has another version, it must remark that.
    pub(super) fn compare(&self, later: &Screens, who: &str) -> Vec<String> {
        let mut found = Vec::new();
        let is_fine = |line: &&String| later.is_skewed && line.contains("daemon restart");
        found.extend(
            later
                .errors
                .iter()
                .filter(|line| !is_fine(line))
                .map(|line| format!("{who}it printed an error: {line}")),
        );
        if later.is_skewed && later.errors.is_empty() {
            found.push(format!("{who}it did not remark that the daemon has another version"));
        }
        for (name, old) in self.printed.iter().filter(|(name, _)| *name != "the list") {
            differ(old, &later.printed[name], &format!("{who}`show` of {name}"), &mut found);
        }
        let lines = |screens: &Screens| -> BTreeMap<String, Value> {
            let items = screens.printed["the list"]["items"].as_array().cloned().unwrap_or_default();
            items.into_iter().map(|line| (line["id"].to_string(), line)).collect()
        };
        let now = lines(later);
        for (id, line) in lines(self) {
            match now.get(&id) {
                Some(new) => differ(&line, new, &format!("{who}`ls` of {id}"), &mut found),
                None => found.push(format!("{who}{id} is not in the list")),
            }
        }
        found
    }
}

fn read(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("{error}: {text:?}"))
}

/// Notes every value of `old` that is missing or different in `new`.
pub(super) fn differ(old: &Value, new: &Value, place: &str, found: &mut Vec<String>) {
    match (old, new) {
        (Value::Object(fields), Value::Object(_)) => {
            for (name, value) in fields {
                let is_of_event = name == "text" && fields.contains_key("seq");
                match new.get(name) {
                    _ if is_of_event => {}
                    Some(new) => differ(value, new, &format!("{place}/{name}"), found),
                    None => found.push(format!("{place}/{name} was {value} and is missing")),
                }
            }
        }
        (Value::Array(items), Value::Array(others)) if items.len() == others.len() => {
            for (at, (item, other)) in items.iter().zip(others).enumerate() {
                differ(item, other, &format!("{place}/{at}"), found);
            }
        }
        _ if old == new || is_correction(old, new, place) => {}
        _ => found.push(format!("{place} was {old} and is {new}")),
    }
}

/// Facts that follow the end of a job of 0.1.0: its place in a conversation, and that another job continues it.
const OF_A_CONVERSATION: [&str; 2] = ["joined", "continued"];

/// Reports whether a value is one that 0.1.0 got wrong, or that such a fact changes: processes alive in an ended job, an interrupt left out of a receipt, or a total
/// that began after the request.
fn is_correction(old: &Value, new: &Value, place: &str) -> bool {
    match place.rsplit_once('/') {
        Some((job, "alive")) if job.ends_with("/stop") => new.is_null(),
        Some((job, "version")) if !job.contains('/') => {
            let grown = old.as_u64().zip(new.as_u64()).and_then(|(old, new)| new.checked_sub(old));
            grown.is_some_and(|grown| grown <= OF_A_CONVERSATION.len() as u64)
        }
        Some((receipt, _)) if !receipt.contains("/attempts/") || !receipt.ends_with("/receipt") => false,
        Some((_, "asked_to_empty_ms")) => new.as_u64() > old.as_u64(),
        Some((_, "rungs")) => match (old.as_array(), new.as_array()) {
            (Some(old), Some(new)) => new.len() == old.len() + 1 && new.ends_with(old),
            _ => false,
        },
        _ => false,
    }
}

/// Reads every page of a list, and returns its items and the last cursor.
fn pages(
    client: &mut Client,
    page_after: impl Fn(Option<&str>) -> Call<Value>,
) -> Result<(Vec<Value>, String), String> {
    pages_after(client, page_after, "")
}

/// Returns the call for a page of the list of jobs.
fn rows_after(cursor: Option<&str>) -> Call<Value> {
    let cursor = cursor.map(str::to_owned);
    jobs::list(&Filter { limit: Some(PAGE), cursor, ..Filter::default() }).untyped()
}

/// Returns the call for a page of the feed over all jobs.
pub(super) fn feed_after(cursor: Option<&str>) -> Call<Value> {
    events::of_all(&events::Filter::default(), cursor, PAGE).untyped()
}

/// Reads every page of a list after the one that gave this cursor.
pub(super) fn pages_after(
    client: &mut Client,
    page_after: impl Fn(Option<&str>) -> Call<Value>,
    cursor: &str,
) -> Result<(Vec<Value>, String), String> {
    let (mut items, mut cursor) = (Vec::new(), cursor.to_owned());
    loop {
        let call = page_after(Some(cursor.as_str()).filter(|cursor| !cursor.is_empty()));
        let mut page = client.call(&call)?;
        let Value::Array(some) = page["items"].take() else { return Err(format!("{call:?} has no items")) };
        let next = page["next_cursor"].as_str().filter(|next| !some.is_empty() && *next != cursor);
        items.extend(some);
        match next {
            Some(next) => next.clone_into(&mut cursor),
            None => return Ok((items, cursor)),
        }
    }
}

/// Reads the first piece of a stream, or all of it without the dropped middle.
fn read_output(client: &mut Client, id: &str, part: Part<'_>, all: bool) -> Result<Vec<u8>, String> {
    let (mut bytes, mut offset) = (Vec::new(), 0);
    loop {
        let call = output::read(id, &Part { offset: Some(offset), ..part });
        let reply = client.send(&call).map_err(|why| format!("{call:?}: {why}"))?;
        if !reply.is_success() {
            // An attempt that was never started has no output.
            return Ok(bytes);
        }
        let piece = Piece::from_reply(reply).map_err(|why| format!("{call:?}: {why}"))?;
        bytes.extend_from_slice(&piece.bytes);
        if piece.next == offset || piece.bytes.is_empty() || !all {
            return Ok(bytes);
        }
        offset = piece.next;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_may_come_and_words_may_change_but_no_value_may() {
        let old = json!({ "seq": 1, "text": "claimed", "data": { "epoch": 1, "list": [1, 2] } });
        let compare = |new: Value| {
            let mut found = Vec::new();
            differ(&old, &new, "event", &mut found);
            found
        };
        let fine = json!({ "seq": 1, "text": "taken", "more": 1, "data": { "epoch": 1, "list": [1, 2], "new": {} } });
        assert_eq!(compare(fine), [""; 0]);
        for (new, expected) in [
            (json!({ "seq": 1, "data": { "list": [1, 2] } }), "event/data/epoch was 1 and is missing"),
            (
                json!({ "seq": 1, "data": { "epoch": null, "list": [1, 2] } }),
                "event/data/epoch was 1 and is null",
            ),
            (
                json!({ "seq": 1, "data": { "epoch": 1, "list": [1, 2, 3] } }),
                "event/data/list was [1,2] and is [1,2,3]",
            ),
            (json!({ "seq": 1, "data": { "epoch": 1, "list": [2, 2] } }), "event/data/list/0 was 1 and is 2"),
        ] {
            assert_eq!(compare(new), [expected]);
        }
    }
}
