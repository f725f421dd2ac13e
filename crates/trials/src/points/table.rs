//! What came of many attempts: by role and kind of job, how often each ending, and each broken promise with the command that
//! shows it again.

use std::collections::BTreeMap;

use super::case::{Case, level_word};
use super::harness::Story;
use super::judge::{Complaint, ending_of, judge};

/// Complaints that are printed in full; the rest is counted.
const SHOWN_MAX: usize = 20;

/// Endings of a row that are named; a row with more has a defect that shows elsewhere.
const ENDINGS_SHOWN_MAX: usize = 8;

/// A row's name: role, kind of job, level.
type Row = (&'static str, &'static str, &'static str);

/// The results so far.
#[derive(Default)]
pub(super) struct Table {
    rows: BTreeMap<Row, BTreeMap<String, usize>>,
    /// Attempts whose role ended before it was struck.
    unreached: usize,
    /// Attempts whose role was not struck, because what it worked on cannot fail so.
    spared: usize,
    struck: usize,
    pub(super) complaints: Vec<(String, Complaint)>,
    broken: usize,
}

impl Table {
    /// Judges an attempt and notes what came of it. Reports whether its role was struck.
    pub(super) fn note(&mut self, case: &Case, story: &Story) -> bool {
        let complaints = judge(case, story);
        let is_struck = story.seen.struck.is_some();
        if is_struck {
            self.struck += 1;
            let role = match case.plan.then {
                Some((then, _)) if story.seen.struck_then.is_some() => match then.word() {
                    "guard" => "shim+guard",
                    _ => "guard+shim",
                },
                _ => case.plan.first.role.word(),
            };
            let row = (role, case.variant.word(), level_word(case.level));
            *self.rows.entry(row).or_default().entry(ending_of(story)).or_default() += 1;
        } else if story.seen.is_spared {
            self.spared += 1;
        } else {
            self.unreached += 1;
        }
        self.broken += usize::from(!complaints.is_empty());
        let struck =
            story.seen.struck.map_or("nothing".to_owned(), |call| crate::tracer::name_of(call.number));
        let object = story.seen.object.as_ref().map_or(String::new(), |object| format!(" of {object}"));
        let context = format!("{} (at {struck}{object}, launch {})", case.command(), launch_word(story));
        self.complaints.extend(complaints.into_iter().map(|complaint| (context.clone(), complaint)));
        is_struck
    }

    /// Prints everything.
    pub(super) fn print(&self) {
        println!("{:<11} {:<7} {:<10} {:>6}  endings", "role", "job", "level", "points");
        for ((role, variant, level), endings) in &self.rows {
            let points: usize = endings.values().sum();
            let mut endings: Vec<_> = endings.iter().collect();
            endings.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
            let words: Vec<String> = endings
                .iter()
                .take(ENDINGS_SHOWN_MAX)
                .map(|(ending, count)| format!("{count} {ending}"))
                .collect();
            println!("{role:<11} {variant:<7} {level:<10} {points:>6}  {}", words.join(" · "));
        }
        println!(
            "{} points struck, {} attempts ended before theirs, {} cannot fail so, {} with a broken promise",
            self.struck, self.unreached, self.spared, self.broken
        );
        for (context, complaint) in self.complaints.iter().take(SHOWN_MAX) {
            println!("  {:?}: {}\n    {context}", complaint.broken, complaint.words);
        }
        if self.complaints.len() > SHOWN_MAX {
            println!("  … and {} more", self.complaints.len() - SHOWN_MAX);
        }
    }

    pub(super) fn holds(&self) -> bool {
        self.complaints.is_empty() && self.struck > 0
    }
}

fn launch_word(story: &Story) -> String {
    match &story.launched {
        Ok(_) => "confirmed".to_owned(),
        Err(error) => error.to_string(),
    }
}
