//! Guards that can be taken away.

/// A guard that is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bug {
    /// Whoever reaches the socket is answered as the user.
    AnybodyIsAnswered,
    /// A job may signal whom its user may.
    JobsAreNotScoped,
    /// The memory of one who holds a job can be read.
    KeeperIsOpen,
    /// A secret is handed on as an argument.
    SecretOnCommandLine,
    /// What a job writes reaches a terminal as it is.
    TerminalIsRaw,
    /// All that a job writes is kept.
    OutputHasNoCap,
}
