//! The shim: parent of the leader, subreaper of its tree, reader of its output. It proves that the tree is empty.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use lastword_core::receipt::{Exit, KeeperStop, Level, OutputBytes, Proof, Receipt, Rung};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::control::Control;
use super::input::Input;
use super::lease::{Lease, LeaseTeller};
use super::levels::Levels;
use super::output::{CHUNK_BYTES, Stream};
use super::reply;
use super::spawn::{self, Containment, NotRun, Spawned};
use super::stop::Stop;
use crate::claim::{self, Drained, Leader};
use crate::clock;
use crate::exit_record::ExitRecord;
use crate::folder::{self, Folder};
use crate::identity::{Identity, pidfd};
use crate::launch::Launch;
use crate::lease::LeaseFile;
use crate::level::cgroup::Leaf;
use crate::level::namespace::Init;
use crate::level::namespace_watch::{Entered, NamespaceWatch};
use crate::limits;
use crate::line_format::Line;
use crate::missing;
use crate::spelling;
use crate::sys::{self, Reaped};

/// Pause before retrying to write a record: freeing a full disk takes a person some time.
const RETRY_MS: u64 = 500;

/// Pause before checking again whether a control group is empty once we have no children left.
const GROUP_PAUSE_MS: u64 = 10;

/// Pause of a shim that cannot poll.
const BLIND_PAUSE_MS: u64 = 10;

/// Attempts to read the verdict of a leader that exited, in case a read fails.
const VERDICT_READS_MAX: usize = 3;

/// Exit codes of a shim that leaves the rest to its guard: it could not begin, or could not write its record. The guard only distinguishes
/// them from 0; the numbers are those of `sysexits.h`.
const EXIT_CANNOT_BEGIN: i32 = 74;
const EXIT_WITHOUT_RECORD: i32 = 75;

/// What a guard passes to its shim.
pub(super) struct Handover {
    /// The attempt's folder.
    pub(super) folder: Folder,
    /// The claim file in it, locked.
    pub(super) claim: File,
    /// The control socket, and its file name in the folder.
    pub(super) listener: OwnedFd,
    pub(super) socket: String,
    pub(super) launch: Launch,
    pub(super) levels: Levels,
    /// Where the daemon waits for the result of the launch.
    pub(super) reply: OwnedFd,
    pub(super) guard: Identity,
    /// Tells the guard which lease file is followed.
    pub(super) teller: LeaseTeller,
}

/// The state of a tree and its keeper.
pub(super) struct Shim {
    pub(super) folder: Folder,
    /// The claim file: a line is appended to it for each thing that happens.
    pub(super) claim: File,
    /// The file name of the control socket.
    pub(super) socket: String,
    /// Signals sent to the shim itself, and the deaths of children.
    signals: OwnedFd,
    pub(super) lease: Lease,
    /// Tells the guard which lease file is followed.
    teller: LeaseTeller,
    pub(super) launch: Launch,
    pub(super) control: Control,
    pub(super) streams: Vec<Stream>,
    pub(super) input: Input,
    pub(super) stop: Stop,
    /// The tree's control group, if it has one.
    leaf: Option<Leaf>,
    /// The init of the tree's PID namespace, if it has one.
    init: Option<Init>,
    /// Tells when a process of the tree enters a namespace.
    namespaces: Option<NamespaceWatch>,
    /// A process of the tree entered a PID namespace that the tree did not make.
    entered_foreign: bool,
    /// The leader's pidfd, if it is a child of a namespace init and not ours.
    leader_fd: Option<OwnedFd>,
    /// We have no children left, but the control group is not known to be empty.
    awaits_group: bool,
    pub(super) leader: Option<Leader>,
    /// How the leader exited, once known.
    pub(super) exit: Option<Exit>,
    /// The leader exited before anything asked the tree to stop.
    exited_first: bool,
    /// Why the program was not executed.
    not_run: Option<NotRun>,
    /// The leader until its verdict: whether the program was executed.
    spawned: Option<Spawned>,
    /// Where the daemon waits for the result of the launch; `None` once it was sent.
    reply: Option<OwnedFd>,
    guard: Identity,
    own: Identity,
    /// The exit record of an empty tree that could not be written yet, and when to try again.
    pub(super) ending: Option<(ExitRecord, u64)>,
    /// For reading output.
    buffer: Vec<u8>,
}

