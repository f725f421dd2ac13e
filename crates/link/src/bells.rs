//! Bells: a server tells the workers at the other ends of its connections what to look at. A job that changed concerns its holder alone,
//! and a job that is ready one worker that has the labels for it and has asked for more than it got.
//!
//! Every ring is a hint: one that gets lost costs time, because the clerk of a server rings again.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lastword_core::worker_labels::WorkerLabels;
use lastword_core::{JobId, OwnerId};
use lastword_store::hints::Hint;
use lastword_store::{Line, Workers};
use tokio::sync::mpsc;

/// Hints that a connection may lag behind. One more is lost: a worker that does not read them is being cut off.
const LAG_MAX: usize = 1_024;

/// The workers that are connected to a server. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Bells(Arc<Mutex<Connected>>);

#[derive(Debug, Default)]
struct Connected {
    workers: BTreeMap<u64, Worker>,
    /// Those that want jobs, the one that waits longest first.
    wanting: VecDeque<u64>,
    made: u64,
}

#[derive(Debug)]
struct Worker {
    owner: OwnerId,
    labels: WorkerLabels,
    hints: mpsc::Sender<Hint>,
}

impl Workers for Bells {
    /// Tells the holder of a job that others wrote to it, if it is connected here.
    fn news(&self, holder: &OwnerId, job: JobId) {
        let connected = self.lock();
        for worker in connected.workers.values().filter(|worker| worker.owner == *holder) {
            let _ = worker.hints.try_send(Hint::News(job));
        }
    }

    fn ready(&self, line: &Line) {
        Bells::ready(self, &line.group, &WorkerLabels::from_key(&line.labels));
    }

    /// Tells every worker that is connected here to look at everything: a person did it, so it is rare.
    fn groups_changed(&self) {
        for worker in self.lock().workers.values() {
            let _ = worker.hints.try_send(Hint::Commit);
        }
    }
}

impl Bells {
    /// Tells a worker that has these labels and wants jobs that a group has one. Reports whether there is such a worker.
    pub fn ready(&self, group: &str, labels: &WorkerLabels) -> bool {
        let mut connected = self.lock();
        let Connected { workers, wanting, .. } = &mut *connected;
        let may = |id: &u64| workers.get(id).is_some_and(|worker| labels.are_among(&worker.labels));
        let Some(place) = wanting.iter().position(may) else { return false };
        let told = wanting.remove(place).and_then(|id| workers.get(&id));
        told.is_some_and(|worker| worker.hints.try_send(Hint::Ready(group.to_owned())).is_ok())
    }

    /// Adds a connection.
    pub(crate) fn connect(&self, owner: &OwnerId, labels: &WorkerLabels) -> (Ear, mpsc::Receiver<Hint>) {
        let (hints, told) = mpsc::channel(LAG_MAX);
        let mut connected = self.lock();
        connected.made += 1;
        let id = connected.made;
        connected.workers.insert(id, Worker { owner: owner.clone(), labels: labels.clone(), hints });
        (Ear { bells: self.clone(), id }, told)
    }

    fn lock(&self) -> MutexGuard<'_, Connected> {
        // Ignores poison: nothing here can panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection among them, until it is dropped.
#[derive(Debug)]
pub(crate) struct Ear {
    bells: Bells,
    id: u64,
}

impl Ear {
    /// Notes that the worker wants jobs. Before its claim is answered: a job that becomes ready meanwhile is not missed.
    pub(crate) fn wants(&self) {
        let mut connected = self.bells.lock();
        if !connected.wanting.contains(&self.id) {
            connected.wanting.push_back(self.id);
        }
    }

    /// Notes that it does not: it got as many as it asked for.
    pub(crate) fn wants_none(&self) {
        self.bells.lock().wanting.retain(|id| *id != self.id);
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.wants_none();
        self.bells.lock().workers.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(names: &[&str]) -> WorkerLabels {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn one_worker_that_wants_jobs_and_has_the_labels_is_told_in_turn() {
        let bells = Bells::default();
        let (ann, mut of_ann) = bells.connect(&OwnerId("ann".into()), &labels(&[]));
        let (bob, mut of_bob) = bells.connect(&OwnerId("bob".into()), &labels(&["gpu"]));
        assert!(!bells.ready("night", &labels(&[])), "none wants a job");
        ann.wants();
        ann.wants();
        bob.wants();
        assert!(bells.ready("night", &labels(&["gpu"])));
        assert_eq!(of_bob.try_recv().ok(), Some(Hint::Ready("night".to_owned())), "ann has no gpu");
        assert!(bells.ready("night", &labels(&[])));
        assert_eq!(of_ann.try_recv().ok(), Some(Hint::Ready("night".to_owned())));
        assert!(!bells.ready("night", &labels(&[])), "each was told");
        ann.wants();
        ann.wants_none();
        assert!(!bells.ready("night", &labels(&[])));
    }

    #[test]
    fn news_are_for_the_holder_and_a_closed_connection_hears_nothing() {
        let bells = Bells::default();
        let (ann, mut of_ann) = bells.connect(&OwnerId("ann".into()), &labels(&[]));
        let (_bob, mut of_bob) = bells.connect(&OwnerId("bob".into()), &labels(&[]));
        let job = JobId::new(0, lastword_core::Timestamp(7), [1; 10]);
        bells.news(&OwnerId("ann".into()), job);
        assert_eq!(of_ann.try_recv().ok(), Some(Hint::News(job)));
        assert!(of_bob.try_recv().is_err());
        bells.groups_changed();
        assert_eq!(
            (of_ann.try_recv().ok(), of_bob.try_recv().ok()),
            (Some(Hint::Commit), Some(Hint::Commit))
        );
        ann.wants();
        drop(ann);
        assert!(!bells.ready("night", &labels(&[])));
    }
}
