//! Makes untrusted text safe for a terminal: names, titles, command lines and errors are never printed raw.
//!
//! Invariant: the result contains no control character, and cleaning it again changes nothing. A job's output also keeps its line breaks,
//! tabs and colours.

use std::borrow::Cow;

use super::sgr::{RESET, Style};

/// Returns `text` on one line, replacing every character that could control a terminal, reorder a line or be invisible.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_harmless) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|c| if is_harmless(c) { c } else { replacement(c) }).collect())
}

/// Like [`clean`], but keeps line breaks and expands tabs.
pub(crate) fn clean_lines(text: &str) -> String {
    let lines: Vec<String> =
        text.lines().map(|line| clean(&line.replace('\t', "    ")).into_owned()).collect();
    lines.join("\n")
}

/// Escapes such characters in JSON. They occur only within strings, so the value stays the same.
pub(crate) fn clean_json(json: &str) -> Cow<'_, str> {
    if json.chars().all(is_harmless) {
        return Cow::Borrowed(json);
    }
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        match is_harmless(c) {
            true => text.push(c),
            false => {
                c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| text.push_str(&format!("\\u{unit:04x}")))
            }
        }
    }
    Cow::Owned(text)
}

/// The longest sequence that is taken for a colour. Longer ones are shown.
const SEQUENCE_CHARS_MAX: usize = 128;

/// What becomes of colours in a job's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colours {
    /// They are passed on.
    Kept,
    /// They are left out.
    Dropped,
}

/// Cleans a job's output piece by piece: keeps line feeds, tabs and colours, turns carriage returns into line feeds, and treats the rest
/// like [`clean`]. Pieces may be cut anywhere. A colour ends with its line, and is interrupted between pieces, so that it never reaches
/// what others print.
#[derive(Debug)]
pub(crate) struct Cleaner {
    colours: Colours,
    /// The first bytes of an incomplete character.
    incomplete: Vec<u8>,
    /// The first characters of what may become a colour.
    sequence: String,
    after_return: bool,
    /// The style that the output has selected, and the one that the terminal was told.
    style: Style,
    shown: Style,
}

impl Cleaner {
    /// Returns a cleaner at the start of a line.
    pub(crate) fn new(colours: Colours) -> Cleaner {
        Cleaner {
            colours,
            incomplete: Vec::new(),
            sequence: String::new(),
            after_return: false,
            style: Style::default(),
            shown: Style::default(),
        }
    }

    /// Returns a cleaned piece.
    pub(crate) fn clean(&mut self, bytes: &[u8]) -> String {
        let bytes = [std::mem::take(&mut self.incomplete).as_slice(), bytes].concat();
        let mut text = String::with_capacity(bytes.len());
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let (valid, invalid) = match std::str::from_utf8(rest) {
                Ok(_) => (rest.len(), Some(0)),
                Err(error) => (error.valid_up_to(), error.error_len()),
            };
            let (good, after) = rest.split_at(valid);
            String::from_utf8_lossy(good).chars().for_each(|c| self.push(c, &mut text));
            let Some(invalid) = invalid else {
                self.incomplete = after.to_vec();
                break;
            };
            if invalid > 0 {
                self.push(char::REPLACEMENT_CHARACTER, &mut text);
            }
            rest = &after[invalid..];
        }
        self.interrupt_style(&mut text);
        text
    }

    fn push(&mut self, c: char, text: &mut String) {
        match (self.sequence.len(), c) {
            (0, '\x1b') | (1, '[') => return self.sequence.push(c),
            (2..SEQUENCE_CHARS_MAX, '0'..='9' | ';' | ':') => return self.sequence.push(c),
            (2.., 'm') => {
                let sequence = std::mem::take(&mut self.sequence);
                if self.colours == Colours::Kept {
                    self.style.apply(&sequence[2..]);
                }
                return;
            }
            (1.., _) => {
                std::mem::take(&mut self.sequence).chars().for_each(|shown| self.show(shown, text));
                return self.push(c, text);
            }
            (0, _) => {}
        }
        self.show(c, text);
    }

    fn show(&mut self, c: char, text: &mut String) {
        match c {
            '\n' if self.after_return => {}
            '\r' | '\n' => {
                self.interrupt_style(text);
                self.style = Style::default();
                text.push('\n');
            }
            _ => {
                if self.shown != self.style {
                    text.push_str(&self.style.after(&self.shown));
                    self.shown.clone_from(&self.style);
                }
                text.push(if c == '\t' || is_harmless(c) { c } else { replacement(c) });
            }
        }
        self.after_return = c == '\r';
    }

    /// Makes the terminal plain until the next character.
    fn interrupt_style(&mut self, text: &mut String) {
        if !self.shown.is_plain() {
            text.push_str(RESET);
            self.shown = Style::default();
        }
    }
}

