//! Describes jobs in words, from the types of the API.

use lastword_api::{
    After, Asks, Awaited, Cause, Exit, Job, Level, Needs, Outcome, OutcomeDetail, Permissions, Phase, Proof,
    QuestionLimit, Row, Rung, SessionState, Time, Usage, Waits, WaitsFor,
};
use lastword_core::limits::{Limit, Unit, dollars};

use crate::text::clean::clean;
use crate::text::moment::between;
use crate::text::{duration, limit, size};

/// Returns the name of a job with its short id.
pub(crate) fn job_name(name: Option<&str>, short: &str) -> String {
    name.map_or_else(|| short.to_owned(), |name| format!("{} ({short})", clean(name)))
}

/// Returns the shortest text by which a user can refer to the job.
pub(crate) fn reference(job: &Job) -> &str {
    job.name.as_deref().unwrap_or(&job.short)
}

/// Returns the state of a row in one word or two.
pub(crate) fn state(row: &Row, now: Time) -> String {
    match &row.outcome {
        Some(outcome) => outcome_name(outcome),
        None if row.waiting => "needs input".to_owned(),
        None if row.rests.is_some() => {
            let waits = row.waits.as_ref().map(|waits| waits_briefly(waits, &row.group));
            rests(row.rests.as_ref()).to_owned() + &waits.unwrap_or_default()
        }
        None => match (&row.waits, row.silent_since) {
            (Some(waits), _) => format!("{}{}", row.phase, waits_briefly(waits, &row.group)),
            (None, since) => match silent(since, now) {
                Some(silent) => format!("{}, {silent}", row.phase),
                None => row.phase.to_string(),
            },
        },
    }
}

/// Returns the state of a running agent that works on nothing.
pub(crate) fn rests(state: Option<&SessionState>) -> &'static str {
    match state {
        Some(SessionState::Interrupted) => "interrupted",
        _ => "idle",
    }
}

/// How long a running job may write nothing before it is called silent.
const SILENT_MS: u64 = 60_000;

/// Returns for how long a job has written nothing, if that is worth a word.
pub(crate) fn silent(since: Option<Time>, now: Time) -> Option<String> {
    let ms = between(since?, now);
    (ms >= SILENT_MS).then(|| format!("silent for {}", duration::show_coarse(ms)))
}

/// Returns the name of the one worker that may run a job with these labels: that of its conversation.
pub(crate) fn worker_named(labels: &[String]) -> Option<&str> {
    labels.iter().find_map(|label| label.strip_prefix("worker:"))
}

/// Describes in a few words what a job of a list waits for. A point in time has a column of its own.
fn waits_briefly(waits: &Waits, group: &str) -> String {
    let first = waits.by.first().map(|job| clean(job.name.as_deref().unwrap_or(&job.short)).into_owned());
    let more = if waits.by.len() > 1 { "…" } else { "" };
    match (&waits.on, first) {
        (WaitsFor::Slot, Some(_)) => format!(", slot of {}", clean(group)),
        (WaitsFor::Paused, _) => format!(", {} is paused", clean(group)),
        (WaitsFor::Budget, _) => format!(", budget of {} is spent", clean(group)),
        (WaitsFor::Worker, _) if waits.labels.is_empty() => ", worker".to_owned(),
        (WaitsFor::Worker, _) => match worker_named(&waits.labels) {
            Some(worker) => format!(", worker {}", clean(worker)),
            None => format!(", worker with {}", clean(&waits.labels.join(", "))),
        },
        (WaitsFor::Children, _) => ", its jobs run".to_owned(),
        (WaitsFor::Quota, _) => ", quota".to_owned(),
        (WaitsFor::Overload, _) => ", provider overloaded".to_owned(),
        (WaitsFor::Dependencies, Some(first)) => format!(", after {first}{more}"),
        (WaitsFor::Conversation, Some(first)) => format!(", conversation of {first}"),
        _ => String::new(),
    }
}

/// Returns an outcome as people write it.
pub(crate) fn outcome_name(outcome: &Outcome) -> String {
    outcome.as_str().replace('_', " ")
}

/// Why a job was stopped whose output was read no more.
pub(crate) const READER_GONE: &str = "its reader went away";

