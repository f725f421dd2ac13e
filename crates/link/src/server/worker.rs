//! What a worker may read and write, by the logs of its jobs.
//!
//! A worker sends facts, and the job row that it made of them. The row decides which job is claimed and listed where, so it is not
//! taken on trust: the server folds the log itself and makes the append anew. It keeps the jobs of the connection folded, which spares
//! it reading them again for each append.
//!
//! A claim is for the place where the life was registered: a worker that named another one could take over jobs whose trees are there.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lastword_core::decide::claim::Claimant;
use lastword_core::life::{Life, Place};
use lastword_core::worker_labels::WorkerLabels;
use lastword_core::{Append, Event, Fact, Incarnation, Job, JobId, OwnerId, Seq};
use lastword_store::{Claimed, Error, Journal, Result};

use crate::policy;

/// Jobs kept folded. A worker has fewer slots; beyond this the oldest work is done again.
const FOLDED_MAX: usize = 1_024;

/// A worker at the other end of a connection.
pub(super) struct Worker {
    pub(super) owner: OwnerId,
    /// The labels of its enrolment.
    pub(super) labels: WorkerLabels,
    folded: Mutex<HashMap<JobId, Folded>>,
    /// Its present life and where that is, as far as this connection has seen it.
    life: Mutex<Option<(Incarnation, Place)>>,
}

/// A job as its log says.
struct Folded {
    job: Job,
    /// The worker claimed it at some time.
    is_ours: bool,
    /// The instance of the journal that it was read in: see [`Append::read_in`].
    read_in: Option<u64>,
}

impl Worker {
    pub(super) fn new(owner: OwnerId, labels: WorkerLabels) -> Worker {
        Worker { owner, labels, folded: Mutex::default(), life: Mutex::default() }
    }

    /// Remembers where a life was registered.
    pub(super) fn registered(&self, life: Incarnation, place: Place) {
        *self.life.lock().unwrap_or_else(PoisonError::into_inner) = Some((life, place));
    }

    /// Refuses a claim for another place than that of the worker's life. Whether it may claim at all is for the journal to say.
    pub(super) async fn check_place<J: Journal>(&self, journal: &J, by: &Claimant) -> Result<()> {
        let known = self.life.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let place = match known.filter(|(life, _)| *life == by.incarnation) {
            Some((_, place)) => place,
            None => match find_life(journal, by.incarnation).await? {
                Some(life) if life.owner == self.owner => {
                    self.registered(life.incarnation, life.place.clone());
                    life.place
                }
                _ => return Ok(()),
            },
        };
        match by.host == place.host && by.boot.as_ref().is_none_or(|boot| *boot == place.boot) {
            true => Ok(()),
            false => Err(Error::Refused(format!(
                "{} is a worker: it claims for the host and the boot where it registered, and for no other",
                self.owner
            ))),
        }
    }

