//! Speaking to a keeper: stop, deadline, input. All of it goes over the one line that whoever watches holds open, in the order in
//! which it is said, and nobody waits on a thread for an answer.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use lastword_core::effects::Effect;
use lastword_core::limits::{Limit, SETTINGS};
use lastword_core::outcome::Cause;
use lastword_core::receipt::Rung;
use lastword_core::report::Report;
use lastword_core::{AttemptNo, Awake, InputNo, Job};
use lastword_proc::{Error, KeeperCommand, Line, Stop};
use tokio::sync::{Notify, oneshot};
use tokio::time::{sleep, timeout};

use super::{Kept, Order, Reports};
use crate::shared::lock;

/// How long a keeper may take to answer. It is one thread that never waits for anybody; longer, and it is stopped or dead.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(10);

/// How long an agent may take to go once it was told that there is nothing more.
const CLOSED_MAX: Duration = Duration::from_secs(10);

/// Why nothing can be said.
const NO_KEEPER: &str = "it has no keeper that could be told";

/// What is to be said to one keeper.
#[derive(Debug, Default)]
pub(super) struct Said {
    asks: Mutex<VecDeque<Ask>>,
    pub(super) came: Notify,
}

/// Something to be said, and where its answer goes.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) bytes: Vec<u8>,
    pub(super) answer: oneshot::Sender<Result<Line, Error>>,
}

impl Said {
    /// Adds something; the answer comes when somebody has said it.
    pub(super) fn add(&self, bytes: Vec<u8>) -> oneshot::Receiver<Result<Line, Error>> {
        let (answer, answered) = oneshot::channel();
        lock(&self.asks).push_back(Ask { bytes, answer });
        self.came.notify_one();
        answered
    }

    /// Takes what is next. What nobody waits for any more is not said: it is asked for again.
    pub(super) fn next(&self) -> Option<Ask> {
        let mut asks = lock(&self.asks);
        while let Some(ask) = asks.pop_front() {
            if !ask.answer.is_closed() {
                return Some(ask);
            }
        }
        None
    }
}

impl Kept {
    /// Says what an effect asks for. A keeper that is gone cannot be told anything: until whoever watches has found that out, it
    /// is tried again.
    pub(super) async fn speak(&self, order: Order, reports: &Reports) -> Result<(), String> {
        if order.job.reports_turns() {
            return self.speak_to_agent(order, reports).await;
        }
        self.speak_to_keeper(order).await
    }

    async fn speak_to_keeper(&self, order: Order) -> Result<(), String> {
        match order.effect {
            Effect::Stop { attempt, cause, force } => {
                let stop = Stop { cause: word(cause), force, local: order.local, term_ms: None };
                self.say(&order, attempt, KeeperCommand::Stop(stop)).await
            }
            Effect::Deadline { attempt, at } => {
                let at = at.map(|Awake(ms)| ms);
                if self.0.lines.has_deadline(order.job.id, attempt, at) {
                    return Ok(());
                }
                self.0.lines.forget_deadline(order.job.id, attempt);
                self.say(&order, attempt, KeeperCommand::Deadline(at)).await
            }
            Effect::Tell { attempt, input } => self.tell(&order, attempt, input).await,
            Effect::Interrupt { attempt, .. } => self.say(&order, attempt, KeeperCommand::Interrupt).await,
            Effect::Close { attempt } => self.say(&order, attempt, KeeperCommand::Close).await,
            Effect::Hold { attempt, still } => self.say(&order, attempt, KeeperCommand::Freeze(still)).await,
            // These are not said to a keeper.
            Effect::Launch { .. } | Effect::Locate { .. } | Effect::Watch { .. } => Ok(()),
        }
    }

    /// The same, for an agent: what it can be told in its own way, it is.
    async fn speak_to_agent(&self, order: Order, reports: &Reports) -> Result<(), String> {
        let id = order.job.id;
        let wishes = |attempt| self.0.lines.talk(id, attempt).map(|(_, wishes)| wishes);
        let gone = || NO_KEEPER.to_owned();
        match order.effect {
            Effect::Tell { attempt, .. } => {
                let inputs = order.job.inputs_due().cloned().collect();
                wishes(attempt).ok_or_else(gone)?.want(|wanted| wanted.inputs = inputs);
                Ok(())
            }
            Effect::Interrupt { attempt, turn } => {
                wishes(attempt).ok_or_else(gone)?.want(|wanted| wanted.interrupt = Some(turn));
                Ok(())
            }
            // Who holds still can end nothing by itself, and who hears nothing neither.
            Effect::Stop { attempt, force: false, .. }
                if !order.local && order.job.pause.is_none() && !is_deaf(&order.job) =>
            {
                let grace = order.job.spec.as_ref().map_or(0, |spec| spec.ladder.interrupt_ms);
                if let Some(wishes) = wishes(attempt) {
                    wishes.want(|wanted| wanted.stop = true);
                    if order.job.active_turn().is_some() {
                        reports.report(Report::Climbed { attempt, rung: Rung::Interrupt, alive: 1 }).await;
                    }
                    // It ends its turn by itself, or it does not.
                    let _ = timeout(Duration::from_millis(grace), wishes.until_quiet()).await;
                }
                self.speak_to_keeper(order).await
            }
            Effect::Close { attempt } => {
                self.say(&order, attempt, KeeperCommand::Close).await?;
                sleep(CLOSED_MAX).await;
                // It has done its work, and does not go: that is no failure of it, and no reason to wait.
                let stop = Stop { cause: "cancel", ..Stop::default() };
                let _ = self.say(&order, attempt, KeeperCommand::Stop(stop)).await;
                Ok(())
            }
            _ => self.speak_to_keeper(order).await,
        }
    }

    /// Sends an input, and all before it that are not delivered: a keeper ignores what it has, and takes nothing that comes after
    /// a later one. That it was read is heard by whoever watches.
    async fn tell(&self, order: &Order, attempt: AttemptNo, upto: InputNo) -> Result<(), String> {
        for input in order.job.inputs.iter().filter(|input| input.no <= upto) {
            let bytes = input.text.as_bytes();
            self.say(order, attempt, KeeperCommand::Input { no: input.no.0.into(), bytes }).await?;
        }
        Ok(())
    }

    async fn say(&self, order: &Order, attempt: AttemptNo, saying: KeeperCommand<'_>) -> Result<(), String> {
        let Some(said) = self.0.lines.said(order.job.id, attempt) else {
            return Err(NO_KEEPER.to_owned());
        };
        let answer = said.add(saying.encode(order.epoch.0.into()));
        match timeout(ANSWER_MAX, answer).await {
            Err(_) => Err("its keeper does not answer".to_owned()),
            Ok(Err(_)) => Err("its keeper went away before it answered".to_owned()),
            // A later owner speaks to it: it is not for us to say anything.
            Ok(Ok(Ok(_) | Err(Error::Stale(_)))) => Ok(()),
            Ok(Ok(Err(error))) => Err(error.to_string()),
        }
    }
}

fn is_deaf(job: &Job) -> bool {
    job.spec.as_ref().is_some_and(|spec| spec.work.is_one_shot())
}

/// Returns the word by which a keeper notes a cause, if it must remember it by itself.
fn word(cause: Cause) -> &'static str {
    let name = |limit: Limit| SETTINGS.iter().find(|(known, _)| *known == limit).map(|(_, name)| *name);
    match cause {
        Cause::Limit(limit) => name(limit).unwrap_or("cancel"),
        _ => "cancel",
    }
}
