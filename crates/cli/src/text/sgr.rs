//! Colours in a job's output: SGR sequences (`ESC [ … m`), read leniently and written strictly.
//!
//! Only what a reset undoes is written, and no parameter is ever 8, which conceals text: a terminal that does not know `58;5;8` may read
//! its last number by itself. Text in the colour of its background is not detected.

/// Resets every attribute.
pub(crate) const RESET: &str = "\x1b[0m";

/// The most parameters that are remembered. More follow each other only in pictures, where the newest colours count.
const PARAMETERS_MAX: usize = 16;

/// The style that a sequence of SGR sequences selects: its parameters since the last reset, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Style(Vec<String>);

impl Style {
    /// Reports whether nothing is selected.
    pub(crate) fn is_plain(&self) -> bool {
        self.0.is_empty()
    }

    /// Applies the parameters of a sequence, as in `1;31`. Unknown ones are ignored.
    pub(crate) fn apply(&mut self, parameters: &str) {
        let mut rest = parameters.split(';');
        while let Some(parameter) = rest.next() {
            let known = match number(parameter) {
                _ if parameter.contains(':') => with_parts(parameter),
                Some(0) => {
                    self.0.clear();
                    None
                }
                Some(code @ (38 | 48 | 58)) => match colour(&mut rest) {
                    Some(colour) => Some(format!("{code};{colour}")),
                    // Terminals differ on what the rest means.
                    None => break,
                },
                code => code.filter(|code| is_simple(*code)).map(|code| code.to_string()),
            };
            self.0.extend(known);
        }
        self.forget_repeated();
    }

    /// Keeps the last of equal parameters, and of those the newest.
    fn forget_repeated(&mut self) {
        let mut newest: Vec<String> = Vec::new();
        for parameter in self.0.drain(..).rev() {
            if newest.len() < PARAMETERS_MAX && !newest.contains(&parameter) {
                newest.push(parameter);
            }
        }
        self.0.extend(newest.into_iter().rev());
    }

    /// Returns the sequence that changes a terminal from another style to this one.
    pub(crate) fn after(&self, other: &Style) -> String {
        match (self.is_plain(), other.is_plain()) {
            (true, true) => String::new(),
            (true, false) => RESET.to_owned(),
            (false, true) => format!("\x1b[{}m", self.0.join(";")),
            (false, false) => format!("\x1b[0;{}m", self.0.join(";")),
        }
    }
}

/// Parses a number; none at all is 0.
fn number(text: &str) -> Option<u8> {
    if text.is_empty() { Some(0) } else { text.parse().ok() }
}

/// Reports whether a parameter that stands alone is passed on: weight, slant, underline, blink, inverse, strike, overline, and the
/// sixteen colours. Not concealed text, and no fonts, which a reset leaves.
fn is_simple(code: u8) -> bool {
    matches!(code, 1..=7 | 9 | 21..=25 | 27..=37 | 39..=47 | 49 | 53 | 55 | 59 | 90..=97 | 100..=107)
}

/// Parses a colour: `5;N` from the palette, or `2;R;G;B`. Avoids the number 8: grey 244 looks like colour 8, and 9 is hardly brighter.
fn colour<'a>(parts: &mut impl Iterator<Item = &'a str>) -> Option<String> {
    let mut next = || number(parts.next()?);
    match next()? {
        5 => next().map(|index| format!("5;{}", if index == 8 { 244 } else { index })),
        2 => {
            let mut share = || next().map(|share| if share == 8 { 9 } else { share });
            Some(format!("2;{};{};{}", share()?, share()?, share()?))
        }
        _ => None,
    }
}

/// Parses a parameter with parts: `4:3`, a kind of underline, or a colour as in `38:5:208` or `38:2::255:128:0`.
fn with_parts(parameter: &str) -> Option<String> {
    let mut parts: Vec<&str> = parameter.split(':').collect();
    match number(parts[0])? {
        4 => matches!(parts[1..], ["0" | "1" | "2" | "3" | "4" | "5"]).then(|| parameter.to_owned()),
        code @ (38 | 48 | 58) => {
            // The third part may name a colour space.
            if parts[1] == "2" && parts.len() > 5 {
                parts.remove(2);
            }
            colour(&mut parts.into_iter().skip(1)).map(|colour| format!("{code};{colour}"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_style_is_what_its_parameters_select() {
        for (sequences, style) in [
            (&["31"][..], "\x1b[31m"),
            (&["1", "31", "1"], "\x1b[31;1m"),
            (&["01;31"], "\x1b[1;31m"),
            (&["31", ""], ""),
            (&["31", "0;4"], "\x1b[4m"),
            (&["38;5;208;48;2;1;2;3"], "\x1b[38;5;208;48;2;1;2;3m"),
            (&["38:5:208", "48:2::1:2:3", "58:2:4:5:6"], "\x1b[38;5;208;48;2;1;2;3;58;2;4;5;6m"),
            (&["4:3"], "\x1b[4:3m"),
            (&["4:3;58", "4:3;58"], "\x1b[4:3m"),
        ] {
            let mut read = Style::default();
            sequences.iter().for_each(|parameters| read.apply(parameters));
            assert_eq!(read.after(&Style::default()), style, "{sequences:?}");
        }
    }

    #[test]
    fn nothing_conceals_text_or_outlives_a_reset() {
        for (parameters, style) in [
            ("8", ""),
            ("008", ""),
            ("1;8;31", "\x1b[1;31m"),
            ("264", ""),
            ("11", ""),
            ("8:1", ""),
            ("4:8", ""),
            ("38;8", ""),
            ("38;5;8", "\x1b[38;5;244m"),
            ("58:5:8", "\x1b[58;5;244m"),
            ("48;2;8;8;0", "\x1b[48;2;9;9;0m"),
            ("38;5", ""),
            ("38;2;1;2", ""),
            ("1;38;7;31", "\x1b[1m"),
        ] {
            let mut read = Style::default();
            read.apply(parameters);
            assert_eq!(read.after(&Style::default()), style, "{parameters}");
        }
    }

    #[test]
    fn no_more_than_the_newest_parameters_are_remembered() {
        let mut style = Style::default();
        (0..200).for_each(|index| style.apply(&format!("38;5;{index}")));
        assert_eq!(style.0.len(), PARAMETERS_MAX);
        assert_eq!(style.0.last().map(String::as_str), Some("38;5;199"));
    }
}
