//! Speaking to a keeper: stop, deadline, input.

use lastword_core::effects::Effect;
use lastword_core::limits::{Limit, SETTINGS};
use lastword_core::outcome::Cause;
use lastword_core::{AttemptNo, InputNo};
use lastword_proc::{Error, Keeper, Stop};

use super::{Kept, Order};
use crate::shared::lock;

impl Kept {
    /// Says what an effect asks for. A keeper that is gone cannot be told anything: until whoever watches has found that out, it
    /// is tried again.
    pub(super) fn speak(&self, order: &Order) -> Result<(), String> {
        match &order.effect {
            Effect::Stop { attempt, cause, force } => self.say(order, *attempt, |keeper| {
                let stop = Stop { cause: word(*cause), force: *force, local: order.local, term_ms: None };
                keeper.stop(stop).map(drop)
            }),
            Effect::Deadline { attempt, .. } => self.tell_deadline(order, *attempt),
            Effect::Tell { attempt, input } => {
                self.say(order, *attempt, |keeper| tell(order, *input, keeper))
            }
            Effect::Interrupt { attempt, .. } => self.say(order, *attempt, Keeper::interrupt),
            Effect::Close { attempt } => self.say(order, *attempt, Keeper::close_input),
            // These are not said to a keeper.
            Effect::Launch { .. } | Effect::Locate { .. } | Effect::Watch { .. } => Ok(()),
        }
    }

    /// Tells a keeper its deadline, unless it knows: most have none. One at a time, and each the newest, so that an earlier wish
    /// that was held up does not undo a later one.
    fn tell_deadline(&self, order: &Order, attempt: AttemptNo) -> Result<(), String> {
        let Some(deadline) = self.0.lines.deadline(order.job.id, attempt) else { return Ok(()) };
        let mut told = lock(&deadline.told);
        let wanted = *lock(&deadline.wanted);
        if *told != Some(wanted) {
            *told = None;
            self.say(order, attempt, |keeper| keeper.deadline(wanted))?;
            *told = Some(wanted);
        }
        Ok(())
    }

    fn say(
        &self,
        order: &Order,
        attempt: AttemptNo,
        words: impl FnOnce(&mut Keeper) -> Result<(), Error>,
    ) -> Result<(), String> {
        let keeper = Keeper::connect(&self.dir(order.job.id, attempt), order.epoch.0.into());
        match keeper.and_then(|mut keeper| words(&mut keeper)) {
            // A later owner speaks to it: it is not for us to say anything.
            Ok(()) | Err(Error::Stale(_)) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Sends an input, and all before it that are not delivered: a keeper ignores what it has, and takes nothing that comes after a
/// later one. That it was read is said on the line of whoever watches.
fn tell(order: &Order, upto: InputNo, keeper: &mut Keeper) -> Result<(), Error> {
    for input in order.job.inputs.iter().filter(|input| input.no <= upto) {
        keeper.input(input.no.0.into(), input.text.as_bytes())?;
        if input.eof {
            keeper.close_input()?;
        }
    }
    Ok(())
}

/// Returns the word by which a keeper notes a cause, if it must remember it by itself.
fn word(cause: Cause) -> &'static str {
    let name = |limit: Limit| SETTINGS.iter().find(|(known, _)| *known == limit).map(|(_, name)| *name);
    match cause {
        Cause::Limit(limit) => name(limit).unwrap_or("cancel"),
        _ => "cancel",
    }
}
