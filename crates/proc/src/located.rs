//! What can have become of an attempt.

use lastword_core::receipt::Level;

use crate::exit_record::ExitRecord;
use crate::identity::Identity;

/// What became of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Located {
    /// Its keeper is alive.
    Alive(Alive),
    /// It ended, and its keeper recorded how.
    Ended(Box<ExitRecord>),
    /// Nothing was started, and nothing can be any more.
    NeverStarted,
    /// It was started in an earlier boot; all its processes are dead.
    OtherBoot,
    /// Its keeper died without a record. Everything that was found was killed.
    Vanished(Box<ExitRecord>),
}

/// An attempt with a living keeper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alive {
    /// The guard.
    pub guard: Identity,
    /// The leader and its containment level, once it was released.
    pub leader: Option<(Identity, Level)>,
    /// When it was launched, in milliseconds of the awake clock.
    pub launched: Option<u64>,
    /// What of its attributes could not be given to it, for people.
    pub withheld: Option<String>,
}
