//! The keeper itself, driven as a daemon would drive it.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use lastword_proc::{
    Error, Identity, Keep, Keeper, Launch, Launched, Located, Nursery, Stop, boot_id, locate_known,
};

use super::order::{Done, Order, Tried, Victim, name_of};
use crate::clock;
use crate::place::Programs;

/// How long a keeper may take until it accepts a connection. Only a keeper that died takes this long.
const LISTENING: Duration = Duration::from_secs(5);

/// Bytes of output that are kept, at either end: what is said is of no interest here.
const OUTPUT_BYTES: u64 = 64 << 10;

/// The keeper, on trial.
pub(crate) struct Kept {
    nursery: Nursery,
    programs: Programs,
    /// Trees may gain privileges, and are not kept from setting limits of others.
    is_unfenced: bool,
}

impl Kept {
    /// Starts a nursery of the executable that ships.
    pub(crate) fn start(programs: Programs) -> Result<Kept, String> {
        let nursery = Nursery::start(&programs.lastword).map_err(|error| error.to_string())?;
        for (level, found) in nursery.findings() {
            if let Err(why) = found {
                eprintln!("no level {} here: {why}", name_of(*level));
            }
        }
        Ok(Kept { nursery, programs, is_unfenced: false })
    }

    /// Takes a guard away.
    pub(crate) fn without_fence(self) -> Kept {
        Kept { is_unfenced: true, ..self }
    }

    fn launch(&self, order: &Order) -> Launch {
        let (kind, new_privileges) = match order.adversary.as_str() {
            "setuid-allowed" => ("setuid", true),
            kind => (kind, self.is_unfenced),
        };
        let mut words: Vec<OsString> = vec![self.programs.adversary.clone().into(), kind.into()];
        words.push(order.canary.clone().into());
        words.extend(order.outside.iter().map(OsString::from));
        let caps = Keep::Caps { head: OUTPUT_BYTES, tail: OUTPUT_BYTES };
        let stdout = match kind {
            // The spool has no reader, so that its writers do block.
            "blocked-writers" => Keep::Spool { ahead_max: OUTPUT_BYTES },
            _ => caps,
        };
        let plain = Launch::new(&order.folder, words);
        Launch { at_most: order.level, stdout, stderr: caps, new_privileges, ..plain }
    }

    /// Launches, and stops as soon as the keeper listens, often before the program runs.
    fn stop_at_once(&self, order: &Order) -> Result<Done, String> {
        let pending = self.nursery.send(&self.launch(order)).map_err(|error| error.to_string())?;
        // A folder that is gone was deleted by a program that already runs.
        let connect = || match Keeper::connect(&order.folder, 0) {
            Err(_) if order.folder.exists() => None,
            connected => Some(connected.ok()),
        };
        let connected = clock::until(LISTENING, Duration::from_micros(20), connect);
        let sent = match connected.ok_or("no keeper listens in the folder")? {
            Some(mut keeper) => Some(stop(&mut keeper, order)?),
            None => None,
        };
        let launched = match pending.wait(&order.folder) {
            Ok(launched) => Some(launched),
            // It was stopped before its program ran.
            Err(Error::Refused(_) | Error::Unclear(_)) => None,
            Err(error) => return Err(error.to_string()),
        };
        let sent_ns = match (sent, &launched) {
            (None, Some(launched)) => match connect_again(launched, order) {
                Some(mut keeper) => stop(&mut keeper, order)?,
                None => None,
            },
            (sent, _) => sent.flatten(),
        };
        Ok(Done { sent_ns, keepers: launched.iter().flat_map(keepers).collect(), trouble: None })
    }

    fn stop_later(&self, order: &Order) -> Result<Done, String> {
        let launched = self.nursery.launch(&self.launch(order)).map_err(|error| error.to_string())?;
        let begun = Instant::now();
        let keepers = keepers(&launched);
        let connected = Keeper::connect(&order.folder, 0).ok().or_else(|| connect_again(&launched, order));
        let sent_ns = match connected {
            Some(mut keeper) => {
                clock::rest(order.moment.saturating_sub(begun.elapsed()));
                end(&mut keeper, &launched, order)?
            }
            // It has ended by itself, or there will be no last word: the judge sees which.
            None => None,
        };
        Ok(Done { sent_ns, keepers, trouble: None })
    }
}

impl Tried for Kept {
    fn greeting(&self) -> String {
        let levels: Vec<&str> = self.nursery.levels().into_iter().map(name_of).collect();
        format!("{} {}", self.nursery.pid(), levels.join(" "))
    }

    fn try_one(&self, order: &Order) -> Result<Done, String> {
        // Before the launch there is no victim to kill yet.
        match order.moment.is_zero() && order.victim == Victim::None {
            true => self.stop_at_once(order),
            false => self.stop_later(order),
        }
    }
}

/// Connects to the keeper of a tree whose folder is gone, as the next daemon would: it knows the leader, and repeats what fails.
fn connect_again(launched: &Launched, order: &Order) -> Option<Keeper> {
    let connect = || match locate_known(&order.folder, boot_id(), Some(&launched.leader)) {
        Ok(Located::Alive(_)) => Keeper::connect(&order.folder, 0).ok().map(Some),
        Ok(_) => Some(None),
        Err(_) => None,
    };
    clock::until(LISTENING, Duration::from_millis(1), connect).flatten()
}

/// Sends the stop and returns when. A keeper that has just gone has said its last word, or will be missed by the judge.
fn stop(keeper: &mut Keeper, order: &Order) -> Result<Option<u64>, String> {
    let sent = clock::boot_ns();
    match keeper.stop(Stop { cause: "user", force: true, ..Stop::default() }) {
        Ok(_) => Ok(Some(sent)),
        Err(Error::NoKeeper(_)) => Ok(None),
        Err(error) => Err(format!("{}: {error}", order.folder.display())),
    }
}

/// Does what the trial is about at its moment, and returns when.
fn end(keeper: &mut Keeper, launched: &Launched, order: &Order) -> Result<Option<u64>, String> {
    let kill = |who: &Identity| who.signal(rustix::process::Signal::KILL).map_err(|error| error.to_string());
    match order.victim {
        Victim::None => stop(keeper, order),
        Victim::Guard => {
            kill(&launched.guard)?;
            stop(keeper, order)
        }
        Victim::Shim => {
            let sent = clock::boot_ns();
            Ok(kill(&launched.shim)?.then_some(sent))
        }
    }
}

fn keepers(launched: &Launched) -> Vec<i32> {
    vec![launched.guard.pid, launched.shim.pid]
}