/// Describes an ending: outcome, detail, and cause unless it is obvious.
pub(crate) fn ending(outcome: &Outcome, detail: Option<&OutcomeDetail>, cause: Option<&Cause>) -> String {
    let mut text = outcome_name(outcome);
    let detail = detail.map(|detail| match detail {
        _ if cause == Some(&Cause::LimitTurn) => "at the time limit of its turn".to_owned(),
        _ if cause == Some(&Cause::LimitActive) => "at the time limit of its conversation".to_owned(),
        _ if cause == Some(&Cause::LimitGroupTokens) => "tokens of its group for the day".to_owned(),
        _ if cause == Some(&Cause::LimitGroupMoney) => "money of its group for the day".to_owned(),
        _ if cause == Some(&Cause::LimitHandshake) => "before the agent opened a session".to_owned(),
        _ if cause == Some(&Cause::LimitIdle) => "without a message".to_owned(),
        OutcomeDetail::BeforeStart => "before it started".to_owned(),
        OutcomeDetail::WhileRunning => "while running".to_owned(),
        OutcomeDetail::Deadline => "at its wall-clock limit".to_owned(),
        OutcomeDetail::Stall => "without output".to_owned(),
        other => other.as_str().replace('_', " "),
    });
    if let Some(detail) = detail {
        text.push(' ');
        text.push_str(&detail);
    }
    let is_completed = *outcome == Outcome::Completed;
    let cause = cause.and_then(|cause| match cause {
        // An agent that stayed open has completed its turns, and was ended after that.
        Cause::LimitIdle if is_completed => Some("idle too long"),
        Cause::User if is_completed => Some("ended while idle"),
        Cause::Shutdown => Some("the daemon was stopped with --cancel-jobs"),
        Cause::ParentGone => Some("the job that submitted it is gone"),
        Cause::ReaderGone => Some(READER_GONE),
        Cause::Dependency => Some("a job it depends on did not succeed"),
        Cause::DependencyRemoved => Some("a job it depends on was removed before its ending could be read"),
        Cause::Launch => Some("it could not be started"),
        Cause::Abandoned => Some("it was abandoned by a user"),
        Cause::Unaccounted => Some("how it ended is unknown"),
        _ => None,
    });
    if let Some(cause) = cause {
        text.push_str(&format!(": {cause}"));
    }
    text
}

/// Describes how a process exited.
pub(crate) fn exit(exit: &Exit) -> String {
    match (exit.code, exit.signal) {
        (_, Some(signal)) => format!("killed by {}", signal_name(signal)),
        (Some(code), None) => format!("exit {code}"),
        (None, None) => "exit unknown".to_owned(),
    }
}

/// Returns the name of a signal, or its number.
pub(crate) fn signal_name(number: i32) -> String {
    let names = [
        (1, "HUP"),
        (2, "INT"),
        (3, "QUIT"),
        (4, "ILL"),
        (6, "ABRT"),
        (7, "BUS"),
        (8, "FPE"),
        (9, "KILL"),
        (10, "USR1"),
        (11, "SEGV"),
        (12, "USR2"),
        (13, "PIPE"),
        (14, "ALRM"),
        (15, "TERM"),
        (24, "XCPU"),
        (25, "XFSZ"),
        (31, "SYS"),
    ];
    let known = names.iter().find(|(signal, _)| *signal == number);
    known.map_or_else(|| format!("signal {number}"), |(_, name)| format!("SIG{name}"))
}

/// Returns the jobs that must end first, as `--after` takes them.
pub(crate) fn after(jobs: &[After]) -> String {
    let short = |job: &After| {
        let id = job.job.get(job.job.len().saturating_sub(8)..).unwrap_or(&job.job).to_owned();
        if job.on == Needs::Any { id + ":any" } else { id }
    };
    jobs.iter().map(short).collect::<Vec<_>>().join(", ")
}

