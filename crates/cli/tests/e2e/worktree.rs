//! `run --worktree` with real repositories and the real git, and what happens to the worktree.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::agents::define_agent;
use crate::home::{Home, Output, run_command, until};

/// A repository with one commit: `a`, `b` and `sub/c`, ten lines each.
pub(crate) struct Repository {
    pub(crate) home: Home,
    pub(crate) top: PathBuf,
}

impl Repository {
    pub(crate) fn new() -> Repository {
        let home = Home::new();
        let top = home.path().join("repository");
        std::fs::create_dir_all(top.join("sub")).unwrap();
        let repository = Repository { home, top };
        repository.git(&["init", "--quiet", "--initial-branch=main"]);
        for file in ["a", "b", "sub/c"] {
            let lines: String = (1..=10).map(|line| format!("{file} {line}\n")).collect();
            repository.write(file, &lines);
        }
        repository.commit("first");
        repository
    }

    pub(crate) fn git_in(&self, folder: &Path, words: &[&str]) -> String {
        let mut command = Command::new("git");
        command.args(words).current_dir(folder).env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command.env("HOME", self.home.path());
        for role in ["AUTHOR", "COMMITTER"] {
            command
                .env(format!("GIT_{role}_NAME"), "Ann")
                .env(format!("GIT_{role}_EMAIL"), "ann@example.org");
        }
        let output = run_command(command);
        assert_eq!(output.code, 0, "git {words:?}: {output:?}");
        output.stdout.trim_end().to_owned()
    }

    pub(crate) fn git(&self, words: &[&str]) -> String {
        self.git_in(&self.top, words)
    }

    pub(crate) fn commit(&self, message: &str) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", message]);
    }

    pub(crate) fn write(&self, file: &str, text: &str) {
        std::fs::write(self.top.join(file), text).unwrap();
    }

    pub(crate) fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.top.join(file)).unwrap()
    }

    /// Runs lastword in a folder of the checkout.
    pub(crate) fn lastword_in(&self, folder: &str, words: &[&str]) -> Output {
        let mut command = self.home.command(words);
        command.current_dir(self.top.join(folder));
        run_command(command)
    }

    pub(crate) fn lastword(&self, words: &[&str]) -> Output {
        self.lastword_in("", words)
    }

    /// Runs a script in a worktree and returns the ended job.
    pub(crate) fn work(&self, name: &str, script: &str) -> serde_json::Value {
        let output = self.lastword(&["run", "--worktree", "--name", name, "sh", "-c", script]);
        assert_eq!(output.code, 0, "{output:?}");
        self.home.json(&["show", name])
    }

    /// Lists everything left of worktrees: in their folder, in the repository, and branches.
    pub(crate) fn left(&self) -> Vec<String> {
        let names = |folder: PathBuf| {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            entries.map(|entry| entry.file_name().into_string().unwrap()).filter(|name| name != "scratch")
        };
        let ours = names(self.home.state().join("worktrees"));
        let gits = names(self.top.join(".git/worktrees"));
        let branches = self.git(&["branch", "--list", "--format=%(refname:short)", "lastword/*"]);
        let mut left: Vec<String> = ours.chain(gits).chain(branches.lines().map(str::to_owned)).collect();
        left.sort();
        left
    }

    pub(crate) fn until_nothing_is_left(&self) {
        self.until_nothing_is_left_but(&[]);
    }

    /// Waits until only the worktrees of these jobs are left.
    pub(crate) fn until_nothing_is_left_but(&self, names: &[&str]) {
        let ids: Vec<String> = names
            .iter()
            .flat_map(|name| {
                let job = self.home.json(&["show", name]);
                ["id", "short"].map(|part| job[part].as_str().unwrap().to_owned())
            })
            .collect();
        let is_theirs = |name: &String| ids.iter().any(|id| name.contains(id));
        until("all other worktrees are gone", || self.left().iter().all(is_theirs).then_some(()));
    }
}

pub(crate) fn path_of(job: &serde_json::Value) -> PathBuf {
    job["worktree"]["path"].as_str().unwrap().into()
}

