//! `tidy`: the rules of this repository that no linter checks.
//!
//! A rule looks at one file and says which lines break it. The files are those git knows or would take.

mod cycles;
mod tokens;

use std::fs;

use crate::program::{self, Failure, Outcome};
use crate::seeded::{self, shipped::Words};

/// Past this, look for the seam. Files are meant to stay below 500; the room above is for a test table that
/// would read worse in two places.
const LINES_MAX: usize = 700;

/// What core may depend on. All of it is pure; a clock, a socket or a runtime would not be.
const CORE_MAY_USE: &[&str] = &["serde", "serde_json", "thiserror", "uuid"];

/// A file and what is in it.
struct File<'a> {
    path: &'a str,
    text: &'a str,
}

/// The lines of a file that break a rule, and how: zero is the file as a whole.
type Broken = Vec<(usize, String)>;

const RULES: &[fn(&File<'_>) -> Broken] = &[
    opens_with_its_purpose,
    is_not_too_long,
    binds_its_values,
    leaves_nothing_for_later,
    core_is_pure,
    gives_reasons,
];

/// Applies every rule to every file.
pub(crate) fn run(arguments: &[&str]) -> Outcome {
    if !arguments.is_empty() {
        return Err(Failure::new("usage: cargo xtask tidy"));
    }
    let list = program::output("git", &["ls-files", "--cached", "--others", "--exclude-standard"])?;
    // Listed and not readable as text: deleted but not committed yet, or not text.
    let texts: Vec<(&str, String)> =
        list.lines().filter_map(|path| Some((path, fs::read_to_string(path).ok()?))).collect();
    let files: Vec<(&str, &str)> = texts.iter().map(|(path, text)| (*path, text.as_str())).collect();
    let words = Words::all()?;
    let mut broken = 0;
    for (path, text) in &files {
        let file = File { path, text };
        let rules = RULES.iter().flat_map(|rule| rule(&file));
        for (line, why) in rules.chain(words.in_source(path, text)) {
            eprintln!("{path}:{line}: {why}");
            broken += 1;
        }
    }
    let cycles = cycles::find(&files).into_iter();
    for why in cycles.chain(seeded::check()).chain(words.in_shipped()) {
        eprintln!("{why}");
        broken += 1;
    }
    if broken > 0 {
        return Err(Failure::new(format!("{broken} untidy places")));
    }
    Ok(())
}

impl File<'_> {
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    fn is_in(&self, folder: &str) -> bool {
        self.path.starts_with(folder)
    }

    /// Returns the numbers of the lines of which `breaks` holds, with the reason.
    fn lines_where(&self, why: &str, mut breaks: impl FnMut(&str) -> bool) -> Broken {
        let lines = self.text.lines().zip(1..);
        lines.filter(|(line, _)| breaks(line)).map(|(_, number)| (number, why.to_owned())).collect()
    }
}

fn opens_with_its_purpose(file: &File<'_>) -> Broken {
    if !file.is_rust() || file.text.starts_with("//! ") {
        return Vec::new();
    }
    vec![(1, "a file opens with `//!`: what it owns".into())]
}

fn is_not_too_long(file: &File<'_>) -> Broken {
    let lines = file.text.lines().count();
    if !file.is_rust() || lines <= LINES_MAX {
        return Vec::new();
    }
    vec![(lines, format!("{lines} lines are more than {LINES_MAX}: look for the seam"))]
}

/// Values reach a database as parameters, never as part of the statement.
fn binds_its_values(file: &File<'_>) -> Broken {
    if !file.is_rust() || !file.is_in("crates/store/") {
        return Vec::new();
    }
    let mut broken = Vec::new();
    for macro_name in ["format!(", "write!(", "writeln!(", "format_args!("] {
        for (at, _) in file.text.match_indices(macro_name) {
            let call = &file.text[at..];
            // To the end of the statement, as far as text can tell.
            let call = &call[..call.find(");").unwrap_or(call.len())].to_lowercase();
            let has = |words: &[&str]| words.iter().all(|word| call.contains(word));
            if has(&["select ", "from "])
                || has(&["insert into"])
                || has(&["delete from"])
                || has(&["update ", " set "])
            {
                let line = file.text[..at].lines().count();
                broken.push((line, "SQL is written out and its values are bound, not formatted".into()));
            }
        }
    }
    broken
}

fn leaves_nothing_for_later(file: &File<'_>) -> Broken {
    // Spelled in halves, so that this line is not found.
    let marks = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
    let is_word = |line: &str, mark: &str| {
        line.contains(mark) && line.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == mark)
    };
    let why = "do it, or open an issue and say what is missing";
    file.lines_where(why, |line| marks.iter().any(|mark| is_word(line, mark)))
}

