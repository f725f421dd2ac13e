//! Lookups in JSON of unknown shape.

use serde_json::Value;

/// Returns the string at a path of keys.
pub(crate) fn text<'a>(value: &'a Value, path: &[&str]) -> Option<&'a str> {
    at(value, path)?.as_str()
}

/// Returns the number at a path of keys; `None` unless it is a non-negative integer.
pub(crate) fn number(value: &Value, path: &[&str]) -> Option<u64> {
    at(value, path)?.as_u64()
}

/// Returns the amount of dollars at a path of keys, in millionths.
pub(crate) fn micros(value: &Value, path: &[&str]) -> Option<u64> {
    let dollars = at(value, path)?.as_f64()?;
    // The cast saturates and turns NaN into zero.
    Some((dollars * 1e6).round() as u64)
}

/// Returns the items of the array at a path of keys; empty if there is none.
pub(crate) fn items<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    at(value, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the value at a path of keys.
pub(crate) fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, name| value.get(name))
}

/// Returns a string, or the concatenated `text` fields of an array.
pub(crate) fn joined(content: &Value) -> String {
    let texts = items(content, &[]).iter().filter_map(|block| text(block, &["text"]));
    content.as_str().into_iter().chain(texts).collect()
}

/// Returns the first line of a text, cut to fit a list.
pub(crate) fn line(text: &str) -> String {
    const CHARS_MAX: usize = 200;
    let first = text.trim().lines().next().unwrap_or_default();
    first.chars().take(CHARS_MAX).collect()
}

/// Returns the first line of a text without control characters, cut to fit a dialect's state.
pub(crate) fn brief(text: &str) -> String {
    const CHARS_MAX: usize = 120;
    line(text).chars().filter(|char| !char.is_control()).take(CHARS_MAX).collect()
}
