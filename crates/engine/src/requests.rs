//! Requests: load, decide, append, and again if somebody was faster. Anyone may ask, whoever owns the job.

use std::sync::Arc;

use lastword_core::decide::cancel::Cancel;
use lastword_core::decide::{Decision, abandon, cancel, limit, retry, send, submit};
use lastword_core::limits::{Limit, Limits};
use lastword_core::spec::Spec;
use lastword_core::{Append, AppendId, InputNo, Job, JobId, Seq};
use lastword_store::{self as store, Journal};

use crate::{Engine, Env, Error, Jobs, Prune, Pruned, clock};

/// How often a request is decided anew because somebody else wrote first. A job is written to by its owner and by people; more
/// than this is a bug, not a crowd.
const TRIES_MAX: u32 = 32;

impl<J: Journal> Engine<J> {
    /// Makes the id of a new job of this cell.
    pub fn new_id(&self) -> Result<JobId, Error> {
        let mut random = [0; 10];
        getrandom::fill(&mut random).map_err(Error::NoRandom)?;
        Ok(JobId::new(0, clock::now().wall, random))
    }

    /// Asks for a job. Asking again with the same id and spec is asking once.
    pub async fn submit(&self, id: JobId, spec: Spec, env: Env, by: &str) -> Result<Job, Error> {
        let _ = env;
        let spec = Arc::new(spec);
        self.request(id, None, |job| submit::decide(job, &spec, by, Limits::default())).await
    }

    /// Asks for a job's end.
    pub async fn cancel(&self, id: JobId, wish: &Cancel) -> Result<Job, Error> {
        self.request(id, None, |job| cancel::decide(job, wish, clock::now().wall)).await
    }

    /// Changes a limit, also of a job that runs. Zero switches it off.
    pub async fn set_limit(&self, id: JobId, by: &str, limit: Limit, value: u64) -> Result<Job, Error> {
        self.request(id, None, |job| limit::decide(job, by, limit, value)).await
    }

    /// Says something to a job, and closes its input after that if `eof`. With the same append id, saying it again is saying it
    /// once.
    pub async fn send(
        &self,
        id: JobId,
        by: &str,
        text: &str,
        eof: bool,
        append: Option<AppendId>,
    ) -> Result<(Job, InputNo), Error> {
        let job = self.request(id, append, |job| send::decide(job, by, text, eof)).await?;
        let input = job.inputs_made;
        Ok((job, input))
    }

    /// Tries an ended job again, as a new one.
    pub async fn retry(&self, id: JobId, env: Env, by: &str) -> Result<Job, Error> {
        let spec = retry::decide(&self.load(id).await?)?;
        self.submit(self.new_id()?, spec, env, by).await
    }

    /// Gives up on the host of a job.
    pub async fn abandon(&self, id: JobId, by: &str) -> Result<Job, Error> {
        self.request(id, None, |job| abandon::decide(job, by)).await
    }

    /// Removes an ended job: its log, its row, its recordings.
    pub async fn remove(&self, id: JobId) -> Result<(), Error> {
        let _ = id;
        Err(Error::NotYet("remove jobs"))
    }

    /// Removes ended jobs that are old enough.
    pub async fn prune(&self, which: &Prune) -> Result<Pruned, Error> {
        let _ = which;
        Err(Error::NotYet("prune"))
    }

    /// Goes down. Returns once nothing more is written: with [`Jobs::Cancel`], once every job has its last word.
    pub async fn shut_down(&self, jobs: Jobs) -> Result<(), Error> {
        let _ = jobs;
        Err(Error::NotYet("shut down"))
    }

    /// Returns a job as it is remembered.
    pub(crate) async fn load(&self, id: JobId) -> Result<Job, Error> {
        let events = self.journal.load(id, Seq(0)).await?;
        Ok(Job::fold(id, &events)?)
    }

    /// Decides on the newest state and stores what follows; returns the job after it.
    async fn request(
        &self,
        id: JobId,
        append_id: Option<AppendId>,
        decide: impl Fn(&Job) -> Decision,
    ) -> Result<Job, Error> {
        let append_id = append_id.map_or_else(|| random_u128().map(AppendId), Ok)?;
        let mut tries = 0;
        loop {
            let job = self.load(id).await?;
            let facts = decide(&job)?;
            if facts.is_empty() {
                return Ok(job);
            }
            let (append, after) = Append::new(&job, None, append_id, clock::now().wall, facts)?;
            match self.journal.append(append).await {
                Ok(_) => {
                    self.wake.notify_one();
                    // Nobody listens: nobody needs to know.
                    let _ = self.changes.send(id);
                    return Ok(after);
                }
                Err(store::Error::Conflict { .. }) if tries < TRIES_MAX => tries += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn random_u128() -> Result<u128, Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(Error::NoRandom)?;
    Ok(u128::from_le_bytes(bytes))
}
