//! What any crash may leave of a worktree is made good: by whoever makes it again, and by whoever takes it away.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]
#![expect(clippy::disallowed_methods, reason = "a user runs git")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use lastword_git::{Git, Left, Standing, Wanted, Worktrees};

const ID: &str = "job_1";
const BRANCH: &str = "lastword/fix";

/// A repository, and a place for worktrees.
struct Place {
    folder: tempfile::TempDir,
    base: String,
}

/// A part of a worktree that a crash may or may not leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Its branch.
    Branch,
    /// What git keeps of it in the repository.
    Own,
    /// The folder, as far as it was written: half of the files.
    Folder,
    /// The lock that a git that was killed held on the branch.
    Held,
}

const PARTS: [Part; 4] = [Part::Branch, Part::Own, Part::Folder, Part::Held];

fn git(folder: &Path, words: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(words).current_dir(folder).env("GIT_CONFIG_GLOBAL", "/dev/null");
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "Ann").env(format!("GIT_{who}_EMAIL"), "ann@example.org");
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

    /// Worktrees as a process that has just started has them.
    fn worktrees(&self) -> Worktrees {
        let git = Git::new(std::env::vars_os());
        Worktrees::new(git, &self.folder.path().join("worktrees")).unwrap()
    }

    fn make(&self) -> Result<PathBuf, lastword_git::Error> {
        let git_dir = self.git_dir();
        self.worktrees().make(Wanted { id: ID, git_dir: &git_dir, base: &self.base, branch: BRANCH })
    }

    fn record(&self) -> PathBuf {
        self.folder.path().join("worktrees").join(format!("{ID}.json"))
    }

    /// Has the record say another stage.
    fn at_stage(&self, stage: &str) {
        let text = std::fs::read_to_string(self.record()).unwrap();
        std::fs::write(self.record(), text.replace("\"made\"", stage)).unwrap();
    }

    /// Takes away what a crash did not leave.
    fn leave_only(&self, parts: &[Part]) {
        let folder = self.worktrees().path(ID);
        if !parts.contains(&Part::Branch) {
            git(&self.top(), &["update-ref", "-d", &format!("refs/heads/{BRANCH}")]);
        }
        if !parts.contains(&Part::Own) {
            std::fs::remove_dir_all(self.git_dir().join("worktrees").join(ID)).unwrap();
        }
        match parts.contains(&Part::Folder) {
            true => ["c", "d"].iter().for_each(|file| std::fs::remove_file(folder.join(file)).unwrap()),
            false => std::fs::remove_dir_all(&folder).unwrap(),
        }
        if parts.contains(&Part::Held) {
            let held = self.git_dir().join(format!("refs/heads/{BRANCH}.lock"));
            std::fs::create_dir_all(held.parent().unwrap()).unwrap();
            std::fs::write(held, "").unwrap();
        }
    }

    /// Everything that there is of a worktree, anywhere.
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

/// Every set of parts.
fn sets() -> impl Iterator<Item = Vec<Part>> {
    (0..1 << PARTS.len()).map(|bits: u32| {
        PARTS.iter().enumerate().filter(|(at, _)| bits & (1 << at) != 0).map(|(_, part)| *part).collect()
    })
}

#[test]
fn whatever_is_half_made_is_made_whole_by_the_next() {
    for parts in sets() {
        let place = Place::new();
        place.make().unwrap();
        place.at_stage("\"making\"");
        place.leave_only(&parts);
        let folder = place.make().unwrap_or_else(|error| panic!("{parts:?}: {error}"));
        assert_eq!(git(&folder, &["status", "--porcelain"]), "", "{parts:?}");
        assert_eq!(git(&folder, &["branch", "--show-current"]), BRANCH, "{parts:?}");
        assert_eq!(git(&folder, &["rev-parse", "HEAD"]), place.base, "{parts:?}");
        assert_eq!(git(&place.top(), &["worktree", "list"]).lines().count(), 2, "{parts:?}");
        assert_eq!(place.worktrees().leave(ID, Left::IfChanged).unwrap(), Standing::Absent, "{parts:?}");
        assert!(place.left().is_empty(), "{parts:?}: {:?}", place.left());
    }
}

#[test]
fn whatever_is_half_made_goes_if_nobody_wants_it_any_more() {
    for parts in sets() {
        let place = Place::new();
        place.make().unwrap();
        place.at_stage("\"making\"");
        place.leave_only(&parts);
        assert_eq!(place.worktrees().leave(ID, Left::Always).unwrap(), Standing::Absent, "{parts:?}");
        assert!(place.left().is_empty(), "{parts:?}: {:?}", place.left());
    }
}

#[test]
fn whatever_is_half_removed_is_removed_by_the_next() {
    for parts in sets() {
        let place = Place::new();
        place.make().unwrap();
        place.at_stage(&format!("{{\"removing\":{{\"tip\":\"{}\"}}}}", place.base));
        place.leave_only(&parts);
        match parts.contains(&Part::Held) {
            true => place.worktrees().remove(ID),
            false => place.worktrees().leave(ID, Left::Always).map(drop),
        }
        .unwrap_or_else(|error| panic!("{parts:?}: {error}"));
        assert!(place.left().is_empty(), "{parts:?}: {:?}", place.left());
    }
}

#[test]
fn a_branch_that_has_moved_since_its_removal_was_decided_stays() {
    let place = Place::new();
    let folder = place.make().unwrap();
    place.at_stage(&format!("{{\"removing\":{{\"tip\":\"{}\"}}}}", place.base));
    git(&folder, &["commit", "--quiet", "--allow-empty", "--message", "since"]);
    place.worktrees().leave(ID, Left::Always).unwrap();
    assert_eq!(place.left(), [format!("refs/heads/{BRANCH}")]);
}

