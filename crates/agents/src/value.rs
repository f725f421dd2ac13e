//! Looking into JSON that may be anything: a path is there, or it is not.

use serde_json::Value;

use crate::seeded::{self, Bug};

/// Returns the text at a path of names.
pub(crate) fn text<'a>(value: &'a Value, path: &[&str]) -> Option<&'a str> {
    at(value, path)?.as_str()
}

/// Returns the number at a path of names; what is no whole number is none.
pub(crate) fn number(value: &Value, path: &[&str]) -> Option<u64> {
    at(value, path)?.as_u64()
}

/// Returns an amount of dollars at a path of names, in millionths.
pub(crate) fn micros(value: &Value, path: &[&str]) -> Option<u64> {
    let dollars = at(value, path)?.as_f64()?;
    // The cast saturates, and makes nothing of what is no number.
    Some((dollars * 1e6).round() as u64)
}

/// Returns the items at a path of names; none, if there is no list.
pub(crate) fn items<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    at(value, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns what is at a path of names.
pub(crate) fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, name| value.get(name))
}

/// Returns the first line of a text, short enough for a list.
pub(crate) fn line(text: &str) -> String {
    /// Characters that are kept.
    const CHARS_MAX: usize = 200;
    let first = text.trim().lines().next().unwrap_or_default();
    if seeded::on(Bug::CutInMidCharacter) {
        return first[..first.len().min(CHARS_MAX)].to_owned();
    }
    first.chars().take(CHARS_MAX).collect()
}

/// Returns the first line of a text, short enough to be kept in a state.
pub(crate) fn brief(text: &str) -> String {
    /// Characters that are kept.
    const CHARS_MAX: usize = 120;
    line(text).chars().filter(|char| !char.is_control()).take(CHARS_MAX).collect()
}
