//! A job in full, as one call returns it.

use std::collections::BTreeMap;

use lastword_core::job::Phase as CorePhase;
use lastword_core::view::row::Row as CoreRow;
use lastword_core::{Event, Fact, job, spec};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Time;
use crate::agent::Agent;
use crate::attempt::Attempt;
use crate::enums::{Cause, IoKind, Needs, Outcome, OutcomeDetail, Phase, Rung, WaitsFor};
use crate::limits::Limits;
use crate::session::Session;
use crate::usage::Usage;
use crate::worktree::Worktree;

/// A job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Job {
    /// Its name for ever: `job_` and 28 characters.
    pub id: String,
    /// The last eight characters of the id, which lists show and every call understands.
    pub short: String,
    /// The name its submitter gave it. The newest job of a name is meant by it.
    pub name: Option<String>,
    /// What runs, in one line.
    pub title: String,
    /// Where it stands.
    pub phase: Phase,
    /// What it waits for, while it is queued or between attempts.
    pub waits: Option<Waits>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// What the outcome leaves open.
    pub outcome_detail: Option<OutcomeDetail>,
    /// Why it ended.
    pub cause: Option<Cause>,
    /// Who submitted it.
    pub by: String,
    /// Program and arguments; empty for an agent.
    pub argv: Vec<String>,
    /// The agent, if it is one.
    pub agent: Option<Agent>,
    /// The folder it runs in; with a worktree, the same folder of that.
    pub cwd: String,
    /// The git worktree it runs in, if it has one.
    #[serde(default)]
    pub worktree: Option<Box<Worktree>>,
    /// The group it belongs to, which has slots.
    pub group: String,
    /// Higher goes first.
    pub priority: i16,
    /// Names and values for people and filters.
    pub labels: BTreeMap<String, String>,
    /// Limits in force.
    pub limits: Limits,
    /// Whether and when another attempt follows one that failed.
    pub retry: Retry,
    /// How politely it is stopped.
    pub ladder: Ladder,
    /// Jobs that must end first, as asked for.
    pub after: Vec<After>,
    /// Not to be started before this moment.
    pub not_before: Option<Time>,
    /// The ended job that this one tries again.
    pub retry_of: Option<String>,
    /// The job whose process submitted it.
    pub parent: Option<String>,
    /// What it reads from.
    pub io: Io,
    /// When it was submitted.
    pub submitted_at: Time,
    /// When the first tree was there.
    pub started_at: Option<Time>,
    /// When the last word was spoken.
    pub ended_at: Option<Time>,
    /// When its newest event was decided.
    pub updated_at: Time,
    /// The number of its newest event. Also its ETag.
    pub version: u64,
    /// The stop that was asked for, or that a limit began.
    pub stop: Option<Stop>,
    /// The limit at which it holds still, and until when somebody may raise it.
    #[serde(default)]
    pub paused: Option<Paused>,
    /// Every try, in order.
    pub attempts: Vec<Attempt>,
    /// Messages that were accepted and have not reached the job yet.
    pub inputs_waiting: u32,
    /// The conversation of its agent, once it has one.
    #[serde(default)]
    pub session: Option<Box<Session>>,
    /// What was spent, over all attempts.
    pub spent: Usage,
    /// Reports that came too late and were kept without effect.
    pub late: u32,
    /// Whether the log holds a fact that this build cannot read.
    pub foreign: bool,
    /// Whether something of the job has just died and its end could not be recorded yet: ask again.
    pub unsettled: bool,
}

/// A limit was reached, and everything of the job holds still until somebody raises it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Paused {
    /// Which limit.
    pub limit: String,
    /// What was measured.
    pub measured: u64,
    /// What was allowed.
    pub allowed: u64,
    /// Since when.
    pub since: Time,
    /// When it is stopped, if nobody raises the limit.
    pub until: Time,
}

/// What a job waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Waits {
    /// What kind of thing.
    #[serde(rename = "for")]
    pub on: WaitsFor,
    /// Until when, if it waits for a moment.
    pub until: Option<Time>,
    /// Jobs that have not ended yet.
    pub jobs: Vec<After>,
}

