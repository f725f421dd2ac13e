//! The daemon is killed while a worktree is being created, used, inspected and removed.

use std::mem::MaybeUninit;
use std::path::PathBuf;
use std::process::Command;

use rustix::fs::inotify;

use crate::home::{Home, is_alive, pids_in, until};

/// A repository whose checkout blocks in the middle of a file until told to continue, by means of a filter in the user's settings.
struct Slow {
    home: Home,
    top: PathBuf,
}

impl Slow {
    fn new() -> Slow {
        let home = Home::new();
        let top = home.path("repository");
        std::fs::create_dir(&top).unwrap();
        let slow = Slow { home, top };
        slow.git(&["init", "--quiet", "--initial-branch=main"]);
        std::fs::write(slow.top.join(".gitattributes"), "slow filter=slow\n").unwrap();
        for file in ["fast", "slow"] {
            std::fs::write(slow.top.join(file), file).unwrap();
        }
        slow.git(&["add", "."]);
        slow.git(&[
            "-c",
            "user.name=Ann",
            "-c",
            "user.email=a@example.org",
            "commit",
            "--quiet",
            "-m",
            "first",
        ]);
        slow
    }

    /// Makes every checkout from now on block.
    fn block_checkouts(&self) {
        let (pids, go) = (self.home.path("pids"), self.home.path("go"));
        let wait = format!(
            "echo $$ >> {}; while [ ! -e {} ]; do sleep 0.01; done; cat",
            pids.display(),
            go.display()
        );
        std::fs::write(self.home.path("slow.sh"), wait).unwrap();
        let settings = format!("[filter \"slow\"]\n  smudge = sh {}\n", self.home.path("slow.sh").display());
        std::fs::write(self.home.path(".gitconfig"), settings).unwrap();
    }

    fn unblock(&self) {
        std::fs::write(self.home.path("go"), "").unwrap();
    }

    fn git(&self, words: &[&str]) -> String {
        let mut command = Command::new("git");
        command.args(words).current_dir(&self.top).env("HOME", self.home.path(""));
        let output = command.output().unwrap();
        assert!(output.status.success(), "git {words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    fn start(&self, script: &str) -> String {
        let mut command = self.home.command(&["run", "-d", "--worktree", "sh", "-c", script]);
        command.current_dir(&self.top);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    fn worktrees(&self) -> PathBuf {
        self.home.state().join("worktrees")
    }

    /// Lists everything left of worktrees, here and in the repository.
    fn left(&self) -> Vec<String> {
        let names = |folder: PathBuf| {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            entries.map(|entry| entry.file_name().into_string().unwrap()).filter(|name| name != "scratch")
        };
        let branches = self.git(&["branch", "--list", "--format=%(refname:short)", "lastword/*"]);
        let folders = names(self.worktrees()).chain(names(self.top.join(".git/worktrees")));
        folders.chain(branches.lines().map(str::to_owned)).collect()
    }

    fn until_nothing_is_left(&self) {
        until("all worktrees are gone", || self.left().is_empty());
    }

    /// Waits until the daemon has checked the given number of times whether a worktree is free.
    fn until_checked(&self, job: &str, times: usize) {
        let looks = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
        let lock = self.worktrees().join(format!("{job}.lock"));
        inotify::add_watch(&looks, lock, inotify::WatchFlags::OPEN).unwrap();
        let (mut seen, mut room) = (0, [MaybeUninit::uninit(); 4096]);
        until("it was checked", || {
            let mut events = inotify::Reader::new(&looks, &mut room);
            while events.next().is_ok() {
                seen += 1;
            }
            seen >= times
        });
    }

    /// Checks that a job ran once, in a complete worktree.
    fn ran_once(&self, job: &str) {
        assert_eq!(self.home.run(&["wait", job]).code, 0, "{}", self.home.show(job));
        assert_eq!(self.home.ok(&["logs", job]), "fast slow", "the worktree is complete, and it ran once");
        self.until_nothing_is_left();
        assert_eq!(self.git(&["worktree", "list"]).lines().count(), 1);
    }
}

/// Prints the files of the worktree.
const LOOK: &str = "echo $(cat fast) $(cat slow)";

#[test]
fn a_git_that_outlives_its_daemon_is_awaited_by_the_next() {
    let slow = Slow::new();
    slow.block_checkouts();
    let job = slow.start(LOOK);
    let git = pids_in(&slow.home.path("pids"), 1)[0];
    for _ in 0..2 {
        slow.home.kill_daemon();
        assert_ne!(slow.home.show(&job)["phase"], "running");
        assert!(is_alive(git), "git is still running");
    }
    // More checks than a job that fails to start has attempts.
    slow.until_checked(&job, 10);
    assert_eq!(slow.home.show(&job)["phase"], "launching");
    slow.unblock();
    slow.ran_once(&job);
}

#[test]
fn a_daemon_and_its_git_that_die_together_are_recovered_from() {
    let slow = Slow::new();
    slow.block_checkouts();
    let job = slow.start(LOOK);
    let script = pids_in(&slow.home.path("pids"), 1)[0];
    slow.home.kill_daemon();
    let group = rustix::process::getpgid(rustix::process::Pid::from_raw(script)).unwrap();
    rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
    until("git is gone", || !is_alive(script));
    slow.unblock();
    slow.ran_once(&job);
}

#[test]
fn the_worktree_of_a_job_that_ends_without_a_daemon_is_handled_by_the_next() {
    let slow = Slow::new();
    let (pids, go) = (slow.home.path("pids"), slow.home.path("go"));
    let wait = |then: &str| {
        format!("echo $$ >> {}; while [ ! -e {} ]; do sleep 0.01; done; {then}", pids.display(), go.display())
    };
    let (idle, busy) = (slow.start(&wait("true")), slow.start(&wait("echo more >> fast")));
    let leaders = pids_in(&pids, 2);
    slow.home.kill_daemon();
    slow.unblock();
    until("both have ended", || !leaders.iter().any(|pid| is_alive(*pid)));
    assert_eq!(slow.home.run(&["wait", &idle, &busy]).code, 0);
    until("only the worktree of the busy job is left", || {
        slow.left().iter().all(|name| !name.contains(&idle))
    });
    assert!(slow.worktrees().join(&busy).join("fast").exists());
    assert!(slow.home.ok(&["diff", &busy]).contains("+fastmore"));
    slow.home.ok(&["rm", "--force", &busy]);
    slow.until_nothing_is_left();
}

#[test]
fn worktrees_without_a_job_are_found_and_no_work_is_lost() {
    let slow = Slow::new();
    let idle = slow.start("true");
    let busy = slow.start("echo more >> fast");
    assert_eq!(slow.home.run(&["wait", &idle, &busy]).code, 0);
    until("the idle worktree is gone", || slow.left().iter().all(|name| !name.contains(&idle)));
    let kept = slow.worktrees().join(&busy);
    let daemon = slow.home.daemon();
    slow.home.ok(&["daemon", "stop"]);
    until("the daemon is gone", || !is_alive(daemon));
    for entry in std::fs::read_dir(slow.home.state()).unwrap().flatten() {
        if entry.file_name().to_str().unwrap().starts_with("journal.db") {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
    slow.home.ok(&["daemon", "start"]);
    until("the next daemon reports it", || {
        let status = slow.home.ok(&["daemon", "status"]);
        status.contains("the worktree of an unknown job is kept: 1 changed file")
    });
    assert!(kept.join("fast").exists());
    std::fs::write(kept.join("fast"), "fast").unwrap();
    slow.home.kill_daemon();
    slow.home.ok(&["ls"]);
    slow.until_nothing_is_left();
}
