//! The life of a job as a drawing: one line a stretch, each where it lies in the whole.
//!
//! ```text
//! 14:03:07  queued    ░                            12ms
//! 14:03:07  running   ████████████████████████    3m12s  attempt 1 · pid 4711
//! 14:06:19  stopping                          ▒▒   1.1s  asked by ann · TERM
//! 14:06:20  ended                               ■         cancelled while it ran
//! ```

use lastword_api::{Attempt, Job, Phase, Time};

use super::style::Style;
use super::words;
use crate::text::clean::{clean, columns, cut};
use crate::text::duration;
use crate::text::moment::{Clock, between};

/// Columns of the drawing itself, at most: wider, and the eye has to travel.
const BAR_MAX: usize = 32;

/// What a stretch of a life is.
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

/// A stretch of a life.
#[derive(Debug, PartialEq, Eq)]
struct Stretch {
    kind: Kind,
    from: Time,
    to: Time,
    note: String,
}

/// A start shorter than this is part of the run: every job has one.
const STARTING_WORTH_SHOWING_MS: u64 = 200;

fn is_worth_showing(intended: Time, begun: Time) -> bool {
    between(intended, begun) >= STARTING_WORTH_SHOWING_MS
}

/// Returns the stretches of a job's life, up to `now` if it is not over.
fn stretches(job: &Job, now: Time) -> Vec<Stretch> {
    let end = job.ended_at.unwrap_or(now.max(job.updated_at));
    let mut life = Vec::new();
    let mut from = job.submitted_at;
    for (number, attempt) in job.attempts.iter().enumerate() {
        let Some(intended) = attempt.intended_at else { continue };
        let kind = if number == 0 { Kind::Queued } else { Kind::Waiting };
        // A start in no time is not shown by itself, and leaves no gap either.
        let begun = attempt.launched_at.filter(|begun| !is_worth_showing(intended, *begun));
        life.push(Stretch { kind, from, to: begun.unwrap_or(intended), note: String::new() });
        let is_last = number + 1 == job.attempts.len();
        from = attempt_stretches(job, attempt, is_last, end, &mut life);
    }
    match (&job.phase, job.ended_at) {
        (Phase::Queued | Phase::Backoff, _) => {
            let kind = if job.attempts.is_empty() { Kind::Queued } else { Kind::Waiting };
            let note = job.waits.as_ref().map(|waits| words::waits(waits, |until| between(now, until)));
            life.push(Stretch { kind, from, to: end, note: note.unwrap_or_default() });
        }
        (_, Some(ended)) => {
            if job.attempts.is_empty() {
                life.push(Stretch { kind: Kind::Queued, from, to: ended, note: String::new() });
            }
            let note = job
                .outcome
                .as_ref()
                .map(|outcome| words::ending(outcome, job.outcome_detail.as_ref(), job.cause.as_ref()));
            life.push(Stretch { kind: Kind::Ended, from: ended, to: ended, note: note.unwrap_or_default() });
        }
        _ => {}
    }
    life
}

/// Adds what became of one attempt, and returns when it was over.
fn attempt_stretches(
    job: &Job,
    attempt: &Attempt,
    is_last: bool,
    end: Time,
    life: &mut Vec<Stretch>,
) -> Time {
    let intended = attempt.intended_at.unwrap_or(job.submitted_at);
    let over = attempt.ended_at.unwrap_or(end);
    let stop = job.stop.as_ref().filter(|_| is_last);
    let begun = attempt.launched_at;
    if begun.is_none_or(|begun| is_worth_showing(intended, begun)) {
        let note = attempt.error.clone().unwrap_or_default();
        life.push(Stretch { kind: Kind::Starting, from: intended, to: begun.unwrap_or(over), note });
    }
    if let Some(begun) = begun {
        let asked = stop.map(|stop| stop.requested_at.clamp(begun, over.max(begun)));
        let mut notes = Vec::new();
        if job.attempts.len() > 1 {
            notes.push(format!("attempt {}", attempt.no));
        }
        notes.extend(attempt.exit.as_ref().map(|exit| words::exit(exit).replace("killed by ", "")));
        notes.extend(attempt.pid.map(|pid| format!("pid {pid}")));
        let note = notes.join(" · ");
        life.push(Stretch { kind: Kind::Running, from: begun, to: asked.unwrap_or(over), note });
        if let (Some(asked), Some(stop)) = (asked, stop) {
            let mut notes = vec![stop.by.as_ref().map_or_else(
                || format!("{} reached", stop.cause.as_str().replace("limit_", "limit on ")),
                |by| format!("asked by {by}"),
            )];
            notes.extend(stop.rung.as_ref().map(|rung| words::rung(rung).to_owned()));
            if attempt.ended_at.is_none() {
                notes.extend(stop.alive.map(|alive| format!("{alive} alive")));
            }
            life.push(Stretch { kind: Kind::Stopping, from: asked, to: over, note: notes.join(" · ") });
        }
    }
    over
}

