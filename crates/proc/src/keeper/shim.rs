//! The shim: parent of the leader, subreaper of its tree, reader of its output, and the one who proves it empty.

use std::fs::File;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use lastword_core::receipt::{Exit, KeeperStop, Level, OutputBytes, Proof, Receipt, Rung};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags};

use super::control::Control;
use super::guard;
use super::input::Input;
use super::levels::Levels;
use super::output::{CHUNK_BYTES, Stream};
use super::spawn::{self, Hold, Spawned};
use super::stop::Stop;
use crate::claim::{self, Drained, Leader};
use crate::clock;
use crate::ending::ExitRecord;
use crate::folder::Folder;
use crate::identity::{Identity, pidfd};
use crate::launch::Launch;
use crate::level::cgroup::Leaf;
use crate::level::namespace::Init;
use crate::line::Line;
use crate::sys::{self, Reaped};
use crate::words;

/// Pause before a record that could not be written is tried again: a full disk is freed by people.
const RETRY_MS: u64 = 500;

/// Pause before a control group without a child of ours is looked at again: it empties at once, or cannot be read now.
const GROUP_PAUSE_MS: u64 = 10;

/// How often the verdict on a leader that is gone is asked for; a second failure of the same read is no accident.
const VERDICT_READS_MAX: usize = 3;

/// What a guard hands to its shim.
pub(super) struct Handed {
    pub(super) folder: Folder,
    pub(super) claim: File,
    pub(super) listener: OwnedFd,
    pub(super) socket: String,
    pub(super) launch: Launch,
    pub(super) levels: Levels,
    pub(super) reply: OwnedFd,
    pub(super) guard: Identity,
}

/// The state of a tree and of its keeper.
pub(super) struct Shim {
    pub(super) folder: Folder,
    claim: File,
    socket: String,
    signals: OwnedFd,
    lease_timer: Option<OwnedFd>,
    pub(super) launch: Launch,
    pub(super) control: Control,
    pub(super) streams: Vec<Stream>,
    pub(super) input: Input,
    pub(super) stop: Stop,
    leaf: Option<Leaf>,
    init: Option<Init>,
    /// The leader, where it is its init's child and not ours.
    leader_fd: Option<OwnedFd>,
    /// There is no child, but the control group is not known to be empty.
    awaits_group: bool,
    pub(super) leader: Option<Leader>,
    pub(super) exit: Option<Exit>,
    exec_error: Option<String>,
    spawned: Option<Spawned>,
    reply: Option<OwnedFd>,
    guard: Identity,
    own: Identity,
    /// The ending, once the tree is empty, until it is durable.
    pub(super) ending: Option<(ExitRecord, u64)>,
    buffer: Vec<u8>,
}

/// Keeps a tree from its first process to its exit record.
pub(super) fn run(handed: Handed) -> ! {
    sys::set_name(c"lw-shim");
    let (Ok(own), Ok(signals)) = (Identity::own(), sys::signal_fd()) else { sys::exit(74) };
    // A session of its own: whoever kills the group of its guard does not kill both.
    if rustix::process::setsid().is_err()
        || rustix::process::set_child_subreaper(Some(rustix::process::getpid())).is_err()
    {
        sys::exit(74);
    }
    let Handed { folder, claim, listener, socket, launch, levels, reply, guard } = handed;
    // The group is named before it is made: whoever comes after a killed shim finds it.
    let line = own.write(Line::new("shim")).with_bytes_some("cgroup", levels.leaf_path(&launch, &own));
    if claim::note(&claim, &line).is_err() {
        sys::exit(74);
    }
    let mut shim = Shim {
        folder,
        claim,
        socket,
        signals,
        lease_timer: None,
        control: Control::new(listener),
        streams: Vec::new(),
        input: Input::new(None, false),
        stop: Stop::new(own.pid),
        leaf: levels.leaf(&launch, &own),
        init: None,
        leader_fd: None,
        awaits_group: false,
        leader: None,
        exit: None,
        exec_error: None,
        spawned: None,
        reply: Some(reply),
        guard,
        own,
        ending: None,
        // Not filled, so that a job that says little takes little memory.
        buffer: Vec::with_capacity(CHUNK_BYTES),
        launch,
    };
    shim.set_lease(shim.launch.lease);
    shim.start(&levels);
    loop {
        shim.turn();
    }
}

