//! The files of jobs: the environment, and the folder that holds everything.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use lastword_core::{JobId, OwnerId};

use super::env;
use super::local::LocalHost;
use super::traits::{BoxFuture, JobFiles};
use crate::Env;

/// Removes a folder with all that is in it, if it is there.
fn remove_folder(folder: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

impl JobFiles for LocalHost {
    fn keep_env(&self, job: JobId, env: Env) -> BoxFuture<io::Result<()>> {
        let host = self.clone();
        Box::pin(async move {
            host.blocking_io(move |host| {
                host.0.keepers.env_kept(job);
                env::keep(&host.folder(job), &env)
            })
            .await
        })
    }

    fn sync_env(&self, job: JobId) -> BoxFuture<io::Result<()>> {
        let host = self.clone();
        Box::pin(
            async move { host.blocking_io(move |host| env::sync(&host.0.place, &host.folder(job))).await },
        )
    }

    fn drop_env(&self, job: JobId) -> BoxFuture<io::Result<()>> {
        let host = self.clone();
        Box::pin(async move {
            host.0.keepers.env_dropped(job);
            host.blocking_io(move |host| env::remove(&host.folder(job))).await
        })
    }

    fn sweep_envs(&self, live: HashSet<JobId>) -> BoxFuture<io::Result<u32>> {
        let host = self.clone();
        Box::pin(async move {
            host.blocking_io(move |host| {
                env::sweep(&host.0.place, |job| !live.contains(&job) && !host.0.keepers.has_env(job))
            })
            .await
        })
    }

    fn remove(&self, job: JobId, _: Vec<OwnerId>) -> BoxFuture<io::Result<()>> {
        let host = self.clone();
        Box::pin(async move {
            host.blocking_io(move |host| {
                remove_folder(&host.own_folder(job))?;
                remove_folder(&host.folder(job))
            })
            .await
        })
    }
}