#[test]
fn a_job_has_its_own_worktree_and_branch_and_leaves_the_checkout_alone() {
    let repository = Repository::new();
    repository.write("a", "not committed\n");
    let script =
        "pwd; cat c; git branch --show-current; cat ../a; echo more >> c; echo $PWD; echo ${GIT_DIR-none}";
    let mut command = repository.home.command(&["run", "--worktree", "--name", "fix", "sh", "-c", script]);
    command.current_dir(repository.top.join("sub")).env("GIT_DIR", repository.top.join(".git"));
    let output = run_command(command);
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.stderr.contains("without 1 uncommitted change\n"), "{output:?}");
    let job = repository.home.json(&["show", "fix"]);
    let (path, branch) = (path_of(&job), format!("lastword/fix-{}", job["short"].as_str().unwrap()));
    let folder = path.join("sub").display().to_string();
    let lines: Vec<&str> = output.stdout.lines().collect();
    assert_eq!((lines[0], lines[11], lines[12]), (folder.as_str(), branch.as_str(), "a 1"), "{output:?}");
    assert_eq!(lines[22..], [folder.as_str(), "none"], "no variable points outside of it");
    assert_eq!(job["worktree"]["branch"], branch);
    assert_eq!(job["worktree"]["base"], repository.git(&["rev-parse", "HEAD"]));
    assert_eq!(job["worktree"]["checkout"], repository.top.to_str().unwrap());
    assert_eq!(job["worktree"]["present"], true);
    let mut command = repository.home.command(&["show", "fix"]);
    command.env("COLUMNS", "40");
    let shown = run_command(command).stdout;
    assert!(shown.contains(&format!("  {}\n", path.display())), "its path can be copied: {shown}");
    assert!(std::fs::read_to_string(path.join("sub/c")).unwrap().ends_with("sub/c 10\nmore\n"));
    assert_eq!(repository.git(&["status", "--porcelain"]), " M a", "the checkout is unchanged");
    assert_eq!(repository.read("a"), "not committed\n");
}

#[test]
fn an_unchanged_worktree_is_removed_automatically() {
    let repository = Repository::new();
    repository.work("idle", "cat a");
    repository.until_nothing_is_left();
    assert_eq!(repository.home.json(&["show", "idle"])["worktree"]["present"], false);
    let kept = repository.lastword(&["run", "--worktree=keep", "--name", "kept", "true"]);
    assert_eq!(kept.code, 0, "{kept:?}");
    // The kept worktree is checked only after another one, of a later job, was removed.
    repository.work("idle", "cat a");
    let kept = repository.home.json(&["show", "kept"]);
    until("only the kept one is left", || (repository.left().len() == 5).then_some(()));
    assert!(path_of(&kept).join("a").exists());
    repository.home.ok(&["rm", "kept"]);
    assert!(repository.left().is_empty(), "{:?}", repository.left());
}

#[test]
fn work_is_never_lost_without_force() {
    let repository = Repository::new();
    let job = repository.work(
        "fix",
        "echo more >> a; git add a; git -c user.name=x -c user.email=x commit -qm it; echo b > new",
    );
    let path = path_of(&job);
    let output = repository.home.run(&["rm", "fix"]);
    assert_eq!(output.code, 125, "{output:?}");
    assert!(output.stderr.contains("2 changed files, 1 commit on lastword/fix-"), "{output:?}");
    assert!(
        output.stderr.contains("lastword apply fix") && output.stderr.contains("lastword rm --force fix")
    );
    assert!(path.join("new").exists());
    let pruned = repository.home.run(&["prune", "--older-than", "0s", "--unread", "--yes"]);
    assert!(pruned.stderr.contains("--unsaved deletes such jobs, too"), "{pruned:?}");
    assert!(path.join("new").exists());
    assert_eq!(
        repository.home.json(&["prune", "--older-than", "0s", "--unread", "--yes"])["kept_unsaved"],
        1
    );
    let tip = repository.git(&["rev-parse", job["worktree"]["branch"].as_str().unwrap()]);
    let output = repository.home.run(&["rm", "--force", "fix"]);
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.stderr.contains(&format!("git branch NAME {}", &tip[..10])), "{output:?}");
    assert!(repository.left().is_empty(), "{:?}", repository.left());
    assert_eq!(
        repository.git(&["show", &format!("{tip}:a")]).lines().count(),
        11,
        "the commit that was printed"
    );
}

