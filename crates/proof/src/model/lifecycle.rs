//! The first model: one job, several owners, and everything that can go wrong around them.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use stateright::{Model, Property};

use super::coverage::Coverage;
use super::properties::{ALWAYS, SOMETIMES};
use super::step::{self, Action};
use super::world::{Bounds, World};

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
