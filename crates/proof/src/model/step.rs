//! What can happen next in the model's world, and what it leads to.

use std::sync::Arc;

use lastword_core::decide::cancel::{self, Cancel};
use lastword_core::decide::claim::{self, Claimant, Lease};
use lastword_core::decide::limit;
use lastword_core::effects::Effect;
use lastword_core::limits::Limit;
use lastword_core::outcome::Asked;
use lastword_core::owner::{Input, Output, Owner};
use lastword_core::receipt::{Exit, KeeperStop, Level, Proof, Receipt, Rung, Tree};
use lastword_core::report::{Found, Report};
use lastword_core::{Append, AppendId, AttemptNo, Awake, Fact, Fence, Timestamp};
use lastword_store::Error;

use super::world::{Bounds, Keeper, Proc, Request, World, host_id, host_of, incarnation, owner_id};

/// One thing that can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    /// It takes the job, waiting or left behind.
    Claim(u8),
    /// Its append reaches the journal, and the answer reaches it.
    Deliver(u8),
    /// Its append reaches the journal, and the answer gets lost.
    LoseAnswer(u8),
    /// It sends the append again that had no answer.
    Again(u8),
    /// It learns that another process wrote.
    News(u8),
    /// It looks at the clock.
    Tick(u8),
    /// The n-th effect it asked for is carried out, and it hears of it.
    Do(u8, u8),
    /// The same, but it cannot be.
    Refuse(u8, u8),
    /// It is carried out, and the report gets lost.
    LoseReport(u8, u8),
    /// It hears that the tree it watches is empty.
    Notice(u8),
    /// It dies.
    Crash(u8),
    /// It starts again and registers a new life.
    Boot(u8),
    /// Its lease runs out; what it holds on that host ends itself.
    LeaseOver(u8),
    /// The leader exits by itself, with success or without.
    Exit(u8, bool),
    /// The keeper, told to stop, empties the tree.
    Empty(u8),
    /// The keeper ends the tree by its own deadline.
    Deadline(u8),
    /// Guard and shim are both killed; the tree works on.
    KeeperCrash(u8),
    /// A host boots again.
    Reboot(u8),
    /// An append of a dead process arrives after all.
    Ghost(u8),
    /// A client decides to cancel, based on what is stored now.
    AskCancel,
    /// The cancel request reaches the journal.
    DeliverCancel,
    /// A client raises the limit.
    RaiseLimit,
    /// Time passes the limit.
    GetLate,
}

pub(crate) fn actions(world: &World, bounds: &Bounds, out: &mut Vec<Action>) {
    for (i, proc) in world.procs.iter().enumerate() {
        of_proc(world, bounds, i as u8, proc, out);
    }
    for (a, keeper) in world.keepers.iter().enumerate() {
        let a = a as u8;
        if keeper.alive && keeper.tree {
            out.push(Action::Exit(a, true));
            out.push(Action::Exit(a, false));
            if keeper.told {
                out.push(Action::Empty(a));
            }
            if world.late {
                out.push(Action::Deadline(a));
            }
            if world.crashes > 0 {
                out.push(Action::KeeperCrash(a));
            }
        }
    }
    if world.crashes > 0 && world.keepers.iter().any(|keeper| keeper.started && keeper.record.is_none()) {
        out.push(Action::Reboot(0));
    }
    out.extend((0..world.ghosts.len() as u8).map(Action::Ghost));
    if !bounds.wishes {
        return;
    }
    match world.cancel {
        Request::Unmade if !world.shelf.job.is_ended() => out.push(Action::AskCancel),
        Request::Made(_) => out.push(Action::DeliverCancel),
        _ => {}
    }
    let fired = world.shelf.facts().any(|fact| matches!(fact, Fact::LimitFired(_)));
    if world.raise == Request::Unmade && fired && !world.shelf.job.is_ended() {
        out.push(Action::RaiseLimit);
    }
    if !world.late && world.shelf.job.open_attempt().is_some() {
        out.push(Action::GetLate);
    }
}

