//! The judge: watches a trial from outside, by the kernel's own list of processes and by the canaries.

mod unkillable;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use lastword_core::receipt::Level;
use tempfile::TempDir;

use super::adversaries::{self, Adversary, OTHER_NAMESPACE};
use super::container::Container;
use super::driver;
use super::observer::Observer;
use super::order::{Done, Order, Victim, level_of, name_of};
use super::report::Verdict;
use super::standin::Bug;
use super::word::Word;
use crate::clock;
use crate::place::{self, Programs};
use crate::record::{Record, SIZE};

/// The user without rights. No account has this number.
pub(crate) const USER: u32 = 54_321;

/// When a trial that has no last word, or whose keepers do not leave after it, is given up: far more than any bound, less than the
/// adversaries live.
const PATIENCE: Duration = Duration::from_secs(12);

/// How long what is left must have lived without a keeper to count as a survivor: many beats of a canary.
const SURVIVING: Duration = Duration::from_millis(20);

/// How often the judge looks whether the last word is there.
const LOOK: Duration = Duration::from_micros(100);

/// Everything one run needs: a place, a control group, and a driver inside both.
pub(crate) struct Judge {
    folder: TempDir,
    /// A namespace that a tree can enter; `None` where its user may not make one.
    container: Option<Container>,
    setuid: Option<PathBuf>,
    observer: Observer,
    driver: Child,
    orders: ChildStdin,
    answers: Receiver<String>,
    /// Driver and nursery: they stay between trials.
    staying: Vec<i32>,
    bug: Option<Bug>,
    owner: Option<u32>,
    count: u32,
    victim: Victim,
    pub(crate) levels: Vec<Level>,
}

