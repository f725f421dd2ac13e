//! What is shown at a terminal, and what becomes of a job whose reader goes away.

use crate::track::home::{Home, is_gone_soon};
use crate::track::row::{Seen, held_if, rows};

rows! {
    "A14" ours After010 Nothing []
        "A job with a terminal never learns a new size of the user's terminal."
        => "It gets the new size.",
        new_size;
    "A14-screen" ours After010 Nothing []
        "Leaving a full-screen program leaves the alternate screen on and the cursor hidden."
        => "The terminal is as it was.",
        screen_is_restored;
    "A15" ours After010 Nothing []
        "Colours of a job are printed as text at a terminal."
        => "They are colours.",
        colours;
    "A16" ours After010 Nothing []
        "`lastword run -- yes` in a pipe to `head -1` leaves `yes` running for ever."
        => "The job is stopped when its reader is gone.",
        closed_pipe;
}

/// Runs a job in a terminal of 24 lines, makes it 31 lines, and prints what is shown.
const TERMINAL: &str = r#"
import fcntl, os, pty, select, signal, struct, sys, termios, time
def size(fd, rows): fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 80, 0, 0))
script = "trap 'stty size' WINCH; echo ready; while :; do sleep 0.01; done"
pid, fd = pty.fork()
if pid == 0:
    os.execv(os.environ["LASTWORD"], ["lastword", "run", "-t", "--name", "sizes", "--", "sh", "-c", script])
size(fd, 24)
shown, deadline, resized = "", time.time() + 15, False
while time.time() < deadline and "31 80" not in shown:
    if select.select([fd], [], [], 0.1)[0]:
        shown += os.read(fd, 4096).decode(errors="replace")
    if "ready" in shown and not resized:
        size(fd, 31)
        resized = True
print(repr(shown))
os.kill(pid, signal.SIGKILL)
"#;

fn new_size(home: &Home) -> Seen {
    let mut command = home.command("python3");
    let output = command.args(["-c", TERMINAL]).env("TERM", "xterm").output();
    let output = output.map_err(|error| format!("python3: {error}"))?;
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    match shown.contains("ready") {
        true => held_if(shown.contains("31 80"), shown.trim()),
        false => Err(format!("the job does not start: {shown} {}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// Leaves a full-screen program with Ctrl-P Ctrl-Q, and prints what the terminal was sent.
const FULL_SCREEN: &str = r#"
import os, pty, select, time
script = r"printf '\033[?1049h\033[?25lready'; sleep 1000"
pid, fd = pty.fork()
if pid == 0:
    os.execv(os.environ["LASTWORD"], ["lastword", "run", "-t", "--name", "full", "--", "sh", "-c", script])
shown, deadline, left = b"", time.time() + 30, False
while time.time() < deadline:
    try:
        if select.select([fd], [], [], 0.1)[0]:
            piece = os.read(fd, 4096)
            if not piece: break
            shown += piece
    except OSError:
        break
    if b"ready" in shown and not left:
        os.write(fd, b"\x10\x11")
        left = True
print(repr(shown))
"#;

fn screen_is_restored(home: &Home) -> Seen {
    let mut command = home.command("python3");
    let output = command.args(["-c", FULL_SCREEN]).env("TERM", "xterm").output();
    let output = output.map_err(|error| format!("python3: {error}"))?;
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    match shown.contains("ready") {
        true => held_if(shown.contains("[?1049l") && shown.contains("[?25h"), shown.trim()),
        false => Err(format!("the job does not start: {shown} {}", String::from_utf8_lossy(&output.stderr))),
    }
}

fn colours(home: &Home) -> Seen {
    let script =
        r#"export TERM=xterm; script -qec "$LASTWORD run -- printf '\033[31mred\033[0m\n'" /dev/null"#;
    let shown = home.shell(script)?.out;
    match shown.contains("red") {
        true => held_if(shown.contains("\x1b[31mred") && !shown.contains('␛'), format!("{shown:?}")),
        false => Err(format!("nothing is shown: {shown:?}")),
    }
}

fn closed_pipe(home: &Home) -> Seen {
    let run = home.shell("$LASTWORD run --name flood -- sh -c 'echo $$ > $PLACE/pid; exec yes' | head -1")?;
    let leader = home.pid_in("pid")?;
    let is_gone = is_gone_soon(leader);
    held_if(is_gone, format!("head printed {:?}; `yes` is gone: {is_gone}", run.out))
}
