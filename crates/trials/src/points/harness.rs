//! One attempt, from its launch to its last word, as a daemon that comes later finds it.

use std::fs;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use lastword_core::receipt::{Exit, Level, Proof, Receipt};
use lastword_proc::{
    Error, ExitRecord, Identity, Keeper, Launch, Launched, LeaseFile, Located, Nursery, Recording, Stop,
    boot_id, locate,
};

use super::case::{Case, Variant};
use super::leader;
use crate::clock;
use crate::place::Programs;
use crate::torture::observer::Observer;
use crate::tracer::{Role, Seen, Tracer};

/// How long an attempt may take to its last word: some hundred times what it takes undisturbed.
const ENDING_WITHIN: Duration = Duration::from_secs(15);

/// After so long without an end, everything is killed so that the trial itself ends.
const HUNG_AFTER: Duration = Duration::from_secs(40);

/// How long keepers may take to be gone after their last word.
const GONE_WITHIN: Duration = Duration::from_secs(5);

/// How long a look waits for a change, where a job that is to be stopped may have to be asked again.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Graces of the job: long enough to be a state of the keeper, short enough for thousands of attempts.
const GRACE_MS: u64 = 5;

/// The program that a harness starts as its nursery.
const SCRIPT: &str = "nursery";

/// How a later daemon finds out what happened: correctly, or wrong on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recovery {
    /// As a daemon does it.
    Locate,
    /// Assumes that a keeper that is gone took its tree along.
    NoSweep,
}

/// What was seen of one attempt.
pub(super) struct Story {
    pub(super) seen: Seen,
    pub(super) launched: Result<Launched, Error>,
    /// The last word, and what a second look says; `None` if there was none in time.
    pub(super) word: Option<Located>,
    pub(super) again: Option<Located>,
    pub(super) has_exit: bool,
    /// Processes of the job that were alive after the last word.
    pub(super) survivors: Vec<String>,
    /// Keeper processes that were alive long after it.
    pub(super) lingering: Vec<String>,
    pub(super) ran: bool,
    pub(super) printed: bool,
    pub(super) done: bool,
    /// How the leader exited, by the kernel's own word, where it gives one.
    pub(super) truth: Option<Exit>,
    pub(super) stdout: Recorded,
    pub(super) stderr: Recorded,
    pub(super) is_hung: bool,
    pub(super) errors: Vec<String>,
}

/// What a recording holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Recorded {
    /// Bytes, with where they belong.
    pub(super) parts: Vec<(u64, Vec<u8>)>,
}

/// Where attempts are made, one after the other: a nursery inside a control group that only the judge knows.
pub(super) struct Harness {
    programs: Programs,
    folder: PathBuf,
    observer: Observer,
    nursery: Option<Nursery>,
    levels: Vec<Level>,
    attempts: u32,
}

impl Harness {
    pub(super) fn new(programs: Programs, folder: &Path, name: &str) -> Result<Harness, String> {
        let folder = folder.join(name);
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let observer = Observer::new(&format!("points-{name}"), None)?;
        let mut harness =
            Harness { programs, folder, observer, nursery: None, levels: Vec::new(), attempts: 0 };
        harness.write_script()?;
        harness.start_nursery()?;
        Ok(harness)
    }

