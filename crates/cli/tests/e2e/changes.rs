//! `diff` and `apply`: shows and applies what a job changed in its worktree.

use lastword_client::output::Piece;
use lastword_client::{Call, Client, Unix, changes};
use serde_json::Value;

use crate::home::run_command;
use crate::plain::plain;
use crate::worktree::{Repository, path_of};

/// Changes a line, deletes a file, creates one in a new folder, renames one, and commits half of that.
const MUCH: &str = "sed -i 's/^a 5$/a five/' a; git -c user.name=x -c user.email=x commit -qam half; rm b; mkdir new; \
    echo one > new/file; git mv sub/c sub/d; printf '\\000\\001' > bytes; ln -s a link; chmod +x a";

/// Returns everything in the checkout: names, modes and contents.
fn files(repository: &Repository) -> String {
    let script = "find . -path ./.git -prune -o -print | sort | while read -r f; do stat -c '%n %A' \"$f\"; \
        test -f \"$f\" && cat \"$f\"; done; git ls-files --stage; git rev-parse HEAD; git stash list";
    let mut command = std::process::Command::new("sh");
    command.args(["-c", script]).current_dir(&repository.top);
    run_command(command).stdout
}

#[test]
fn a_diff_shows_committed_uncommitted_and_untracked_changes() {
    let repository = Repository::new();
    repository.write(".gitignore", "ignored\n");
    repository.commit("ignores");
    repository.work("much", &format!("{MUCH}; echo x > ignored"));
    let before = files(&repository);
    let home = &repository.home;
    insta::assert_snapshot!("diff", plain(home, &home.ok(&["diff", "much"])));
    insta::assert_snapshot!("diff_stat", plain(home, &home.ok(&["diff", "--stat", "much"])));
    let colour = home.ok(&["--color", "always", "diff", "much"]).replace('\u{1b}', "^");
    assert!(colour.contains("^[31m-a 5^[0m\n^[32m+a five^[0m"), "{colour}");
    let mut json = home.json(&["diff", "much"]);
    for (name, stands) in [("job", "<id>"), ("base", "<commit>"), ("branch", "<branch>")] {
        json[name] = stands.into();
    }
    insta::assert_snapshot!("json_diff", serde_json::to_string_pretty(&json).unwrap());
    assert_eq!(files(&repository), before, "a diff changes nothing");
    let objects = repository.git(&["count-objects", "-v"]);
    home.ok(&["diff", "much"]);
    assert_eq!(repository.git(&["count-objects", "-v"]), objects, "not even the repository");
}

