//! Finds an anchor, the code that a bug replaces.
//!
//! Comment lines, white space and the comma that rustfmt puts before a closing bracket are ignored, so formatting and comments do not break
//! an anchor.

use std::ops::Range;

/// Returns the byte range of every match of `anchor` in `text`.
pub(crate) fn find(text: &str, anchor: &str) -> Vec<Range<usize>> {
    let (code, wanted) = (code(text), code(anchor));
    let Some(last) = wanted.len().checked_sub(1) else { return Vec::new() };
    let matches = |window: &&[(usize, char)]| window.iter().zip(&wanted).all(|(one, other)| one.1 == other.1);
    let place = |window: &[(usize, char)]| window[0].0..window[last].0 + window[last].1.len_utf8();
    code.windows(wanted.len()).filter(matches).map(place).filter(|place| is_whole(text, place)).collect()
}

/// Returns the characters that are compared, with their offsets.
fn code(text: &str) -> Vec<(usize, char)> {
    let mut code: Vec<(usize, char)> = Vec::with_capacity(text.len());
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if !line.trim_start().starts_with("//") {
            for (offset, char) in line.char_indices().filter(|(_, char)| !char.is_whitespace()) {
                if matches!(char, ')' | ']' | '}') && code.last().is_some_and(|(_, last)| *last == ',') {
                    code.pop();
                }
                code.push((at + offset, char));
            }
        }
        at += line.len();
    }
    code
}

/// Reports whether a match begins and ends at the border of a word.
fn is_whole(text: &str, place: &Range<usize>) -> bool {
    let is_word = |char: Option<char>| char.is_some_and(|char| char.is_alphanumeric() || char == '_');
    let inside = &text[place.clone()];
    let begins = !is_word(inside.chars().next()) || !is_word(text[..place.start].chars().next_back());
    let ends = !is_word(inside.chars().next_back()) || !is_word(text[place.end..].chars().next());
    begins && ends
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found<'a>(text: &'a str, anchor: &str) -> Vec<&'a str> {
        find(text, anchor).into_iter().map(|place| &text[place]).collect()
    }

    #[test]
    fn format_and_comments_do_not_count() {
        let anchor = "call(one, two)?;";
        for text in [
            "call(one, two)?;",
            "call(\n        one,\n        two,\n    )?;",
            "call(one,\n    // Why.\n    two)?;",
        ] {
            assert_eq!(found(&format!("{{\n    {text}\n}}"), anchor), [text]);
        }
        assert_eq!(found("// call(one, two)?;\n", anchor), Vec::<&str>::new());
    }

    #[test]
    fn every_place_is_told_and_only_whole_words_are() {
        assert_eq!(found("if a { if a {", "if a {").len(), 2);
        assert_eq!(found("elif ab {", "if a"), Vec::<&str>::new());
        assert_eq!(found("x", ""), Vec::<&str>::new());
        assert_eq!(found("é(ü)", "(ü)"), ["(ü)"]);
    }
}
