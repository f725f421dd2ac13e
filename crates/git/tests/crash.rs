//! Creating or removing a worktree again repairs whatever a crash left of it.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]
#![expect(clippy::disallowed_methods, reason = "the tests run git as a user would")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use lastword_git::{Git, Keep, Standing, WorktreeSpec, Worktrees};

const ID: &str = "job_1";
const BRANCH: &str = "lastword/fix";

/// A repository and a folder for worktrees.
struct Place {
    folder: tempfile::TempDir,
    base: String,
}

/// A part of a worktree that a crash may leave behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The branch.
    Branch,
    /// Git's administrative folder in the repository.
    AdminFolder,
    /// The folder, half written.
    Folder,
    /// The branch lock of a killed git.
    BranchLock,
}

const PARTS: [Part; 4] = [Part::Branch, Part::AdminFolder, Part::Folder, Part::BranchLock];

fn git(folder: &Path, words: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(words).current_dir(folder).env("GIT_CONFIG_GLOBAL", "/dev/null");
    for role in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{role}_NAME"), "Ann").env(format!("GIT_{role}_EMAIL"), "ann@example.org");
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "git {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().join("repository");
        std::fs::create_dir(&top).unwrap();
        git(&top, &["init", "--quiet", "--initial-branch=main"]);
        for file in ["a", "b", "c", "d"] {
            std::fs::write(top.join(file), file).unwrap();
        }
        git(&top, &["add", "."]);
        git(&top, &["commit", "--quiet", "--message", "first"]);
        let base = git(&top, &["rev-parse", "HEAD"]);
        Place { folder, base }
    }

    fn top(&self) -> PathBuf {
        self.folder.path().join("repository")
    }

    fn git_dir(&self) -> PathBuf {
        self.top().join(".git")
    }

    /// Opens the worktrees as a newly started daemon does.
    fn worktrees(&self) -> Worktrees {
        let git = Git::new(std::env::vars_os());
        Worktrees::new(git, &self.folder.path().join("worktrees")).unwrap()
    }

    fn make(&self) -> Result<PathBuf, lastword_git::Error> {
        let git_dir = self.git_dir();
        self.worktrees().make(WorktreeSpec { id: ID, git_dir: &git_dir, base: &self.base, branch: BRANCH })
    }

    fn record(&self) -> PathBuf {
        self.folder.path().join("worktrees").join(format!("{ID}.json"))
    }

    /// Rewrites the stage in the record.
    fn set_stage(&self, stage: &str) {
        let text = std::fs::read_to_string(self.record()).unwrap();
        std::fs::write(self.record(), text.replace("\"made\"", stage)).unwrap();
    }

    /// Removes every part that the crash did not leave.
    fn leave_only(&self, parts: &[Part]) {
        let folder = self.worktrees().path(ID);
        if !parts.contains(&Part::Branch) {
            git(&self.top(), &["update-ref", "-d", &format!("refs/heads/{BRANCH}")]);
        }
        if !parts.contains(&Part::AdminFolder) {
            std::fs::remove_dir_all(self.git_dir().join("worktrees").join(ID)).unwrap();
        }
        match parts.contains(&Part::Folder) {
            true => ["c", "d"].iter().for_each(|file| std::fs::remove_file(folder.join(file)).unwrap()),
            false => std::fs::remove_dir_all(&folder).unwrap(),
        }
        if parts.contains(&Part::BranchLock) {
            let held = self.git_dir().join(format!("refs/heads/{BRANCH}.lock"));
            std::fs::create_dir_all(held.parent().unwrap()).unwrap();
            std::fs::write(held, "").unwrap();
        }
    }

    /// Lists everything left of the worktree, wherever it is.
    fn left(&self) -> Vec<String> {
        let folders = [self.folder.path().join("worktrees"), self.git_dir().join("worktrees")];
        let entries =
            folders.iter().flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten().flatten());
        let names =
            entries.map(|entry| entry.file_name().into_string().unwrap()).filter(|name| name != "scratch");
        let branches = git(&self.top(), &["branch", "--list", "--format=%(refname)", "lastword/*"]);
        let held = self.git_dir().join(format!("refs/heads/{BRANCH}.lock"));
        let held = held.exists().then(|| "held".to_owned());
        names.chain(branches.lines().map(str::to_owned)).chain(held).collect()
    }
}

/// Returns every subset of the parts.
fn subsets() -> impl Iterator<Item = Vec<Part>> {
    (0..1 << PARTS.len()).map(|bits: u32| {
        PARTS.iter().enumerate().filter(|(at, _)| bits & (1 << at) != 0).map(|(_, part)| *part).collect()
    })
}

