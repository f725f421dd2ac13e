//! A job in full.

use std::collections::BTreeMap;

use lastword_core::view::is_shown;
use lastword_core::view::row::Row as CoreRow;
use lastword_core::{Event, Fact, Timestamp, job, spec};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Time;
use crate::agent::{Agent, StandingRule};
use crate::attempt::Attempt;
use crate::children::Children;
use crate::enums::{Cause, HeldIn, IoKind, Outcome, OutcomeDetail, Phase, Rung};
use crate::limits::{AgentLimits, Limits};
use crate::paused::Paused;
use crate::place::Place;
use crate::session::{Question, Session};
use crate::usage::Usage;
use crate::waits::{After, Waits};
use crate::worktree::Worktree;

/// A job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Job {
    /// Its id: `job_` and 28 characters.
    pub id: String,
    /// The last eight characters of the id. Lists show them, and every call accepts them.
    pub short: String,
    /// Its name. As a reference, a name means the newest job that has it.
    pub name: Option<String>,
    /// Its command or prompt, in one line.
    pub title: String,
    /// Its phase.
    pub phase: Phase,
    /// What it waits for, while it is queued or between attempts.
    pub waits: Option<Waits>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// Details of the outcome.
    pub outcome_detail: Option<OutcomeDetail>,
    /// Why it ended.
    pub cause: Option<Cause>,
    /// The user or job that submitted it.
    pub by: String,
    /// The program and its arguments; empty for an agent.
    pub argv: Vec<String>,
    /// The agent, if it runs one.
    pub agent: Option<Agent>,
    /// The directory it runs in. With a worktree, the same directory within that.
    pub cwd: String,
    /// The git worktree it runs in, if it has one.
    #[serde(default)]
    pub worktree: Option<Box<Worktree>>,
    /// Its group, which has slots.
    pub group: String,
    /// Higher starts first.
    pub priority: i16,
    /// Names and values for users and filters.
    pub labels: BTreeMap<String, String>,
    /// What its newest attempt said of its work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// Labels that its worker must have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on: Vec<String>,
    /// The current limits.
    pub limits: Limits,
    /// The limits in force that only agents have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_limits: Option<AgentLimits>,
    /// Whether and when a failed attempt is followed by another.
    pub retry: Retry,
    /// The grace periods of a stop.
    pub ladder: Ladder,
    /// Jobs that must end before it starts.
    pub after: Vec<After>,
    /// The earliest time to start it.
    pub not_before: Option<Time>,
    /// The ended job that this one repeats.
    pub retry_of: Option<String>,
    /// The job whose process submitted it.
    pub parent: Option<String>,
    /// Whether it ends with that one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tied: bool,
    /// The jobs that its own processes submitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub children: Option<Box<Children>>,
    /// Its place in a conversation, if its agent has turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<Box<Place>>,
    /// Its standard input.
    pub io: Io,
    /// When it was submitted.
    pub submitted_at: Time,
    /// When its first process tree was started.
    pub started_at: Option<Time>,
    /// When it ended.
    pub ended_at: Option<Time>,
    /// Since when it has written nothing, while it runs and does not wait for a person.
    #[serde(default)]
    pub silent_since: Option<Time>,
    /// When its newest event was decided.
    pub updated_at: Time,
    /// The number of its newest event, which is also its ETag.
    pub version: u64,
    /// The stop that was requested, or that a limit caused.
    pub stop: Option<Stop>,
    /// The limit at which it is paused.
    #[serde(default)]
    pub paused: Option<Paused>,
    /// All attempts, in order.
    pub attempts: Vec<Attempt>,
    /// The number of accepted messages that are not delivered yet.
    pub inputs_waiting: u32,
    /// The agent's session, if there is one.
    #[serde(default)]
    pub session: Option<Box<Session>>,
    /// What a person allowed its agent for the rest of the conversation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<StandingRule>,
    /// What it has spent, over all attempts.
    pub spent: Usage,
    /// The number of reports that came too late and had no effect.
    pub late: u32,
    /// Whether the log has a fact that this build cannot read.
    pub foreign: bool,
    /// Whether the job's tree has ended but its end could not be recorded yet: ask again.
    pub unsettled: bool,
}

/// Whether and when a failed attempt is followed by another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Retry {
    /// The number of attempts; one means no retry.
    pub attempts: u32,
    /// Milliseconds before the second attempt. They double with each further one.
    pub backoff_ms: u64,
    /// The longest pause, in milliseconds.
    pub backoff_max_ms: u64,
    /// Also retry a lost attempt, although the work may have been done.
    pub when_lost: bool,
}

/// The grace periods of a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Ladder {
    /// Milliseconds after an interrupt in the agent's protocol. Agents only.
    pub interrupt_ms: u64,
    /// Milliseconds between SIGTERM and SIGKILL, both to the whole tree.
    pub term_ms: u64,
}

/// The standard input of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Io {
    /// Its kind.
    pub kind: IoKind,
    /// The height of its terminal.
    #[serde(default)]
    pub rows: Option<u16>,
    /// The width of its terminal.
    #[serde(default)]
    pub columns: Option<u16>,
}

