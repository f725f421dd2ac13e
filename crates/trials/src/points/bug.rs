//! Bugs that are put into the recovery or into the judge's eyes on purpose: a checker that cannot fail has shown nothing.

use lastword_core::receipt::{Exit, Level};
use lastword_proc::Located;

use super::case::Case;
use super::crew::Crew;
use super::harness::{Recovery, Story};
use super::judge::Broken;
use crate::place;

/// A bug, and the promise that it must be seen to break.
pub(super) struct Bug {
    pub(super) name: &'static str,
    recovery: Recovery,
    bend: fn(&mut Story),
    breaks: Broken,
}

#[rustfmt::skip] // One row, one bug.
pub(super) const OF_KILLS: &[Bug] = &[
    Bug { name: "no-sweep", recovery: Recovery::NoSweep, bend: |_| {}, breaks: Broken::Survivor },
    Bug { name: "false-code", recovery: Recovery::Locate, bend: claim_success, breaks: Broken::False },
    Bug { name: "two-endings", recovery: Recovery::Locate, bend: change_its_word, breaks: Broken::TwoEndings },
    Bug { name: "hidden-loss", recovery: Recovery::Locate, bend: hide_loss, breaks: Broken::UnadmittedLoss },
];

#[rustfmt::skip] // One row, one bug.
pub(super) const OF_FAULTS: &[Bug] = &[
    Bug { name: "hole", recovery: Recovery::Locate, bend: cut_recording, breaks: Broken::UnadmittedLoss },
    Bug { name: "ran-unseen", recovery: Recovery::Locate, bend: let_it_have_run, breaks: Broken::False },
];

impl Bug {
    /// Finds a bug by its name.
    pub(super) fn named(bugs: &'static [Bug], name: &str) -> Result<&'static Bug, String> {
        let known = || bugs.iter().map(|bug| bug.name).collect::<Vec<_>>().join(", ");
        bugs.iter().find(|bug| bug.name == name).ok_or_else(|| format!("--bug {name}: there are {}", known()))
    }

    /// Seeds it, and reports whether the judge noticed.
    pub(super) fn is_caught(&self, workers: usize, cases: fn(Level) -> Vec<Case>) -> Result<bool, String> {
        let folder = place::temporary("points")?;
        let crew = Crew::new(folder.path(), workers, self.recovery, self.bend)?;
        crew.each(&cases(crew.levels()[0]))?;
        let table = crew.table();
        let caught = table.complaints.iter().filter(|(_, complaint)| complaint.broken == self.breaks).count();
        match caught {
            0 => println!("seeded bug {}: NOT CAUGHT", self.name),
            times => println!("seeded bug {}: caught {times} times", self.name),
        }
        Ok(caught > 0)
    }
}

fn claim_success(story: &mut Story) {
    if let Some(Located::Ended(record) | Located::Vanished(record)) = &mut story.word {
        record.receipt.exit = Some(Exit::Code(super::leader::CODE));
    }
}

fn change_its_word(story: &mut Story) {
    story.again = Some(Located::NeverStarted);
}

fn hide_loss(story: &mut Story) {
    story.stdout.parts.clear();
    if let Some(Located::Ended(record) | Located::Vanished(record)) = &mut story.word {
        record.receipt.output_lost = false;
    }
}

fn cut_recording(story: &mut Story) {
    if let Some((_, bytes)) = story.stdout.parts.last_mut() {
        bytes.pop();
    }
}

fn let_it_have_run(story: &mut Story) {
    story.ran = true;
}
