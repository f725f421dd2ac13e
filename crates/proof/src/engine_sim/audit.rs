//! What must not take long: once nothing goes wrong any more, hints do their work and nothing waits for a sweep.

use lastword_core::decide::reschedule::AHEAD_MAX_MS;
use lastword_core::job::{Phase, Waits};
use lastword_core::limits::Limit;
use lastword_core::outcome::Outcome;
use lastword_core::receipt::Proof;
use lastword_core::spec::Needs;
use lastword_core::{AttemptNo, Job, JobId};

use super::witness::Watched;
use super::world::World;
use crate::world::witness::Known;

/// How long what an engine does at once may take: launches and calls take some milliseconds here, and looks some hundred.
const AT_ONCE_MS: u64 = 1_200;

impl World {
    /// Looks at every job for something that should have happened by now.
    pub(super) fn look_for_delays(&mut self) {
        let now = self.now();
        let jobs: Vec<JobId> = self.witness.keys().copied().collect();
        for job in jobs {
            let waits: Vec<&'static str> = self.waits_for(&self.witness[&job]);
            self.since.retain(|(of, what), _| *of != job || waits.contains(what));
            for what in waits {
                let since = *self.since.entry((job, what)).or_insert(now);
                if now > since + AT_ONCE_MS && self.is_prompt(now) {
                    self.fail(what, |world| format!("{} since {since}", world.name(job)));
                }
            }
        }
    }

    /// Returns what should happen to a job at once and has not.
    fn waits_for(&self, watched: &Watched) -> Vec<&'static str> {
        let known = &watched.known;
        let job = &known.job;
        let mut waits = Vec::new();
        match &job.phase {
            Phase::Unborn => {}
            Phase::Queued { waits: Waits::Dependencies } if self.is_released(known) => {
                waits.push("a job was not told that what it waits for has ended");
            }
            Phase::Queued { .. } | Phase::Backoff { .. } if self.may_be_taken(known) => {
                waits.push("a job that is due and has a slot is not taken");
            }
            Phase::Launching => waits.push("a launch takes too long"),
            Phase::Running if !job.inputs.is_empty() => waits.push("an input is not delivered"),
            Phase::Stopping { .. } if job.stop.as_ref().is_some_and(|stop| stop.began_at.is_none()) => {
                waits.push("a stop does not begin");
            }
            Phase::Ended(_) if self.envs.keys().any(|(_, kept)| *kept == job.id) && !watched.removed => {
                waits.push("an environment outlives its job");
            }
            _ => {}
        }
        if matches!(job.phase, Phase::Running) && self.is_over_limit(known) {
            waits.push("a limit sleeps");
        }
        if self.is_dead_unheard(known) {
            waits.push("the end of a tree is not heard");
        }
        waits
    }

    /// Reports whether everything a job waits for has ended.
    fn is_released(&self, known: &Known) -> bool {
        known.job.unmet.iter().all(|dependency| {
            let other = self.witness.get(&dependency.job);
            other.is_some_and(|other| other.known.job.is_ended())
        }) || known.job.unmet.iter().any(|dependency| {
            let other = self.witness.get(&dependency.job).and_then(|other| other.known.job.last_word());
            let completed = lastword_core::outcome::Outcome::Completed;
            dependency.on == Needs::Success && other.is_some_and(|word| word.outcome != completed)
        })
    }

    /// Reports whether a job is due, and its group has a slot that no better one waits for.
    fn may_be_taken(&self, known: &Known) -> bool {
        let Some(row) = self.ledger.row(known.job.id) else { return false };
        let Some(group) = self.group(&row.group) else { return false };
        let held = self.witness.keys().filter_map(|job| self.ledger.row(*job));
        let held = held.filter(|other| other.group == row.group && other.holder.is_some()).count();
        !group.paused
            && (row.due.is_some_and(|due| due <= self.hosts[0].wall(self.now()))
                || self.is_misdated(&known.job))
            && group.slots.is_none_or(|slots| held < slots as usize)
    }

    /// Reports whether a job waits for a time so far ahead that only a clock which was set back explains it.
    pub(super) fn is_misdated(&self, job: &Job) -> bool {
        let longest = match (&job.phase, &job.spec) {
            (Phase::Queued { waits: Waits::Slot }, _) => 0,
            (Phase::Backoff { .. }, Some(spec)) => spec.retry.backoff_max_ms,
            _ => return false,
        };
        let latest = self.hosts[0].wall(self.now()).plus_ms(longest + AHEAD_MAX_MS);
        job.due().is_some_and(|due| due > latest)
    }

    fn is_over_limit(&self, known: &Known) -> bool {
        let Some(attempt) = known.job.open_attempt() else { return false };
        let Some((host, place)) = self.place_of(known.job.id, attempt.no) else { return false };
        let Some(tree) = place.tree.as_ref().filter(|tree| tree.alive) else { return false };
        let now = self.now();
        let limits = &known.job.limits;
        limits.get(Limit::Wall).is_some_and(|ms| {
            // What its keepers saw of attempts before counts, too; what only the log says is less than that.
            let age = tree.age(self.hosts[host].awake(now));
            age + known.job.ran_ms > ms
        })
            || limits.get(Limit::Output).is_some_and(|bytes| tree.written(now) > bytes)
            // It is looked at eight times within that, and begins anew with another engine.
            || limits.get(Limit::Stall).is_some_and(|ms| now > tree.silent_since(now) + ms + ms / 4)
    }

    fn is_dead_unheard(&self, known: &Known) -> bool {
        let open = known.job.open_attempt().filter(|attempt| attempt.tree.is_some());
        let place = open.and_then(|attempt| self.place_of(known.job.id, attempt.no));
        place.is_some_and(|(_, place)| place.gone_at().is_some())
    }

    /// Reports whether an attempt that its keeper was told to stop was the last, and ended for that reason or by itself.
    fn is_obeyed(&self, job: JobId, attempt: AttemptNo) -> bool {
        let known = &self.witness[&job].known.job;
        let Some(end) = known.attempts.iter().find(|at| at.no == attempt).and_then(|at| at.end.as_ref())
        else {
            return false;
        };
        // The death of both keepers or of the machine takes what they held along.
        let is_told = matches!(end.receipt.proof, Proof::NoChildren) && !known.abandoned;
        let is_last = known.attempts.last().is_some_and(|last| last.no == attempt);
        let is_stopped = matches!(end.outcome, Outcome::Cancelled(_)) || end.receipt.exited_first;
        !is_told || is_last && (is_stopped || known.stop.is_some() || end.receipt.keeper_stop.is_some())
    }

    /// Everything has ended: what must hold now.
    pub(super) fn last_look(&mut self) {
        let planned = self.plan.early.iter().chain(&self.plan.late);
        let missing = planned.filter(|planned| {
            let mut after = planned.spec.after.iter();
            !self.witness.contains_key(&planned.id) && !after.any(|other| self.never_comes(other.job))
        });
        let missing: Vec<JobId> = missing.map(|planned| planned.id).collect();
        for job in missing {
            self.fail("a submitted job is missing", |world| world.name(job));
        }
        let held = std::mem::take(&mut self.held_stops);
        for (job, attempt) in held {
            if self.is_obeyed(job, attempt) {
                continue;
            }
            self.fail("a stop that a keeper held was forgotten", |world| {
                format!("attempt {attempt} of {}", world.name(job))
            });
        }
        let judgement =
            self.witness.values().try_for_each(|watched| watched.known.check_nothing_lives(&self.places));
        self.judge(judgement);
    }
}
