//! A process that owns jobs, and what it has in memory.

use std::sync::Arc;

use lastword_core::decide::claim::Claimant;
use lastword_core::effects::Effect;
use lastword_core::life::Watch;
use lastword_core::owner::Owner;
use lastword_core::{Epoch, HostId, Incarnation, OwnerId};

use lastword_store::Instance;

use crate::world::place::Key;

/// Which hold of a job: an owner's life and its claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) process: usize,
    pub(super) life: u32,
    pub(super) job: usize,
    /// Two claims of a job have one epoch if the first is lost.
    pub(super) incarnation: Incarnation,
    pub(super) epoch: Epoch,
}

/// An effect on its way to a keeper.
pub(super) struct Errand {
    pub(super) hold: Hold,
    pub(super) effect: Effect,
    /// The life under whose lease it was decided.
    pub(super) under: Incarnation,
    /// Whether the sender was already told that nothing is known about it.
    pub(super) given_up: bool,
}

/// A process that owns jobs.
pub(super) struct Process {
    pub(super) name: OwnerId,
    /// On which host.
    pub(super) host: usize,
    pub(super) host_id: HostId,
    pub(super) up: bool,
    /// Counts its lives.
    pub(super) life: u32,
    pub(super) incarnation: Option<Incarnation>,
    /// It stands still until then.
    pub(super) paused_until: u64,
    /// It does not reach the journal until then.
    pub(super) cut_until: u64,
    pub(super) hands: Vec<Hand>,
    /// Claims of this life that were seen, so that none is taken up twice.
    pub(super) seen: Vec<Hold>,
    /// When the lease of its life runs out.
    pub(super) deadline: u64,
    /// What it has seen of the lives of others.
    pub(super) watch: Watch,
    /// The pause of the journal, and since when it has seen it.
    pub(super) pause: Option<(Instance, u64)>,
    /// The call that is not answered, and when it was sent.
    pub(super) calling: Option<(u64, u64)>,
    pub(super) claims: u32,
}

/// A job it holds, or held a moment ago.
pub(super) struct Hand {
    pub(super) hold: Hold,
    pub(super) owner: Owner,
    /// The call that is not answered; zero is none.
    pub(super) call: u64,
    /// How far it has read in the recording of a place, once it watches one.
    pub(super) watch: Option<(Key, usize)>,
    /// Whether it is about to read on.
    pub(super) listens: bool,
    /// Beats since it let go.
    pub(super) idle: u32,
}

impl Process {
    pub(super) fn new(no: usize, host: usize) -> Process {
        Process {
            name: OwnerId(Arc::from(["w0", "w1", "w2"][no])),
            host,
            host_id: HostId(Arc::from(["h0", "h1"][host])),
            up: false,
            life: 0,
            incarnation: None,
            paused_until: 0,
            cut_until: 0,
            hands: Vec::new(),
            seen: Vec::new(),
            deadline: 0,
            watch: Watch::default(),
            pause: None,
            calling: None,
            claims: 0,
        }
    }

    /// Returns the claimant of this life. Every other claim also intends a launch, as the engine's claims do.
    pub(super) fn claimant(&self, boot: &str) -> Option<Claimant> {
        let incarnation = self.incarnation?;
        let boot = self.claims.is_multiple_of(2).then(|| boot.into());
        Some(Claimant { owner: self.name.clone(), incarnation, host: self.host_id.clone(), boot })
    }

    /// Returns the hand of a hold, if this life still has it.
    pub(super) fn hand(&mut self, hold: Hold) -> Option<&mut Hand> {
        let alive = self.up && self.life == hold.life;
        self.hands.iter_mut().find(|hand| alive && hand.hold == hold)
    }

    /// Dies, with everything it had in memory.
    pub(super) fn crash(&mut self) {
        self.up = false;
        self.life += 1;
        self.hands.clear();
        self.seen.clear();
        self.incarnation = None;
        self.calling = None;
        self.watch = Watch::default();
        self.pause = None;
        self.paused_until = 0;
    }
}
