//! The leader: forked behind a gate, recorded, then released.
//!
//! The child prepares itself (session, stdio, containment) and reports its progress; it executes the program only when the gate opens. If
//! the keeper dies first, the gate closes and the child exits before any user code has run.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use lastword_core::receipt::{LaunchError, LaunchStep, Level};
use rustix::fs::{Gid, Mode, OFlags, Uid};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal, setsid};

use super::input::Input;
use super::output::Stream;
use crate::attributes::Withheld;
use crate::launch::{self, Launch, MARKER};
use crate::level::namespace_watch::{self, NamespaceWatch};
use crate::level::{cgroup, landlock, limit_fence, namespace};
use crate::sys::{self, Fork};
use crate::user::Ids;

/// The search path if the environment has no `PATH`.
const PATH_DEFAULT: &str = "/usr/local/bin:/usr/bin:/bin";

/// A leader behind its gate.
pub(super) struct Spawned {
    pub(super) pid: i32,
    /// Writing to it releases the child; dropping it ends the child.
    gate: OwnedFd,
    /// Closes without data when the program was executed.
    pub(super) verdict: OwnedFd,
    pub(super) streams: Vec<Stream>,
    pub(super) input: Input,
    pub(super) is_landlocked: bool,
    /// The attributes that could not be set.
    pub(super) withheld: Withheld,
    /// The init of its namespace, if it has one.
    pub(super) init: Option<namespace::Init>,
    /// Tells when a process of the tree enters a namespace.
    pub(super) namespaces: Option<NamespaceWatch>,
}

/// How a leader is contained besides by its keeper.
pub(super) struct Containment<'a> {
    pub(super) leaf: Option<&'a cgroup::Leaf>,
    pub(super) use_landlock: bool,
    pub(super) use_namespace: bool,
}

/// A step that the child reports, together with an error number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Ready behind the gate. The number holds whether it is landlocked and which attributes could not be set.
    Ready = 1,
    Session,
    Stdio,
    Cgroup,
    Privileges,
    Folder,
    Exec,
}

/// The size of a report: small enough for an atomic write to a pipe.
const REPORT_BYTES: usize = 5;

/// The child's ends of pipes or of a terminal.
struct Stdio {
    input: OwnedFd,
    output: OwnedFd,
    error: OwnedFd,
    is_terminal: bool,
}

/// Why nothing was run: the message, and the step that failed.
#[derive(Clone, Debug)]
pub(super) struct NotRun {
    pub(super) message: String,
    pub(super) error: LaunchError,
}

impl NotRun {
    /// Returns a failure of the keeper itself, with the error of the system if there was one.
    pub(super) fn in_keeper(what: &str, error: Option<&io::Error>) -> NotRun {
        let errno = error.and_then(io::Error::raw_os_error);
        let message = error.map_or_else(|| what.to_owned(), |error| format!("{what}: {error}"));
        NotRun { message, error: LaunchError { step: LaunchStep::Keeper, errno } }
    }

    /// Returns the refusal of a launch whose lease is over: another host may have started the job.
    pub(super) fn without_lease() -> NotRun {
        let message = "the lease of this worker was over before the program was started".to_owned();
        NotRun { message, error: LaunchError::at(LaunchStep::Lease) }
    }
}

/// Forks the leader and waits until it is ready behind its gate.
pub(super) fn spawn(launch: &Launch, containment: &Containment<'_>) -> Result<Spawned, NotRun> {
    let failed = |what: &str, error: io::Error| NotRun::in_keeper(&format!("cannot {what}"), Some(&error));
    let (streams, input, stdio) =
        connect(launch).map_err(|error| failed("connect its input and output", error))?;
    let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(|error| failed("make a pipe", error.into()));
    let ((gate_read, gate), (verdict, verdict_write)) = (pipe()?, pipe()?);
    let parent = if containment.use_namespace { Pid::INIT } else { getpid() };
    // Out of a namespace of its own, the kernel lets a tree enter only those that it made.
    let is_watched = !containment.use_namespace && !launch.new_privileges;
    let handover = if is_watched { namespace_watch::handover().ok() } else { None };
    let mut child = Child {
        launch,
        containment,
        to_join: None,
        parent,
        verdict: &verdict_write,
        gate: &gate_read,
        keeper_end: &gate,
        handover: handover.as_ref().map(|(_, theirs)| theirs),
    };
    let (pid, init) = if containment.use_namespace {
        let init =
            namespace::spawn(|| child.run(&stdio)).map_err(|error| failed("start a namespace", error))?;
        (init.leader, Some(init))
    } else {
        let forked = match containment.leaf.map(cgroup::Leaf::fork) {
            Some(Ok(forked)) => Ok(forked),
            _ => {
                child.to_join = containment.leaf;
                sys::fork()
            }
        };
        match forked.map_err(|error| failed("fork", error))? {
            Fork::Child => child.run(&stdio),
            Fork::Parent(pid) => (pid, None),
        }
    };
    drop((gate_read, verdict_write, stdio));
    let spawned = Spawned {
        pid,
        gate,
        verdict,
        streams,
        input,
        is_landlocked: false,
        withheld: 0,
        init,
        namespaces: None,
    };
    let mut spawned = spawned.until_ready(launch)?;
    if let Some((ours, _)) = handover {
        spawned.namespaces =
            NamespaceWatch::receive(&ours).map_err(|error| failed("watch its namespaces", error))?;
    }
    Ok(spawned)
}

