//! What must hold of every attempt, wherever its keeper was struck.

use lastword_core::receipt::{Exit, KeeperStop, Level, Proof};
use lastword_proc::{Error, ExitRecord, Located};

use super::case::{Case, Variant};
use super::harness::{Recorded, Story};
use super::leader;
use crate::tracer::Blow;

/// Which promise was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// There was no last word, or it could not be read.
    NoEnding,
    /// There were two, or one that changed.
    TwoEndings,
    /// A process was alive after it.
    Survivor,
    /// It says what was not so.
    False,
    /// Output is missing and the record does not say so.
    UnadmittedLoss,
    /// Undisturbed, it did not come out as it should.
    NotClean,
}

/// One promise that was broken, and how.
#[derive(Clone, Debug)]
pub(super) struct Complaint {
    pub(super) broken: Broken,
    pub(super) words: String,
}

/// Judges an attempt. No complaint: everything held.
pub(super) fn judge(case: &Case, story: &Story) -> Vec<Complaint> {
    let mut bench = Bench { complaints: Vec::new() };
    bench.ending(story);
    bench.silence(story);
    if let Some(word) = &story.word {
        bench.truth(case, story, word);
        if let Some(record) = record_of(word) {
            bench.output(story, record);
        }
        let is_struck = story.seen.struck.is_some();
        if !is_struck || case.plan.first.blow == Blow::None {
            bench.undisturbed(case, story, word);
        }
    }
    bench.complaints
}

/// Names an ending, for the table.
pub(super) fn ending_of(story: &Story) -> String {
    let Some(word) = &story.word else { return "none".to_owned() };
    let Some(record) = record_of(word) else { return "never started".to_owned() };
    let how = match (record.receipt.exit, &record.exec_error, record.receipt.proof) {
        (_, Some(_), _) => "refused".to_owned(),
        (_, _, Proof::NeverStarted) => "never started".to_owned(),
        (Some(Exit::Code(code)), ..) => format!("code {code}"),
        (Some(Exit::Signal(signal)), ..) => format!("signal {signal}"),
        (None, ..) => "lost".to_owned(),
    };
    let loss = if record.receipt.output_lost { ", output lost" } else { "" };
    format!("{how} by {}{loss}", record.by)
}

pub(super) fn record_of(word: &Located) -> Option<&ExitRecord> {
    match word {
        Located::Ended(record) | Located::Vanished(record) => Some(record),
        Located::Alive(_) | Located::NeverStarted | Located::OtherBoot => None,
    }
}

struct Bench {
    complaints: Vec<Complaint>,
}

impl Bench {
    fn complain(&mut self, broken: Broken, words: impl Into<String>) {
        self.complaints.push(Complaint { broken, words: words.into() });
    }

    /// Exactly one ending, and it stays.
    fn ending(&mut self, story: &Story) {
        let Some(word) = &story.word else {
            let hung = if story.is_hung { "; it hung until everything was killed" } else { "" };
            let words = format!("no ending came{hung}: {}", story.errors.join("; "));
            return self.complain(Broken::NoEnding, words);
        };
        if story.is_hung {
            self.complain(Broken::NoEnding, "it hung until everything was killed");
        }
        if let Some(error) = story.errors.first() {
            self.complain(Broken::NoEnding, format!("a look failed: {error}"));
        }
        match &story.again {
            Some(again) if again == word => {}
            again => self.complain(Broken::TwoEndings, format!("first {word:?}, then {again:?}")),
        }
        if story.has_exit != record_of(word).is_some() {
            self.complain(Broken::TwoEndings, format!("{word:?}, but exit record there: {}", story.has_exit));
        }
    }

    fn silence(&mut self, story: &Story) {
        if !story.survivors.is_empty() {
            self.complain(
                Broken::Survivor,
                format!("alive after the last word: {}", story.survivors.join(", ")),
            );
        }
        if !story.lingering.is_empty() {
            self.complain(
                Broken::Survivor,
                format!("still there long after: {}", story.lingering.join(", ")),
            );
        }
    }

