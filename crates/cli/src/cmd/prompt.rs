//! The prompt of an agent: read from the command line or standard input, within its bound.

use std::io::IsTerminal as _;

use lastword_core::decide::send::INPUT_BYTES_MAX;

use crate::failure::Failure;
use crate::text::size;
use crate::ui::Ui;

/// Returns the prompt: the given words, or standard input.
pub(super) fn read(words: &[String]) -> Result<String, Failure> {
    let stdin = std::io::stdin();
    let text = match words {
        [] if stdin.is_terminal() => {
            return Err(Failure::usage("the prompt is missing: write it after the options"));
        }
        [dash] if dash == "-" => read_input(stdin)?,
        [] => read_input(stdin)?,
        words => words.join(" "),
    };
    match text.trim().is_empty() {
        true => Err(Failure::usage("the prompt is empty")),
        false => bounded("prompt", text)
            .map_err(|failure| failure.next("write the text to a file, and name the file in the prompt")),
    }
}

/// Refuses a text that no job takes.
pub(super) fn bounded(what: &str, text: String) -> Result<String, Failure> {
    match text.len() > INPUT_BYTES_MAX {
        true => Err(Failure::usage(format!(
            "the {what} has {}, but at most {} are allowed",
            size::show(text.len() as u64),
            size::show(INPUT_BYTES_MAX as u64)
        ))),
        false => Ok(text),
    }
}

fn read_input(stdin: std::io::Stdin) -> Result<String, Failure> {
    std::io::read_to_string(stdin)
        .map_err(|error| Failure::usage(format!("cannot read the prompt from standard input: {error}")))
}

/// Says which words of a prompt, the last words of the command line, look like options of this command. A user who wrote `--` before
/// the prompt knows that they are none.
pub(super) fn say_options(ui: &Ui, mut program: clap::Command, verb: &str, words: &[String]) {
    let before = std::env::args_os().rev().nth(words.len());
    if before.is_some_and(|word| word == "--") {
        return;
    }
    program.build();
    for option in program.find_subcommand(verb).into_iter().flat_map(|verb| options(verb, words)) {
        ui.say(&format!("lastword: `{option}` is part of the prompt: options come before it"));
    }
}

/// Returns the options of a command among the words after the first, up to `--`: the words after that are arguments of the agent.
fn options<'a>(verb: &clap::Command, words: &'a [String]) -> Vec<&'a str> {
    let is_option = |word: &str| {
        verb.get_arguments().any(|known| match word.strip_prefix("--") {
            Some(long) => known.get_long() == Some(long),
            None => word
                .strip_prefix('-')
                .is_some_and(|short| known.get_short().is_some_and(|known| short == known.to_string())),
        })
    };
    let name = |word: &'a String| word.split_once('=').map_or(word.as_str(), |(name, _)| name);
    let later = words.iter().take_while(|word| *word != "--").skip(1);
    later.map(name).filter(|word| is_option(word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_found_after_the_first_word_and_before_the_arguments_of_the_agent() {
        let mut program = crate::args::program();
        program.build();
        let check = |verb: &str, line: &str, expected: &[&str]| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(options(program.find_subcommand(verb).unwrap(), &words), expected, "{verb}: {line}");
        };
        check("run", "x --money 0.001 --name zork", &["--money", "--name"]);
        check("run", "x --money=1 -d --json", &["--money", "-d", "--json"]);
        check("run", "--money is an option", &[]);
        check("run", "why is --mone not - or -money --", &[]);
        check("run", "x -- --model y", &[]);
        check("resume", "x --fork --money 1", &["--fork"]);
    }
}
