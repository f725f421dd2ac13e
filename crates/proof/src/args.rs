//! Flags of the proof's verbs: `--name value`, and `--name` alone. Few and for ourselves, so without a library.

use std::str::FromStr;

/// The words after a verb.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a>(&'a [String]);

impl<'a> Args<'a> {
    /// Takes the words.
    pub fn new(words: &'a [String]) -> Args<'a> {
        Args(words)
    }

    /// Returns the text after `--name`.
    pub fn text(&self, name: &str) -> Option<&'a str> {
        let at = self.0.iter().position(|word| word == name)?;
        self.0.get(at + 1).map(String::as_str)
    }

    /// Returns the value after `--name`, or `default` if the flag is not there.
    pub fn value<T: FromStr>(&self, name: &str, default: T) -> Result<T, String> {
        match self.text(name) {
            None => Ok(default),
            Some(text) => text.parse().map_err(|_| format!("{name} {text}: not a value")),
        }
    }

    /// Reports whether `--name` is there.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|word| word == name)
    }
}
