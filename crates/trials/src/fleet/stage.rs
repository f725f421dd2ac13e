//! The stage of a script: what it can do to a fleet, and what it can wait for.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lastword_core::JobId;
use lastword_proc::Line;

use super::canary::{self, Run};
use super::cast::{Cast, WORKERS};
use super::evidence::Struck;
use super::fault::Fault;
use super::orders::Strike;
use super::strike::{self, Lasting};
use crate::clock;

/// How long a script waits for something. What takes longer cannot be aimed at on this machine.
const WAIT_MAX: Duration = Duration::from_secs(40);

/// Between two looks.
const LOOK: Duration = Duration::from_millis(5);

/// A fleet that a script strikes.
pub(super) struct Stage<'a> {
    cast: &'a mut Cast,
    jobs: &'a [String],
    notes: &'a Path,
    cue: &'a AtomicBool,
    say: &'a dyn Fn(&str),
    struck: Vec<Struck>,
}

impl<'a> Stage<'a> {
    pub(super) fn new(
        cast: &'a mut Cast,
        jobs: &'a [String],
        notes: &'a Path,
        cue: &'a AtomicBool,
        say: &'a dyn Fn(&str),
    ) -> Stage<'a> {
        Stage { cast, jobs, notes, cue, say, struck: Vec::new() }
    }

    /// Returns the faults that were struck.
    pub(super) fn struck(self) -> Vec<Struck> {
        self.struck
    }

    /// Strikes a worker, or what belongs to no worker.
    pub(super) fn strike(&mut self, fault: Fault, worker: usize) -> Result<Lasting, String> {
        self.strike_at(fault, worker, "")
    }

    /// Strikes the keeper of the first job.
    pub(super) fn strike_keeper(&mut self, fault: Fault) -> Result<Lasting, String> {
        let job = self.jobs[0].clone();
        self.strike_at(fault, 0, &job)
    }

    fn strike_at(&mut self, fault: Fault, worker: usize, job: &str) -> Result<Lasting, String> {
        let struck = strike::strike_at(self.cast, self.notes, aimed(fault, worker), job)?;
        (self.say)(&format!("{} strikes", fault.name()));
        struck.ok_or_else(|| format!("{} finds nothing to strike", fault.name()))
    }

    /// Ends a fault.
    pub(super) fn end(&mut self, lasting: Lasting) -> Result<(), String> {
        let from_ns = strike::end(self.cast, &lasting)?;
        let (fault, worker) = (lasting.strike.fault, lasting.worker());
        (self.say)(&format!("{} is over", fault.name()));
        self.struck.push(Struck { fault, worker, from_ns, to_ns: clock::boot_ns() });
        Ok(())
    }

    /// Kills every worker but the first, which gets all jobs then.
    pub(super) fn leave_one_worker(&mut self) -> Result<Vec<Lasting>, String> {
        (1..WORKERS.len()).map(|worker| self.strike(Fault::KillWorker, worker)).collect()
    }

    /// Ends faults.
    pub(super) fn end_all(&mut self, all: Vec<Lasting>) -> Result<(), String> {
        all.into_iter().try_for_each(|lasting| self.end(lasting))
    }

    /// Has jobs submitted that wait for it.
    pub(super) fn cue(&self) {
        self.cue.store(true, Ordering::Relaxed);
    }

    /// Waits for something. It is no violation if that does not happen: the history could not be played.
    pub(super) fn until<T>(&self, what: &str, mut look: impl FnMut(&Self) -> Option<T>) -> Result<T, String> {
        let found = clock::until(WAIT_MAX, LOOK, || look(self));
        (self.say)(what);
        found.ok_or_else(|| format!("the script waits in vain for this: {what}"))
    }

    /// Rests until some time after a moment.
    pub(super) fn rest_until(&self, since: Instant, after: Duration) {
        clock::rest((since + after).saturating_duration_since(Instant::now()));
    }

    /// Counts the jobs that have so many facts of a kind in the log, or more.
    pub(super) fn with_facts(&self, kind: &str, at_least: u64) -> Option<usize> {
        let ids: Vec<String> = self.jobs.iter().filter_map(|job| Some(format!("'{}'", uuid(job)?))).collect();
        let sql = format!(
            "select count(*) from (select job from events where kind = '{kind}' and job in ({}) group by job \
             having count(*) >= {at_least}) as j",
            ids.join(", ")
        );
        self.sql(&sql)
    }

    /// Returns the beat of a worker's life.
    pub(super) fn beat(&self, worker: usize) -> Option<u64> {
        self.sql(&format!(
            "select beat from lives where owner = '{}' order by incarnation desc limit 1",
            WORKERS[worker]
        ))
    }

    /// Returns in how many milliseconds the first job can be claimed.
    pub(super) fn due_ms(&self) -> Option<u64> {
        let job = uuid(&self.jobs[0])?;
        let now = "floor(extract(epoch from clock_timestamp()) * 1000)::bigint";
        self.sql(&format!("select greatest(due - {now}, 0) from ready where job = '{job}'"))
    }

    fn sql<T: std::str::FromStr>(&self, sql: &str) -> Option<T> {
        self.cast.databases[self.cast.first].sql(sql).ok()?.trim().parse().ok()
    }

    /// Returns the canaries that are alive.
    pub(super) fn alive(&self) -> Vec<Run> {
        strike::alive(self.notes)
    }

    /// Returns how many processes the first job has had.
    pub(super) fn runs(&self) -> usize {
        let notes = std::fs::read_to_string(self.notes).unwrap_or_default();
        canary::read(&notes).iter().filter(|run| run.job == self.jobs[0]).count()
    }

    /// Returns until when the trees of the worker may run that has the first job, in milliseconds of the boot clock.
    pub(super) fn lease_end(&self) -> Option<u64> {
        let worker = self.cast.holder(&self.jobs[0])?;
        let leases = std::fs::read_dir(self.cast.workers[worker].state().join("leases")).ok()?;
        let until = |path: &Path| -> Option<u64> {
            Line::parse(std::fs::read_to_string(path).ok()?.trim_end())?.get("until")
        };
        leases.filter_map(|file| until(&file.ok()?.path())).max()
    }
}

/// Returns a strike without a moment: the script has its own.
fn aimed(fault: Fault, worker: usize) -> Strike {
    Strike { fault, at_ms: 0, at_launch: false, for_ms: 0, aim: 0, worker, server: 0, forward: true }
}

fn uuid(job: &str) -> Option<String> {
    Some(job.parse::<JobId>().ok()?.as_uuid().to_string())
}