/// Whether another attempt follows one that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Retry {
    /// Attempts in all; one means that nothing is tried again.
    pub attempts: u32,
    /// Pause before the second attempt; it doubles with each one after.
    pub backoff_ms: u64,
    /// The longest pause.
    pub backoff_max_ms: u64,
    /// Also try again when nobody can say how an attempt ended. The work may have been done.
    pub when_lost: bool,
}

/// How politely a job is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Ladder {
    /// Milliseconds after the protocol's own interrupt; agents only.
    pub interrupt_ms: u64,
    /// Milliseconds between TERM and KILL, both to the whole tree.
    pub term_ms: u64,
}

/// Another job that must end first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct After {
    /// Which one: an id in an answer, any reference in a request.
    pub job: String,
    /// How it must end; success if not said.
    #[serde(default = "success")]
    pub on: Needs,
}

fn success() -> Needs {
    Needs::Success
}

/// What a job reads from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Io {
    /// What kind of thing.
    pub kind: IoKind,
    /// Lines of its terminal.
    #[serde(default)]
    pub rows: Option<u16>,
    /// Columns of its terminal.
    #[serde(default)]
    pub columns: Option<u16>,
}

/// A stop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Stop {
    /// Why.
    pub cause: Cause,
    /// Who asked, if somebody did.
    pub by: Option<String>,
    /// When it was asked for, or when the limit fired.
    pub requested_at: Time,
    /// When the supervisor began with it.
    pub began_at: Option<Time>,
    /// Whether it went straight to the last rung.
    pub force: bool,
    /// The last rung climbed so far.
    pub rung: Option<Rung>,
    /// Processes alive at that rung.
    pub alive: Option<u32>,
    /// Who is alive right now, as far as the tree's keeper says; some of them, if they are many.
    #[serde(default)]
    pub pids: Vec<i32>,
}

impl Job {
    /// Returns a job as its log tells it; `None` if nothing was ever written about it.
    ///
    /// `job` is the fold of `events`; those beyond its version are not looked at, so that the answer is the job at one version.
    pub fn of(job: &job::Job, events: &[Event]) -> Option<Job> {
        let spec = job.spec.as_ref()?;
        let upto = events.iter().take_while(|event| event.seq <= job.version).count();
        let events = &events[..upto];
        let row = CoreRow::of(job);
        let last_word = job.last_word();
        let argv = match &spec.work {
            spec::Work::Command { argv } => argv.clone(),
            spec::Work::Agent { .. } => Vec::new(),
        };
        let attempts: Vec<Attempt> =
            job.attempts.iter().map(|attempt| Attempt::of(attempt, events)).collect();
        Some(Job {
            id: job.id.to_string(),
            short: job.id.short(),
            name: spec.name.clone(),
            title: row.summary.title,
            phase: row.phase.into(),
            waits: Waits::of(job),
            outcome: last_word.map(|word| word.outcome.into()),
            outcome_detail: last_word.and_then(|word| OutcomeDetail::of(word.outcome)),
            cause: last_word.map(|word| word.cause.into()),
            by: submitted_by(events),
            argv,
            agent: Agent::of(&spec.work),
            cwd: spec.cwd.clone(),
            worktree: Worktree::of(job.id, spec).map(Box::new),
            group: spec.group.clone(),
            priority: spec.priority,
            labels: spec.labels.clone(),
            limits: Limits::in_force(&job.limits),
            retry: Retry::of(&spec.retry),
            ladder: Ladder { interrupt_ms: spec.ladder.interrupt_ms, term_ms: spec.ladder.term_ms },
            after: spec.after.iter().map(After::of).collect(),
            not_before: spec.not_before.map(Time::from),
            retry_of: spec.retry_of.map(|id| id.to_string()),
            parent: spec.parent.map(|id| id.to_string()),
            io: Io::of(spec.io),
            submitted_at: job.submitted_at.into(),
            started_at: row.summary.started_at.map(Time::from),
            ended_at: row.summary.ended_at.map(Time::from),
            updated_at: job.updated_at.into(),
            version: job.version.0,
            stop: Stop::of(job, events),
            paused: Paused::of(job),
            attempts,
            inputs_waiting: job.inputs.len() as u32,
            session: Session::of(job, events).map(Box::new),
            spent: Usage::of(job.usage),
            late: job.late,
            foreign: job.foreign,
            unsettled: false,
        })
    }