impl Spawned {
    fn until_ready(mut self, launch: &Launch) -> Result<Spawned, NotRun> {
        match read_report(&self.verdict) {
            Ok(Some((Step::Ready, flags))) => {
                (self.is_landlocked, self.withheld) = (flags & 1 == 1, flags.cast_unsigned() >> 1);
            }
            Ok(Some(report)) => return Err(not_run(launch, report)),
            Ok(None) => return Err(NotRun::in_keeper("the leader died before it was ready", None)),
            Err(error) => return Err(NotRun::in_keeper("cannot read from the child", Some(&error))),
        }
        let flags = rustix::fs::fcntl_getfl(&self.verdict).unwrap_or(OFlags::empty());
        let _ = rustix::fs::fcntl_setfl(&self.verdict, flags | OFlags::NONBLOCK);
        Ok(self)
    }

    /// Lets the program run.
    pub(super) fn open_gate(&self) -> io::Result<()> {
        rustix::io::retry_on_intr(|| rustix::io::write(&self.gate, &[1]))?;
        Ok(())
    }

    /// Reads the verdict: `None` if the program was executed, or why it was not. An error means that there is no verdict yet or that it
    /// could not be read; only the end of the pipe proves that the program was executed.
    pub(super) fn verdict(&self, launch: &Launch) -> io::Result<Option<NotRun>> {
        Ok(read_report(&self.verdict)?.map(|report| not_run(launch, report)))
    }
}

fn read_report(pipe: &OwnedFd) -> io::Result<Option<(Step, i32)>> {
    let mut report = [0; REPORT_BYTES];
    if rustix::io::retry_on_intr(|| rustix::io::read(pipe, &mut report))? != REPORT_BYTES {
        return Ok(None);
    }
    let [step, number @ ..] = report;
    let steps =
        [Step::Ready, Step::Session, Step::Stdio, Step::Cgroup, Step::Privileges, Step::Folder, Step::Exec];
    let step = steps.into_iter().find(|known| *known as u8 == step);
    Ok(step.map(|step| (step, i32::from_le_bytes(number))))
}

fn not_run(launch: &Launch, (step, errno): (Step, i32)) -> NotRun {
    let (step, what) = match step {
        Step::Folder => {
            (LaunchStep::Folder, format!("cannot enter the folder {}", truncated(launch.cwd.as_os_str())))
        }
        Step::Exec => (LaunchStep::Exec, format!("cannot run {}", truncated(&launch.argv[0]))),
        Step::Cgroup => (LaunchStep::Cgroup, "cannot enter the control group".to_owned()),
        Step::Privileges => (LaunchStep::Privileges, "cannot give up privileges".to_owned()),
        Step::Session => (LaunchStep::Session, "cannot start a session".to_owned()),
        Step::Stdio | Step::Ready => (LaunchStep::Stdio, "cannot connect its input and output".to_owned()),
    };
    let message = format!("{what}: {}", io::Error::from_raw_os_error(errno));
    NotRun { message, error: LaunchError { step, errno: Some(errno) } }
}

/// Returns a name for a record, truncated so that the record stays below its size limit.
fn truncated(name: &OsStr) -> String {
    /// A path has at most 4 KiB; this much identifies it.
    const CHARACTERS_MAX: usize = 1_000;
    name.to_string_lossy().chars().take(CHARACTERS_MAX).collect()
}

