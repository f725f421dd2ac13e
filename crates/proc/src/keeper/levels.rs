//! The containment levels that the nursery found to work, and which of them a launch gets.

use std::path::PathBuf;

use lastword_core::receipt::Level;

use crate::identity::Identity;
use crate::launch::Launch;
use crate::level::{self, Finding, cgroup};
use crate::line_format::Line;
use crate::spelling;

/// The levels that passed their self-test when the nursery started.
pub(super) struct Levels {
    found: Vec<Finding>,
    base: Option<cgroup::Base>,
}

impl Levels {
    /// Tests every level.
    pub(super) fn find() -> Levels {
        let base = cgroup::Base::find();
        let mut levels = Levels { found: level::available(&base), base: None };
        levels.base = base.ok().filter(|_| levels.has(Level::Cgroup));
        levels
    }

    fn has(&self, level: Level) -> bool {
        self.found.iter().any(|(found, test)| *found == level && test.is_ok())
    }

    /// Adds each level to a line, as `ok` or with the reason why it is unavailable.
    pub(super) fn write(&self, line: Line) -> Line {
        self.found.iter().fold(line, |line, (level, test)| {
            let word = spelling::level_name(*level);
            match test {
                Ok(()) => line.with(word, "ok"),
                Err(why) => line.with(word, why),
            }
        })
    }

    /// Reports whether a launch uses Landlock to protect its keeper from signals. Not possible if it may gain privileges.
    pub(super) fn landlock(&self, launch: &Launch) -> bool {
        launch.at_most >= Level::Landlock && !launch.new_privileges && self.has(Level::Landlock)
    }

    /// Reports whether a launch gets a PID namespace, which it must ask for.
    pub(super) fn namespace(&self, launch: &Launch) -> bool {
        launch.at_most == Level::Namespace && self.has(Level::Namespace)
    }

    /// Returns the path of the control group of a launch, if it gets one.
    pub(super) fn leaf_path(&self, launch: &Launch, shim: &Identity) -> Option<PathBuf> {
        let base =
            self.base.as_ref().filter(|_| launch.at_most >= Level::Cgroup && !self.namespace(launch))?;
        Some(base.path_of(&leaf_name(shim)))
    }

    /// Creates the control group of a launch, if it gets one. On failure the launch runs without, and its level says so.
    pub(super) fn leaf(&self, launch: &Launch, shim: &Identity) -> Option<cgroup::Leaf> {
        self.leaf_path(launch, shim)?;
        self.base.as_ref()?.leaf(&leaf_name(shim)).ok()
    }
}

/// Returns a name that no other shim of this boot has had.
fn leaf_name(shim: &Identity) -> String {
    format!("{}-{}", shim.pid, shim.start_ticks)
}
