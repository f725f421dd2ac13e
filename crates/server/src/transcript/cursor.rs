//! A cursor of a transcript: the job, the attempt, the place between two lines with the state there, and how many changes of the next line
//! were told already. It says all that is needed to continue, so the server keeps nothing for readers.

use std::fmt::{self, Display, Formatter};

use lastword_agents::{BadPlace, Place, Transcript};
use lastword_core::spec::{Dialect, Work};
use lastword_core::{AttemptNo, Job};

use crate::failure::Failure;

/// A place in the transcript of a job.
#[derive(Clone, Debug)]
pub(super) struct Cursor {
    /// The short id of the job.
    pub(super) job: String,
    pub(super) attempt: AttemptNo,
    /// Changes of the step after the place that were told.
    pub(super) told: usize,
    pub(super) place: Place,
}

impl Cursor {
    /// Returns the cursor at the beginning of an attempt.
    pub(super) fn start(job: &Job, attempt: AttemptNo) -> Cursor {
        let place = Transcript::new(dialect(job)).place();
        Cursor { job: job.id.short(), attempt, told: 0, place }
    }

    /// Returns the transcript of the job from here on.
    pub(super) fn transcript(&self, job: &Job) -> Result<Transcript, BadPlace> {
        Transcript::at(dialect(job), &self.place)
    }

    /// Parses a cursor of this job.
    pub(super) fn parse(text: &str, job: &Job) -> Result<Cursor, Failure> {
        let parse = || {
            let mut parts = text.splitn(4, '-');
            let of = parts.next().filter(|short| *short == job.id.short())?;
            let attempt = AttemptNo(u32::from_str_radix(parts.next()?, 16).ok()?);
            let told = usize::from_str_radix(parts.next()?, 16).ok()?;
            let place: Place = parts.next()?.parse().ok()?;
            let cursor = Cursor { job: of.to_owned(), attempt, told, place };
            let is_known = job.attempts.iter().any(|known| known.no == attempt);
            // It can be continued, and is written as it was here.
            let is_ours = cursor.to_string() == text && cursor.transcript(job).is_ok();
            (is_known && is_ours).then_some(cursor)
        };
        parse().ok_or_else(|| {
            Failure::invalid("this is not a cursor of the transcript of this job; read it from the beginning")
        })
    }
}

/// Returns the dialect of a job's agent; `None` for a command.
fn dialect(job: &Job) -> Option<Dialect> {
    match &job.spec.as_ref()?.work {
        Work::Agent { terms, .. } => Some(terms.dialect),
        Work::Command { .. } => None,
    }
}

impl Display for Cursor {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:x}-{:x}-{}", self.job, self.attempt.0, self.told, self.place)
    }
}
