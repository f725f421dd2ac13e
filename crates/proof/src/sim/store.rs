//! The journal in a schedule: the production ledger, with a disk and a network that fail between it and its callers.
//!
//! Writes are answered after the sync, and so are reads of them: no caller learns of a fact that a crash
//! could still take back.

use lastword_core::view::row::Row;
use lastword_core::worker_labels::WorkerLabels;
use lastword_core::{Fence, Incarnation, Job, JobId, Seq};
use lastword_store::memory::{Ledger, Record};
use lastword_store::{Claim, Claimed, Error, Source};

use super::fault::Fault;
use super::journal::{Answer, Call, Caller, Verb};
use super::plan::{JOBS_MAX, QUEUE};
use super::world::{Doing, TIMEOUT_MS, World};

impl World {
    /// Sends a call to the journal, through a network that may lose or keep it, and returns its number.
    pub(super) fn call(&mut self, caller: Caller, verb: Verb) -> u64 {
        self.calls += 1;
        let no = self.calls;
        let (process, job) = match caller {
            Caller::Hand(hold) => (Some(hold.process), Some(hold.job)),
            Caller::Process(process, _) => (Some(process), None),
            Caller::Asker(asker) => (None, Some(self.askers[asker].job)),
        };
        let cut = process.is_some_and(|process| self.is_cut(process));
        let lost = cut || self.unlucky(2);
        let late = !lost && self.unlucky(2);
        if (lost && !cut) || late {
            let fault = if late { Fault::CallLate } else { Fault::CallLost };
            match job {
                Some(job) => self.struck(fault, job),
                None => self.struck_all(fault),
            }
        }
        if lost || late {
            self.after(TIMEOUT_MS, Doing::Answered(caller, no, Answer::Unavailable));
        }
        if !lost {
            let way = if late { TIMEOUT_MS + self.random.below(7_000) } else { 1 + self.random.below(15) };
            self.after(way, Doing::Arrive(Box::new(Call { caller, no, verb })));
        }
        no
    }

    fn is_cut(&self, process: usize) -> bool {
        let process = &self.processes[process];
        process.cut_until > self.now || self.hosts[process.host].gone
    }

    /// The journal gets a call.
    pub(super) fn arrive(&mut self, call: Call) {
        let Call { caller, no, verb } = call;
        if !self.store.up {
            return self.after(TIMEOUT_MS, Doing::Answered(caller, no, Answer::Unavailable));
        }
        let answer = match self.serve(verb) {
            Ok(answer) => answer,
            Err(Error::Conflict { .. }) => Answer::Conflict,
            Err(Error::Fenced { .. }) => Answer::Fenced,
            Err(Error::Lapsed { .. }) => Answer::Lapsed,
            Err(Error::Taken { .. }) => Answer::NameTaken,
            // Its caller asks again, but not at once.
            Err(Error::Unavailable(_)) => {
                return self.after(TIMEOUT_MS, Doing::Answered(caller, no, Answer::Unavailable));
            }
            Err(
                error @ (Error::Corrupt(_)
                | Error::Newer { .. }
                | Error::LeaseTooLong { .. }
                | Error::Refused(_)),
            ) => {
                return self.fail("journal corrupt", || error.to_string());
            }
        };
        if self.store.dirty {
            self.store.waiting.push((caller, no, answer));
        } else {
            self.reply(caller, no, answer);
        }
    }

    fn serve(&mut self, verb: Verb) -> Result<Answer, Error> {
        let now = self.journal_clock();
        let claim = |by, from| Claim { by, from, labels: WorkerLabels::default(), at_most: 4, now };
        let ledger = &self.store.ledger;
        let (answer, records) = match verb {
            Verb::Load { job, after } => (Answer::Loaded(ledger.load(job, after)), Vec::new()),
            Verb::Append(append) => {
                let job = append.job;
                let (seq, record) = ledger.append(*append)?;
                (Answer::Stored(job, seq), record.into_iter().collect())
            }
            Verb::Ready(by) => {
                let from = Source::Ready { group: QUEUE.to_owned(), slots: None };
                let (taken, records) = ledger.claim(&claim(by, from))?;
                (Answer::Taken(taken), records)
            }
            Verb::Expired(by) => {
                let (taken, records) = ledger.claim(&claim(by, Source::Expired))?;
                (Answer::Taken(taken), records)
            }
            Verb::Mine(incarnation) => (Answer::Taken(mine(ledger, incarnation)), Vec::new()),
            Verb::Renew(renew) => {
                let (renewed, record) = ledger.renew(&renew)?;
                (Answer::Renewed(renewed), vec![record])
            }
            Verb::Lives => (Answer::Lives(ledger.lives(), ledger.instance()), Vec::new()),
            Verb::EndLife(life, beat) => (Answer::Done, ledger.end_life(life, beat).into_iter().collect()),
            Verb::Alive(by, trees) => {
                let (taken, records) = ledger.claim(&claim(by, Source::Alive { trees }))?;
                (Answer::Taken(taken), records)
            }
            Verb::Settle(instance) => {
                self.store.ledger.settle(instance);
                (Answer::Done, Vec::new())
            }
        };
        for record in records {
            let sum = self.store.write(record);
            self.trace.note(sum);
            if !self.store.dirty {
                self.store.dirty = true;
                let flush = 2 + self.random.below(25);
                self.after(flush, Doing::Sync);
            }
        }
        Ok(answer)
    }

