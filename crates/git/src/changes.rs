//! The file-by-file difference between two trees, parsed from git's output.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

/// The mode of a submodule or nested repository.
const GITLINK: &[u8] = b"160000";

/// A changed file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    /// Its path relative to the top folder; for a deleted file, its former path.
    pub path: PathBuf,
    /// The former path of a renamed file.
    pub from: Option<PathBuf>,
    /// How it changed.
    pub kind: Kind,
    /// Lines added; `None` for binary files.
    pub added: Option<u64>,
    /// Lines deleted; `None` for binary files.
    pub deleted: Option<u64>,
    /// Whether it is a nested repository, of which git knows only the commit.
    pub is_repository: bool,
}

/// How a file changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// New.
    Added,
    /// Deleted.
    Deleted,
    /// Other contents or permissions.
    Modified,
    /// Another path.
    Renamed,
    /// Another file type, such as a symbolic link.
    Retyped,
}

impl Kind {
    /// Returns the name of this kind, as it appears in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Added => "added",
            Kind::Deleted => "deleted",
            Kind::Modified => "modified",
            Kind::Renamed => "renamed",
            Kind::Retyped => "retyped",
        }
    }

    fn of(letter: u8) -> Option<Kind> {
        match letter {
            b'A' => Some(Kind::Added),
            b'D' => Some(Kind::Deleted),
            b'M' => Some(Kind::Modified),
            b'R' => Some(Kind::Renamed),
            b'T' => Some(Kind::Retyped),
            _ => None,
        }
    }
}

/// Parses the output of `git diff --raw --numstat -z`; `None` if it is anything else.
///
/// ```text
/// :100644 100644 0000 1111 M␀path␀          :100644 100644 0000 1111 R090␀from␀to␀
/// 3\t1\tpath␀                                3\t1\t␀from␀to␀
/// ```
pub(crate) fn parse(output: &[u8]) -> Option<Vec<FileChange>> {
    let mut parts = output.split(|byte| *byte == 0).peekable();
    let mut files = Vec::new();
    let mut next = parts.next();
    while let Some(raw) = next.and_then(|part| part.strip_prefix(b":")) {
        let mut fields = raw.split(|byte| *byte == b' ');
        let (old, new) = (fields.next()?, fields.next()?);
        let kind = Kind::of(*fields.nth(2)?.first()?)?;
        let first = path(parts.next()?);
        let (path, from) = match kind {
            Kind::Renamed => (path(parts.next()?), Some(first)),
            _ => (first, None),
        };
        let is_repository = old == GITLINK || new == GITLINK;
        files.push(FileChange { path, from, kind, added: None, deleted: None, is_repository });
        next = parts.next();
    }
    for file in &mut files {
        let mut fields = next?.splitn(3, |byte| *byte == b'\t');
        (file.added, file.deleted) = (count(fields.next()?)?, count(fields.next()?)?);
        let named = match fields.next()? {
            b"" => (Some(path(parts.next()?)), path(parts.next()?)),
            one => (None, path(one)),
        };
        if named != (file.from.clone(), file.path.clone()) {
            return None;
        }
        next = parts.next();
    }
    // Only the empty part after the last NUL may be left.
    (next == Some(b"") && parts.next().is_none()).then_some(files)
}

fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}

/// Parses a line count; `-` stands for a binary file.
fn count(bytes: &[u8]) -> Option<Option<u64>> {
    match bytes {
        b"-" => Some(None),
        digits => std::str::from_utf8(digits).ok()?.parse().ok().map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, kind: Kind, lines: Option<(u64, u64)>) -> FileChange {
        let (added, deleted) = lines.unzip();
        FileChange { path: path.into(), from: None, kind, added, deleted, is_repository: false }
    }

    #[test]
    fn a_complete_list_is_parsed() {
        let output = b":000000 100644 000 111 A\0new\nline\0:100644 000000 111 000 D\0gone\0\
            :100644 100755 111 222 R090\0old\0moved\0:100644 100644 1 2 M\0picture\0\
            :000000 160000 000 333 A\0nested\x00\
            7\t0\tnew\nline\x000\t3\tgone\x001\t2\t\0old\0moved\0-\t-\tpicture\x001\t0\tnested\0";
        let moved = FileChange { from: Some("old".into()), ..file("moved", Kind::Renamed, Some((1, 2))) };
        let nested = FileChange { is_repository: true, ..file("nested", Kind::Added, Some((1, 0))) };
        let expected = vec![
            file("new\nline", Kind::Added, Some((7, 0))),
            file("gone", Kind::Deleted, Some((0, 3))),
            moved,
            file("picture", Kind::Modified, None),
            nested,
        ];
        assert_eq!(parse(output), Some(expected));
        assert_eq!(parse(b""), Some(Vec::new()));
    }

    #[test]
    fn a_truncated_or_foreign_list_is_rejected() {
        let whole = b":100644 100644 1 2 M\0a\x003\t1\ta\0".as_slice();
        assert!(parse(whole).is_some());
        for cut in 1..whole.len() {
            assert_eq!(parse(&whole[..cut]), None, "{cut}");
        }
        for other in [b"a".as_slice(), b":100644 100644 1 2 X\0a\x003\t1\ta\0", b":1 1 1 1 M\0a\x003\t1\tb\0"]
        {
            assert_eq!(parse(other), None, "{}", String::from_utf8_lossy(other));
        }
    }
}
