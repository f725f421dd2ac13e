//! Worktrees: asked for with a job, and as they are.

use lastword_core::{JobId, spec};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A wish for a git worktree of its own, in which the job runs instead of the checkout that its folder is in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WorktreeRequest {
    /// The repository's own folder (`git rev-parse --git-common-dir`), as an absolute path.
    pub git_dir: String,
    /// The top folder of the checkout. `cwd` is in it, and the job runs in the same folder of its worktree.
    pub checkout: String,
    /// The commit at which the worktree begins, in full.
    pub base: String,
    /// Whether it stays although nothing was changed in it.
    #[serde(default)]
    pub keep: bool,
}

/// The git worktree of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Worktree {
    /// The repository's own folder.
    pub git_dir: String,
    /// The top folder of the checkout it was asked for in; its changes are brought there.
    pub checkout: String,
    /// The commit at which it began.
    pub base: String,
    /// Its branch.
    pub branch: String,
    /// Where it is, or was; absent if this daemon keeps no worktrees.
    pub path: Option<String>,
    /// Whether it is there: not before the job is started, and not after its end if nothing was changed in it.
    pub present: bool,
    /// Whether it stays although nothing was changed in it.
    pub keep: bool,
}

impl WorktreeRequest {
    /// Returns the wish in the words of core.
    pub(crate) fn to_core(&self) -> spec::Worktree {
        spec::Worktree {
            git_dir: self.git_dir.clone(),
            checkout: self.checkout.clone(),
            base: self.base.clone(),
            keep: self.keep,
        }
    }
}

impl Worktree {
    /// Returns what the log knows of it. Where it is, its daemon knows.
    pub(crate) fn of(job: JobId, spec: &spec::Spec) -> Option<Worktree> {
        let worktree = spec.worktree.as_ref()?;
        Some(Worktree {
            git_dir: worktree.git_dir.clone(),
            checkout: worktree.checkout.clone(),
            base: worktree.base.clone(),
            branch: spec::Worktree::branch(spec.name.as_deref(), job),
            path: None,
            present: false,
            keep: worktree.keep,
        })
    }
}
