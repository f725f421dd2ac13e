//! The product under measurement, with its daemon.

use std::path::Path;

use lastword_api::{GroupChange, Job, Submit};
use lastword_client::{Call, groups, jobs};

use super::super::folders::Folders;
use crate::place::Programs;
use crate::product::Product;
use crate::product::client::Client;

/// The product, with its daemon. Torn down with the value.
pub(in crate::bench) struct Ours {
    pub(in crate::bench) product: Product,
}

impl Ours {
    pub(in crate::bench) fn start(folders: &Folders) -> Result<Ours, String> {
        let folder = folders.folder()?;
        Ours::start_in(&folder)
    }

    pub(in crate::bench) fn start_in(folder: &Path) -> Result<Ours, String> {
        Ours::start_of(&Programs::beside()?.lastword, folder)
    }

    pub(in crate::bench) fn start_of(executable: &Path, folder: &Path) -> Result<Ours, String> {
        let product = Product::install(executable, folder, &folder.join("home"))?;
        // Torn down whatever becomes of its start.
        let ours = Ours { product };
        ours.product.start()?;
        Ok(ours)
    }

    /// Lets so many run at once.
    pub(in crate::bench) fn slots(&self, client: &mut Client, slots: usize) -> Result<(), String> {
        let change = GroupChange { slots: Some(u32::try_from(slots).ok()), ..GroupChange::default() };
        client.call(&groups::set("default", &change)).map(drop)
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        self.product.tear_down();
    }
}

/// Returns the call that asks for a job with nothing in its environment but a path.
pub(in crate::bench) fn submit(argv: Vec<String>) -> Call<Job> {
    jobs::submit(&Submit {
        argv,
        cwd: "/".to_owned(),
        env: [("PATH".to_owned(), "/bin".to_owned())].into(),
        ..Submit::default()
    })
}
