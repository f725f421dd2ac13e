//! Follows one launch from its nursery down to guard and shim, and strikes one of them exactly at a system call.
//!
//! Guard and shim are forks of the nursery, so a counter by the name of a program cannot tell them apart; parentage
//! can. A process that is not aimed at is released at once and runs at full speed. Every request to the kernel comes from the
//! thread that attached, which is why a [`Tracer`] is a thread of its own.

mod calls;
mod object;
mod raw;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;

pub(crate) use calls::{Call, name_of, number_of};
use raw::Stop;

/// The role of a process in a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    /// Forks the guards.
    Nursery,
    /// The nursery's child.
    Guard,
    /// The guard's first child.
    Shim,
}

impl Role {
    /// Reads the word used on the command line.
    pub(crate) fn parse(word: &str) -> Option<Role> {
        [Role::Nursery, Role::Guard, Role::Shim].into_iter().find(|role| role.word() == word)
    }

    /// Returns the word used on the command line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Role::Nursery => "nursery",
            Role::Guard => "guard",
            Role::Shim => "shim",
        }
    }
}

/// Which call of a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// The nth of all, from 1.
    Nth(usize),
    /// The nth of one kind, from 1: steadier than the nth of all where timing changes what comes between.
    NthOf(u64, usize),
}

/// On which side of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Before it was done; it never is.
    Entry,
    /// After it was done, before the role knows.
    Exit,
}

/// What happens there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blow {
    /// Nothing: the calls are only listed.
    None,
    /// kill -9.
    Kill,
    /// The call is not done and answers with this error.
    Fail(i32),
}

/// Which process is struck, where and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Aim {
    pub(crate) role: Role,
    pub(crate) point: Point,
    pub(crate) side: Side,
    pub(crate) blow: Blow,
}

/// What a tracer does with one launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) first: Aim,
    /// How many calls fail, where that is the blow: the one aimed at, and those of its kind that follow.
    pub(crate) times: usize,
    /// A second role, killed so many calls after the first was.
    pub(crate) then: Option<(Role, usize)>,
}

/// What was seen of a launch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// The calls of the role aimed at, in order.
    pub(crate) calls: Vec<Call>,
    /// The call that was struck, if the role came so far.
    pub(crate) struck: Option<Call>,
    /// The role came so far, but what it worked on there cannot fail so.
    pub(crate) is_spared: bool,
    /// What the struck call worked on, where it was a descriptor.
    pub(crate) object: Option<String>,
    /// The call at which the second role was killed, if it came so far.
    pub(crate) struck_then: Option<Call>,
    /// Processes by role.
    pub(crate) pids: BTreeMap<Role, i32>,
}

/// A tracer at work.
pub(crate) struct Tracer {
    thread: Option<JoinHandle<Result<Seen, String>>>,
    held: Arc<Held>,
}

/// What the thread shares with callers that may want it to let go.
#[derive(Default)]
struct Held {
    let_go: AtomicBool,
    tracees: Mutex<BTreeSet<i32>>,
    /// Guard and shim, as they are born.
    keepers: Mutex<Vec<i32>>,
}

impl Tracer {
    /// Attaches to a nursery. When this returns, the next launch is followed.
    pub(crate) fn attach(nursery: i32, plan: Plan) -> Result<Tracer, String> {
        let held = Arc::new(Held::default());
        let (ready, attached) = mpsc::channel();
        let shared = held.clone();
        let thread = std::thread::spawn(move || {
            shared.lock().insert(nursery);
            let start = raw::seize(nursery).and_then(|()| match plan.first.role {
                Role::Nursery => raw::interrupt(nursery),
                _ => Ok(()),
            });
            let failed = start.is_err();
            let start =
                start.map_err(|error| format!("cannot trace the nursery {nursery}: {error}; is this root?"));
            // The caller waits for this message; if the caller is gone, there is no receiver left.
            let _ = ready.send(start.clone());
            if failed {
                return start.map(|()| Seen::default());
            }
            Chase::new(nursery, plan, shared).run().map_err(|error| format!("tracing failed: {error}"))
        });
        attached.recv().map_err(|_| "the tracer's thread died".to_owned())??;
        Ok(Tracer { thread: Some(thread), held })
    }