/// Describes what a queued job is waiting for.
pub(crate) fn waits(waits: &Waits, in_ms: impl Fn(lastword_api::Time) -> u64) -> String {
    match (&waits.on, waits.until) {
        (WaitsFor::Slot, _) => match (waits.slots, waits.by.is_empty()) {
            (Some(1), false) if waits.by.len() == 1 => {
                format!("waiting for the slot of its group: {} has it", called(&waits.by))
            }
            (Some(1), false) => {
                format!("waiting for the slot of its group: {} must end first", called(&waits.by))
            }
            (Some(slots), false) => {
                format!("waiting for one of the {slots} slots of its group: {} have them", called(&waits.by))
            }
            _ => "waiting for a free slot in its group".to_owned(),
        },
        (WaitsFor::Conversation, _) => {
            format!("waiting for its conversation, which {} drives", called(&waits.by))
        }
        (WaitsFor::Children, _) => {
            format!("its own processes are gone; it ends after the jobs it started: {}", called(&waits.by))
        }
        (WaitsFor::Worker, _) if waits.labels.is_empty() => {
            "waiting for a worker with a free slot (`lastword fleet` shows them)".to_owned()
        }
        (WaitsFor::Worker, _) => match worker_named(&waits.labels) {
            Some(worker) => {
                format!(
                    "waiting for worker {} (`lastword fleet` shows whether it is connected)",
                    clean(worker)
                )
            }
            None => format!("needs a worker with {}", clean(&waits.labels.join(", "))),
        },
        (WaitsFor::Paused, _) => "waiting: its group is paused".to_owned(),
        (WaitsFor::Budget, Some(until)) => {
            format!("budget spent, new one in {}", duration::show_ms(in_ms(until)))
        }
        (WaitsFor::Quota, Some(until)) => {
            format!("quota used up; it goes on in {}", duration::show_ms(in_ms(until)))
        }
        (WaitsFor::Overload, Some(until)) => {
            format!("provider overloaded; it tries again in {}", duration::show_ms(in_ms(until)))
        }
        (WaitsFor::Time, Some(until)) => format!("due in {}", duration::show_ms(in_ms(until))),
        (WaitsFor::Dependencies, _) => format!("waiting for {}", dependencies(waits)),
        (other, _) => format!("waiting for {}", clean(other.as_str())),
    }
}

/// Returns jobs as people call them.
fn called(jobs: &[Awaited]) -> String {
    let names = jobs.iter().map(|job| job_name(job.name.as_deref(), &job.short));
    names.collect::<Vec<_>>().join(", ")
}