#[test]
fn an_interrupted_creation_is_completed_by_the_next_one() {
    for parts in subsets() {
        let place = Place::new();
        place.make().unwrap();
        place.set_stage("\"making\"");
        place.leave_only(&parts);
        let folder = place.make().unwrap_or_else(|error| panic!("{parts:?}: {error}"));
        assert_eq!(git(&folder, &["status", "--porcelain"]), "", "{parts:?}");
        assert_eq!(git(&folder, &["branch", "--show-current"]), BRANCH, "{parts:?}");
        assert_eq!(git(&folder, &["rev-parse", "HEAD"]), place.base, "{parts:?}");
        assert_eq!(git(&place.top(), &["worktree", "list"]).lines().count(), 2, "{parts:?}");
        assert_eq!(place.worktrees().release(ID, Keep::IfChanged).unwrap(), Standing::Absent, "{parts:?}");
        assert!(place.left().is_empty(), "{parts:?}: {:?}", place.left());
    }
}

#[test]
fn an_interrupted_creation_is_removed_when_the_worktree_is_released() {
    for parts in subsets() {
        let place = Place::new();
        place.make().unwrap();
        place.set_stage("\"making\"");
        place.leave_only(&parts);
        assert_eq!(place.worktrees().release(ID, Keep::Always).unwrap(), Standing::Absent, "{parts:?}");
        assert!(place.left().is_empty(), "{parts:?}: {:?}", place.left());
    }
}

#[test]
fn an_interrupted_removal_is_completed_by_the_next_one() {
    for parts in subsets() {
        let place = Place::new();
        place.make().unwrap();
        place.set_stage(&format!("{{\"removing\":{{\"tip\":\"{}\"}}}}", place.base));
        place.leave_only(&parts);
        match parts.contains(&Part::BranchLock) {
            true => place.worktrees().remove(ID),
            false => place.worktrees().release(ID, Keep::Always).map(drop),
        }
        .unwrap_or_else(|error| panic!("{parts:?}: {error}"));
        assert!(place.left().is_empty(), "{parts:?}: {:?}", place.left());
    }
}

#[test]
fn a_branch_that_moved_after_removal_was_decided_is_kept() {
    let place = Place::new();
    let folder = place.make().unwrap();
    place.set_stage(&format!("{{\"removing\":{{\"tip\":\"{}\"}}}}", place.base));
    git(&folder, &["commit", "--quiet", "--allow-empty", "--message", "since"]);
    place.worktrees().release(ID, Keep::Always).unwrap();
    assert_eq!(place.left(), [format!("refs/heads/{BRANCH}")]);
}

#[test]
fn creating_an_existing_worktree_keeps_the_work_in_it() {
    let place = Place::new();
    let folder = place.make().unwrap();
    std::fs::write(folder.join("a"), "work").unwrap();
    std::fs::remove_file(folder.join(".git")).unwrap();
    assert_eq!(place.make().unwrap(), folder, "even if its link to the repository is gone");
    assert_eq!(std::fs::read_to_string(folder.join("a")).unwrap(), "work");
    std::fs::remove_dir_all(&folder).unwrap();
    place.make().unwrap();
    assert_eq!(std::fs::read_to_string(folder.join("a")).unwrap(), "a", "a deleted folder is created again");
}

#[test]
fn commits_survive_the_deletion_of_the_folder() {
    let place = Place::new();
    let folder = place.make().unwrap();
    std::fs::write(folder.join("a"), "work").unwrap();
    git(&folder, &["commit", "--quiet", "--all", "--message", "work"]);
    std::fs::remove_dir_all(&folder).unwrap();
    let standing = place.worktrees().release(ID, Keep::IfChanged).unwrap();
    assert!(matches!(standing, Standing::Unsaved(work) if work.commits == 1));
    place.make().unwrap();
    assert_eq!(std::fs::read_to_string(folder.join("a")).unwrap(), "work");
}