    /// Waits until the role aimed at has ended, and says what was seen.
    pub(crate) fn join(mut self) -> Result<Seen, String> {
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(seen)) => seen,
            _ => Err("the tracer's thread panicked".to_owned()),
        }
    }

    /// Reports whether it has nothing left to follow.
    pub(crate) fn is_done(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Returns guard and shim as far as they are born.
    pub(crate) fn keepers(&self) -> Vec<i32> {
        self.held.keepers.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    /// Releases every process that is still followed, unharmed, and returns what was seen.
    pub(crate) fn release(self) -> Result<Seen, String> {
        self.held.release();
        self.join()
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.held.release();
            // A caller that drops the tracer does not need its result.
            let _ = thread.join();
        }
    }
}

impl Held {
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeSet<i32>> {
        self.tracees.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The thread sleeps in `waitpid`; a signal that every process ignores stops a tracee, which wakes the thread.
    fn release(&self) {
        self.let_go.store(true, Ordering::SeqCst);
        for pid in self.lock().iter() {
            raw::poke(*pid);
        }
    }
}

/// How a tracee is resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// Until it forks.
    Run,
    /// Until its next call.
    Step,
}

struct Tracee {
    role: Role,
    pace: Pace,
    /// Calls of each kind so far, to find the nth of one.
    kinds: BTreeMap<u64, usize>,
    /// Calls so far.
    count: usize,
    /// The call it is in.
    call: Option<Call>,
    /// The error its call will answer with.
    answer: Option<i32>,
}

impl Tracee {
    fn new(role: Role, pace: Pace) -> Tracee {
        Tracee { role, pace, kinds: BTreeMap::new(), count: 0, call: None, answer: None }
    }

    fn is_at(&self, point: Point) -> bool {
        match (point, self.call) {
            (Point::Nth(nth), Some(_)) => self.count == nth,
            (Point::NthOf(kind, nth), Some(call)) => {
                call.number == kind && self.kinds.get(&kind).is_some_and(|count| *count == nth)
            }
            (_, None) => false,
        }
    }
}

/// One launch, as the tracer's thread follows it.
struct Chase {
    plan: Plan,
    held: Arc<Held>,
    tracees: BTreeMap<i32, Tracee>,
    /// Children that stopped before their parent told of them.
    strangers: BTreeSet<i32>,
    /// Calls that were made to fail.
    failed: usize,
    seen: Seen,
}

impl Chase {
    fn new(nursery: i32, plan: Plan, held: Arc<Held>) -> Chase {
        let pace = if plan.first.role == Role::Nursery { Pace::Step } else { Pace::Run };
        let tracees = BTreeMap::from([(nursery, Tracee::new(Role::Nursery, pace))]);
        let seen = Seen { pids: BTreeMap::from([(Role::Nursery, nursery)]), ..Seen::default() };
        Chase { plan, held, tracees, strangers: BTreeSet::new(), failed: 0, seen }
    }

    fn run(mut self) -> std::io::Result<Seen> {
        while let Some((pid, stop)) = raw::wait(-1)? {
            if stop == Stop::Gone {
                self.forget(pid);
            } else if self.held.let_go.load(Ordering::SeqCst) {
                self.release(pid, stop);
            } else if self.tracees.contains_key(&pid) {
                self.stopped(pid, stop)?;
            } else {
                self.strangers.insert(pid);
            }
        }
        Ok(self.seen)
    }

    fn forget(&mut self, pid: i32) {
        self.tracees.remove(&pid);
        self.held.lock().remove(&pid);
    }

