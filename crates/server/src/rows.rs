//! The list of jobs as a stream (SSE): every row, then rows that changed, and jobs that are gone.
//!
//! A connection needs nothing of an earlier one. That a person has read an ending, and that a job was removed, is in no log, so a place in
//! the feed would not say what became of a row since; a new stream begins with every row instead.
//!
//! For each row the stream keeps a check of what it sent last, not the row. A change says which job to look at again; the row is read when
//! it is to be sent, so what is sent is never older than what was sent before.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use axum::response::Response;
use axum::response::sse;
use futures_util::stream;
use lastword_api::{self as api, Phase, RowGone, RowsHere};
use lastword_core::view::row::Section;
use lastword_core::{JobId, Timestamp};
use lastword_proc::clock::wall_ms;
use lastword_store::{After, Filter, List, Listed, Store};
use serde::Serialize;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, sleep_until};

use crate::app::App;
use crate::failure::Failure;
use crate::jobs::rows_of;
use crate::stream::{problem, respond, stopping};

/// Rows per read.
const PAGE: usize = 100;

/// How long changes are gathered before they are looked at: one of several jobs often follows from another.
const GATHER: Duration = Duration::from_millis(15);

/// How often a row is sent at most that changed in nothing that a person waits for.
const SPACED: Duration = Duration::from_millis(250);

/// How soon after a change rows that wait are looked at again. The change may be why they wait no longer.
const WAITING_AGAIN: Duration = Duration::from_secs(2);

/// How often rows of live jobs are looked at again without any change.
const LIVE_AGAIN: Duration = Duration::from_secs(15);

/// Streams the rows that a filter selects.
pub(crate) fn follow<J: Store>(app: App<J>, filter: Filter, sections: Vec<Section>) -> Response {
    // Before the first read: what changes after it is heard of.
    let changes = app.engine().desk().changes();
    let now = Instant::now();
    let rows = Rows {
        app,
        filter,
        sections,
        changes,
        sent: HashMap::new(),
        due: HashMap::new(),
        gathered: now,
        waiting_again: None,
        live_again: now + LIVE_AGAIN,
        ready: VecDeque::new(),
        stage: Stage::Pages { after: None, is_first: true },
    };
    respond(stream::unfold(rows, |mut rows| async move {
        let frame = rows.next().await?;
        Some((Ok(frame), rows))
    }))
}

/// How far a stream is.
enum Stage {
    /// All rows are read, page by page.
    Pages {
        /// Where the next page begins.
        after: Option<After>,
        /// The client has not been told that it has all rows.
        is_first: bool,
    },
    /// Changes are waited for.
    Live,
    /// It has ended.
    Over,
}

/// What is known of a row that was sent.
struct Sent {
    /// A check of the row.
    row: u64,
    /// A check of what is told at once.
    state: u64,
    /// When it was sent.
    at: Instant,
    /// What can change in it without an event of the job.
    changes: Alone,
}

/// What can change in a row without an event of the job.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Alone {
    /// Why it waits.
    Wait,
    /// Since when it is silent.
    Silence,
    /// Nothing.
    Nothing,
}

struct Rows<J> {
    app: App<J>,
    filter: Filter,
    sections: Vec<Section>,
    changes: broadcast::Receiver<JobId>,
    sent: HashMap<JobId, Sent>,
    /// Jobs to look at, and when.
    due: HashMap<JobId, Instant>,
    /// When the changes that are gathered now are looked at.
    gathered: Instant,
    waiting_again: Option<Instant>,
    live_again: Instant,
    ready: VecDeque<sse::Event>,
    stage: Stage,
}

