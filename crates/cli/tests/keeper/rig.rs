//! What every test here needs: a nursery, a folder, a tree made by a shell, and patience with a limit.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lastword_proc::{ExitRecord, Identity, Keeper, Launch, Launched, Nursery, ended};
use tempfile::TempDir;

/// How long a condition may take on a machine that does other things as well. Reached only by a failing test.
const PATIENCE: Duration = Duration::from_secs(30);

/// The file in which processes of a tree note their numbers, one a line.
const PIDS: &str = "pids";

/// A nursery and a place for one attempt.
pub(crate) struct Rig {
    pub(crate) nursery: Nursery,
    folder: TempDir,
}

impl Rig {
    pub(crate) fn new() -> Rig {
        let executable = Path::new(env!("CARGO_BIN_EXE_lastword"));
        let nursery = Nursery::start(executable).expect("the nursery starts");
        Rig { nursery, folder: tempfile::tempdir().expect("there is room for a folder") }
    }

    /// Returns the folder of attempt number `no`.
    pub(crate) fn attempt(&self, no: u32) -> PathBuf {
        self.folder.path().join(format!("attempt-{no}"))
    }

    /// Returns the launch of a shell script as attempt number `no`. Its processes note themselves with `echo $$ >> pids`.
    pub(crate) fn script(&self, no: u32, script: &str) -> Launch {
        let _ = std::fs::remove_file(self.folder.path().join(PIDS));
        let cwd = self.folder.path().to_owned();
        Launch { cwd, ..Launch::new(self.attempt(no), ["sh", "-c", script]) }
    }

    /// Launches, and returns the tree once as many of its processes as said have noted themselves.
    pub(crate) fn start(&self, launch: &Launch, processes: usize) -> Tree {
        let launched = self.nursery.launch(launch).expect("the program runs");
        let file = self.folder.path().join(PIDS);
        let noted = until("the processes note themselves", || {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            let pids: Vec<i32> = text.lines().filter_map(|line| line.trim().parse().ok()).collect();
            (pids.len() == processes).then_some(pids)
        });
        Tree { dir: launch.dir.clone(), launched, noted, processes: self.living() }
    }

    /// Returns everybody who runs in our folder. Found from outside, whatever numbers they know themselves by.
    fn living(&self) -> Vec<Identity> {
        let everybody = std::fs::read_dir("/proc").expect("there is a /proc").flatten();
        let pids = everybody.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let is_here = |pid: &i32| {
            std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == self.folder.path())
        };
        pids.filter(is_here).filter_map(Identity::of).collect()
    }
}

/// A tree that runs.
pub(crate) struct Tree {
    pub(crate) dir: PathBuf,
    pub(crate) launched: Launched,
    /// The numbers by which processes noted themselves, in that order.
    pub(crate) noted: Vec<i32>,
    /// Everybody who ran when the last of these had.
    pub(crate) processes: Vec<Identity>,
}

impl Tree {
    pub(crate) fn keeper(&self) -> Keeper {
        Keeper::connect(&self.dir, 0).expect("the keeper listens")
    }

    /// Waits for the last word, and checks that nobody was left when it could be read.
    pub(crate) fn last_word(&self) -> ExitRecord {
        let record = until("the last word", || ended(&self.dir).expect("it can be read"));
        let living: Vec<i32> = self
            .processes
            .iter()
            .filter(|process| process.open().is_some())
            .map(|process| process.pid)
            .collect();
        assert_eq!(
            living,
            Vec::<i32>::new(),
            "these were there when the last word could be read: {record:?}"
        );
        assert!(!self.launched.leader.is_alive(), "the leader outlived the last word");
        record
    }
}

/// Looks until there is something, and fails the test if there never is.
#[expect(clippy::disallowed_methods, reason = "between two looks; the condition decides, not the pause")]
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} in vain: {what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}
