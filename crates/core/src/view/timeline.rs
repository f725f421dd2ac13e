//! The timeline: a job's log as readable lines.
//!
//! Texts in a log come from agents, users and other builds. They are only quoted here: truncated, and with everything escaped that a
//! terminal could act on.

use serde::{Deserialize, Serialize};

use crate::event::{Continued, Event, Fact, SessionState, TurnEnding};
use crate::ids::{Seq, Timestamp};
use crate::limits::{Limit, Unit, dollars};
use crate::outcome::{Cause, Outcome};
use crate::provider::Refused;

/// Characters quoted of a text.
const QUOTE_CHARS_MAX: usize = 160;

/// A line of the timeline.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Line {
    /// When the event was decided.
    pub at: Timestamp,
    /// Its position in the log.
    pub seq: Seq,
    /// What happened.
    pub text: String,
}

/// Returns a line for each event, including those of newer builds.
pub fn of<'a>(events: impl IntoIterator<Item = &'a Event>) -> Vec<Line> {
    events.into_iter().map(line).collect()
}

/// Returns the line of one event.
pub fn line(event: &Event) -> Line {
    Line { at: event.at, seq: event.seq, text: describe(&event.fact) }
}

fn describe(fact: &Fact) -> String {
    match fact {
        Fact::Submitted(submitted) => format!("submitted by {}", quote(&submitted.by)),
        Fact::DependencySettled(settled) => format!("{} ended: {}", settled.job, outcome(settled.outcome)),
        Fact::DependencyRemoved(removed) => {
            format!("{} was removed before its ending could be read", removed.job)
        }
        Fact::Rescheduled(_) => "the clock was ahead when its due time was set; set anew".to_owned(),
        Fact::CancelRequested(request) => {
            let force = if request.force { ", forced" } else { "" };
            format!("stop requested by {} ({}{force})", quote(&request.by), cause(request.asked.into()))
        }
        Fact::LimitChanged(change) => {
            let by = quote(&change.by);
            match change.value {
                0 => format!("limit {} switched off by {by}", change.limit.name()),
                value => {
                    format!("limit {} set to {} by {by}", change.limit.name(), amount(change.limit, value))
                }
            }
        }
        Fact::LabelsChanged(change) => {
            let label = |(name, value): (&String, &Option<String>)| match value {
                Some(value) => format!("{}={}", quote(name), quote(value)),
                None => format!("without {}", quote(name)),
            };
            let labels: Vec<String> = change.labels.iter().map(label).collect();
            format!("labels changed by {}: {}", quote(&change.by), labels.join(", "))
        }
        Fact::ProgressReported(reported) => {
            let text = reported.text.as_ref().map(|text| format!("progress: {}", quote(text)));
            let result = reported.result.as_ref().map(|result| format!("a result of {} bytes", result.len()));
            [text, result].into_iter().flatten().collect::<Vec<_>>().join(", ")
        }
        Fact::InputRequested(request) => {
            let (input, by, eof) =
                (request.input, quote(&request.by), if request.eof { ", end of input" } else { "" });
            format!("input {input} from {by}{eof}: {}", quote(&request.text))
        }
        Fact::AnswerRequested(request) => {
            format!(
                "answer to {} from {}: {}",
                number(&request.name, &request.question),
                quote(&request.by),
                quote(&request.text)
            )
        }
        Fact::InterruptRequested(request) => {
            format!("interrupt of turn {} requested by {}", request.turn, quote(&request.by))
        }
        Fact::Abandoned(abandoned) => format!("host abandoned by {}", quote(&abandoned.by)),
        Fact::Claimed(claim) => format!("claimed by {} (epoch {})", quote(&claim.owner.0), claim.epoch),
        Fact::Released(released) => format!("released (epoch {})", released.epoch),
        Fact::LaunchIntended(intent) => format!("attempt {} intended", intent.attempt),
        Fact::Launched(launched) => {
            format!("attempt {} launched, pid {}", launched.attempt, launched.tree.pid)
        }
        Fact::Adopted(adopted) => {
            format!("attempt {} adopted, pid {}", adopted.attempt, adopted.tree.pid)
        }
        Fact::StopBegan(began) => format!("stopping attempt {}", began.attempt),
        Fact::RungClimbed(climbed) => format!("stop: {:?}, {} still alive", climbed.rung, climbed.alive),
        Fact::LimitFired(fired) => {
            format!(
                "limit {} reached: {}",
                fired.limit.name(),
                used(fired.limit, fired.measured, fired.allowed)
            )
        }
        Fact::LimitNeared(near) => {
            format!("limit {} is near: {}", near.limit.name(), used(near.limit, near.measured, near.allowed))
        }
        Fact::Paused(paused) => format!(
            "limit {} reached: {}; paused until it is raised",
            paused.limit.name(),
            used(paused.limit, paused.measured, paused.allowed)
        ),
        Fact::Unpaused(_) => "more is allowed; the job continues".to_owned(),
        Fact::RuleAdded(added) => format!(
            "{} allowed it whenever it is asked again: rule r{}, {}",
            quote(&added.by),
            added.rule,
            quote(&added.tool)
        ),
        Fact::RuleRemoved(removed) => format!("{} removed rule r{}", quote(&removed.by), removed.rule),
        Fact::Rested(rested) => format!("the clocks of its limits rested for {} ms", rested.ms),
        Fact::Woken(_) => "has a slot again, for its next turn".to_owned(),
        Fact::InputDelivered(delivered) => format!("input {} delivered", delivered.input),
        Fact::SessionStarted(started) => match &started.reference {
            Some(reference) => format!("session {} started", quote(reference)),
            None => "session started".to_owned(),
        },
        Fact::SessionChanged(changed) => format!("session {}", state(changed.state)),
        Fact::TurnStarted(started) => format!("turn {} started", started.turn),
        Fact::QuestionAsked(asked) => {
            format!("question {}: {}", number(&asked.name, &asked.question), quote(&asked.text))
        }
        Fact::QuestionClosed(closed) => format!("question {} withdrawn", quote(&closed.question)),
        Fact::ItemCompleted(item) => format!("done: {}", quote(&item.title)),
        Fact::Spent(spent) if spent.overcounted_micros > 0 => {
            format!("{} less were spent than counted before", dollars(spent.overcounted_micros))
        }
        Fact::Spent(spent) => {
            format!("spent {} tokens, {}", spent.usage.tokens(), dollars(spent.usage.money_micros))
        }
        Fact::TurnEnded(ended) => {
            let by = match ended.acknowledged {
                Some(true) => ", which the agent acknowledged",
                Some(false) => ", which the agent did not acknowledge",
                None => "",
            };
            with_error(format!("turn {} {}{by}", ended.turn, ending(ended.ending)), ended.error.as_deref())
        }
        Fact::AttemptEnded(ended) => {
            let how = outcome(ended.outcome);
            let cut = |by: Cause| format!("; what was left of it was cut short: {}", cause(by));
            let cut = ended.cut_short.map(cut).unwrap_or_default();
            with_error(
                format!("attempt {} ended: {how} ({}){cut}", ended.attempt, cause(ended.cause)),
                ended.error.as_deref(),
            )
        }
        Fact::RetryScheduled(retry) => format!("attempt {} scheduled", retry.attempt),
        Fact::ProviderRefused(refused) => format!("its provider {}", refusal(refused.why)),
        Fact::ProviderAwaited(awaited) => {
            format!("attempt {} waits: the provider {}", awaited.attempt, refusal(awaited.wait.why))
        }
        Fact::ProviderOpened(_) => "may ask its provider again".to_owned(),
        Fact::LastWord(word) => {
            let by = word.by.as_ref().map(|by| format!(": {}", quote(by))).unwrap_or_default();
            format!("last word: {} ({}{by})", outcome(word.outcome), cause(word.cause))
        }
        Fact::Continued(Continued { by, job: Some(job) }) => format!("{} continued it as {job}", quote(by)),
        Fact::Continued(_) => "no job follows after all".to_owned(),
        Fact::Joined(joined) => {
            format!("job {} of the conversation that {} began", joined.position.number, joined.position.first)
        }
        Fact::ChildSubmitted(child) => {
            let tied = if child.tied { ", which ends with it" } else { ", which may outlive it" };
            format!("{} submitted {} from inside it{tied}", quote(&child.by), child.job)
        }
        Fact::ChildEnded(child) => match child.outcome {
            Some(ended) => format!("its job {} ended: {}", child.job, outcome(ended)),
            None => format!("its job {} is gone", child.job),
        },
        Fact::ChildrenAwaited(awaited) => {
            format!("nothing of it runs; {} when its jobs have ended", outcome(awaited.word.outcome))
        }
        Fact::LateReported(late) => format!("late report (epoch {}): {}", late.epoch, quote(&late.what)),
        Fact::Unknown(stored) => {
            format!("{} (version {}), written by a newer build", quote(&stored.kind), stored.version)
        }
    }
}