    /// Reports whether it is over.
    pub fn is_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// Returns the attempt that decided the end, or the newest one.
    pub fn last_attempt(&self) -> Option<&Attempt> {
        self.attempts.last()
    }
}

fn submitted_by(events: &[Event]) -> String {
    let by = events.iter().find_map(|event| match &event.fact {
        Fact::Submitted(submitted) => Some(submitted.by.clone()),
        _ => None,
    });
    by.unwrap_or_default()
}

impl Paused {
    fn of(job: &job::Job) -> Option<Paused> {
        let pause = job.pause.filter(|_| !job.is_ended())?;
        let spec::OnLimit::Ask { expires_ms } = job.spec.as_ref()?.on_limit else { return None };
        Some(Paused {
            limit: pause.limit.name().to_owned(),
            measured: pause.measured,
            allowed: pause.allowed,
            since: pause.since.into(),
            until: pause.since.plus_ms(expires_ms).into(),
        })
    }
}

impl Waits {
    fn of(job: &job::Job) -> Option<Waits> {
        let (on, until) = match job.phase {
            CorePhase::Queued { waits: job::Waits::Slot } => (WaitsFor::Slot, None),
            CorePhase::Queued { waits: job::Waits::Dependencies } => (WaitsFor::Dependencies, None),
            CorePhase::Queued { waits: job::Waits::Until(moment) } => (WaitsFor::Time, Some(moment)),
            CorePhase::Backoff { until } => (WaitsFor::Time, Some(until)),
            _ => return None,
        };
        let jobs = job.unmet.iter().map(After::of).collect();
        Some(Waits { on, until: until.map(Time::from), jobs })
    }
}

impl Retry {
    /// Returns a policy as core keeps it.
    pub fn of(retry: &spec::RetryPolicy) -> Retry {
        Retry {
            attempts: retry.attempts_max,
            backoff_ms: retry.backoff_ms,
            backoff_max_ms: retry.backoff_max_ms,
            when_lost: retry.when_lost,
        }
    }
}

impl Default for Retry {
    fn default() -> Retry {
        Retry::of(&spec::RetryPolicy::default())
    }
}

impl Default for Ladder {
    fn default() -> Ladder {
        let spec::Ladder { interrupt_ms, term_ms } = spec::Ladder::default();
        Ladder { interrupt_ms, term_ms }
    }
}

impl After {
    /// Returns a dependency as core keeps it.
    pub fn of(dependency: &spec::Dependency) -> After {
        After { job: dependency.job.to_string(), on: dependency.on.into() }
    }
}

impl Io {
    fn of(io: spec::Io) -> Io {
        match io {
            spec::Io::Null => Io::default(),
            spec::Io::Pipe => Io { kind: IoKind::Pipe, rows: None, columns: None },
            spec::Io::Terminal { rows, columns } => {
                Io { kind: IoKind::Terminal, rows: Some(rows), columns: Some(columns) }
            }
        }
    }
}

impl Default for Io {
    fn default() -> Io {
        Io { kind: IoKind::None, rows: None, columns: None }
    }
}

impl Stop {
    fn of(job: &job::Job, events: &[Event]) -> Option<Stop> {
        if let Some(stop) = &job.stop {
            // What an earlier attempt was stopped by is over with it.
            let intent = events.iter().rposition(|event| matches!(event.fact, Fact::LaunchIntended(_)));
            let (rung, alive) = events[intent.unwrap_or(0)..].iter().rev().find_map(climbed).unzip();
            return Some(Stop {
                cause: stop.cause.into(),
                by: stop.by.clone(),
                requested_at: stop.requested_at.into(),
                began_at: stop.began_at.map(Time::from),
                force: stop.force,
                rung,
                alive,
                pids: Vec::new(),
            });
        }
        // A job that had nothing alive is ended by the request itself.
        let word = job.last_word()?;
        Some(Stop {
            cause: word.cause.into(),
            by: word.by.clone(),
            requested_at: word.requested_at?.into(),
            began_at: None,
            force: false,
            rung: None,
            alive: None,
            pids: Vec::new(),
        })
    }
}

/// Returns the rung that an event tells of.
fn climbed(event: &Event) -> Option<(Rung, u32)> {
    match &event.fact {
        Fact::RungClimbed(climbed) => Some((climbed.rung.into(), climbed.alive)),
        _ => None,
    }
}