impl<J: Store> Rows<J> {
    async fn next(&mut self) -> Option<sse::Event> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Some(frame);
            }
            if matches!(self.stage, Stage::Over) {
                return None;
            }
            let app = self.app.clone();
            let fetched = tokio::select! {
                fetched = self.fetch() => fetched,
                // The client reconnects to the next daemon.
                () = app.closing() => {
                    self.stage = Stage::Over;
                    return stopping(&app);
                }
            };
            if let Err(failure) = fetched {
                self.stage = Stage::Over;
                return Some(problem(&failure));
            }
        }
    }

    async fn fetch(&mut self) -> Result<(), Failure> {
        match self.stage {
            Stage::Pages { after, is_first } => self.page(after, is_first).await,
            Stage::Live => {
                self.listen().await;
                self.look().await
            }
            Stage::Over => Ok(()),
        }
    }

    /// Reads the next page of all rows. One that moves to an earlier page meanwhile is heard of.
    async fn page(&mut self, after: Option<After>, is_first: bool) -> Result<(), Failure> {
        let (filter, sections) = (self.filter.clone(), self.sections.clone());
        let list = List { filter, sections, after, limit: PAGE as u32 };
        let listed = self.app.engine().list(list).await?.0.value;
        let next = listed.last().filter(|_| listed.len() == PAGE).map(|last| {
            let now = Timestamp(wall_ms());
            let (section, changed_at, job) = (last.section, last.row.changed_at, last.row.job);
            After { section, changed_at, job, since: now, now }
        });
        self.send(&listed).await?;
        self.stage = match next {
            Some(next) => Stage::Pages { after: Some(next), is_first },
            None => Stage::Live,
        };
        if is_first && next.is_none() {
            self.ready.push_back(frame("here", &RowsHere { rows: self.sent.len() as u64 }));
        }
        Ok(())
    }

    /// Waits until there is a job to look at.
    async fn listen(&mut self) {
        loop {
            let next = self.due.values().min().copied();
            let next = next.into_iter().chain(self.waiting_again).chain([self.live_again]).min();
            let heard = tokio::select! {
                heard = self.changes.recv() => heard,
                () = sleep_until(next.unwrap_or(self.live_again)) => return self.look_again(),
            };
            match heard {
                Ok(job) => self.heard(job),
                Err(RecvError::Lagged(_)) => return self.begin_again(),
                Err(RecvError::Closed) => {
                    self.stage = Stage::Over;
                    return;
                }
            }
        }
    }

    fn heard(&mut self, job: JobId) {
        let now = Instant::now();
        if self.gathered <= now {
            self.gathered = now + GATHER;
        }
        self.due.entry(job).or_insert(self.gathered);
        self.waiting_again.get_or_insert(now + WAITING_AGAIN);
    }

    /// Changes were missed: reads all rows again, and looks at those that were sent.
    fn begin_again(&mut self) {
        let now = Instant::now();
        self.due.extend(self.sent.keys().map(|job| (*job, now)));
        self.stage = Stage::Pages { after: None, is_first: false };
    }

    /// Notes the rows that may have changed by themselves, if it is time for that.
    fn look_again(&mut self) {
        let now = Instant::now();
        let is_live = now >= self.live_again;
        let is_waiting = is_live || self.waiting_again.is_some_and(|at| now >= at);
        if !is_waiting {
            return;
        }
        self.waiting_again = None;
        if is_live {
            self.live_again = now + LIVE_AGAIN;
        }
        let changes = |sent: &Sent| match sent.changes {
            Alone::Wait => true,
            Alone::Silence => is_live,
            Alone::Nothing => false,
        };
        let again = self.sent.iter().filter(|(_, sent)| changes(sent)).map(|(job, _)| *job);
        again.for_each(|job| _ = self.due.entry(job).or_insert(now));
    }

    /// Looks at jobs that are due, and sends what became of them.
    async fn look(&mut self) -> Result<(), Failure> {
        let now = Instant::now();
        let due = self.due.iter().filter(|(_, at)| **at <= now).map(|(job, _)| *job);
        let due: Vec<JobId> = due.take(PAGE).collect();
        if due.is_empty() {
            return Ok(());
        }
        due.iter().for_each(|job| _ = self.due.remove(job));
        let mut listed = self.app.engine().desk().listed(due.clone()).await?;
        listed.retain(|listed| {
            let is_asked = self.sections.is_empty() || self.sections.contains(&listed.section);
            is_asked && self.filter.passes(&listed.row)
        });
        let is_gone = |job: &JobId| !listed.iter().any(|listed| listed.row.job == *job);
        for job in due.into_iter().filter(is_gone) {
            if self.sent.remove(&job).is_some() {
                self.ready.push_back(frame("gone", &RowGone { id: job.to_string() }));
            }
        }
        self.send(&listed).await
    }

    /// Sends rows that are not as they were sent before. One whose turn it is not yet is due again later.
    async fn send(&mut self, listed: &[Listed]) -> Result<(), Failure> {
        let rows = rows_of(&self.app, listed).await?;
        let now = Instant::now();
        for (row, Listed { row: stored, .. }) in rows.iter().zip(listed) {
            let data = serde_json::to_string(row).unwrap_or_default();
            let (check, state) = (check(&data), state(row));
            match self.sent.get(&stored.job) {
                Some(sent) if sent.row == check => continue,
                Some(sent) if sent.state == state && now < sent.at + SPACED => {
                    self.due.insert(stored.job, sent.at + SPACED);
                    continue;
                }
                _ => {}
            }
            self.sent.insert(stored.job, Sent { row: check, state, at: now, changes: Alone::of(row) });
            self.ready.push_back(sse::Event::default().event("row").data(data));
        }
        Ok(())
    }
}

impl Alone {
    fn of(row: &api::Row) -> Alone {
        match row.phase {
            Phase::Ended => Alone::Nothing,
            _ if row.waits.is_some() => Alone::Wait,
            Phase::Running => Alone::Silence,
            _ => Alone::Nothing,
        }
    }
}

/// Returns a check of what a person waits for in a row.
fn state(row: &api::Row) -> u64 {
    let api::Row { name, phase, outcome, waiting, asks, working, rests, unread, continued_by, .. } = row;
    let states = (name, phase, outcome, waiting, asks, working, rests, unread, continued_by);
    check(&serde_json::to_string(&states).unwrap_or_default())
}

fn check(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

fn frame(kind: &str, data: &impl Serialize) -> sse::Event {
    sse::Event::default().event(kind).data(serde_json::to_string(data).unwrap_or_default())
}
