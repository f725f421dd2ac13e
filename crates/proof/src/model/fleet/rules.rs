//! What must hold in every state of the modelled fleet.

use super::world::{World, host_of};

/// A named condition.
type Rule = (&'static str, fn(&World) -> bool);

/// What must hold everywhere.
pub(super) const ALWAYS: &[Rule] = &[
    ("at most one tree of a job is alive", |world| alive(world).count() <= 1),
    ("an attempt that ended has no live tree", |world| {
        let ended = world.database.job().attempts.iter().filter(|attempt| attempt.end.is_some());
        let mut places = ended.filter_map(|it| Some((host_of(&it.host, it.boot.as_deref())?, it.no.0)));
        places.all(|place| alive(world).all(|alive| alive != place))
    }),
    ("nothing works after the last word", |world| {
        !world.database.job().is_ended() || alive(world).count() == 0
    }),
    ("a job has at most one last word, a success counts, and no log breaks", |world| world.broken.is_none()),
];

/// What must be possible from everywhere.
pub(super) const REACHABLE: &str = "from every state the job can still end";

/// Reports whether the job has ended.
pub(super) fn is_good(world: &World) -> bool {
    world.database.job().is_ended()
}

fn alive(world: &World) -> impl Iterator<Item = (usize, u32)> {
    world.keepers.iter().filter(|(_, keeper)| keeper.is_alive()).map(|(place, _)| *place)
}