impl Judge {
    /// Sets a run up as root, or as the user without rights.
    pub(crate) fn new(owner: Option<u32>, bug: Option<Bug>, victim: Victim) -> Result<Judge, String> {
        let folder = place::temporary("torture")?;
        let programs = Programs::beside()?.copy_to(&folder.path().join("bin"))?;
        chown(folder.path(), owner, owner)
            .map_err(|error| format!("{}: {error}", folder.path().display()))?;
        let setuid = owner.map(|user| setuid_copy(&programs, folder.path(), user)).transpose()?;
        let container = Container::start(&folder.path().join("container"), owner)
            .inspect_err(|why| eprintln!("no foreign namespace here: {why}"))
            .ok();
        let observer = Observer::new(if owner.is_some() { "user" } else { "root" }, owner)?;
        let mut command = Command::new(&programs.trials);
        command.arg(driver::VERB).arg(observer.ward()).args(bug.map(Bug::name));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).current_dir(folder.path());
        if let Some(user) = owner {
            command.uid(user).gid(user);
        }
        let mut driver =
            command.spawn().map_err(|error| format!("{}: {error}", programs.trials.display()))?;
        let orders = driver.stdin.take().ok_or("the driver has no ear")?;
        let answers = listen(driver.stdout.take().ok_or("the driver has no voice")?);
        let staying = vec![driver.id() as i32];
        let (levels, count) = (Vec::new(), 0);
        let mut judge = Judge {
            folder,
            container,
            setuid,
            observer,
            driver,
            orders,
            answers,
            staying,
            bug,
            owner,
            count,
            victim,
            levels,
        };
        judge.observer.admit(judge.driver.id())?;
        judge.say("go")?;
        let greeting = judge.hear()?;
        let mut words = greeting.split_whitespace();
        let nursery =
            words.next().and_then(|pid| pid.parse().ok()).ok_or(format!("greeted with `{greeting}`"))?;
        judge.staying.push(nursery);
        judge.levels = words.map(level_of).collect::<Result<_, _>>()?;
        Ok(judge)
    }

    /// Holds one trial.
    pub(crate) fn hold(
        &mut self,
        adversary: Adversary,
        level: Level,
        moment: Duration,
    ) -> Result<Verdict, String> {
        let order = self.order(adversary, level, moment)?;
        let exit = order.folder.join("exit");
        let readable = clock::until(PATIENCE, LOOK, || exit.exists().then(clock::boot_ns));
        // At once: a process that is inside now was there when the last word could be read.
        let present = self.observer.members();
        let done = Done::from_line(&self.hear()?)?;
        let verdict = self.verdict(&order, &done, readable, &present);
        self.conclude(&order, &done, verdict)
    }

    /// Has the driver begin a trial.
    fn order(&mut self, adversary: Adversary, level: Level, moment: Duration) -> Result<Order, String> {
        self.count += 1;
        let order = Order {
            folder: self.folder.path().join(format!("attempt-{}", self.count)),
            adversary: adversary.name.into(),
            canary: self.folder.path().join(format!("canary-{}", self.count)),
            outside: self.outside(adversary),
            level,
            moment,
            victim: self.victim,
        };
        self.make_canary(&order.canary)?;
        self.say(&order.to_line())?;
        Ok(order)
    }

    /// Judges what is left after a last word, and clears it away.
    fn conclude(&self, order: &Order, done: &Done, mut verdict: Verdict) -> Result<Verdict, String> {
        verdict.survivors = self.survivors(done).len();
        if let Some(left) = self.leavings(order) {
            verdict.wrong.get_or_insert(format!("{}: left behind {}", scene(order), left.display()));
        }
        self.observer.clear(&self.staying)?;
        // The folder's owner and every process of the trial are gone: from here on it belongs to the judge, which may read it.
        let _ = chown(&order.folder, Some(0), Some(0));
        let signs =
            fs::read(&order.canary).map_err(|error| format!("{}: {error}", order.canary.display()))?;
        self.hear_canaries(order, done, &records(&signs), &mut verdict);
        let _ = fs::remove_dir_all(&order.folder);
        let _ = fs::remove_file(&order.canary);
        Ok(verdict)
    }

    /// Judges the moment at which the last word could be read.
    fn verdict(&self, order: &Order, done: &Done, readable: Option<u64>, present: &[i32]) -> Verdict {
        let mut verdict = Verdict { level: name_of(order.level), ..Verdict::default() };
        let scene = scene(order);
        verdict.wrong = done.trouble.as_ref().map(|trouble| format!("{scene}: {trouble}"));
        let Some(readable) = readable else {
            verdict.wrong = Some(format!("{scene}: no last word within {} s", PATIENCE.as_secs()));
            return verdict;
        };
        verdict.took = done.sent_ns.map(|sent| Duration::from_nanos(readable.saturating_sub(sent)));
        let strangers: Vec<i32> =
            present.iter().copied().filter(|pid| !self.may_be_there(*pid, done)).collect();
        if !strangers.is_empty() {
            verdict.early =
                Some(format!("{scene}: {} lived when the last word could be read", names(&strangers)));
        }
        verdict
    }

    /// Reports whether a process has a right to be there a moment after the last word.
    fn may_be_there(&self, pid: i32, done: &Done) -> bool {
        if self.staying.contains(&pid) || done.keepers.contains(&pid) {
            return true;
        }
        // A launch that was stopped on its way names no keepers. There the program tells, or that it has just gone: by
        // then a tree would have been reaped, and not be listed at all.
        let program = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        done.keepers.is_empty() && (program.as_os_str().is_empty() || program.ends_with("lastword"))
    }

    /// Waits until the keepers have left and returns the processes that are still there a while after. A keeper that never leaves is one.
    fn survivors(&self, done: &Done) -> Vec<i32> {
        let left = || -> Vec<i32> {
            self.observer.members().into_iter().filter(|pid| !self.staying.contains(pid)).collect()
        };
        // Where no keepers are named, one that is about to be gone is known by having no program any more.
        let is_keeper = |pid: &i32| {
            let program = program_of(*pid);
            let has_gone = done.keepers.is_empty() && program.as_os_str().is_empty();
            done.keepers.contains(pid) || program.ends_with("lastword") || has_gone
        };
        clock::until(PATIENCE, LOOK, || (!left().iter().any(is_keeper)).then_some(()));
        clock::until(SURVIVING, LOOK, || left().is_empty().then_some(()));
        left()
    }

    /// Returns what a keeper forgot to take away: its control group, its socket.
    fn leavings(&self, order: &Order) -> Option<PathBuf> {
        let is_socket =
            |path: &PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"ctl"));
        let escape = self.observer.escape();
        let groups =
            entries(&self.observer.ward()).into_iter().filter(|path| path.is_dir() && *path != escape);
        groups.chain(entries(&order.folder).into_iter().filter(is_socket)).next()
    }

    /// Judges what the canaries wrote, and what the last word says of itself.
    fn hear_canaries(&self, order: &Order, done: &Done, signs: &[Record], verdict: &mut Verdict) {
        let scene = scene(order);
        let word = match Word::read(&order.folder, self.bug.is_some_and(|bug| !bug.is_of_keeper())) {
            Ok(word) => word,
            Err(why) => {
                verdict.wrong.get_or_insert(format!("{scene}: {why}"));
                return;
            }
        };
        // Its receipt says that there may be survivors.
        let may_survive = order.adversary == OTHER_NAMESPACE && !word.is_certain();
        if may_survive {
            (verdict.survivors, verdict.early) = (0, None);
        }
        let stopped = done.sent_ns.unwrap_or(word.at_ns);
        // Not for a trial whose whole time does not count either.
        verdict.emptied = verdict.took.map(|_| Duration::from_nanos(word.at_ns.saturating_sub(stopped)));
        verdict.settled = signs.iter().any(|sign| sign.settled && sign.at_ns <= stopped);
        let after: Vec<&Record> = signs.iter().filter(|sign| sign.at_ns > word.at_ns).collect();
        if let Some(last) = after.iter().max_by_key(|sign| sign.at_ns).filter(|_| !may_survive) {
            let late_us = (last.at_ns - word.at_ns) / 1_000;
            let early =
                format!("{scene}: {} signs of life after the last word, the last {late_us} µs", after.len());
            verdict.early.get_or_insert(early);
        }
        let was_stopped = verdict.settled && done.sent_ns.is_some() && order.victim != Victim::Shim;
        let members = if was_stopped { adversaries::members_of(&order.adversary) } else { 0 };
        let wrong = word.wrong_for(order.level, !signs.is_empty()).or_else(|| word.leaves_out(members));
        if let Some(wrong) = wrong {
            verdict.wrong.get_or_insert(format!("{scene}: {wrong}"));
        }
    }

    fn outside(&self, adversary: Adversary) -> Option<PathBuf> {
        match adversary.name {
            "setuid" | "setuid-allowed" => self.setuid.clone(),
            "cgroup-escape" => Some(self.observer.escape()),
            OTHER_NAMESPACE => self.container.as_ref().map(|container| container.folder().to_owned()),
            _ => None,
        }
    }

    fn make_canary(&self, path: &Path) -> Result<(), String> {
        let made = fs::write(path, "").and_then(|()| chown(path, self.owner, self.owner));
        made.map_err(|error| format!("{}: {error}", path.display()))
    }

    fn say(&mut self, line: &str) -> Result<(), String> {
        writeln!(self.orders, "{line}").map_err(|error| format!("the driver is gone: {error}"))
    }

    fn hear(&self) -> Result<String, String> {
        self.answers.recv_timeout(PATIENCE).map_err(|_| "the driver does not answer; see above".into())
    }
}

