//! Bugs on purpose: switches by which the trials break one rule of the keeper at a time.
//!
//! Without the feature `seeded` every switch is a constant `false` and the compiler removes it; what ships is built without.

lastword_core::bugs! {
    /// What is in a file is not flushed, be it output or a record.
    NoFileSync = "no-file-sync",
    /// That a record is in its folder is not flushed.
    NoFolderSync = "no-folder-sync",
    /// With an orphan, everybody is ended who has its name.
    ReapByName = "reap-by-name",
    /// What only looks like a leak is taken for one.
    NoDoubts = "no-doubts",
}
