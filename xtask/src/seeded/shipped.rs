//! Checks that no bug ships: neither in source, nor as a feature, nor in an executable.

use std::fs;

use super::bug;
use crate::program::{Failure, Outcome, target};

/// Rooms that do not ship.
const CHECKERS: [&str; 2] = ["crates/proof/", "crates/trials/"];

/// The builds that users get.
const SHIPPED: [&str; 2] = ["dist/lastword", "x86_64-unknown-linux-musl/dist/lastword"];

/// The build that the trials run.
const TRIED: &str = "release/lastword";

/// Words that only seeded bugs contain.
pub(crate) struct Words(Vec<String>);

impl Words {
    /// Returns the names of all bugs, and the word `seeded`.
    pub(crate) fn all() -> Result<Words, Failure> {
        let mut words = vec!["seeded".to_owned()];
        words.extend(bug::all()?.into_iter().map(|bug| bug.name));
        Ok(Words(words))
    }

    /// Returns the lines that must not be in a shipped crate, with the reason.
    pub(crate) fn in_source(&self, path: &str, text: &str) -> Vec<(usize, String)> {
        if !path.starts_with("crates/") || CHECKERS.iter().any(|room| path.starts_with(room)) {
            return Vec::new();
        }
        // `no-fence`, `no_fence`, `NoFence` and `NO_FENCE` are one name.
        let plain = |text: &str| text.replace(['-', '_'], "").to_lowercase();
        let words: Vec<(&String, String)> = self.0.iter().map(|word| (word, plain(word))).collect();
        let is_manifest = path.ends_with("/Cargo.toml");
        let wrong = |line: &str| {
            if is_manifest && line.trim() == "[features]" {
                return Some("a shipped crate has no features: tests must run what ships".to_owned());
            }
            let line = plain(line);
            let (found, _) = words.iter().find(|(_, word)| line.contains(word))?;
            Some(format!("`{found}` names a seeded bug, which belongs into a .bug file beside its checker"))
        };
        text.lines().zip(1..).filter_map(|(line, number)| Some((number, wrong(line)?))).collect()
    }

    /// Searches the shipped builds that exist, and returns what it finds.
    pub(crate) fn in_shipped(&self) -> Vec<String> {
        SHIPPED.iter().filter_map(|place| self.in_executable(place).ok()).flatten().collect()
    }

    fn in_executable(&self, place: &str) -> Result<Vec<String>, Failure> {
        let path = target().join(place);
        let bytes = fs::read(&path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
        let wrong = |word| {
            format!(
                "{}: contains `{word}`, which names a seeded bug; build it again from clean source",
                path.display()
            )
        };
        Ok(self.in_bytes(&bytes).into_iter().map(wrong).collect())
    }

    fn in_bytes(&self, bytes: &[u8]) -> Vec<&str> {
        let text = String::from_utf8_lossy(bytes);
        self.0.iter().map(String::as_str).filter(|word| text.contains(word)).collect()
    }
}

/// Searches the build that the trials run; fails if there is none.
pub(crate) fn check_tried() -> Outcome {
    let wrong = Words::all()?.in_executable(TRIED)?;
    if wrong.is_empty() { Ok(()) } else { Err(Failure::new(wrong.join("\n"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> Words {
        Words(vec!["seeded".to_owned(), "no-fence".to_owned()])
    }

    #[test]
    fn no_room_that_ships_has_a_bug_in_its_source() {
        let lines = |path: &str, text: &str| -> Vec<usize> {
            words().in_source(path, text).into_iter().map(|(line, _)| line).collect()
        };
        let source = "//! A store.\nif !held && !seeded::on(Bug::NoFence) {\nlet no_fence = 1;\nfence();\n";
        assert_eq!(lines("crates/store/src/admit.rs", source), [2, 3]);
        assert_eq!(lines("crates/proof/src/bugs.rs", source), Vec::<usize>::new());
        assert_eq!(lines("crates/core/Cargo.toml", "[package]\n[features]\nslow = []\n"), [2]);
    }

    #[test]
    fn an_executable_with_a_bug_is_noticed() {
        assert_eq!(words().in_bytes(b"\x7fELF\xff lastword"), Vec::<&str>::new());
        assert_eq!(words().in_bytes(b"\x7fELF\xff _ZN13lastword_core6seeded5is_on17h"), ["seeded"]);
        assert_eq!(words().in_bytes(b"\x7fELF\xff no-fence no-version"), ["no-fence"]);
    }
}