/// Keeps a tree from its first process to its exit record.
pub(super) fn run(handover: Handover) -> ! {
    sys::set_name(c"lw-shim");
    let (Ok(own), Ok(signals)) = (Identity::own(), sys::signal_fd()) else { sys::exit(EXIT_CANNOT_BEGIN) };
    // Its own session, so that killing the guard's process group does not kill both.
    if rustix::process::setsid().is_err()
        || rustix::process::set_child_subreaper(Some(rustix::process::getpid())).is_err()
    {
        sys::exit(EXIT_CANNOT_BEGIN);
    }
    let Handover { folder, claim, listener, socket, launch, levels, reply, guard, teller } = handover;
    // The group's path is recorded before the group is created, so that a successor finds it even if we are killed.
    let line = own.write(Line::new("shim")).with_bytes_some("cgroup", levels.leaf_path(&launch, &own));
    if claim::append(&claim, &line).is_err() {
        sys::exit(EXIT_CANNOT_BEGIN);
    }
    let mut shim = Shim {
        folder,
        claim,
        socket,
        signals,
        // Before anything runs: the timer ends what a look before the gate lets through.
        lease: Lease::follow(launch.lease.clone()),
        teller,
        control: Control::new(listener),
        streams: Vec::new(),
        input: Input::new(None, false),
        stop: Stop::new(own.pid),
        leaf: levels.leaf(&launch, &own),
        init: None,
        namespaces: None,
        entered_foreign: false,
        leader_fd: None,
        awaits_group: false,
        leader: None,
        exit: None,
        exited_first: false,
        not_run: None,
        spawned: None,
        reply: Some(reply),
        guard,
        own,
        ending: None,
        // Allocated but not touched: a job with little output uses little memory.
        buffer: Vec::with_capacity(CHUNK_BYTES),
        launch,
    };
    shim.start(&levels);
    loop {
        shim.turn();
    }
}

impl Shim {
    /// Forks the leader, records its identity, then releases it. On failure nothing runs: the first turn finds the tree empty, and its exit
    /// record says why.
    fn start(&mut self, levels: &Levels) {
        let containment = Containment {
            leaf: self.leaf.as_ref(),
            use_landlock: levels.landlock(&self.launch),
            use_namespace: levels.namespace(&self.launch),
        };
        let mut spawned = match spawn::spawn(&self.launch, &containment) {
            Ok(spawned) => spawned,
            Err(why) => {
                self.not_run = Some(why);
                return;
            }
        };
        let Spawned { pid, is_landlocked, withheld, .. } = spawned;
        let leader = Identity::of(pid).map(|identity| Leader {
            identity,
            level: spawn::level_of(&containment, is_landlocked),
            launched: clock::awake_ms(),
            may_escape: self.launch.new_privileges,
            withheld: self.launch.attributes.describe(withheld),
        });
        let recorded = leader.as_ref().map(|leader| claim::append(&self.claim, &leader.line()));
        // A leader that could not be recorded is not released; its gate closes when `spawned` is dropped.
        let released = match recorded {
            // Looked at here, since all before may have taken long.
            Some(Ok(())) if self.lease.is_over() => Err(NotRun::without_lease()),
            Some(Ok(())) => spawned
                .open_gate()
                .map_err(|error| NotRun::in_keeper("cannot release the leader", Some(&error))),
            Some(Err(error)) => Err(NotRun::in_keeper("cannot record the leader's identity", Some(&error))),
            None => Err(NotRun::in_keeper("the leader died before it was released", None)),
        };
        if let Err(why) = released {
            self.not_run = Some(why);
            return;
        }
        self.leader = leader;
        self.init = spawned.init.take();
        self.namespaces = spawned.namespaces.take();
        self.leader_fd = self.init.as_ref().and_then(|_| pidfd(pid));
        self.stop.dies_as_one = self.init.is_some();
        self.streams = std::mem::take(&mut spawned.streams);
        self.input = std::mem::replace(&mut spawned.input, Input::new(None, false));
        self.spawned = Some(spawned);
        // Secrets: only the forked child needs them.
        self.launch.env = Vec::new();
    }

