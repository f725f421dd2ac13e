//! Draws a figure as SVG: one line over a logarithmic axis, each point with its value.

use std::fmt::Write as _;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 70.0;
const BOTTOM: f64 = 50.0;
const TOP: f64 = 40.0;
const RIGHT: f64 = 30.0;

/// What is drawn.
pub(super) struct Plot<'a> {
    pub(super) title: &'a str,
    /// What grows, and what is measured.
    pub(super) axes: (&'a str, &'a str),
    pub(super) points: &'a [(f64, f64)],
    /// A bound that holds if the line stays below it.
    pub(super) goal: Option<f64>,
}

impl Plot<'_> {
    /// Returns the picture.
    pub(super) fn svg(&self) -> String {
        let most = self.points.iter().map(|(_, y)| *y).chain(self.goal).fold(0.0, f64::max) * 1.15;
        let (first, last) = (self.points.first(), self.points.last());
        let (low, high) =
            first.zip(last).map_or((0.0, 1.0), |(first, last)| (first.0.log10(), last.0.log10()));
        let x = |value: f64| LEFT + (value.log10() - low) / (high - low).max(1e-9) * (WIDTH - LEFT - RIGHT);
        let y = |value: f64| HEIGHT - BOTTOM - value / most.max(1e-9) * (HEIGHT - BOTTOM - TOP);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n\
             <text x=\"{LEFT}\" y=\"22\" font-size=\"14\">{}</text>\n",
            self.title
        );
        let (floor, end) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        let _ = writeln!(
            out,
            "<path d=\"M{LEFT} {TOP} V{floor} H{end}\" fill=\"none\" stroke=\"#888\"/>\n\
             <text x=\"{end}\" y=\"{:.0}\" text-anchor=\"end\">{}</text>\n\
             <text x=\"8\" y=\"{:.0}\">{}</text>",
            HEIGHT - 12.0,
            self.axes.0,
            TOP - 4.0,
            self.axes.1
        );
        if let Some(goal) = self.goal {
            let at = y(goal);
            let _ = writeln!(
                out,
                "<path d=\"M{LEFT} {at:.1} H{end}\" stroke=\"#c33\" stroke-dasharray=\"4 4\"/>\n\
                 <text x=\"{end}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#c33\">goal: below {goal}</text>",
                at - 4.0
            );
        }
        let line: Vec<String> =
            self.points.iter().map(|(at, value)| format!("{:.1},{:.1}", x(*at), y(*value))).collect();
        let _ = writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"#247\" stroke-width=\"2\"/>",
            line.join(" ")
        );
        for (at, value) in self.points {
            let (x, y) = (x(*at), y(*value));
            let _ = writeln!(
                out,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"#247\"/>\n\
                 <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{value:.2}</text>\n\
                 <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{at:.0}</text>",
                y - 8.0,
                floor + 16.0
            );
        }
        out.push_str("</svg>\n");
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_is_drawn_with_its_value() {
        let points = [(10.0, 1.5), (100.0, 3.0), (1_000.0, 2.25)];
        let drawn = Plot { title: "t", axes: ("jobs", "ms"), points: &points, goal: Some(4.0) }.svg();
        assert_eq!(drawn.matches("<circle").count(), 3);
        assert!(drawn.contains(">2.25</text>") && drawn.contains("goal: below 4"), "{drawn}");
        assert!(drawn.contains("cx=\"70.0\"") && drawn.contains("cx=\"610.0\""), "{drawn}");
    }
}
