//! Events: facts of a job's log, as readers and streams get them.

use lastword_core::decide::rule;
use lastword_core::event::{Fact, QuestionAsked, Usage};
use lastword_core::view::timeline;
use lastword_core::{self as core, JobId, receipt};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::Time;
use crate::attempt::Receipt;
use crate::enums::{Cause, Level, Outcome, OutcomeDetail, Rung, SessionState, TurnEnding};
use crate::limits::Limits;

/// The version of the event format.
pub const ENVELOPE: u16 = 1;

/// A fact of a job's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// The version of the event format.
    pub v: u16,
    /// Its position in the job's log, from one, without gaps.
    pub seq: u64,
    /// When it was decided.
    pub time: Time,
    /// The kind of fact. New kinds may be added.
    #[serde(rename = "type")]
    pub kind: String,
    /// The job.
    pub job: String,
    /// The attempt it is about, if any.
    pub attempt: Option<u32>,
    /// The fact in one readable line. Safe to print to a terminal.
    pub text: String,
    /// The fact. Its fields depend on the kind; new ones may be added.
    #[schema(value_type = Object)]
    pub data: Value,
}

impl Event {
    /// Converts an event of a job's log.
    pub fn of(job: JobId, event: &core::Event) -> Event {
        Event {
            v: ENVELOPE,
            seq: event.seq.0,
            time: event.at.into(),
            kind: event.fact.kind().to_owned(),
            job: job.to_string(),
            attempt: attempt(&event.fact),
            text: timeline::line(event).text,
            data: data(&event.fact),
        }
    }
}

fn attempt(fact: &Fact) -> Option<u32> {
    let no = match fact {
        Fact::LaunchIntended(intent) => intent.attempt,
        Fact::Launched(launched) => launched.attempt,
        Fact::Adopted(adopted) => adopted.attempt,
        Fact::StopBegan(began) => began.attempt,
        Fact::RungClimbed(climbed) => climbed.attempt,
        Fact::LimitFired(fired) => fired.attempt,
        Fact::LimitNeared(near) => near.attempt,
        Fact::Paused(paused) => paused.attempt,
        Fact::Unpaused(unpaused) => unpaused.attempt,
        Fact::Rested(rested) => rested.attempt,
        Fact::Woken(woken) => woken.attempt,
        Fact::ProgressReported(reported) => reported.attempt,
        Fact::SessionStarted(started) => started.attempt,
        Fact::AttemptEnded(ended) => ended.attempt,
        Fact::RetryScheduled(retry) => retry.attempt,
        Fact::ProviderAwaited(awaited) => awaited.attempt,
        Fact::LastWord(word) => word.attempt?,
        _ => return None,
    };
    Some(no.0)
}

