//! Draws a screen, as a terminal describes it, as SVG: one text for each run of characters with the same style.

/// The size of a character, and the margin around all of them.
const WIDTH: f64 = 8.4;
const HEIGHT: f64 = 19.0;
const MARGIN: f64 = 16.0;

const GROUND: &str = "#16181d";
const INK: &str = "#d8dbe2";

/// The sixteen colours that programs name by number.
const COLOURS: [&str; 16] = [
    "#3b4048", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#abb2bf", "#7f848e",
    "#ff7b86", "#b1e18b", "#ffd68a", "#7cc4ff", "#e08cf5", "#6fd4e0", "#ffffff",
];

/// How characters look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Look {
    colour: Option<usize>,
    bold: bool,
    dim: bool,
}

/// Characters in a row that look the same.
#[derive(Debug, PartialEq, Eq)]
struct Run {
    column: usize,
    look: Look,
    text: String,
}

/// Draws a screen.
pub(super) fn draw(screen: &str, columns: usize) -> String {
    let rows: Vec<Vec<Run>> =
        screen.lines().scan(Look::default(), |look, line| Some(runs(line, look))).collect();
    let width = columns as f64 * WIDTH + 2.0 * MARGIN;
    let height = rows.len() as f64 * HEIGHT + 2.0 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{GROUND}\"/>\n\
         <g font-family=\"DejaVu Sans Mono, Menlo, Consolas, monospace\" font-size=\"14\" fill=\"{INK}\" xml:space=\"preserve\">\n"
    );
    for (number, row) in rows.iter().enumerate() {
        let y = MARGIN + number as f64 * HEIGHT + 14.0;
        for run in row {
            svg.push_str(&drawn(run, y));
        }
    }
    svg.push_str("</g>\n</svg>\n");
    svg
}

/// Returns what a picture shows, line by line.
pub(super) fn lines(svg: &str) -> Vec<String> {
    let mut lines: Vec<(&str, String)> = Vec::new();
    for text in svg.lines().filter_map(|line| line.strip_prefix("<text x=\"")?.strip_suffix("</text>")) {
        let (Some((x, rest)), Some((_, shown))) = (text.split_once("\" y=\""), text.split_once('>')) else {
            continue;
        };
        let y = rest.split('"').next().unwrap_or_default();
        let column = ((x.parse::<f64>().unwrap_or(MARGIN) - MARGIN) / WIDTH).round();
        if lines.last().is_none_or(|(last, _)| *last != y) {
            lines.push((y, String::new()));
        }
        if let Some((_, line)) = lines.last_mut() {
            // Rows of blanks only are not drawn, and blanks between runs are.
            while (line.chars().count() as f64) < column {
                line.push(' ');
            }
            line.push_str(
                &shown.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&").replace('\u{a0}', " "),
            );
        }
    }
    lines.into_iter().map(|(_, line)| line).collect()
}

/// A text with its width, so that columns stay columns whatever the font is.
fn drawn(run: &Run, y: f64) -> String {
    let x = MARGIN + run.column as f64 * WIDTH;
    let width = run.text.chars().count() as f64 * WIDTH;
    let mut look = String::new();
    if let Some(colour) = run.look.colour {
        look.push_str(&format!(" fill=\"{}\"", COLOURS[colour]));
    }
    if run.look.bold {
        look.push_str(" font-weight=\"bold\"");
    }
    if run.look.dim {
        look.push_str(" opacity=\"0.6\"");
    }
    let text = run.text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    // Some renderers collapse spaces despite `xml:space`.
    let text = text.replace(' ', "\u{a0}");
    format!(
        "<text x=\"{x:.1}\" y=\"{y:.1}\" textLength=\"{width:.1}\" lengthAdjust=\"spacingAndGlyphs\"{look}>{text}</text>\n"
    )
}

/// Returns the runs of a line that begins with a look, and leaves the look it ends with. Blank runs are left out.
fn runs(line: &str, look: &mut Look) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut column = 0;
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        if let Some((codes, after)) = rest.strip_prefix("\u{1b}[").and_then(|rest| rest.split_once('m')) {
            codes.split(';').for_each(|code| change(look, code));
            rest = after;
            continue;
        }
        match runs.last_mut().filter(|run| run.look == *look) {
            Some(run) => run.text.push(c),
            None => runs.push(Run { column, look: look.clone(), text: c.into() }),
        }
        column += 1;
        rest = &rest[c.len_utf8()..];
    }
    for run in &mut runs {
        let blank = run.text.len() - run.text.trim_start().len();
        run.column += blank;
        run.text = run.text.trim().to_owned();
    }
    runs.retain(|run| !run.text.is_empty());
    runs
}

fn change(look: &mut Look, code: &str) {
    match code.parse::<usize>() {
        Ok(0) | Err(_) => *look = Look::default(),
        Ok(1) => look.bold = true,
        Ok(2) => look.dim = true,
        Ok(22) => (look.bold, look.dim) = (false, false),
        Ok(code @ 30..=37) => look.colour = Some(code - 30),
        Ok(code @ 90..=97) => look.colour = Some(code - 90 + 8),
        Ok(39) => look.colour = None,
        // Other styles are not drawn.
        Ok(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_where_its_look_changes() {
        let mut look = Look::default();
        let runs = runs("  a \u{1b}[1;31mred\u{1b}[0m <&>", &mut look);
        let red = Look { colour: Some(1), bold: true, dim: false };
        assert_eq!(
            runs,
            [
                Run { column: 2, look: Look::default(), text: "a".into() },
                Run { column: 4, look: red, text: "red".into() },
                Run { column: 8, look: Look::default(), text: "<&>".into() },
            ]
        );
        assert_eq!(look, Look::default());
        assert!(drawn(&runs[2], 0.0).contains(">&lt;&amp;&gt;</text>"));
    }

    #[test]
    fn what_was_drawn_can_be_read() {
        let svg = draw("$ a \u{1b}[31m<b>\u{1b}[0m\n\n   c", 80);
        assert_eq!(lines(&svg), ["$ a <b>", "   c"]);
    }

    #[test]
    fn a_look_goes_on_in_the_next_line() {
        let svg = draw("\u{1b}[32mgreen\nstill\u{1b}[39m plain", 80);
        assert_eq!(svg.matches(COLOURS[2]).count(), 2, "{svg}");
        assert!(svg.contains(">plain</text>"), "{svg}");
    }
}
