//! Words of records and of the control socket: `word key=value key=value`.
//!
//! One line, one fact. Values are bytes; whatever would break a line is written as `%XX`. Written by hand because the
//! keeper links nothing that a JSON library would bring, and because an old keeper must be understood by a newer
//! daemon for as long as its job runs: unknown words and keys are skipped by whoever reads.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;

/// A line, as it is built or was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    word: String,
    pairs: Vec<(String, Vec<u8>)>,
}

impl Line {
    /// Begins a line.
    pub fn new(word: &str) -> Line {
        Line { word: word.to_owned(), pairs: Vec::new() }
    }

    /// Adds a pair.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl ToString) -> Line {
        self.pairs.push((key.to_owned(), value.to_string().into_bytes()));
        self
    }

    /// Adds a pair, if there is a value.
    #[must_use]
    pub fn with_some(self, key: &str, value: Option<impl ToString>) -> Line {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// Adds a pair of bytes that need not be text.
    #[must_use]
    pub fn with_bytes(mut self, key: &str, value: impl AsRef<std::ffi::OsStr>) -> Line {
        self.pairs.push((key.to_owned(), value.as_ref().as_bytes().to_vec()));
        self
    }

    /// Adds a pair of bytes, if there are any.
    #[must_use]
    pub fn with_bytes_some(self, key: &str, value: Option<impl AsRef<std::ffi::OsStr>>) -> Line {
        match value {
            Some(value) => self.with_bytes(key, value),
            None => self,
        }
    }

    /// Returns what the line is about.
    pub fn word(&self) -> &str {
        &self.word
    }

    /// Returns the bytes under a key.
    pub fn bytes(&self, key: &str) -> Option<&[u8]> {
        self.pairs.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_slice())
    }

    /// Returns the text under a key.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.bytes(key).and_then(|value| std::str::from_utf8(value).ok())
    }

    /// Returns the value under a key, if it can be read as one.
    pub fn get<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        self.text(key).and_then(|text| text.parse().ok())
    }

    /// Reads a line without its end. A line that is not one gives `None`.
    pub fn parse(line: &str) -> Option<Line> {
        let mut words = line.split(' ');
        let word = words.next().filter(|word| !word.is_empty())?;
        let mut read = Line::new(word);
        for pair in words {
            let (key, value) = pair.split_once('=')?;
            read.pairs.push((key.to_owned(), unescape(value)?));
        }
        Some(read)
    }
}

impl std::fmt::Display for Line {
    /// Writes the line with its end.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.word)?;
        for (key, value) in &self.pairs {
            write!(f, " {key}=")?;
            for byte in value {
                match byte {
                    b'%' | b'=' | 0..=b' ' | 0x7f.. => write!(f, "%{byte:02X}")?,
                    _ => f.write_char(char::from(*byte))?,
                }
            }
        }
        f.write_char('\n')
    }
}

fn unescape(value: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = match first {
            b'%' => {
                let (digits, after) = tail.split_at_checked(2)?;
                bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
                after
            }
            _ => {
                bytes.push(*first);
                tail
            }
        };
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let every_byte: Vec<u8> = (0..=255).collect();
        let line = Line::new("leader")
            .with("pid", 7)
            .with_some("none", None::<u8>)
            .with_bytes("odd", std::ffi::OsStr::from_bytes(&every_byte));
        let text = line.to_string();
        assert_eq!(text.matches('\n').count(), 1);
        assert_eq!(Line::parse(text.trim_end_matches('\n')), Some(line));
    }

    #[test]
    fn what_is_not_a_line_is_refused() {
        for text in ["", " pid=7", "leader pid", "leader pid=%4", "leader pid=%zz", "leader  pid=7"] {
            assert_eq!(Line::parse(text), None, "{text:?}");
        }
    }
}