impl Shim {
    /// Forks the leader, makes it known, lets it go.
    fn start(&mut self, levels: &Levels) {
        let hold = Hold {
            leaf: self.leaf.as_ref(),
            use_landlock: levels.landlock(&self.launch),
            use_namespace: levels.namespace(&self.launch),
        };
        let mut spawned = match spawn::spawn(&self.launch, &hold) {
            Ok(spawned) => spawned,
            Err(why) => {
                self.exec_error = Some(why);
                return;
            }
        };
        let Spawned { pid, is_landlocked, .. } = spawned;
        let leader = Identity::of(pid).map(|identity| Leader {
            identity,
            level: spawn::level_of(&hold, is_landlocked),
            launched: clock::awake_ms(),
            may_escape: self.launch.new_privileges,
        });
        let noted = leader.as_ref().map(|leader| claim::note(&self.claim, &leader.line()));
        // What could not be made known is not let go; the gate closes when `spawned` is dropped.
        let opened = match noted {
            Some(Ok(())) => spawned.open_gate().map_err(|error| format!("cannot let it go: {error}")),
            Some(Err(error)) => Err(format!("cannot write its identity: {error}")),
            None => Err("the child died before it was let go".to_owned()),
        };
        if let Err(why) = opened {
            self.exec_error = Some(why);
            return;
        }
        self.leader = leader;
        self.init = spawned.init.take();
        self.leader_fd = self.init.as_ref().and_then(|_| pidfd(pid));
        self.stop.dies_as_one = self.init.is_some();
        self.streams = std::mem::take(&mut spawned.streams);
        self.input = std::mem::replace(&mut spawned.input, Input::new(None, false));
        self.spawned = Some(spawned);
        // A forked child has them; here they only cost memory.
        self.launch.env = Vec::new();
    }

    /// One turn of the loop: the dead first, then time, then whoever speaks.
    fn turn(&mut self) {
        if let Some((record, retry_at)) = &self.ending {
            if clock::awake_ms() >= *retry_at {
                let record = record.clone();
                self.publish(record);
            }
        } else if self.reap() {
            self.conclude();
            return;
        } else {
            self.keep_time();
            if self.stop.advance(self.leaf.as_ref()) {
                self.tell_climbed();
            }
        }
        self.wait();
    }

    /// Reaps the dead. Reports whether the tree is empty.
    fn reap(&mut self) -> bool {
        loop {
            match sys::reap(false) {
                Reaped::One(pid, exit) => self.note_death(pid, exit),
                Reaped::NoneYet => return false,
                Reaped::NoChildren => {
                    // A group with somebody in it is not empty, whoever put them there.
                    let Some(leaf) = &self.leaf else { return true };
                    self.awaits_group = !matches!(leaf.is_empty(), Ok(true));
                    if self.awaits_group {
                        let _ = leaf.kill();
                    }
                    return !self.awaits_group;
                }
            }
        }
    }

    fn note_death(&mut self, pid: i32, exit: Exit) {
        if self.init.as_ref().is_some_and(|init| init.pid == pid) {
            self.hear_init();
            if self.exit.is_none() {
                // An init that went without a word was killed, and its leader with it, unless that had ended before. The
                // kernel may know; it is not guessed.
                let told = self.leader_fd.as_ref().and_then(sys::exit_told);
                self.leader_exited(told);
            }
        } else if self.leader.as_ref().is_some_and(|leader| leader.identity.pid == pid) {
            self.leader_exited(Some(exit));
        }
    }

    /// Hears from the init of a namespace how its leader ended. Only it can know: the leader is its child.
    fn hear_init(&mut self) {
        let Some(init) = self.init.as_ref().filter(|_| self.exit.is_none()) else { return };
        if is_readable(init.status_fd())
            && let Ok(Some(status)) = init.leader_status()
        {
            self.leader_exited(Some(sys::exit_of(status)));
        }
    }

    fn leader_exited(&mut self, exit: Option<Exit>) {
        // The leader's end of the pipe is closed, so there is a verdict: only a read that failed is done again.
        for _ in 0..VERDICT_READS_MAX {
            self.read_verdict();
        }
        if self.exec_error.is_none()
            && let Some(exit) = exit
        {
            self.exit = Some(exit);
            // If this cannot be written and the keeper is killed before the end, the exit is not known: lost, not false.
            let _ = claim::note(&self.claim, &Line::new("exited").with("how", words::of_exit(exit)));
        }
        self.stop.leader_exited(self.launch.leftover_ms);
        let line = Line::new("event").with("what", "exited").with_some("how", self.exit.map(words::of_exit));
        self.control.tell(&line);
    }

    fn keep_time(&mut self) {
        if self.launch.deadline.is_some_and(|at| clock::awake_ms() >= at) && !self.stop.is_asked() {
            self.stop_tree(Some(KeeperStop::Deadline), false, self.launch.term_ms);
        }
        // A lease that ran out is not argued with: another host may start the job any moment.
        if self.launch.lease.is_some_and(|at| clock::boot_ms() >= at) {
            self.set_lease(None);
            self.stop_tree(Some(KeeperStop::Lease), true, 0);
        }
    }

