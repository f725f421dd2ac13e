//! Launch: an attempt's tree is started through the nursery.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use lastword_agents::Start;
use lastword_core::limits::Limit;
use lastword_core::receipt::{Level, Tree};
use lastword_core::report::{Found, Report};
use lastword_core::spec::{Io, Spec, Work};
use lastword_core::{AttemptNo, Awake, Epoch, Job};
use lastword_proc::{Error, Identity, Input, Keep, Launch, Launched, Nursery, clock};

use super::talk::{AHEAD_MAX, resumed};
use super::worktree::LEADING_ASTRAY;
use super::{Kept, env};
use crate::Env;
use crate::shared::lock;

impl Kept {
    /// Starts a tree. An error means that nobody knows what came of it.
    pub(super) fn launch(&self, job: &Job, epoch: Epoch, attempt: AttemptNo) -> Result<Report, String> {
        let failed = |error: String| Ok(Report::LaunchFailed { attempt, error });
        let Some(spec) = &job.spec else { return Err("the job was never submitted".to_owned()) };
        let cwd = self.cwd(job.id, spec);
        let argv = match &spec.work {
            Work::Command { argv } => argv.clone(),
            Work::Agent { terms, .. } => {
                // Told to load its conversation, it would lose it.
                if let (Some(why), Some(_)) = (&terms.no_resume, resumed(job, attempt)) {
                    return failed(format!("its conversation cannot be resumed: {why}"));
                }
                let start = Start::of(spec, &cwd.to_string_lossy(), resumed(job, attempt));
                start.map(|(start, terms)| start.argv(terms)).unwrap_or_default()
            }
        };
        if argv.is_empty() {
            return failed("nobody said how this agent is started".to_owned());
        }
        let Env { variables, attributes } = match env::read(&self.folder(job.id), job.id, attempt) {
            Ok(env) => env,
            Err(error) => return failed(format!("its environment cannot be read: {error}")),
        };
        let wall = job.limits.get(Limit::Wall);
        let is_spoken_to = spec.work.reports_turns();
        let is_told = is_spoken_to && !spec.work.is_one_shot();
        let launch = Launch {
            env: if spec.worktree.is_some() { at_home(variables, &cwd) } else { variables },
            attributes,
            cwd,
            input: if spec.io == Io::Null && !is_told { Input::Null } else { Input::Pipe },
            terminal: terminal(spec),
            stdout: if is_spoken_to { Keep::Spool { ahead_max: AHEAD_MAX } } else { self.0.keep },
            stderr: self.0.keep,
            term_ms: spec.ladder.term_ms,
            // Until it is told the exact one: it must not outlive its limit because we do not live to tell.
            deadline: wall.map(|ms| clock::awake_ms().saturating_add(ms)),
            epoch: epoch.0.into(),
            ..Launch::new(self.dir(job.id, attempt), argv)
        };
        match self.started(&launch) {
            Ok(Launched { guard, leader, level, launched, withheld, .. }) => {
                self.0.lines.expect(job.id, attempt, &guard, Some(launch.deadline));
                let tree = tree(&leader, level, withheld);
                Ok(Report::Launched { attempt, tree, awake: Awake(launched) })
            }
            // Nothing was started by this launch. An earlier one of the same attempt, whose answer was lost, may have.
            Err(Error::Refused(error)) => match self.locate(job, attempt)? {
                Report::Located { found: Found::NeverStarted, .. } => failed(error),
                located => Ok(located),
            },
            // The keeper died before it answered.
            Err(error @ Error::Unclear(_)) => Err(error.to_string()),
            // Nothing reached a keeper.
            Err(error) => failed(error.to_string()),
        }
    }

    /// Launches through the nursery, or through a new one if it is gone.
    fn started(&self, launch: &Launch) -> Result<Launched, Error> {
        let nursery = self.nursery();
        match nursery.launch(launch) {
            // Nothing reached it, so nothing was started.
            Err(Error::NurseryGone(_)) => self.another_nursery(&nursery)?.launch(launch),
            other => other,
        }
    }

    fn nursery(&self) -> Arc<Nursery> {
        Arc::clone(&lock(&self.0.nursery))
    }

    fn another_nursery(&self, gone: &Arc<Nursery>) -> Result<Arc<Nursery>, Error> {
        let mut nursery = lock(&self.0.nursery);
        if Arc::ptr_eq(&nursery, gone) {
            *nursery = Arc::new((self.0.start)()?);
        }
        Ok(Arc::clone(&nursery))
    }
}

/// Returns an environment in which nothing leads out of a worktree.
fn at_home(mut env: Vec<(OsString, OsString)>, cwd: &Path) -> Vec<(OsString, OsString)> {
    env.retain(|(name, _)| name != "PWD" && name != "OLDPWD" && !LEADING_ASTRAY.iter().any(|it| name == it));
    env.push(("PWD".into(), cwd.into()));
    env
}

fn terminal(spec: &Spec) -> Option<(u16, u16)> {
    match spec.io {
        Io::Terminal { rows, columns } => Some((rows, columns)),
        Io::Null | Io::Pipe => None,
    }
}

/// Returns a tree in the words of core.
pub(super) fn tree(leader: &Identity, level: Level, withheld: Option<String>) -> Tree {
    Tree { boot: leader.boot.clone(), pid: leader.pid, start_ticks: leader.start_ticks, level, withheld }
}