fn is_harmless(c: char) -> bool {
    match c {
        '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' => false,
        // Soft hyphen, joiners, separators and directional marks.
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' => false,
        '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' => false,
        // Fillers and marks that have no shape of their own.
        '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{3164}' | '\u{ffa0}' => false,
        '\u{1d173}'..='\u{1d17a}' => false,
        // Tags, an invisible copy of ASCII, and variants of a character.
        '\u{e0000}'..='\u{e01ef}' => false,
        _ => true,
    }
}

/// Returns the visible symbol of a control character, or the replacement character.
fn replacement(c: char) -> char {
    match c {
        '\u{0}'..='\u{1f}' => char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}'),
        '\u{7f}' => '\u{2421}',
        _ => '\u{fffd}',
    }
}

/// Truncates `text` to `width` columns, with `…` at the end if it was cut.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut used = 0;
    for c in text.chars() {
        let wide = unicode_width::UnicodeWidthChar::width(c).unwrap_or(0);
        if used + wide + 1 > width {
            break;
        }
        kept.push(c);
        used += wide;
    }
    if width > 0 {
        kept.push('…');
    }
    kept
}

/// Splits a line into pieces of at most `width` columns. Nothing is lost; an empty line is one empty piece.
pub(crate) fn wrap(line: &str, width: usize) -> Vec<String> {
    let (mut pieces, mut used) = (vec![String::new()], 0);
    for c in line.chars() {
        let wide = match c {
            // Some terminals draw the character before it twice as wide.
            '\u{fe0f}' => 1,
            _ => unicode_width::UnicodeWidthChar::width(c).unwrap_or(0),
        };
        if used > 0 && used + wide > width {
            (used, _) = (0, pieces.push(String::new()));
        }
        used += wide;
        if let Some(piece) = pieces.last_mut() {
            piece.push(c);
        }
    }
    pieces
}

