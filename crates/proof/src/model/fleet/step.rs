//! What can happen next in the modelled fleet, and what it leads to.

use lastword_core::Fact;
use lastword_core::effects::Effect;
use lastword_core::outcome::Outcome;
use lastword_core::receipt::Proof;

use super::attempt::{Keeper, State};
use super::coverage::{Notes, Situation};
use super::world::{CLONE, ORIGINAL, Worker, World};

/// One thing that can happen: to a worker (the number of its host), to a clerk, or to the keeper of an attempt on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// A tick passes. Every worker that is well renews its lease.
    Tick,
    /// The worker is frozen.
    Freeze(usize),
    /// It goes on.
    Thaw(usize),
    /// It sends a renewal or a registration that takes its time.
    Hang(usize),
    /// That reaches the journal.
    DeliverCall(usize),
    /// The answer to that reaches the worker.
    AnswerCall(usize),
    /// The worker gives that up.
    GiveUpCall(usize),
    /// The worker is killed. Its keepers go on.
    Crash(usize),
    /// It is started again.
    Restart(usize),
    /// It registers.
    Register(usize),
    /// It asks for a job that is ready.
    Claim(usize),
    /// It asks for a job whose holder is gone.
    TakeOver(usize),
    /// Its append is stored, or not, and answered.
    Store(usize),
    /// Its append is stored, or not, and the answer gets lost.
    StoreUnanswered(usize),
    /// It repeats that.
    Repeat(usize),
    /// The n-th effect that its owner asked for is carried out, or reported on.
    Do(usize, usize),
    /// It hears that the tree is empty.
    Notice(usize),
    /// The shim looks at the lease, and opens the gate.
    OpenGate(usize, u32),
    /// The leader exits with success.
    Exit(usize, u32),
    /// Guard or shim ends the tree, because the lease is over.
    EndByLease(usize, u32),
    /// The shim is frozen.
    FreezeShim(usize, u32),
    /// The shim goes on.
    ThawShim(usize, u32),
    /// The guard is killed.
    KillGuard(usize, u32),
    /// The clerk reads lives, or the pause.
    Look(usize),
    /// What it decided to end reaches the journal.
    End(usize),
    /// It takes a job whose holder is gone.
    Sweep(usize),
    /// What it writes about that job reaches the journal.
    Account(usize),
    /// Its clock runs a tick ahead.
    RunAhead(usize),
    /// The standby is promoted, and lacks so many appends.
    FailOver(usize),
    /// The first host is cloned.
    Clone,
}

/// Lists what can happen. Some of it may change nothing.
pub(super) fn actions(world: &World) -> Vec<Action> {
    let mut out = Vec::new();
    if !world.keepers.iter().any(|((host, _), keeper)| world.is_due(*host, keeper)) {
        out.push(Action::Tick);
    }
    for worker in 0..world.workers.len() {
        of_worker(world, worker, &mut out);
    }
    for clerk in 0..world.clerks.len() {
        of_clerk(world, clerk, &mut out);
    }
    of_keepers(world, &mut out);
    if world.left.failovers > 0 {
        out.extend((0..=world.database.losable()).map(Action::FailOver));
    }
    if world.left.clones > 0 && world.workers.len() == CLONE {
        out.push(Action::Clone);
    }
    out
}

fn of_worker(world: &World, n: usize, out: &mut Vec<Action>) {
    let worker = &world.workers[n];
    if let Some(call) = &worker.call {
        match call.answer.is_some() {
            true if world.is_up(n) => out.push(Action::AnswerCall(n)),
            true => {}
            false => out.push(Action::DeliverCall(n)),
        }
        if world.is_up(n) {
            out.push(Action::GiveUpCall(n));
        }
    }
    if worker.is_down {
        return out.push(Action::Restart(n));
    }
    if worker.is_frozen {
        return out.push(Action::Thaw(n));
    }
    // What strikes a worker that has done nothing strikes nothing.
    let has_acted = worker.hand.is_some() || !worker.errands.is_empty();
    if world.left.stalls > 0 && has_acted {
        out.push(Action::Freeze(n));
        if worker.call.is_none() {
            out.push(Action::Hang(n));
        }
    }
    if world.left.crashes > 0 && has_acted {
        out.push(Action::Crash(n));
    }
    if worker.call.is_none() && world.needs_life(n) {
        out.push(Action::Register(n));
    }
    let job = world.database.job();
    if !world.needs_life(n) {
        let is_mine = |fence: &lastword_core::Fence| {
            Some(fence.incarnation) == worker.life.map(|life| life.incarnation)
        };
        match &job.holder {
            None if worker.hand.is_none() && job.due().is_some() && !is_mirrored(world, n) => {
                out.push(Action::Claim(n));
            }
            Some(holder) if !is_mine(&holder.fence) => out.push(Action::TakeOver(n)),
            _ => {}
        }
    }
    out.extend((0..worker.errands.len()).filter(|at| can_be_done(world, n, *at)).map(|at| Action::Do(n, at)));
    let Some(hand) = &worker.hand else { return };
    if hand.sending.is_some() {
        out.push(Action::Store(n));
        if world.left.losses > 0 {
            out.push(Action::StoreUnanswered(n));
        }
    }
    if hand.is_unanswered {
        out.push(Action::Repeat(n));
    }
    if hand.watching.is_some_and(|attempt| world.emptied(n, attempt).is_some()) {
        out.push(Action::Notice(n));
    }
}

