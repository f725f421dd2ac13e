//! The environment of a new job.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::client::Client;
use crate::environment;
use crate::failure::Failure;
use crate::text::clean::clean;
use crate::ui::{Ui, describe};

/// Bytes of a file of variables.
const BYTES_MAX: u64 = 1 << 20;

/// Parses the name of a variable. A value is refused: arguments can be read by every user of the machine.
pub(super) fn name(text: &str) -> Result<String, String> {
    match text.split_once('=') {
        Some(_) => {
            Err("give the name only, or use --env-file: every user can read the arguments of a program"
                .to_owned())
        }
        None if is_name(text) => Ok(text.to_owned()),
        None => Err("this is no name of a variable".to_owned()),
    }
}

/// Returns this environment with the variables of files, if all of these names are in it.
pub(super) fn chosen(
    ui: &Ui,
    names: &[String],
    files: &[PathBuf],
) -> Result<BTreeMap<String, String>, Failure> {
    let mut env = current(ui);
    for file in files {
        let failed =
            |why: String| Failure::usage(format!("--env-file {}: {why}", clean(&file.to_string_lossy())));
        env.extend(read(file).map_err(failed)?);
    }
    match names.iter().find(|name| !env.contains_key(*name)) {
        Some(missing) => Err(Failure::usage(format!(
            "the variable {missing} is not set, and --env or the profile needs it"
        ))),
        None => Ok(env),
    }
}

/// Reads the variables of a file. A value is taken as it stands; empty lines and those that begin with `#` are skipped.
fn read(file: &Path) -> Result<Vec<(String, String)>, String> {
    use std::io::Read as _;
    let failed = |error: std::io::Error| error.to_string();
    // A pipe or a device would be waited for, or never end.
    if !std::fs::metadata(file).map_err(failed)?.is_file() {
        return Err("it is not a file".to_owned());
    }
    let mut text = String::new();
    let read = std::fs::File::open(file).map_err(failed)?.take(BYTES_MAX + 1).read_to_string(&mut text);
    match read.map_err(failed)? as u64 > BYTES_MAX {
        true => Err("it is larger than 1 MiB".to_owned()),
        false => parse(text.strip_prefix('\u{feff}').unwrap_or(&text)),
    }
}

fn parse(text: &str) -> Result<Vec<(String, String)>, String> {
    let lines = text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty() && !line.starts_with('#'));
    let variable = |(line, number): (&str, u32)| match line.split_once('=') {
        Some((name, value)) if is_name(name) && !value.contains('\0') => {
            Ok((name.to_owned(), value.to_owned()))
        }
        // The line may hold a secret, so it is not repeated.
        _ => Err(format!("line {number} is not NAME=VALUE")),
    };
    lines.map(variable).collect()
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.contains(['=', '\0']) && !text.contains(char::is_whitespace)
}

/// Returns what a job that repeats or continues another one gets of this environment: all of it, and on a fleet nothing. There its worker
/// passes on its own.
pub(super) fn passed_on(client: &Client) -> BTreeMap<String, String> {
    if client.is_fleet() { BTreeMap::new() } else { current(client.ui()) }
}

/// Returns this environment without variables that are not UTF-8, and warns about those.
fn current(ui: &Ui) -> BTreeMap<String, String> {
    let mut skipped = 0;
    let text = environment::all().into_iter().filter_map(|(name, value)| {
        match (name.into_string(), value.into_string()) {
            (Ok(name), Ok(value)) => Some((name, value)),
            _ => {
                skipped += 1;
                None
            }
        }
    });
    let env = text.collect();
    if skipped > 0 {
        let count = describe::count(
            skipped,
            "environment variable is not UTF-8 and is",
            "environment variables are not UTF-8 and are",
        );
        ui.say(&format!("lastword: {count} not passed to the job"));
    }
    env
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_a_variable_on_each_line() {
        let read = parse("# a remark\nA=1\n\nB=two words = here \nC=\n").unwrap();
        let pairs: Vec<(&str, &str)> =
            read.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(pairs, [("A", "1"), ("B", "two words = here "), ("C", "")]);
        let refused = parse("A=1\nhunter2 secret\n").unwrap_err();
        assert_eq!(refused, "line 2 is not NAME=VALUE");
        assert_eq!(parse("=x").unwrap_err(), "line 1 is not NAME=VALUE");
        // A device is not read: it may never end.
        assert_eq!(super::read(Path::new("/dev/zero")).unwrap_err(), "it is not a file");
        assert_eq!(name("TOKEN").unwrap(), "TOKEN");
        assert!(
            name("TOKEN=secret").unwrap_err().contains("--env-file")
                && name("").is_err()
                && name("A B").is_err()
        );
    }
}
