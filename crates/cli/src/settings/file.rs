//! The settings file: parsed strictly, and edited without touching comments or formatting.

use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use toml_edit::{Document, DocumentMut, Item, TableLike, Value as Toml};

use super::error::SettingsError;
use super::key::{Key, Value};

/// A value found in the file.
pub(super) struct Found {
    pub(super) name: String,
    pub(super) value: String,
    pub(super) line: usize,
}

/// Reads all values; none if the file does not exist.
pub(super) fn read(path: &Path) -> Result<Vec<Found>, SettingsError> {
    let Some(text) = text_of(path)? else { return Ok(Vec::new()) };
    let document = Document::parse(text.as_str()).map_err(|error| not_toml(path, &error))?;
    let mut found = Vec::new();
    collect(document.as_table(), "", &text, &mut found);
    Ok(found)
}

fn collect(table: &dyn TableLike, prefix: &str, text: &str, found: &mut Vec<Found>) {
    for (name, item) in table.iter() {
        let full = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
        if let Some(table) = item.as_table_like() {
            collect(table, &full, text, found);
            continue;
        }
        let value = match item.as_value() {
            Some(Toml::String(text)) => text.value().clone(),
            Some(other) => other.to_string().trim().to_owned(),
            None => item.to_string().trim().to_owned(),
        };
        let line = item.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
        found.push(Found { name: full, value, line });
    }
}

/// Reads a single value.
#[cfg(test)]
pub(super) fn read_value(path: &Path, key: &Key) -> Result<Option<String>, SettingsError> {
    Ok(read(path)?.into_iter().find(|found| found.name == key.name).map(|found| found.value))
}

/// Sets one value and leaves the rest of the file unchanged.
pub(crate) fn write_value(path: &Path, key: &Key, value: Value) -> Result<(), SettingsError> {
    let text = text_of(path)?.unwrap_or_default();
    let mut document: DocumentMut = text.parse().map_err(|error| not_toml(path, &error))?;
    let (table, name) = match key.name.split_once('.') {
        Some((table, name)) => (Some(table), name),
        None => (None, key.name),
    };
    let new = match value {
        Value::Count(count) => toml_edit::value(i64::from(count)),
        other => toml_edit::value(other.to_string()),
    };
    let root = document.as_table_mut();
    let place: &mut dyn TableLike = match table {
        Some(table) => {
            let entry = root.entry(table).or_insert_with(toml_edit::table);
            entry.as_table_like_mut().ok_or_else(|| {
                SettingsError::NotToml(format!("{}: `{table}` is not a table", path.display()))
            })?
        }
        None => root,
    };
    match place.get_mut(name) {
        // Keep the comment after the value.
        Some(Item::Value(old)) => {
            let decor = old.decor().clone();
            if let Item::Value(mut new) = new {
                *new.decor_mut() = decor;
                *old = new;
            }
        }
        _ => drop(place.insert(name, new)),
    }
    write(path, &document.to_string())
}

/// Replaces the file atomically.
fn write(path: &Path, text: &str) -> Result<(), SettingsError> {
    let failed =
        |error: std::io::Error| SettingsError::File { path: path.to_owned(), error: error.to_string() };
    if let Some(folder) = path.parent() {
        // May create the state folder, which must be private.
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
    }
    let draft = path.with_extension(format!("toml.{}", std::process::id()));
    std::fs::write(&draft, text).map_err(failed)?;
    std::fs::rename(&draft, path).map_err(failed)
}

fn text_of(path: &Path) -> Result<Option<String>, SettingsError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(SettingsError::File { path: path.to_owned(), error: error.to_string() }),
    }
}

fn not_toml(path: &Path, error: &toml_edit::TomlError) -> SettingsError {
    SettingsError::NotToml(format!("{}: {}", path.display(), error.to_string().trim_end()))
}
