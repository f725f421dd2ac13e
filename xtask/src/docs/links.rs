//! Finds dead links: in the built book, where names of files and headings are final, and in the pages that
//! are read in the repository.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::program::Failure;

/// A built page: its links, and the anchors it has.
struct Page {
    links: Vec<String>,
    anchors: BTreeSet<String>,
}

/// Returns the dead links of a built book, each with its page.
pub(super) fn dead_in_book(book: &Path) -> Result<Vec<String>, Failure> {
    let mut pages = BTreeMap::new();
    for path in
        files_below(book)?.into_iter().filter(|path| path.extension().is_some_and(|end| end == "html"))
    {
        // The same pages again, for printing or for readers without scripts, with other anchors.
        if path.ends_with("toc.html") || path.ends_with("print.html") || path.ends_with("404.html") {
            continue;
        }
        let text = fs::read_to_string(&path)
            .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
        let anchors = values(&text, "id=\"", '"').map(str::to_owned).collect();
        let links =
            values(&text, "href=\"", '"').chain(values(&text, "src=\"", '"')).map(str::to_owned).collect();
        pages.insert(path, Page { links, anchors });
    }
    let mut dead = Vec::new();
    for (path, page) in &pages {
        for link in page.links.iter().filter(|link| !is_elsewhere(link)) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => path.clone(),
                _ => resolved(path.parent().unwrap_or(book), file),
            };
            let leads = match pages.get(&target) {
                Some(other) => anchor.is_empty() || other.anchors.contains(anchor),
                None => target.is_file() && target.starts_with(book),
            };
            if !leads {
                dead.push(format!("{}: {link}", path.strip_prefix(book).unwrap_or(path).display()));
            }
        }
    }
    Ok(dead)
}

/// Returns the links of a Markdown page whose file does not exist.
pub(super) fn dead_in_page(path: &Path, text: &str) -> Vec<String> {
    let folder = path.parent().unwrap_or(Path::new(""));
    values(text, "](", ')')
        .chain(values(text, "src=\"", '"'))
        .filter(|link| !is_elsewhere(link))
        .filter(|link| !folder.join(link.split('#').next().unwrap_or_default()).exists())
        .map(|link| format!("{}: {link}", path.display()))
        .collect()
}

fn is_elsewhere(link: &str) -> bool {
    link.contains("://") || link.starts_with("mailto:") || link.starts_with("data:") || link.is_empty()
}

/// Returns what stands between `open` and `close`, each time.
fn values<'a>(text: &'a str, open: &'a str, close: char) -> impl Iterator<Item = &'a str> {
    text.match_indices(open).filter_map(move |(at, _)| text[at + open.len()..].split(close).next())
}

/// Returns a path from a folder, without `..` in it.
fn resolved(folder: &Path, link: &str) -> PathBuf {
    let mut path = PathBuf::new();
    for part in folder.join(link).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            part => path.push(part),
        }
    }
    path
}

fn files_below(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", folder.display()));
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        match path.is_dir() {
            true => files.extend(files_below(&path)?),
            false => files.push(path),
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_nothing_is_found() {
        let text = "[a](../README.md) [b](nowhere.md#x) [c](https://example.org) <img src=\"no.svg\">";
        // Tests run in the folder of the crate.
        assert_eq!(
            dead_in_page(Path::new("src/page.md"), text),
            ["src/page.md: ../README.md", "src/page.md: nowhere.md#x", "src/page.md: no.svg"]
        );
        assert!(dead_in_page(Path::new("src/page.md"), "[a](../Cargo.toml)").is_empty());
    }

    #[test]
    fn in_a_book_headings_count_too() {
        let book = std::env::temp_dir().join(format!("lw-links-{}", std::process::id()));
        fs::create_dir_all(book.join("in")).unwrap();
        fs::write(book.join("a.html"), "<a href=\"in/b.html#here\"> <a href=\"#gone\"> <a href=\"c.html\">")
            .unwrap();
        fs::write(
            book.join("in/b.html"),
            "<h1 id=\"here\"> <a href=\"../a.html\"> <a href=\"../../outside\">",
        )
        .unwrap();
        let dead = dead_in_book(&book);
        fs::remove_dir_all(&book).unwrap();
        assert_eq!(dead.unwrap(), ["a.html: #gone", "a.html: c.html", "in/b.html: ../../outside"]);
    }
}
