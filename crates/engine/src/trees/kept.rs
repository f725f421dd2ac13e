//! Trees kept by real keepers.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lastword_core::effects::Effect;
use lastword_core::outcome::Cause;
use lastword_core::receipt::{Level, Tree};
use lastword_core::report::{Found, Report};
use lastword_core::spec::Work;
use lastword_core::{AttemptNo, Awake, Epoch, Job};
use lastword_proc::{
    self as proc, Alive, Error, ExitRecord, Identity, Keeper, Launch, Launched, Located, Nursery, Stop,
    boot_id,
};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::Trees;

/// Pause between looks at a keeper whose shim is gone.
const GUARD: Duration = Duration::from_millis(20);

/// Keepers in folders below one place, started through one nursery.
#[derive(Clone)]
pub struct Kept {
    nursery: Arc<Nursery>,
    place: Arc<PathBuf>,
    /// What a command sees, besides what its spec says.
    env: Arc<Vec<(OsString, OsString)>>,
}

impl Kept {
    /// Keeps attempts below `place`.
    pub fn new(nursery: Nursery, place: PathBuf, env: Vec<(OsString, OsString)>) -> Kept {
        Kept { nursery: Arc::new(nursery), place: Arc::new(place), env: Arc::new(env) }
    }

    /// Returns the folder of an attempt.
    pub fn dir(&self, job: &Job, attempt: AttemptNo) -> PathBuf {
        self.place.join(format!("{}.{}", job.id, attempt.0))
    }

    /// Runs what waits for a keeper or a disk where it holds nobody up.
    async fn blocking<R: Send + 'static>(&self, run: impl FnOnce(&Kept) -> R + Send + 'static) -> Option<R> {
        let kept = self.clone();
        tokio::task::spawn_blocking(move || run(&kept)).await.ok()
    }
}

impl Trees for Kept {
    async fn perform(&self, job: Job, epoch: Epoch, effect: Effect, report: mpsc::Sender<Report>) {
        let unclear = Report::Unclear(effect.clone());
        let answer = match effect {
            Effect::Watch { attempt } => Some(self.watch(&job, attempt, &report).await),
            other => self.blocking(move |kept| kept.carry_out(&job, epoch, &other)).await,
        };
        match answer {
            Some(Answer::Report(said)) => drop(report.send(said).await),
            Some(Answer::Nothing) => {}
            Some(Answer::Unclear) | None => drop(report.send(unclear).await),
        }
    }
}

/// What came of an effect.
enum Answer {
    Report(Report),
    /// It was done; what follows is seen by whoever watches.
    Nothing,
    /// It could not be done, or nobody knows.
    Unclear,
}

impl Kept {
    fn carry_out(&self, job: &Job, epoch: Epoch, effect: &Effect) -> Answer {
        match effect {
            Effect::Launch { attempt } => self.launch(job, epoch, *attempt),
            Effect::Locate { attempt } => self.locate(job, *attempt),
            Effect::Stop { attempt, cause, force } => self.speak(job, epoch, *attempt, |keeper| {
                let cause = match cause {
                    Cause::User => "cancel",
                    _ => "limit",
                };
                keeper.stop(Stop { cause, force: *force, ..Stop::default() }).map(drop)
            }),
            Effect::Deadline { attempt, at } => {
                self.speak(job, epoch, *attempt, |keeper| keeper.deadline(at.map(|Awake(ms)| ms)))
            }
            Effect::Interrupt { attempt, .. } => self.speak(job, epoch, *attempt, Keeper::interrupt),
            Effect::Close { attempt } => self.speak(job, epoch, *attempt, Keeper::close_input),
            // Inputs are for agents, whose dialects are not here yet.
            Effect::Tell { .. } | Effect::Watch { .. } => Answer::Nothing,
        }
    }

    /// Says something to a keeper. One that is gone is not told anything: whoever watches finds out.
    fn speak(
        &self,
        job: &Job,
        epoch: Epoch,
        attempt: AttemptNo,
        say: impl FnOnce(&mut Keeper) -> Result<(), Error>,
    ) -> Answer {
        let said =
            Keeper::connect(&self.dir(job, attempt), epoch.0.into()).and_then(|mut keeper| say(&mut keeper));
        match said {
            Ok(()) | Err(Error::NoKeeper(_) | Error::Stale(_)) => Answer::Nothing,
            Err(_) => Answer::Unclear,
        }
    }