/// Returns the dependencies of a job as people call them, as `--after` takes them.
fn dependencies(waits: &Waits) -> String {
    let name = |job: &After| {
        let known = waits.by.iter().find(|known| known.id == job.job);
        let any = if job.on == Needs::Any { ":any" } else { "" };
        known.map_or_else(
            || clean(&after(std::slice::from_ref(job))).into_owned(),
            |known| job_name(known.name.as_deref(), &known.short) + any,
        )
    };
    waits.jobs.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// Describes why nothing of an attempt can be running.
pub(crate) fn proof(proof: &Proof) -> String {
    let sentence = match proof {
        Proof::NoChildren => "its keeper waited until no process was left",
        Proof::CgroupEmptyAndNoChildren => {
            "its keeper waited until no process was left and its control group was empty"
        }
        Proof::NamespaceGone => "its PID namespace is gone, and with it all its processes",
        Proof::NeverStarted => "nothing was ever started, and nothing can be",
        Proof::BootChanged => "the machine was rebooted since, which ended every process",
        Proof::LeaseSelfFenced => "its lease has expired, and its keeper had to end it before that",
        Proof::BestEffort => "its keeper was killed; all processes that could be found were killed",
        Proof::Other(word) => word,
    };
    clean(sentence).into_owned()
}

/// Returns the usual name of a rung.
pub(crate) fn rung(rung: &Rung) -> &str {
    match rung {
        Rung::Interrupt => "interrupt",
        Rung::StdinClosed => "input closed",
        Rung::Term => "TERM",
        Rung::Kill => "KILL",
        Rung::Other(word) => word,
    }
}

/// Describes how a tree is contained.
pub(crate) fn level(level: &Level) -> &str {
    match level {
        Level::None => "not contained",
        Level::Subreaper => "contained by its keeper",
        Level::Landlock => "contained by its keeper, which it cannot signal",
        Level::Cgroup => "contained in a control group",
        Level::Namespace => "contained in a PID namespace",
        Level::Other(word) => word,
    }
}

/// Lists the limits that a job has.
pub(crate) fn limits(job: &Job) -> Option<String> {
    let (limits, of_agents) = (&job.limits, job.agent_limits.unwrap_or_default());
    let parts = [
        limits.wall_ms.map(|ms| format!("wall {}", duration::spell_ms(ms))),
        of_agents.turn_ms.map(|ms| format!("turn {}", duration::spell_ms(ms))),
        of_agents.active_ms.map(|ms| format!("active {}", duration::spell_ms(ms))),
        of_agents.handshake_ms.map(|ms| format!("handshake {}", duration::spell_ms(ms))),
        of_agents.idle_ms.map(|ms| format!("idle {}", duration::spell_ms(ms))),
        limits.stall_ms.map(|ms| format!("stall {}", duration::spell_ms(ms))),
        limits.output_bytes.map(|bytes| format!("output {}", size::spell(bytes))),
        limits.turns.map(|turns| format!("turns {turns}")),
        limits.tokens.map(|tokens| format!("tokens {tokens}")),
        limits.money_micros.map(|micros| format!("money {}", dollars(micros))),
    ];
    let set: Vec<String> = parts.into_iter().flatten().collect();
    (!set.is_empty()).then(|| set.join(", "))
}

/// Describes what an agent may do without asking, in the order in which the rules count; nothing if it asks for everything.
pub(crate) fn permissions(permissions: &Permissions) -> Option<String> {
    let Permissions { rules, otherwise, expires_ms } = permissions;
    if permissions == &Permissions::default() {
        return None;
    }
    let mut parts: Vec<String> =
        rules.iter().map(|rule| format!("{} `{}`", rule.permission, rule.pattern)).collect();
    parts.push(if rules.is_empty() {
        format!("{otherwise} everything")
    } else {
        format!("otherwise {otherwise}")
    });
    parts.extend(expires_ms.map(|ms| format!("deny what is not answered within {}", duration::spell_ms(ms))));
    Some(parts.join(", "))
}

/// Describes what an agent has used.
pub(crate) fn spent(spent: &Usage) -> String {
    let tokens = format!("{} tokens read, {} written", spent.tokens_in, spent.tokens_out);
    match spent.money_micros {
        0 => tokens,
        micros => format!("{tokens}, {}", dollars(micros)),
    }
}

/// Describes what an agent has used in one word: its money, or its tokens if they cost nothing.
pub(crate) fn money_or_tokens(spent: &Usage) -> String {
    match (spent.money_micros, spent.tokens_in.saturating_add(spent.tokens_out)) {
        (0, 0) => "-".to_owned(),
        (0, tokens) => format!("{tokens} tokens"),
        (micros, _) => dollars(micros),
    }
}

/// Describes what a job asks of a person, in a line.
pub(crate) fn asks(asks: &Asks) -> String {
    let what = match &asks.limit {
        Some(QuestionLimit { limit, measured, allowed }) => {
            format!("paused: {} {}", limit.replace('_', " "), used(limit, *measured, *allowed))
        }
        None => format!("asks: {}", asks.text),
    };
    match asks.others {
        0 => what,
        others => format!("{what} (and {others} more)"),
    }
}

/// Describes how much of a limit is used up.
pub(crate) fn used(name: &str, measured: u64, allowed: u64) -> String {
    // The turn that exceeds the limit is counted, but does not begin.
    let measured = if name == "turns" { measured.min(allowed) } else { measured };
    let unit = Limit::all().find(|(_, known)| *known == name).map_or(Unit::Count, |(limit, _)| limit.unit());
    format!("{} of {}", limit::spell(unit, measured), limit::spell(unit, allowed))
}

/// Returns a number with its noun.
pub(crate) fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Reports whether the job may have processes in this phase.
pub(crate) fn has_tree(phase: &Phase) -> bool {
    matches!(phase, Phase::Launching | Phase::Running | Phase::Idle | Phase::Stopping)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_called_silent_after_a_minute() {
        let (now, at) = (Time(10_000_000), |ago: u64| Some(Time(10_000_000 - ago)));
        assert_eq!(silent(None, now), None);
        assert_eq!(silent(at(59_999), now), None);
        assert_eq!(silent(at(60_000), now).as_deref(), Some("silent for 1m"));
        assert_eq!(silent(at(9 * 60_000), now).as_deref(), Some("silent for 9m"));
        assert_eq!(silent(Some(Time(now.0 + 1)), now), None, "the clock was set back");
    }
}
