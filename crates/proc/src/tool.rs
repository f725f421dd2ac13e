//! Runs short-lived external programs and returns their output. They are not jobs: no later daemon adopts them, so each is bounded in
//! time and output.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

/// Time between TERM, at which a tool cleans up, and KILL.
const GRACE: Duration = Duration::from_secs(2);

/// The size limit of one output stream. A tool with more output should write to a file.
const OUTPUT_MAX: usize = 32 << 20;

/// A program to run.
#[derive(Debug)]
pub struct Tool<'a> {
    /// What to run; looked up in the `PATH` of `env`.
    pub program: &'a OsStr,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// The folder it runs in.
    pub folder: &'a Path,
    /// Its whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// Its stdin; empty if `None`. A locked file stays locked while the tool runs, even if its starter dies.
    pub input: Option<OwnedFd>,
    /// How long it may take.
    pub time_max: Duration,
}

/// The result of running a tool.
#[derive(Debug)]
pub struct ToolOutput {
    /// Its exit status.
    pub status: ExitStatus,
    /// What it wrote to stdout.
    pub stdout: Vec<u8>,
    /// What it wrote to stderr.
    pub stderr: Vec<u8>,
}

/// Returns a descriptor that reads these bytes.
pub fn stdin_from(bytes: &[u8]) -> io::Result<OwnedFd> {
    let file = rustix::fs::memfd_create("input", rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut file = File::from(file);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}

impl Tool<'_> {
    /// Runs it in a process group of its own, so that Ctrl-C in the terminal does not reach it and a timeout ends its children, too.
    pub fn run(self) -> io::Result<ToolOutput> {
        let end = Instant::now() + self.time_max;
        let mut command = self.command();
        finish(command.spawn()?, end)
    }

    #[expect(clippy::disallowed_methods, reason = "this is where processes are started")]
    fn command(self) -> Command {
        let mut command = Command::new(self.program);
        command.args(&self.arguments).current_dir(self.folder).env_clear().envs(self.env);
        command.stdin(self.input.map_or_else(Stdio::null, Stdio::from));
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        command
    }
}

/// Reads the output of a tool and waits for its exit. Kills it if it takes too long or writes too much.
fn finish(mut child: Child, end: Instant) -> io::Result<ToolOutput> {
    match read_output(&mut child, end) {
        Ok((stdout, stderr)) => Ok(ToolOutput { status: child.wait()?, stdout, stderr }),
        Err(error) => {
            terminate(&mut child)?;
            Err(error)
        }
    }
}

/// Reads both streams until it exits. Does not wait for background processes that it left behind.
fn read_output(child: &mut Child, end: Instant) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let missing = || io::Error::other("it has no output");
    let mut stdout: ChildStdout = child.stdout.take().ok_or_else(missing)?;
    let mut stderr: ChildStderr = child.stderr.take().ok_or_else(missing)?;
    for stream in [stdout.as_fd(), stderr.as_fd()] {
        rustix::io::ioctl_fionbio(stream, true)?;
    }
    let ended = pidfd_open(pid_of(child)?, PidfdFlags::empty())?;
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let (mut out_open, mut err_open) = (true, true);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let mut waits = vec![PollFd::new(&ended, PollFlags::IN)];
        waits.extend(out_open.then(|| PollFd::new(&stdout, PollFlags::IN)));
        waits.extend(err_open.then(|| PollFd::new(&stderr, PollFlags::IN)));
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        match poll(&mut waits, Some(&left)) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other?,
        };
        // Checked first: what it wrote before its exit is still readable afterwards.
        let is_over = !waits[0].revents().is_empty();
        out_open = out_open && read_available(&mut stdout, &mut out)?;
        err_open = err_open && read_available(&mut stderr, &mut err)?;
        if is_over {
            return Ok((out, err));
        }
    }
}

