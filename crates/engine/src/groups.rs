//! Groups: how many of their jobs may be held at once, and whether any are taken at all.

use lastword_store::Journal;

use crate::{Engine, Error};

/// A group of jobs. `queue` is core's word for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// How many of its jobs may be held at once; `None` is no bound.
    pub slots: Option<u32>,
    /// None of its jobs is taken. What runs goes on.
    pub paused: bool,
}

impl<J: Journal> Engine<J> {
    /// Returns every group, by name.
    pub async fn groups(&self) -> Result<Vec<Group>, Error> {
        Err(Error::NotYet("list groups"))
    }

    /// Makes a group or changes it, and takes what may be taken now.
    pub async fn set_group(&self, group: Group) -> Result<(), Error> {
        let _ = group;
        Err(Error::NotYet("change groups"))
    }

    /// Removes a group that no live job is in. The default one stays.
    pub async fn remove_group(&self, name: &str) -> Result<(), Error> {
        let _ = name;
        Err(Error::NotYet("remove groups"))
    }
}
