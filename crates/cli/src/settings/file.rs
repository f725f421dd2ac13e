//! The file of settings: read strictly, and written without touching what a person wrote around a value.

use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use toml_edit::{Document, DocumentMut, Item, TableLike, Value as Toml};

use super::Bad;
use super::key::{Key, Value};

/// A value as it stands in a file.
pub(super) struct Found {
    pub(super) name: String,
    pub(super) value: String,
    pub(super) line: usize,
}

/// Reads every value of a file; none if it is not there.
pub(super) fn read(path: &Path) -> Result<Vec<Found>, Bad> {
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
            Some(Toml::String(words)) => words.value().clone(),
            Some(other) => other.to_string().trim().to_owned(),
            None => item.to_string().trim().to_owned(),
        };
        let line = item.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
        found.push(Found { name: full, value, line });
    }
}

/// Returns one value as it stands in the file.
#[cfg(test)]
pub(super) fn read_value(path: &Path, key: &Key) -> Result<Option<String>, Bad> {
    Ok(read(path)?.into_iter().find(|found| found.name == key.name).map(|found| found.value))
}

/// Sets one value and keeps the rest of the file as it is.
pub(crate) fn write_value(path: &Path, key: &Key, value: Value) -> Result<(), Bad> {
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
            entry
                .as_table_like_mut()
                .ok_or_else(|| Bad::NotToml(format!("{}: `{table}` is not a table", path.display())))?
        }
        None => root,
    };
    match place.get_mut(name) {
        // The comment behind a value belongs to the person who wrote it.
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

/// Replaces the file as a whole, so that nobody reads half of it.
fn write(path: &Path, text: &str) -> Result<(), Bad> {
    let failed = |error: std::io::Error| Bad::File { path: path.to_owned(), error: error.to_string() };
    if let Some(folder) = path.parent() {
        // It may be the folder of everything else, which is private.
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
    }
    let draft = path.with_extension(format!("toml.{}", std::process::id()));
    std::fs::write(&draft, text).map_err(failed)?;
    std::fs::rename(&draft, path).map_err(failed)
}

fn text_of(path: &Path) -> Result<Option<String>, Bad> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Bad::File { path: path.to_owned(), error: error.to_string() }),
    }
}

fn not_toml(path: &Path, error: &toml_edit::TomlError) -> Bad {
    Bad::NotToml(format!("{}: {}", path.display(), error.to_string().trim_end()))
}