fn data(fact: &Fact) -> Value {
    match fact {
        Fact::Submitted(submitted) => json!({
            "by": submitted.by,
            "group": submitted.spec.group,
            "limits": Limits::in_force(&submitted.limits),
        }),
        Fact::DependencySettled(settled) => json!({
            "job": settled.job,
            "outcome": Outcome::from(settled.outcome),
            "outcome_detail": OutcomeDetail::of(settled.outcome),
        }),
        Fact::Rescheduled(rescheduled) => json!({ "due_at": Time::from(rescheduled.due) }),
        Fact::DependencyRemoved(removed) => json!({ "job": removed.job }),
        Fact::CancelRequested(request) => json!({
            "by": request.by,
            "cause": Cause::from(core::outcome::Cause::from(request.asked)),
            "force": request.force,
        }),
        Fact::LimitChanged(change) => {
            json!({ "by": change.by, "limit": change.limit.name(), "value": change.value })
        }
        Fact::LabelsChanged(change) => json!({ "by": change.by, "labels": change.labels }),
        // A result is read as such: it may be long.
        Fact::ProgressReported(reported) => json!({
            "text": reported.text,
            "result_bytes": reported.result.as_ref().map(String::len),
        }),
        Fact::InputRequested(request) => {
            json!({
                "by": request.by, "input": request.input, "text": request.text, "eof": request.eof,
                "steer": request.steer,
            })
        }
        Fact::AnswerRequested(request) => json!({
            "by": request.by, "input": request.input, "question": request.question, "name": request.name,
            "text": request.text,
        }),
        Fact::InterruptRequested(request) => json!({ "by": request.by, "turn": request.turn }),
        Fact::Abandoned(abandoned) => json!({ "by": abandoned.by }),
        Fact::Claimed(claim) => json!({ "owner": claim.owner, "host": claim.host, "epoch": claim.epoch }),
        Fact::Released(released) => json!({ "epoch": released.epoch }),
        Fact::LaunchIntended(intent) => {
            json!({ "epoch": intent.epoch, "limits": Limits::in_force(&intent.limits) })
        }
        Fact::Launched(launched) => tree(&launched.tree),
        Fact::Adopted(adopted) => tree(&adopted.tree),
        Fact::StopBegan(_) => json!({}),
        Fact::RungClimbed(climbed) => json!({ "rung": Rung::from(climbed.rung), "alive": climbed.alive }),
        Fact::LimitFired(fired) => json!({
            "limit": fired.limit.name(), "measured": fired.measured, "allowed": fired.allowed,
        }),
        Fact::LimitNeared(near) => json!({
            "limit": near.limit.name(), "measured": near.measured, "allowed": near.allowed,
        }),
        Fact::Paused(paused) => json!({
            "limit": paused.limit.name(), "measured": paused.measured, "allowed": paused.allowed,
        }),
        Fact::Unpaused(_) => json!({}),
        Fact::Rested(rested) => json!({ "ms": rested.ms }),
        Fact::Woken(_) => json!({}),
        Fact::RuleAdded(added) => {
            json!({ "by": added.by, "rule": rule::name(added.rule), "tool": added.tool, "request": added.request })
        }
        Fact::RuleRemoved(removed) => json!({ "by": removed.by, "rule": rule::name(removed.rule) }),
        Fact::InputDelivered(delivered) => json!({ "input": delivered.input }),
        Fact::AttemptEnded(ended) => json!({
            "outcome": Outcome::from(ended.outcome),
            "outcome_detail": OutcomeDetail::of(ended.outcome),
            "cause": Cause::from(ended.cause),
            "error": ended.error,
            "receipt": Receipt::of(&ended.receipt),
            "cut_short": ended.cut_short.map(Cause::from),
        }),
        Fact::RetryScheduled(retry) => json!({ "due_at": Time::from(retry.due) }),
        Fact::ProviderAwaited(awaited) => json!({
            "account": awaited.wait.account,
            "why": awaited.wait.why,
            "until": Time::from(awaited.wait.until),
            "ends_at": Time::from(awaited.wait.ends_at),
        }),
        Fact::ProviderOpened(opened) => json!({ "due_at": Time::from(opened.due) }),
        Fact::LastWord(word) => json!({
            "outcome": Outcome::from(word.outcome),
            "outcome_detail": OutcomeDetail::of(word.outcome),
            "cause": Cause::from(word.cause),
            "by": word.by,
            "requested_at": word.requested_at.map(Time::from),
        }),
        Fact::LateReported(late) => json!({ "epoch": late.epoch, "what": late.what }),
        Fact::Unknown(stored) => json!({ "version": stored.version }),
        session_fact => session_data(session_fact),
    }
}

/// Returns the data of facts about an agent's session, with their place in the recording of its output.
fn session_data(fact: &Fact) -> Value {
    let mut data = session_fields(fact);
    if let Some(offset) = offset(fact) {
        data["offset"] = json!(offset);
    }
    data
}

fn offset(fact: &Fact) -> Option<u64> {
    match fact {
        Fact::SessionStarted(started) => Some(started.offset),
        Fact::SessionChanged(changed) => Some(changed.offset),
        Fact::TurnStarted(started) => Some(started.offset),
        Fact::QuestionAsked(asked) => Some(asked.offset),
        Fact::QuestionClosed(closed) => Some(closed.offset),
        Fact::ItemCompleted(item) => Some(item.offset),
        Fact::Spent(spent) => Some(spent.offset),
        Fact::TurnEnded(ended) => Some(ended.offset),
        Fact::ProviderRefused(refused) => Some(refused.offset),
        _ => None,
    }
}