    /// Lets one tracee go that is stopped. It may be gone by now, which is as good.
    fn release(&mut self, pid: i32, stop: Stop) {
        let signal = match stop {
            Stop::Signal(signal) if signal != raw::POKE => signal,
            _ => 0,
        };
        raw::detach(pid, signal);
        self.forget(pid);
    }

    fn resume(&mut self, pid: i32, signal: i32) {
        if self.held.let_go.load(Ordering::SeqCst) {
            // Asked for after the look at the top of the loop; a tracee that came on the list since was not poked.
            return self.release(pid, Stop::Signal(signal));
        }
        match self.tracees[&pid].pace {
            Pace::Run => raw::run(pid, signal),
            Pace::Step => raw::step(pid, signal),
        }
    }

    fn stopped(&mut self, pid: i32, stop: Stop) -> std::io::Result<()> {
        match stop {
            Stop::Forked(child) => self.born(pid, child),
            Stop::Call => self.at_call(pid)?,
            Stop::Signal(signal) => self.resume(pid, signal),
            Stop::Group => raw::listen(pid),
            Stop::Event => self.resume(pid, 0),
            Stop::Gone => {}
        }
        Ok(())
    }

    /// Roles that are still of interest once `role` has forked the next one.
    fn wants(&self, role: Role) -> bool {
        self.plan.first.role == role || self.plan.then.is_some_and(|(then, _)| then == role)
    }

    fn born(&mut self, parent: i32, child: i32) {
        let of = self.tracees[&parent].role;
        let role = match of {
            Role::Nursery => Some(Role::Guard),
            Role::Guard => Some(Role::Shim),
            Role::Shim => None,
        };
        let role = role.filter(|role| !self.seen.pids.contains_key(role));
        if let Some(role) = role {
            self.seen.pids.insert(role, child);
            self.held.keepers.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(child);
        }
        // The guard is followed to its first child in any case: the keepers must be known.
        let deeper = role.is_some_and(|role| role == Role::Guard || self.wants(role));
        if let Some(role) = role.filter(|_| deeper) {
            let pace = if self.plan.first.role == role { Pace::Step } else { Pace::Run };
            self.tracees.insert(child, Tracee::new(role, pace));
            self.held.lock().insert(child);
        }
        self.welcome(child, deeper);
        if self.wants(of) {
            self.resume(parent, 0);
        } else {
            self.release(parent, Stop::Event);
        }
    }

    /// Takes a child on, or lets it go, once it has stopped for the first time; it may have done so already.
    fn welcome(&mut self, child: i32, wanted: bool) {
        if !self.strangers.remove(&child)
            && raw::wait(child).ok().flatten().is_none_or(|(_, stop)| stop == Stop::Gone)
        {
            return self.forget(child);
        }
        if !wanted {
            return raw::detach(child, 0);
        }
        if self.tracees[&child].role == Role::Shim {
            // What the shim forks is the job, which must not be touched.
            raw::follow_no_forks(child);
        }
        self.resume(child, 0);
    }

    fn at_call(&mut self, pid: i32) -> std::io::Result<()> {
        let Some(side) = raw::call(pid)? else {
            self.resume(pid, 0);
            return Ok(());
        };
        let tracee = self.tracees.get_mut(&pid).expect("only known tracees come here");
        let aimed = tracee.role == self.plan.first.role && self.seen.struck.is_none();
        match side {
            raw::CallSide::Entry { number, first_argument } => {
                tracee.count += 1;
                *tracee.kinds.entry(number).or_default() += 1;
                tracee.call = Some(Call { number, first_argument, result: None });
                if let (true, Some(call)) = (aimed, tracee.call) {
                    self.seen.calls.push(call);
                }
                self.strike(pid, Side::Entry)
            }
            raw::CallSide::Exit { mut result } => {
                if let Some(errno) = tracee.answer.take() {
                    raw::answer(pid, errno)?;
                    result = -i64::from(errno);
                }
                if let Some(call) = tracee.call.as_mut() {
                    call.result = Some(result);
                }
                if let (true, Some(call), Some(last)) = (aimed, tracee.call, self.seen.calls.last_mut()) {
                    *last = call;
                }
                let done = self.strike(pid, Side::Exit);
                if let Some(tracee) = self.tracees.get_mut(&pid) {
                    tracee.call = None;
                }
                done
            }
        }
    }

