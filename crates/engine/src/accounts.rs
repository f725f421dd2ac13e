//! Accounts whose provider refuses to answer, and the jobs that wait for each: which of them may try, and when.
//!
//! After the time that the provider names, the first job of an account tries alone. When it was answered the others follow, in their order: with
//! each answer twice as many.
//! What is known here is folded from the jobs: after a restart it is read again, and then another first one may try.

use std::collections::{BTreeMap, BTreeSet};

use lastword_core::provider::{Refused, Wait};
use lastword_core::{Job, JobId, Timestamp};

/// What is to be done now, and when to look again.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Due {
    /// These may try from then on.
    pub(crate) open: Vec<(JobId, Timestamp)>,
    /// These have waited for as long as they may.
    pub(crate) give_up: Vec<JobId>,
    /// When to look again, if nothing happens before.
    pub(crate) next: Option<Timestamp>,
}

/// How long a job may take to be started once it may try. One whose group is full or paused does not keep its account waiting for longer.
const STARTS_MS: u64 = 60_000;

/// A job that waits for its provider, or tries it again.
#[derive(Debug, PartialEq, Eq)]
struct Known {
    wait: Wait,
    /// A worker has it.
    is_held: bool,
    /// Since when it may try, as far as this was looked at.
    opened_at: Option<Timestamp>,
}

/// The jobs that wait for their providers, or try again.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    waits: BTreeMap<JobId, Known>,
    /// Accounts whose provider answered since.
    answered: BTreeSet<String>,
    /// How many jobs of an account follow the next answer.
    pace: BTreeMap<String, usize>,
}

impl Accounts {
    /// Notes how a job waits. Returns whether there may be something to do.
    pub(crate) fn note(&mut self, job: &Job) -> bool {
        self.note_wait(job.id, job.provider_wait.as_deref(), job.holder.is_some(), job.has_answer())
    }

    /// Notes how a job waits: `None` if it does not. `is_answered`: because its provider answered.
    pub(crate) fn note_wait(
        &mut self,
        job: JobId,
        wait: Option<&Wait>,
        is_held: bool,
        is_answered: bool,
    ) -> bool {
        let before = self.waits.remove(&job);
        if let Some(wait) = wait {
            let opened_at = before.as_ref().and_then(|before| before.opened_at).filter(|_| wait.is_opened);
            let known = Known { wait: wait.clone(), is_held, opened_at };
            let is_new = before.as_ref() != Some(&known);
            self.waits.insert(job, known);
            return is_new;
        }
        if let Some(before) = before.as_ref().filter(|before| before.wait.is_opened && is_answered) {
            self.answered.insert(before.wait.account.clone());
        }
        before.is_some()
    }

    /// Returns the jobs that are known to wait.
    pub(crate) fn jobs(&self) -> Vec<JobId> {
        self.waits.keys().copied().collect()
    }