/// Reports whether a claim leads to the mirror image of a state that another claim leads to: two hosts are alike until one has had the job.
fn is_mirrored(world: &World, worker: usize) -> bool {
    let has_nothing = |n: usize| {
        let known = &world.workers[n];
        known.hand.is_none() && known.errands.is_empty() && known.call.is_none() && !world.needs_life(n)
    };
    let are_alike = (0..world.workers.len()).all(has_nothing) && world.keepers.is_empty();
    let is_uncloned = world.left.clones == 0 && world.workers.len() == CLONE;
    are_alike && is_uncloned && world.database.job().epoch.0 == 0 && worker != ORIGINAL
}

/// Reports whether an errand is not held up by a shim that stands before the gate.
fn can_be_done(world: &World, worker: usize, at: usize) -> bool {
    let (Effect::Launch { attempt } | Effect::Locate { attempt }) = world.workers[worker].errands[at].effect
    else {
        return false;
    };
    world.keepers.get(&(worker, attempt.0)).is_none_or(|keeper| keeper.state != State::Starting)
}

fn of_clerk(world: &World, n: usize, out: &mut Vec<Action>) {
    let clerk = &world.clerks[n];
    let is_waiting = clerk.ends.is_empty() && clerk.settle.is_none();
    if !is_waiting {
        out.push(Action::End(n));
    } else if is_lazy(world, n) || world.would_end(n) {
        out.push(Action::Look(n));
    }
    match &clerk.hand {
        None if world.database.job().holder.is_some() => out.push(Action::Sweep(n)),
        Some(hand) if hand.sending.is_some() => out.push(Action::Account(n)),
        _ => {}
    }
    if world.left.drifts > 0 && !clerk.is_ahead {
        out.push(Action::RunAhead(n));
    }
}

fn is_lazy(world: &World, clerk: usize) -> bool {
    world.left.is_lazy && clerk == 1
}

fn of_keepers(world: &World, out: &mut Vec<Action>) {
    for ((host, attempt), keeper) in &world.keepers {
        let (host, attempt) = (*host, *attempt);
        match keeper.state {
            State::Starting => out.push(Action::OpenGate(host, attempt)),
            State::Alive => {
                if !keeper.is_shim_frozen {
                    out.push(Action::Exit(host, attempt));
                }
                if keeper.is_able() && world.is_lease_over(host, keeper.under) {
                    out.push(Action::EndByLease(host, attempt));
                }
                if keeper.is_shim_frozen {
                    out.push(Action::ThawShim(host, attempt));
                }
                if world.left.keepers > 0 && !keeper.is_shim_frozen {
                    out.push(Action::FreezeShim(host, attempt));
                }
                if world.left.keepers > 0 && !keeper.is_guard_dead {
                    out.push(Action::KillGuard(host, attempt));
                }
            }
            State::Ended { .. } | State::Never { .. } | State::Copied => {}
        }
    }
}

/// Returns the world after an action.
pub(super) fn step(before: &World, action: Action) -> World {
    let mut world = before.clone();
    world.notes = Notes::default();
    match action {
        Action::Tick => tick(&mut world),
        Action::Freeze(n) => {
            world.left.stalls -= 1;
            world.workers[n].is_frozen = true;
        }
        Action::Thaw(n) => world.workers[n].is_frozen = false,
        Action::Hang(n) => {
            world.left.stalls -= 1;
            world.hang(n);
        }
        Action::DeliverCall(n) => world.deliver_call(n),
        Action::AnswerCall(n) => world.answer_call(n),
        Action::GiveUpCall(n) => world.workers[n].call = None,
        Action::Crash(n) => {
            world.left.crashes -= 1;
            world.workers[n] = Worker { is_down: true, ..Worker::default() };
        }
        Action::Restart(n) => world.workers[n].is_down = false,
        Action::Register(n) => world.call_at_once(n),
        Action::Claim(n) => world.claim(n),
        Action::TakeOver(n) => world.take_over(n),
        Action::Store(n) => world.store(n),
        Action::StoreUnanswered(n) => {
            world.left.losses -= 1;
            world.store_unanswered(n);
        }
        Action::Repeat(n) => world.repeat(n),
        Action::Do(n, at) => world.carry_out(n, at),
        Action::Notice(n) => world.notice(n),
        Action::OpenGate(..)
        | Action::Exit(..)
        | Action::EndByLease(..)
        | Action::FreezeShim(..)
        | Action::ThawShim(..)
        | Action::KillGuard(..) => of_keeper(&mut world, action),
        Action::Look(n) => world.look(n),
        Action::End(n) => world.end_what_is_over(n),
        Action::Sweep(n) => world.sweep(n),
        Action::Account(n) => world.store_of_clerk(n),
        Action::RunAhead(n) => {
            world.left.drifts -= 1;
            world.clerks[n].is_ahead = true;
        }
        Action::FailOver(lost) => fail_over(&mut world, lost),
        Action::Clone => clone(&mut world),
    }
    note_ends(before, &mut world);
    world
}

