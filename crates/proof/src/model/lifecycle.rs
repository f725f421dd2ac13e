//! The first model: one job, several owners, and everything that can go wrong around them; what must always hold there, and what must be
//! able to happen.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use lastword_core::event::{AttemptEnded, LastWord};
use lastword_core::outcome::{Begun, Cause, Outcome};
use lastword_core::receipt::{Exit, KeeperStop, Proof};
use lastword_core::{Fact, Job, Phase};
use stateright::{Model, Property};

use super::coverage::Coverage;
use super::step::{self, Action};
use super::world::{Bounds, Request, World};

/// The model within its bounds.
pub(crate) struct Lifecycle {
    pub(crate) bounds: Bounds,
    pub(crate) coverage: Arc<Coverage>,
}

impl Model for Lifecycle {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(&self.bounds)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        // What is broken stays broken; nothing is learned by going on.
        if world.broken.is_none() {
            step::actions(world, &self.bounds, actions);
            shuffle(world, actions);
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        self.coverage.count(&world.shelf.job, action);
        step::step(world, action).filter(|next| next != world)
    }

    fn properties(&self) -> Vec<Property<Lifecycle>> {
        let always = ALWAYS.iter().map(|(name, condition)| Property::always(name, *condition));
        let sometimes = SOMETIMES.iter().map(|(name, condition)| Property::sometimes(name, *condition));
        always.chain(sometimes).collect()
    }
}

/// Puts the ways on into an order of their own for each world, so that a run that stops at a count has been everywhere
/// a little, instead of everywhere at one end. The same world always gets the same order.
fn shuffle(world: &World, actions: &mut [Action]) {
    let mut hasher = std::hash::DefaultHasher::new();
    (world.shelf.log.len(), &world.keepers, world.crashes, world.losses).hash(&mut hasher);
    world.procs.iter().for_each(|proc| (&proc.doing, proc.life, proc.sending.is_some()).hash(&mut hasher));
    let mut state = hasher.finish();
    for end in (1..actions.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        actions.swap(end, (state >> 33) as usize % (end + 1));
    }
}

