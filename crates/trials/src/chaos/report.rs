//! The figures of a run.

use super::judge::run::{Run, Sample, least, median, quarters};
use super::members::Member;
use super::stage::Stage;

/// A row about a member: its name, what is looked at, and what is made of a quarter of it.
type Row = (&'static str, fn(&Sample) -> f64, fn(Vec<f64>) -> f64);

/// Prints what was done and what was seen.
pub(crate) fn print(stage: &Stage, run: &Run) {
    println!("\n{:<40} {:>10}", "what was done, and what came of it", "");
    for (what, count) in stage.tally() {
        println!("{what:<40} {count:>10}");
    }
    println!("\n{:<40} {:>10} {:>10}", "needed for a judgement", "was", "at least");
    for need in &run.tally {
        println!("{:<40} {:>10} {:>10}", need.what, need.count, need.least);
    }
    for (member, samples) in &run.samples {
        print_member(*member, samples);
    }
    let words: u64 = run.journal.iter().map(|job| job.last_words).sum();
    println!(
        "\n{} jobs acknowledged, {} in the journal, {words} last words there, {} told by the feed, {} stuck, {} processes left",
        run.acknowledged.len(),
        run.journal.len(),
        run.feed.values().sum::<u64>(),
        run.stuck.len(),
        run.left.len()
    );
}

fn print_member(member: Member, samples: &[Sample]) {
    println!("\n{:<40} {:>10} {:>10}", format!("the {}", member.name()), "first ¼", "last ¼");
    let rows: [Row; 4] = [
        ("resident, kB, median", |sample| sample.resident_kb as f64, median),
        ("descriptors, median", |sample| sample.descriptors as f64, median),
        ("descriptors, least", |sample| sample.descriptors as f64, least),
        ("zombies, median", |sample| sample.zombies as f64, median),
    ];
    for (name, of, figure) in rows {
        let (first, last) = quarters(samples, of, figure);
        println!("{name:<40} {first:>10.0} {last:>10.0}");
    }
    let most = samples.iter().map(|sample| sample.resident_kb).max().unwrap_or(0);
    println!("{:<40} {:>10} {most:>10}", "resident, kB, most", "");
    println!("{:<40} {:>10} {:>10.2}", "resident, % an hour, least squares", "", slope(samples));
    let mut lives: Vec<i32> = samples.iter().map(|sample| sample.pid).collect();
    lives.dedup();
    println!("{:<40} {:>10} {:>10}", "processes seen, samples", lives.len(), samples.len());
}

/// Returns how the daemon's memory changes, in percent of its mean an hour: the line through all samples.
fn slope(samples: &[Sample]) -> f64 {
    let count = samples.len() as f64;
    let mean = |of: fn(&Sample) -> f64| samples.iter().map(of).sum::<f64>() / count;
    let (at, resident) = (mean(|sample| sample.at_s), mean(|sample| sample.resident_kb as f64));
    let spread: f64 = samples.iter().map(|sample| (sample.at_s - at).powi(2)).sum();
    let together = |sample: &Sample| (sample.at_s - at) * (sample.resident_kb as f64 - resident);
    samples.iter().map(together).sum::<f64>() / spread * 3_600.0 / resident * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slope_is_in_percent_an_hour() {
        let sample = |at: u64| Sample {
            at_s: at as f64,
            pid: 1,
            resident_kb: 10_000 + at,
            descriptors: 1,
            zombies: 0,
        };
        let samples: Vec<Sample> = (0..=200).map(sample).collect();
        // A kB a second is 3.6 MB an hour, of 10.1 MB on average.
        assert!((slope(&samples) - 3_600.0 / 10_100.0 * 100.0).abs() < 0.01);
    }
}
