//! A keeper whose folder or claim was deleted writes them again, so that the next daemon finds the tree and can stop it.

use std::io;

use super::control;
use super::shim::Shim;
use crate::claim;
use crate::folder::{Durable, Folder, Published};

/// Times that a claim put in place of ours is set aside. A daemon closes an empty folder before it asks.
const ASIDE_MAX: usize = 8;

impl Shim {
    /// Writes folder, claim and socket again if they are gone. What was recorded in the deleted folder is lost.
    pub(super) fn restore(&mut self) {
        let is_removed = self.folder.is_removed();
        if !is_removed && self.folder.has(claim::NAME, &self.claim) {
            return;
        }
        if is_removed {
            // If that fails, the next request tries again.
            let Ok(folder) = Folder::create_again(&self.launch.dir) else { return };
            folder.lock();
            self.folder = folder;
        }
        self.renew_recordings();
        // If that fails, the next request tries again.
        let _ = self.restore_claim();
    }

    /// Notices recordings that were deleted.
    pub(super) fn renew_recordings(&mut self) {
        for stream in &mut self.streams {
            stream.renew(&self.folder);
        }
        self.input.renew(&self.folder);
    }

    fn restore_claim(&mut self) -> io::Result<()> {
        let text = claim::text_of(&self.claim)?;
        // The socket first: the claim names it.
        self.control.listen_on(control::listen(&self.folder, &self.socket)?);
        for _ in 0..ASIDE_MAX {
            if let Published::Ours(claim) =
                self.folder.publish(claim::NAME, text.as_bytes(), Durable::No, true)?
            {
                self.claim = claim;
                break;
            }
            self.folder.set_aside(claim::NAME)?;
        }
        Ok(())
    }
}
