//! Requests: load, decide, append, and again if another writer was faster. Anyone may ask, whatever process owns the job.
//!
//! Core decides what a request means; each verb has the file of its name there.

use std::collections::BTreeMap;
use std::sync::Arc;

use lastword_core::conversation::Carried;
use lastword_core::decide::cancel::Cancel;
use lastword_core::decide::{
    Decision, abandon, answer, cancel, interrupt, label, limit, progress, rule, send, submit,
};
use lastword_core::limits::Limit;
use lastword_core::question::Reply;
use lastword_core::spec::Spec;
use lastword_core::{Append, AppendId, InputNo, Job, JobId, TurnNo};
use lastword_store::{self as store, Store};

use super::Desk;
use crate::Error;
use crate::agenda::Agenda;

/// How often a request is decided again because another writer was faster. A job has one owner and a few people as writers: more conflicts
/// than this are a bug.
const TRIES_MAX: u32 = 32;

impl<J: Store> Desk<J> {
    /// Makes the id of a new job of this cell.
    pub fn new_id(&self) -> Result<JobId, Error> {
        let mut random = [0; 10];
        self.clock.random(&mut random).map_err(Error::NoRandom)?;
        Ok(JobId::new(0, self.now().wall, random))
    }

    /// Makes a unique id for an append.
    pub(crate) fn append_id(&self) -> Result<AppendId, Error> {
        let mut bytes = [0; 16];
        self.clock.random(&mut bytes).map_err(Error::NoRandom)?;
        Ok(AppendId(u128::from_le_bytes(bytes)))
    }

    /// Decides a submission.
    pub(crate) fn decide_submission(
        &self,
        job: &Job,
        spec: &Arc<Spec>,
        by: &str,
        carried: Option<Box<Carried>>,
    ) -> Decision {
        let facts = submit::decide_next(job, spec, by, self.default_limits, carried)?;
        let budget = self.groups.get(&spec.group).map(|group| group.budget).unwrap_or_default();
        limit::check_budget(&spec.work, &budget)?;
        Ok(facts)
    }

    /// Refuses a submission that would be refused.
    pub(crate) fn check_submission(
        &self,
        id: JobId,
        spec: &Spec,
        by: &str,
        carried: Option<Box<Carried>>,
    ) -> Result<(), Error> {
        self.decide_submission(&Job::unborn(id), &Arc::new(spec.clone()), by, carried)?;
        Ok(())
    }

    /// Asks for a job's end.
    pub async fn cancel(&self, id: JobId, cancel: &Cancel) -> Result<Job, Error> {
        self.request(id, None, |job| cancel::decide(job, cancel, self.now().wall)).await
    }

    /// Changes a limit, also of a running job. Zero switches it off.
    pub async fn set_limit(&self, id: JobId, by: &str, limit: Limit, value: u64) -> Result<Job, Error> {
        self.request(id, None, |job| limit::decide(job, by, limit, value)).await
    }

    /// Changes labels; one without a value is removed.
    pub async fn label(
        &self,
        id: JobId,
        by: &str,
        changes: &BTreeMap<String, Option<String>>,
    ) -> Result<Job, Error> {
        self.request(id, None, |job| label::decide(job, by, changes)).await
    }

    /// Records what a process of a job says of its work.
    pub async fn progress(&self, id: JobId, text: Option<&str>, result: Option<&str>) -> Result<Job, Error> {
        self.request(id, None, |job| progress::decide(job, text, result)).await
    }

    /// Sends input to a job, and closes its input after that if `eof`. A call that is repeated with its append id before anything else
    /// is stored for the job sends it once.
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

    /// Sends a message that steers the active turn of an agent, if its protocol allows that.
    pub async fn steer(&self, id: JobId, by: &str, text: &str) -> Result<(Job, InputNo), Error> {
        let job = self.request(id, None, |job| send::steer(job, by, text)).await?;
        let input = job.inputs_made;
        Ok((job, input))
    }

    /// Answers the question of this name.
    pub async fn answer(
        &self,
        id: JobId,
        by: &str,
        question: &str,
        reply: &Reply,
    ) -> Result<(Job, InputNo), Error> {
        let job = self.request(id, None, |job| answer::decide(job, by, question, reply)).await?;
        let input = job.inputs_made;
        Ok((job, input))
    }

    /// Asks for the end of a turn and of nothing else: of this turn, or of the active one.
    pub async fn interrupt(&self, id: JobId, by: &str, turn: Option<TurnNo>) -> Result<Job, Error> {
        self.request(id, None, |job| interrupt::decide(job, by, turn)).await
    }

    /// Stores that what a question asks for is allowed, now and whenever the job asks for the same again; returns the job after it, and
    /// the number of the answer.
    pub async fn allow_always(&self, id: JobId, by: &str, question: &str) -> Result<(Job, InputNo), Error> {
        let job = self.request(id, None, |job| answer::allow_always(job, by, question)).await?;
        let input = job.inputs_made;
        Ok((job, input))
    }

    /// Removes a rule of a job.
    pub async fn remove_rule(&self, id: JobId, by: &str, rule: u32) -> Result<Job, Error> {
        self.request(id, None, |job| rule::remove(job, by, rule)).await
    }

    /// Gives up on the host of a job.
    pub async fn abandon(&self, id: JobId, by: &str) -> Result<Job, Error> {
        self.request(id, None, |job| abandon::decide(job, by)).await
    }

    /// Decides on the newest state and stores the result; returns the job after it. Without an append id one is made.
    pub(crate) async fn request(
        &self,
        id: JobId,
        append_id: Option<AppendId>,
        decide: impl Fn(&Job) -> Decision,
    ) -> Result<Job, Error> {
        let append_id = append_id.map_or_else(|| self.append_id(), Ok)?;
        let mut tries = 0;
        loop {
            let folded = self.folded(id).await?;
            let (job, read_in) = (&folded.job, folded.read_in);
            let facts = decide(job)?;
            if facts.is_empty() {
                // Asked before, perhaps by a caller whose answer was lost.
                self.agenda.tasks.nudge(id);
                return Ok(job.clone());
            }
            let (append, after) = Append::new(job, None, append_id, self.now().wall, facts)?;
            let append = Append { read_in, ..append };
            let unconfirmed = UnconfirmedWrite { agenda: &self.agenda, id };
            let stored = self.journal.append(append).await;
            if !matches!(stored, Err(store::Error::Unavailable(_))) {
                unconfirmed.confirm();
            }
            match stored {
                Ok(_) => {
                    self.agenda.tasks.nudge(id);
                    self.wrote(&after);
                    return Ok(after);
                }
                Err(store::Error::Conflict { .. }) if tries < TRIES_MAX => tries += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// A write without an answer yet. Dropped unconfirmed (the caller went away, or the journal did not answer), it has the job read again.
struct UnconfirmedWrite<'a> {
    agenda: &'a Agenda,
    id: JobId,
}

impl UnconfirmedWrite<'_> {
    fn confirm(self) {
        std::mem::forget(self);
    }
}

impl Drop for UnconfirmedWrite<'_> {
    fn drop(&mut self) {
        self.agenda.recheck(self.id);
    }
}
