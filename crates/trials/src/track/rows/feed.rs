//! The feed of events and the API.

use crate::product::figures;
use crate::track::home::{Home, within};
use crate::track::row::{Seen, held_if, rows};

rows! {
    "000-46" OUROBOROS_464 After010 Nothing []
        "Consumers want one kind of event, or the events of one piece of work."
        => "`events --type last_word --label` prints those alone.",
        events_of_one_kind;
    "002-10" CODEX_PLUGIN_184 After010 Nothing []
        "The broker shuts down, and its clients are not told."
        => "A client that follows a job through the API is told that the daemon stops, and what happens to its jobs.",
        stream_is_told;
    "A9" ours After010 Nothing []
        "600 unfinished request bodies of 2 MiB grow the daemon to more than a gigabyte."
        => "The daemon stays below 512 MB, and commands are answered.",
        unfinished_bodies;
    "B14" ours After010 Nothing []
        "A stream of the API ends without a word when the daemon stops."
        => "The stream says so before it ends.",
        stream_is_told;
    "D5" ours After010 Nothing []
        "`POST /v1/jobs:prune` and `POST /v1/daemon:stop` act without a body."
        => "Both are refused: the job is still there, and the daemon still runs.",
        requests_without_a_body;
}

fn events_of_one_kind(home: &Home) -> Seen {
    for flags in ["-l team=a", "-l team=b"] {
        let job = home.start(flags, "exit 0")?;
        home.ended(&job)?;
    }
    let ran = home.run(&["events", "--type", "last_word", "--label", "team=a", "--json"])?;
    let lines: Vec<&str> = ran.out.lines().collect();
    let is_held = ran.code == 0 && lines.len() == 1 && lines[0].contains("\"last_word\"");
    held_if(is_held, format!("exit {}, {} lines {}", ran.code, lines.len(), ran.err.trim()))
}

const CURL: &str = "curl -sS -m 20 --unix-socket $LASTWORD_HOME/lastword.sock";

fn stream_is_told(home: &Home) -> Seen {
    let job = home.start("", "sleep 1000")?;
    home.leader(&job)?;
    let script = format!(
        "({CURL} -N -H 'Accept: text/event-stream' http://x/v1/jobs/{job}/events > $PLACE/stream; echo > $PLACE/over) & \
         until grep -q submitted $PLACE/stream; do sleep 0.02; done; $LASTWORD daemon stop; wait"
    );
    home.shell(&script)?;
    home.file("over")?;
    let stream = std::fs::read_to_string(home.work("stream")).map_err(|error| error.to_string())?;
    let last: Vec<&str> = stream.lines().filter(|line| !line.is_empty()).rev().take(3).collect();
    let is_held = last.iter().any(|line| line.contains("stop"));
    held_if(is_held, format!("the last lines of the stream: {last:?}"))
}

/// Sends all but the end of a body on 600 connections, then runs a job.
const UNFINISHED: &str = r#"
import os, socket, subprocess, threading
path = os.environ["LASTWORD_HOME"] + "/lastword.sock"
head = b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2090000\r\n\r\n"
body, connections = head + b'{"argv":["' + b"x" * 2060000, []
def send():
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(10)
    connections.append(connection)
    try:
        connection.connect(path)
        connection.sendall(body)
    except OSError:
        pass
threads = [threading.Thread(target=send) for _ in range(600)]
for thread in threads: thread.start()
for thread in threads: thread.join()
subprocess.run([os.environ["LASTWORD"], "run", "--", "echo", "answered"])
"#;

fn unfinished_bodies(home: &Home) -> Seen {
    home.ok(&["daemon", "start"])?;
    let daemon = home.daemon()?;
    let mut command = home.command("python3");
    let output = command.args(["-c", UNFINISHED]).output().map_err(|error| format!("python3: {error}"))?;
    let most_kb = figures::most_resident_kb(daemon).ok_or("the daemon is gone")?;
    let is_answered = output.stdout == b"answered\n";
    held_if(
        is_answered && most_kb < 512 << 10,
        format!("at most {} MB; answered: {is_answered}", most_kb >> 10),
    )
}

fn requests_without_a_body(home: &Home) -> Seen {
    let job = home.start("", "exit 0")?;
    home.ended(&job)?;
    home.run(&["result", &job])?;
    let daemon = home.daemon()?;
    let post = |path: &str| {
        let ran =
            home.shell(&format!("{CURL} -o /dev/null -w '%{{http_code}}' -X POST http://x/v1/{path}"))?;
        Ok::<String, String>(ran.out)
    };
    let prune = post("jobs:prune")?;
    let kept = home.run(&["show", &job])?.code == 0;
    let stop = post("daemon:stop")?;
    let runs =
        within(std::time::Duration::from_secs(1), || (home.daemon().ok()? != daemon).then_some(())).is_none();
    let is_held = prune.starts_with('4') && stop.starts_with('4') && kept && runs;
    held_if(is_held, format!("prune {prune}, job kept: {kept}; stop {stop}, same daemon: {runs}"))
}
