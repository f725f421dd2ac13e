//! Git worktrees: in a submission, and in a job.

use lastword_core::{JobId, spec};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A git worktree in which the job runs, instead of the checkout that contains its directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WorktreeRequest {
    /// The repository's git directory (`git rev-parse --git-common-dir`), as an absolute path.
    pub git_dir: String,
    /// The top directory of the checkout. It contains `cwd`, and the job runs in the same directory of its worktree.
    pub checkout: String,
    /// The full id of the commit that the worktree starts at.
    pub base: String,
    /// Keep it even if nothing was changed in it.
    #[serde(default)]
    pub keep: bool,
}

/// The git worktree of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Worktree {
    /// The job that it was made for: the first of a conversation, whose jobs share it.
    #[serde(default)]
    pub job: String,
    /// The repository's git directory.
    pub git_dir: String,
    /// The top directory of the checkout, to which its changes can be applied.
    pub checkout: String,
    /// The commit that it started at.
    pub base: String,
    /// Its branch.
    pub branch: String,
    /// Its path, also after it was removed; absent if this daemon keeps no worktrees.
    pub path: Option<String>,
    /// Whether it exists: not before the job starts, and not after its end if nothing was changed in it.
    pub present: bool,
    /// Whether it is kept even if nothing was changed in it.
    pub keep: bool,
}

impl WorktreeRequest {
    /// Converts to core's worktree.
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
    /// Returns what the log has about it. Its daemon adds the path.
    pub fn of(job: JobId, spec: &spec::Spec) -> Option<Worktree> {
        let worktree = spec.worktree.as_ref()?;
        Some(Worktree {
            job: job.to_string(),
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