/// Programs get from the daemon what `diff` shows.
#[test]
fn the_daemon_tells_what_diff_shows_file_by_file() {
    let repository = Repository::new();
    repository.work("much", &format!("{MUCH}; echo '*' > '*.rs'; echo 1 > x.rs"));
    let home = &repository.home;
    let shown = home.json(&["diff", "much"]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = Client::new(Unix(home.state().join("lastword.sock")), |_| {});
    let told = runtime.block_on(client.call(&changes::list("much"))).unwrap();
    let told = serde_json::to_value(&told).unwrap();
    for name in ["base", "branch", "added", "deleted"] {
        assert_eq!(told[name], shown[name], "{name}");
    }
    let (files, listed) = (told["files"].as_array().unwrap(), shown["files"].as_array().unwrap());
    assert_eq!(files.len(), listed.len());
    for (file, listed) in files.iter().zip(listed) {
        for name in ["path", "from", "kind", "added", "deleted"] {
            assert_eq!(file.get(name).unwrap_or(&Value::Null), &listed[name], "{file} {listed}");
        }
    }
    // The whole patch in parts of any size, and each file's own, which together are the whole.
    let patch = |path: Option<&str>, limit: u64| {
        let (mut patch, mut offset) = (Vec::new(), 0);
        loop {
            let piece = runtime.block_on(client.call(&changes::patch("much", path, offset, limit))).unwrap();
            patch.extend_from_slice(&piece.bytes);
            offset = piece.next;
            if offset >= piece.size {
                return String::from_utf8(patch).unwrap();
            }
        }
    };
    let whole = patch(None, 262_144);
    assert_eq!(whole, format!("{}\n", home.ok(&["diff", "much"])));
    assert_eq!(patch(None, 100), whole);
    let each = files.iter().map(|file| patch(file["path"].as_str(), 4_096)).collect::<String>();
    assert_eq!(each, whole, "a renamed file is one, and a name is no pattern");
    let problem = |call: &Call<Piece>| runtime.block_on(client.call(call)).unwrap_err().to_string();
    let missing = problem(&changes::patch("much", Some("sub/c"), 0, 10));
    assert!(missing.contains("no change of `sub/c`"), "{missing}");
    home.ok(&["run", "--name", "plain", "true"]);
    let without = problem(&changes::patch("plain", None, 0, 10));
    assert!(without.contains("was not run with a worktree"), "{without}");
}

#[test]
fn a_diff_works_while_the_job_runs_and_for_a_job_that_changed_nothing() {
    let repository = Repository::new();
    let go = repository.home.path().join("go");
    let script = format!("echo more >> a; echo ready; while [ ! -e {} ]; do sleep 0.01; done", go.display());
    let start = ["run", "-d", "--worktree", "--name", "busy", "sh", "-c", &script];
    assert_eq!(repository.lastword(&start).code, 0);
    crate::home::until("it wrote", || repository.home.ok(&["logs", "busy"]).contains("ready").then_some(()));
    assert!(repository.home.ok(&["diff", "busy"]).ends_with("+more"));
    let refused = repository.home.run(&["apply", "busy"]);
    assert!(refused.code == 125 && refused.stderr.contains("lastword wait busy"), "{refused:?}");
    std::fs::write(&go, "").unwrap();
    assert_eq!(repository.home.run(&["wait", "busy"]).code, 0);
    assert_eq!(repository.home.run(&["apply", "busy"]).code, 0);
    repository.work("idle", "true");
    repository.until_nothing_is_left_but(&["busy"]);
    for verb in ["diff", "apply"] {
        let output = repository.home.run(&[verb, "idle"]);
        assert_eq!((output.code, output.stdout.as_str()), (0, ""), "{output:?}");
        assert!(output.stderr.contains("changed nothing"), "{output:?}");
    }
    repository.home.ok(&["run", "--name", "plain", "true"]);
    let output = repository.home.run(&["diff", "plain"]);
    assert!(output.code == 125 && output.stderr.contains("was not run with --worktree"), "{output:?}");
}

#[test]
fn changes_are_applied_once_and_the_job_can_then_be_deleted() {
    let repository = Repository::new();
    let job = repository.work("much", MUCH);
    let (head, index) = (repository.git(&["rev-parse", "HEAD"]), repository.git(&["ls-files", "--stage"]));
    let would = repository.home.ok(&["apply", "--dry-run", "much"]);
    assert!(would.starts_with("7 files would be changed in "), "{would}");
    assert_eq!(repository.git(&["status", "--porcelain"]), "");
    let output = repository.home.run(&["apply", "much"]);
    assert_eq!(output.code, 0, "{output:?}");
    insta::assert_snapshot!("apply", plain(&repository.home, &format!("{}{}", output.stdout, output.stderr)));
    let theirs = path_of(&job);
    for file in ["a", "new/file", "sub/d", "bytes"] {
        assert_eq!(
            std::fs::read(repository.top.join(file)).unwrap(),
            std::fs::read(theirs.join(file)).unwrap()
        );
    }
    assert!(!repository.top.join("b").exists() && !repository.top.join("sub/c").exists());
    assert_eq!(std::fs::read_link(repository.top.join("link")).unwrap(), std::path::Path::new("a"));
    assert_eq!(repository.git(&["ls-files", "--stage"]), index, "nothing is staged");
    assert_eq!(repository.git(&["rev-parse", "HEAD"]), head, "nothing is committed");
    let before = files(&repository);
    let again = repository.home.run(&["apply", "much"]);
    assert!(again.code == 0 && again.stderr.contains("all changes are already in"), "{again:?}");
    assert_eq!(files(&repository), before);
    repository.write("a", "worked on since\n");
    repository.home.ok(&["rm", "much"]);
    assert!(repository.left().is_empty(), "{:?}", repository.left());
    assert_eq!(repository.read("a"), "worked on since\n");
}

#[test]
fn changes_are_merged_with_later_commits_and_unrelated_files() {
    let repository = Repository::new();
    repository.work("fix", "sed -i 's/^a 9$/a nine/' a");
    repository.write("a", &repository.read("a").replace("a 1\n", "a one\n"));
    repository.commit("since");
    repository.write("b", "not committed\n");
    repository.home.ok(&["apply", "fix"]);
    let merged = repository.read("a");
    assert!(merged.contains("a one\n") && merged.contains("a nine\n"), "{merged}");
    assert_eq!(repository.read("b"), "not committed\n");
    assert_eq!(repository.git(&["diff", "--numstat", "a"]), "1\t1\ta");
    repository.commit("theirs, too");
    let again = repository.home.run(&["apply", "fix"]);
    assert!(again.code == 0 && again.stderr.contains("already"), "even once it is committed: {again:?}");
}

#[test]
fn an_apply_that_would_lose_work_changes_nothing() {
    let repository = Repository::new();
    repository.work("fix", "sed -i 's/^a 5$/a five/' a; echo more >> b; mkdir new; echo x > new/file");
    let refused = |why: &str, file: &str| {
        let before = files(&repository);
        let output = repository.home.run(&["apply", "fix"]);
        assert_eq!(output.code, 125, "{output:?}");
        assert!(
            output.stderr.contains(why) && output.stderr.contains(&format!("\n    {file}\n")),
            "{why}: {output:?}"
        );
        assert_eq!(files(&repository), before, "nothing was changed: {why}");
        output.stderr
    };
    repository.write("b", "not committed\n");
    let words = refused("have uncommitted changes", "b");
    insta::assert_snapshot!("apply_uncommitted", plain(&repository.home, &words));
    repository.git(&["checkout", "--quiet", "b"]);
    repository.write("new", "a file where a folder would be\n");
    refused("have uncommitted changes", "new/file");
    std::fs::remove_file(repository.top.join("new")).unwrap();
    std::os::unix::fs::symlink("/tmp", repository.top.join("new")).unwrap();
    refused("have uncommitted changes", "new/file");
    std::fs::remove_file(repository.top.join("new")).unwrap();
    repository.write("a", &repository.read("a").replace("a 5\n", "a fünf\n"));
    repository.commit("the same line");
    let words = refused("conflict with commits", "a");
    insta::assert_snapshot!("apply_conflict", plain(&repository.home, &words));
    std::fs::remove_file(repository.top.join("a")).unwrap();
    repository.commit("gone");
    refused("conflict with commits", "a");
    std::fs::remove_dir_all(&repository.top).unwrap();
    let output = repository.home.run(&["apply", "fix"]);
    assert!(output.code == 125 && output.stderr.contains("is gone"), "{output:?}");
}

/// A filter of the user saves a file after `apply` has compared it, and before it is written.
#[test]
fn a_save_during_apply_is_not_overwritten() {
    let repository = Repository::new();
    repository.write(".gitattributes", "a filter=busy\n");
    repository.commit("attributes");
    repository.work("race", "for file in a b sub/c; do echo theirs >> $file; done; echo new > new");
    let save = format!("echo mine >> {}; cat", repository.top.join("b").display());
    repository.git(&["config", "--global", "filter.busy.smudge", &save]);
    let before = files(&repository);
    let output = repository.home.run(&["apply", "race"]);
    assert_eq!(output.code, 125, "{output:?}");
    assert!(output.stderr.contains("files it would overwrite were saved meanwhile\n    b\n"), "{output:?}");
    assert!(repository.read("b").ends_with("b 10\nmine\n"));
    repository.write("b", &repository.read("b").replace("mine\n", ""));
    assert_eq!(files(&repository), before, "nothing else was changed");
    repository.git(&["config", "--global", "--unset", "filter.busy.smudge"]);
    assert_eq!(repository.home.run(&["apply", "race"]).code, 0);
    assert!(repository.read("b").ends_with("b 10\ntheirs\n"));
}

#[test]
fn a_failed_apply_is_undone() {
    let repository = Repository::new();
    repository.work("fix", "echo more >> a; rm b; rm -r sub; echo x > zone");
    let zone = repository.top.join("zone");
    std::fs::create_dir(&zone).unwrap();
    repository.write("zone/precious", "of nobody but the user\n");
    let before = files(&repository);
    let refused = repository.home.run(&["apply", "fix"]);
    assert!(refused.code == 125 && refused.stderr.contains("zone is in the way"), "{refused:?}");
    assert_eq!(files(&repository), before, "all or nothing");
    std::fs::remove_dir_all(&zone).unwrap();
    repository.home.ok(&["apply", "fix"]);
    assert_eq!(repository.read("zone"), "x\n");
    assert!(!repository.top.join("b").exists() && !repository.top.join("sub").exists());
}

/// Commits in a job.
const COMMIT: &str = "git -c user.name=x -c user.email=x commit -qm work";

#[test]
fn commits_without_file_changes_are_not_applied_and_not_lost() {
    let repository = Repository::new();
    let home = &repository.home;
    for (name, script) in [
        ("elsewhere", format!("echo q > q; git add q; {COMMIT}; git checkout -q --detach HEAD~1")),
        ("undone", format!("echo r > r; git add r; {COMMIT}; git rm -q r")),
    ] {
        let job = repository.work(name, &script);
        let tip = repository.git(&["rev-parse", job["worktree"]["branch"].as_str().unwrap()]);
        for _ in 0..2 {
            let refused = home.run(&["rm", name]);
            assert!(refused.code == 125 && refused.stderr.contains("git merge lastword/"), "{refused:?}");
            let output = home.run(&["apply", name]);
            assert!(output.code == 0 && output.stderr.contains("git merge lastword/"), "{output:?}");
        }
        assert_eq!(repository.git(&["cat-file", "-t", &tip]), "commit");
        repository.git(&["merge", "--quiet", "--no-edit", job["worktree"]["branch"].as_str().unwrap()]);
    }
}

#[test]
fn explicitly_added_ignored_files_are_applied() {
    let repository = Repository::new();
    repository.write(".gitignore", "dist/\n*.log\n");
    repository.commit("ignores");
    let home = &repository.home;
    for (name, script) in [
        ("committed", format!("mkdir -p dist; echo one > dist/one; git add -f dist/one; {COMMIT}")),
        (
            "staged",
            "mkdir -p dist; echo two > dist/two; git add -f dist/two; echo x > dist/ignored".to_owned(),
        ),
    ] {
        repository.work(name, &script);
        let file = if name == "staged" { "dist/two" } else { "dist/one" };
        let shown = home.ok(&["diff", "--stat", name]);
        assert!(shown.contains(file) && !shown.contains("ignored"), "{shown}");
        home.ok(&["apply", name]);
        assert!(repository.top.join(file).exists());
        assert!(!repository.top.join("dist/ignored").exists());
        home.ok(&["rm", name]);
    }
}

#[test]
fn concurrent_applies_are_serialized() {
    let repository = Repository::new();
    repository.work("many", "for i in $(seq 300); do echo $i > n$i; done");
    let output = std::thread::scope(|scope| {
        let each: Vec<_> = (0..4).map(|_| scope.spawn(|| repository.home.run(&["apply", "many"]))).collect();
        each.into_iter().map(|one| one.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(output.iter().all(|output| output.code == 0), "{output:?}");
    assert_eq!(
        output.iter().filter(|output| output.stdout.contains("300 files were changed")).count(),
        1,
        "{output:?}"
    );
    assert!((1..=300).all(|n| repository.top.join(format!("n{n}")).exists()));
    repository.home.ok(&["rm", "many"]);
}

#[test]
fn files_that_became_folders_and_vice_versa_are_applied_once() {
    let repository = Repository::new();
    repository.work("swapped", "rm a; mkdir a; echo z > a/x; rm -r sub; echo z > sub");
    let first = repository.home.ok(&["apply", "swapped"]);
    assert!(first.contains("were changed"), "{first}");
    assert_eq!((repository.read("a/x").as_str(), repository.read("sub").as_str()), ("z\n", "z\n"));
    let again = repository.home.run(&["apply", "swapped"]);
    assert!(again.code == 0 && again.stderr.contains("all changes are already in"), "{again:?}");
    repository.home.ok(&["rm", "swapped"]);
}