impl Drop for Judge {
    fn drop(&mut self) {
        let _ = self.driver.kill();
        let _ = self.driver.wait();
        let _ = self.observer.clear(&[]);
        // Its files are mounts in our folder.
        self.container = None;
    }
}

/// Copies the adversary to where only `user` can run it, as root: a setuid program that any user may run would be a hole.
fn setuid_copy(programs: &Programs, folder: &Path, user: u32) -> Result<PathBuf, String> {
    use std::os::unix::fs::PermissionsExt;
    let vault = folder.join("setuid");
    let copy = vault.join("other-user");
    let made = fs::create_dir(&vault)
        .and_then(|()| fs::set_permissions(&vault, fs::Permissions::from_mode(0o750)))
        .and_then(|()| chown(&vault, Some(0), Some(user)))
        .and_then(|()| fs::copy(&programs.adversary, &copy))
        .and_then(|_| fs::set_permissions(&copy, fs::Permissions::from_mode(0o4755)));
    made.map(|()| copy).map_err(|error| format!("{}: {error}", vault.display()))
}

fn listen(voice: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(voice).lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                return;
            }
        }
    });
    receive
}

fn records(bytes: &[u8]) -> Vec<Record> {
    let (records, _) = bytes.as_chunks::<SIZE>();
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |high, &low| high << 8 | u64::from(low));
    let read = |bytes: &[u8; SIZE]| Record {
        pid: number(&bytes[..4]) as u32,
        settled: bytes[4] != 0,
        at_ns: number(&bytes[8..]),
    };
    records.iter().map(read).collect()
}

fn scene(order: &Order) -> String {
    format!("{:?} at {:.1} ms", order.level, order.moment.as_secs_f64() * 1_000.0)
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn program_of(pid: i32) -> PathBuf {
    fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default()
}

/// Names some processes for a person.
fn names(pids: &[i32]) -> String {
    let name = |pid: &i32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or("gone".into());
    let some: Vec<String> = pids.iter().take(4).map(|pid| format!("{pid} ({})", name(pid).trim())).collect();
    format!("{} processes, {}", pids.len(), some.join(", "))
}