/// Creates both ends of stdio: ours and the child's.
fn connect(launch: &Launch) -> io::Result<(Vec<Stream>, Input, Stdio)> {
    if let Some((rows, columns)) = launch.terminal {
        return connect_terminal(launch, rows, columns);
    }
    let pipe = || pipe_with(PipeFlags::CLOEXEC);
    let ((out_read, out), (error_read, error)) = (pipe()?, pipe()?);
    let (input, ours) = match launch.input {
        launch::Input::Null => (open_null()?, None),
        launch::Input::Pipe => {
            let (read, write) = pipe()?;
            (read, Some(write))
        }
    };
    for fd in [Some(&out_read), Some(&error_read), ours.as_ref()].into_iter().flatten() {
        rustix::fs::fcntl_setfl(fd, OFlags::NONBLOCK)?;
    }
    let streams = vec![
        Stream::new("stdout", out_read, launch.stdout),
        Stream::new("stderr", error_read, launch.stderr),
    ];
    let stdio = Stdio { input, output: out, error, is_terminal: false };
    Ok((streams, Input::new(ours, false), stdio))
}

fn connect_terminal(launch: &Launch, rows: u16, columns: u16) -> io::Result<(Vec<Stream>, Input, Stdio)> {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let name = ptsname(&master, Vec::new())?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let slave = rustix::fs::open(name.as_c_str(), flags, Mode::empty())?;
    let size = rustix::termios::Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&master, size)?;
    rustix::fs::fcntl_setfl(&master, OFlags::RDWR | OFlags::NONBLOCK)?;
    let dup = |fd: &OwnedFd| fcntl_dupfd_cloexec(fd, 3);
    let stdio = Stdio { input: dup(&slave)?, output: dup(&slave)?, error: slave, is_terminal: true };
    let input = (launch.input == launch::Input::Pipe).then(|| dup(&master)).transpose()?;
    Ok((vec![Stream::new("stdout", master, launch.stdout)], Input::new(input, true), stdio))
}

fn open_null() -> io::Result<OwnedFd> {
    Ok(rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?)
}

/// The child between fork and exec.
struct Child<'a> {
    launch: &'a Launch,
    containment: &'a Containment<'a>,
    /// The control group to join, if the child was not forked into it.
    to_join: Option<&'a cgroup::Leaf>,
    parent: Pid,
    verdict: &'a OwnedFd,
    gate: &'a OwnedFd,
    /// The keeper's end of the gate. If the child held it open, the gate would never close.
    keeper_end: &'a OwnedFd,
    /// Where to hand over the listener for entered namespaces.
    handover: Option<&'a OwnedFd>,
}

