//! Getting schemathesis: from PyPI, once, into a virtual environment in a cache that outlives the clone.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::place;

/// What `pip install` is given.
const PACKAGE: &str = "schemathesis==4.32.5";

/// Makes sure that it is there, and returns its program.
pub(super) fn schemathesis() -> Result<PathBuf, String> {
    // A virtual environment cannot be moved, so it is made where it stays; the program is its last file.
    let folder = place::cache("lastword/python")?.join(PACKAGE);
    let program = folder.join("bin/schemathesis");
    if program.is_file() {
        return Ok(program);
    }
    let begun = Instant::now();
    let _ = fs::remove_dir_all(&folder);
    let environment = folder.display().to_string();
    runs("python3", &["-m", "venv", &environment])?;
    let pip = folder.join("bin/pip").display().to_string();
    runs(&pip, &["install", "--quiet", "--disable-pip-version-check", PACKAGE])?;
    println!("{PACKAGE} installed in {:.0} s", begun.elapsed().as_secs_f64());
    Ok(program)
}

fn runs(program: &str, words: &[&str]) -> Result<(), String> {
    let said = Command::new(program).args(words).stdin(Stdio::null()).output();
    let said = said.map_err(|error| format!("{program}: {error}"))?;
    match said.status.success() {
        true => Ok(()),
        false => {
            let why = String::from_utf8_lossy(&said.stderr).trim().to_owned();
            Err(format!("{program} {}: {} {why}", words.join(" "), said.status))
        }
    }
}
