//! One life of an owner: registers, locates what its former life left, and claims jobs when they are due.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use lastword_core::budget::Day;
use lastword_core::{Job, JobId, Timestamp};
use lastword_store::{Error, Store};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

use super::hearing::Hearing;
use super::lives::Watcher;
use super::{Worker, renewal, wind_up};
use crate::Duties;

/// Pause after the journal was unavailable.
const RETRY: Duration = Duration::from_millis(500);

impl<J: Store> Worker<J> {
    /// Spawns its tasks: its life, its renewals, its watch over other lives, its hearing, and the winding up of `ended` jobs.
    pub(crate) fn spawn(self: &Arc<Self>, ended: mpsc::UnboundedReceiver<Job>) -> [AbortHandle; 5] {
        let life = tokio::spawn(Life::new(Arc::clone(self)).run());
        let renewal = tokio::spawn(renewal::run(Arc::clone(self)));
        let watch = tokio::spawn(Watcher::new(Arc::clone(self)).run());
        let hearing = tokio::spawn(Hearing::new(Arc::clone(self)).run());
        let wind_up = tokio::spawn(wind_up::run(Arc::clone(self), ended));
        [life, renewal, watch, hearing, wind_up].map(|task| task.abort_handle())
    }
}

/// Says why a life is over, and what to do.
fn lapsed(has_run_out: bool, is_shared: bool) -> (&'static str, &'static str) {
    match (has_run_out, is_shared) {
        (true, _) => (
            "its lease ran out before it could be renewed, and its trees were ended",
            "look at the connection to the journal, and whether this machine slept",
        ),
        (false, true) => (
            "its life was ended by others, or the database was replaced",
            "look at the connection to the journal, and at its server",
        ),
        (false, false) => (
            "another daemon had taken the lease of this one",
            "only one daemon may use a state folder: look for another one that runs",
        ),
    }
}

/// How much more rarely a worker sweeps that has no jobs. Its server tells it what there is to claim, and a lost connection has it sweep at once;
/// with jobs it also has to notice what their groups have spent.
const IDLE_SWEEPS: u32 = 60;

/// A life, while it runs.
pub(super) struct Life<J> {
    worker: Arc<Worker<J>>,
    /// When the last sweep was, and when the next one is due at the latest.
    swept: Instant,
    sweep_at: Instant,
    /// When jobs that wait for their providers are to be looked at.
    accounts_at: Option<Timestamp>,
    /// The wall clock at the last turn, to notice that it was set back.
    last_turn: Timestamp,
}

impl<J: Store> Life<J> {
    pub(super) fn new(worker: Arc<Worker<J>>) -> Life<J> {
        let now = Instant::now();
        Life { worker, swept: now, sweep_at: now, accounts_at: None, last_turn: Timestamp(0) }
    }

    /// Runs until the engine is dropped or shut down.
    pub(super) async fn run(mut self) {
        while let Err(error) = self.begin().await {
            self.worker.desk.troubles.journal(None, "jobs of the last run cannot be located", &error);
            tokio::time::sleep(RETRY).await;
        }
        self.worker.ready.send_replace(true);
        // What comes due after a shutdown began is for the next life.
        while !self.worker.is_going_down() {
            if let Err(error) = self.turn().await {
                self.worker.desk.troubles.journal(None, "no job can be claimed", &error);
                if matches!(error, Error::Lapsed { .. }) {
                    self.worker.note_lapsed();
                }
                // Never spin on an unavailable journal, whatever is due.
                tokio::time::sleep(RETRY).await;
                self.sweep_at = Instant::now();
                continue;
            }
            // It may have jobs now.
            self.sweep_at = self.sweep_at.min(self.swept + self.sweep_pause());
            let agenda = &self.worker.desk.agenda;
            let due = agenda.due.next().map(|at| self.instant(at));
            let unconfirmed = agenda.unconfirmed.due();
            let accounts = self.accounts_at.map(|at| self.instant(at));
            let next = [Some(self.sweep_at), due, unconfirmed, accounts].into_iter().flatten().min();
            tokio::select! {
                biased;
                () = agenda.woken() => {}
                () = sleep_until(next.unwrap_or(self.sweep_at)) => {}
            }
        }
    }

    /// Registers, and locates everything that the former life held.
    async fn begin(&mut self) -> Result<(), Error> {
        self.worker.renew(None).await?;
        self.worker.desk.read_groups().await?;
        let (pass, mut passed) = mpsc::channel(1);
        let taken = self.worker.take_over(&pass).await;
        drop(pass);
        // Closed when the last of them is located, or cannot be.
        while passed.recv().await.is_some() {}
        match taken {
            Err(error @ Error::Corrupt(_)) => self.not_taken(&error),
            other => other?,
        }
        if self.worker.options.duties.is_clerk() {
            self.worker.desk.check_followed().await?;
            self.worker.desk.read_waits().await?;
        }
        match self.worker.options.duties {
            Duties::All => {
                let live = self.read_live().await?;
                self.worker.desk.check_families().await?;
                self.worker.sweep_worktrees(live.clone());
                self.worker.sweep_envs(live);
            }
            // The jobs of worktrees on this host are looked at one by one: there may be any number of others.
            Duties::Worker => self.worker.sweep_worktrees(HashSet::new()),
            Duties::Clerk => {}
        }
        Ok(())
    }

