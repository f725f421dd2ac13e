//! Changes to files that an agent asks for, shown as diffs against the files as they are at that moment.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lastword_core::question::{Ask, Change, Edit, REQUEST_BYTES_MAX};
use rustix::fs::{Mode, OFlags, open};
use similar::TextDiff;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Bytes of the largest file that is read.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The longest that reading and comparing may take. The question is asked without a diff then.
const TIME_MAX: Duration = Duration::from_secs(2);

/// Lines shown around a change.
const CONTEXT_LINES: usize = 3;

/// Shows in `ask` what the changes do to the files. Where that is not possible, it keeps its description of them and says why.
pub(super) async fn show(cwd: &Path, ask: &mut Ask, edits: Vec<Edit>) {
    if edits.is_empty() {
        return;
    }
    // What stands behind the description of the changes is kept.
    let described = edits.iter().map(Edit::describe).collect::<Vec<_>>().join("\n");
    let more = ask.request.strip_prefix(&described).unwrap_or_default().to_owned();
    let cwd = cwd.to_owned();
    let compared =
        spawn_blocking(move || edits.iter().map(|edit| diff(&cwd, edit)).collect::<Result<_, _>>());
    let shown: Result<Vec<String>, String> = match timeout(TIME_MAX, compared).await {
        Ok(Ok(shown)) => shown,
        _ => Err("the file could not be read in time".to_owned()),
    };
    match shown.map(|diffs| diffs.join("\n") + &more) {
        Ok(diff) if diff.len() <= REQUEST_BYTES_MAX => ask.request = diff,
        Ok(_) => ask.lacks = "a diff: it would be larger than 256 KiB".to_owned(),
        Err(why) => ask.lacks = format!("a diff: {why}"),
    }
}

/// Returns the change of one file as a unified diff.
fn diff(cwd: &Path, edit: &Edit) -> Result<String, String> {
    let path = cwd.join(&edit.path);
    let before = read(&path)?;
    let is_new = before.is_none() && matches!(edit.change, Change::Write(_));
    let before = before.unwrap_or_default();
    let after =
        edit.apply(&before).ok_or("the text that is to be replaced is not in the file, or not just once")?;
    if before == after && !is_new {
        return Ok(format!("{}: nothing would change\n", edit.path));
    }
    let old = if is_new { "/dev/null" } else { edit.path.as_str() };
    if after.is_empty() && is_new {
        return Ok(format!("{}: a new file without content\n", edit.path));
    }
    let link = std::fs::read_link(&path).map(|to| format!("{} is a link to {}\n", edit.path, to.display()));
    let compared = TextDiff::configure().timeout(TIME_MAX / 2).diff_lines(&before, &after);
    let diff = compared.unified_diff().context_radius(CONTEXT_LINES).header(old, &edit.path).to_string();
    Ok(link.unwrap_or_default() + &diff)
}

/// Returns the text of a file; `None` if there is none.
fn read(path: &PathBuf) -> Result<Option<String>, String> {
    // Without waiting for the other end of a pipe.
    let opened = open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty());
    let file = match opened {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(error) => return Err(format!("the file cannot be read: {error}")),
    };
    let known = file.metadata().map_err(|error| format!("the file cannot be read: {error}"))?;
    if !known.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let mut bytes = Vec::new();
    let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
    match (read, String::from_utf8(bytes)) {
        (Err(error), _) => Err(format!("the file cannot be read: {error}")),
        (Ok(read), _) if read as u64 > FILE_BYTES_MAX => Err("the file is larger than 4 MiB".to_owned()),
        (Ok(_), Err(_)) => Err("the file is not text".to_owned()),
        (Ok(_), Ok(text)) => Ok(Some(text)),
    }
}

#[cfg(test)]
mod tests {
    use lastword_core::question::Replacement;

    use super::*;

    fn write(path: &str, text: &str) -> Edit {
        Edit { path: path.to_owned(), change: Change::Write(text.to_owned()) }
    }

    fn replace(path: &str, before: &str, after: &str) -> Edit {
        let one = Replacement { before: before.to_owned(), after: after.to_owned(), everywhere: false };
        Edit { path: path.to_owned(), change: Change::Replace(vec![one]) }
    }

    #[tokio::test]
    async fn c89_a_change_is_shown_against_the_file_as_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let cwd = folder.path();
        std::fs::write(cwd.join("a"), "one\ntwo\nthree\n").expect("written");
        std::fs::write(cwd.join("bytes"), [0xff, 0xfe]).expect("written");
        rustix::fs::mkfifoat(rustix::fs::CWD, cwd.join("pipe"), Mode::RUSR).expect("made");
        let shown = async |edit: Edit| {
            let mut ask = Ask::permission("Edit", &edit.describe());
            show(cwd, &mut ask, vec![edit]).await;
            (ask.request, ask.lacks)
        };
        let diff = "--- a\n+++ a\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n";
        assert_eq!(shown(replace("a", "two", "TWO")).await, (diff.to_owned(), String::new()));
        let (request, _) = shown(write(&cwd.join("a").to_string_lossy(), "gone\n")).await;
        assert!(request.contains("-one\n-two\n-three\n+gone\n"), "{request}");
        let (request, _) = shown(write("new", "x\n")).await;
        assert_eq!(request, "--- /dev/null\n+++ new\n@@ -0,0 +1 @@\n+x\n");
        assert_eq!(shown(write("a", "one\ntwo\nthree\n")).await.0, "a: nothing would change\n");
        assert_eq!(shown(write("new", "")).await.0, "new: a new file without content\n");
        std::os::unix::fs::symlink("a", cwd.join("link")).expect("made");
        let (request, _) = shown(write("link", "x\n")).await;
        assert!(request.starts_with("link is a link to a\n--- link\n"), "{request}");
        for (edit, why) in [
            (replace("a", "four", "4"), "not in the file"),
            (replace("missing", "x", "y"), "not in the file"),
            (write("bytes", "x"), "not text"),
            (write("pipe", "x"), "not a regular file"),
            (write(".", "x"), "not a regular file"),
            (write("new", &"x\n".repeat(REQUEST_BYTES_MAX)), "larger than 256 KiB"),
        ] {
            let described = edit.describe();
            let (request, lacks) = shown(edit).await;
            assert_eq!(request, described, "{why}");
            assert!(lacks.starts_with("a diff: ") && lacks.contains(why), "{lacks}");
        }
    }
}