fn of_proc(world: &World, bounds: &Bounds, i: u8, proc: &Proc, out: &mut Vec<Action>) {
    let ended = world.shelf.job.is_ended();
    if !proc.up {
        if world.registered < bounds.incarnations && !ended {
            out.push(Action::Boot(i));
        }
        return;
    }
    let holds = proc.owner.as_ref().is_some_and(|owner| !owner.is_gone());
    // A process that holds nothing dies unnoticed.
    if world.crashes > 0 && proc.owner.is_some() {
        out.push(Action::Crash(i));
    }
    if holds && !proc.lease_over {
        out.push(Action::LeaseOver(i));
    }
    if !holds && !proc.lease_over && !ended {
        out.push(Action::Claim(i));
    }
    if proc.sending.is_some() {
        if proc.silence {
            out.push(Action::Again(i));
        } else {
            out.push(Action::Deliver(i));
            if world.losses > 0 {
                out.push(Action::LoseAnswer(i));
            }
        }
    }
    for n in 0..proc.doing.len() as u8 {
        out.push(Action::Do(i, n));
        let effect = &proc.doing[n as usize];
        if matches!(effect, Effect::Launch { .. }) {
            out.push(Action::Refuse(i, n));
        }
        if world.losses > 0 && effect.is_exclusive() {
            out.push(Action::LoseReport(i, n));
        }
    }
    let Some(owner) = proc.owner.as_ref().filter(|owner| !owner.is_gone()) else { return };
    if owner.job().version < world.shelf.job.version && !owner.waits_for_journal() {
        out.push(Action::News(i));
    }
    if world.late && !proc.ticked && matches!(owner.job().phase, lastword_core::Phase::Running) {
        out.push(Action::Tick(i));
    }
    let empty = |no: u32| world.keepers.get(no as usize - 1).is_some_and(|keeper| keeper.record.is_some());
    if proc.watching.is_some_and(empty) {
        out.push(Action::Notice(i));
    }
}

pub(crate) fn step(before: &World, action: Action) -> Option<World> {
    let mut world = before.clone();
    match action {
        Action::Claim(i) => return claim(world, i as usize),
        Action::Deliver(i) => deliver(&mut world, i as usize),
        Action::LoseAnswer(i) => {
            world.losses -= 1;
            let append = world.procs[i as usize].sending.clone()?;
            store(&mut world, &append).ok();
            world.procs[i as usize].silence = true;
        }
        Action::Again(i) => {
            world.procs[i as usize].silence = false;
            world.procs[i as usize].sending = None;
            tell(&mut world, i as usize, Input::Unavailable);
            tell(&mut world, i as usize, Input::Tick);
        }
        Action::News(i) => tell(&mut world, i as usize, Input::News),
        Action::Tick(i) => {
            world.procs[i as usize].ticked = true;
            tell(&mut world, i as usize, Input::Tick);
        }
        Action::Do(i, n) => {
            let effect = world.procs[i as usize].doing.remove(n as usize);
            if let Some(report) = carry_out(&mut world, i as usize, &effect) {
                tell(&mut world, i as usize, Input::Report(report));
            }
        }
        Action::Refuse(i, n) => {
            let effect = world.procs[i as usize].doing.remove(n as usize);
            let Effect::Launch { attempt } = effect else { return None };
            let failed =
                Report::LaunchFailed { attempt, error: "no such program".into(), launch_error: None };
            tell(&mut world, i as usize, Input::Report(failed));
        }
        Action::LoseReport(i, n) => {
            world.losses -= 1;
            let effect = world.procs[i as usize].doing.remove(n as usize);
            carry_out(&mut world, i as usize, &effect)?;
            tell(&mut world, i as usize, Input::Report(Report::Unclear(effect)));
        }
        Action::Notice(i) => notice(&mut world, i as usize),
        Action::Crash(i) => {
            world.crashes -= 1;
            crash(&mut world, i as usize);
        }
        Action::Boot(i) => {
            world.registered += 1;
            let life = world.registered;
            let proc = &mut world.procs[i as usize];
            (proc.up, proc.life) = (true, life);
        }
        Action::LeaseOver(i) => lease_over(&mut world, i as usize),
        Action::Exit(a, success) => {
            let code = Exit::Code(i32::from(!success));
            leave(&mut world, a, |receipt| receipt.exit = Some(code));
        }
        Action::Empty(a) => leave(&mut world, a, |receipt| receipt.exit = Some(Exit::Signal(9))),
        Action::Deadline(a) => leave(&mut world, a, |receipt| {
            receipt.keeper_stop = Some(KeeperStop::Deadline);
            receipt.exit = Some(Exit::Signal(9));
        }),
        Action::KeeperCrash(a) => {
            world.crashes -= 1;
            world.keepers[a as usize].alive = false;
        }
        Action::Reboot(host) => reboot(&mut world, host as usize),
        Action::Ghost(n) => {
            let append = world.ghosts.remove(n as usize);
            store(&mut world, &append).ok();
        }
        Action::AskCancel | Action::DeliverCancel | Action::RaiseLimit => request(&mut world, action),
        Action::GetLate => world.late = true,
    }
    Some(world)
}

