//! Sentences about jobs, from the words of the wire.

use lastword_api::{
    After, Cause, Exit, Job, Level, Limits, Needs, Outcome, OutcomeDetail, Phase, Proof, Row, Rung, Usage,
    Waits, WaitsFor,
};
use lastword_core::limits::dollars;

use crate::text::clean::clean;
use crate::text::{duration, size};

/// Returns how a job is called: by its name, and by its short id in any case.
pub(crate) fn called(name: Option<&str>, short: &str) -> String {
    name.map_or_else(|| short.to_owned(), |name| format!("{} ({short})", clean(name)))
}

/// Returns the shortest word by which a person can name the job.
pub(crate) fn reference(job: &Job) -> &str {
    job.name.as_deref().unwrap_or(&job.short)
}

/// Returns the command that says yes to a question; which one, if there are several.
pub(crate) fn approve(job: &Job, question: Option<&str>) -> String {
    let which = question.map_or_else(String::new, |id| format!(" -q {}", clean(id)));
    format!("lastword approve {}{which}", reference(job))
}

/// Returns where a row stands in one word: its outcome once it has one, and whether it waits for a person.
pub(crate) fn state(row: &Row) -> String {
    match &row.outcome {
        Some(outcome) => of_outcome(outcome),
        None if row.waiting => "asks".to_owned(),
        None => row.phase.to_string(),
    }
}

/// Returns an outcome as people write it.
pub(crate) fn of_outcome(outcome: &Outcome) -> String {
    outcome.as_str().replace('_', " ")
}

/// Returns an ending in a few words: outcome, what it leaves open, and why if that is not plain.
pub(crate) fn ending(outcome: &Outcome, detail: Option<&OutcomeDetail>, cause: Option<&Cause>) -> String {
    let mut text = of_outcome(outcome);
    let detail = detail.map(|detail| match detail {
        OutcomeDetail::BeforeStart => "before it started".to_owned(),
        OutcomeDetail::WhileRunning => "while it ran".to_owned(),
        OutcomeDetail::Deadline => "after its wall-clock limit".to_owned(),
        OutcomeDetail::Stall => "without progress".to_owned(),
        other => other.as_str().replace('_', " "),
    });
    if let Some(detail) = detail {
        text.push(' ');
        text.push_str(&detail);
    }
    let cause = cause.and_then(|cause| match cause {
        Cause::Shutdown => Some("the daemon was told to take its jobs along"),
        Cause::ParentGone => Some("the job that asked for it is gone"),
        Cause::Dependency => Some("a job it waited for did not end as needed"),
        Cause::Launch => Some("it could not be started"),
        Cause::Abandoned => Some("somebody gave it up"),
        Cause::Unaccounted => Some("nobody can say how it ended"),
        _ => None,
    });
    if let Some(cause) = cause {
        text.push_str(&format!(": {cause}"));
    }
    text
}

/// Returns how a process exited.
pub(crate) fn exit(exit: &Exit) -> String {
    match (exit.code, exit.signal) {
        (_, Some(signal)) => format!("killed by {}", signal_name(signal)),
        (Some(code), None) => format!("exit {code}"),
        (None, None) => "exit not seen".to_owned(),
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

/// Returns jobs that must end first, as `--after` takes them.
pub(crate) fn after(jobs: &[After]) -> String {
    let short = |job: &After| {
        let id = job.job.get(job.job.len().saturating_sub(8)..).unwrap_or(&job.job).to_owned();
        if job.on == Needs::Any { id + ":any" } else { id }
    };
    jobs.iter().map(short).collect::<Vec<_>>().join(", ")
}

/// Returns what a job that does not run waits for.
pub(crate) fn waits(waits: &Waits, in_ms: impl Fn(lastword_api::Time) -> u64) -> String {
    match (&waits.on, waits.until) {
        (WaitsFor::Slot, _) => "waits for a free slot of its group".to_owned(),
        (WaitsFor::Paused, _) => "waits: its group is paused".to_owned(),
        (WaitsFor::Time, Some(until)) => format!("is due in {}", duration::show_ms(in_ms(until))),
        (WaitsFor::Dependencies, _) => format!("waits for {}", clean(&after(&waits.jobs))),
        (other, _) => format!("waits for {}", clean(other.as_str())),
    }
}

/// Returns why nothing of an attempt can be alive, as a sentence.
pub(crate) fn proof(proof: &Proof) -> String {
    let sentence = match proof {
        Proof::NoChildren => "its keeper waited until there was no process left",
        Proof::CgroupEmptyAndNoChildren => {
            "its keeper waited until there was no process left, and its control group was empty"
        }
        Proof::NamespaceGone => "its process namespace is gone, and nothing lives without it",
        Proof::NeverStarted => "no process was ever started, and none can be",
        Proof::BootChanged => "the machine was started anew since, which ended everything",
        Proof::LeaseSelfFenced => "its keeper had to end it before its lease ran out, and that has run out",
        Proof::BestEffort => "its keeper was killed; what could be found was killed, and more cannot be said",
        Proof::Other(word) => word,
    };
    clean(sentence).into_owned()
}

/// Returns a rung by the name people know it by.
pub(crate) fn rung(rung: &Rung) -> &str {
    match rung {
        Rung::Interrupt => "interrupt",
        Rung::StdinClosed => "input closed",
        Rung::Term => "TERM",
        Rung::Kill => "KILL",
        Rung::Other(word) => word,
    }
}

/// Returns how a tree is held.
pub(crate) fn level(level: &Level) -> &str {
    match level {
        Level::None => "not held",
        Level::Subreaper => "held by its keeper",
        Level::Landlock => "held by its keeper, which it cannot signal",
        Level::Cgroup => "held in a control group",
        Level::Namespace => "held in a namespace",
        Level::Other(word) => word,
    }
}

/// Returns the limits that are set, or nothing.
pub(crate) fn limits(limits: &Limits) -> Option<String> {
    let parts = [
        limits.wall_ms.map(|ms| format!("wall {}", duration::spell_ms(ms))),
        limits.stall_ms.map(|ms| format!("stall {}", duration::spell_ms(ms))),
        limits.output_bytes.map(|bytes| format!("output {}", size::spell(bytes))),
        limits.turns.map(|turns| format!("turns {turns}")),
        limits.tokens.map(|tokens| format!("tokens {tokens}")),
        limits.money_micros.map(|micros| format!("money {}", dollars(micros))),
    ];
    let set: Vec<String> = parts.into_iter().flatten().collect();
    (!set.is_empty()).then(|| set.join(", "))
}

/// Returns what an agent has used.
pub(crate) fn spent(spent: &Usage) -> String {
    let tokens = format!("{} tokens read, {} written", spent.tokens_in, spent.tokens_out);
    match spent.money_micros {
        0 => tokens,
        micros => format!("{tokens}, {}", dollars(micros)),
    }
}

/// Returns how much of a limit is used up.
pub(crate) fn used(limit: &str, measured: u64, allowed: u64) -> String {
    let spell: fn(u64) -> String = match limit {
        "wall" | "stall" => duration::spell_ms,
        "output" => size::spell,
        "money" => dollars,
        _ => |number| number.to_string(),
    };
    format!("{} of {}", spell(measured), spell(allowed))
}

/// Returns a number with its noun.
pub(crate) fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Reports whether a phase is one in which something of the job may be alive.
pub(crate) fn has_tree(phase: &Phase) -> bool {
    matches!(phase, Phase::Launching | Phase::Running | Phase::Stopping)
}