impl Child<'_> {
    fn run(&self, stdio: &Stdio) -> ! {
        sys::close_in_child(self.keeper_end);
        let landlocked = match self.prepare(stdio) {
            Ok(landlocked) => landlocked,
            Err((step, error)) => self.fail(step, &error),
        };
        let withheld = self.launch.attributes.raise();
        self.report(Step::Ready, i32::from(landlocked) | (withheld << 1).cast_signed());
        let mut byte = [0];
        let opened = loop {
            match rustix::io::read(self.gate, &mut byte) {
                Err(rustix::io::Errno::INTR) => {}
                other => break other == Ok(1),
            }
        };
        if !opened {
            sys::exit(125);
        }
        if let Some(user) = &self.launch.user
            && let Err(error) = self.become_user(user)
        {
            self.fail(Step::Privileges, &error.into());
        }
        // After the gate: the folder may be on a hanging server, and the keeper waits for us until here.
        if let Err(error) = rustix::process::chdir(self.launch.cwd.as_path()) {
            self.fail(Step::Folder, &error.into());
        }
        let error = self.exec();
        self.fail(Step::Exec, &error)
    }

    fn prepare(&self, stdio: &Stdio) -> Result<bool, (Step, io::Error)> {
        let at = |step: Step| move |error: rustix::io::Errno| (step, io::Error::from(error));
        sys::default_signals();
        sys::set_dumpable();
        // If the shim dies, only this child dies with it; the guard becomes the parent of the rest of the tree.
        set_parent_process_death_signal(Some(Signal::KILL)).map_err(at(Step::Session))?;
        if getppid() != Some(self.parent) {
            sys::exit(125);
        }
        setsid().map_err(at(Step::Session))?;
        if stdio.is_terminal {
            rustix::process::ioctl_tiocsctty(&stdio.input).map_err(at(Step::Session))?;
        }
        rustix::stdio::dup2_stdin(&stdio.input).map_err(at(Step::Stdio))?;
        rustix::stdio::dup2_stdout(&stdio.output).map_err(at(Step::Stdio))?;
        rustix::stdio::dup2_stderr(&stdio.error).map_err(at(Step::Stdio))?;
        if let Some(leaf) = self.to_join {
            leaf.join().map_err(|error| (Step::Cgroup, error))?;
        }
        if !self.launch.new_privileges {
            rustix::thread::set_no_new_privs(true).map_err(at(Step::Privileges))?;
            // A kernel without filters runs the job all the same.
            let _ = limit_fence::restrict();
            if let Some(keeper) = self.handover {
                namespace_watch::restrict(keeper).map_err(|error| (Step::Privileges, error))?;
            }
        }
        let landlocked = self.containment.use_landlock && landlock::restrict().is_ok();
        Ok(landlocked)
    }

    /// Gives up the keeper's user for that of the job.
    fn become_user(&self, user: &Ids) -> rustix::io::Result<()> {
        let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.groups[0]));
        let groups: Vec<Gid> = user.groups.iter().map(|group| Gid::from_raw(*group)).collect();
        rustix::thread::set_thread_groups(&groups)?;
        rustix::thread::set_thread_res_gid(gid, gid, gid)?;
        rustix::thread::set_thread_res_uid(uid, uid, uid)?;
        // The kernel forgets it with the user. The keeper may have died in between.
        set_parent_process_death_signal(Some(Signal::KILL))?;
        if getppid() != Some(self.parent) {
            sys::exit(125);
        }
        Ok(())
    }

    /// Looks the program up as a shell does, and executes it.
    fn exec(&self) -> io::Error {
        let c_string = |text: &OsString| CString::new(text.as_bytes()).ok();
        let argv: Option<Vec<CString>> = self.launch.argv.iter().map(c_string).collect();
        let marker = (OsString::from(MARKER), OsString::from(&self.launch.marker));
        let pairs = self.launch.env.iter().filter(|(name, _)| name != MARKER).chain([&marker]);
        let env: Option<Vec<CString>> = pairs
            .map(|(name, value)| {
                let mut pair = name.clone();
                pair.push("=");
                pair.push(value);
                c_string(&pair)
            })
            .collect();
        let (Some(argv), Some(env)) = (argv, env) else {
            return io::Error::from_raw_os_error(libc::EINVAL);
        };
        let candidates: Vec<CString> = self
            .candidates()
            .into_iter()
            .filter_map(|path| CString::new(path.into_os_string().into_vec()).ok())
            .collect();
        let mut refused = io::Error::from_raw_os_error(libc::ENOENT);
        // Allocate nothing from here on: the limits may not allow it.
        self.launch.attributes.apply();
        for path in candidates {
            let error = sys::execve(&path, &argv, &env);
            match error.raw_os_error() {
                Some(libc::ENOENT | libc::ENOTDIR) => {}
                // Found but not executable for us; a later folder may have another.
                Some(libc::EACCES) => refused = error,
                _ => return error,
            }
        }
        refused
    }

    fn candidates(&self) -> Vec<PathBuf> {
        let program = &self.launch.argv[0];
        if program.as_bytes().contains(&b'/') {
            return vec![PathBuf::from(program)];
        }
        let path = self.launch.env.iter().find(|(name, _)| name == "PATH");
        let path = path.map_or(PATH_DEFAULT.into(), |(_, value)| value.clone());
        std::env::split_paths(&path).map(|folder| folder.join(program)).collect()
    }

    fn report(&self, step: Step, number: i32) {
        let mut report = [step as u8; REPORT_BYTES];
        report[1..].copy_from_slice(&number.to_le_bytes());
        let _ = rustix::io::write(self.verdict.as_fd(), &report);
    }

    fn fail(&self, step: Step, error: &io::Error) -> ! {
        self.report(step, error.raw_os_error().unwrap_or(libc::EINVAL));
        sys::exit(126)
    }
}

/// Redirects stdin, stdout and stderr to `/dev/null`.
pub(super) fn detach_stdio() -> io::Result<()> {
    let null = open_null()?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    debug_assert!(null.as_raw_fd() > 2);
    Ok(())
}

/// Returns the containment level of a leader.
pub(super) fn level_of(containment: &Containment<'_>, is_landlocked: bool) -> Level {
    match containment {
        Containment { use_namespace: true, .. } => Level::Namespace,
        Containment { leaf: Some(_), .. } => Level::Cgroup,
        _ if is_landlocked => Level::Landlock,
        _ => Level::Subreaper,
    }
}