    /// Returns the levels that this machine has.
    pub(super) fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// Writes the program that goes inside and becomes a nursery there. Called once, before there are other threads: a
    /// file that a fork by another thread holds open for writing cannot be run.
    fn write_script(&self) -> Result<(), String> {
        let script = self.folder.join(SCRIPT);
        let text = format!(
            "#!/bin/sh\necho $$ >{} && exec {} \"$@\"\n",
            self.observer.ward().join("cgroup.procs").display(),
            self.programs.lastword.display()
        );
        let say = |error: std::io::Error| format!("{}: {error}", script.display());
        fs::write(&script, text).map_err(say)?;
        fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).map_err(say)
    }

    /// Starts a nursery that is inside from its first instruction, so that the groups it makes are, too.
    fn start_nursery(&mut self) -> Result<i32, String> {
        if let Some(nursery) = &self.nursery {
            return Ok(nursery.pid());
        }
        let nursery = Nursery::start(&self.folder.join(SCRIPT)).map_err(|error| error.to_string())?;
        self.levels = nursery.levels();
        Ok(self.nursery.insert(nursery).pid())
    }

    /// Makes one attempt and sees it through.
    pub(super) fn attempt(&mut self, case: &Case, recovery: Recovery) -> Result<Story, String> {
        let pid = self.start_nursery()?;
        self.attempts += 1;
        let dir = self.folder.join(format!("a{}", self.attempts));
        let effects = self.folder.join(format!("e{}", self.attempts));
        fs::create_dir(&effects).map_err(|error| format!("{}: {error}", effects.display()))?;
        let tracer = Tracer::attach(pid, case.plan)?;
        let (alarm, silence) = mpsc::channel::<()>();
        let story = std::thread::scope(|scope| {
            let observer = &self.observer;
            let watchdog = scope.spawn(move || match silence.recv_timeout(HUNG_AFTER) {
                Err(mpsc::RecvTimeoutError::Timeout) => observer.clear(&[]).is_ok(),
                _ => false,
            });
            let story = self.follow(case, recovery, &dir, &effects, tracer);
            drop(alarm);
            let is_hung = watchdog.join().unwrap_or(true);
            story.map(|story| Story { is_hung, ..story })
        });
        let is_spent =
            case.plan.first.role == Role::Nursery || story.as_ref().is_ok_and(|story| story.is_hung);
        if is_spent {
            self.nursery = None;
        }
        let kept: Vec<i32> = self.nursery.iter().map(Nursery::pid).collect();
        self.observer.clear(&kept)?;
        let _ = fs::remove_dir_all(&dir);
        let _ = fs::remove_dir_all(&effects);
        story
    }

    fn follow(
        &self,
        case: &Case,
        recovery: Recovery,
        dir: &Path,
        effects: &Path,
        tracer: Tracer,
    ) -> Result<Story, String> {
        let nursery = self.nursery.as_ref().ok_or("there is no nursery")?;
        let launched = nursery.launch(&self.launch(case, dir, effects));
        let leader = launched.as_ref().ok().and_then(|launched| open(launched.leader.pid));
        let mut errors = Vec::new();
        let word = self.last_word(case, recovery, dir, effects, &tracer, &mut errors);
        let keepers = keepers(&tracer, &launched, nursery.pid());
        let survivors = self.alive_but(&keepers);
        let again = word.as_ref().and_then(|_| locate(dir, boot_id()).ok());
        clock::until(GONE_WITHIN, Duration::from_millis(1), || {
            (self.alive_but(&[nursery.pid()]).is_empty()
                && (tracer.is_done() || case.plan.first.role == Role::Nursery))
                .then_some(())
        });
        let seen = tracer.release()?;
        let lingering = self.alive_but(&[nursery.pid()]);
        let exists = |name: &str| effects.join(name).exists();
        Ok(Story {
            seen,
            launched,
            word,
            again,
            has_exit: dir.join("exit").exists(),
            lingering: lingering.into_iter().filter(|who| !survivors.contains(who)).collect(),
            survivors,
            ran: exists(leader::RAN),
            printed: exists(leader::PRINTED),
            done: exists(leader::DONE),
            truth: leader.as_ref().and_then(exit_of),
            stdout: Recorded::read(dir, "stdout", &mut errors),
            stderr: Recorded::read(dir, "stderr", &mut errors),
            is_hung: false,
            errors,
        })
    }

    fn launch(&self, case: &Case, dir: &Path, effects: &Path) -> Launch {
        let program = match case.variant {
            Variant::Exec => effects.join("no-such-program"),
            _ => self.programs.trials.clone(),
        };
        let argv = [
            program.into_os_string(),
            leader::VERB.into(),
            effects.as_os_str().to_owned(),
            case.variant.word().into(),
        ];
        Launch {
            marker: format!("points-{}-{}", std::process::id(), dir.display()).replace('/', "-"),
            term_ms: GRACE_MS,
            leftover_ms: GRACE_MS,
            at_most: case.level,
            ..Launch::new(dir, argv)
        }
    }

    /// Looks until there is a last word, asking for the stop on the way where the job is to be stopped.
    fn last_word(
        &self,
        case: &Case,
        recovery: Recovery,
        dir: &Path,
        effects: &Path,
        tracer: &Tracer,
        errors: &mut Vec<String>,
    ) -> Option<Located> {
        clock::until(ENDING_WITHIN, Duration::from_millis(1), || {
            if recovery == Recovery::NoSweep && !dir.join("exit").exists() {
                if tracer.is_done() {
                    return Some(Located::Vanished(Box::new(believed_lost())));
                }
                disturb(case, dir, effects, tracer);
                return None;
            }
            let located = locate(dir, boot_id());
            match located {
                Ok(Located::Alive(_)) => disturb(case, dir, effects, tracer),
                Ok(word) => return Some(word),
                Err(error) => {
                    errors.push(error.to_string());
                    return None;
                }
            }
            // An error is met again by the next look.
            let _ = lastword_proc::wait(dir, LOOK_EVERY);
            None
        })
    }

    /// Returns every process inside but `known`, with its name.
    fn alive_but(&self, known: &[i32]) -> Vec<String> {
        let members = self.observer.members().into_iter();
        let members = members.filter(|pid| !known.contains(pid) && !is_past_its_last_instruction(*pid));
        members.map(|pid| format!("{} {pid}", name_of(pid))).collect()
    }
}