/// Returns the number of a question, or the agent's id of one that 0.1.0 recorded. Not its name: a line does not show all that is asked.
fn number(name: &str, id: &str) -> String {
    name.split_once('-').map_or_else(|| quote(id), |(number, _)| number.to_owned())
}

/// Quotes an untrusted text: one line, truncated, with control and invisible characters escaped.
fn quote(text: &str) -> String {
    let mut quoted = String::from("`");
    for c in text.chars().take(QUOTE_CHARS_MAX) {
        if c.is_control() || is_invisible(c) {
            quoted.extend(c.escape_unicode());
        } else {
            quoted.push(c);
        }
    }
    let cut = text.chars().nth(QUOTE_CHARS_MAX).is_some();
    quoted.push_str(if cut { "…`" } else { "`" });
    quoted
}

/// Reports whether a character is invisible or changes the text direction, so that a line could look like another.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

fn with_error(text: String, error: Option<&str>) -> String {
    match error {
        Some(error) => format!("{text}: {}", quote(error)),
        None => text,
    }
}

fn amount(limit: Limit, value: u64) -> String {
    match limit.unit() {
        Unit::Money => dollars(value),
        Unit::Time => format!("{value} ms"),
        Unit::Bytes => format!("{value} bytes"),
        Unit::Count => value.to_string(),
    }
}