/// Stores an append, noticing what no journal may let in.
fn store(world: &mut World, append: &Append) -> Result<(), Error> {
    let holder = world.shelf.job.holder.as_ref().map(|holder| holder.fence.clone());
    let known = world.shelf.log.iter().any(|entry| entry.0 == append.id);
    let result = world.shelf.append(append);
    if let (Some(fence), false, Ok(())) = (&append.fence, known, &result)
        && holder.as_ref() != Some(fence)
    {
        world.broken = Some("a write of an owner that does not hold the job was stored");
    }
    if let Err(Error::Corrupt(_)) = result {
        world.broken = Some("an append that breaks the log was let in");
    }
    result
}

fn claim(mut world: World, i: usize) -> Option<World> {
    let by = Claimant {
        owner: owner_id(i),
        incarnation: incarnation(world.procs[i].life),
        host: host_id(host_of(i)),
        // One of two intends with its claim, the other after it.
        boot: i.is_multiple_of(2).then(|| world.boots[host_of(i)].to_string().into()),
    };
    let lease = world.shelf.job.holder.as_ref().map_or(Lease::Live, |holder| {
        let proc = &world.procs[n_of(&holder.fence)];
        let same_life = incarnation(proc.life) == holder.fence.incarnation;
        match proc {
            Proc { lease_over: true, .. } => Lease::Over,
            // A process that is down keeps its lease until it runs out or it registers again.
            Proc { up: false, .. } => Lease::Live,
            _ if same_life => Lease::Live,
            _ => Lease::Replaced { here: host_of(n_of(&holder.fence)) == host_of(i) },
        }
    });
    let facts = claim::decide(&world.shelf.job, &by, lease, Timestamp(1)).ok()?;
    let epoch = world.shelf.job.epoch.next();
    let fence = Fence { owner: by.owner, incarnation: by.incarnation, epoch };
    let id = AppendId::of_owner(&fence, u32::MAX);
    let (append, after) = Append::new(&world.shelf.job, None, id, Timestamp(1), facts).ok()?;
    store(&mut world, &append).ok()?;
    let mut owner =
        Owner::new(after, fence, by.host, world.boots[host_of(i)].to_string().into(), world.now());
    let outputs = owner.step(Input::Tick, world.now());
    let proc = &mut world.procs[i];
    *proc = Proc { owner: Some(Arc::new(owner)), ticked: world.late, ..fresh(proc) };
    route(&mut world, i, outputs);
    Some(world)
}

fn n_of(fence: &Fence) -> usize {
    (0..4).find(|n| owner_id(*n) == fence.owner).unwrap_or(usize::MAX)
}

/// Any order of what is under way is explored, so the order it is kept in must not tell worlds apart.
fn rank(effect: &Effect) -> u8 {
    match effect {
        Effect::Launch { .. } => 0,
        Effect::Locate { .. } => 1,
        Effect::Watch { .. } => 2,
        Effect::Stop { force, .. } => 3 + u8::from(*force),
        Effect::Deadline { .. } => 5,
        Effect::Tell { .. } => 6,
        Effect::Interrupt { .. } => 7,
        Effect::Close { .. } => 8,
        Effect::Hold { still, .. } => 9 + u8::from(*still),
    }
}

/// The process without anything under way.
fn fresh(proc: &Proc) -> Proc {
    Proc { owner: None, sending: None, silence: false, doing: Vec::new(), watching: None, ..*proc }
}

