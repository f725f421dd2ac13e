//! What the nursery found this machine to be able to do, and which of it a launch gets.

use std::path::PathBuf;

use lastword_core::receipt::Level;

use crate::identity::Identity;
use crate::launch::Launch;
use crate::level::{self, cgroup};
use crate::line::Line;
use crate::nursery::Finding;
use crate::words;

/// The levels that stood their test when the nursery started.
pub(super) struct Levels {
    found: Vec<Finding>,
    base: Option<cgroup::Base>,
}

impl Levels {
    /// Tries every level.
    pub(super) fn find() -> Levels {
        let base = cgroup::Base::find();
        let mut levels = Levels { found: level::available(&base), base: None };
        levels.base = base.ok().filter(|_| levels.has(Level::Cgroup));
        levels
    }

    fn has(&self, level: Level) -> bool {
        self.found.iter().any(|(found, test)| *found == level && test.is_ok())
    }

    /// Says which there are, and why the others are not.
    pub(super) fn write(&self, line: Line) -> Line {
        self.found.iter().fold(line, |line, (level, test)| {
            let word = words::of_level(*level);
            match test {
                Ok(()) => line.with(word, "ok"),
                Err(why) => line.with(word, why),
            }
        })
    }

    /// Reports whether a launch is to be kept from signalling its keeper. A tree that may gain privileges cannot be.
    pub(super) fn landlock(&self, launch: &Launch) -> bool {
        launch.at_most >= Level::Landlock && !launch.new_privileges && self.has(Level::Landlock)
    }

    /// Reports whether a launch gets a namespace: only if it was asked for.
    pub(super) fn namespace(&self, launch: &Launch) -> bool {
        launch.at_most == Level::Namespace && self.has(Level::Namespace)
    }

    /// Returns where the control group of a launch will be, if it gets one.
    pub(super) fn leaf_path(&self, launch: &Launch, shim: &Identity) -> Option<PathBuf> {
        let base =
            self.base.as_ref().filter(|_| launch.at_most >= Level::Cgroup && !self.namespace(launch))?;
        Some(base.path_of(&leaf_name(shim)))
    }

    /// Makes the control group of a launch, if it gets one. One that cannot be made is done without, and the level says so.
    pub(super) fn leaf(&self, launch: &Launch, shim: &Identity) -> Option<cgroup::Leaf> {
        self.leaf_path(launch, shim)?;
        self.base.as_ref()?.leaf(&leaf_name(shim)).ok()
    }
}

/// A name that no other shim of this boot has had.
fn leaf_name(shim: &Identity) -> String {
    format!("{}-{}", shim.pid, shim.start_ticks)
}
