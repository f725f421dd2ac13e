//! Views: what readers see of a job. Each is a fold of its log. The row is stored with the events; the others are made on read.

use crate::event::Fact;

pub mod asks;
pub mod nearest;
pub mod row;
pub mod session;
pub mod timeline;
pub mod usage;

/// Reports whether a fact is shown with a job beside its fold. Every other kind may be as frequent as it likes: showing a job does not read it.
pub fn is_shown(fact: &Fact) -> bool {
    matches!(
        fact,
        Fact::Submitted(_)
            | Fact::LaunchIntended(_)
            | Fact::RungClimbed(_)
            | Fact::TurnStarted(_)
            | Fact::TurnEnded(_)
    )
}