    /// The journal's disk has everything: answers go out.
    pub(super) fn sync(&mut self) {
        if !self.store.dirty {
            return;
        }
        self.store.disk.sync();
        self.store.dirty = false;
        for record in std::mem::take(&mut self.store.unsynced) {
            if let Record::Append(append) = record {
                self.durable(*append);
            }
        }
        for (caller, no, answer) in std::mem::take(&mut self.store.waiting) {
            self.reply(caller, no, answer);
        }
    }

    fn reply(&mut self, caller: Caller, no: u64, answer: Answer) {
        if self.unlucky(2) {
            match caller {
                Caller::Hand(hold) => self.struck(Fault::AnswerLost, hold.job),
                Caller::Asker(asker) => self.struck(Fault::AnswerLost, self.askers[asker].job),
                Caller::Process(..) => self.struck_all(Fault::AnswerLost),
            }
            return self.after(TIMEOUT_MS, Doing::Answered(caller, no, Answer::Unavailable));
        }
        if let Answer::Stored(job, seq) = &answer {
            self.witness.acknowledged(*job, *seq);
        }
        let way = 1 + self.random.below(10);
        self.after(way, Doing::Answered(caller, no, answer));
    }

    /// The journal dies, and comes back with what its disk kept.
    pub(super) fn crash_store(&mut self, torn: bool) {
        self.store_dies();
        self.store.disk.crash(&mut self.random, torn);
        self.store_recovers();
    }

    /// The journal dies, and another server takes over that did not get its last writes.
    pub(super) fn replace_store(&mut self) {
        self.store_dies();
        let lost = 1 + self.random.below(8) as usize;
        self.trace.say(self.now, || format!("another server takes over without the last {lost} writes"));
        self.store.fail_over_behind(lost);
        let mut kept = [0; JOBS_MAX];
        for record in self.store.disk.read() {
            let Record::Append(append) = record else { continue };
            if let Some(job) = self.plan.ids.iter().position(|id| *id == append.job) {
                kept[job] += append.events.len();
            }
        }
        for (job, kept) in kept.into_iter().enumerate() {
            let judgement = self.witness.lost(job, kept);
            self.judge(judgement);
        }
        self.store_recovers();
    }

    fn store_dies(&mut self) {
        self.store.up = false;
        self.store.dirty = false;
        for (caller, no, _) in std::mem::take(&mut self.store.waiting) {
            self.after(TIMEOUT_MS, Doing::Answered(caller, no, Answer::Unavailable));
        }
        self.store.unsynced.clear();
    }

    fn store_recovers(&mut self) {
        self.recover();
        let down = self.random.below(600);
        self.after(down, Doing::StoreBack);
    }

    /// Rebuilds the ledger from the disk: rows are made by folding.
    fn recover(&mut self) {
        let mut ledger = self.store.empty();
        let mut jobs: Vec<Job> = Vec::new();
        for mut record in self.store.disk.read() {
            if let Record::Append(append) = &mut record {
                let known = jobs.iter().position(|job| job.id == append.job).unwrap_or_else(|| {
                    jobs.push(Job::unborn(append.job));
                    jobs.len() - 1
                });
                for event in &append.events {
                    if let Err(illegal) = jobs[known].apply(event) {
                        return self.fail("recovered log does not fold", || illegal.to_string());
                    }
                }
                append.row = Row::of(&jobs[known]);
            }
            ledger.apply(&record);
            if let Record::Append(append) = record {
                self.recovered(*append);
            }
        }
        self.store.ledger = ledger;
        self.check_recovery();
    }
}

/// Returns what an incarnation holds, whatever it has heard about it.
fn mine(ledger: &Ledger, incarnation: Incarnation) -> Vec<Claimed> {
    let held = |job: JobId| {
        let fence: Fence = ledger.row(job)?.holder.clone()?;
        Some(Claimed { job, events: ledger.load(job, Seq(0)), fence })
    };
    ledger.held(incarnation, None, 8).into_iter().filter_map(held).collect()
}
