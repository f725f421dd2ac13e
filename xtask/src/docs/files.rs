//! The list of every file at the end of ARCHITECTURE.md: the first sentence of each, by folder.

use std::fs;

use crate::program::{Failure, output};

const PAGE: &str = "ARCHITECTURE.md";

/// The heading of the list, which goes on to the end of the page.
const HEADING: &str = "\n## Every file\n";

const INTRODUCTION: &str = "\nThe first sentence of each file, written by `cargo xtask docs --write`.\n";

/// Returns what is wrong with the list; with `write`, writes it.
pub(super) fn check(write: bool) -> Result<Vec<String>, Failure> {
    let failed = |path: &str| {
        let path = path.to_owned();
        move |error: std::io::Error| Failure::new(format!("{path}: {error}"))
    };
    let page = fs::read_to_string(PAGE).map_err(failed(PAGE))?;
    let paths = output("git", &["ls-files", "crates/*/src/*.rs", "xtask/src/*.rs"])?;
    let mut files = Vec::new();
    for path in paths.lines().filter(|path| fs::exists(path).is_ok_and(|is| is)) {
        files.push((path, fs::read_to_string(path).map_err(failed(path))?));
    }
    files.sort_by_key(|(path, _)| path.rsplit_once('/'));
    let new = with_list(&page, &files);
    match (new == page, write) {
        (true, _) => Ok(Vec::new()),
        (false, true) => fs::write(PAGE, new).map(|()| Vec::new()).map_err(failed(PAGE)),
        (false, false) => Ok(vec![format!("{PAGE}: its list of files is old: cargo xtask docs --write")]),
    }
}

fn with_list(page: &str, files: &[(&str, String)]) -> String {
    let rest = page.split(HEADING).next().unwrap_or(page).trim_end();
    let mut list = format!("{rest}\n{HEADING}{INTRODUCTION}");
    let mut last = "";
    for (path, text) in files {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        if folder != last {
            list.push_str(&format!("\n`{folder}`\n\n"));
            last = folder;
        }
        list.push_str(&format!("- `{name}`: {}\n", first_sentence(text)));
    }
    list
}

/// Returns the first sentence of a file's documentation, on one line and without links.
fn first_sentence(text: &str) -> String {
    let lines = text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
    let paragraph: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
    let paragraph = paragraph.join(" ").replace("[`", "`").replace("`]", "`");
    let end = paragraph.find(". ").map_or(paragraph.len(), |at| at + 1);
    paragraph[..end].trim_end_matches(['.', ':']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_the_first_sentence_of_each_file_by_folder() {
        let files = [
            ("a/src/lib.rs", "//! A room of\n//! [`one`] idea. And more.\n\nmod x;\n".to_owned()),
            ("a/src/x.rs", "//! The idea\n//!\n//! In detail.\n".to_owned()),
            ("a/src/x/y.rs", "//! Parts:\n//! - b\n".to_owned()),
        ];
        let list = "\n`a/src`\n\n- `lib.rs`: A room of `one` idea\n- `x.rs`: The idea\n\n`a/src/x`\n\n- `y.rs`: Parts: - b\n";
        let page = with_list("# Map\n\nText.\n", &files);
        assert_eq!(page, format!("# Map\n\nText.\n{HEADING}{INTRODUCTION}{list}"));
        assert_eq!(with_list(&page, &files), page);
    }
}