#[test]
fn a_failed_creation_leaves_nothing_behind() {
    let place = Place::new();
    let git_dir = place.git_dir();
    let unknown = "0123456789abcdef0123456789abcdef01234567";
    let wanted = WorktreeSpec { id: ID, git_dir: &git_dir, base: unknown, branch: BRANCH };
    let error = place.worktrees().make(wanted).unwrap_err();
    assert!(error.to_string().contains(unknown), "{error}");
    assert!(place.left().is_empty(), "{:?}", place.left());
    git(&place.top(), &["branch", "lastword"]);
    let error = place.make().unwrap_err();
    assert!(error.to_string().contains("lastword"), "{error}");
    assert!(place.left().is_empty(), "{:?}", place.left());
    let gone = place.folder.path().join("nowhere");
    let error =
        place.worktrees().make(WorktreeSpec { git_dir: &gone, base: &place.base, ..wanted }).unwrap_err();
    assert!(error.to_string().contains("is gone"), "{error}");
    assert!(place.left().is_empty(), "{:?}", place.left());
}

#[test]
fn a_worktree_without_its_repository_is_removed_only_on_request() {
    let place = Place::new();
    let folder = place.make().unwrap();
    std::fs::remove_dir_all(place.git_dir()).unwrap();
    let error = place.worktrees().release(ID, Keep::IfChanged).unwrap_err();
    assert!(error.to_string().contains("is gone"), "{error}");
    assert!(folder.join("a").exists(), "the work may be lost, so nothing is removed");
    place.worktrees().remove(ID).unwrap();
    assert_eq!(std::fs::read_dir(place.folder.path().join("worktrees")).unwrap().count(), 0);
}

#[test]
fn worktrees_of_one_repository_are_created_and_removed_concurrently() {
    let place = Place::new();
    let worktrees = place.worktrees();
    let git_dir = place.git_dir();
    std::thread::scope(|scope| {
        for number in 0..6 {
            let (worktrees, git_dir, base) = (&worktrees, &git_dir, &place.base);
            scope.spawn(move || {
                let (id, branch) = (format!("job_{number}"), format!("lastword/{number}"));
                worktrees.make(WorktreeSpec { id: &id, git_dir, base, branch: &branch }).unwrap();
                assert_eq!(worktrees.release(&id, Keep::IfChanged).unwrap(), Standing::Absent);
            });
        }
    });
    assert!(place.left().is_empty(), "{:?}", place.left());
}

#[test]
fn concurrent_worktree_commands_of_the_user_do_not_make_ours_fail() {
    let place = Place::new();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..2 {
            let (top, done) = (place.top(), &done);
            scope.spawn(move || {
                let folder = format!("../others_{number}");
                // These fail when they collide; that is expected.
                let user =
                    |words: &[&str]| Command::new("git").args(words).current_dir(&top).output().unwrap();
                while !done.load(Ordering::Relaxed) {
                    user(&["worktree", "add", "--quiet", "--force", "--detach", &folder]);
                    user(&["worktree", "remove", "--force", &folder]);
                    user(&["worktree", "prune"]);
                }
            });
        }
        let all = (0..40).map(|_| place.make().and_then(|_| place.worktrees().release(ID, Keep::IfChanged)));
        let failed: Vec<lastword_git::Error> = all.filter_map(Result::err).collect();
        done.store(true, Ordering::Relaxed);
        assert!(failed.is_empty(), "{failed:?}");
    });
}

#[test]
fn a_broken_foreign_worktree_is_reported_and_left_alone() {
    let place = Place::new();
    let others = place.git_dir().join("worktrees/others");
    std::fs::create_dir_all(&others).unwrap();
    std::fs::write(others.join("gitdir"), "/nowhere/.git").unwrap();
    std::fs::write(others.join("HEAD"), &place.base).unwrap();
    std::fs::write(others.join("commondir"), "").unwrap();
    let error = place.make().unwrap_err();
    assert!(error.to_string().contains("worktrees/others"), "{error}");
    assert!(others.join("commondir").exists());
    std::fs::remove_dir_all(&others).unwrap();
    assert_eq!(place.worktrees().release(ID, Keep::Always).unwrap(), Standing::Absent);
    assert!(place.left().is_empty(), "{:?}", place.left());
}

#[test]
fn a_worktree_that_a_git_still_works_on_is_busy() {
    let place = Place::new();
    place.make().unwrap();
    let path = place.folder.path().join("worktrees").join(format!("{ID}.lock"));
    let held = std::fs::File::options().read(true).write(true).open(path).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    assert!(matches!(place.worktrees().release(ID, Keep::IfChanged), Err(lastword_git::Error::Busy)));
    assert!(matches!(place.make(), Err(lastword_git::Error::Busy)));
    // Explicitly: a process forked by another test may hold a copy of the descriptor.
    rustix::fs::flock(&held, rustix::fs::FlockOperation::Unlock).unwrap();
    assert_eq!(place.worktrees().release(ID, Keep::IfChanged).unwrap(), Standing::Absent);
}
