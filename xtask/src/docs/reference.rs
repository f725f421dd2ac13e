//! The reference of the command line, written by the program itself.

use std::process::Stdio;

use super::session::Home;
use crate::program::Failure;

/// Options that every verb takes are listed once.
const EVERYWHERE: &str = "\nEverywhere:\n";

/// Returns the page.
pub(super) fn page(home: &Home) -> Result<String, Failure> {
    let root = help(home, &[])?;
    let mut page = String::from(
        "# Command line\n\n\
         Written by the program: `cargo xtask docs --write`. `lastword VERB --help` says the same, and `lastword man VERB` as a page for\n\
         `man`.\n\n",
    );
    page.push_str(&format!("```text\n{}```\n", root));
    for verb in verbs_of(&root) {
        section(home, &mut page, &[&verb])?;
    }
    Ok(page)
}

fn section(home: &Home, page: &mut String, verb: &[&str]) -> Result<(), Failure> {
    let help = help(home, verb)?;
    let (before, rest) = help.split_once(EVERYWHERE).unwrap_or((&help, ""));
    // The text after the common options is about this verb.
    let after = rest.split_once("\n\n").map(|(_, after)| format!("\n{after}")).unwrap_or_default();
    let marks = "#".repeat(verb.len() + 1);
    page.push_str(&format!("\n{marks} lastword {}\n\n```text\n{before}{after}```\n", verb.join(" ")));
    for below in verbs_of(&help) {
        section(home, page, &[verb, &[&below]].concat())?;
    }
    Ok(())
}

fn help(home: &Home, verb: &[&str]) -> Result<String, Failure> {
    let output = home
        .command("lastword")
        .args(verb)
        .arg("--help")
        .env("COLUMNS", "100")
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| Failure::new(format!("lastword {} --help: {error}", verb.join(" "))))?;
    String::from_utf8(output.stdout).map_err(|_| Failure::new("its help is not text"))
}

/// Returns the verbs that a help page lists, in one group or several, before its options. An argument begins with a bracket.
fn verbs_of(help: &str) -> Vec<String> {
    let list = help.lines().take_while(|line| !line.ends_with("ptions:"));
    list.filter_map(|line| line.strip_prefix("  "))
        .filter(|line| line.starts_with(|first: char| first.is_ascii_lowercase()))
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_are_read_from_a_list() {
        let help = "About\n\nStart:\n  run   Runs\n  wait  Waits, and has a line\n        that is too long\n\nStop:\n  kill  Kills\n\n\
                    Options:\n  -h\n  not an option\n";
        assert_eq!(verbs_of(help), ["run", "wait", "kill"]);
        assert_eq!(verbs_of("About\n\nArguments:\n  [JOB]...  Jobs\n\nGlobal options:\n  -h\n"), [""; 0]);
    }
}
