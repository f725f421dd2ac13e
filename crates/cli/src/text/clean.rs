//! What others wrote, made harmless for a terminal: names, titles, command lines and errors are never printed raw.
//!
//! The law: what comes out has no control character, and cleaning it again changes nothing.

use std::borrow::Cow;

/// Returns `text` on one line, with every character that could steer a terminal, reorder a line or hide in it made visible.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_harmless) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|c| if is_harmless(c) { c } else { stand_in(c) }).collect())
}

/// Returns `text` like [`clean`], but keeps its lines, and tabs as spaces.
pub(crate) fn clean_lines(text: &str) -> String {
    let lines: Vec<String> =
        text.lines().map(|line| clean(&line.replace('\t', "    ")).into_owned()).collect();
    lines.join("\n")
}

/// Returns JSON in which such characters are escaped. They stand in strings only, so what it says stays the same.
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

/// Cleans what a job writes, as it comes: lines and tabs stay, a return of the carriage begins a line, and everything else is as
/// with [`clean`]. Pieces may be cut anywhere.
#[derive(Debug, Default)]
pub(crate) struct Cleaner {
    /// The beginning of a character whose end has not come.
    begun: Vec<u8>,
    after_return: bool,
}

impl Cleaner {
    /// Returns a piece, made harmless.
    pub(crate) fn clean(&mut self, bytes: &[u8]) -> String {
        let bytes = [std::mem::take(&mut self.begun).as_slice(), bytes].concat();
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
                self.begun = after.to_vec();
                break;
            };
            if invalid > 0 {
                self.push(char::REPLACEMENT_CHARACTER, &mut text);
            }
            rest = &after[invalid..];
        }
        text
    }

    fn push(&mut self, c: char, text: &mut String) {
        match c {
            '\n' if self.after_return => {}
            '\r' => text.push('\n'),
            '\n' | '\t' => text.push(c),
            _ if is_harmless(c) => text.push(c),
            _ => text.push(stand_in(c)),
        }
        self.after_return = c == '\r';
    }
}

fn is_harmless(c: char) -> bool {
    match c {
        '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' => false,
        // Soft hyphen, and what joins, separates or marks without being seen.
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' => false,
        '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' => false,
        // Tags: a second alphabet that no terminal shows.
        '\u{e0000}'..='\u{e007f}' => false,
        _ => true,
    }
}

/// Returns the picture of a control character, or the mark for what has none.
fn stand_in(c: char) -> char {
    match c {
        '\u{0}'..='\u{1f}' => char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}'),
        '\u{7f}' => '\u{2421}',
        _ => '\u{fffd}',
    }
}

/// Returns at most `width` columns of `text`, with `…` where it was cut.
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

/// Returns how many columns a terminal gives to `text`.
pub(crate) fn columns(text: &str) -> usize {
    unicode_width::UnicodeWidthStr::width(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_steers_a_terminal_is_left() {
        for hostile in [
            "\x1b[2J\x1b]0;title\x07",
            "\u{9b}31m",
            "a\rb\nc\td",
            "\u{202e}gnp.exe",
            "zero\u{200b}width",
            "\u{7f}\u{0}",
            "\x1bP+q\x1b\\",
            "\u{e0041}",
        ] {
            let once = clean(hostile).into_owned();
            assert!(once.chars().all(is_harmless), "{hostile:?} gave {once:?}");
            assert_eq!(clean(&once), once, "cleaning again changes nothing");
        }
        assert_eq!(clean("\x1b[1m"), "␛[1m");
        assert!(matches!(clean("plain – ÄÖÜ 日本"), Cow::Borrowed(_)));
    }

    #[test]
    fn json_says_the_same_and_is_harmless() {
        let value = serde_json::json!({ "a": "\u{9b}31m\u{202e}\u{e0041} plain ä\n" });
        let text = serde_json::to_string(&value).expect("JSON");
        let harmless = clean_json(&text);
        assert!(harmless.chars().all(is_harmless), "{harmless:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&harmless).expect("JSON"), value);
    }

    #[test]
    fn what_a_job_writes_is_harmless_however_it_is_cut() {
        let hostile =
            "one\r\ntwo\rthree\tx\x1b]52;c;aGk=\x07\u{9b}31m\u{202e}gnp 日本 ä\x1bP+q\x1b\\\n".as_bytes();
        let whole = Cleaner::default().clean(hostile);
        assert_eq!(whole, "one\ntwo\nthree\tx␛]52;c;aGk=␇\u{fffd}31m\u{fffd}gnp 日本 ä␛P+q␛\\\n");
        assert_eq!(Cleaner::default().clean(whole.as_bytes()), whole, "cleaning again changes nothing");
        for size in 1..hostile.len() {
            let mut cleaner = Cleaner::default();
            let pieces: String = hostile.chunks(size).map(|piece| cleaner.clean(piece)).collect();
            assert_eq!(pieces, whole, "in pieces of {size}");
        }
        assert_eq!(Cleaner::default().clean(b"a\xff\x9b31m\xc3"), "a\u{fffd}\u{fffd}31m");
    }

    #[test]
    fn lines_stay_lines() {
        assert_eq!(clean_lines("one\r\ntwo\t2\n\x1b[31mthree"), "one\ntwo    2\n␛[31mthree");
    }

    #[test]
    fn what_is_too_long_is_cut_with_a_mark() {
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