fn used(limit: Limit, measured: u64, allowed: u64) -> String {
    match limit.unit() {
        Unit::Money => format!("{} of {}", dollars(measured), dollars(allowed)),
        _ => format!("{measured} of {}", amount(limit, allowed)),
    }
}

fn outcome(outcome: Outcome) -> &'static str {
    use crate::outcome::{Begun, Budget, Clock};
    match outcome {
        Outcome::Completed => "completed",
        Outcome::Failed => "failed",
        Outcome::Cancelled(Begun::BeforeStart) => "cancelled before start",
        Outcome::Cancelled(Begun::WhileRunning) => "cancelled while running",
        Outcome::TimedOut(Clock::Deadline) => "timed out at its deadline",
        Outcome::TimedOut(Clock::Stall) => "timed out without progress",
        Outcome::OverBudget(Budget::Output) => "over its output budget",
        Outcome::OverBudget(Budget::Turns) => "over its turn budget",
        Outcome::OverBudget(Budget::Tokens) => "over its token budget",
        Outcome::OverBudget(Budget::Money) => "over its money budget",
        Outcome::Lost => "lost",
    }
}

fn cause(cause: Cause) -> String {
    match cause {
        Cause::Finished => "finished".to_owned(),
        Cause::Agent => "the agent or command failed".to_owned(),
        Cause::Launch => "it could not be started".to_owned(),
        Cause::User => "user request".to_owned(),
        Cause::Shutdown => "supervisor shutdown".to_owned(),
        Cause::ParentGone => "its parent is gone".to_owned(),
        Cause::ReaderGone => "its reader went away".to_owned(),
        Cause::Dependency => "a dependency did not end as required".to_owned(),
        Cause::DependencyRemoved => "a dependency was removed".to_owned(),
        Cause::Limit(limit) => format!("limit {}", limit.name()),
        Cause::Unaccounted => "how it ended is unknown".to_owned(),
        Cause::Abandoned => "its host was abandoned".to_owned(),
    }
}

fn state(state: SessionState) -> &'static str {
    match state {
        SessionState::Starting => "starting",
        SessionState::Running => "running",
        SessionState::Ready => "ready",
        SessionState::Interrupted => "interrupted",
        SessionState::Stopped => "stopped",
        SessionState::Errored => "errored",
    }
}

fn ending(ending: TurnEnding) -> String {
    match ending {
        TurnEnding::Completed => "completed".to_owned(),
        TurnEnding::Failed => "failed".to_owned(),
        TurnEnding::Aborted => "aborted".to_owned(),
        TurnEnding::Refused => "refused".to_owned(),
        TurnEnding::Limited => "stopped by a limit of the agent or its model".to_owned(),
        TurnEnding::Cancelled => "cancelled".to_owned(),
        TurnEnding::OverLimit(limit) => format!("stopped by limit {}", limit.name()),
        TurnEnding::Interrupted => "interrupted".to_owned(),
        TurnEnding::Superseded => "superseded".to_owned(),
        TurnEnding::AgentExit => "cut short by the agent's exit".to_owned(),
        TurnEnding::RuntimeError => "cut short by an error of the agent's runtime".to_owned(),
    }
}

/// Says why a provider refused to answer.
fn refusal(why: Refused) -> &'static str {
    match why {
        Refused::Quota => "says that the quota is used up",
        Refused::Overload => "is overloaded",
    }
}
