//! Bugs on purpose: switches by which the proof breaks one rule at a time.
//!
//! Without the feature `seeded` every switch is a constant `false` and the compiler removes it. With it, one
//! bug at a time can be on for the whole process. `cargo xtask bugs` turns each on and expects to be caught.

/// Names bugs, and makes a switch for them: `Bug`, `on` and, with the feature `seeded` of the crate that calls it, `switch`.
#[macro_export]
macro_rules! bugs {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// A rule that can be broken.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Bug {
            $($(#[$doc])* $name,)*
        }

        impl Bug {
            /// Every bug.
            pub const ALL: &'static [Bug] = &[$(Bug::$name),*];

            /// Returns the bug's name on the command line.
            pub fn name(self) -> &'static str {
                match self { $(Bug::$name => $text,)* }
            }
        }

        /// Reports whether a bug is switched on.
        #[cfg(not(feature = "seeded"))]
        #[inline(always)]
        pub const fn on(_: Bug) -> bool {
            false
        }

        #[cfg(feature = "seeded")]
        mod switch {
            use std::sync::atomic::{AtomicU8, Ordering};

            use super::Bug;

            /// The bug that is on, by its number plus one; zero is none.
            static ON: AtomicU8 = AtomicU8::new(0);

            /// Reports whether a bug is switched on.
            #[inline]
            pub fn on(bug: Bug) -> bool {
                ON.load(Ordering::Relaxed) == bug as u8 + 1
            }

            /// Switches one bug on, or all off, for the whole process and what it forks.
            pub fn switch(bug: Option<Bug>) {
                ON.store(bug.map_or(0, |bug| bug as u8 + 1), Ordering::Relaxed);
            }
        }

        #[cfg(feature = "seeded")]
        pub use switch::{on, switch};
    };
}

crate::bugs! {
    /// The store does not compare the fence.
    NoFence = "no-fence",
    /// The store does not compare the version.
    NoVersionCheck = "no-version-check",
    /// A store acknowledges before it has synced.
    AckBeforeSync = "ack-before-sync",
    /// A store takes a torn record for a whole one.
    TornAccepted = "torn-accepted",
    /// A repeated append is written twice.
    AppendTwice = "append-twice",
    /// Two owners get the same ready job.
    ClaimTwice = "claim-twice",
    /// A lease that has not run out is taken over.
    TakeOverLive = "take-over-live",
    /// A new life of an owner is taken for the end of its old lease, trees included.
    NewLifeEndsTrees = "new-life-ends-trees",
    /// An owner ends the attempt when it has signalled, not when the tree is gone.
    LastWordBeforeEmpty = "last-word-before-empty",
    /// A cancel ends a running job at once.
    CancelReportedEarly = "cancel-reported-early",
    /// A new owner launches without looking for the old tree.
    LaunchWithoutLooking = "launch-without-looking",
    /// A cancelled job is launched all the same.
    CancelForgotten = "cancel-forgotten",
    /// What nobody can account for is called failed.
    LostIsFailed = "lost-is-failed",
    /// The last word changes once more.
    EndedNotAbsorbing = "ended-not-absorbing",
    /// A limit that fired is forgiven when it is raised.
    RaisedLimitForgives = "raised-limit-forgives",
    /// A limit is not looked at while the agent says nothing.
    LimitSleeps = "limit-sleeps",
    /// News that could not be read are not asked for again.
    NewsForgotten = "news-forgotten",
    /// A session that went inactive keeps its turn.
    InactiveSessionKeepsTurn = "inactive-session-keeps-turn",
    /// A turn that was cancelled changes the conversation.
    CancelledTurnCommits = "cancelled-turn-commits",
    /// A replayed recording is heard twice.
    HeardTwice = "heard-twice",
    /// A fenced owner goes on with its effects.
    FencedGoesOn = "fenced-goes-on",
    /// A cancel is recorded as a limit.
    CauseMixedUp = "cause-mixed-up",
    /// A job is tried again although it was cancelled.
    RetryAfterCancel = "retry-after-cancel",
    /// The feed over all jobs orders by a counter and skips what commits late.
    FeedSkipsLate = "feed-skips-late",
}
