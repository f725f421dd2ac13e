//! `target/seeded`: the copy of the workspace with every bug applied.
//!
//! Only changed files are written, so cargo rebuilds only what changed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::bug::{self, Bug};
use crate::program::{self, Failure, Outcome};

/// The module with the switch, without the names of the bugs.
const SWITCH: &str = include_str!("switch.rs");

/// The switch is a module of core, which every room with a bug depends on. `lastword_core` names it inside of core, too.
const SWITCH_AT: &str = "crates/core/src/seeded.rs";
const CORE: &str = "crates/core/src/lib.rs";
const CORE_ADDS: &str = "\nextern crate self as lastword_core;\n\npub mod seeded;\n";

/// The manifests that have a version, which the others inherit, and their lock files.
const VERSIONED: [&str; 2] = ["Cargo.toml", "fuzz/Cargo.toml"];
const LOCKED: [&str; 2] = ["Cargo.lock", "fuzz/Cargo.lock"];

/// Returns the folder of the copy.
pub(crate) fn folder() -> PathBuf {
    program::target().join("seeded")
}

/// Returns the target folder of the copy, which no shipped program shares.
pub(crate) fn target() -> PathBuf {
    folder().join("target")
}

/// Brings the copy up to date.
pub(crate) fn update() -> Outcome {
    let bugs = bug::all()?;
    let list = program::output("git", &["ls-files", "--cached", "--others", "--exclude-standard"])?;
    let mut kept: BTreeSet<String> = LOCKED.into_iter().chain([SWITCH_AT]).map(str::to_owned).collect();
    for path in list.lines() {
        // The deletion of a file may not be committed yet.
        let Ok(bytes) = fs::read(path) else { continue };
        write(path, &seeded(&bugs, path, bytes)?)?;
        kept.insert(path.to_owned());
    }
    write(SWITCH_AT, switch(&bugs).as_bytes())?;
    let root = folder();
    remove_others(&root, &root, &kept)
}

/// Returns the contents of a file in the copy.
fn seeded(bugs: &[Bug], path: &str, bytes: Vec<u8>) -> Result<Vec<u8>, Failure> {
    let Ok(text) = std::str::from_utf8(&bytes) else { return Ok(bytes) };
    let mut text = bug::apply(bugs, path, text).map_err(|wrong| Failure::new(wrong.join("\n")))?;
    if path == CORE {
        text.push_str(CORE_ADDS);
    }
    if VERSIONED.contains(&path) {
        text = with_own_version(&text);
    }
    if LOCKED.contains(&path) {
        text = with_own_versions(&text);
    }
    Ok(text.into_bytes())
}

/// Cargo tells packages of two workspaces apart by name, version and folder below the workspace. The copy has its own version, so that
/// in a shared build folder cargo never takes a program of the copy for one of the workspace.
fn with_own_version(manifest: &str) -> String {
    let line = |line: &str| match line.strip_prefix("version = \"").and_then(|rest| rest.strip_suffix('"')) {
        Some(version) => format!("version = \"{version}+seeded\"\n"),
        None => format!("{line}\n"),
    };
    manifest.lines().map(line).collect()
}

/// Does the same in a lock file, for the packages of the workspace: those without a source.
fn with_own_versions(lock: &str) -> String {
    let package = |block: &str| match block.contains("\nsource = ") || !block.contains("\nname = ") {
        true => format!("{block}\n\n"),
        false => format!("{}\n", with_own_version(block)),
    };
    let blocks: String = lock.trim_end().split("\n\n").map(package).collect();
    format!("{}\n", blocks.trim_end())
}

fn switch(bugs: &[Bug]) -> String {
    let names: String = bugs.iter().map(|bug| format!("    {:?},\n", bug.name)).collect();
    format!("{SWITCH}/// Every bug, by its number less one.\nstatic NAMES: &[&str] = &[\n{names}];\n")
}

fn write(path: &str, bytes: &[u8]) -> Outcome {
    let path = folder().join(path);
    if fs::read(&path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    let parent = path.parent().unwrap_or(&path);
    fs::create_dir_all(parent)
        .and_then(|()| fs::write(&path, bytes))
        .map_err(|error| Failure::new(format!("{}: {error}", path.display())))
}

/// Removes the files that the workspace no longer has.
fn remove_others(root: &Path, folder: &Path, kept: &BTreeSet<String>) -> Outcome {
    let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", folder.display()));
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path == target() {
            continue;
        }
        if path.is_dir() {
            remove_others(root, &path, kept)?;
        } else if !path.strip_prefix(root).is_ok_and(|path| kept.contains(&*path.to_string_lossy())) {
            fs::remove_file(&path).map_err(failed)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_has_a_version_of_its_own_and_its_dependencies_keep_theirs() {
        let manifest = "[workspace.package]\nversion = \"0.1.0\"\n\n[dependencies]\nuuid = { version = \"1\" }\nserde = \"1.0\"\n";
        assert_eq!(with_own_version(manifest), manifest.replace("0.1.0", "0.1.0+seeded"));
        for path in VERSIONED {
            let text =
                fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)).unwrap();
            assert_eq!(with_own_version(&text).matches("+seeded\"").count(), 1, "{path}");
        }
    }
    #[test]
    fn the_lock_file_of_the_copy_has_its_versions() {
        let lock = "# @generated\nversion = 4\n\n[[package]]\nname = \"a\"\nversion = \"0.1.0\"\ndependencies = [\n \"b\",\n]\n\n\
            [[package]]\nname = \"b\"\nversion = \"0.1.0\"\nsource = \"registry\"\n";
        assert_eq!(with_own_versions(lock), lock.replacen("0.1.0", "0.1.0+seeded", 1));
    }
}
