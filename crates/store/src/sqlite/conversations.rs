//! Conversations of jobs that were submitted before they had a column: a job that resumed the session of another one belongs to its
//! conversation.

use std::collections::HashMap;

use lastword_core::conversation::{Position, Spending};
use lastword_core::event::{Continued, Joined};
use lastword_core::spec::ProviderSession;
use lastword_core::{Append, AppendId, Fact, Job, JobId, Seq};
use rusqlite::{Connection, params};

use super::append::{self, Prepared, job_id, key};
use super::failure::{execute, failed};
use super::log;
use crate::{Error, Result};

/// The stored author of facts that are added here.
const BY: &str = "upgrade";

/// The end of a conversation, as far as its jobs were read.
struct Tip {
    job: JobId,
    first: JobId,
    number: u32,
    spent: Spending,
}

/// Adds the conversation of each job with turns, oldest job first. A log that cannot be read is left out.
pub(super) fn fill(connection: &Connection) -> Result<()> {
    const AGENTS: &str = "select job from events where seq = 1 and json_valid(body) \
         and body ->> '$.spec.work.agent' is not null order by job";
    const SET: &str = "update jobs set conversation = ?2 where job = ?1";
    let mut select = connection.prepare(AGENTS).map_err(failed)?;
    let agents = select.query_map([], |row| row.get(0));
    let agents: Vec<[u8; 16]> = agents.and_then(Iterator::collect).map_err(failed)?;
    let (mut tips, mut of_session) = (HashMap::<JobId, Tip>::new(), HashMap::<ProviderSession, JobId>::new());
    for agent in agents {
        let id = job_id(agent)?;
        let Some(job) = read(connection, id)?.filter(Job::reports_turns) else { continue };
        let before =
            resumes(&job).and_then(|session| of_session.get(session)).and_then(|first| tips.remove(first));
        let job = match &before {
            Some(before) => join(connection, job, before)?,
            None => job,
        };
        let first = before.map_or(id, |before| before.first);
        execute(connection, SET, params![agent, key(first)])?;
        of_session.extend(sessions(&job).map(|session| (session, first)));
        tips.insert(first, Tip { job: id, first, number: job.number(), spent: job.spending() });
    }
    Ok(())
}

fn read(connection: &Connection, id: JobId) -> Result<Option<Job>> {
    match log::load(connection, id, Seq(0)) {
        Ok(events) => Ok(Job::fold(id, &events).ok()),
        Err(Error::Corrupt(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the session that a job goes on with, unless it makes a copy.
fn resumes(job: &Job) -> Option<&ProviderSession> {
    job.spec.as_ref().filter(|spec| !spec.fork)?.resume.as_ref()
}

/// Returns the sessions that a job had: its own, and the one that it went on with.
fn sessions(job: &Job) -> impl Iterator<Item = ProviderSession> {
    let session = job.session.as_ref();
    let own = session.and_then(|session| session.resume_reference().or(session.reference.as_deref()));
    let provider = resumes(job).map(|resumed| resumed.provider.clone());
    let provider = provider.or_else(|| job.provider().map(str::to_owned));
    let own = own
        .zip(provider)
        .map(|(reference, provider)| ProviderSession { provider, reference: reference.to_owned() });
    own.into_iter().chain(resumes(job).cloned())
}

/// Adds a job to the conversation of the one before it, and tells that one. A job that has not ended is followed by none.
fn join(connection: &Connection, job: Job, before: &Tip) -> Result<Job> {
    let position = Position { first: before.first, after: before.job, number: before.number + 1 };
    let joined = write(connection, &job, Joined { position, spent: before.spent }.into())?;
    if let Some(former) = read(connection, before.job)?.filter(Job::is_ended) {
        write(connection, &former, Continued { by: BY.to_owned(), job: Some(job.id) }.into())?;
    }
    Ok(joined)
}

/// Appends a fact to a log, and returns the job after it.
fn write(connection: &Connection, job: &Job, fact: Fact) -> Result<Job> {
    let id = AppendId(u128::from(getrandom::u64().map_err(|error| Error::Unavailable(error.to_string()))?));
    let (append, after) = Append::new(job, None, id, job.updated_at, vec![fact])
        .map_err(|illegal| Error::Corrupt(illegal.to_string()))?;
    let found = append::find(connection, job.id)?;
    append::write(connection, found.as_ref(), &Prepared::new(append))?;
    Ok(after)
}