    /// Strikes, if this is the place; otherwise the tracee goes on.
    fn strike(&mut self, pid: i32, side: Side) -> std::io::Result<()> {
        let tracee = &self.tracees[&pid];
        let (first, call) = (self.plan.first, tracee.call);
        let is_first = tracee.role == first.role && side == first.side;
        match (first.blow, self.plan.then) {
            (Blow::Kill, _) if is_first && self.seen.struck.is_none() && tracee.is_at(first.point) => {
                self.seen.struck = call;
                self.kill_first(pid);
            }
            (Blow::Fail(errno), _) if is_first && self.is_to_fail(tracee) => return self.fail(pid, errno),
            (Blow::Kill, Some((then, after)))
                if then == tracee.role
                    && self.seen.struck.is_some()
                    && side == Side::Entry
                    && tracee.count >= after =>
            {
                self.seen.struck_then = call;
                raw::kill(pid);
            }
            _ => self.resume(pid, 0),
        }
        Ok(())
    }

    /// Reports whether this is the call that fails, or one of its kind that follows.
    fn is_to_fail(&self, tracee: &Tracee) -> bool {
        match (self.seen.struck, tracee.call) {
            (None, _) => tracee.is_at(self.plan.first.point),
            (Some(struck), Some(call)) => struck.number == call.number && self.failed < self.plan.times,
            (Some(_), None) => false,
        }
    }

    /// Makes the call that is being entered fail, if it can.
    fn fail(&mut self, pid: i32, errno: i32) -> std::io::Result<()> {
        let tracee = self.tracees.get_mut(&pid).expect("it is a tracee");
        let object = tracee.call.and_then(|call| object::of(pid, call));
        if object.as_ref().is_none_or(|object| object.can_fail(errno)) {
            raw::skip(pid)?;
            tracee.answer = Some(errno);
            self.failed += 1;
            if self.seen.struck.is_none() {
                self.seen.struck = tracee.call;
                self.seen.object = object.map(|object| object.name);
            }
        } else {
            self.seen.is_spared |= self.seen.struck.is_none();
        }
        self.resume(pid, 0);
        Ok(())
    }

    /// Kills the role aimed at. The second one, if there is one, is stopped before, so that its calls count from here.
    fn kill_first(&mut self, pid: i32) {
        let second = self.plan.then.and_then(|(then, _)| self.seen.pids.get(&then).copied());
        if let Some(second) = second.filter(|second| self.tracees.contains_key(second)) {
            self.halt(second);
        }
        raw::kill(pid);
        if let Some(tracee) = second.and_then(|second| self.tracees.get_mut(&second)) {
            *tracee = Tracee::new(tracee.role, Pace::Step);
            self.resume(second.expect("it is there"), 0);
        }
    }

    /// Stops a running tracee, letting through what happens to it on the way.
    fn halt(&mut self, pid: i32) {
        if raw::interrupt(pid).is_err() {
            return;
        }
        loop {
            match raw::wait(pid) {
                Ok(Some((_, Stop::Event))) => return,
                Ok(Some((_, Stop::Forked(child)))) => self.born(pid, child),
                Ok(Some((_, Stop::Signal(signal)))) => self.resume(pid, signal),
                Ok(Some((_, Stop::Group | Stop::Call))) => self.resume(pid, 0),
                _ => return self.forget(pid),
            }
        }
    }
}

#[cfg(test)]
mod tests;
