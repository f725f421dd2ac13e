//! What the tests of the keeper share: a folder for attempts, scripts to run in them, and polling.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lastword_proc::{
    ExitRecord, Identity, Keeper, Launch, Launched, LeaseFile, Nursery, Recording, Stop, clock, wait,
};

use crate::executable::lastword;

/// How long anything may take on a busy machine before it counts as stuck.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A stop that goes straight to KILL.
pub(crate) const FORCE: Stop<'static> = Stop { cause: "cancel", force: true, local: false, term_ms: None };

/// A nursery and a folder for its attempts.
pub(crate) struct Place {
    pub(crate) nursery: Nursery,
    folder: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Place {
        let folder = tempfile::tempdir().expect("a folder for the test");
        Place { nursery: start_nursery(), folder }
    }

    pub(crate) fn dir(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns a launch of a shell script, with the PATH it needs.
    pub(crate) fn script(&self, name: &str, script: &str) -> Launch {
        let env = vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())];
        Launch {
            env,
            cwd: self.folder.path().to_owned(),
            ..Launch::new(self.dir(name), ["sh", "-c", script])
        }
    }

    /// Returns a lease file that lasts for so long.
    pub(crate) fn lease(&self, name: &str, ms: u64) -> LeaseFile {
        let lease = LeaseFile::new(self.dir(name));
        lease.write(clock::boot_ms() + ms).expect("a lease file");
        lease
    }

    pub(crate) fn run(&self, launch: &Launch) -> ExitRecord {
        self.launch(launch);
        self.end_of(launch)
    }

    pub(crate) fn launch(&self, launch: &Launch) -> Launched {
        self.nursery.launch(launch).expect("the launch")
    }

    pub(crate) fn end_of(&self, launch: &Launch) -> ExitRecord {
        wait(&launch.dir, PATIENCE).expect("a wait").expect("an ending")
    }

    /// Stops a tree and returns its exit record.
    pub(crate) fn stop(&self, launch: &Launch, force: bool) -> ExitRecord {
        let mut keeper = Keeper::connect(&launch.dir, launch.epoch).expect("a keeper");
        keeper.stop(Stop { cause: "cancel", force, ..Stop::default() }).expect("a stop");
        self.end_of(launch)
    }

    /// Waits until a script has printed `count` pids, one per line, and returns the processes.
    pub(crate) fn pids(&self, launch: &Launch, count: usize) -> Vec<Identity> {
        until("the script printed its pids", || {
            let text = read(launch, "stdout");
            let pids: Vec<i32> = text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect();
            (text.ends_with('\n') && pids.len() >= count)
                .then(|| pids.into_iter().filter_map(Identity::of).collect())
        })
    }
}

pub(crate) fn start_nursery() -> Nursery {
    Nursery::start(lastword().as_ref()).expect("a nursery")
}

/// Returns a recorded stream without its holes.
pub(crate) fn read(launch: &Launch, stream: &str) -> String {
    let mut recording = Recording::open(&launch.dir, stream).expect("a recording");
    let (mut cursor, mut all, mut buffer) = (0, Vec::new(), vec![0; 1 << 16]);
    loop {
        let read = recording.read(cursor, &mut buffer).expect("a read");
        if read.bytes == 0 {
            return String::from_utf8_lossy(&all).into_owned();
        }
        all.extend_from_slice(&buffer[..read.bytes]);
        cursor = read.next();
    }
}

/// Blocks the exit record: it cannot be written until the returned folder is removed.
pub(crate) fn block_record(launch: &Launch, shim: &Identity) -> PathBuf {
    let obstacle = launch.dir.join(format!("exit.{}.tmp", shim.pid));
    std::fs::create_dir(&obstacle).expect("an obstacle");
    obstacle
}

/// Deletes the folder of a living keeper. A request of another test may make the keeper write in it meanwhile.
pub(crate) fn delete(folder: &Path) {
    until("the folder is deleted", || std::fs::remove_dir_all(folder).ok());
}

/// Polls a condition that must become true.
pub(crate) fn until<T>(what: &str, mut is_so: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(value) = is_so() {
            return value;
        }
        assert!(begin.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        #[expect(clippy::disallowed_methods, reason = "pause between polls")]
        std::thread::sleep(Duration::from_millis(1));
    }
}