#[test]
fn what_is_made_is_found_made_with_the_work_that_is_in_it() {
    let place = Place::new();
    let folder = place.make().unwrap();
    std::fs::write(folder.join("a"), "work").unwrap();
    std::fs::remove_file(folder.join(".git")).unwrap();
    assert_eq!(place.make().unwrap(), folder, "whatever was done to it");
    assert_eq!(std::fs::read_to_string(folder.join("a")).unwrap(), "work");
    std::fs::remove_dir_all(&folder).unwrap();
    place.make().unwrap();
    assert_eq!(std::fs::read_to_string(folder.join("a")).unwrap(), "a", "what is gone is made anew");
}

#[test]
fn commits_outlive_a_folder_that_somebody_removed() {
    let place = Place::new();
    let folder = place.make().unwrap();
    std::fs::write(folder.join("a"), "work").unwrap();
    git(&folder, &["commit", "--quiet", "--all", "--message", "work"]);
    std::fs::remove_dir_all(&folder).unwrap();
    let standing = place.worktrees().leave(ID, Left::IfChanged).unwrap();
    assert!(matches!(standing, Standing::Unsaved(work) if work.commits == 1));
    place.make().unwrap();
    assert_eq!(std::fs::read_to_string(folder.join("a")).unwrap(), "work");
}

#[test]
fn what_cannot_be_made_leaves_nothing() {
    let place = Place::new();
    let git_dir = place.git_dir();
    let unknown = "0123456789abcdef0123456789abcdef01234567";
    let wanted = Wanted { id: ID, git_dir: &git_dir, base: unknown, branch: BRANCH };
    let error = place.worktrees().make(wanted).unwrap_err();
    assert!(error.to_string().contains(unknown), "{error}");
    assert!(place.left().is_empty(), "{:?}", place.left());
    git(&place.top(), &["branch", "lastword"]);
    let error = place.make().unwrap_err();
    assert!(error.to_string().contains("lastword"), "{error}");
    assert!(place.left().is_empty(), "{:?}", place.left());
    let gone = place.folder.path().join("nowhere");
    let error = place.worktrees().make(Wanted { git_dir: &gone, base: &place.base, ..wanted }).unwrap_err();
    assert!(error.to_string().contains("is gone"), "{error}");
    assert!(place.left().is_empty(), "{:?}", place.left());
}

#[test]
fn a_worktree_whose_repository_is_gone_can_be_removed_and_nothing_is_said_of_its_work() {
    let place = Place::new();
    let folder = place.make().unwrap();
    std::fs::remove_dir_all(place.git_dir()).unwrap();
    let error = place.worktrees().leave(ID, Left::IfChanged).unwrap_err();
    assert!(error.to_string().contains("is gone"), "{error}");
    assert!(folder.join("a").exists(), "who cannot say that nothing is lost removes nothing");
    place.worktrees().remove(ID).unwrap();
    assert_eq!(std::fs::read_dir(place.folder.path().join("worktrees")).unwrap().count(), 0);
}

#[test]
fn several_are_made_and_removed_at_once_in_one_repository() {
    let place = Place::new();
    let worktrees = place.worktrees();
    let git_dir = place.git_dir();
    std::thread::scope(|scope| {
        for number in 0..6 {
            let (worktrees, git_dir, base) = (&worktrees, &git_dir, &place.base);
            scope.spawn(move || {
                let (id, branch) = (format!("job_{number}"), format!("lastword/{number}"));
                worktrees.make(Wanted { id: &id, git_dir, base, branch: &branch }).unwrap();
                assert_eq!(worktrees.leave(&id, Left::IfChanged).unwrap(), Standing::Absent);
            });
        }
    });
    assert!(place.left().is_empty(), "{:?}", place.left());
}

#[test]
fn gits_of_others_that_make_worktrees_at_the_same_time_hold_nobody_up() {
    let place = Place::new();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..2 {
            let (top, is_over) = (place.top(), &is_over);
            scope.spawn(move || {
                let folder = format!("../others_{number}");
                // They fail over each other, as git does.
                let user =
                    |words: &[&str]| Command::new("git").args(words).current_dir(&top).output().unwrap();
                while !is_over.load(Ordering::Relaxed) {
                    user(&["worktree", "add", "--quiet", "--force", "--detach", &folder]);
                    user(&["worktree", "remove", "--force", &folder]);
                    user(&["worktree", "prune"]);
                }
            });
        }
        let all = (0..40).map(|_| place.make().and_then(|_| place.worktrees().leave(ID, Left::IfChanged)));
        let failed: Vec<lastword_git::Error> = all.filter_map(Result::err).collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(failed.is_empty(), "{failed:?}");
    });
}

#[test]
fn what_a_git_of_somebody_else_left_half_made_is_named_and_waits_for_them() {
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
    assert_eq!(place.worktrees().leave(ID, Left::Always).unwrap(), Standing::Absent);
    assert!(place.left().is_empty(), "{:?}", place.left());
}

#[test]
fn nothing_is_touched_while_a_git_is_at_work_on_it() {
    let place = Place::new();
    place.make().unwrap();
    let path = place.folder.path().join("worktrees").join(format!("{ID}.lock"));
    let held = std::fs::File::options().read(true).write(true).open(path).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    assert!(matches!(place.worktrees().leave(ID, Left::IfChanged), Err(lastword_git::Error::Busy)));
    assert!(matches!(place.make(), Err(lastword_git::Error::Busy)));
    // Said: a git that another test is just starting may have it open too.
    rustix::fs::flock(&held, rustix::fs::FlockOperation::Unlock).unwrap();
    assert_eq!(place.worktrees().leave(ID, Left::IfChanged).unwrap(), Standing::Absent);
}