fn tell(world: &mut World, i: usize, input: Input) {
    let now = world.now();
    let Some(owner) = &mut world.procs[i].owner else { return };
    let outputs = Arc::make_mut(owner).step(input, now);
    route(world, i, outputs);
}

fn route(world: &mut World, i: usize, outputs: Vec<Output>) {
    for output in outputs {
        let proc = &mut world.procs[i];
        match output {
            Output::Append(append) => proc.sending = Some(Arc::from(append)),
            Output::Load { after } => {
                let events = world.shelf.after(after);
                tell(world, i, Input::Loaded(events));
            }
            Output::Do(Effect::Watch { attempt }) => proc.watching = Some(attempt.0),
            // The keeper's own deadline is an action of the model.
            Output::Do(Effect::Deadline { .. }) => {}
            Output::Do(effect) => {
                proc.doing.push(effect);
                proc.doing.sort_by_key(rank);
            }
            Output::LetGo { .. } => *proc = fresh(proc),
            Output::Broken(_) => world.broken = Some("the owner decided what the log refuses"),
        }
    }
}

fn deliver(world: &mut World, i: usize) {
    let Some(append) = world.procs[i].sending.take() else { return };
    let answer = match store(world, &append) {
        Ok(()) => Input::Stored,
        Err(Error::Fenced { .. }) => Input::Fenced,
        Err(_) => Input::Conflict,
    };
    tell(world, i, answer);
}

fn keeper(world: &mut World, i: usize, attempt: AttemptNo) -> &mut Keeper {
    let (host, boots) = (host_of(i), world.boots);
    while world.keepers.len() < attempt.0 as usize {
        world.keepers.push(Keeper {
            host,
            boot: boots[host],
            started: false,
            closed: false,
            alive: false,
            tree: false,
            told: false,
            record: None,
        });
    }
    &mut world.keepers[attempt.0 as usize - 1]
}

fn tree_of(attempt: AttemptNo, boot: u8) -> Tree {
    Tree {
        boot: boot.to_string(),
        pid: attempt.0 as i32,
        start_ticks: 1,
        level: Level::Subreaper,
        withheld: None,
    }
}

fn carry_out(world: &mut World, i: usize, effect: &Effect) -> Option<Report> {
    let lease_over = world.procs[i].lease_over;
    match *effect {
        Effect::Launch { attempt } => {
            let place = keeper(world, i, attempt);
            if place.closed || place.started || lease_over {
                // The place is closed, or the keeper finds its lease over before it starts anything.
                place.closed = true;
                return Some(Report::LaunchFailed { attempt, error: "closed".into(), launch_error: None });
            }
            (place.started, place.alive, place.tree) = (true, true, true);
            Some(Report::Launched { attempt, tree: tree_of(attempt, place.boot), awake: Awake(1) })
        }
        Effect::Locate { attempt } => {
            let found = locate(world, i, attempt);
            Some(Report::Located { attempt, found })
        }
        Effect::Stop { attempt, .. } => {
            let asked = world.shelf.facts().any(|fact| {
                matches!(fact, Fact::CancelRequested(_) | Fact::LimitFired(_) | Fact::Abandoned(_))
            });
            if !asked && !world.late {
                world.broken = Some("a tree was signalled before the wish was stored");
            }
            let place = keeper(world, i, attempt);
            place.told = true;
            let works = place.alive && place.tree;
            works.then_some(Report::Climbed { attempt, rung: Rung::Kill, alive: 1 })
        }
        Effect::Watch { .. }
        | Effect::Deadline { .. }
        | Effect::Tell { .. }
        | Effect::Interrupt { .. }
        | Effect::Hold { .. }
        | Effect::Close { .. } => None,
    }
}

