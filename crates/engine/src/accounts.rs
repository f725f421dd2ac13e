//! Accounts whose provider refuses to answer, and the jobs that wait for each: which of them may try, and when.
//!
//! After the time that the provider names, the first job of an account tries alone. When it was answered the others follow, in their order.
//! What is known here is folded from the jobs: after a restart it is read again, and then another first one may try.

use std::collections::{BTreeMap, BTreeSet};

use lastword_core::provider::Wait;
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

/// The jobs that wait for their providers, or try again.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    waits: BTreeMap<JobId, Wait>,
    /// Accounts whose provider answered since.
    answered: BTreeSet<String>,
}

impl Accounts {
    /// Notes how a job waits. Returns whether there may be something to do.
    pub(crate) fn note(&mut self, job: &Job) -> bool {
        let is_answered = !job.is_ended() || job.reports_turns() && job.has_answer();
        self.note_wait(job.id, job.provider_wait.as_deref(), is_answered)
    }

    /// Notes how a job waits: `None` if it does not. `is_answered`: because its provider answered.
    pub(crate) fn note_wait(&mut self, job: JobId, wait: Option<&Wait>, is_answered: bool) -> bool {
        let before = match wait {
            Some(wait) if self.waits.get(&job) == Some(wait) => return false,
            Some(wait) => self.waits.insert(job, wait.clone()),
            None => self.waits.remove(&job),
        };
        if let (Some(before), None, true) = (&before, wait, is_answered)
            && before.is_opened
        {
            self.answered.insert(before.account.clone());
        }
        before.is_some() || wait.is_some()
    }

    /// Returns the jobs that are known to wait.
    pub(crate) fn jobs(&self) -> Vec<JobId> {
        self.waits.keys().copied().collect()
    }

    /// Returns what is to be done now. What may try is noted as such.
    pub(crate) fn due(&mut self, now: Timestamp) -> Due {
        let mut due = Due::default();
        let answered = std::mem::take(&mut self.answered);
        let accounts: BTreeSet<String> = self.waits.values().map(|wait| wait.account.clone()).collect();
        for account in accounts {
            let of_account = self.waits.iter().filter(|(_, wait)| wait.account == account);
            let (tries, mut waits): (Vec<_>, Vec<_>) = of_account.partition(|(_, wait)| wait.is_opened);
            due.give_up.extend(waits.iter().filter(|(_, wait)| wait.ends_at <= now).map(|(job, _)| **job));
            waits.retain(|(_, wait)| wait.ends_at > now);
            waits.sort_by_key(|(job, wait)| wait.place(**job));
            let Some(until) = waits.iter().map(|(_, wait)| wait.until).max() else { continue };
            let ends = waits.iter().map(|(_, wait)| wait.ends_at).min();
            let first: Vec<JobId> = match () {
                // All that was refused before the answer; what was refused since waits for its own time.
                () if answered.contains(&account) && until <= now => {
                    waits.iter().map(|(job, _)| **job).collect()
                }
                () if !tries.is_empty() => Vec::new(),
                () if until <= now => waits.first().map(|(job, _)| **job).into_iter().collect(),
                () => {
                    due.next = due.next.into_iter().chain([until]).min();
                    Vec::new()
                }
            };
            due.next = due.next.into_iter().chain(ends).min();
            due.open.extend(first.into_iter().zip(0..).map(|(job, place)| (job, now.plus_ms(place))));
        }
        for (job, _) in &due.open {
            if let Some(wait) = self.waits.get_mut(job) {
                wait.is_opened = true;
            }
        }
        due.give_up.iter().for_each(|job| drop(self.waits.remove(job)));
        due
    }
}

#[cfg(test)]
mod tests {
    use lastword_core::provider::Refused;

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
            assert!(accounts.note_wait(id(*no), Some(wait), false));
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
        accounts.note_wait(id(2), Some(&opened(&b)), false);
        assert!(accounts.note_wait(id(2), None, true));
        assert_eq!(open(&accounts.due(Timestamp(110))), [(id(3), 110), (id(1), 111)]);
        assert_eq!(accounts.due(Timestamp(120)).open, []);
    }

    #[test]
    fn c95_a_try_that_is_refused_again_keeps_the_others_waiting_until_the_new_time() {
        let (a, b) = (wait("x", 10, 100), wait("x", 20, 100));
        let mut accounts = waiting(&[(1, a), (2, b)]);
        assert_eq!(open(&accounts.due(Timestamp(100))), [(id(1), 100)]);
        accounts.note_wait(id(1), Some(&wait("x", 10, 200)), false);
        assert_eq!(accounts.due(Timestamp(150)), Due { next: Some(Timestamp(200)), ..Due::default() });
        assert_eq!(open(&accounts.due(Timestamp(200))), [(id(1), 200)], "it keeps its place");
    }

    #[test]
    fn c95_another_job_tries_when_the_first_one_ends_without_an_answer() {
        let (a, b) = (wait("x", 10, 100), wait("x", 20, 100));
        let mut accounts = waiting(&[(1, a), (2, b)]);
        accounts.due(Timestamp(100));
        accounts.note_wait(id(1), None, false);
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
}