/// A commit that only the log of a detached HEAD has is gone with the worktree. One that was amended or reset was given up.
#[test]
fn a_commit_on_no_branch_is_not_lost_without_force() {
    let repository = Repository::new();
    let git = "b=$(git branch --show-current); export GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x GIT_COMMITTER_NAME=x GIT_COMMITTER_EMAIL=x";
    let deep = "git checkout -q --detach; echo deep > deep; git add deep; git commit -qm deep; git rev-parse HEAD; git checkout -q $b";
    let output =
        repository.lastword(&["run", "--worktree", "--name", "deep", "sh", "-c", &format!("{git}; {deep}")]);
    assert_eq!(output.code, 0, "{output:?}");
    let commit = output.stdout.trim();
    let path = path_of(&repository.home.json(&["show", "deep"]));
    let refused = repository.home.run(&["rm", "deep"]);
    assert_eq!(refused.code, 125, "{refused:?}");
    let what = format!("was not applied: 1 commit on no branch ({})\n", &commit[..10]);
    let keep = format!("git branch NAME {}", &commit[..10]);
    assert!(refused.stderr.contains(&what) && refused.stderr.contains(&keep), "{refused:?}");
    assert!(!refused.stderr.contains("lastword apply"), "it changed no file: {refused:?}");
    assert!(path.exists());
    let forced = repository.home.run(&["rm", "--force", "deep"]);
    assert!(forced.code == 0 && forced.stderr.contains(&keep), "{forced:?}");
    repository.git(&["branch", "kept", commit]);

    repository.work(
        "given-up",
        &format!(
            "{git}; {}",
            "git checkout -q --detach; echo one > one; git add one; git commit -qm one; \
        git commit -q --amend -m two; git reset -q --hard $b; git checkout -q $b"
        ),
    );
    repository.work("on-kept", &format!("{git}; git checkout -q --detach kept; git checkout -q $b"));
    repository.until_nothing_is_left();
}

/// Ignored files may be results: a job that left some keeps its worktree, and its deletion names them. Builds and caches are no results.
#[test]
fn ignored_results_are_named_and_not_deleted_with_the_last_word() {
    let repository = Repository::new();
    repository.write(".gitignore", "*.log\nout/\ntarget/\n");
    repository.commit("ignores");
    std::fs::create_dir(repository.top.join("target")).unwrap();
    let run = |name: &str, script: &str| {
        let output = repository.lastword(&["run", "--worktree", "--name", name, "sh", "-c", script]);
        assert_eq!(output.code, 0, "{output:?}");
        output.stderr
    };
    let build = "mkdir target; echo built > target/it";
    assert_eq!(run("build", build), "");
    repository.until_nothing_is_left();
    let said = run("train", &format!("{build}; mkdir out; echo model > out/model; echo > sub/result.log"));
    let path = path_of(&repository.home.json(&["show", "train"]));
    let left = format!("files that git ignores: out/, sub/result.log; they are in {} until", path.display());
    assert!(said.contains(&left), "{said}");
    // The daemon looks at it once more when it starts.
    repository.home.ok(&["daemon", "restart"]);
    run("build-again", build);
    repository.until_nothing_is_left_but(&["train"]);
    assert!(path.join("out/model").exists());
    let deleted = repository.home.run(&["rm", "train"]);
    assert_eq!(deleted.code, 0, "{deleted:?}");
    assert!(deleted.stderr.contains("ignores them: out/, sub/result.log, target/\n"), "{deleted:?}");
    repository.until_nothing_is_left();
}

