//! Renders the timeline of a job: one line per span, each with a bar at its position in the whole.
//!
//! ```text
//! 14:03:07  queued    ░                            12ms
//! 14:03:07  running   ████████████████████████    3m12s  attempt 1 · pid 4711
//! 14:06:19  stopping                          ▒▒   1.1s  requested by ann · TERM
//! 14:06:20  ended                               ■         cancelled while running
//! ```

use lastword_api::{Attempt, Cause, Job, Phase, Time};

use super::describe;
use super::style::Style;
use crate::text::clean::{clean, columns, cut};
use crate::text::duration;
use crate::text::moment::{Clock, between};

/// The maximum width of the bars.
const BAR_MAX: usize = 32;

/// The kind of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Queued,
    Starting,
    Running,
    Stopping,
    Waiting,
    Ended,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Queued => "queued",
            Kind::Starting => "starting",
            Kind::Running => "running",
            Kind::Stopping => "stopping",
            Kind::Waiting => "waiting",
            Kind::Ended => "ended",
        }
    }

    fn mark(self) -> &'static str {
        match self {
            Kind::Queued | Kind::Waiting | Kind::Starting => "░",
            Kind::Running => "█",
            Kind::Stopping => "▒",
            Kind::Ended => "■",
        }
    }
}

/// A span of time in the life of a job.
#[derive(Debug, PartialEq, Eq)]
struct Span {
    kind: Kind,
    from: Time,
    to: Time,
    note: String,
}

/// A start that takes less time than this counts as part of the run.
const STARTING_WORTH_SHOWING_MS: u64 = 200;

fn is_worth_showing(intended: Time, launched: Time) -> bool {
    between(intended, launched) >= STARTING_WORTH_SHOWING_MS
}

/// Returns the spans of a job, up to `now` if it has not ended.
fn spans(job: &Job, now: Time) -> Vec<Span> {
    let end = job.ended_at.unwrap_or(now.max(job.updated_at));
    let mut spans = Vec::new();
    let mut from = job.submitted_at;
    for (number, attempt) in job.attempts.iter().enumerate() {
        let Some(intended) = attempt.intended_at else { continue };
        let kind = if number == 0 { Kind::Queued } else { Kind::Waiting };
        // If the start is not shown, the span before it extends to the launch.
        let launched = attempt.launched_at.filter(|launched| !is_worth_showing(intended, *launched));
        spans.push(Span { kind, from, to: launched.unwrap_or(intended), note: String::new() });
        let is_last = number + 1 == job.attempts.len();
        from = attempt_spans(job, attempt, is_last, end, &mut spans);
    }
    match (&job.phase, job.ended_at) {
        (Phase::Queued | Phase::Backoff, _) => {
            let kind = if job.attempts.is_empty() { Kind::Queued } else { Kind::Waiting };
            // Jobs that it waits for are named below the timeline.
            let waits = job.waits.as_ref().filter(|waits| waits.by.is_empty());
            let note = waits.map(|waits| describe::waits(waits, |until| between(now, until)));
            spans.push(Span { kind, from, to: end, note: note.unwrap_or_default() });
        }
        (_, Some(ended)) => {
            if job.attempts.is_empty() {
                spans.push(Span { kind: Kind::Queued, from, to: ended, note: String::new() });
            }
            let note = job
                .outcome
                .as_ref()
                .map(|outcome| describe::ending(outcome, job.outcome_detail.as_ref(), job.cause.as_ref()));
            spans.push(Span { kind: Kind::Ended, from: ended, to: ended, note: note.unwrap_or_default() });
        }
        _ => {}
    }
    spans
}

