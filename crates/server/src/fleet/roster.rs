//! The workers that are enrolled in a store, with what was seen of them.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lastword_api as api;
use lastword_core::worker_labels::WorkerLabels;
use lastword_core::{BootTime, OwnerId, Timestamp};
use lastword_proc::clock;
use lastword_store::{
    EnrolledWorker, Enrolments, INVITATION_MS, Instance, Invitation, Journal, Result, Token, Workload,
};

use super::beats::{Beats, Sight};

/// Between two reads of the beats of workers, at most. Mostly they come sooner, with the renewals of the workers of this server.
const LOOK_PAUSE: Duration = Duration::from_secs(5);

/// How workers find a server.
#[derive(Clone, Debug)]
pub struct Door {
    /// Where they reach it, as `host:port`.
    pub address: String,
    /// The SHA-256 of its certificate.
    pub fingerprint: String,
}

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A roster over any store.
pub(super) trait AnyRoster: Send + Sync {
    fn invite(&self, name: OwnerId, labels: WorkerLabels) -> Boxed<'_, Result<api::Invitation>>;
    fn revoke(&self, name: OwnerId) -> Boxed<'_, Result<bool>>;
    fn show(&self) -> Boxed<'_, Result<api::Fleet>>;
    fn watch(&self) -> Boxed<'_, ()>;
}

/// The workers of a store.
pub(super) struct Roster<S> {
    store: S,
    door: Door,
    beats: Mutex<Beats>,
}

impl<S: Enrolments + Journal> Roster<S> {
    pub(super) fn new(store: S, door: Door) -> Roster<S> {
        Roster { store, door, beats: Mutex::default() }
    }

    fn beats(&self) -> MutexGuard<'_, Beats> {
        // Ignores poison: nothing here can panic half-way.
        self.beats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn look(&self) -> Result<()> {
        let lives = self.store.lives().await?;
        self.beats().see(&lives, now());
        Ok(())
    }

    async fn invitation(&self, name: OwnerId, labels: WorkerLabels) -> Result<api::Invitation> {
        let workers = self.store.workers().await?;
        let replaces = workers.iter().any(|worker| worker.name == name && worker.revoked_at.is_none());
        let token = Token::make()?;
        let (Door { address, fingerprint }, shown) = (self.door.clone(), name.to_string());
        let invitation = Invitation { token: token.hash(), name, labels: labels.clone(), now: wall() };
        self.store.invite(invitation).await?;
        Ok(api::Invitation {
            name: shown,
            labels: texts(&labels),
            token: token.reveal().to_owned(),
            valid_ms: INVITATION_MS,
            address,
            fingerprint,
            replaces,
        })
    }

    async fn shown(&self) -> Result<api::Fleet> {
        self.look().await?;
        let (workers, load) = (self.store.workers().await?, self.store.workload(wall()).await?);
        let instance = self.store.instance().await?;
        Ok(shown(&self.door, workers, &load, instance, &self.beats(), now()))
    }
}

/// Returns a fleet as the API shows it.
fn shown(
    door: &Door,
    workers: Vec<EnrolledWorker>,
    load: &Workload,
    instance: Instance,
    beats: &Beats,
    now: BootTime,
) -> api::Fleet {
    let held = |name: &OwnerId| load.held.iter().find(|held| held.owner == *name).map_or(0, |held| held.live);
    let sights = workers.into_iter().map(|worker| {
        let mut sight = beats.of(&worker.name, now);
        if worker.revoked_at.is_some() {
            sight.state = api::WorkerState::Revoked;
        }
        (sight, worker)
    });
    // A revoked worker is shown until its last job is gone.
    let sights: Vec<_> =
        sights.filter(|(_, worker)| worker.revoked_at.is_none() || held(&worker.name) > 0).collect();
    let is_matched = |labels: &WorkerLabels| {
        let has = |(sight, worker): &(Sight, EnrolledWorker)| {
            sight.state == api::WorkerState::Connected
                && labels.are_among(&worker.labels.clone().with_worker(&worker.name))
        };
        sights.iter().any(has)
    };
    let unmatched = load.waiting.iter().filter(|(labels, _)| !is_matched(labels));
    let unmatched = unmatched.map(|(labels, jobs)| api::Unmatched { labels: texts(labels), jobs: *jobs });
    let left = load.held.iter().filter(|held| held.left > 0);
    let left = left.map(|held| api::LeftBehind { owner: held.owner.to_string(), jobs: held.left });
    api::Fleet {
        address: door.address.clone(),
        fingerprint: door.fingerprint.clone(),
        paused: instance.settling.is_some(),
        left_behind: left.collect(),
        unmatched: unmatched.collect(),
        workers: sights
            .into_iter()
            .map(|(sight, worker)| api::Worker {
                jobs: held(&worker.name),
                name: worker.name.to_string(),
                labels: texts(&worker.labels),
                state: sight.state,
                beat_ago_ms: sight.beat_ago_ms,
                host: worker.said.host,
                host_id: sight.host.map(|host| host.as_ref().to_owned()),
                slots: worker.said.slots,
                version: worker.said.version,
                enrolled_at: worker.enrolled_at.into(),
            })
            .collect(),
    }
}

