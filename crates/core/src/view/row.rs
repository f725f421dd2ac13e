//! The job row: what a store keeps next to the events, for fencing, claims and lists.

use serde::{Deserialize, Serialize};

use crate::conversation::Spending;
use crate::event::{READER, SessionState, Usage};
use crate::ids::{AttemptNo, Fence, HostId, JobId, Seq, Timestamp};
use crate::job::{Job, Phase};
use crate::outcome::{Cause, Outcome};
use crate::provider::Wait;
use crate::receipt::Exit;
use crate::spec::{ProviderSession, Work, Worktree};
use crate::view::asks::Asks;
use crate::view::nearest::Used;
use crate::worker_labels::WorkerLabels;

/// Characters of a title. It is shown in a line of a list.
const TITLE_CHARS_MAX: usize = 120;

/// The version of the fold that made a row. A row of an older version can be rebuilt from the events.
pub const FOLD: u16 = 4;

/// A job as lists, filters and claims see it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// The job.
    pub job: JobId,
    /// The number of its newest event.
    pub version: Seq,
    /// Its phase.
    pub phase: PhaseName,
    /// Its group.
    pub group: String,
    /// Higher starts first.
    pub priority: i16,
    /// When it may be claimed; `None` while it may not.
    pub due: Option<Timestamp>,
    /// Its holder.
    pub holder: Option<Fence>,
    /// Its outcome, if it has ended.
    pub outcome: Option<Outcome>,
    /// The oldest reader version that understands its events.
    pub least_reader: u16,
    /// The session of an agent that it drives. No two held jobs may have the same.
    pub drives: Option<ProviderSession>,
    /// The job that began its conversation; none if it has no turns. It never changes.
    pub conversation: Option<JobId>,
    /// When it was submitted.
    pub submitted_at: Timestamp,
    /// When its newest event was decided.
    pub updated_at: Timestamp,
    /// When its state last changed. Lists are ordered by it.
    pub changed_at: Timestamp,
    /// What only readers need.
    pub summary: Summary,
}

/// The part of a row that stores do not interpret. Stored as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Summary {
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its command or prompt, in one line.
    pub title: String,
    /// The name of its agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The host of its newest attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostId>,
    /// The branch of its worktree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Its labels.
    pub labels: std::collections::BTreeMap<String, String>,
    /// Labels that its worker must have.
    #[serde(default, skip_serializing_if = "WorkerLabels::is_empty")]
    pub on: WorkerLabels,
    /// The directory it was submitted from. Empty in a row of the first release whose first event cannot be read.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cwd: String,
    /// The job whose tree submitted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<JobId>,
    /// Jobs that end with it and have not ended.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tied: u32,
    /// Jobs that processes of it submitted, of all kinds, and that have not ended.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub children: u32,
    /// Nothing of it runs: it waits for the jobs that end with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub awaits: bool,
    /// How it waits for its provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_wait: Option<Box<Wait>>,
    /// Its number in its conversation.
    #[serde(default = "first", skip_serializing_if = "is_first")]
    pub number: u32,
    /// The job as which its conversation goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continued_by: Option<JobId>,
    /// What the jobs of its conversation before it used up.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub spent_before: Spending,
    /// Turns begun.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub turns: u32,
    /// Awake milliseconds that its ended turns took.
    #[serde(default, skip_serializing_if = "is_zero_ms")]
    pub active_ms: u64,
    /// The number of attempts so far.
    pub attempts: u32,
    /// The deciding attempt, if it has ended.
    pub decided_by: Option<AttemptNo>,
    /// Why it ended.
    pub cause: Option<Cause>,
    /// Whether it waits for a person.
    pub waiting: bool,
    /// What it asks that person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks: Option<Box<Asks>>,
    /// Whether a turn is active.
    pub working: bool,
    /// What its newest attempt said of its work. Written by a process of the job: do not trust it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
    /// What its agent did last, in the active turn. Written by the agent: do not trust it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub did: Option<String>,
    /// The state of a running agent that works on nothing: it is ready, or was interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rests: Option<SessionState>,
    /// What the job has spent. Stored as `meter`.
    #[serde(rename = "meter")]
    pub usage: Usage,
    /// The limit that is nearest to being reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest: Option<Used>,
    /// The number of dependencies that have not ended.
    #[serde(default)]
    pub unmet: u32,
    /// When its first tree was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// The exit status of the deciding attempt, if it was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
}

