//! Bugs on purpose: switches by which the proof breaks one rule of the engine at a time.
//!
//! Without the feature `seeded` every switch is a constant `false` and the compiler removes it; what ships is built without.

lastword_core::bugs! {
    /// Nobody waits until what an earlier life left was looked for.
    LookForgotten = "look-forgotten",
    /// A read does not wait for deaths that have happened.
    ReadUnsettled = "read-unsettled",
    /// A job that an earlier life held is vouched for although it could not be taken over.
    StrangerVouchedFor = "stranger-vouched-for",
    /// Who waits for a job is not told of its end.
    DependentsUntold = "dependents-untold",
    /// Who waits for news of a job is not woken.
    WaiterForgotten = "waiter-forgotten",
    /// The task of a job is not told that somebody has written to it.
    NudgeLost = "nudge-lost",
    /// A request whose answer was lost is not looked at again.
    DoubtForgotten = "doubt-forgotten",
    /// A job that was taken without our hearing of it gets no task.
    LostClaimForgotten = "lost-claim-forgotten",
    /// One slot too many is counted.
    SlotMiscounted = "slot-miscounted",
    /// A group that was paused is taken from.
    PauseIgnored = "pause-ignored",
    /// What was read of the groups first is noted last.
    GroupsOutOfTurn = "groups-out-of-turn",
    /// The pause before another try is not waited for.
    BackoffIgnored = "backoff-ignored",
    /// The environment of a job is gone after its first try.
    EnvDroppedEarly = "env-dropped-early",
    /// A tree is called silent without a look at what it wrote.
    SilenceUnlooked = "silence-unlooked",
}
