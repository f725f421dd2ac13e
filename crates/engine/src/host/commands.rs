//! Commands to a keeper: stop, deadline, input. They go over the one connection that the watch holds open, in the order in which they are
//! given, and no thread waits for an answer.

use std::time::Duration;

use lastword_core::effects::Effect;
use lastword_core::limits::{Limit, SETTINGS};
use lastword_core::outcome::Cause;
use lastword_core::receipt::Rung;
use lastword_core::report::Report;
use lastword_core::{AttemptNo, Awake, InputNo, Job};
use lastword_proc::{Error, KeeperCommand, Line, Stop};
use tokio::time::{sleep, timeout};

use super::connection::ANSWER_MAX;
use super::local::LocalHost;
use super::traits::Order;
use crate::mailbox::Reports;

/// How long an agent may take to exit after its input was closed.
const CLOSED_MAX: Duration = Duration::from_secs(10);

/// The error while there is no keeper to command.
const NO_KEEPER: &str = "its keeper is not there";

impl LocalHost {
    /// Carries out an effect by a command. With the keeper gone this fails, and is tried again until the watch has found that out.
    pub(super) async fn command(&self, order: Order, reports: &Reports) -> Result<(), String> {
        if order.job.reports_turns() {
            return self.command_agent(order, reports).await;
        }
        self.command_keeper(order).await
    }

    /// Has a keeper note a stop and carry it out. Returns whether the note is on disk.
    pub(super) async fn hold_stop(&self, order: Order) -> Result<bool, String> {
        let Effect::Stop { attempt, cause, force } = order.effect else {
            return Err("only a stop can be held".to_owned());
        };
        match self.ask(&order, attempt, stop(cause, force, true)).await? {
            Some(answer) => Ok(answer.get::<u8>("durable") == Some(1)),
            None => Err("another owner commands its keeper".to_owned()),
        }
    }

    async fn command_keeper(&self, order: Order) -> Result<(), String> {
        match order.effect {
            Effect::Stop { attempt, cause, force } => {
                self.send(&order, attempt, stop(cause, force, order.local)).await
            }
            Effect::Deadline { attempt, at } => {
                let at = at.map(|Awake(ms)| ms);
                if self.0.keepers.has_deadline(order.job.id, attempt, at) {
                    return Ok(());
                }
                self.0.keepers.forget_deadline(order.job.id, attempt);
                self.send(&order, attempt, KeeperCommand::Deadline(at)).await
            }
            Effect::Tell { attempt, input } => self.send_inputs(&order, attempt, input).await,
            Effect::Interrupt { attempt, .. } => self.send(&order, attempt, KeeperCommand::Interrupt).await,
            Effect::Close { attempt } => self.send(&order, attempt, KeeperCommand::Close).await,
            Effect::Hold { attempt, still } => self.send(&order, attempt, KeeperCommand::Freeze(still)).await,
            // These are not commands.
            Effect::Launch { .. } | Effect::Locate { .. } | Effect::Watch { .. } => Ok(()),
        }
    }

