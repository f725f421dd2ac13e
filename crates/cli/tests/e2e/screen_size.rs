//! Jobs with a terminal: its size is that of the terminal it is shown at, which is left as it was.

use crate::home::Home;
use crate::terminal::Screen;

/// Prints the size of its terminal, now and whenever it changes.
const SIZES: &str = "trap 'stty size' WINCH; stty size; echo ready; while :; do sleep 0.01; done";

/// Ctrl-P Ctrl-Q.
const DETACH: &str = "\x10\x11";

#[test]
fn the_terminal_of_a_job_follows_the_size_of_ours() {
    let home = Home::new();
    let mut first = Screen::start(&home, (30, 90), &["run", "-t", "--name", "sizes", "sh", "-c", SIZES]);
    first.until_shown("30 90\r\n");
    first.until_shown("ready");
    first.resize(33, 97);
    first.until_shown("33 97\r\n");
    first.write(DETACH);
    first.end();
    // Another terminal has another size, before it changes, too.
    let second = Screen::start(&home, (20, 60), &["attach", "sizes"]);
    second.until_shown("20 60\r\n");
    second.resize(50, 132);
    second.until_shown("50 132\r\n");
}

#[test]
fn a_program_draws_its_screen_again_for_a_terminal_of_the_same_size() {
    let home = Home::new();
    let mut first = Screen::start(&home, (30, 90), &["run", "-t", "--name", "sizes", "sh", "-c", SIZES]);
    first.until_shown("ready");
    first.write(DETACH);
    first.end();
    let second = Screen::start(&home, (30, 90), &["attach", "-n", "0", "sizes"]);
    second.until_shown("30 90\r\n");
}

#[test]
fn a_terminal_is_left_as_it_was() {
    let home = Home::new();
    let full_screen = r"printf '\033[?1049h\033[?25l\033[?1000;1006h\033[1mready'; sleep 100";
    let mut screen =
        Screen::start(&home, (30, 90), &["run", "-t", "--name", "full", "sh", "-c", full_screen]);
    screen.until_shown("ready");
    screen.write(DETACH);
    let shown = screen.end();
    let undone = "\x1b[0m\x1b[?25h\x1b[?1000l\x1b[?1006l\x1b[?1049l";
    let (_, after) = shown.split_once("ready").unwrap();
    let (between, message) = after.split_once(undone).unwrap_or_else(|| panic!("{after:?}"));
    assert!(!between.contains("keeps running") && message.contains("keeps running"), "{after:?}");
    // A program that leaves its terminal as it was is not followed by anything but a reset of colours.
    let tidy = r"printf '\033[?1049hready\033[?1049l'";
    let shown = Screen::start(&home, (30, 90), &["run", "-t", "sh", "-c", tidy]).end();
    assert!(shown.ends_with("ready\x1b[?1049l\x1b[0m"), "{shown:?}");
}

#[test]
fn the_terminal_of_a_second_attempt_has_the_size_of_ours_too() {
    let home = Home::new();
    let script = r#"until [ "$(stty size)" = "33 97" ]; do sleep 0.01; done; echo resized; exit 1"#;
    let words = ["run", "-t", "--name", "again", "--retry", "1", "--backoff", "1ms", "sh", "-c", script];
    let screen = Screen::start(&home, (30, 90), &words);
    home.until_phase_of_name("again", "running");
    screen.resize(33, 97);
    // Between attempts, the terminal is as it was.
    screen.until_shown("resized\r\n\x1b[0mresized\r\n");
}
