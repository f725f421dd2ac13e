//! What a run found, one row per adversary.

use std::time::Duration;

use super::adversaries::Adversary;

/// What became of one trial.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict {
    /// Processes still there after the keeper had gone.
    pub(crate) survivors: usize,
    /// Why the last word was too early, if it was.
    pub(crate) early: Option<String>,
    /// What else was not as it must be.
    pub(crate) wrong: Option<String>,
    /// Whether the tree was complete when it was stopped.
    pub(crate) settled: bool,
    /// How the tree was to be held, by name.
    pub(crate) level: &'static str,
    /// From sending the stop to a last word that can be read, if the stop could be sent at all.
    pub(crate) took: Option<Duration>,
    /// The part of it until the tree was empty, by the keeper's account; the rest is writing and syncing the record.
    pub(crate) emptied: Option<Duration>,
}

/// All trials of one adversary.
pub(crate) struct Row {
    adversary: Adversary,
    verdicts: Vec<Verdict>,
}

/// What is wrong with a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Faults {
    pub(crate) survivors: usize,
    pub(crate) early: usize,
    pub(crate) wrong: usize,
    pub(crate) late: usize,
}

impl Faults {
    pub(crate) fn any(self) -> bool {
        self != Faults::default()
    }

    pub(crate) fn add(&mut self, other: Faults) {
        self.survivors += other.survivors;
        self.early += other.early;
        self.wrong += other.wrong;
        self.late += other.late;
    }
}

pub(crate) fn heading() -> String {
    format!(
        "{:<16} {:<28} {:>6} {:>7} {:>9} {:>5} {:>5} {:>8} {:>8} {:>8} {:>9}",
        "adversary",
        "",
        "trials",
        "settled",
        "survivors",
        "early",
        "wrong",
        "p50 ms",
        "p99 ms",
        "max ms",
        "empty p99"
    )
}

impl Row {
    pub(crate) fn new(adversary: Adversary, verdicts: Vec<Verdict>) -> Row {
        Row { adversary, verdicts }
    }

    pub(crate) fn faults(&self) -> Faults {
        let count = |is: fn(&Verdict) -> bool| self.verdicts.iter().filter(|verdict| is(verdict)).count();
        Faults {
            survivors: count(|verdict| verdict.survivors > 0),
            early: count(|verdict| verdict.early.is_some()),
            wrong: count(|verdict| verdict.wrong.is_some()),
            late: usize::from(self.emptied_p99() > self.adversary.bound),
        }
    }

    /// Returns the times by level, to show where a tail comes from.
    pub(crate) fn by_level(&self, levels: &[&'static str]) -> String {
        let of = |level: &str| {
            let mine = self.verdicts.iter().filter(|verdict| verdict.level == level);
            let times: Vec<Duration> = mine.filter_map(|verdict| verdict.took).collect();
            let (p50, p99) = (quantile(times.clone(), 0.5), quantile(times, 0.99));
            format!("{level} {:.1}/{:.1}", milliseconds(p50), milliseconds(p99))
        };
        let levels: Vec<String> = levels.iter().map(|level| of(level)).collect();
        format!("    p50/p99 ms: {}", levels.join(", "))
    }

    /// Returns the row as text, with at most `notes` reasons below it.
    pub(crate) fn text(&self, notes: usize) -> String {
        let faults = self.faults();
        let mut text = format!(
            "{:<16} {:<28} {:>6} {:>7} {:>9} {:>5} {:>5} {:>8.1} {:>8.1} {:>8.1} {:>9.1}",
            self.adversary.name,
            self.adversary.about,
            self.verdicts.len(),
            self.verdicts.iter().filter(|verdict| verdict.settled).count(),
            faults.survivors,
            faults.early,
            faults.wrong,
            milliseconds(self.quantile(0.5)),
            milliseconds(self.quantile(0.99)),
            milliseconds(self.quantile(1.0)),
            milliseconds(self.emptied_p99()),
        );
        if faults.late > 0 {
            text += &format!("  over {} ms", self.adversary.bound.as_millis());
        }
        let reasons = self.verdicts.iter().flat_map(|verdict| [&verdict.early, &verdict.wrong]).flatten();
        for reason in reasons.take(notes) {
            text += &format!("\n    {reason}");
        }
        text
    }

    /// Returns what the bound is for. A keeper that names too early a moment is caught by the canaries; what follows is one sync of
    /// the disk, which is not the keeper's and is counted by its bench.
    fn emptied_p99(&self) -> Duration {
        quantile(self.verdicts.iter().filter_map(|verdict| verdict.emptied).collect(), 0.99)
    }

    /// Returns the time that the share `part` of the trials did not exceed.
    fn quantile(&self, part: f64) -> Duration {
        quantile(self.verdicts.iter().filter_map(|verdict| verdict.took).collect(), part)
    }
}

/// Returns the time that the share `part` of `times` does not exceed: the nearest rank, never less than was measured.
pub(crate) fn quantile(mut times: Vec<Duration>, part: f64) -> Duration {
    times.sort_unstable();
    let rank = (times.len() as f64 * part).ceil() as usize;
    times.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

pub(crate) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

#[cfg(test)]
mod tests {
    use super::super::adversaries::ADVERSARIES;
    use super::*;

    fn took(milliseconds: u64) -> Verdict {
        let time = Some(Duration::from_millis(milliseconds));
        Verdict { took: time, emptied: time, ..Verdict::default() }
    }

    #[test]
    fn a_p99_is_never_less_than_what_one_in_a_hundred_took() {
        let times: Vec<Duration> = (1..=100).map(Duration::from_millis).collect();
        assert_eq!(quantile(times.clone(), 0.99), Duration::from_millis(99));
        assert_eq!(quantile(times[..50].to_vec(), 0.99), Duration::from_millis(50));
        assert_eq!(quantile(Vec::new(), 0.99), Duration::ZERO);
    }

    #[test]
    fn every_kind_of_fault_is_counted() {
        let row = |verdicts| Row::new(ADVERSARIES[0], verdicts).faults();
        assert!(!row(vec![took(1), took(250)]).any());
        assert_eq!(row(vec![took(1), took(251)]), Faults { late: 1, ..Faults::default() });
        let survivors = Verdict { survivors: 3, ..took(1) };
        assert_eq!(row(vec![survivors]), Faults { survivors: 1, ..Faults::default() });
        let early = Verdict { early: Some("a canary".into()), ..took(1) };
        assert_eq!(row(vec![early, took(1)]), Faults { early: 1, ..Faults::default() });
        let wrong = Verdict { wrong: Some("another level".into()), ..took(1) };
        assert_eq!(row(vec![wrong]), Faults { wrong: 1, ..Faults::default() });
    }
}