    /// The last word is true.
    fn truth(&mut self, case: &Case, story: &Story, word: &Located) {
        let record = record_of(word);
        let says_nothing_ran = record
            .is_none_or(|record| record.receipt.proof == Proof::NeverStarted || record.exec_error.is_some());
        if says_nothing_ran && story.ran {
            self.complain(Broken::False, "it says that nothing ran, but the job did");
        }
        if says_nothing_ran && story.launched.is_ok() {
            self.complain(Broken::False, "the launch was confirmed, but the ending says that nothing ran");
        }
        if story.ran && matches!(story.launched, Err(Error::Refused(_))) {
            self.complain(Broken::False, "the launch was refused, but the job ran");
        }
        match record.and_then(|record| record.receipt.exit) {
            Some(Exit::Code(leader::CODE)) if story.done => {}
            Some(Exit::Code(code)) => {
                self.complain(Broken::False, format!("it says code {code}; the job had not come so far"));
            }
            Some(Exit::Signal(_)) | None => {}
        }
        let said = record.and_then(|record| record.receipt.exit);
        if let (Some(said), Some(truth)) = (said, story.truth)
            && said != truth
        {
            self.complain(Broken::False, format!("it says {said:?}, the kernel says {truth:?}"));
        }
        if case.variant == Variant::Exec && story.launched.is_ok() {
            self.complain(Broken::False, "a program that does not exist was said to run");
        }
    }

    /// What was written is there, or its loss is admitted; nothing is there that was not written.
    fn output(&mut self, story: &Story, record: &ExitRecord) {
        let streams =
            [("stdout", &story.stdout, leader::stdout()), ("stderr", &story.stderr, leader::stderr())];
        let mut bytes = 0;
        for (name, recorded, written) in streams {
            bytes += recorded.bytes();
            if !recorded.is_part_of(&written, record.receipt.output_lost) {
                self.complain(Broken::False, format!("{name} holds what the job did not write"));
            }
            let is_whole =
                recorded.is_prefix() && (!story.printed || recorded.bytes() == written.len() as u64);
            if !is_whole && !record.receipt.output_lost {
                let words = format!(
                    "{name} holds {} of {} bytes, and the record says nothing of a loss",
                    recorded.bytes(),
                    written.len()
                );
                self.complain(Broken::UnadmittedLoss, words);
            }
        }
        let counted = record.receipt.output;
        if !record.receipt.output_lost && counted.kept != bytes {
            let words = format!("the record counts {} bytes kept, the recordings have {bytes}", counted.kept);
            self.complain(Broken::UnadmittedLoss, words);
        }
    }

    /// No process was struck: the ending is the one that the job deserved.
    fn undisturbed(&mut self, case: &Case, story: &Story, word: &Located) {
        let Some(record) = record_of(word) else {
            return self.complain(Broken::NotClean, format!("undisturbed, it ended as {word:?}"));
        };
        let receipt = &record.receipt;
        let held = match case.variant {
            Variant::Run => {
                receipt.exit == Some(Exit::Code(leader::CODE))
                    && !record.receipt.output_lost
                    && receipt.leftovers.len() >= 2
            }
            // A namespace that is killed may take its init along before that has told how the leader ended.
            Variant::Stop => match receipt.exit {
                Some(exit) => matches!(exit, Exit::Signal(_)) && !record.receipt.output_lost,
                None => case.level == Level::Namespace && !record.receipt.output_lost,
            },
            Variant::Exec => record.exec_error.is_some() && receipt.proof == Proof::NeverStarted,
            Variant::Lease => receipt.keeper_stop == Some(KeeperStop::Lease),
            Variant::Orphan => record.by == "guard" && receipt.exit.is_none() && record.receipt.output_lost,
        };
        if !held || !receipt.proof.is_certain() || story.launched.is_ok() == (case.variant == Variant::Exec) {
            self.complain(
                Broken::NotClean,
                format!("undisturbed, it ended as {record:?}, launch {:?}", story.launched),
            );
        }
    }
}

impl Recorded {
    fn bytes(&self) -> u64 {
        self.parts.iter().map(|(_, bytes)| bytes.len() as u64).sum()
    }

    fn is_prefix(&self) -> bool {
        let mut end = 0;
        self.parts.iter().all(|(offset, bytes)| {
            let follows = *offset == end;
            end = offset + bytes.len() as u64;
            follows
        })
    }

    /// Reports whether everything in it was written. A loss that was admitted and is smaller than a block of the file
    /// system shows as zeros, since only whole blocks can be holes.
    fn is_part_of(&self, written: &[u8], is_loss_admitted: bool) -> bool {
        self.parts.iter().all(|(offset, bytes)| {
            let at = usize::try_from(*offset).unwrap_or(usize::MAX);
            let rest = written.get(at..).filter(|rest| rest.len() >= bytes.len());
            rest.is_some_and(|rest| {
                rest.iter().zip(bytes).all(|(was, is)| was == is || (is_loss_admitted && *is == 0))
            })
        })
    }
}
