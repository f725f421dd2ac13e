//! Compares what was acknowledged with what is stored. Pure, so that its own test can falsify a history.
//!
//! Every append of a crash test opens with an event that carries a mark: a unique name, and the number of events in the
//! append. A log is therefore a chain of whole appends, or it is torn.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use lastword_core::view::row::Row;
use lastword_core::{Event, Fact, Job, JobId, Seq};

/// Names one append and says how many events it has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// A name that no other append of its job has.
    pub name: String,
    /// Events of the append.
    pub events: usize,
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.name, self.events)
    }
}

impl FromStr for Mark {
    type Err = ();

    fn from_str(text: &str) -> Result<Mark, ()> {
        let (name, events) = text.split_once('/').ok_or(())?;
        Ok(Mark { name: name.to_owned(), events: events.parse().map_err(|_| ())? })
    }
}

impl Mark {
    /// Reads the mark an event carries.
    pub fn of(event: &Event) -> Option<Mark> {
        match &event.fact {
            Fact::Submitted(submitted) => submitted.by.parse().ok(),
            Fact::LimitChanged(change) => change.by.parse().ok(),
            // A claim makes its append itself: one event, named by a fence that a job gives once.
            Fact::Claimed(claim) => {
                let name = format!("claim-{}-{}-{}", claim.owner, claim.incarnation.number, claim.epoch);
                Some(Mark { name, events: 1 })
            }
            _ => None,
        }
    }
}

/// An append that its writer was told is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acked {
    /// Which job.
    pub job: JobId,
    /// Its first event.
    pub first: Seq,
    /// Its mark.
    pub mark: Mark,
}

impl fmt::Display for Acked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.job, self.first, self.mark)
    }
}

impl FromStr for Acked {
    type Err = ();

    fn from_str(line: &str) -> Result<Acked, ()> {
        let mut words = line.split(' ');
        let mut word = || words.next().ok_or(());
        let job = word()?.parse().map_err(|_| ())?;
        let first = Seq(word()?.parse().map_err(|_| ())?);
        Ok(Acked { job, first, mark: word()?.parse()? })
    }
}

/// What a store holds of one job.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// Its events, in the order in which the store gave them.
    pub events: Vec<Event>,
    /// Its row.
    pub row: Option<Row>,
}

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// An acknowledged append is not there.
    Lost(Acked),
    /// An append is there twice.
    Doubled(JobId, Mark),
    /// Only a part of an append is there.
    Torn(JobId, Seq),
    /// Numbers are not one, two, three.
    Gap(JobId, Seq),
    /// The events do not fold.
    Illegal(JobId, String),
    /// The row is not what the events say.
    RowDiffers(JobId),
}

/// Promises that were broken, as an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violated(pub Vec<Violation>);

impl fmt::Display for Violated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} violations, the first: {:?}", self.0.len(), self.0.first())
    }
}

impl std::error::Error for Violated {}

/// Compares, and fails on any difference.
pub fn judge(acked: &[Acked], stored: &BTreeMap<JobId, Log>) -> Result<(), Violated> {
    let violations = check(acked, stored);
    if violations.is_empty() { Ok(()) } else { Err(Violated(violations)) }
}

/// Compares what was acknowledged with what is stored.
pub fn check(acked: &[Acked], stored: &BTreeMap<JobId, Log>) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut there: BTreeSet<(JobId, Seq, Mark)> = BTreeSet::new();
    // A name belongs to one job: an append cannot stray into another.
    let mut names: BTreeSet<(JobId, String)> = BTreeSet::new();
    for (job, log) in stored {
        for (first, mark) in appends(*job, &log.events, &mut violations) {
            if !names.insert((*job, mark.name.clone())) {
                violations.push(Violation::Doubled(*job, mark.clone()));
            }
            there.insert((*job, first, mark));
        }
        check_row(*job, log, &mut violations);
    }
    let lost = acked.iter().filter(|ack| !there.contains(&(ack.job, ack.first, ack.mark.clone())));
    violations.extend(lost.cloned().map(Violation::Lost));
    violations
}

