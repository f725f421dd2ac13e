//! Figures of many: the middle, the tail.

/// Returns the figure below which `percent` of a hundred lie.
pub(crate) fn percentile(figures: &mut [f64], percent: usize) -> f64 {
    figures.sort_by(f64::total_cmp);
    let at = (figures.len() * percent / 100).min(figures.len().saturating_sub(1));
    figures.get(at).copied().unwrap_or(f64::NAN)
}

/// Returns the middle figure.
pub(crate) fn median(figures: &mut [f64]) -> f64 {
    percentile(figures, 50)
}

/// Says whether a goal was reached.
pub(crate) fn goal(reached: bool) -> &'static str {
    if reached { "" } else { "  NOT REACHED" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_and_the_tail_are_figures_that_were_seen() {
        let mut figures: Vec<f64> = (1..=200).map(f64::from).rev().collect();
        assert_eq!((median(&mut figures), percentile(&mut figures, 99)), (101.0, 199.0));
        assert_eq!(percentile(&mut [7.0], 99), 7.0);
        assert!(median(&mut []).is_nan());
    }
}
