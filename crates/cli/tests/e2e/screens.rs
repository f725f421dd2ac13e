//! Every screen at two widths, plain and in colour.

use std::process::Command;

use crate::home::{Home, run_command};
use crate::plain::plain;

/// Returns a home with jobs of every kind.
fn busy_home() -> Home {
    let home = Home::new();
    home.run(&["run", "--name", "build", "-l", "team=core", "sh", "-c", "seq 1 3; echo done"]);
    home.run(&[
        "run",
        "--name",
        "flaky",
        "--retry",
        "1",
        "--backoff",
        "20ms",
        "sh",
        "-c",
        "echo oops >&2; exit 1",
    ]);
    home.run(&["run", "--wall", "1s", "--grace", "50ms", "sleep", "100"]);
    let id = home.ok(&[
        "run",
        "-d",
        "--name",
        "server",
        "--grace",
        "2s",
        "sh",
        "-c",
        "echo listening; exec sleep 100",
    ]);
    crate::home::until("it runs", || home.ok(&["logs", &id]).contains("listening").then_some(()));
    home.ok(&["cancel", &id]);
    home.ok(&[
        "run",
        "-d",
        "--name",
        "later",
        "--delay",
        "1h",
        "--group",
        "night",
        "--priority",
        "3",
        "make",
        "a very long list of targets that no terminal of eighty columns has room for",
    ]);
    home
}

#[test]
fn lists_fit_the_terminal() {
    let home = busy_home();
    insta::assert_snapshot!("ls", plain(&home, &home.ok(&["ls"])));
    insta::assert_snapshot!("ls_all", plain(&home, &home.ok(&["ls", "-a"])));
    for width in ["40", "80", "140"] {
        let mut command = home.command(&["ls", "-a"]);
        command.env("COLUMNS", width);
        let text = run_command(command).stdout;
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= width.parse::<usize>().unwrap().max(60), "{width}: {text}");
        assert!(text.contains('…') || width == "140", "{width}: {text}");
    }
    let mut command = home.command(&["ls", "-a"]);
    command.env_remove("COLUMNS");
    assert!(!run_command(command).stdout.contains('…'), "lines are not cut without a terminal");
    let output = home.run(&["ls", "--group", "nowhere"]);
    assert_eq!(
        (output.stdout.as_str(), output.stderr.as_str()),
        ("", "no matching jobs queued or running; `lastword ls -a` includes ended ones\n")
    );
    let output = home.run(&["ls", "-a", "-n", "2"]);
    assert_eq!(
        (output.stdout.lines().count(), output.stderr.as_str()),
        (3, "there are more than 2; use -n to list more; `lastword ls` lists those that have not ended\n")
    );
    assert_eq!(home.ok(&["ls", "-a", "-q", "-l", "team=core"]).lines().count(), 1);
    assert_eq!(home.ok(&["ls", "-q", "--outcome", "timed_out"]).lines().count(), 1);
}

/// Shows a job on a terminal so wide that no line is cut.
fn wide(home: &Home, job: &str) -> String {
    let mut command = home.command(&["show", job]);
    command.env("COLUMNS", "120");
    run_command(command).stdout.trim_end().to_owned()
}

#[test]
fn show_prints_the_timeline_of_a_job() {
    let home = busy_home();
    for name in ["build", "flaky", "server", "later"] {
        let text = plain(&home, &wide(&home, name));
        let level = text
            .replace(" and its control group was empty", "")
            .replace("contained in a control group", "<level>");
        let level = level
            .replace("contained by its keeper, which it cannot signal", "<level>")
            .replace("contained by its keeper", "<level>")
            // Said if the request was on its way for long.
            .replace("TERM after <took>;", "TERM;");
        insta::assert_snapshot!(format!("show_{name}"), level);
    }
    let timed_out = home.ok(&["ls", "-q", "--outcome", "timed_out"]);
    let shown = wide(&home, &timed_out);
    assert!(
        shown.contains("limit on wall") && shown.contains("timed out at its wall-clock limit"),
        "{shown}"
    );
}

#[test]
fn show_prints_paths_whole_however_narrow_the_terminal_is() {
    let home = Home::new();
    let folder = home.work().join("a-folder-with-a-long-name/".repeat(4));
    std::fs::create_dir_all(&folder).unwrap();
    let folder = folder.canonicalize().unwrap().display().to_string();
    home.ok(&["run", "-C", &folder, "true"]);
    let mut command = home.command(&["show"]);
    command.env("COLUMNS", "40");
    let shown = run_command(command).stdout;
    assert!(shown.lines().any(|line| line.strip_prefix("  in ") == Some(&folder)), "{shown}");
}

#[test]
fn colour_is_used_only_where_requested() {
    let home = busy_home();
    let coloured = |arrange: fn(&mut Command) -> &mut Command| {
        let mut command = home.command(&["show", "server"]);
        arrange(&mut command);
        run_command(command).stdout.contains('\x1b')
    };
    assert!(!coloured(|command| command), "not into a pipe");
    assert!(coloured(|command| command.env("CLICOLOR_FORCE", "1")));
    assert!(!coloured(|command| command.env("CLICOLOR_FORCE", "1").env("NO_COLOR", "1")));
    assert!(
        coloured(|command| command.env("NO_COLOR", "1").args(["--color", "always"])),
        "a flag overrides a variable"
    );
    assert!(!coloured(|command| command.env("CLICOLOR_FORCE", "1").args(["--color", "never"])));
    assert!(!coloured(|command| command.env("CLICOLOR_FORCE", "0")));
    let mut command = home.command(&["ls", "-a", "--color", "always"]);
    command.env("COLUMNS", "80");
    insta::assert_snapshot!("ls_colour", plain(&home, &run_command(command).stdout.replace('\x1b', "ESC")));
}
