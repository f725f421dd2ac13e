//! Flags of the trials: `--name value`, and `--name` alone.

use std::str::FromStr;

/// The arguments of a verb. Unknown ones are refused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Args<'a>(&'a [&'a str]);

impl<'a> Args<'a> {
    /// Parses arguments. Each must be a flag of `with_value` followed by its value, or a flag of `alone`.
    pub(crate) fn new(words: &'a [&'a str], with_value: &[&str], alone: &[&str]) -> Result<Args<'a>, String> {
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            if with_value.contains(word) {
                rest.next().ok_or_else(|| format!("{word} needs a value"))?;
            } else if !alone.contains(word) {
                return Err(format!("what is `{word}`? Known: {} {}", with_value.join(" "), alone.join(" ")));
            }
        }
        Ok(Args(words))
    }

    /// Returns the text after `--name`.
    pub(crate) fn text(&self, name: &str) -> Option<&'a str> {
        let at = self.0.iter().position(|word| *word == name)?;
        self.0.get(at + 1).copied()
    }

    /// Returns the value after `--name`, or `default` if the flag is absent.
    pub(crate) fn value<T: FromStr>(&self, name: &str, default: T) -> Result<T, String> {
        match self.text(name) {
            None => Ok(default),
            Some(text) => text.parse().map_err(|_| format!("{name} {text}: not a value")),
        }
    }

    /// Reports whether `--name` is present.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains(&name)
    }
}
