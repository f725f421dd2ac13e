//! Requests about groups of jobs.

use hyper::Method;
use lastword_api::{Group, GroupChange, Page};

use crate::call::{Call, group_path};

/// Lists groups.
pub fn list() -> Call<Page<Group>> {
    Call::get("/v1/groups")
}

/// Creates or changes a group.
pub fn set(name: &str, change: &GroupChange) -> Call<Group> {
    Call::new(Method::PUT, group_path(name)).with_body(change)
}

/// Removes a group.
pub fn remove(name: &str) -> Call<()> {
    Call::new(Method::DELETE, group_path(name))
}
