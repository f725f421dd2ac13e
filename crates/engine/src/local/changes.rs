//! What jobs changed in their worktrees.

use std::io;

use lastword_core::JobId;
use lastword_store::Store;

use super::Engine;
use crate::Error;
use crate::host::{Changes, PatchPart, PatchPiece};

impl<J: Store> Engine<J> {
    /// Returns the files that were changed in the worktree of a job; none if nothing is left of it.
    pub async fn changes(&self, id: JobId) -> Result<Changes, Error> {
        self.worker.host.changes(id).await.map_err(|why| unseen(id, why))
    }

    /// Returns a part of the patch of a job's worktree; `None` if the file that it is to be of was not changed.
    pub async fn patch(&self, id: JobId, part: PatchPart) -> Result<Option<PatchPiece>, Error> {
        self.worker.host.patch(id, part).await.map_err(|why| unseen(id, why))
    }
}

fn unseen(id: JobId, why: String) -> Error {
    Error::Disk {
        what: format!("cannot see what was changed in the worktree of {id}"),
        source: io::Error::other(why),
    }
}