/// The part of a list that a job is in. Lists begin with what a person should look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Section {
    /// It waits for a person.
    NeedsPerson,
    /// It has ended, and its ending was not read.
    Unread,
    /// It has not ended.
    Live,
    /// It has ended, and its ending was read.
    Read,
    /// It has ended, and its conversation goes on as another job.
    Continued,
}

impl Section {
    /// Every section, in the order of a list.
    pub const ALL: [Section; 5] =
        [Section::NeedsPerson, Section::Unread, Section::Live, Section::Read, Section::Continued];

    /// Returns the stored number.
    pub fn number(self) -> i16 {
        match self {
            Section::NeedsPerson => 0,
            Section::Unread => 1,
            Section::Live => 2,
            Section::Read => 3,
            Section::Continued => 4,
        }
    }

    /// Parses the stored number.
    pub fn parse(number: i16) -> Option<Section> {
        Section::ALL.into_iter().find(|section| section.number() == number)
    }

    /// Reports whether its jobs have ended.
    pub fn is_ended(self) -> bool {
        matches!(self, Section::Unread | Section::Read | Section::Continued)
    }
}

/// The name of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PhaseName {
    /// It waits for its first attempt.
    Queued,
    /// An attempt is being started.
    Launching,
    /// An attempt runs.
    Running,
    /// An attempt runs, and its agent is open between turns. It holds no slot.
    Idle,
    /// An attempt is being stopped.
    Stopping,
    /// It waits for its next attempt.
    Backoff,
    /// It has ended.
    Ended,
}

impl PhaseName {
    /// Returns the name of the phase of a job; none before the job was submitted.
    pub fn of(job: &Job) -> Option<PhaseName> {
        Some(match &job.phase {
            Phase::Unborn => return None,
            Phase::Queued { .. } => PhaseName::Queued,
            Phase::Launching => PhaseName::Launching,
            Phase::Running if job.idle => PhaseName::Idle,
            Phase::Running => PhaseName::Running,
            Phase::Stopping { .. } => PhaseName::Stopping,
            Phase::Backoff { .. } => PhaseName::Backoff,
            // Jobs that are tied to it run, or are being stopped.
            Phase::Awaiting(word) if word.outcome == Outcome::Completed => PhaseName::Running,
            Phase::Awaiting(_) => PhaseName::Stopping,
            Phase::Ended(_) => PhaseName::Ended,
        })
    }

    /// Every phase, in their usual order.
    pub const ALL: [PhaseName; 7] = [
        PhaseName::Queued,
        PhaseName::Launching,
        PhaseName::Running,
        PhaseName::Idle,
        PhaseName::Stopping,
        PhaseName::Backoff,
        PhaseName::Ended,
    ];

    /// The phases of a live job.
    pub const LIVE: [PhaseName; 6] = [
        PhaseName::Queued,
        PhaseName::Launching,
        PhaseName::Running,
        PhaseName::Idle,
        PhaseName::Stopping,
        PhaseName::Backoff,
    ];

    /// Returns the stored name.
    pub fn as_str(self) -> &'static str {
        match self {
            PhaseName::Queued => "queued",
            PhaseName::Launching => "launching",
            PhaseName::Running => "running",
            PhaseName::Idle => "idle",
            PhaseName::Stopping => "stopping",
            PhaseName::Backoff => "backoff",
            PhaseName::Ended => "ended",
        }
    }

    /// Parses the stored name.
    pub fn parse(text: &str) -> Option<PhaseName> {
        PhaseName::ALL.into_iter().find(|phase| phase.as_str() == text)
    }
}

impl Row {
    /// Returns the row of a job.
    ///
    /// # Panics
    /// If the job was not submitted. Such a job is never stored.
    pub fn of(job: &Job) -> Row {
        let spec = job.spec.as_ref().expect("a stored job was submitted");
        let phase = PhaseName::of(job).expect("a submitted job is in a phase");
        let last_word = job.last_word();
        Row {
            job: job.id,
            version: job.version,
            phase,
            group: spec.group.clone(),
            priority: spec.priority,
            due: job.due(),
            holder: job.holder.as_ref().map(|holder| holder.fence.clone()),
            outcome: last_word.map(|word| word.outcome),
            least_reader: READER,
            drives: if last_word.is_some() { None } else { drives(job) },
            conversation: job.conversation(),
            submitted_at: job.submitted_at,
            updated_at: job.updated_at,
            changed_at: job.changed_at,
            summary: Summary::of(job),
        }
    }

