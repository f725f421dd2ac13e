//! The host of a server: it runs no jobs, keeps their environments, and asks the workers that ran them.

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use lastword_core::{AttemptNo, BootTime, JobId, Now, OwnerId};
use lastword_proc::{self as proc, boot_id, clock};
use lastword_store::Removals;
use lastword_store::attempts::{Alive, Attempts, BoxFuture, NotRead, Part, Piece, Ran, Stream};

use super::traits::{Clock, JobFiles, JobWorktrees, Keepers, Order};
use super::{env, local};
use crate::Env;
use crate::lock::lock;
use crate::mailbox::Reports;

/// The host of a server.
#[derive(Clone)]
pub struct ServerHost(Arc<Inner>);

struct Inner {
    /// The folder that holds the job folders.
    place: PathBuf,
    /// Jobs whose environment was kept since this process started.
    envs: Mutex<HashSet<JobId>>,
    /// The workers.
    workers: Box<dyn Attempts>,
    note_removal: Box<NoteRemoval>,
}

/// Notes that owners have to remove the files of a job.
type NoteRemoval = dyn Fn(JobId, Vec<OwnerId>) -> BoxFuture<Result<(), lastword_store::Error>> + Send + Sync;

impl ServerHost {
    /// Keeps environments below `place`, asks `workers` about attempts, and notes in `removals` which of them have files of a removed job.
    pub fn new(place: PathBuf, workers: impl Attempts, removals: impl Removals) -> ServerHost {
        let note_removal = move |job, ran_by| -> BoxFuture<_> {
            let removals = removals.clone();
            Box::pin(async move { removals.note_removal(job, ran_by).await })
        };
        ServerHost(Arc::new(Inner {
            place,
            envs: Mutex::default(),
            workers: Box::new(workers),
            note_removal: Box::new(note_removal),
        }))
    }

    async fn blocking<R: Send + 'static>(
        &self,
        run: impl FnOnce(&Inner) -> io::Result<R> + Send + 'static,
    ) -> io::Result<R> {
        let inner = Arc::clone(&self.0);
        tokio::task::spawn_blocking(move || run(&inner)).await.map_err(io::Error::other)?
    }
}

impl Inner {
    fn folder(&self, job: JobId) -> PathBuf {
        self.place.join(job.to_string())
    }
}

impl Attempts for ServerHost {
    fn read(&self, ran: Ran, stream: Stream, part: Part) -> BoxFuture<Result<Piece, NotRead>> {
        self.0.workers.read(ran, stream, part)
    }

    fn alive(&self, ran: Ran) -> BoxFuture<Option<Alive>> {
        self.0.workers.alive(ran)
    }

    fn resize(&self, ran: Ran, rows: u16, columns: u16) -> BoxFuture<bool> {
        self.0.workers.resize(ran, rows, columns)
    }
}

impl Clock for ServerHost {
    fn now(&self) -> Now {
        local::now()
    }

    fn since_boot(&self) -> BootTime {
        BootTime(clock::boot_ms())
    }

    fn random(&self, bytes: &mut [u8]) -> io::Result<()> {
        getrandom::fill(bytes).map_err(io::Error::from)
    }
}

impl Keepers for ServerHost {
    fn boot(&self) -> Arc<str> {
        boot_id().into()
    }

    fn perform(&self, order: Order, _: Reports) -> BoxFuture<Result<(), String>> {
        let words = format!("this is a server, which runs no jobs: {:?} is for a worker", order.effect);
        Box::pin(std::future::ready(Err(words)))
    }

    fn hold_stop(&self, _: Order) -> BoxFuture<Result<bool, String>> {
        Box::pin(std::future::ready(Err("this is a server, which has no keepers".to_owned())))
    }

    fn gone(&self, _: Option<JobId>) -> Vec<JobId> {
        Vec::new()
    }

    fn written(&self, _: JobId, _: AttemptNo) -> u64 {
        0
    }

    fn holder_of(&self, _: &[(i32, u64)]) -> Option<JobId> {
        None
    }
}

impl JobFiles for ServerHost {
    fn keep_env(&self, job: JobId, env: Env) -> BoxFuture<io::Result<()>> {
        let host = self.clone();
        lock(&self.0.envs).insert(job);
        let keep = move |inner: &Inner| {
            proc::Folder::create(&inner.place)?;
            env::keep(&inner.folder(job), &env)
        };
        Box::pin(async move { host.blocking(keep).await })
    }

    fn sync_env(&self, job: JobId) -> BoxFuture<io::Result<()>> {
        let host = self.clone();
        Box::pin(async move { host.blocking(move |inner| env::sync(&inner.place, &inner.folder(job))).await })
    }

    fn drop_env(&self, job: JobId) -> BoxFuture<io::Result<()>> {
        let host = self.clone();
        lock(&self.0.envs).remove(&job);
        Box::pin(async move { host.blocking(move |inner| env::remove(&inner.folder(job))).await })
    }

    fn sweep_envs(&self, live: HashSet<JobId>) -> BoxFuture<io::Result<u32>> {
        let host = self.clone();
        let sweep = move |inner: &Inner| match inner.place.exists() {
            true => env::sweep(&inner.place, |job| !live.contains(&job) && !lock(&inner.envs).contains(&job)),
            false => Ok(0),
        };
        Box::pin(async move { host.blocking(sweep).await })
    }

    fn remove(&self, job: JobId, ran_by: Vec<OwnerId>) -> BoxFuture<io::Result<()>> {
        let host = self.clone();
        let remove = move |inner: &Inner| match std::fs::remove_dir_all(inner.folder(job)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
        Box::pin(async move {
            (host.0.note_removal)(job, ran_by).await.map_err(io::Error::other)?;
            host.blocking(remove).await
        })
    }
}

impl JobWorktrees for ServerHost {}