    /// One turn of the loop: reap, then check time limits, then serve clients.
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
                self.notify_climbed();
            }
        }
        self.wait();
    }

    /// Reaps dead children. Reports whether the tree is empty.
    fn reap(&mut self) -> bool {
        loop {
            match sys::reap(false) {
                Reaped::One(pid, exit) => self.note_death(pid, exit),
                Reaped::NoneYet => return false,
                Reaped::NoChildren => {
                    // The group must be empty as well: a process may have been moved into it.
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

    /// Handles the death of a child. Only that of the leader, or of the init that is its parent, has a meaning.
    fn note_death(&mut self, pid: i32, exit: Exit) {
        if self.init.as_ref().is_some_and(|init| init.pid == pid) {
            self.read_init_status();
            if self.exit.is_none() {
                // An init that sent nothing was killed, and the leader with it unless it had exited before. Ask the kernel; do not
                // guess.
                let exit = self.leader_fd.as_ref().and_then(sys::exit_from_pidfd);
                self.leader_exited(exit);
            }
        } else if self.leader.as_ref().is_some_and(|leader| leader.identity.pid == pid) {
            self.leader_exited(Some(exit));
        }
    }

    /// Reads how the leader ended from the namespace's init, its parent.
    fn read_init_status(&mut self) {
        let Some(init) = self.init.as_ref().filter(|_| self.exit.is_none()) else { return };
        if is_readable(init.status_fd())
            && let Ok(Some(status)) = init.leader_status()
        {
            self.leader_exited(Some(sys::exit_of(status)));
        }
    }

    /// Records the exit of the leader; `None` if how it exited cannot be known. The rest of the tree gets its time to end.
    fn leader_exited(&mut self, exit: Option<Exit>) {
        // The leader's end of the pipe is closed, so the verdict is there; repeat only reads that fail.
        for _ in 0..VERDICT_READS_MAX {
            self.read_verdict();
        }
        if self.not_run.is_none()
            && let Some(exit) = exit
        {
            self.exit = Some(exit);
            self.exited_first = self.stop.is_untouched();
            // If this cannot be written and the keeper is killed before the end, the exit is lost.
            let exited = Line::new("exited")
                .with("how", spelling::exit_name(exit))
                .with("first", u8::from(self.exited_first));
            let _ = claim::append(&self.claim, &exited);
        }
        self.stop.leader_exited(self.launch.leftover_ms);
        let line =
            Line::new("event").with("what", "exited").with_some("how", self.exit.map(spelling::exit_name));
        self.control.notify(&line);
    }

    /// Stops the tree when its deadline has passed or its lease has expired.
    fn keep_time(&mut self) {
        if self.launch.deadline.is_some_and(|at| clock::awake_ms() >= at) && !self.stop.is_requested() {
            self.stop_tree(Some(KeeperStop::Deadline), false, self.launch.term_ms);
        }
        // Kill at once: without a lease, another host may start the job at any moment. The guard keeps its timer until the tree is empty.
        if self.lease.is_over() {
            self.lease = Lease::default();
            self.stop_tree(Some(KeeperStop::Lease), true, 0);
        }
    }

    /// Stops the tree, starting with TERM unless forced. `why` is the keeper's own reason; `None` if the daemon asked.
    pub(super) fn stop_tree(&mut self, why: Option<KeeperStop>, force: bool, term_ms: u64) {
        self.stop.request(why, force, term_ms, self.leaf.as_ref());
        self.notify_climbed();
    }

    /// Records a reason to stop that no journal has, so that it is known even if this process is killed. Reports whether it is on disk.
    pub(super) fn record_stop(&mut self, why: KeeperStop) -> bool {
        let line =
            Line::new("stop").with("why", spelling::keeper_stop_name(why)).with("at", clock::wall_ms());
        claim::append(&self.claim, &line).and_then(|()| folder::sync(&self.claim)).is_ok()
    }

    /// Freezes or thaws the tree, unless it is being stopped. Reports whether it did.
    pub(super) fn freeze_tree(&mut self, on: bool) -> bool {
        self.stop.freeze(on, self.leaf.as_ref())
    }

    /// Notifies clients of the rung that was reached last.
    fn notify_climbed(&mut self) {
        if let Some(taken) = self.stop.rungs.last() {
            let line = Line::new("event")
                .with("what", "climbed")
                .with("rung", spelling::rung_name(taken.rung))
                .with("alive", self.stop.last.alive);
            self.control.notify(&line);
        }
    }

    /// Sends SIGINT to the leader alone. Reports whether it got it.
    pub(super) fn interrupt(&mut self) -> bool {
        let Some(leader) = self.leader.as_ref().filter(|_| self.exit.is_none()) else { return false };
        self.stop.climb(Rung::Interrupt);
        leader.identity.signal(rustix::process::Signal::INT).unwrap_or(false)
    }

    /// Has guard and shim follow another lease file, or none. Fails, and changes nothing, if the guard does not listen.
    pub(super) fn follow(&mut self, file: Option<LeaseFile>) -> io::Result<()> {
        if !self.lease.follows(file.as_ref()) {
            self.teller.tell(file.as_ref())?;
            self.lease = Lease::follow(file);
        }
        Ok(())
    }

    /// Sleeps until something happens, then handles it.
    fn wait(&mut self) {
        let now = clock::awake_ms();
        let deadline =
            self.launch.deadline.filter(|_| !self.stop.is_requested()).map(|at| at.saturating_sub(now));
        let stop = self.stop.pause_ms().filter(|_| self.ending.is_none());
        let retry = self.ending.as_ref().map(|(_, at)| at.saturating_sub(now));
        let stalled = self.streams.iter().any(Stream::is_stalled).then_some(RETRY_MS);
        let lease = self.lease.pause_ms();
        // No child is left whose death would wake us.
        let group = (self.awaits_group && self.ending.is_none()).then_some(GROUP_PAUSE_MS);
        let pause = [deadline, stop, retry, stalled, lease, group].into_iter().flatten().min();
        let timeout = pause.map(clock::timespec);

        let mut fds = vec![PollFd::new(&self.signals, PollFlags::IN)];
        fds.extend(
            self.streams
                .iter()
                .filter_map(Stream::poll_fd)
                .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)),
        );
        fds.extend(self.input.poll_fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::OUT)));
        fds.extend(self.spawned.as_ref().map(|spawned| PollFd::new(&spawned.verdict, PollFlags::IN)));
        let init = self.init.as_ref().filter(|_| self.exit.is_none());
        fds.extend(init.map(|init| PollFd::from_borrowed_fd(init.status_fd(), PollFlags::IN)));
        fds.extend(self.namespaces.iter().map(|watch| PollFd::from_borrowed_fd(watch.fd(), PollFlags::IN)));
        fds.extend(self.lease.timer().map(|timer| PollFd::from_borrowed_fd(timer, PollFlags::IN)));
        let first_client = fds.len();
        fds.extend(self.control.poll_fds().map(|(fd, has_output)| {
            let flags = if has_output { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
            PollFd::from_borrowed_fd(fd, flags)
        }));
        // It fails if another process lowered our limit of descriptors below what we have open. Then each is tried, a little later.
        let is_blind = poll(&mut fds, timeout.as_ref()) == Err(rustix::io::Errno::INVAL);
        if is_blind && !limits::restore() {
            clock::pause(BLIND_PAUSE_MS);
        }
        let clients_ready = is_blind || fds[first_client..].iter().any(|fd| !fd.revents().is_empty());
        drop(fds);
        self.handle(clients_ready);
    }

    /// Handles whatever woke us. No read or write here blocks, so each is simply tried.
    fn handle(&mut self, clients_ready: bool) {
        // A leader that has exited did so before what is asked for now.
        self.reap();
        // A signal to the keeper itself, by a shutdown or `kill`, is meant for the job.
        let (restores, stops): (Vec<i32>, Vec<i32>) = sys::take_signals(self.signals.as_fd())
            .into_iter()
            .partition(|signal| *signal == missing::RESTORE.as_raw());
        if !restores.is_empty() {
            self.restore();
        }
        if !stops.is_empty() && self.ending.is_none() {
            self.stop_tree(Some(KeeperStop::LocalCancel), false, self.launch.term_ms);
        }
        self.read_verdict();
        self.read_init_status();
        self.watch_namespaces();
        self.record();
        self.write_input();
        if clients_ready {
            self.control.accept();
            for request in self.control.requests() {
                let answer = self.answer(&request);
                self.control.answer(request.client, &answer);
            }
            self.control.drop_closed();
            self.write_input();
        }
    }

    /// Lets a process of the tree enter a namespace, and records first if the tree did not make it.
    fn watch_namespaces(&mut self) {
        let Some(watch) = &self.namespaces else { return };
        let is_known = self.entered_foreign;
        let entered = watch.take(self.own.pid, || {
            if !is_known {
                let _ = claim::append(&self.claim, &Line::new("entered"));
            }
        });
        match entered {
            Entered::Own => {}
            Entered::Foreign => self.entered_foreign = true,
            Entered::Over => self.namespaces = None,
        }
    }

    /// Records what the tree has written, and notifies watchers of a spool.
    fn record(&mut self) {
        let mut buffer = std::mem::take(&mut self.buffer);
        for stream in
            self.streams.iter_mut().filter(|stream| stream.poll_fd().is_some() || stream.is_stalled())
        {
            let seen = stream.seen;
            stream.take(&self.folder, &mut buffer);
            if stream.is_spool() && stream.seen != seen {
                self.control.notify_idle(&Line::new("event").with("what", "wrote"));
            }
        }
        self.buffer = buffer;
    }

    /// Writes queued input to the leader, and notifies clients of each input that was written completely.
    fn write_input(&mut self) {
        let completed = self.input.completed;
        if self.input.poll_fd().is_some() {
            let output_at = self.streams.first().map_or(0, |stream| stream.seen);
            self.input.write(&self.folder, output_at);
        }
        if self.input.completed != completed {
            self.control.notify(&Line::new("event").with("what", "told").with("no", self.input.completed));
        }
    }

    /// Checks whether the program was executed, and answers the launch if so. A failure is answered with the exit record.
    fn read_verdict(&mut self) {
        let Some(spawned) = self.spawned.as_ref() else { return };
        let Ok(not_run) = spawned.verdict(&self.launch) else { return };
        self.not_run = not_run;
        self.spawned = None;
        if self.not_run.is_none()
            && let Some(leader) = &self.leader
        {
            let mut text = self.guard.write(Line::new("guard")).to_string();
            text.push_str(&self.own.write(Line::new("shim")).to_string());
            text.push_str(&leader.line().to_string());
            self.reply(&text);
        }
    }

    /// Sends the result of the launch, once.
    fn reply(&mut self, text: &str) {
        if let Some(reply) = self.reply.take() {
            reply::send(&reply, text);
        }
    }

    /// Handles an empty tree: records the rest of its output, then publishes the exit record.
    fn conclude(&mut self) {
        // First: the rest of the output may take a while.
        let (empty_at_boot_ns, empty_at) = (clock::boot_ns(), clock::awake_ms());
        let took_ms = self.stop.took_ms(empty_at);
        self.read_verdict();
        self.renew_recordings();
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
        let _ = claim::append(&self.claim, &Drained { output, lost }.line());
        let level = self.leader.as_ref().map_or(Level::None, |leader| leader.level);
        let proof = match (&self.not_run, &self.leaf, &self.init) {
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
                processes: std::mem::take(&mut self.stop.seen.processes),
                rungs: std::mem::take(&mut self.stop.rungs),
                leftovers: std::mem::take(&mut self.stop.leftovers),
                found: self.stop.seen.found,
                output,
                output_lost: lost,
                may_escape: self.launch.new_privileges || self.entered_foreign,
                exit: self.exit,
                exited_first: self.exited_first,
                asked_to_empty_ms: took_ms,
                keeper_stop: self.stop.keeper_stop,
                empty_at: Some(lastword_core::Awake(empty_at)),
                launch_error: self.not_run.as_ref().map(|not_run| not_run.error),
                ..Receipt::bare(proof)
            },
            exec_error: self.not_run.as_ref().map(|not_run| not_run.message.clone()),
            by: "shim".to_owned(),
            empty_at_boot_ns,
        };
        // Time limits apply to a running tree; they must not wake a keeper that only waits for disk space.
        self.launch.deadline = None;
        self.lease = Lease::default();
        // If the guard does not listen, it ends an empty tree.
        let _ = self.teller.tell(None);
        self.publish(record);
    }

    /// Publishes the exit record and exits, or schedules a retry.
    fn publish(&mut self, record: ExitRecord) {
        if self.folder.is_removed() {
            self.restore();
        }
        match record.publish(&self.folder) {
            Ok(_) => {
                if let Some(why) = &record.exec_error {
                    self.reply(&reply::refused(why));
                }
                self.control.notify(&Line::new("event").with("what", "ended"));
                let _ = self.folder.remove(&self.socket);
                sys::exit(0)
            }
            // No retry can succeed. The tree is empty, so the next `locate` can safely write the record instead.
            Err(error) if self.folder.is_removed() || limits::is_limit(&error) => {
                sys::exit(EXIT_WITHOUT_RECORD)
            }
            Err(_) => self.ending = Some((record, clock::awake_ms() + RETRY_MS)),
        }
    }
}

/// Reports whether a read would not block.
fn is_readable(fd: BorrowedFd<'_>) -> bool {
    let mut ready = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    poll(&mut ready, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(1)
}