    /// Reports whether it takes up a slot of its group.
    pub fn has_slot(&self) -> bool {
        self.holder.is_some() && self.phase != PhaseName::Idle
    }

    /// Returns the section of the job, as long as its ending was not read.
    pub fn section(&self) -> Section {
        match self.phase {
            PhaseName::Ended if self.summary.continued_by.is_some() => Section::Continued,
            PhaseName::Ended => Section::Unread,
            _ if self.summary.waiting => Section::NeedsPerson,
            _ => Section::Live,
        }
    }
}

/// Returns the session of an agent that a live job drives: its own, or else the one it resumes.
fn drives(job: &Job) -> Option<ProviderSession> {
    let spec = job.spec.as_ref()?;
    let given = job.session.as_ref().and_then(|session| session.reference.clone());
    match (&spec.work, given) {
        (Work::Agent { provider, .. }, Some(reference)) => {
            Some(ProviderSession { provider: provider.clone(), reference })
        }
        // A fork drives no session before its copy has a name.
        _ => spec.resume.clone().filter(|_| !spec.fork),
    }
}

fn first() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_first(number: &u32) -> bool {
    *number == 1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(super) fn is_zero(count: &u32) -> bool {
    *count == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero_ms(ms: &u64) -> bool {
    *ms == 0
}

fn is_nothing(spending: &Spending) -> bool {
    *spending == Spending::default()
}

impl Summary {
    /// Returns what its conversation used up, the jobs before it included.
    pub fn spending(&self) -> Spending {
        let mut spending = self.spent_before;
        spending.add(Spending { usage: self.usage, turns: self.turns, active_ms: self.active_ms });
        spending
    }

    fn of(job: &Job) -> Summary {
        let spec = job.spec.as_ref().expect("a stored job was submitted");
        let title = match &spec.work {
            Work::Command { argv } => argv.join(" "),
            Work::Agent { provider, prompt, .. } => format!("{provider}: {prompt}"),
        };
        let decided_by = job.last_word().and_then(|word| word.attempt);
        let deciding = job.attempts.iter().find(|attempt| Some(attempt.no) == decided_by);
        Summary {
            name: spec.name.clone(),
            title: title.chars().take(TITLE_CHARS_MAX).collect(),
            agent: job.provider().map(str::to_owned),
            host: job.attempts.last().map(|attempt| attempt.host.clone()),
            branch: spec.worktree.as_ref().map(|_| Worktree::branch(spec.name.as_deref(), job.id)),
            labels: job.labels.clone(),
            on: spec.on.clone(),
            cwd: spec.cwd.clone(),
            parent: spec.parent,
            tied: job.tied().count() as u32,
            children: job.children.len() as u32,
            awaits: matches!(job.phase, Phase::Awaiting(_)),
            provider_wait: job.provider_wait.clone(),
            number: job.number(),
            continued_by: job.continued_by,
            spent_before: job.spent_before,
            turns: job.turns.0,
            active_ms: job.active_ms,
            attempts: job.attempts.len() as u32,
            decided_by,
            cause: job.last_word().map(|word| word.cause),
            waiting: job.waits_for_person(),
            asks: Asks::of(job).map(Box::new),
            working: job.active_turn().is_some(),
            progress: job.progress().map(|said| said.text.clone()),
            did: job.session.as_ref().and_then(|session| session.did.as_deref()).map(str::to_owned),
            rests: rests(job),
            usage: job.usage,
            nearest: Used::nearest(job),
            unmet: job.unmet.len() as u32,
            started_at: job.attempts.iter().find_map(|attempt| attempt.started_at),
            // Late reports do not change `updated_at`.
            ended_at: job.is_ended().then_some(job.updated_at),
            exit: deciding.and_then(|attempt| attempt.end.as_ref()).and_then(|end| end.receipt.exit),
        }
    }
}

/// Returns the state of a running agent that works on nothing.
fn rests(job: &Job) -> Option<SessionState> {
    let attempt = job.open_attempt().filter(|_| matches!(job.phase, Phase::Running))?;
    let session = job.session.as_ref().filter(|session| session.attempt == attempt.no && session.rests())?;
    Some(session.state)
}
