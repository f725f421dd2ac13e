//! The line format of records and of the control socket: `kind key=value key=value`.
//!
//! Values are bytes; a byte that would break the line is written as `%XX`. Not JSON, because the keeper links no JSON library. A newer
//! daemon must understand an old keeper for as long as its job runs, so readers skip unknown kinds and keys.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;

/// A line to be written, or one that was parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    kind: String,
    fields: Vec<(String, Vec<u8>)>,
}

impl Line {
    /// Starts a line.
    pub fn new(kind: &str) -> Line {
        Line { kind: kind.to_owned(), fields: Vec::new() }
    }

    /// Adds a field.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl ToString) -> Line {
        self.fields.push((key.to_owned(), value.to_string().into_bytes()));
        self
    }

    /// Adds a field if there is a value.
    #[must_use]
    pub fn with_some(self, key: &str, value: Option<impl ToString>) -> Line {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// Adds a field whose value need not be UTF-8.
    #[must_use]
    pub fn with_bytes(mut self, key: &str, value: impl AsRef<std::ffi::OsStr>) -> Line {
        self.fields.push((key.to_owned(), value.as_ref().as_bytes().to_vec()));
        self
    }

    /// Adds a field of bytes if there is a value.
    #[must_use]
    pub fn with_bytes_some(self, key: &str, value: Option<impl AsRef<std::ffi::OsStr>>) -> Line {
        match value {
            Some(value) => self.with_bytes(key, value),
            None => self,
        }
    }

    /// Returns the kind of the line: its first word.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns the value of a field as bytes.
    pub fn bytes(&self, key: &str) -> Option<&[u8]> {
        self.fields.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_slice())
    }

    /// Returns the value of a field as text.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.bytes(key).and_then(|value| std::str::from_utf8(value).ok())
    }

    /// Parses the value of a field.
    pub fn get<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        self.text(key).and_then(|text| text.parse().ok())
    }

    /// Parses a line without its line feed; `None` if it is malformed.
    pub fn parse(line: &str) -> Option<Line> {
        let mut parts = line.split(' ');
        let kind = parts.next().filter(|kind| !kind.is_empty())?;
        let mut parsed = Line::new(kind);
        for field in parts {
            let (key, value) = field.split_once('=')?;
            parsed.fields.push((key.to_owned(), unescape(value)?));
        }
        Some(parsed)
    }
}

impl std::fmt::Display for Line {
    /// Writes the line with its line feed.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.kind)?;
        for (key, value) in &self.fields {
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
    fn a_line_round_trips() {
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
    fn malformed_lines_are_rejected() {
        for text in ["", " pid=7", "leader pid", "leader pid=%4", "leader pid=%zz", "leader  pid=7"] {
            assert_eq!(Line::parse(text), None, "{text:?}");
        }
    }
}
