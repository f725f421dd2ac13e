//! Requests for what a job changed in its worktree.

use lastword_api::Changes;

use crate::call::{Call, Query, job_path};
use crate::output::Piece;

/// Lists the files that a job changed.
pub fn list(reference: &str) -> Call<Changes> {
    Call::get(job_path(reference, "/changes"))
}

/// Reads a part of the patch: of one file, or of all.
pub fn patch(reference: &str, path: Option<&str>, offset: u64, limit: u64) -> Call<Piece> {
    let query = Query::default().with("path", path).with("offset", Some(offset)).with("limit", Some(limit));
    Call::get(query.after(&job_path(reference, "/diff")))
}