/// Returns the width of `text` in terminal columns.
pub(crate) fn columns(text: &str) -> usize {
    unicode_width::UnicodeWidthStr::width(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_replaced() {
        for hostile in [
            "\x1b[2J\x1b]0;title\x07",
            "\u{9b}31m",
            "a\rb\nc\td",
            "\u{202e}gnp.exe",
            "zero\u{200b}width",
            "\u{7f}\u{0}",
            "\x1bP+q\x1b\\",
            "\u{e0041}",
            "fill\u{3164}er \u{115f}\u{1160}\u{ffa0}\u{34f}\u{1d173}\u{e0100}",
        ] {
            let once = clean(hostile).into_owned();
            assert!(once.chars().all(is_harmless), "{hostile:?} gave {once:?}");
            assert_eq!(clean(&once), once, "cleaning again changes nothing");
        }
        assert_eq!(clean("\x1b[1m"), "␛[1m");
        assert!(matches!(clean("plain – ÄÖÜ 日本"), Cow::Borrowed(_)));
    }

    #[test]
    fn clean_json_has_the_same_value_and_is_harmless() {
        let value = serde_json::json!({ "a": "\u{9b}31m\u{202e}\u{e0041} plain ä\n" });
        let text = serde_json::to_string(&value).expect("JSON");
        let harmless = clean_json(&text);
        assert!(harmless.chars().all(is_harmless), "{harmless:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&harmless).expect("JSON"), value);
    }

    fn cleaned(bytes: &[u8]) -> String {
        Cleaner::new(Colours::Kept).clean(bytes)
    }

    #[test]
    fn job_output_is_harmless_however_it_is_cut() {
        let hostile =
            "one\r\ntwo\rthree\tx\x1b]52;c;aGk=\x07\u{9b}31m\u{202e}gnp 日本 ä\x1b[31;4\x1bP+q\x1b\\\n"
                .as_bytes();
        let whole = cleaned(hostile);
        assert_eq!(whole, "one\ntwo\nthree\tx␛]52;c;aGk=␇\u{fffd}31m\u{fffd}gnp 日本 ä␛[31;4␛P+q␛\\\n");
        assert_eq!(cleaned(whole.as_bytes()), whole, "cleaning again changes nothing");
        for size in 1..hostile.len() {
            let mut cleaner = Cleaner::new(Colours::Kept);
            let pieces: String = hostile.chunks(size).map(|piece| cleaner.clean(piece)).collect();
            assert_eq!(pieces, whole, "in pieces of {size}");
        }
        assert_eq!(cleaned(b"a\xff\x9b31m\xc3"), "a\u{fffd}\u{fffd}31m");
    }

    #[test]
    fn colours_end_with_their_line() {
        for (output, kept, dropped) in [
            ("\x1b[1;31mred\x1b[0m plain", "\x1b[1;31mred\x1b[0m plain", "red plain"),
            ("\x1b[31mred\nplain", "\x1b[31mred\x1b[0m\nplain", "red\nplain"),
            ("\x1b[31mred\rplain", "\x1b[31mred\x1b[0m\nplain", "red\nplain"),
            ("\x1b[31mred\x1b[4mline", "\x1b[31mred\x1b[0;31;4mline\x1b[0m", "redline"),
            ("\x1b[8mhidden\x1b[m", "hidden", "hidden"),
            ("\x1b[31m\x1b[2Jx\n", "\x1b[31m␛[2Jx\x1b[0m\n", "␛[2Jx\n"),
            ("\x1b[?31m\x1b[ 31m\x1b[31 m", "␛[?31m␛[ 31m␛[31 m", "␛[?31m␛[ 31m␛[31 m"),
            ("\r\x1b[0m\n", "\n", "\n"),
        ] {
            assert_eq!(cleaned(output.as_bytes()), kept, "{output:?}");
            assert_eq!(cleaned(kept.as_bytes()), kept, "cleaning again changes nothing");
            assert_eq!(Cleaner::new(Colours::Dropped).clean(output.as_bytes()), dropped, "{output:?}");
        }
        let long = format!("\x1b[{}m", "1;".repeat(SEQUENCE_CHARS_MAX));
        assert_eq!(cleaned(long.as_bytes()), clean(&long), "it is shown");
    }

    #[test]
    fn colours_are_interrupted_between_pieces() {
        let mut cleaner = Cleaner::new(Colours::Kept);
        assert_eq!(cleaner.clean(b"\x1b[31mre"), "\x1b[31mre\x1b[0m");
        assert_eq!(cleaner.clean(b"\x1b["), "");
        assert_eq!(cleaner.clean(b"4md\n"), "\x1b[31;4md\x1b[0m\n");
        assert_eq!(cleaner.clean(b"plain"), "plain");
    }

    #[test]
    fn clean_lines_keeps_line_breaks() {
        assert_eq!(clean_lines("one\r\ntwo\t2\n\x1b[31mthree"), "one\ntwo    2\n␛[31mthree");
    }

    #[test]
    fn long_text_is_cut_with_an_ellipsis() {
        for (text, width, cut_to) in [
            ("short", 10, "short"),
            ("exactly", 7, "exactly"),
            ("too long", 5, "too …"),
            ("日本語", 5, "日本…"),
            ("日本語", 4, "日…"),
            ("x", 0, ""),
        ] {
            assert_eq!(cut(text, width), cut_to, "{text} at {width}");
            assert!(columns(&cut(text, width)) <= width.max(columns(cut_to)));
        }
    }
}