fn of_keeper(world: &mut World, action: Action) {
    let (host, attempt) = match action {
        Action::OpenGate(host, attempt) => return world.open_gate(host, attempt),
        Action::Exit(host, attempt) => return world.exit(host, attempt),
        Action::EndByLease(host, attempt) => return world.end_by_lease(host, attempt),
        Action::FreezeShim(host, attempt)
        | Action::ThawShim(host, attempt)
        | Action::KillGuard(host, attempt) => (host, attempt),
        _ => return,
    };
    let Some(keeper) = world.keepers.get_mut(&(host, attempt)) else { return };
    match action {
        Action::ThawShim(..) => keeper.is_shim_frozen = false,
        Action::FreezeShim(..) => keeper.is_shim_frozen = true,
        _ => keeper.is_guard_dead = true,
    }
    world.left.keepers -= u8::from(!matches!(action, Action::ThawShim(..)));
}

fn tick(world: &mut World) {
    for clerk in (0..world.clerks.len()).filter(|clerk| !is_lazy(world, *clerk)).collect::<Vec<_>>() {
        world.see(clerk);
    }
    world.now += 1;
    for n in 0..world.workers.len() {
        let is_well = world.is_up(n) && world.workers[n].call.is_none();
        if is_well && !world.needs_life(n) {
            world.call_at_once(n);
        }
    }
    // A lease that is over and that no keeper follows is a file that is removed: a missing one is over, too.
    let mut leases = std::mem::take(&mut world.leases);
    leases.retain(|(host, life), _| {
        let follows = world.keepers.iter().any(|((at, _), keeper)| {
            at == host && keeper.under == *life && matches!(keeper.state, State::Starting | State::Alive)
        });
        follows || world.workers[*host].life.is_some_and(|own| own.incarnation == *life)
    });
    world.leases = leases;
}

fn fail_over(world: &mut World, lost: usize) {
    world.left.failovers -= 1;
    let (was_held, had_ended) = (world.database.job().holder.is_some(), world.database.job().is_ended());
    world.database.fail_over(lost);
    let job = world.database.job();
    let (is_held, has_ended) = (job.holder.is_some(), job.is_ended());
    if lost == 0 {
        world.notes.add(Situation::FailedOver);
    }
    if was_held && !is_held && world.keepers.values().any(Keeper::is_alive) {
        world.notes.add(Situation::ClaimLost);
    }
    if had_ended && !has_ended {
        world.notes.add(Situation::EndLost);
    }
}

/// The clone has the folders of its original, and another boot: no lease file counts there.
fn clone(world: &mut World) {
    world.left.clones -= 1;
    let folders = world.keepers.range((ORIGINAL, 0)..(ORIGINAL + 1, 0));
    let copies: Vec<_> = folders.map(|((_, attempt), keeper)| ((CLONE, *attempt), keeper.copied())).collect();
    world.keepers.extend(copies);
    world.workers.push(Worker::default());
}

/// Notes what the log says of a step that wrote to it.
fn note_ends(before: &World, world: &mut World) {
    let known = before.database.job().version;
    let job = world.database.job();
    if job.version <= known {
        return;
    }
    let mut notes = Vec::new();
    for event in world.database.load(known) {
        match event.fact {
            Fact::LastWord(word) if word.outcome == Outcome::Completed => notes.push(Situation::Completed),
            Fact::LastWord(word) if word.outcome == Outcome::Lost => notes.push(Situation::Lost),
            Fact::AttemptEnded(end) if end.receipt.proof == Proof::LeaseSelfFenced => {
                notes.push(Situation::AccountedByTime);
            }
            Fact::Launched(_) if job.attempts.iter().any(|it| it.host != job.attempts[0].host) => {
                notes.push(Situation::RunsAgainElsewhere);
            }
            _ => {}
        }
    }
    notes.into_iter().for_each(|note| world.notes.add(note));
}
