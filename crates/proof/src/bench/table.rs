//! The table a bench prints: two figures, their ratio, and the goal it is held to.

use std::fmt::Write as _;

/// What a ratio must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// At least this.
    AtLeast(f64),
    /// At most this.
    AtMost(f64),
    /// Nothing: the figure is there to be seen.
    None,
}

/// One line.
#[derive(Clone, Debug)]
pub struct Line {
    /// What was measured.
    pub name: String,
    /// Our figure.
    pub ours: f64,
    /// The figure beside it.
    pub other: f64,
    /// What both count.
    pub unit: &'static str,
    /// Ours by the other.
    pub ratio: f64,
    /// What the ratio must be.
    pub goal: Goal,
}

impl Line {
    /// Compares medians.
    pub fn of(name: &str, unit: &'static str, ours: &mut [f64], other: &mut [f64], goal: Goal) -> Line {
        let (ours, other) = (median(ours), median(other));
        Line { name: name.to_owned(), ours, other, unit, ratio: ours / other, goal }
    }

    /// Reports whether the goal was reached.
    pub fn reached(&self) -> bool {
        match self.goal {
            Goal::AtLeast(least) => self.ratio >= least,
            Goal::AtMost(most) => self.ratio <= most,
            Goal::None => true,
        }
    }
}

/// Returns the median; zero of nothing.
pub fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(0.0)
}

/// Returns the lines as a table for people.
pub fn text(lines: &[Line]) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{:<52} {:>12} {:>12} {:<9} {:>8}  goal", "", "ours", "other", "", "ratio");
    for line in lines {
        let goal = match line.goal {
            Goal::AtLeast(least) => format!(">= {least}"),
            Goal::AtMost(most) => format!("<= {most}"),
            Goal::None => String::new(),
        };
        let verdict = if line.reached() { "" } else { "  NOT REACHED" };
        let Line { name, ours, other, unit, ratio, .. } = line;
        let _ =
            writeln!(out, "{name:<52} {ours:>12.0} {other:>12.0} {unit:<9} {ratio:>8.3}  {goal}{verdict}");
    }
    out
}

/// Returns the lines as JSON.
pub fn json(lines: &[Line]) -> String {
    let lines: Vec<String> = lines
        .iter()
        .map(|line| {
            let (kind, goal) = match line.goal {
                Goal::AtLeast(least) => ("at_least", least),
                Goal::AtMost(most) => ("at_most", most),
                Goal::None => ("none", 0.0),
            };
            format!(
                r#"{{"name":"{}","unit":"{}","ours":{:.1},"other":{:.1},"ratio":{:.4},"goal":"{kind}","bound":{goal},"reached":{}}}"#,
                line.name, line.unit, line.ours, line.other, line.ratio, line.reached()
            )
        })
        .collect();
    format!("[{}]", lines.join(","))
}
