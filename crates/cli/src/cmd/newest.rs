//! The newest job of a conversation, which a command means by any of its jobs.

use lastword_api::Job;
use lastword_client::conversations;

use crate::client::Client;
use crate::failure::Failure;

/// Returns the newest job of a job's conversation.
pub(super) async fn newest(client: &Client, job: Job) -> Result<Job, Failure> {
    match is_newest(&job) {
        true => Ok(job),
        false => Ok(*client.call(&conversations::show(&job.id)).await?.newest),
    }
}

/// Reports whether no other job of its conversation follows.
pub(super) fn is_newest(job: &Job) -> bool {
    job.conversation.as_ref().is_none_or(|place| place.continued_by.is_none())
}
