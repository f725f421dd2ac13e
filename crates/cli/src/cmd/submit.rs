//! Submits a job that inherits the umask, resource limits and nice value of this process; a repeated job keeps its own limits.

use lastword_api::{Attributes, Code, Job, ResourceLimit};
use lastword_client::Call;

use crate::client::Client;
use crate::failure::Failure;
use crate::settings::Settings;

/// Submits a job with this process's attributes; a job of a fleet has those of its worker. A daemon of version 0.1.0 does not know them and
/// refuses the request, which is then repeated without.
pub(super) async fn submit(
    client: &Client,
    call: impl Fn(Option<Attributes>) -> Result<Call<Job>, lastword_client::Error>,
) -> Result<Job, Failure> {
    if client.is_fleet() {
        return client.call(&call(None)?).await;
    }
    match client.call(&call(Some(own_attributes()))?).await {
        Err(failure) if failure.problem.code == Code::Invalid => {
            let job = client.call(&call(None)?).await?;
            client.ui().say(
                "lastword: the daemon is older than this command, so the job does not get your umask, limits and nice value",
            );
            Ok(job)
        }
        result => result,
    }
}

/// Prints which limits of this environment a job does not have that was made from another one.
pub(super) fn say_limits_are_kept(client: &Client, settings: &Settings, job: &Job) {
    for (key, value, origin) in settings.in_environment() {
        if let Some(limit) = key.name.strip_prefix("limits.") {
            client.ui().say(&format!(
                "lastword: {origin}: a job made from another one keeps its limits; `lastword limit {} {limit}={value}` changes them",
                job.short
            ));
        }
    }
}

/// Returns the attributes that a job gets from this process; none on a fleet, where it has those of its worker.
pub(super) fn attributes(client: &Client) -> Option<Attributes> {
    (!client.is_fleet()).then(own_attributes)
}

/// Returns umask, resource limits and nice value of this process.
fn own_attributes() -> Attributes {
    let own = lastword_proc::Attributes::own();
    let limit = |limit: &lastword_proc::ResourceLimit| {
        (limit.name().to_owned(), ResourceLimit { soft: limit.soft(), hard: limit.hard() })
    };
    Attributes { umask: Some(own.umask), nice: own.nice, limits: own.limits.iter().map(limit).collect() }
}