/// A named condition of a world.
type Condition = (&'static str, fn(&Lifecycle, &World) -> bool);

/// What must hold in every world.
pub(crate) const ALWAYS: &[Condition] = &[
    ("nothing forbidden was noticed", |_, world| world.broken.is_none()),
    ("a job has at most one last word, and nothing after it", |_, world| {
        let last = world.shelf.facts().position(|fact| matches!(fact, Fact::LastWord(_)));
        last.is_none_or(|place| place + 1 == world.shelf.log.len())
    }),
    ("an attempt that ended has no live tree", |_, world| {
        let ended = ends(world);
        ended
            .iter()
            .all(|end| !world.keepers.get(end.attempt.0 as usize - 1).is_some_and(|keeper| keeper.tree))
    }),
    ("at most one tree of a job is alive", |_, world| {
        world.keepers.iter().filter(|keeper| keeper.tree).count() <= 1
    }),
    ("nothing works after the last word", |_, world| {
        !world.shelf.job.is_ended() || world.keepers.iter().all(|keeper| !keeper.tree)
    }),
    ("an acknowledged cancel means that the job stops or has ended", |_, world| {
        let job = &world.shelf.job;
        world.cancel != Request::Acknowledged || job.is_ended() || job.stop.is_some()
    }),
    ("after a cancel no attempt is intended", |_, world| {
        let cancelled = world.shelf.facts().position(|fact| matches!(fact, Fact::CancelRequested(_)));
        cancelled.is_none_or(|place| {
            !world.shelf.facts().skip(place).any(|fact| matches!(fact, Fact::LaunchIntended(_)))
        })
    }),
    ("an attempt ends as its reason to stop says", |_, world| first_reason_stands(world)),
    ("an outcome says what really happened", |_, world| ends(world).iter().all(|end| truthful(world, end))),
    ("a limit is decided once, and not taken back", |_, world| {
        let fired = world.shelf.facts().filter(|fact| matches!(fact, Fact::LimitFired(_))).count();
        let stopping = world.shelf.job.stop.is_some() || world.shelf.job.open_attempt().is_none();
        fired <= world.shelf.job.attempts.len() && (fired == 0 || stopping)
    }),
    ("the log replays to the job", |_, world| {
        let events: Vec<_> = world.shelf.log.iter().map(|entry| entry.1.clone()).collect();
        Job::fold(world.shelf.job.id, &events).as_ref() == Ok(&*world.shelf.job)
    }),
];

fn ends(world: &World) -> Vec<&AttemptEnded> {
    world
        .shelf
        .facts()
        .filter_map(|fact| match fact {
            Fact::AttemptEnded(end) => Some(end),
            _ => None,
        })
        .collect()
}

/// The first of cancel and limit in an attempt decides how it ends, unless nothing is proven.
fn first_reason_stands(world: &World) -> bool {
    let mut reason = None;
    for fact in world.shelf.facts() {
        match fact {
            Fact::LaunchIntended(_) => reason = None,
            Fact::CancelRequested(_) => reason = reason.or(Some("cancelled")),
            Fact::LimitFired(_) => reason = reason.or(Some("timed_out")),
            Fact::AttemptEnded(end) => {
                let name = end.outcome.name();
                if reason.is_some_and(|reason| name != reason && name != "lost") {
                    return false;
                }
            }
            _ => {}
        }
    }
    true
}

/// Compares the record of an end with the truth about its tree.
fn truthful(world: &World, end: &AttemptEnded) -> bool {
    let keeper = world.keepers.get(end.attempt.0 as usize - 1);
    let record = keeper.and_then(|keeper| keeper.record.as_deref());
    let exit = record.and_then(|receipt| receipt.exit);
    match end.outcome {
        Outcome::Completed => exit == Some(Exit::Code(0)),
        Outcome::Failed => match end.cause {
            Cause::Launch => !keeper.is_some_and(|keeper| keeper.started),
            _ => matches!(exit, Some(Exit::Code(code)) if code != 0),
        },
        Outcome::Lost => {
            record.is_none_or(|receipt| receipt.exit.is_none() || !receipt.proof.is_certain())
                || end.receipt.proof == Proof::LeaseSelfFenced
        }
        Outcome::TimedOut(_) => {
            world.late || record.is_some_and(|receipt| receipt.keeper_stop == Some(KeeperStop::Deadline))
        }
        Outcome::Cancelled(Begun::BeforeStart) => !keeper.is_some_and(|keeper| keeper.started),
        Outcome::Cancelled(Begun::WhileRunning) | Outcome::OverBudget(_) => true,
    }
}

/// What must be reached somewhere.
pub(crate) const SOMETIMES: &[Condition] = &[
    ("can complete", |_, world| ended_as(world, |word| word.outcome == Outcome::Completed)),
    ("can fail", |_, world| ended_as(world, |word| word.cause == Cause::Agent)),
    ("can fail to launch", |_, world| ended_as(world, |word| word.cause == Cause::Launch)),
    ("can be cancelled before start", |_, world| {
        ended_as(world, |word| word.outcome == Outcome::Cancelled(Begun::BeforeStart))
    }),
    ("can be cancelled while running", |_, world| {
        ended_as(world, |word| word.outcome == Outcome::Cancelled(Begun::WhileRunning))
    }),
    ("can time out", |_, world| ended_as(world, |word| matches!(word.outcome, Outcome::TimedOut(_)))),
    ("can be lost", |_, world| ended_as(world, |word| word.outcome == Outcome::Lost)),
    ("can complete at the second attempt", |_, world| {
        world.shelf.job.attempts.len() > 1 && ended_as(world, |word| word.outcome == Outcome::Completed)
    }),
    ("can be adopted and complete", |_, world| {
        let adopted = world.shelf.facts().any(|fact| matches!(fact, Fact::Adopted(_)));
        adopted && ended_as(world, |word| word.outcome == Outcome::Completed)
    }),
    ("can be accounted for by its lease", |_, world| has_proof(world, Proof::LeaseSelfFenced)),
    ("can be accounted for by a boot", |_, world| has_proof(world, Proof::BootChanged)),
    ("can be accounted for by best effort", |_, world| has_proof(world, Proof::BestEffort)),
    ("can be closed before it started", |_, world| has_proof(world, Proof::NeverStarted)),
    ("can be stopping when a limit is raised", |_, world| {
        world.raise == Request::Acknowledged && matches!(world.shelf.job.phase, Phase::Stopping { .. })
    }),
    ("can have a dead process's append arrive", |_, world| {
        world.ghosts.iter().any(|ghost| ghost.expected == world.shelf.job.version)
    }),
];

fn ended_as(world: &World, holds: fn(&LastWord) -> bool) -> bool {
    world.shelf.job.last_word().is_some_and(holds)
}

fn has_proof(world: &World, proof: Proof) -> bool {
    ends(world).iter().any(|end| end.receipt.proof == proof)
}
