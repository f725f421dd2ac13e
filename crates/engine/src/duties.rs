//! Duties: which part of the work an engine does.

/// What an engine does beside answering requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duties {
    /// Everything, as on a laptop.
    All,
    /// Claims jobs and drives them. The journal is behind a server, which does the rest.
    Worker,
    /// Watches lives, reads the feed, tells dependents and workers, and accounts for jobs whose holder is gone. Claims no job that is ready.
    Clerk,
}

impl Duties {
    /// Reports whether the engine looks after jobs that it does not hold.
    pub(crate) fn is_clerk(self) -> bool {
        self != Duties::Worker
    }
}