impl<S: Enrolments + Journal> AnyRoster for Roster<S> {
    fn invite(&self, name: OwnerId, labels: WorkerLabels) -> Boxed<'_, Result<api::Invitation>> {
        Box::pin(self.invitation(name, labels))
    }

    fn revoke(&self, name: OwnerId) -> Boxed<'_, Result<bool>> {
        Box::pin(self.store.revoke(name, wall()))
    }

    fn show(&self) -> Boxed<'_, Result<api::Fleet>> {
        Box::pin(self.shown())
    }

    fn watch(&self) -> Boxed<'_, ()> {
        Box::pin(async {
            loop {
                // A journal that does not answer shows no beats, and its troubles are told elsewhere.
                if let Ok(beats) = self.store.beats(LOOK_PAUSE).await {
                    self.beats().see(&beats.lives, now());
                } else {
                    tokio::time::sleep(LOOK_PAUSE).await;
                }
            }
        })
    }
}

fn texts(labels: &WorkerLabels) -> Vec<String> {
    labels.iter().map(str::to_owned).collect()
}

fn now() -> BootTime {
    BootTime(clock::boot_ms())
}

fn wall() -> Timestamp {
    Timestamp(clock::wall_ms())
}

#[cfg(test)]
mod tests {
    use lastword_api::WorkerState;
    use lastword_core::life::Place;
    use lastword_store::memory::Memory;
    use lastword_store::{Enrolling, Renew, TokenHash};

    use super::*;

    fn roster() -> Roster<Memory> {
        let door = Door { address: "here:7420".to_owned(), fingerprint: "ab".repeat(32) };
        Roster::new(Memory::shared(1), door)
    }

    fn owner(name: &str) -> OwnerId {
        OwnerId(name.into())
    }

    /// Enrols a worker with the token that an invitation gave.
    async fn enrol(roster: &Roster<Memory>, name: &str, labels: &str) -> TokenHash {
        let labels = WorkerLabels::from_key(labels);
        let invitation = roster.invitation(owner(name), labels).await.unwrap();
        assert_eq!((invitation.valid_ms, invitation.address.as_str()), (600_000, "here:7420"));
        let token = Token::make().unwrap().hash();
        let one_time = TokenHash::of(&invitation.token);
        let enrolled = roster.store.enrol(Enrolling { one_time, token, now: wall() }).await.unwrap();
        assert_eq!(enrolled, Ok(owner(name)));
        token
    }

    #[tokio::test]
    async fn an_invitation_says_whether_it_replaces_a_worker() {
        let roster = roster();
        let first = roster.invitation(owner("ann"), WorkerLabels::default()).await.unwrap();
        assert!(!first.replaces);
        enrol(&roster, "ann", "gpu").await;
        let again = roster.invitation(owner("ann"), WorkerLabels::default()).await.unwrap();
        assert!(again.replaces);
        assert_ne!(first.token, again.token);
        assert!(!format!("{again:?}").contains(&again.token));
        assert!(roster.revoke(owner("ann")).await.unwrap());
        assert!(!roster.invitation(owner("ann"), WorkerLabels::default()).await.unwrap().replaces);
    }

    #[tokio::test]
    async fn a_fleet_shows_its_workers_and_what_waits_for_none_of_them() {
        let roster = roster();
        enrol(&roster, "ann", "gpu linux").await;
        enrol(&roster, "bob", "").await;
        let place = Place::new("host", "boot");
        let renew = Renew { owner: owner("ann"), place, incarnation: None, lease_ms: 15_000 };
        roster.store.renew(renew).await.unwrap();
        let shown = roster.shown().await.unwrap();
        let states: Vec<_> = shown.workers.iter().map(|worker| (&*worker.name, &worker.state)).collect();
        assert_eq!(states, [("ann", &WorkerState::Connected), ("bob", &WorkerState::Away)]);
        assert_eq!(shown.workers[0].labels, ["gpu", "linux"]);
        assert_eq!(shown.workers[0].host_id.as_deref(), Some("host"));
        // Labels of a worker that is away help nobody.
        let waiting = |labels: &str, jobs| (WorkerLabels::from_key(labels), jobs);
        let load = Workload {
            held: vec![lastword_store::HeldJobs { owner: owner("ann"), live: 2, left: 3 }],
            waiting: vec![waiting("", 9), waiting("gpu", 8), waiting("arm", 7)],
        };
        let instance = roster.store.instance().await.unwrap();
        let workers = roster.store.workers().await.unwrap();
        let shown = super::shown(&roster.door, workers, &load, instance, &roster.beats(), now());
        assert_eq!(shown.workers[0].jobs, 2);
        assert_eq!(shown.left_behind, [api::LeftBehind { owner: "ann".to_owned(), jobs: 3 }]);
        assert_eq!(shown.unmatched, [api::Unmatched { labels: vec!["arm".to_owned()], jobs: 7 }]);
        assert!(!shown.paused);
    }

    #[tokio::test]
    async fn a_revoked_worker_is_shown_while_it_holds_jobs_and_a_pause_is_shown() {
        let roster = roster();
        enrol(&roster, "ann", "").await;
        assert!(roster.revoke(owner("ann")).await.unwrap());
        assert_eq!(roster.shown().await.unwrap().workers, []);
        roster.store.replace_instance(2);
        let load = Workload {
            held: vec![lastword_store::HeldJobs { owner: owner("ann"), live: 1, left: 0 }],
            waiting: vec![],
        };
        let instance = roster.store.instance().await.unwrap();
        let workers = roster.store.workers().await.unwrap();
        let shown = super::shown(&roster.door, workers, &load, instance, &roster.beats(), now());
        assert_eq!(shown.workers[0].state, WorkerState::Revoked);
        assert!(shown.paused);
    }
}
