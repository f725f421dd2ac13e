//! Judges of a run as a whole: the journal by itself, memory and descriptors, what is left, and whether the faults that were
//! promised took place at all.

use std::collections::{BTreeMap, BTreeSet};

use super::Violation;
use crate::chaos::members::Member;

/// What is known at the end of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Run {
    /// Jobs that were acknowledged, by number.
    pub(crate) acknowledged: BTreeMap<u64, String>,
    /// Jobs that may or may not have been accepted: the answer got lost and was not asked for again.
    pub(crate) unanswered: BTreeSet<u64>,
    /// What the journal holds, read past the product.
    pub(crate) journal: Vec<Logged>,
    /// Last words that the feed over all jobs told of, by job.
    pub(crate) feed: BTreeMap<String, u64>,
    /// Jobs that something removed, or may have, and whether their end is known.
    pub(crate) removed: BTreeMap<String, bool>,
    /// Jobs that did not end in time, with what is said of them.
    pub(crate) stuck: Vec<String>,
    /// Processes that are left when every job has ended and the daemon is gone.
    pub(crate) left: Vec<String>,
    /// The daemon, or server and worker, looked at twice a second.
    pub(crate) samples: BTreeMap<Member, Vec<Sample>>,
    /// What was done and seen, and the least of it that a run must have.
    pub(crate) tally: Vec<Need>,
}

/// Something that must happen in a run, or its judgement says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    pub(crate) what: &'static str,
    pub(crate) count: u64,
    pub(crate) least: u64,
}

impl Need {
    pub(crate) fn is_met(&self) -> bool {
        self.count >= self.least
    }
}

/// A job as the journal has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Logged {
    pub(crate) id: String,
    /// The number it was submitted with, as a label.
    pub(crate) number: Option<u64>,
    pub(crate) last_words: u64,
    /// Facts after the last word that are more than a late report.
    pub(crate) afterthoughts: u64,
}

/// One look at a daemon.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sample {
    pub(crate) at_s: f64,
    pub(crate) pid: i32,
    pub(crate) resident_kb: u64,
    pub(crate) descriptors: u64,
    pub(crate) zombies: u64,
}

/// How much more a daemon may have resident at the end than at the beginning: a tenth and two MB. An allocator settles, and
/// with more history the journal's pages are cached.
const RESIDENT_MORE: f64 = 0.10;
const RESIDENT_MORE_KB: f64 = 2_048.0;

/// How many more descriptors: a job that runs takes a few, and they do not all run at the same moments.
const DESCRIPTORS_MORE: f64 = 12.0;

