//! Requests: load, decide, append, and again if somebody was faster. Anyone may ask, whoever owns the job.

use std::sync::Arc;

use lastword_core::decide::cancel::Cancel;
use lastword_core::decide::{Decision, Refusal, cancel, submit};
use lastword_core::limits::Limits;
use lastword_core::spec::Spec;
use lastword_core::{Append, AppendId, Illegal, Job, JobId, Seq};
use lastword_store::{self as store, Journal};

use crate::{Engine, clock};

/// How often a request is decided anew because somebody else wrote first. A job is written to by its owner and by people; more
/// than this is a bug, not a crowd.
const TRIES_MAX: u32 = 32;

/// Why a request came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It does not apply.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The journal said no.
    #[error(transparent)]
    Journal(#[from] store::Error),
    /// The log breaks a rule.
    #[error(transparent)]
    Illegal(#[from] Illegal),
    /// No random bytes could be had.
    #[error("no random bytes: {0}")]
    NoRandom(getrandom::Error),
}

impl<J: Journal> Engine<J> {
    /// Makes the id of a new job of this cell.
    pub fn new_id(&self) -> Result<JobId, Error> {
        let mut random = [0; 10];
        getrandom::fill(&mut random).map_err(Error::NoRandom)?;
        Ok(JobId::new(0, clock::now().wall, random))
    }

    /// Asks for a job. Asking again with the same id and spec is asking once.
    pub async fn submit(&self, id: JobId, spec: Spec, by: &str) -> Result<Job, Error> {
        let spec = Arc::new(spec);
        self.request(id, |job| submit::decide(job, &spec, by, Limits::default())).await
    }

    /// Asks for a job's end.
    pub async fn cancel(&self, id: JobId, wish: &Cancel) -> Result<Job, Error> {
        self.request(id, |job| cancel::decide(job, wish, clock::now().wall)).await
    }

    /// Returns a job as it is remembered.
    pub async fn job(&self, id: JobId) -> Result<Job, Error> {
        let events = self.journal.load(id, Seq(0)).await?;
        Ok(Job::fold(id, &events)?)
    }

    /// Decides on the newest state and stores what follows; returns the job after it.
    async fn request(&self, id: JobId, decide: impl Fn(&Job) -> Decision) -> Result<Job, Error> {
        let append_id = AppendId(random_u128()?);
        let mut tries = 0;
        loop {
            let job = self.job(id).await?;
            let facts = decide(&job)?;
            if facts.is_empty() {
                return Ok(job);
            }
            let (append, after) = Append::new(&job, None, append_id, clock::now().wall, facts)?;
            match self.journal.append(append).await {
                Ok(_) => {
                    self.wake.notify_one();
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