/// Adds the spans of one attempt, and returns when it ended.
fn attempt_spans(job: &Job, attempt: &Attempt, is_last: bool, end: Time, spans: &mut Vec<Span>) -> Time {
    let intended = attempt.intended_at.unwrap_or(job.submitted_at);
    let over = attempt.ended_at.unwrap_or(end);
    let stop = job.stop.as_ref().filter(|_| is_last);
    let launched = attempt.launched_at;
    if launched.is_none_or(|launched| is_worth_showing(intended, launched)) {
        let note = attempt.error.clone().unwrap_or_default();
        spans.push(Span { kind: Kind::Starting, from: intended, to: launched.unwrap_or(over), note });
    }
    if let Some(launched) = launched {
        let requested = stop.map(|stop| stop.requested_at.clamp(launched, over.max(launched)));
        let mut notes = Vec::new();
        if job.attempts.len() > 1 {
            notes.push(format!("attempt {}", attempt.no));
        }
        notes.extend(attempt.exit.as_ref().map(|exit| describe::exit(exit).replace("killed by ", "")));
        notes.extend(attempt.pid.map(|pid| format!("pid {pid}")));
        notes.extend(describe::silent(job.silent_since.filter(|_| is_last), end));
        let note = notes.join(" · ");
        spans.push(Span { kind: Kind::Running, from: launched, to: requested.unwrap_or(over), note });
        if let (Some(requested), Some(stop)) = (requested, stop) {
            let mut notes = vec![match &stop.by {
                _ if stop.cause == Cause::ReaderGone => describe::READER_GONE.to_owned(),
                Some(by) => format!("requested by {by}"),
                None if stop.cause == Cause::Agent => "its turn did not complete".to_owned(),
                None => format!("{} reached", stop.cause.as_str().replace("limit_", "limit on ")),
            }];
            notes.extend(stop.rung.as_ref().map(|rung| describe::rung(rung).to_owned()));
            if attempt.ended_at.is_none() {
                notes.extend(stop.alive.map(|alive| match alive {
                    0 => "none alive".to_owned(),
                    alive => format!("{alive} alive"),
                }));
            }
            spans.push(Span { kind: Kind::Stopping, from: requested, to: over, note: notes.join(" · ") });
        }
    }
    over
}

/// Draws the timeline for a given width.
pub(crate) fn draw(job: &Job, clock: &Clock, style: Style, width: usize) -> Vec<String> {
    let spans = spans(job, clock.now());
    let (Some(first), Some(last)) = (spans.first(), spans.last()) else { return Vec::new() };
    let (begin, total) = (first.from, between(first.from, last.to));
    let bar_width = (width / 4).clamp(8, BAR_MAX);
    let times: Vec<String> = spans.iter().map(|span| clock.show(span.from)).collect();
    let time_width = times.iter().map(|time| columns(time)).max().unwrap_or(0);
    let line = |(span, time): (&Span, &String)| {
        let bar = bar(span, begin, total, bar_width);
        let bar = format!("{:<bar_width$}", bar);
        let took = match span.kind {
            Kind::Ended => String::new(),
            _ => duration::show_ms(between(span.from, span.to)),
        };
        let used = 2 + time_width + 2 + 8 + 2 + bar_width + 1 + 7 + 2;
        let note = cut(&clean(&span.note), width.saturating_sub(used).max(8));
        let (name, bar) = paint(span.kind, job, style, &format!("{:<8}", span.kind.name()), &bar);
        let time = style.faint(&format!("{time:<time_width$}"));
        format!("  {time}  {name}  {bar} {took:>7}  {note}").trim_end().to_owned()
    };
    spans.iter().zip(&times).map(line).collect()
}

/// Returns the bar of a span: at least one mark, and never beyond the end.
fn bar(span: &Span, begin: Time, total: u64, width: usize) -> String {
    let place = |moment: Time| {
        let into = between(begin, moment) as u128;
        (into * width as u128).checked_div(u128::from(total)).unwrap_or(0) as usize
    };
    let from = place(span.from).min(width - 1);
    let to = place(span.to).clamp(from + 1, width);
    let marks = if span.kind == Kind::Ended { 1 } else { to - from };
    format!("{}{}", " ".repeat(from), span.kind.mark().repeat(marks))
}

fn paint(kind: Kind, job: &Job, style: Style, name: &str, bar: &str) -> (String, String) {
    let paint = |text: &str| match kind {
        Kind::Queued | Kind::Waiting | Kind::Starting => style.faint(text),
        Kind::Running => style.live(text),
        Kind::Stopping => style.warn(text),
        Kind::Ended => style.by_state(&job.phase, job.outcome.as_ref(), text),
    };
    (paint(name), paint(bar))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(kind: Kind, from: u64, to: u64) -> Span {
        Span { kind, from: Time(from), to: Time(to), note: String::new() }
    }

    #[test]
    fn a_bar_lies_at_the_position_of_its_span() {
        for (kind, from, to, drawn) in [
            (Kind::Queued, 0, 1, "░"),
            (Kind::Running, 0, 1_000, "██████████"),
            (Kind::Running, 100, 500, " ████"),
            (Kind::Stopping, 900, 1_000, "         ▒"),
            (Kind::Stopping, 999, 1_000, "         ▒"),
            (Kind::Ended, 1_000, 1_000, "         ■"),
        ] {
            assert_eq!(bar(&span(kind, from, to), Time(0), 1_000, 10), drawn, "{kind:?}");
        }
        assert_eq!(bar(&span(Kind::Ended, 0, 0), Time(0), 0, 10), "■", "no duration");
        assert_eq!(bar(&span(Kind::Running, 5, 3), Time(4), 10, 10), " █", "the clock was set back");
    }
}