/// A judge and the promise it knows.
type Judge = (&'static str, fn(&Run) -> Result<(), String>);

#[rustfmt::skip] // One row, one judge.
pub(crate) const JUDGES: &[Judge] = &[
    ("one last word", one_last_word),
    ("no job lost or doubled", no_job_lost_or_doubled),
    ("removed", removed),
    ("feed", feed),
    ("no job stuck", no_job_stuck),
    ("nothing left", nothing_left),
    ("memory", memory),
    ("descriptors", descriptors),
    ("zombies", zombies),
    ("faults took place", faults_took_place),
];

/// Hears every judge.
pub(crate) fn judge(run: &Run) -> Vec<Violation> {
    JUDGES.iter().filter_map(|(judge, hear)| Some(Violation { judge, what: hear(run).err()? })).collect()
}

fn one_last_word(run: &Run) -> Result<(), String> {
    let wrong = run.journal.iter().filter(|job| job.last_words != 1 || job.afterthoughts != 0);
    first_of(
        wrong.map(|job| {
            format!("{}: {} last words, {} facts after", job.id, job.last_words, job.afterthoughts)
        }),
    )
}

fn no_job_lost_or_doubled(run: &Run) -> Result<(), String> {
    let mut of: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    for job in &run.journal {
        let Some(number) = job.number else { return Err(format!("{}: nobody asked for it", job.id)) };
        of.entry(number).or_default().push(&job.id);
    }
    let lost = run
        .acknowledged
        .iter()
        .filter(|(_, id)| !run.removed.contains_key(*id))
        .filter(|(number, id)| of.get(number).is_none_or(|ids| !ids.contains(&id.as_str())));
    first_of(lost.map(|(number, id)| format!("job {number}, {id}: acknowledged, and not in the journal")))?;
    let doubled = of.iter().filter(|(_, ids)| ids.len() > 1);
    first_of(doubled.map(|(number, ids)| format!("job {number} was taken {} times: {ids:?}", ids.len())))?;
    let stray =
        of.keys().find(|number| !run.acknowledged.contains_key(number) && !run.unanswered.contains(number));
    first_of(stray.map(|number| format!("job {number}: refused, and taken all the same")).into_iter())
}

/// Only what has ended is removed.
fn removed(run: &Run) -> Result<(), String> {
    let is_there = |id: &String| run.journal.iter().any(|job| job.id == *id);
    let unended = run.removed.iter().filter(|(id, is_known)| !**is_known && !is_there(id));
    first_of(unended.map(|(id, _)| format!("{id}: gone, and nothing shows that it had ended")))
}

fn feed(run: &Run) -> Result<(), String> {
    // A removal may come before the feed is read, and takes the last word with it.
    let untold = run.journal.iter().map(|job| &job.id).filter(|id| !run.feed.contains_key(*id));
    first_of(untold.map(|id| format!("{id}: its last word was told 0 times")))?;
    let wrong = run.feed.iter().filter(|(_, told)| **told != 1);
    first_of(wrong.map(|(id, told)| format!("{id}: its last word was told {told} times")))
}

fn no_job_stuck(run: &Run) -> Result<(), String> {
    first_of(run.stuck.iter().map(|job| format!("never ended: {job}")))
}

fn nothing_left(run: &Run) -> Result<(), String> {
    first_of(run.left.iter().map(|process| format!("left behind: {process}")))
}

fn memory(run: &Run) -> Result<(), String> {
    first_of(run.samples.iter().filter_map(|(member, samples)| {
        let (first, last) = quarters(samples, |sample| sample.resident_kb as f64, median);
        let allowed = first * (1.0 + RESIDENT_MORE) + RESIDENT_MORE_KB;
        (last > allowed).then(|| format!("the {} grew from {first:.0} to {last:.0} kB", member.name()))
    }))
}

fn descriptors(run: &Run) -> Result<(), String> {
    first_of(run.samples.iter().filter_map(|(member, samples)| {
        // The least of each: a leak raises that, too, and the jobs of a moment do not.
        let (first, last) = quarters(samples, |sample| sample.descriptors as f64, least);
        let is_more = last > first + DESCRIPTORS_MORE;
        is_more.then(|| format!("the {} had {first:.0} descriptors, then {last:.0}", member.name()))
    }))
}

fn zombies(run: &Run) -> Result<(), String> {
    first_of(run.samples.iter().filter_map(|(member, samples)| {
        let (_, last) = quarters(samples, |sample| sample.zombies as f64, least);
        (last > 0.0).then(|| format!("the {} does not wait for {last:.0} of its children", member.name()))
    }))
}

fn faults_took_place(run: &Run) -> Result<(), String> {
    let missing = run.tally.iter().filter(|need| !need.is_met());
    first_of(missing.map(|need| format!("{}: {}, at least {} are needed", need.what, need.count, need.least)))
}

/// Returns the first of several complaints, and how many there are.
fn first_of(complaints: impl Iterator<Item = String>) -> Result<(), String> {
    let complaints: Vec<String> = complaints.collect();
    match complaints.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        [first, rest @ ..] => Err(format!("{first} (and {} more)", rest.len())),
    }
}

/// Returns one figure of the first quarter of a run and of the last. The beginning of a run is left out: nothing runs yet.
pub(crate) fn quarters(
    samples: &[Sample],
    of: fn(&Sample) -> f64,
    figure: fn(Vec<f64>) -> f64,
) -> (f64, f64) {
    let end = samples.last().map_or(0.0, |sample| sample.at_s);
    let begin = end * 0.1;
    let quarter = (end - begin) / 4.0;
    let within = |from: f64, to: f64| {
        samples.iter().filter(|sample| (from..=to).contains(&sample.at_s)).map(of).collect()
    };
    (figure(within(begin, begin + quarter)), figure(within(end - quarter, end)))
}

/// Returns the middle figure; zero if there is none.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(0.0)
}

/// Returns the least figure; zero if there is none.
pub(crate) fn least(figures: Vec<f64>) -> f64 {
    figures.into_iter().min_by(f64::total_cmp).unwrap_or(0.0)
}