    /// Returns what is to be done now. What may try is noted as such.
    pub(crate) fn due(&mut self, now: Timestamp) -> Due {
        let mut due = Due::default();
        let answered = std::mem::take(&mut self.answered);
        let accounts: BTreeSet<String> =
            self.waits.values().map(|known| known.wait.account.clone()).collect();
        for account in accounts {
            let mut starts: Option<Timestamp> = None;
            let mut is_tried = false;
            for known in self.waits.values_mut() {
                if known.wait.account == account && known.wait.is_opened {
                    let starts_until = known.opened_at.get_or_insert(now).plus_ms(STARTS_MS);
                    is_tried |= known.is_held || now < starts_until;
                    starts =
                        starts.into_iter().chain([starts_until].into_iter().filter(|_| !known.is_held)).max();
                }
            }
            let of_account = self.waits.iter().filter(|(_, known)| known.wait.account == account);
            let of_account: Vec<(JobId, bool, &Wait)> =
                of_account.map(|(job, known)| (*job, known.is_held, &known.wait)).collect();
            let over = of_account.iter().filter(|(_, is_held, wait)| !is_held && wait.ends_at <= now);
            due.give_up.extend(over.map(|(job, ..)| *job));
            let mut waits: Vec<(JobId, &Wait)> = of_account
                .iter()
                .filter(|(_, _, wait)| !wait.is_opened && wait.ends_at > now)
                .map(|(job, _, wait)| (*job, *wait))
                .collect();
            waits.sort_by_key(|(job, wait)| wait.place(*job));
            // A quota is that of the account, a pause that of the job.
            let quota =
                waits.iter().filter(|(_, wait)| wait.why == Refused::Quota).map(|(_, wait)| wait.until).max();
            let is_restored = quota.is_none_or(|until| until <= now);
            let ready =
                waits.iter().filter(|(_, wait)| is_restored && wait.until <= now).map(|(job, _)| *job);
            let pace = self.pace.entry(account.clone()).or_insert(1);
            let count = match () {
                () if !is_restored => {
                    *pace = 1;
                    0
                }
                // Twice as many with each answer: if the quota is used up again, few are refused.
                () if answered.contains(&account) => {
                    *pace = pace.saturating_mul(2);
                    *pace
                }
                () if is_tried => 0,
                () => {
                    *pace = 1;
                    1
                }
            };
            due.open.extend(ready.take(count).zip(0..).map(|(job, place)| (job, now.plus_ms(place))));
            let times = waits.iter().flat_map(|(_, wait)| [wait.until, wait.ends_at]).chain(starts);
            due.next = due.next.into_iter().chain(times.filter(|at| *at > now)).min();
        }
        self.pace.retain(|account, _| self.waits.values().any(|known| known.wait.account == *account));
        for (job, _) in &due.open {
            if let Some(known) = self.waits.get_mut(job) {
                (known.wait.is_opened, known.opened_at) = (true, Some(now));
            }
        }
        due.give_up.iter().for_each(|job| drop(self.waits.remove(job)));
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(no: u8) -> JobId {
        JobId::new(0, Timestamp(1), [no; 10])
    }

    fn wait(account: &str, since: u64, until: u64) -> Wait {
        let (since, until) = (Timestamp(since), Timestamp(until));
        let (why, ends_at) = (Refused::Quota, Timestamp(1_000));
        Wait { account: account.to_owned(), why, since, until, ends_at, times: 1, is_opened: false }
    }

    fn opened(wait: &Wait) -> Wait {
        Wait { is_opened: true, ..wait.clone() }
    }

    fn waiting(jobs: &[(u8, Wait)]) -> Accounts {
        let mut accounts = Accounts::default();
        for (no, wait) in jobs {
            assert!(accounts.note_wait(id(*no), Some(wait), false, false));
        }
        accounts
    }

    fn open(due: &Due) -> Vec<(JobId, u64)> {
        due.open.iter().map(|(job, due)| (*job, due.0)).collect()
    }

    #[test]
    fn c95_one_job_tries_first_and_the_others_follow_in_their_order() {
        let (a, b, c) = (wait("x", 30, 100), wait("x", 10, 100), wait("x", 20, 90));
        let mut accounts = waiting(&[(1, a), (2, b.clone()), (3, c)]);
        assert_eq!(accounts.due(Timestamp(99)), Due { next: Some(Timestamp(100)), ..Due::default() });
        assert_eq!(open(&accounts.due(Timestamp(100))), [(id(2), 100)]);
        assert_eq!(open(&accounts.due(Timestamp(101))), [], "it was not answered yet");
        accounts.note_wait(id(2), Some(&opened(&b)), true, false);
        assert!(accounts.note_wait(id(2), None, true, true));
        assert_eq!(open(&accounts.due(Timestamp(110))), [(id(3), 110), (id(1), 111)]);
        assert_eq!(accounts.due(Timestamp(120)).open, []);
    }

    #[test]
    fn c95_a_try_that_is_refused_again_keeps_the_others_waiting_until_the_new_time() {
        let (a, b) = (wait("x", 10, 100), wait("x", 20, 100));
        let mut accounts = waiting(&[(1, a), (2, b)]);
        assert_eq!(open(&accounts.due(Timestamp(100))), [(id(1), 100)]);
        accounts.note_wait(id(1), Some(&wait("x", 10, 200)), false, false);
        assert_eq!(accounts.due(Timestamp(150)), Due { next: Some(Timestamp(200)), ..Due::default() });
        assert_eq!(open(&accounts.due(Timestamp(200))), [(id(1), 200)], "it keeps its place");
    }

    #[test]
    fn c95_another_job_tries_when_the_first_one_ends_without_an_answer() {
        let (a, b) = (wait("x", 10, 100), wait("x", 20, 100));
        let mut accounts = waiting(&[(1, a), (2, b)]);
        accounts.due(Timestamp(100));
        accounts.note_wait(id(1), None, false, false);
        assert_eq!(open(&accounts.due(Timestamp(105))), [(id(2), 105)]);
    }

    #[test]
    fn c95_accounts_wait_apart_and_a_bound_is_kept() {
        let short = Wait { ends_at: Timestamp(50), ..wait("y", 5, 90) };
        let mut accounts = waiting(&[(1, wait("x", 10, 40)), (2, short)]);
        let due = accounts.due(Timestamp(40));
        assert_eq!((open(&due), due.next), (vec![(id(1), 40)], Some(Timestamp(50))));
        assert_eq!(accounts.due(Timestamp(50)).give_up, [id(2)]);
        assert_eq!(accounts.due(Timestamp(60)).give_up, []);
    }

    /// Its group may be full or paused.
    #[test]
    fn c95_a_job_that_is_not_started_does_not_keep_its_account_waiting() {
        let far = |job: Wait| Wait { ends_at: Timestamp(10 * STARTS_MS), ..job };
        let (a, b) = (far(wait("x", 10, 100)), far(wait("x", 20, 100)));
        let mut accounts = waiting(&[(1, a.clone()), (2, b)]);
        assert_eq!(open(&accounts.due(Timestamp(100))), [(id(1), 100)]);
        let soon = accounts.due(Timestamp(101));
        assert_eq!((open(&soon), soon.next), (vec![], Some(Timestamp(100 + STARTS_MS))));
        let mut started = waiting(&[]);
        std::mem::swap(&mut started.waits, &mut accounts.waits);
        started.note_wait(id(1), Some(&opened(&a)), true, false);
        assert_eq!(open(&started.due(Timestamp(100 + STARTS_MS))), [], "it tries");
        started.note_wait(id(1), Some(&opened(&a)), false, false);
        assert_eq!(open(&started.due(Timestamp(100 + STARTS_MS))), [(id(2), 100 + STARTS_MS)]);
    }
}
