//! Launch: starts the tree of an attempt through the nursery.

use std::ffi::OsString;
use std::path::Path;

use lastword_agents::{Start, with_variables};
use lastword_core::decide::resume;
use lastword_core::receipt::{LaunchError, LaunchStep};
use lastword_core::report::{Found, Report};
use lastword_core::spec::{Io, Spec, Work};
use lastword_core::{AttemptNo, Awake};
use lastword_proc::{Error, Input, Keep, Launch, Launched, clock, limits};

use super::env;
use super::local::LocalHost;
use super::locate::tree;
use super::session::AHEAD_MAX;
use super::traits::Order;
use crate::Env;

/// Variables that point git to another repository than that of the folder it runs in.
const GIT_VARIABLES: [&str; 8] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
];

impl LocalHost {
    /// Starts a tree. An error means that the result is unknown.
    pub(super) fn launch(&self, order: &Order, attempt: AttemptNo) -> Result<Report, String> {
        let job = &order.job;
        let failed_at = |step: LaunchStep, error: String| {
            let launch_error = Some(LaunchError::at(step));
            Ok(Report::LaunchFailed { attempt, error, launch_error })
        };
        let failed = |error: String| failed_at(LaunchStep::Prepare, error);
        let Some(spec) = &job.spec else { return Err("the job was never submitted".to_owned()) };
        let cwd = self.cwd(job.id, spec);
        let argv = match &spec.work {
            Work::Command { argv } => argv.clone(),
            Work::Agent { terms, .. } => {
                // Loading its conversation would destroy it.
                let on = resume::of_attempt(job, attempt);
                if let (Some(why), Some(_)) = (&terms.no_resume, on) {
                    return failed(format!("its conversation cannot be resumed: {why}"));
                }
                let start = Start::of(job, attempt, &cwd.to_string_lossy());
                start.map(|(start, terms)| start.argv(terms)).unwrap_or_default()
            }
        };
        if argv.is_empty() {
            return failed("its definition has no command to start it".to_owned());
        }
        let env = match &self.0.own_env {
            None => env::read(&self.folder(job.id), job.id, attempt)
                .map_err(|error| format!("its environment cannot be read: {error}")),
            Some(own) => env::named(own, &spec.variables, job.id, attempt)
                .map(|env| env::as_user(env, self.0.user.as_ref().map(|(user, _)| user))),
        };
        let Env { variables, attributes } = match env {
            Ok(env) => env,
            Err(why) => return failed(why),
        };
        // That of a job which was submitted here is there already, with its environment.
        if self.0.own_env.is_some() {
            self.create_folder(job.id)?;
        }
        if spec.cwd.is_empty()
            && let Err(error) = self.make_own_folder(job.id)
        {
            return failed(format!("its folder cannot be made: {error}"));
        }
        let variables = match &spec.work {
            Work::Command { .. } => variables,
            Work::Agent { terms, .. } => match secret() {
                Ok(secret) => with_variables(variables, terms, &secret),
                Err(error) => return failed(format!("this system gives no random bytes: {error}")),
            },
        };
        let is_spoken_to = spec.work.reports_turns();
        let is_told = is_spoken_to && !spec.work.is_one_shot();
        let launch = Launch {
            env: if spec.worktree.is_some() { scrub_git_env(variables, &cwd) } else { variables },
            attributes,
            user: self.0.user.as_ref().map(|(user, _)| user.into()),
            cwd,
            input: if spec.io == Io::Null && !is_told { Input::Null } else { Input::Pipe },
            terminal: terminal(spec),
            stdout: if is_spoken_to { Keep::Spool { ahead_max: AHEAD_MAX } } else { self.0.keep },
            stderr: self.0.keep,
            term_ms: spec.ladder.term_ms,
            // The exact deadline follows. This one binds even if the daemon dies before it is sent.
            deadline: job.wall_left().map(|ms| clock::awake_ms().saturating_add(ms)),
            lease: self.lease_of(job, order.life),
            epoch: order.epoch.0.into(),
            ..Launch::new(self.dir(job.id, attempt), argv)
        };
        match self.started(&launch) {
            Ok(Launched { guard, leader, level, launched, withheld, .. }) => {
                self.0.keepers.expect(job.id, attempt, &guard, Some(launch.deadline));
                let tree = tree(&leader, level, withheld);
                Ok(Report::Launched { attempt, tree, awake: Awake(launched) })
            }
            // This launch started nothing. An earlier one of the same attempt, whose answer was lost, may have.
            Err(Error::Refused(error)) => match self.locate_and_adopt(order, attempt)? {
                Report::Located { found: Found::NeverStarted, .. } => {
                    failed_at(LaunchStep::Keeper, with_lowered(error))
                }
                located => Ok(located),
            },
            // The keeper died before it answered.
            Err(error @ Error::Unclear(_)) => Err(error.to_string()),
            // Nothing reached a keeper.
            Err(error) => failed_at(LaunchStep::Keeper, with_lowered(error.to_string())),
        }
    }

    /// Launches through the nursery, or through a new one if it is gone.
    fn started(&self, launch: &Launch) -> Result<Launched, Error> {
        let nursery = self.nursery();
        match nursery.launch(launch) {
            // It started nothing.
            Err(Error::NurseryGone(why)) => {
                tracing::warn!(why, "the process that starts jobs is replaced");
                limits::restore();
                self.replace_nursery(&nursery)?.launch(launch)
            }
            other => other,
        }
    }
}

/// Adds what a person can do if a launch may have failed because another process lowered the daemon's limits.
fn with_lowered(error: String) -> String {
    match limits::lowered() {
        Some(lowered) => format!(
            "{error} (another process lowered the daemon's limits: {lowered}; run `lastword daemon restart`)"
        ),
        None => error,
    }
}

/// Returns a value that no other process can guess.
fn secret() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Removes what would lead git or a shell out of the worktree.
fn scrub_git_env(mut env: Vec<(OsString, OsString)>, cwd: &Path) -> Vec<(OsString, OsString)> {
    env.retain(|(name, _)| name != "PWD" && name != "OLDPWD" && !GIT_VARIABLES.iter().any(|it| name == it));
    env.push(("PWD".into(), cwd.into()));
    env
}

fn terminal(spec: &Spec) -> Option<(u16, u16)> {
    match spec.io {
        Io::Terminal { rows, columns } => Some((rows, columns)),
        Io::Null | Io::Pipe => None,
    }
}