fn session_fields(fact: &Fact) -> Value {
    match fact {
        Fact::SessionStarted(started) => {
            json!({ "reference": started.reference, "resumed_from": started.resumed_from })
        }
        Fact::SessionChanged(changed) => {
            json!({ "state": SessionState::from(changed.state), "background": changed.background })
        }
        Fact::TurnStarted(started) => json!({ "turn": started.turn }),
        Fact::QuestionAsked(asked) => question_asked(asked),
        Fact::QuestionClosed(closed) => json!({ "question": closed.question }),
        Fact::ItemCompleted(item) => json!({ "title": item.title }),
        Fact::ProviderRefused(refused) => {
            json!({ "why": refused.why, "until": refused.until.map(Time::from) })
        }
        Fact::Spent(spent) if spent.overcounted_micros > 0 => {
            json!({ "overcounted_micros": spent.overcounted_micros })
        }
        Fact::Spent(spent) => usage(spent.usage),
        Fact::TurnEnded(ended) => json!({
            "turn": ended.turn,
            "ending": TurnEnding::from(ended.ending),
            "error": ended.error,
            "acknowledged": ended.acknowledged,
            "usage": ended.commit.as_ref().map(|commit| usage(commit.usage)),
        }),
        Fact::Continued(continued) => {
            json!({ "by": continued.by, "job": continued.job.map(|job| job.to_string()) })
        }
        Fact::ChildSubmitted(child) => {
            json!({ "by": child.by, "job": child.job.to_string(), "tied": child.tied })
        }
        Fact::ChildEnded(child) => {
            json!({ "job": child.job.to_string(), "outcome": child.outcome.map(|outcome| outcome.name()) })
        }
        Fact::ChildrenAwaited(awaited) => json!({ "outcome": awaited.word.outcome.name() }),
        Fact::Joined(joined) => json!({
            "conversation": joined.position.first.to_string(),
            "after": joined.position.after.to_string(),
            "number": joined.position.number,
        }),
        _ => json!({}),
    }
}

fn tree(tree: &receipt::Tree) -> Value {
    let level = Level::from(tree.level);
    let mut data =
        json!({ "pid": tree.pid, "start_ticks": tree.start_ticks, "boot": tree.boot, "level": level });
    if let Some(withheld) = &tree.withheld {
        data["withheld"] = json!(withheld);
    }
    data
}

fn usage(usage: Usage) -> Value {
    json!({
        "tokens_in": usage.tokens_in, "tokens_out": usage.tokens_out, "money_micros": usage.money_micros,
    })
}

/// Returns a question as a job shows it, and the agent's own id of it.
fn question_asked(asked: &QuestionAsked) -> Value {
    let mut data = json!({ "question": asked.question, "name": asked.name, "text": asked.text });
    if let (Some(ask), Some(fields)) = (&asked.ask, data.as_object_mut()) {
        let ask = serde_json::to_value(ask).unwrap_or_default();
        fields.extend(ask.as_object().cloned().unwrap_or_default());
    }
    data
}

#[cfg(test)]
mod tests {
    use lastword_core::event::{KINDS, Stored};
    use lastword_core::{Seq, Timestamp};

    use super::*;

    /// Returns the stored examples of core, by kind.
    fn golden() -> Vec<(String, Fact)> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../core/golden");
        let mut facts = Vec::new();
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let kind = name.split('.').next().unwrap().to_owned();
            let body = std::fs::read_to_string(&path).unwrap();
            facts.push((kind.clone(), Fact::decode(Stored { kind, version: 1, body }).unwrap()));
        }
        facts
    }

    #[test]
    fn every_kind_has_a_text_and_data() {
        let job = JobId::new(0, Timestamp(1), [7; 10]);
        let mut seen = std::collections::BTreeSet::new();
        for (kind, fact) in golden() {
            let event = Event::of(job, &core::Event { seq: Seq(3), at: Timestamp(5), fact });
            assert_eq!((event.v, event.seq, event.kind.as_str()), (ENVELOPE, 3, kind.as_str()));
            assert!(!event.text.is_empty());
            let has_data = event.data.as_object().is_some_and(|data| !data.is_empty());
            assert!(
                has_data || ["stop_began", "unpaused", "woken"].contains(&kind.as_str()),
                "{kind}: {}",
                event.data
            );
            let text = serde_json::to_string(&event).unwrap();
            assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event);
            seen.insert(kind);
        }
        assert_eq!(seen, KINDS.iter().map(|kind| (*kind).to_owned()).collect());
    }

    #[test]
    fn a_fact_of_a_newer_build_has_only_its_kind_and_version() {
        let stored = Stored { kind: "teleported".to_owned(), version: 9, body: "{\"secret\":1}".to_owned() };
        let fact = Fact::decode(stored).unwrap();
        let event = Event::of(
            JobId::new(0, Timestamp(1), [7; 10]),
            &core::Event { seq: Seq(1), at: Timestamp(5), fact },
        );
        assert_eq!((event.kind.as_str(), event.data), ("teleported", json!({ "version": 9 })));
    }
}