    /// The same for an agent. Inputs, interrupts and the first rung of a stop go through its own protocol, as goals of its session.
    async fn command_agent(&self, order: Order, reports: &Reports) -> Result<(), String> {
        let id = order.job.id;
        let goals = |attempt| self.0.keepers.agent(id, attempt).map(|(_, goals)| goals);
        let gone = || NO_KEEPER.to_owned();
        match order.effect {
            Effect::Tell { attempt, .. } => {
                let mut inputs: Vec<_> = order.job.inputs_due().cloned().collect();
                // Without a turn to steer, each of them begins one.
                let steers = order.job.active_turn().is_some();
                inputs.iter_mut().for_each(|input| input.steer &= steers);
                goals(attempt).ok_or_else(gone)?.set(|goals| goals.inputs = inputs);
                Ok(())
            }
            Effect::Interrupt { attempt, turn } => {
                goals(attempt).ok_or_else(gone)?.set(|goals| goals.interrupt = Some(turn));
                Ok(())
            }
            // A frozen tree cannot react and a one-shot agent reads no input: skip the interrupt.
            Effect::Stop { attempt, force: false, .. }
                if !order.local && order.job.pause.is_none() && !is_one_shot(&order.job) =>
            {
                let grace = order.job.spec.as_ref().map_or(0, |spec| spec.ladder.interrupt_ms);
                if let Some(goals) = goals(attempt) {
                    goals.set(|goals| goals.stop = true);
                    if order.job.active_turn().is_some() {
                        reports.report(Report::Climbed { attempt, rung: Rung::Interrupt, alive: 1 }).await;
                    }
                    // Quiet or not, the keeper stops the tree next.
                    let _ = timeout(Duration::from_millis(grace), goals.until_quiet()).await;
                }
                self.command_keeper(order).await
            }
            Effect::Close { attempt } => {
                self.send(&order, attempt, KeeperCommand::Close).await?;
                sleep(CLOSED_MAX).await;
                // Its work is done and it does not exit: end it without calling that a failure.
                let stop = Stop { cause: "cancel", ..Stop::default() };
                let _ = self.send(&order, attempt, KeeperCommand::Stop(stop)).await;
                Ok(())
            }
            _ => self.command_keeper(order).await,
        }
    }

    /// Sends an input, and every undelivered one before it: a keeper ignores an input it has, and takes none out of order. The watch
    /// reports the delivery.
    async fn send_inputs(&self, order: &Order, attempt: AttemptNo, upto: InputNo) -> Result<(), String> {
        for input in order.job.inputs.iter().filter(|input| input.no <= upto) {
            let bytes = input.text.as_bytes();
            self.send(order, attempt, KeeperCommand::Input { no: input.no.0.into(), bytes }).await?;
        }
        Ok(())
    }

    async fn send(
        &self,
        order: &Order,
        attempt: AttemptNo,
        command: KeeperCommand<'_>,
    ) -> Result<(), String> {
        self.ask(order, attempt, command).await.map(drop)
    }

    /// Sends a command and returns the keeper's answer; none, if the order is void.
    async fn ask(
        &self,
        order: &Order,
        attempt: AttemptNo,
        command: KeeperCommand<'_>,
    ) -> Result<Option<Line>, String> {
        let Some(outbox) = self.0.keepers.outbox(order.job.id, attempt) else {
            return Err(NO_KEEPER.to_owned());
        };
        let answer = outbox.add(command.encode(order.epoch.0.into()));
        match timeout(ANSWER_MAX, answer).await {
            Err(_) => Err("its keeper does not answer".to_owned()),
            Ok(Err(_)) => Err("its keeper exited before it answered".to_owned()),
            Ok(Ok(Ok(line))) => Ok(Some(line)),
            // A later owner commands it.
            Ok(Ok(Err(Error::Stale(_)))) => Ok(None),
            Ok(Ok(Err(error))) => Err(error.to_string()),
        }
    }
}

fn is_one_shot(job: &Job) -> bool {
    job.spec.as_ref().is_some_and(|spec| spec.work.is_one_shot())
}

/// Returns the command to stop a tree. A `local` one is not in the journal: the keeper notes it and its receipt says so.
fn stop(cause: Cause, force: bool, local: bool) -> KeeperCommand<'static> {
    KeeperCommand::Stop(Stop { cause: cause_name(cause), force, local, term_ms: None })
}

/// Returns the name under which a keeper records a cause while the journal is unavailable.
fn cause_name(cause: Cause) -> &'static str {
    let name = |limit: Limit| SETTINGS.iter().find(|(known, _)| *known == limit).map(|(_, name)| *name);
    match cause {
        Cause::Limit(limit) => name(limit).unwrap_or("cancel"),
        _ => "cancel",
    }
}