fn core_is_pure(file: &File<'_>) -> Broken {
    if file.path != "crates/core/Cargo.toml" {
        return Vec::new();
    }
    let mut in_dependencies = false;
    file.lines_where("core is pure: it depends on what is pure, and on that only", |line| {
        if line.starts_with('[') {
            in_dependencies = line == "[dependencies]";
            // Any other table that brings crates in would get round this rule.
            return line.ends_with("dependencies]") && !in_dependencies && line != "[dev-dependencies]";
        }
        let name = line.split(['=', '.', ' ']).next().unwrap_or_default();
        let is_entry = in_dependencies && !name.is_empty() && !name.starts_with('#');
        is_entry && !CORE_MAY_USE.contains(&name)
    })
}

fn gives_reasons(file: &File<'_>) -> Broken {
    if file.path != ".cargo/mutants.toml" {
        return Vec::new();
    }
    let mut reasoned = false;
    file.lines_where("say why no test can notice this change", |line| {
        let line = line.trim();
        let is_entry = line.starts_with(['"', '\'']);
        let bare = is_entry && !reasoned;
        reasoned = line.starts_with('#');
        bare
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIDY: [usize; 0] = [];

    /// Returns the lines of a file that break any rule.
    fn broken(path: &str, text: &str) -> Vec<usize> {
        let file = File { path, text };
        RULES.iter().flat_map(|rule| rule(&file)).map(|(line, _)| line).collect()
    }

    #[test]
    fn a_file_says_what_it_owns() {
        assert_eq!(broken("crates/a.rs", "//! A thing.\nfn f() {}\n"), TIDY);
        assert_eq!(broken("crates/a.rs", "fn f() {}\n"), [1]);
        assert_eq!(broken("crates/a.rs", "//!\nfn f() {}\n"), [1]);
        assert_eq!(broken("README.md", "# Words\n"), TIDY);
    }

    #[test]
    fn a_file_has_an_end() {
        let lines = |count: usize| format!("//! Long.\n{}", "\n".repeat(count - 1));
        assert_eq!(broken("a.rs", &lines(LINES_MAX)), TIDY);
        assert_eq!(broken("a.rs", &lines(LINES_MAX + 1)), [LINES_MAX + 1]);
    }

    #[test]
    fn values_are_bound() {
        let statement = |call: &str| format!("//! SQL.\nfn f() {{\n    let sql = {call};\n}}\n");
        for bad in [
            "format!(\"SELECT x FROM jobs WHERE id = {id}\")",
            "format!(\n        \"insert into jobs values ({id})\"\n    )",
            "format!(\"delete from jobs where id = '{id}'\")",
            "format!(\"update jobs set phase = {phase}\")",
        ] {
            assert_eq!(broken("crates/store/src/a.rs", &statement(bad)), [3], "{bad}");
            assert_eq!(broken("crates/proof/src/a.rs", &statement(bad)), TIDY, "{bad}");
        }
        for good in ["\"select x from jobs where id = $1\"", "format!(\"no update for {id}\")"] {
            assert_eq!(broken("crates/store/src/a.rs", &statement(good)), TIDY, "{good}");
        }
    }

    #[test]
    fn nothing_is_left_for_later() {
        let mark = concat!("TO", "DO");
        assert_eq!(broken("docs/a.md", &format!("one\n{mark}: two\n")), [2]);
        assert_eq!(broken("a.rs", &format!("//! One.\n// ({mark})\n")), [2]);
        assert_eq!(broken("a.rs", &format!("//! One.\nconst {mark}S: u8 = 1;\n")), TIDY);
    }

    #[test]
    fn core_depends_on_pure_crates_only() {
        let manifest =
            |rest: &str| format!("[package]\nname = \"x\"\n[dependencies]\nserde.workspace = true\n{rest}");
        let check = |rest: &str| broken("crates/core/Cargo.toml", &manifest(rest));
        assert_eq!(check("# A comment.\nuuid = \"1\"\n\n[dev-dependencies]\ntokio = \"1\"\n"), TIDY);
        assert_eq!(check("tokio = \"1\"\n"), [5]);
        assert_eq!(check("tokio.workspace = true\n"), [5]);
        assert_eq!(check("[target.'cfg(unix)'.dependencies]\nlibc = \"1\"\n"), [5]);
        assert_eq!(check("[build-dependencies]\ncc = \"1\"\n"), [5]);
    }

    #[test]
    fn an_exception_has_a_reason() {
        let config = "exclude_re = [\n  # It is only shown.\n  'impl Display',\n  'other',\n]\n";
        assert_eq!(broken(".cargo/mutants.toml", config), [4]);
    }
}
