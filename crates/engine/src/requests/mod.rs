//! Requests: load, decide, append, and again if somebody was faster. Anyone may ask, whoever owns the job.
//!
//! What is asked of a job is decided in `core`; each verb has the file of its name there.

mod remove;
mod shut_down;
mod submit;

use lastword_core::decide::cancel::Cancel;
use lastword_core::decide::{Decision, abandon, answer, cancel, interrupt, limit, send};
use lastword_core::limits::Limit;
use lastword_core::{AppendId, InputNo, Job, JobId, TurnNo};
use lastword_store::siblings::Siblings;

use crate::shared::Shared;
use crate::{Engine, Error};

impl<J: Siblings> Engine<J> {
    /// Makes the id of a new job of this cell.
    pub fn new_id(&self) -> Result<JobId, Error> {
        let mut random = [0; 10];
        self.shared.trees.random(&mut random).map_err(Error::NoRandom)?;
        Ok(JobId::new(0, self.shared.now().wall, random))
    }

    /// Asks for a job's end.
    pub async fn cancel(&self, id: JobId, wish: &Cancel) -> Result<Job, Error> {
        self.request(id, None, |job| cancel::decide(job, wish, self.shared.now().wall)).await
    }

    /// Changes a limit, also of a job that runs. Zero switches it off.
    pub async fn set_limit(&self, id: JobId, by: &str, limit: Limit, value: u64) -> Result<Job, Error> {
        self.request(id, None, |job| limit::decide(job, by, limit, value)).await
    }

    /// Says something to a job, and closes its input after that if `eof`. With the same append id, saying it again right away
    /// is saying it once.
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

    /// Says something to an agent that is to count for the turn it works on, if it can be told so.
    pub async fn steer(&self, id: JobId, by: &str, text: &str) -> Result<(Job, InputNo), Error> {
        let job = self.request(id, None, |job| send::steer(job, by, text)).await?;
        let input = job.inputs_made;
        Ok((job, input))
    }

    /// Answers a question of an agent: the only open one, if none is named.
    pub async fn answer(
        &self,
        id: JobId,
        by: &str,
        question: Option<&str>,
        text: &str,
    ) -> Result<(Job, InputNo), Error> {
        let decide = |job: &Job| {
            let question = question.map_or_else(|| answer::only(job), Ok)?;
            answer::decide(job, by, question, text)
        };
        let job = self.request(id, None, decide).await?;
        let input = job.inputs_made;
        Ok((job, input))
    }

    /// Asks for the end of a turn, and of nothing else: of this one, or of the one that is active.
    pub async fn interrupt(&self, id: JobId, by: &str, turn: Option<TurnNo>) -> Result<Job, Error> {
        self.request(id, None, |job| interrupt::decide(job, by, turn)).await
    }

    /// Gives up on the host of a job.
    pub async fn abandon(&self, id: JobId, by: &str) -> Result<Job, Error> {
        self.request(id, None, |job| abandon::decide(job, by)).await
    }

    async fn request(
        &self,
        id: JobId,
        append: Option<AppendId>,
        decide: impl Fn(&Job) -> Decision,
    ) -> Result<Job, Error> {
        let append = append.map_or_else(|| self.shared.append_id(), Ok)?;
        self.shared.request(id, append, decide).await
    }
}

impl<J: Siblings> Shared<J> {
    /// Makes the name of an append that nobody else makes.
    pub(crate) fn append_id(&self) -> Result<AppendId, Error> {
        let mut bytes = [0; 16];
        self.trees.random(&mut bytes).map_err(Error::NoRandom)?;
        Ok(AppendId(u128::from_le_bytes(bytes)))
    }
}