/// A stop of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Stop {
    /// Its cause.
    pub cause: Cause,
    /// The requester, if there is one.
    pub by: Option<String>,
    /// When it was requested, or the limit fired.
    pub requested_at: Time,
    /// When the supervisor began to stop the tree.
    pub began_at: Option<Time>,
    /// Whether it skips to the last rung.
    pub force: bool,
    /// The last rung reached.
    pub rung: Option<Rung>,
    /// The number of processes that are alive now or, if the tree's keeper does not answer, were at that rung. Absent once they are
    /// proven gone.
    pub alive: Option<u32>,
    /// Pids of processes that are alive now, as the tree's keeper reports. If there are many, only some.
    #[serde(default)]
    pub pids: Vec<i32>,
    /// Only in the answer to a request that the journal could not store: where the tree's keeper holds it. The keeper stops the tree, and
    /// its receipt brings the request to the journal once that can be written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_in: Option<HeldIn>,
}

/// What a job said of its work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Progress {
    /// How far it is, in one line. Written by a process of the job: do not trust it.
    pub text: String,
    /// When it said so.
    pub at: Time,
}

impl Stop {
    /// Returns a stop that the journal could not store.
    pub fn held(by: String, force: bool, now: Timestamp, on_disk: bool) -> Stop {
        Stop {
            cause: Cause::User,
            by: Some(by),
            requested_at: now.into(),
            began_at: None,
            force,
            rung: None,
            alive: None,
            pids: Vec::new(),
            held_in: Some(if on_disk { HeldIn::Disk } else { HeldIn::Memory }),
        }
    }
}

impl Job {
    /// Converts a job; `None` if it was never submitted.
    ///
    /// `job` is the fold of `events`, of which those that [`is_shown`] lets pass are enough. Events beyond its version are ignored, so that the
    /// result is the job at one version.
    pub fn of(job: &job::Job, events: &[Event]) -> Option<Job> {
        let spec = job.spec.as_ref()?;
        let upto = events.iter().take_while(|event| event.seq <= job.version);
        let events: &[&Event] = &upto.filter(|event| is_shown(&event.fact)).collect::<Vec<_>>();
        let row = CoreRow::of(job);
        let last_word = job.last_word();
        let argv = match &spec.work {
            spec::Work::Command { argv } => argv.clone(),
            spec::Work::Agent { .. } => Vec::new(),
        };
        let mut attempts: Vec<Attempt> =
            job.attempts.iter().map(|attempt| Attempt::of(attempt, events)).collect();
        if let (Some(stop), Some(last)) = (&job.stop, attempts.last_mut()) {
            last.count_from(stop.requested_at.into(), events);
        }
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
            labels: job.labels.clone(),
            progress: job.progress().map(|said| Progress { text: said.text.clone(), at: said.at.into() }),
            on: spec.on.iter().map(str::to_owned).collect(),
            limits: Limits::in_force(&job.limits),
            agent_limits: AgentLimits::of(&job.limits),
            retry: Retry::of(&spec.retry),
            ladder: Ladder { interrupt_ms: spec.ladder.interrupt_ms, term_ms: spec.ladder.term_ms },
            after: spec.after.iter().map(After::of).collect(),
            not_before: spec.not_before.map(Time::from),
            retry_of: spec.retry_of.map(|id| id.to_string()),
            parent: spec.parent.map(|id| id.to_string()),
            tied: spec.tied,
            children: Children::of(job).map(Box::new),
            conversation: Place::of(job).map(Box::new),
            io: Io::of(spec.io),
            submitted_at: job.submitted_at.into(),
            started_at: row.summary.started_at.map(Time::from),
            ended_at: row.summary.ended_at.map(Time::from),
            silent_since: None,
            updated_at: job.updated_at.into(),
            version: job.version.0,
            stop: Stop::of(job, events),
            paused: Paused::of(job),
            attempts,
            inputs_waiting: job.inputs.len() as u32,
            session: Session::of(job, events).map(Box::new),
            rules: job.rules.iter().map(StandingRule::of).collect(),
            spent: Usage::of(job.usage),
            late: job.late,
            foreign: job.foreign,
            unsettled: false,
        })
    }

    /// Reports whether it has ended.
    pub fn is_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// Returns its open questions: those of its agent, and the one at a limit.
    pub fn open_questions(&self) -> Vec<Question> {
        match &self.session {
            Some(session) => session.questions.clone(),
            None => self.paused.iter().map(Question::at_limit).collect(),
        }
    }

    /// Returns the newest attempt.
    pub fn last_attempt(&self) -> Option<&Attempt> {
        self.attempts.last()
    }
}

fn submitted_by(events: &[&Event]) -> String {
    let by = events.iter().find_map(|event| match &event.fact {
        Fact::Submitted(submitted) => Some(submitted.by.clone()),
        _ => None,
    });
    by.unwrap_or_default()
}

impl Retry {
    /// Converts a policy.
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
    fn of(job: &job::Job, events: &[&Event]) -> Option<Stop> {
        if let Some(stop) = &job.stop {
            // Rungs of an earlier attempt do not count.
            let intent = events.iter().rposition(|event| matches!(event.fact, Fact::LaunchIntended(_)));
            let (rung, alive) =
                events[intent.unwrap_or(0)..].iter().rev().find_map(|event| climbed(event)).unzip();
            return Some(Stop {
                cause: stop.cause.into(),
                by: stop.by.clone(),
                requested_at: stop.requested_at.into(),
                began_at: stop.began_at.map(Time::from),
                force: stop.force,
                rung,
                alive: alive.filter(|_| job.open_attempt().is_some()),
                pids: Vec::new(),
                held_in: None,
            });
        }
        // A request ends a job at once if nothing of it is alive.
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
            held_in: None,
        })
    }
}

/// Returns the rung that an event reports.
fn climbed(event: &Event) -> Option<(Rung, u32)> {
    match &event.fact {
        Fact::RungClimbed(climbed) => Some((climbed.rung.into(), climbed.alive)),
        _ => None,
    }
}
