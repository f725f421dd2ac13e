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

/// What a job changed in its worktree since the commit that it started at: committed or not, tracked or not, but for what git ignores.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Changes {
    /// The commit that it started at.
    pub base: String,
    /// Its branch.
    pub branch: String,
    /// The changed files, at most 2,000. None if nothing was changed, or nothing is left of the worktree.
    pub files: Vec<FileChange>,
    /// How many more there are.
    pub more: u64,
    /// Lines added in all of them; binary files aside.
    pub added: u64,
    /// Lines deleted in all of them.
    pub deleted: u64,
    /// Why some files are left out, in git's words: they could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
}

/// A changed file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileChange {
    /// Its path in the worktree; of a deleted file, its former one. What is no UTF-8 is replaced, and such a file has no patch of its own.
    pub path: String,
    /// The former path of a renamed file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// How it changed: `added`, `deleted`, `modified`, `renamed` or `retyped`.
    pub kind: String,
    /// Lines added; absent for a binary file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added: Option<u64>,
    /// Lines deleted; absent for a binary file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted: Option<u64>,
    /// Whether it is a nested repository, of which git knows only the commit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_repository: bool,
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