    /// Begins another life if this one is over, and claims what can be claimed now.
    async fn turn(&mut self) -> Result<(), Error> {
        if self.worker.has_lapsed() {
            self.begin_again().await?;
        }
        let desk = Arc::clone(&self.worker.desk);
        if desk.agenda.take_sweep() {
            self.sweep_at = Instant::now();
        }
        self.reschedule().await?;
        if desk.groups.is_of_another_day(Day::of(desk.now().wall)) {
            desk.read_groups().await?;
        }
        if self.worker.options.duties.is_clerk() {
            self.accounts_at = desk.check_accounts().await;
        }
        let mut groups: BTreeSet<String> = desk.agenda.take_claimable(desk.now().wall);
        if groups.iter().any(|group| self.is_worth_reading(group)) {
            desk.read_groups().await?;
        }
        if Instant::now() >= self.sweep_at {
            self.sweep().await?;
            groups.extend(desk.groups.names());
        }
        for group in groups {
            match self.worker.take(&group).await {
                // A damaged job holds up its own group only.
                Err(error @ Error::Corrupt(_)) => self.not_taken(&error),
                Err(error) => {
                    desk.agenda.claim(&group);
                    return Err(error);
                }
                Ok(()) => {}
            }
        }
        desk.recheck_unconfirmed().await
    }

    /// Returns how long after a sweep the next one is due.
    fn sweep_pause(&self) -> Duration {
        let worker = &self.worker;
        match worker.options.duties == Duties::Worker && worker.desk.agenda.tasks.is_empty() {
            true => worker.options.sweep() * IDLE_SWEEPS,
            false => worker.options.sweep(),
        }
    }

    /// Reports whether a group that has something to claim is not known, or known to be paused: a server tells its workers of groups that are
    /// not, so what this one knows is old.
    fn is_worth_reading(&self, group: &str) -> bool {
        let known = self.worker.desk.groups.get(group);
        known.is_none_or(|known| known.paused && self.worker.options.duties == Duties::Worker)
    }

    /// Checks due times if the clock was set back, or if one was found that is too far ahead.
    async fn reschedule(&mut self) -> Result<(), Error> {
        // Where hosts share a journal, its server's clock says what is due.
        if self.worker.options.duties != Duties::All {
            return Ok(());
        }
        let desk = Arc::clone(&self.worker.desk);
        let now = desk.now().wall;
        let is_set_back = now < std::mem::replace(&mut self.last_turn, now);
        if desk.agenda.take_reschedule() || is_set_back {
            desk.reschedule_all().await.inspect_err(|_| desk.agenda.ask_to_reschedule())?;
        }
        Ok(())
    }

    fn not_taken(&self, error: &Error) {
        self.worker.desk.troubles.journal(None, "some jobs cannot be claimed", error);
    }

    /// Begins another life, which takes over what this one held.
    async fn begin_again(&self) -> Result<(), Error> {
        let (what, next) = lapsed(self.worker.has_run_out(), self.worker.desk.journal.is_shared());
        self.worker.desk.troubles.add(None, what, next);
        self.worker.renew(None).await?;
        self.take_over().await
    }

    /// Takes over what can be taken over. A damaged job holds up no other.
    async fn take_over(&self) -> Result<(), Error> {
        let (pass, _) = mpsc::channel(1);
        match self.worker.take_over(&pass).await {
            Err(error @ Error::Corrupt(_)) => self.not_taken(&error),
            other => other?,
        }
        Ok(())
    }

    /// Repairs what lost hints and crashes leave: jobs of ours without a task, holders that are gone, dependents that were not told, due times
    /// that were not noted.
    async fn sweep(&mut self) -> Result<(), Error> {
        let worker = Arc::clone(&self.worker);
        self.swept = Instant::now();
        self.sweep_at = self.swept + self.sweep_pause();
        worker.desk.read_groups().await?;
        worker.start_held().await?;
        self.take_over().await?;
        if worker.options.duties.is_clerk() {
            worker.desk.tell_waits_over().await?;
            worker.desk.read_waits().await?;
        }
        worker.leave_again();
        if worker.leftovers.take_envs() {
            let live = worker.desk.live_rows().await.inspect_err(|_| worker.leftovers.note_envs())?;
            worker.sweep_envs(live.into_iter().map(|row| row.job).collect());
        }
        Ok(())
    }

    /// Reads when live jobs are due. Returns their ids.
    async fn read_live(&self) -> Result<HashSet<JobId>, Error> {
        let mut live = HashSet::new();
        let desk = &self.worker.desk;
        for row in desk.live_rows().await? {
            live.insert(row.job);
            desk.create_group(&row.group).await?;
            if let Some(due) = row.due {
                desk.agenda.due.add(due, &row.group);
                if due > desk.now().wall {
                    desk.agenda.ask_to_reschedule();
                }
            }
        }
        Ok(live)
    }

    /// Converts a time of the wall clock, as far as it is known now. The sweep corrects it if the clock jumps.
    fn instant(&self, at: Timestamp) -> Instant {
        Instant::now() + Duration::from_millis(at.0.saturating_sub(self.worker.desk.now().wall.0))
    }
}
