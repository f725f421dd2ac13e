//! A tree that its keeper cannot kill: it must say nothing for as long as that lasts, and its last word when it is over.

use std::time::Duration;

use lastword_core::receipt::Level;

use super::{Judge, LOOK, PATIENCE, scene};
use crate::clock;
use crate::torture::adversaries::SETUID_ALLOWED;
use crate::torture::order::Done;
use crate::torture::report::Verdict;

/// When it is stopped: by then the setuid program runs as root.
const MOMENT: Duration = Duration::from_millis(200);

/// How long a keeper is watched being silent: longer than any grace of a forced stop.
const SILENCE: Duration = Duration::from_secs(1);

impl Judge {
    /// Has a user without rights stop a tree that was permitted to become root, without a control group to kill it by. After
    /// a while the judge kills it.
    pub(crate) fn hold_unkillable(&mut self) -> Result<Verdict, String> {
        let order = self.order(SETUID_ALLOWED, Level::Subreaper, MOMENT)?;
        let done = Done::from_line(&self.hear()?)?;
        let exit = order.folder.join("exit");
        let spoken = || exit.exists().then(clock::boot_ns);
        if let Some(readable) = clock::until(SILENCE, LOOK, spoken) {
            let verdict = self.verdict(&order, &done, Some(readable), &self.observer.members());
            return self.conclude(&order, &done, verdict);
        }
        let kept: Vec<i32> = self.staying.iter().chain(&done.keepers).copied().collect();
        self.observer.clear(&kept)?;
        let readable = clock::until(PATIENCE, LOOK, spoken);
        let mut verdict = self.verdict(&order, &done, readable, &self.observer.members());
        // No keeper could have been faster: it had to wait for the judge.
        verdict.took = None;
        let mut verdict = self.conclude(&order, &done, verdict)?;
        if !verdict.settled {
            verdict.wrong.get_or_insert(format!("{}: the setuid program did not become root", scene(&order)));
        }
        Ok(verdict)
    }
}