/// Returns the keepers of an attempt, which live for a moment longer once they have said the last word.
fn keepers(tracer: &Tracer, launched: &Result<Launched, Error>, nursery: i32) -> Vec<i32> {
    let told = launched.iter().flat_map(|launched| [launched.guard.pid, launched.shim.pid]);
    told.chain(tracer.keepers()).chain([nursery]).collect()
}

/// Returns the record that a daemon would write if it did not sweep.
fn believed_lost() -> ExitRecord {
    ExitRecord {
        receipt: Receipt { output_lost: true, ..Receipt::bare(Proof::BestEffort) },
        exec_error: None,
        by: "sweep".to_owned(),
        empty_at_boot_ns: clock::boot_ns(),
    }
}

/// Does to a job what its variant says, once the job has printed everything. Repeated at each look, since the process
/// that should have heard may have been struck.
fn disturb(case: &Case, dir: &Path, effects: &Path, tracer: &Tracer) {
    if !effects.join(leader::PRINTED).exists() {
        return;
    }
    match case.variant {
        Variant::Stop => {
            let asked = Keeper::connect(dir, 0);
            let _ = asked.and_then(|mut keeper| keeper.stop(Stop { cause: "trial", ..Stop::default() }));
        }
        // The file is not there, so it gives no lease.
        Variant::Lease => {
            let none = LeaseFile::new(effects.join("lease"));
            let _ = Keeper::connect(dir, 0).and_then(|mut keeper| keeper.follow(Some(&none)));
        }
        Variant::Orphan => {
            let shim = tracer.keepers().get(1).and_then(|pid| Identity::of(*pid));
            if let Some(shim) = shim.filter(|shim| name_of(shim.pid) == "lw-shim") {
                let _ = shim.signal(rustix::process::Signal::KILL);
            }
        }
        Variant::Run | Variant::Exec => {}
    }
}

/// Reports whether a process is on its way out inside the kernel. It has given up its memory and can do nothing any
/// more, but is in its control group for some microseconds yet.
fn is_past_its_last_instruction(pid: i32) -> bool {
    /// `PF_EXITING`.
    const EXITING: u64 = 4;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The flags are the seventh field after the name, which may hold anything.
    let flags =
        stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(6)?.parse::<u64>().ok());
    flags.is_none_or(|flags| flags & EXITING != 0)
}

fn name_of(pid: i32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim().to_owned()
}

fn open(pid: i32) -> Option<OwnedFd> {
    let pid = rustix::process::Pid::from_raw(pid)?;
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
}

/// Asks the kernel how a process exited that is not our child. `None` where the kernel does not tell (before 6.15).
fn exit_of(process: &OwnedFd) -> Option<Exit> {
    /// `struct pidfd_info`, as of its first version.
    #[repr(C)]
    struct Info {
        mask: u64,
        cgroup: u64,
        numbers: [u32; 11],
        exit_code: i32,
    }
    const GET_INFO: u64 = 0xC040_FF0B;
    const WITH_EXIT: u64 = 1 << 3;
    let mut info = Info { mask: WITH_EXIT, cgroup: 0, numbers: [0; 11], exit_code: 0 };
    // SAFETY: the number names a structure of this size, which outlives the call.
    let asked = unsafe { libc::ioctl(process.as_raw_fd(), GET_INFO as _, &raw mut info) };
    if asked != 0 || info.mask & WITH_EXIT == 0 {
        return None;
    }
    match libc::WIFEXITED(info.exit_code) {
        true => Some(Exit::Code(libc::WEXITSTATUS(info.exit_code))),
        false => Some(Exit::Signal(libc::WTERMSIG(info.exit_code))),
    }
}

impl Recorded {
    fn read(dir: &Path, name: &str, errors: &mut Vec<String>) -> Recorded {
        let mut recorded = Recorded::default();
        let Ok(mut recording) = Recording::open(dir, name) else { return recorded };
        let mut cursor = 0;
        loop {
            let mut buffer = vec![0; 64 << 10];
            match recording.read(cursor, &mut buffer) {
                Ok(read) if read.bytes == 0 => return recorded,
                Ok(read) => {
                    buffer.truncate(read.bytes);
                    recorded.parts.push((read.offset, buffer));
                    cursor = read.next();
                }
                Err(error) => {
                    errors.push(error.to_string());
                    return recorded;
                }
            }
        }
    }
}