/// Reads what is available; returns whether more may follow.
fn read_available(stream: &mut impl io::Read, output: &mut Vec<u8>) -> io::Result<bool> {
    let mut part = [0; 16 << 10];
    loop {
        match stream.read(&mut part) {
            Ok(0) => return Ok(false),
            Ok(_) if output.len() > OUTPUT_MAX => return Err(io::Error::other("it wrote too much output")),
            Ok(count) => output.extend_from_slice(&part[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Kills its process group. The group's pid is still its own because it was not reaped yet.
fn terminate(child: &mut Child) -> io::Result<()> {
    let group = pid_of(child)?;
    let ended = pidfd_open(group, PidfdFlags::empty())?;
    let _ = kill_process_group(group, Signal::TERM);
    let grace = Timespec { tv_sec: GRACE.as_secs() as i64, tv_nsec: 0 };
    let _ = poll(&mut [PollFd::new(&ended, PollFlags::IN)], Some(&grace));
    let _ = kill_process_group(group, Signal::KILL);
    child.wait().map(drop)
}

fn pid_of(child: &Child) -> io::Result<Pid> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| io::Error::other("a process without a pid"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(script: &str, time_max: Duration, input: Option<OwnedFd>) -> Tool<'static> {
        Tool {
            program: OsStr::new("sh"),
            arguments: vec!["-c".into(), script.into()],
            folder: Path::new("/"),
            env: vec![("PATH".into(), "/usr/bin:/bin".into()), ("ONLY".into(), "this".into())],
            input,
            time_max,
        }
    }

    fn shell(script: &str, time_max: Duration, input: Option<OwnedFd>) -> io::Result<ToolOutput> {
        tool(script, time_max, input).run()
    }

    #[test]
    fn both_streams_and_the_status_are_returned_and_only_the_given_environment_is_set() {
        let input = stdin_from(b"from stdin\n").unwrap();
        let said =
            shell("cat; pwd; echo $ONLY $HOME; echo oh >&2; exit 3", Duration::from_secs(30), Some(input));
        let said = said.unwrap();
        assert_eq!(String::from_utf8_lossy(&said.stdout), "from stdin\n/\nthis\n");
        assert_eq!((said.status.code(), said.stderr.as_slice()), (Some(3), b"oh\n".as_slice()));
    }

    #[test]
    fn output_larger_than_a_pipe_is_read() {
        let said = shell("head -c 3000000 /dev/zero; echo end >&2", Duration::from_secs(30), None).unwrap();
        assert_eq!((said.stdout.len(), said.stderr.as_slice()), (3_000_000, b"end\n".as_slice()));
    }

    #[test]
    fn background_processes_are_not_waited_for() {
        // It takes longer than the tool may.
        let said = shell("sleep 1000 & echo $!", Duration::from_secs(30), None).unwrap();
        let left: i32 = String::from_utf8_lossy(&said.stdout).trim().parse().unwrap();
        rustix::process::kill_process(Pid::from_raw(left).unwrap(), Signal::KILL).unwrap();
    }

    #[test]
    fn a_timeout_kills_its_children_too() {
        let folder = tempfile::tempdir().unwrap();
        let note = folder.path().join("pid");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, note.as_path(), mode).unwrap();
        let script = format!("trap '' TERM; sleep 1000 & echo $! > {}; wait; wait", note.display());
        let child = tool(&script, Duration::ZERO, None).command().spawn().unwrap();
        // This waits for the script, which has a child from then on. Its time begins to count after that.
        let left: i32 = std::fs::read_to_string(&note).unwrap().trim().parse().unwrap();
        let ended = pidfd_open(Pid::from_raw(left).unwrap(), PidfdFlags::empty()).unwrap();
        let error = finish(child, Instant::now() + Duration::from_millis(300)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        // The kernel may take a moment to end it; by itself it would run for much longer than this waits.
        let patience = Timespec { tv_sec: 60, tv_nsec: 0 };
        let ready = poll(&mut [PollFd::new(&ended, PollFlags::IN)], Some(&patience)).unwrap();
        assert_eq!(ready, 1, "{left} is still alive");
    }

    #[test]
    fn too_much_output_is_an_error() {
        let error = shell("yes", Duration::from_secs(60), None).unwrap_err();
        assert_eq!(error.to_string(), "it wrote too much output");
    }
}
