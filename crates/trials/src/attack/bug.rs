//! Guards that can be taken away.

/// A guard that is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bug {
    /// Every client that reaches the socket is answered as the user.
    AnybodyIsAnswered,
    /// A job may signal every process that its user may.
    JobsAreNotScoped,
    /// The memory of a keeper can be read.
    KeeperIsOpen,
    /// A secret is handed on as an argument.
    SecretOnCommandLine,
    /// What a job writes reaches a terminal as it is.
    TerminalIsRaw,
    /// All that a job writes is kept.
    OutputHasNoCap,
    /// Every profile of a repository is trusted.
    ProfilesAreTrusted,
    /// Workers speak SQL: what a worker's token opens is the journal itself.
    WorkersSpeakSql,
    /// The files of a worker can be read by the user of its jobs.
    TokenIsOpen,
    /// A worker accepts whatever certificate it is shown.
    AnyCertificate,
}