    /// Stops the tree, politely unless forced.
    pub(super) fn stop_tree(&mut self, why: Option<KeeperStop>, force: bool, term_ms: u64) {
        self.stop.ask(why, force, term_ms, self.leaf.as_ref());
        self.tell_climbed();
    }

    /// Makes the tree hold still, or lets it go on; not once it is being stopped.
    pub(super) fn hold_tree(&mut self, still: bool) -> bool {
        self.stop.hold(still, self.leaf.as_ref())
    }

    fn tell_climbed(&mut self) {
        if let Some(taken) = self.stop.rungs.last() {
            let line = Line::new("event")
                .with("what", "climbed")
                .with("rung", words::of_rung(taken.rung))
                .with("alive", self.stop.last.alive);
            self.control.tell(&line);
        }
    }

    /// Asks the leader to interrupt itself, as a terminal would.
    pub(super) fn interrupt(&mut self) -> bool {
        let Some(leader) = self.leader.as_ref().filter(|_| self.exit.is_none()) else { return false };
        self.stop.climb(Rung::Interrupt);
        leader.identity.signal(rustix::process::Signal::INT).unwrap_or(false)
    }

    /// Sets the end of the lease, in milliseconds of the boot clock.
    pub(super) fn set_lease(&mut self, at: Option<u64>) {
        self.launch.lease = at;
        let Some(at) = at else {
            self.lease_timer = None;
            return;
        };
        // A poll counts only the time awake; this clock must wake the keeper after a sleep, too.
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        self.lease_timer = rustix::time::timerfd_create(TimerfdClockId::Boottime, flags).ok();
        if let Some(timer) = &self.lease_timer {
            let value = Timespec { tv_sec: (at / 1000) as i64, tv_nsec: (at % 1000 * 1_000_000) as i64 + 1 };
            let when = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
            let _ = rustix::time::timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &when);
        }
    }

    /// Sleeps until something happens, then handles it.
    fn wait(&mut self) {
        let now = clock::awake_ms();
        let deadline =
            self.launch.deadline.filter(|_| !self.stop.is_asked()).map(|at| at.saturating_sub(now));
        let stage = self.stop.pause_ms().filter(|_| self.ending.is_none());
        let retry = self.ending.as_ref().map(|(_, at)| at.saturating_sub(now));
        let stalled = self.streams.iter().any(Stream::is_stalled).then_some(RETRY_MS);
        // The timer of the lease wakes after a sleep of the machine; this wakes even where there is no timer.
        let lease = self.launch.lease.map(|at| at.saturating_sub(clock::boot_ms()));
        // No child is left whose death would wake us.
        let group = (self.awaits_group && self.ending.is_none()).then_some(GROUP_PAUSE_MS);
        let pause = [deadline, stage, retry, stalled, lease, group].into_iter().flatten().min();
        let timeout = pause.map(clock::span);

        let mut fds = vec![PollFd::new(&self.signals, PollFlags::IN)];
        fds.extend(
            self.streams
                .iter()
                .filter_map(Stream::wanted)
                .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)),
        );
        fds.extend(self.input.wanted().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::OUT)));
        fds.extend(self.spawned.as_ref().map(|spawned| PollFd::new(&spawned.verdict, PollFlags::IN)));
        let init = self.init.as_ref().filter(|_| self.exit.is_none());
        fds.extend(init.map(|init| PollFd::from_borrowed_fd(init.status_fd(), PollFlags::IN)));
        fds.extend(self.lease_timer.as_ref().map(|timer| PollFd::new(timer, PollFlags::IN)));
        let first_client = fds.len();
        fds.extend(self.control.wanted().map(|(fd, tells)| {
            let flags = if tells { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
            PollFd::from_borrowed_fd(fd, flags)
        }));
        let _ = poll(&mut fds, timeout.as_ref());
        let someone_speaks = fds[first_client..].iter().any(|fd| !fd.revents().is_empty());
        drop(fds);
        self.handle(someone_speaks);
    }

    fn handle(&mut self, someone_speaks: bool) {
        // Somebody who signals the keeper itself means the job: a shutdown, or a person with `kill`.
        if !sys::take_signals(self.signals.as_fd()).is_empty() && self.ending.is_none() {
            self.stop_tree(Some(KeeperStop::LocalCancel), false, self.launch.term_ms);
        }
        self.read_verdict();
        self.hear_init();
        self.record();
        self.feed();
        if someone_speaks {
            self.control.accept();
            for request in self.control.requests() {
                let answer = self.answer(&request);
                self.control.answer(request.client, &answer);
            }
            self.control.forget();
            self.feed();
        }
    }

    /// Records what the tree has written, and hints at it where somebody reads along.
    fn record(&mut self) {
        let mut buffer = std::mem::take(&mut self.buffer);
        for stream in
            self.streams.iter_mut().filter(|stream| stream.wanted().is_some() || stream.is_stalled())
        {
            let seen = stream.seen;
            stream.take(&self.folder, &mut buffer);
            if stream.is_spool() && stream.seen != seen {
                self.control.hint(&Line::new("event").with("what", "wrote"));
            }
        }
        self.buffer = buffer;
    }

    fn feed(&mut self) {
        let told = self.input.told;
        if self.input.wanted().is_some() {
            let output_at = self.streams.first().map_or(0, |stream| stream.seen);
            self.input.write(&self.folder, output_at);
        }
        if self.input.told != told {
            self.control.tell(&Line::new("event").with("what", "told").with("no", self.input.told));
        }
    }

    /// Learns whether the program runs, and tells who launched it.
    fn read_verdict(&mut self) {
        let Some(spawned) = self.spawned.as_ref() else { return };
        let Ok(exec_error) = spawned.verdict(&self.launch) else { return };
        self.exec_error = exec_error;
        self.spawned = None;
        if self.exec_error.is_none()
            && let Some(leader) = &self.leader
        {
            let mut text = self.guard.write(Line::new("guard")).to_string();
            text.push_str(&self.own.write(Line::new("shim")).to_string());
            text.push_str(&leader.line().to_string());
            self.reply(&text);
        }
    }

    fn reply(&mut self, text: &str) {
        if let Some(reply) = self.reply.take() {
            super::answer(&reply, text);
        }
    }

    /// The tree is empty: records what is left of its output, and its ending.
    fn conclude(&mut self) {
        let (empty_at_boot_ns, took_ms) = (clock::boot_ns(), self.stop.took_ms(clock::awake_ms()));
        self.read_verdict();
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut output = OutputBytes::default();
        let mut lost = self.input.lost;
        for stream in &mut self.streams {
            stream.drain(&self.folder, &mut buffer);
            stream.sync();
            output.seen += stream.seen;
            output.kept += stream.kept;
            lost |= stream.lost > 0;
        }
        let _ = claim::note(&self.claim, &Drained { output, lost }.line());
        let level = self.leader.as_ref().map_or(Level::None, |leader| leader.level);
        let proof = match (&self.exec_error, &self.leaf, &self.init) {
            (Some(_), ..) => Proof::NeverStarted,
            (None, _, Some(_)) => Proof::NamespaceGone,
            (None, Some(_), None) => Proof::CgroupEmptyAndNoChildren,
            (None, None, None) => Proof::NoChildren,
        };
        if let Some(leaf) = &self.leaf {
            let _ = leaf.remove();
        }
        let record = ExitRecord {
            receipt: Receipt {
                level,
                processes: std::mem::take(&mut self.stop.roll.processes),
                rungs: std::mem::take(&mut self.stop.rungs),
                leftovers: std::mem::take(&mut self.stop.leftovers),
                found: self.stop.roll.found,
                output,
                output_lost: lost,
                may_escape: self.launch.new_privileges,
                exit: self.exit,
                asked_to_empty_ms: took_ms,
                keeper_stop: self.stop.keeper_stop,
                ..Receipt::bare(proof)
            },
            exec_error: self.exec_error.clone(),
            by: "shim".to_owned(),
            empty_at_boot_ns,
        };
        // Limits bind what runs. One that passes from now on must not wake a keeper that only waits for room on a disk.
        self.launch.deadline = None;
        self.set_lease(None);
        self.publish(record);
    }

    /// Publishes the ending and goes; if that cannot be done now, it is done later.
    fn publish(&mut self, record: ExitRecord) {
        match record.publish(&self.folder) {
            Ok(_) => {
                if let Some(why) = &record.exec_error {
                    self.reply(&super::refused(why));
                }
                self.control.tell(&Line::new("event").with("what", "ended"));
                let _ = self.folder.remove(&self.socket);
                sys::exit(0)
            }
            Err(error) if self.folder.is_removed() || guard::is_limited(&error) => sys::exit(75),
            Err(_) => self.ending = Some((record, clock::awake_ms() + RETRY_MS)),
        }
    }
}

/// Reports whether a read would not wait.
fn is_readable(fd: BorrowedFd<'_>) -> bool {
    let mut ready = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    poll(&mut ready, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(1)
}