    fn launch(&self, job: &Job, epoch: Epoch, attempt: AttemptNo) -> Answer {
        let Some(spec) = &job.spec else { return Answer::Unclear };
        let Work::Command { argv } = &spec.work else {
            let error = "this build runs no agents yet".to_owned();
            return Answer::Report(Report::LaunchFailed { attempt, error });
        };
        let dir = self.dir(job, attempt);
        let launch = Launch {
            env: self.env.as_ref().clone(),
            cwd: PathBuf::from(&spec.cwd),
            term_ms: spec.ladder.term_ms,
            epoch: epoch.0.into(),
            ..Launch::new(&dir, argv)
        };
        match self.nursery.launch(&launch) {
            Ok(Launched { leader, level, launched, .. }) => Answer::Report(Report::Launched {
                attempt,
                tree: tree(&leader, level),
                awake: Awake(launched),
            }),
            // Only a record says that nothing was started for good; a folder that was taken says it of this try alone.
            Err(Error::Refused(error)) => match proc::ended(&dir) {
                Ok(Some(ExitRecord { exec_error: Some(_), .. })) => {
                    Answer::Report(Report::LaunchFailed { attempt, error })
                }
                _ => Answer::Unclear,
            },
            Err(_) => Answer::Unclear,
        }
    }

    fn locate(&self, job: &Job, attempt: AttemptNo) -> Answer {
        // An intent that does not say when it was made is taken for one of this boot.
        let intended = job.attempts.iter().find(|known| known.no == attempt);
        let boot = intended.and_then(|attempt| attempt.boot.as_deref()).unwrap_or(boot_id());
        let found = match proc::locate(&self.dir(job, attempt), boot) {
            Ok(Located::Alive(Alive { leader: Some((leader, level)), launched: Some(awake), .. })) => {
                Found::Alive { tree: tree(&leader, level), awake: Awake(awake) }
            }
            // Its keeper has not let it go yet; it will, or it will end.
            Ok(Located::Alive(_)) | Err(_) => return Answer::Unclear,
            Ok(Located::Ended(record)) if record.exec_error.is_some() => Found::NeverStarted,
            Ok(Located::Ended(record)) => Found::Ended(Box::new(record.receipt)),
            Ok(Located::NeverStarted) => Found::NeverStarted,
            Ok(Located::OtherBoot) => Found::OtherBoot,
            Ok(Located::Vanished(record)) => Found::Vanished(Box::new(record.receipt)),
        };
        Answer::Report(Report::Located { attempt, found })
    }

    /// Follows a tree to its end without holding a thread, and says how it came to it.
    async fn watch(&self, job: &Job, attempt: AttemptNo, report: &mpsc::Sender<Report>) -> Answer {
        loop {
            let dir = self.dir(job, attempt);
            let connected = self.blocking(move |_| {
                let mut keeper = Keeper::connect(&dir, 0)?;
                keeper.watch().map(|_| keeper.into_parts())
            });
            if let Some(Ok((socket, unread))) = connected.await {
                follow(socket, unread, attempt, report).await;
            }
            match self.look(job, attempt).await {
                // Its shim is gone and its guard is at work: what it does takes milliseconds.
                Answer::Report(Report::Located { found: Found::Alive { .. }, .. }) | Answer::Unclear => {
                    sleep(GUARD).await
                }
                other => return other,
            }
        }
    }

    /// Says how a tree that was followed to its end came to it.
    async fn look(&self, job: &Job, attempt: AttemptNo) -> Answer {
        let job = job.clone();
        let looked = self.blocking(move |kept| kept.locate(&job, attempt)).await;
        match looked.unwrap_or(Answer::Unclear) {
            Answer::Report(Report::Located { found: Found::Ended(receipt), .. }) => {
                Answer::Report(Report::Emptied { attempt, receipt })
            }
            other => other,
        }
    }
}

/// Reads events until the keeper is gone.
async fn follow(
    socket: std::os::unix::net::UnixStream,
    unread: Vec<u8>,
    attempt: AttemptNo,
    report: &mpsc::Sender<Report>,
) {
    let Ok(socket) = socket.set_nonblocking(true).and_then(|()| UnixStream::from_std(socket)) else { return };
    let mut lines = BufReader::new(std::io::Cursor::new(unread).chain(socket)).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if let Some((rung, alive)) = proc::climbed(&line) {
            let _ = report.send(Report::Climbed { attempt, rung, alive }).await;
        }
    }
}

fn tree(leader: &Identity, level: Level) -> Tree {
    Tree { boot: leader.boot.clone(), pid: leader.pid, start_ticks: leader.start_ticks, level }
}
