//! Requests about the daemon itself.

use lastword_api::{Daemon, StopDaemon, Stopping};
use serde_json::Value;

use crate::call::Call;

/// Checks that it answers: the cheapest request.
pub fn live() -> Call<()> {
    Call::get("/livez")
}

/// Checks that it serves requests about jobs.
pub fn ready() -> Call<()> {
    Call::get("/readyz")
}

/// Returns its OpenAPI document.
pub fn document() -> Call<Value> {
    Call::get("/openapi.json")
}

/// Shows its state.
pub fn show() -> Call<Daemon> {
    Call::get("/v1/daemon")
}

/// Stops it.
pub fn stop(how: &StopDaemon) -> Call<Stopping> {
    Call::post("/v1/daemon:stop", how)
}
