//! Hostile names and output, a daemon of another version, a socket of another user.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;

use crate::home::Home;

const HOSTILE: &str = "\x1b]0;owned\x07\x1b[2J\u{9b}31m\u{202e}gnp\u{200b}\r\n";

#[test]
fn hostile_text_is_cleaned_except_piped_job_output() {
    let home = Home::new();
    let label = format!("colour={HOSTILE}");
    let id =
        home.ok(&["run", "-d", "-l", &label, "sh", "-c", &format!("printf '%s' '{HOSTILE}'; : {HOSTILE}")]);
    home.run(&["wait", &id]);
    let wild = home.ok(&["run", "-d", &format!("./{HOSTILE}")]);
    home.run(&["wait", &wild]);
    let harmless =
        |text: &str| !text.chars().any(|c| (c.is_control() && c != '\n') || "\u{202e}\u{200b}".contains(c));
    for words in [
        &["ls", "-a"][..],
        &["show", &id],
        &["show", &wild],
        &["events"],
        &["events", &id],
        &["wait", &wild],
        &["cancel", &wild],
        &["show", HOSTILE],
        &["result", &wild],
        &["ls", "-a", "--json"],
        &["show", &id, "--json"],
    ] {
        let output = home.run(words);
        assert!(harmless(&output.stdout), "{words:?}: {output:?}");
        assert!(harmless(&output.stderr), "{words:?}: {output:?}");
    }
    assert_eq!(home.run(&["logs", &id]).stdout, HOSTILE, "piped output is not changed");
}

#[test]
fn job_output_cannot_control_a_terminal_it_was_not_given() {
    let home = Home::new();
    let script = format!("printf '%s' '{HOSTILE}'; printf '%s' '{HOSTILE}' >&2");
    let id = home.ok(&["run", "-d", "sh", "-c", &script]);
    home.run(&["wait", &id]);
    let at_terminal = |words: &str| {
        let plain = home.command(&[]);
        let mut command = Command::new("script");
        let line = format!("{} {words}", plain.get_program().to_string_lossy());
        command.args(["--quiet", "--command", &line, "/dev/null"]).env_clear();
        command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?)))).env("NO_COLOR", "1");
        let output = command.output().unwrap();
        // The terminal itself adds carriage returns.
        String::from_utf8_lossy(&output.stdout).replace("\r\n", "\n")
    };
    for words in [
        format!("logs {id}"),
        format!("logs -f {id}"),
        format!("logs --stderr {id}"),
        format!("result {id}"),
        format!("run -- sh -c \"{}\"", script.replace('\x1b', "\\033").replace('"', "\\\"")),
    ] {
        let output = at_terminal(&words);
        let found =
            output.chars().find(|c| (c.is_control() && *c != '\n') || "\u{202e}\u{200b}".contains(*c));
        assert_eq!(found, None, "{words}: {output:?}");
        assert!(output.contains("31m"), "{words}: {output:?}");
    }
    assert!(
        at_terminal("run -t -- printf '\\033[5m'").contains("\x1b[5m"),
        "a job with a terminal may control it"
    );
}

/// Answers every request with the same response.
pub(crate) fn stand_in(home: &Home, answer: &'static str) -> std::thread::JoinHandle<()> {
    std::fs::DirBuilder::new().mode(0o700).create(home.state()).unwrap();
    let listener = UnixListener::bind(home.state().join("lastword.sock")).unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        let _ = stream.read(&mut request);
        let _ = stream.write_all(answer.as_bytes());
    })
}

#[test]
fn a_daemon_of_another_version_is_reported_once_with_a_remedy() {
    let home = Home::empty();
    let body = r#"{"items":[],"next_cursor":null,"something_new":[1]}"#;
    let answer = format!(
        "HTTP/1.1 200 OK\r\nlastword-version: 99.0.0\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let daemon = stand_in(&home, Box::leak(answer.into_boxed_str()));
    let output = home.run(&["ls", "-a"]);
    daemon.join().unwrap();
    assert_eq!(output.code, 0, "{output:?}");
    assert_eq!(output.stderr.matches("99.0.0").count(), 1, "{output:?}");
    assert!(output.stderr.contains("lastword daemon restart"), "{output:?}");
    std::fs::remove_file(home.state().join("lastword.sock")).unwrap();
}

#[test]
fn a_foreign_listener_is_not_trusted() {
    let home = Home::empty();
    let daemon = stand_in(&home, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}");
    let output = home.run(&["ls"]);
    daemon.join().unwrap();
    assert_eq!(output.code, 125, "{output:?}");
    assert!(output.stderr.contains("is not a Lastword daemon"), "{output:?}");
    std::fs::remove_file(home.state().join("lastword.sock")).unwrap();
}

#[test]
fn c60_a_folder_at_the_path_of_the_socket_is_moved_aside() {
    let home = Home::empty();
    std::fs::DirBuilder::new().mode(0o700).create(home.state()).unwrap();
    std::fs::create_dir(home.state().join("lastword.sock")).unwrap();
    std::fs::write(home.state().join("lastword.sock/precious"), "mine").unwrap();
    home.serve();
    home.ok(&["run", "true"]);
    let aside = std::fs::read_dir(home.state())
        .unwrap()
        .flatten()
        .find(|entry| entry.file_name().to_string_lossy().contains("moved-aside"));
    assert_eq!(std::fs::read_to_string(aside.unwrap().path().join("precious")).unwrap(), "mine");
    // The same with a running daemon.
    std::fs::remove_file(home.state().join("lastword.sock")).unwrap();
    std::fs::create_dir(home.state().join("lastword.sock")).unwrap();
    home.ok(&["run", "true"]);
}

#[test]
fn a_socket_of_another_user_is_not_used() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let home = Home::empty();
    std::fs::DirBuilder::new().mode(0o700).create(home.state()).unwrap();
    std::os::unix::fs::chown(home.state(), Some(54_321), Some(54_321)).unwrap();
    let output = home.run(&["ls"]);
    assert_eq!(output.code, 125, "{output:?}");
    assert!(output.stderr.contains("belongs to another user"), "{output:?}");
    std::os::unix::fs::chown(home.state(), Some(0), Some(0)).unwrap();
}

#[test]
fn a_client_retries_when_the_daemon_has_too_many_connections() {
    let home = Home::new();
    let plain = home.command(&[]);
    let mut few = Command::new("sh");
    few.args(["-c", "ulimit -n 256; exec \"$0\" daemon start"]).arg(plain.get_program()).env_clear();
    few.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    assert!(few.status().unwrap().success());
    // A quarter of its descriptors, each with a stream: it would close idle ones after a while.
    let hold = |_| {
        let mut held = UnixStream::connect(home.state().join("lastword.sock")).unwrap();
        held.write_all(b"GET /v1/events HTTP/1.1\r\nHost: lastword\r\n\r\n").unwrap();
        held
    };
    let held: Vec<UnixStream> = (0..64).map(hold).collect();
    let running = home.spawn(&["run", "echo", "hello"]);
    running.until_said("connections");
    drop(held);
    let output = running.end();
    assert_eq!((output.code, output.stdout.as_str()), (0, "hello\n"), "{output:?}");
}
