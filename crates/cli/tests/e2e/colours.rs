//! Colours of a job at a terminal: in its output they are kept, everywhere else no escape sequence is.

use crate::agents::define_agent;
use crate::home::Home;
use crate::terminal::shown_at_terminal;

/// Red that is not ended, concealed text, a title for the terminal, a cleared screen.
const HOSTILE: &str = r"a \033[1;31mred\nb \033[8mhidden\033[0m \033]0;title\007\033[2J\n";

/// How `HOSTILE` is shown.
const SHOWN: &str = "a \x1b[1;31mred\x1b[0m\nb hidden ␛]0;title␇␛[2J\n";

/// How it is shown without colours.
const PLAIN: &str = "a red\nb hidden ␛]0;title␇␛[2J\n";

#[test]
fn output_at_a_terminal_keeps_its_colours_and_nothing_else() {
    let home = Home::new();
    let script = home.path().join("script");
    std::fs::write(&script, format!("printf '{HOSTILE}'")).unwrap();
    let script = script.to_str().unwrap();
    assert_eq!(shown_at_terminal(&home, &["run", "--name", "colourful", "sh", script], &[]), SHOWN);
    for words in [&["logs", "colourful"][..], &["logs", "-f", "colourful"], &["attach", "colourful"]] {
        assert_eq!(shown_at_terminal(&home, words, &[]), SHOWN, "{words:?}");
    }
    assert_eq!(shown_at_terminal(&home, &["result", "colourful"], &[]), SHOWN);
    assert_eq!(shown_at_terminal(&home, &["run", "sh", "-c", "'exec >&2; . \"$0\"'", script], &[]), SHOWN);
    let recorded = "a \x1b[1;31mred\nb \x1b[8mhidden\x1b[0m \x1b]0;title\x07\x1b[2J\n";
    assert_eq!(home.run(&["logs", "colourful"]).stdout, recorded, "a pipe gets every byte");
}

#[test]
fn a_user_who_wants_no_colours_sees_none() {
    let home = Home::new();
    let id = home.start(&format!("printf '{HOSTILE}'"));
    home.ok(&["wait", &id]);
    for variable in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        assert_eq!(shown_at_terminal(&home, &["logs", &id], &[variable]), PLAIN, "{variable:?}");
    }
    assert_eq!(shown_at_terminal(&home, &["logs", "--color", "never", &id], &[]), PLAIN);
    assert_eq!(shown_at_terminal(&home, &["logs", "--color", "always", &id], &[("NO_COLOR", "1")]), SHOWN);
}

/// Names, titles, commands and the text of an agent, which has commands and paths among it, are never coloured by what they say.
#[test]
fn nothing_but_output_has_colours_of_its_own() {
    let home = Home::new();
    define_agent(&home);
    let red = "\x1b[31mred\x1b[0m";
    let id = home.ok(&["run", "-d", "--name", "agent", "--agent", "echo", red]);
    home.ok(&["run", "-d", "--after", &id, "echo", red]);
    home.ok(&["wait", "@last"]);
    assert!(home.run(&["logs", "agent"]).stdout.contains(red), "it echoes its prompt");
    assert!(shown_at_terminal(&home, &["logs", "agent"], &[]).contains("did: red\n"));
    for words in [&["ls", "-a"][..], &["show", "@last"], &["show", "agent"], &["events", "agent"]] {
        let shown = shown_at_terminal(&home, words, &[]);
        assert!(!shown.contains("\x1b[31mred"), "{words:?}: {shown:?}");
    }
}
