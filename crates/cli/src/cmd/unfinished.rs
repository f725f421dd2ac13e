//! Turns that did not complete, and stay in a conversation because its agent cannot forget them: said before the conversation goes on.

use lastword_api::{Job, Unfinished};

use super::newest::newest;
use crate::client::Client;
use crate::failure::Failure;
use crate::ui::describe;

/// Says that turns which did not complete stay in the conversation, if the agent cannot forget them. `is_copy`: this job is copied, otherwise
/// its newest job goes on.
pub(super) async fn say(client: &Client, job: &Job, is_copy: bool) -> Result<(), Failure> {
    let job = if is_copy { job.clone() } else { newest(client, job.clone()).await? };
    let Some(session) = &job.session else { return Ok(()) };
    let is_kept = session.unfinished == Some(Unfinished::Kept) && (job.is_ended() || is_copy);
    if is_kept && let Some(agent) = &job.agent {
        let job_name = describe::job_name(job.name.as_deref(), &job.short);
        client.ui().say(&format!(
            "lastword: the last turn of {job_name} did not complete, and `{}` cannot forget it: it stays in the conversation",
            agent.provider
        ));
    }
    Ok(())
}
