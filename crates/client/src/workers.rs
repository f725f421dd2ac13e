//! Requests about the workers of a fleet.

use hyper::Method;
use lastword_api::{Fleet, Invitation, Invite};

use crate::call::{Call, worker_path};

/// Shows the fleet.
pub fn list() -> Call<Fleet> {
    Call::get("/v1/workers")
}

/// Makes a one-time token. A repeated call makes another one, which takes the place of the first.
pub fn invite(invite: &Invite) -> Call<Invitation> {
    Call::post("/v1/workers", invite)
}

/// Removes a worker.
pub fn remove(name: &str) -> Call<()> {
    Call::new(Method::DELETE, worker_path(name))
}