#[test]
fn a_worktree_stays_while_a_resumed_agent_runs_in_it() {
    let repository = Repository::new();
    let home = &repository.home;
    define_agent(home);
    let output = repository.lastword(&["run", "--worktree", "--agent", "echo", "--name", "fix", "write new"]);
    assert_eq!(output.code, 0, "{output:?}");
    let first = home.json(&["show", "fix"]);
    let (first_id, path) = (first["id"].as_str().unwrap(), path_of(&first));
    let resumed = home.ok(&["resume", "-d", "fix", "write later\nwait"]);
    until("the resumed agent works in the worktree", || path.join("later").exists().then_some(()));
    let short = home.json(&["show", &resumed])["short"].as_str().unwrap().to_owned();
    for (words, why) in [
        (&["rm", first_id][..], "is one of 2 jobs of a conversation, which is removed as a whole".to_owned()),
        (
            &["rm", "--force", first_id],
            format!("lastword conversation rm {}", &first_id[first_id.len() - 8..]),
        ),
        (&["rm", "fix"], "has not ended".to_owned()),
        (&["conversation", "rm", first_id], format!("fix ({short})")),
    ] {
        let output = home.run(words);
        assert!(output.code == 125 && output.stderr.contains(&why), "{words:?}: {output:?}");
    }
    let everything = ["prune", "--older-than", "0s", "--unread", "--unsaved", "--yes"];
    let pruned = home.json(&everything);
    assert_eq!((&pruned["removed"], &pruned["kept_in_use"]), (&0.into(), &0.into()), "{pruned}");
    assert!(path.join("new").exists() && path.join("later").exists());
    assert_eq!(home.json(&["show", &resumed])["phase"], "running");
    // The changes of both jobs are in the worktree of the conversation, and are not lost without force.
    assert_eq!(home.run(&["cancel", &resumed]).code, 0);
    let output = home.run(&["rm", "fix"]);
    assert!(output.code == 125 && output.stderr.contains("2 changed files"), "{output:?}");
    assert!(path.join("later").exists());
    assert!(home.ok(&["rm", "--force", "fix"]).is_empty());
    assert!(repository.left().is_empty(), "{:?}", repository.left());
}

#[test]
fn work_merged_into_another_branch_can_be_deleted_with_the_job() {
    let repository = Repository::new();
    let job = repository.work("fix", "echo more >> a; git -c user.name=x -c user.email=x commit -qam it");
    assert_ne!(repository.home.run(&["rm", "fix"]).code, 0);
    repository.git(&["merge", "--quiet", job["worktree"]["branch"].as_str().unwrap()]);
    repository.home.ok(&["rm", "fix"]);
    assert!(repository.left().is_empty(), "{:?}", repository.left());
    let job = repository.work("again", "echo b >> b");
    let pruned = repository.home.ok(&["prune", "--older-than", "0s", "--unread", "--unsaved", "--yes"]);
    assert_eq!(pruned, "1 ended job deleted");
    assert!(repository.left().is_empty() && !path_of(&job).exists(), "{:?}", repository.left());
}

#[test]
fn nothing_is_started_if_no_worktree_can_be_created() {
    let repository = Repository::new();
    let check = |folder: &Path, why: &str| {
        let mut command = repository.home.command(&["run", "--worktree", "touch", "ran"]);
        command.current_dir(folder);
        let output = run_command(command);
        assert_eq!(output.code, 2, "{output:?}");
        assert!(output.stderr.contains(why), "{why}: {output:?}");
    };
    let place = |name: &str| {
        let place = repository.home.path().join(name);
        std::fs::create_dir_all(&place).unwrap();
        place
    };
    check(&place("plain"), "not a git repository");
    let bare = place("bare");
    repository.git_in(&bare, &["init", "--quiet", "--bare"]);
    check(&bare, "there is no checkout here");
    check(&repository.top.join(".git"), "there is no checkout here");
    let empty = place("empty");
    repository.git_in(&empty, &["init", "--quiet"]);
    check(&empty, "has no commits");
    let new = repository.top.join("new");
    std::fs::create_dir(&new).unwrap();
    check(&new, "not part of the checked-out commit");
    let mut command = repository.home.command(&["run", "--worktree", "true"]);
    command.current_dir(&repository.top).env("PATH", "/nowhere");
    let output = run_command(command);
    assert!(output.code == 125 && output.stderr.contains("git is not installed"), "{output:?}");
    assert_eq!(repository.home.json(&["ls", "-a"])["items"].as_array().unwrap().len(), 0);
}