/// Takes a log apart into its appends.
fn appends(job: JobId, events: &[Event], violations: &mut Vec<Violation>) -> Vec<(Seq, Mark)> {
    let gap = events.iter().zip(1..).find(|(event, expected)| event.seq != Seq(*expected));
    if let Some((_, expected)) = gap {
        violations.push(Violation::Gap(job, Seq(expected)));
        return Vec::new();
    }
    let mut appends = Vec::new();
    let mut rest = events;
    while let Some(first) = rest.first() {
        let whole = Mark::of(first).filter(|mark| mark.events > 0 && mark.events <= rest.len());
        let Some(mark) = whole else {
            violations.push(Violation::Torn(job, first.seq));
            break;
        };
        rest = &rest[mark.events..];
        appends.push((first.seq, mark));
    }
    appends
}

fn check_row(job: JobId, log: &Log, violations: &mut Vec<Violation>) {
    match Job::fold(job, &log.events) {
        Err(error) => violations.push(Violation::Illegal(job, error.to_string())),
        Ok(folded) if folded.version == Seq(0) || Some(Row::of(&folded)) != log.row => {
            violations.push(Violation::RowDiffers(job));
        }
        Ok(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crash::appender::{marked, submission};
    use crate::jobs;

    /// A history of two jobs: a submission and an append of three events each, all acknowledged.
    fn history() -> (Vec<Acked>, BTreeMap<JobId, Log>) {
        let (mut acked, mut stored) = (Vec::new(), BTreeMap::new());
        for n in 0..2 {
            let (submit, job) = submission(jobs::id(n), "q", &format!("submit-{n}"));
            let (append, job) = marked(&job, None, &format!("change-{n}"), 3);
            let events: Vec<Event> = [submit.events, append.events].concat();
            for first in [&events[0], &events[1]] {
                let mark = Mark::of(first).expect("every append opens with a mark");
                acked.push(Acked { job: job.id, first: first.seq, mark });
            }
            stored.insert(job.id, Log { events, row: Some(Row::of(&job)) });
        }
        (acked, stored)
    }

    fn doctored(doctor: impl FnOnce(&mut BTreeMap<JobId, Log>)) -> Vec<Violation> {
        let (acked, mut stored) = history();
        doctor(&mut stored);
        check(&acked, &stored)
    }

    fn log(stored: &mut BTreeMap<JobId, Log>) -> &mut Log {
        stored.get_mut(&jobs::id(0)).expect("it is in the history")
    }

    #[test]
    fn a_true_history_passes_and_what_was_not_acknowledged_may_be_there() {
        assert_eq!(doctored(|_| ()), []);
        let (mut acked, stored) = history();
        acked.truncate(1);
        assert_eq!(check(&acked, &stored), []);
    }

    #[test]
    fn every_doctored_history_is_found() {
        let job = jobs::id(0);
        let lost = doctored(|stored| drop(stored.remove(&job)));
        assert!(matches!(lost[..], [Violation::Lost(_), Violation::Lost(_)]), "{lost:?}");

        let torn = doctored(|stored| drop(log(stored).events.pop()));
        assert!(torn.contains(&Violation::Torn(job, Seq(2))), "{torn:?}");

        let gap = doctored(|stored| drop(log(stored).events.remove(1)));
        assert!(gap.contains(&Violation::Gap(job, Seq(2))), "{gap:?}");

        let doubled = doctored(|stored| {
            let log = log(stored);
            let again = log.events[1..].to_vec();
            log.events.extend(again.into_iter().map(|event| Event { seq: Seq(event.seq.0 + 3), ..event }));
        });
        assert!(matches!(doubled[0], Violation::Doubled(..)), "{doubled:?}");

        let behind = doctored(|stored| {
            let log = log(stored);
            let early = Job::fold(job, &log.events[..1]).expect("the first is a submission");
            log.row = Some(Row::of(&early));
        });
        assert_eq!(behind, [Violation::RowDiffers(job)]);

        let rowless = doctored(|stored| log(stored).row = None);
        assert_eq!(rowless, [Violation::RowDiffers(job)]);

        let illegal = doctored(|stored| {
            let log = log(stored);
            log.events[1].fact = log.events[0].fact.clone();
        });
        assert!(illegal.iter().any(|found| matches!(found, Violation::Illegal(..))), "{illegal:?}");
    }

    #[test]
    fn an_acknowledgement_reads_back() {
        let (acked, _) = history();
        for ack in acked {
            assert_eq!(ack.to_string().parse(), Ok(ack));
        }
    }
}