    /// Refuses the life of another owner. One that is over has no owner any more: the journal says that there is nothing to end.
    pub(super) async fn check_life<J: Journal>(&self, journal: &J, life: Incarnation) -> Result<()> {
        match find_life(journal, life).await? {
            Some(life) if life.owner != self.owner => {
                Err(Error::Refused(format!("{} is a worker: it may end its own life only", self.owner)))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a job that this worker never held. An unknown job is refused alike.
    pub(super) async fn check_job<J: Journal>(&self, journal: &J, job: JobId) -> Result<()> {
        let seen = journal.instance_seen();
        if self.folded().get(&job).is_some_and(|known| known.is_ours && known.read_in == seen) {
            return Ok(());
        }
        let known = self.fold(journal, job, None).await?;
        self.keep(known);
        Ok(())
    }

    /// Refuses a list of jobs that another owner holds.
    pub(super) async fn check_held<J: Journal>(&self, journal: &J, jobs: &[JobId]) -> Result<()> {
        // One incarnation holds them, so what is true of the first is true of all.
        let Some(first) = jobs.first() else { return Ok(()) };
        let known = self.fold(journal, *first, None).await?;
        let is_holder = known.job.holder.as_ref().is_some_and(|holder| holder.fence.owner == self.owner);
        self.keep(known);
        match is_holder {
            true => Ok(()),
            false => Err(self.not_held(*first)),
        }
    }

    /// Remembers jobs that were claimed.
    pub(super) fn claimed(&self, taken: &[Claimed]) {
        for Claimed { job, events, fence } in taken {
            if let Ok(job) = Job::fold(*job, events) {
                let read_in = Some(fence.incarnation.instance);
                self.keep(Folded { job, is_ours: true, read_in });
            }
        }
    }

    /// Returns an append as the server makes it from the worker's facts, and the job as it will be. `None` for an append to an older
    /// version, which the journal either has stored already or refuses.
    pub(super) async fn make<J: Journal>(
        &self,
        journal: &J,
        append: &Append,
    ) -> Result<Option<(Append, Rest)>> {
        let known = self.fold(journal, append.job, Some(append.expected)).await?;
        let Folded { job, is_ours, read_in } = &known;
        if job.version < append.expected {
            return Err(Error::Conflict { job: job.id, actual: job.version });
        }
        if job.version > append.expected {
            self.keep(known);
            return Ok(None);
        }
        policy::check_facts(&self.owner, job, append)?;
        let facts = append.events.iter().map(|event| event.fact.clone()).collect();
        let (made, after) = Append::new(job, append.fence.as_ref(), append.id, append.at, facts)
            .map_err(|illegal| Error::Refused(illegal.to_string()))?;
        let (is_ours, read_in) = (*is_ours, *read_in);
        let made = Append { read_in: read_in.filter(|_| made.fence.is_none()), ..made };
        Ok(Some((made, Rest(Folded { job: after, is_ours, read_in }))))
    }

    /// Remembers the job after an append that was stored.
    pub(super) fn stored(&self, Rest(known): Rest) {
        if !known.job.is_ended() {
            self.keep(known);
        }
    }

    /// Returns a job, folded up to `version` if that is known, or to its end. Takes it out of what is kept.
    async fn fold<J: Journal>(&self, journal: &J, id: JobId, version: Option<Seq>) -> Result<Folded> {
        // Another instance may have lost what is known of the job. Asked before the read, which is of this instance or a later one.
        let read_in = journal.instance_seen();
        let kept = self.folded().remove(&id).filter(|known| known.read_in == read_in);
        let mut known = match kept {
            Some(known) if version == Some(known.job.version) => return Ok(known),
            Some(known) => known,
            None => Folded { job: Job::fold(id, &[]).map_err(damaged)?, is_ours: false, read_in },
        };
        for event in journal.load(id, known.job.version).await? {
            known.is_ours |= self.is_claim_of_ours(&event);
            known.job.apply(&event).map_err(damaged)?;
        }
        match known.is_ours {
            true => Ok(known),
            false => Err(self.not_held(id)),
        }
    }

    fn not_held(&self, job: JobId) -> Error {
        Error::Refused(format!(
            "{} is a worker and does not hold {job}: it may neither read nor change it",
            self.owner
        ))
    }

    fn is_claim_of_ours(&self, event: &Event) -> bool {
        matches!(&event.fact, Fact::Claimed(claimed) if claimed.owner == self.owner)
    }

    fn keep(&self, known: Folded) {
        let mut folded = self.folded();
        if folded.len() >= FOLDED_MAX {
            folded.clear();
        }
        folded.insert(known.job.id, known);
    }

    fn folded(&self) -> MutexGuard<'_, HashMap<JobId, Folded>> {
        // Ignores poison: nothing here can panic half-way.
        self.folded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn find_life<J: Journal>(journal: &J, incarnation: Incarnation) -> Result<Option<Life>> {
    let lives = journal.lives().await?;
    Ok(lives.into_iter().find(|life| life.incarnation == incarnation))
}

/// A job as it will be once an append is stored.
pub(super) struct Rest(Folded);

fn damaged(error: lastword_core::Illegal) -> Error {
    Error::Corrupt(error.to_string())
}