fn locate(world: &mut World, i: usize, attempt: AttemptNo) -> Found {
    let boot = world.boots[host_of(i)];
    let owner = world.procs[i].owner.as_ref();
    let intended = owner.and_then(|owner| {
        owner.job().attempts.iter().find(|known| known.no == attempt).and_then(|known| known.boot.clone())
    });
    let place = keeper(world, i, attempt);
    if let Some(receipt) = &place.record {
        return match receipt.proof {
            Proof::BestEffort => Found::Vanished(Box::new(Receipt::clone(receipt))),
            _ => Found::Ended(Box::new(Receipt::clone(receipt))),
        };
    }
    if !place.started {
        place.closed = true;
        // A claim may be lost with the power: that it never ran can be said only of this boot.
        let is_past = intended.is_some_and(|intended| *intended != *boot.to_string());
        return if is_past { Found::OtherBoot } else { Found::NeverStarted };
    }
    if place.boot != boot {
        return Found::OtherBoot;
    }
    if place.alive {
        return Found::Alive { tree: tree_of(attempt, place.boot), awake: Awake(1) };
    }
    // The keeper is gone: sweep, then say so.
    place.tree = false;
    let receipt = Receipt::bare(Proof::BestEffort);
    place.record = Some(Arc::new(receipt.clone()));
    Found::Vanished(Box::new(receipt))
}

fn leave(world: &mut World, a: u8, fill: impl FnOnce(&mut Receipt)) {
    let place = &mut world.keepers[a as usize];
    let mut receipt = Receipt { level: Level::Subreaper, ..Receipt::bare(Proof::NoChildren) };
    fill(&mut receipt);
    place.tree = false;
    place.alive = false;
    place.record = Some(Arc::new(receipt));
}

fn notice(world: &mut World, i: usize) {
    let Some(no) = world.procs[i].watching.take() else { return };
    let Some(receipt) = world.keepers[no as usize - 1].record.clone() else { return };
    let attempt = AttemptNo(no);
    tell(world, i, Input::Report(Report::Emptied { attempt, receipt: Box::new(Receipt::clone(&receipt)) }));
}

fn crash(world: &mut World, i: usize) {
    let proc = &mut world.procs[i];
    // What was on its way may still arrive.
    world.ghosts.extend(proc.sending.take());
    *proc = Proc { up: false, lease_over: false, ticked: false, ..fresh(proc) };
}

/// The lease of a process runs out: its keepers end what they hold for it before that.
fn lease_over(world: &mut World, i: usize) {
    world.procs[i].lease_over = true;
    let held = world.shelf.job.holder.as_ref().is_some_and(|holder| n_of(&holder.fence) == i);
    for a in 0..world.keepers.len() {
        let place = &world.keepers[a];
        if held && place.tree && place.host == host_of(i) {
            leave(world, a as u8, |receipt| receipt.keeper_stop = Some(KeeperStop::Lease));
        }
    }
}

fn reboot(world: &mut World, host: usize) {
    world.crashes -= 1;
    world.boots[host] += 1;
    for place in world.keepers.iter_mut().filter(|place| place.host == host) {
        (place.alive, place.tree) = (false, false);
    }
    for i in 0..world.procs.len() {
        if host_of(i) == host && world.procs[i].up {
            crash(world, i);
        }
    }
}

fn request(world: &mut World, action: Action) {
    let job = &world.shelf.job;
    let (made, facts) = match (action, &world.cancel) {
        (Action::AskCancel, _) => {
            let cancel = Cancel { by: "ann".into(), asked: Asked::User, force: false };
            (None, cancel::decide(job, &cancel, Timestamp(1)))
        }
        // Not the one that has fired: that is refused.
        (Action::RaiseLimit, _) => (None, limit::decide(job, "ann", Limit::Output, 1_000)),
        (_, Request::Made(append)) => (Some(Arc::clone(append)), Ok(Vec::new())),
        _ => return,
    };
    let id = AppendId(if action == Action::RaiseLimit { 3 } else { 2 });
    match (action, made, facts) {
        (Action::DeliverCancel, Some(append), _) => {
            world.cancel = match store(world, &append) {
                Ok(()) => Request::Acknowledged,
                // Another write came first: decide again.
                Err(_) => Request::Unmade,
            };
        }
        (Action::AskCancel, _, Ok(facts)) if facts.is_empty() => world.cancel = Request::Acknowledged,
        (_, _, Ok(facts)) => match Append::new(job, None, id, Timestamp(1), facts) {
            Ok((append, _)) if action == Action::AskCancel => world.cancel = Request::Made(Arc::new(append)),
            Ok((append, _)) => {
                store(world, &append).ok();
                world.raise = Request::Acknowledged;
            }
            Err(_) => world.broken = Some("a request was decided that the log refuses"),
        },
        (_, _, Err(_)) => {}
    }
}