/// Draws the life of a job for a width.
pub(crate) fn draw(job: &Job, clock: &Clock, style: Style, width: usize) -> Vec<String> {
    let life = stretches(job, clock.now());
    let (Some(first), Some(last)) = (life.first(), life.last()) else { return Vec::new() };
    let (begin, total) = (first.from, between(first.from, last.to));
    let bar_width = (width / 4).clamp(8, BAR_MAX);
    let times: Vec<String> = life.iter().map(|stretch| clock.show(stretch.from)).collect();
    let time_width = times.iter().map(|time| columns(time)).max().unwrap_or(0);
    let line = |(stretch, time): (&Stretch, &String)| {
        let bar = bar(stretch, begin, total, bar_width);
        let bar = format!("{:<bar_width$}", bar);
        let took = match stretch.kind {
            Kind::Ended => String::new(),
            _ => duration::show_ms(between(stretch.from, stretch.to)),
        };
        let used = 2 + time_width + 2 + 8 + 2 + bar_width + 1 + 7 + 2;
        let note = cut(&clean(&stretch.note), width.saturating_sub(used).max(8));
        let (name, bar) = paint(stretch.kind, job, style, &format!("{:<8}", stretch.kind.name()), &bar);
        let time = style.faint(&format!("{time:<time_width$}"));
        format!("  {time}  {name}  {bar} {took:>7}  {note}").trim_end().to_owned()
    };
    life.iter().zip(&times).map(line).collect()
}

/// Returns the bar of a stretch, from the beginning of the life on: at least one mark, and never past the end.
fn bar(stretch: &Stretch, begin: Time, total: u64, width: usize) -> String {
    let place = |moment: Time| {
        let into = between(begin, moment) as u128;
        (into * width as u128).checked_div(u128::from(total)).unwrap_or(0) as usize
    };
    let from = place(stretch.from).min(width - 1);
    let to = place(stretch.to).clamp(from + 1, width);
    let marks = if stretch.kind == Kind::Ended { 1 } else { to - from };
    format!("{}{}", " ".repeat(from), stretch.kind.mark().repeat(marks))
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

    fn stretch(kind: Kind, from: u64, to: u64) -> Stretch {
        Stretch { kind, from: Time(from), to: Time(to), note: String::new() }
    }

    #[test]
    fn a_bar_lies_where_its_stretch_lies_in_the_whole() {
        for (kind, from, to, drawn) in [
            (Kind::Queued, 0, 1, "░"),
            (Kind::Running, 0, 1_000, "██████████"),
            (Kind::Running, 100, 500, " ████"),
            (Kind::Stopping, 900, 1_000, "         ▒"),
            (Kind::Stopping, 999, 1_000, "         ▒"),
            (Kind::Ended, 1_000, 1_000, "         ■"),
        ] {
            assert_eq!(bar(&stretch(kind, from, to), Time(0), 1_000, 10), drawn, "{kind:?}");
        }
        assert_eq!(bar(&stretch(Kind::Ended, 0, 0), Time(0), 0, 10), "■", "a life without length");
        assert_eq!(bar(&stretch(Kind::Running, 5, 3), Time(4), 10, 10), " █", "a clock that was set back");
    }
}
