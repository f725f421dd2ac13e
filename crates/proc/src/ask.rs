//! Asking a program of this machine a question: it is started, its answer is read, and it is gone when this returns.

use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

/// Bytes of an answer: a line or two are expected.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Starts a program, found by its name, and returns what it printed. One that takes longer than `within` is killed, and so is what
/// it started in its group.
#[expect(clippy::disallowed_methods, reason = "this is where processes are started")]
pub fn ask(program: &str, arguments: &[&str], within: Duration) -> io::Result<String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.process_group(0).spawn()?;
    let mut answer = Vec::new();
    let heard = child.stdout.take().map_or(Ok(()), |pipe| hear(pipe, &mut answer, within));
    if heard.is_err() {
        let group = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
        // Not waited for yet, so its number is still its own, and its group's.
        let _ = group.map(|group| rustix::process::kill_process_group(group, rustix::process::Signal::KILL));
    }
    let status = child.wait()?;
    heard?;
    match status.success() {
        true => Ok(String::from_utf8_lossy(&answer).trim_end().to_owned()),
        false => Err(io::Error::other(format!("it ended with {status}"))),
    }
}

/// Reads to the end, or until the time is up.
fn hear(mut pipe: std::process::ChildStdout, answer: &mut Vec<u8>, within: Duration) -> io::Result<()> {
    let until = Instant::now() + within;
    let mut buffer = [0; 4096];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = rustix::time::Timespec::try_from(left).map_err(io::Error::other)?;
        let fd = pipe.as_fd();
        let ready =
            rustix::io::retry_on_intr(|| poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)))?;
        if ready == 0 || answer.len() > ANSWER_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {within:?}")));
        }
        match pipe.read(&mut buffer)? {
            0 => return Ok(()),
            read => answer.extend_from_slice(&buffer[..read]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_comes_back_and_a_silent_program_is_gone() {
        let long = Duration::from_secs(30);
        assert_eq!(ask("echo", &["one", "two"], long).unwrap(), "one two");
        assert_eq!(
            ask("lastword-has-no-such-program", &[], long).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        assert!(ask("false", &[], long).unwrap_err().to_string().contains("exit status: 1"));
        let begun = Instant::now();
        let silent = ask("sh", &["-c", "sleep 100 & sleep 100"], Duration::from_millis(200)).unwrap_err();
        assert_eq!(silent.kind(), io::ErrorKind::TimedOut);
        assert!(begun.elapsed() < long);
        let endless = ask("yes", &[], long).unwrap_err();
        assert_eq!(endless.kind(), io::ErrorKind::TimedOut, "what never ends is no answer");
    }
}
