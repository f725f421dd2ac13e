//! Worktrees of unusual, broken, hostile or deleted repositories.

use std::path::Path;

use crate::home::{run_command, until};
use crate::plain::plain;
use crate::worktree::{Repository, path_of};

#[test]
fn show_prints_the_worktree_and_its_branch() {
    let repository = Repository::new();
    repository.work("fix", "echo more >> a");
    let shown = repository.home.ok(&["show", "fix"]);
    let base = repository.git(&["rev-parse", "HEAD"]);
    let details: Vec<&str> =
        shown.lines().filter(|line| line.contains("worktree") || line.contains("branch")).collect();
    // Before `plain`, which takes a commit id of digits alone for a number.
    let details = details.join("\n").replace(&base[..10], "<commit>");
    let details = plain(&repository.home, &details);
    insta::assert_snapshot!("show_worktree", details);
}

#[test]
fn configuration_left_by_a_job_is_never_executed() {
    let repository = Repository::new();
    let trap = repository.home.path().join("trap.sh");
    let sprung = repository.home.path().join("sprung");
    std::fs::write(&trap, format!("#!/bin/sh\necho \"$0 $*\" >> {}\ncat\n", sprung.display())).unwrap();
    let script = format!(
        "signed=$(git cat-file commit HEAD | sed 's/^committer .*/&\\ngpgsig -----BEGIN PGP SIGNATURE-----\\n x\\n -----END PGP SIGNATURE-----/' \
         | git hash-object -t commit -w --stdin); git tag signed $signed; git checkout -q --detach signed; git checkout -q -; \
         git config log.showSignature true; chmod +x {trap}; for setting in gpg.program core.fsmonitor filter.evil.clean filter.evil.smudge filter.evil.process diff.external \
         diff.evil.textconv core.sshCommand core.pager credential.helper core.alternateRefsCommand; do \
         git config $setting {trap}; done; git config filter.evil.required true; \
         echo '* filter=evil diff=evil' > .gitattributes; hooks=$(git rev-parse --git-common-dir)/hooks; mkdir -p $hooks; \
         for hook in post-checkout reference-transaction post-index-change pre-commit; do cp {trap} $hooks/$hook; done; \
         git config core.hooksPath $hooks; echo more >> a; rm b",
        trap = trap.display()
    );
    let job = repository.work("evil", &script);
    let home = &repository.home;
    assert!(home.ok(&["diff", "evil"]).contains("+more"));
    home.ok(&["diff", "--stat", "evil"]);
    home.ok(&["--json", "diff", "evil"]);
    home.ok(&["apply", "evil"]);
    assert!(repository.read("a").ends_with("more\n"));
    repository.write("a", "changed again\n");
    let again = repository.lastword(&["run", "--worktree", "--name", "after", "true"]);
    assert_eq!(again.code, 0, "{again:?}");
    repository.until_nothing_is_left_but(&["evil"]);
    home.ok(&["rm", "evil"]);
    assert!(!path_of(&job).exists());
    assert_eq!(std::fs::read_to_string(&sprung).unwrap_or_default(), "", "none of it was run");
    // A plain git runs it.
    let mut git = std::process::Command::new("git");
    git.arg("status").current_dir(&repository.top);
    run_command(git);
    assert!(sprung.exists(), "the trap works");
}

#[test]
fn a_checkout_may_be_detached_a_worktree_or_a_submodule() {
    let repository = Repository::new();
    let job_in = |folder: &Path, name: &str| {
        let mut command = repository.home.command(&[
            "run",
            "--worktree",
            "--name",
            name,
            "sh",
            "-c",
            "echo more >> a; pwd",
        ]);
        command.current_dir(folder);
        let output = run_command(command);
        assert_eq!(output.code, 0, "{output:?}");
        let job = repository.home.json(&["show", name]);
        assert_eq!(Path::new(output.stdout.trim()), path_of(&job));
        repository.home.ok(&["apply", name]);
        assert!(std::fs::read_to_string(folder.join("a")).unwrap().ends_with("more\n"), "{folder:?}");
        repository.home.ok(&["rm", name]);
        output.stderr
    };
    repository.git(&["checkout", "--quiet", "--detach"]);
    job_in(&repository.top, "detached");
    repository.git(&["checkout", "--quiet", "main", "--", "."]);
    let linked = repository.home.path().join("linked");
    repository.git(&["worktree", "add", "--quiet", linked.to_str().unwrap()]);
    job_in(&linked, "linked");
    assert!(!repository.read("a").ends_with("more\n"), "the other checkout is not changed");
    let whole = repository.home.path().join("whole");
    std::fs::create_dir(&whole).unwrap();
    repository.git_in(&whole, &["init", "--quiet"]);
    let from = repository.top.to_str().unwrap();
    repository
        .git_in(&whole, &["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", from, "part"]);
    std::fs::write(whole.join("a"), "a\n").unwrap();
    repository.git_in(&whole, &["add", "."]);
    repository.git_in(&whole, &["commit", "--quiet", "--message", "whole"]);
    job_in(&whole.join("part"), "part");
    repository.git_in(&whole.join("part"), &["checkout", "--quiet", "."]);
    let told = job_in(&whole, "whole");
    assert!(told.contains("submodules are empty folders"), "{told}");
}

#[test]
fn a_nested_repository_is_reported_and_not_applied() {
    let repository = Repository::new();
    repository.work(
        "nest",
        "git init -q nested; git -C nested -c user.name=x -c user.email=x commit -qm x --allow-empty",
    );
    assert!(repository.home.ok(&["diff", "nest"]).contains("+Subproject commit"));
    let refused = repository.home.run(&["apply", "nest"]);
    assert!(refused.code == 125 && refused.stderr.contains("copy them by hand from"), "{refused:?}");
    assert_ne!(repository.home.run(&["rm", "nest"]).code, 0);
    repository.home.ok(&["rm", "--force", "nest"]);
    // Git cannot add a repository without commits at all.
    repository.work("empty", "git init -q nested; echo x > nested/file; echo more >> a");
    let shown = repository.home.run(&["diff", "empty"]);
    assert!(shown.stdout.contains("+more") && shown.stderr.contains("could not be read"), "{shown:?}");
    assert_ne!(repository.home.run(&["rm", "empty"]).code, 0);
    assert_ne!(repository.home.run(&["apply", "empty"]).code, 0);
}

#[test]
fn a_worktree_that_cannot_be_created_is_a_launch_error() {
    let repository = Repository::new();
    std::fs::write(repository.top.join(".git/worktrees"), "in the way").unwrap();
    let output = repository.lastword(&["run", "--worktree", "--name", "fix", "touch", "ran"]);
    assert_ne!(output.code, 0, "{output:?}");
    let job = repository.home.json(&["show", "fix"]);
    assert_eq!((&job["outcome"], &job["cause"]), (&"failed".into(), &"launch".into()), "{job}");
    let error = job["attempts"][0]["error"].as_str().unwrap();
    assert!(error.starts_with("cannot create its worktree: `git worktree add` failed: "), "{error}");
    std::fs::remove_file(repository.top.join(".git/worktrees")).unwrap();
    assert!(repository.left().is_empty(), "{:?}", repository.left());
    assert_eq!(repository.lastword(&["retry", "fix"]).code, 0, "it can be retried");
}

#[test]
fn a_daemon_without_worktrees_runs_all_other_jobs() {
    let repository = Repository::new();
    std::fs::create_dir(repository.home.state()).unwrap();
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(repository.home.state(), private).unwrap();
    std::fs::write(repository.home.state().join("worktrees"), "in the way").unwrap();
    assert_eq!(repository.lastword(&["run", "true"]).code, 0);
    let output = repository.lastword(&["run", "--worktree", "--name", "fix", "true"]);
    assert_ne!(output.code, 0, "{output:?}");
    let job = repository.home.json(&["show", "fix"]);
    assert!(job["attempts"][0]["error"].as_str().unwrap().contains("keeps none"), "{job}");
    repository.home.ok(&["rm", "fix"]);
}

#[test]
fn a_retry_starts_from_the_same_commit() {
    let repository = Repository::new();
    let first = repository.work("fix", "cat a | tail -1; echo more >> a");
    repository.write("a", "another\n");
    repository.commit("since");
    let output = repository.lastword(&["retry", "fix"]);
    assert_eq!((output.code, output.stdout.as_str()), (0, "a 10\n"), "{output:?}");
    let again = repository.home.json(&["show", "@last"]);
    assert_eq!(again["worktree"]["base"], first["worktree"]["base"]);
    assert_ne!(again["worktree"]["branch"], first["worktree"]["branch"]);
    assert!(path_of(&first).exists() && path_of(&again).exists());
    // Attempts of one job share a worktree, with the changes of earlier attempts.
    let script = "echo x >> a; test $(grep -c x a) = 2";
    let output =
        repository.lastword(&["run", "--worktree", "--retry", "1", "--backoff", "1ms", "sh", "-c", script]);
    assert_eq!(output.code, 0, "{output:?}");
}

#[test]
fn work_survives_the_deletion_of_its_repository() {
    let repository = Repository::new();
    let job = repository.work("fix", "echo more >> a");
    std::fs::remove_dir_all(&repository.top).unwrap();
    let home = &repository.home;
    for verb in ["diff", "apply"] {
        let output = home.run(&[verb, "fix"]);
        assert!(
            output.code == 125 && output.stderr.contains("is gone\n  its files are in"),
            "{verb}: {output:?}"
        );
    }
    let refused = home.run(&["rm", "fix"]);
    assert!(refused.code == 125 && refused.stderr.contains("git cannot say what"), "{refused:?}");
    assert!(path_of(&job).join("a").exists());
    home.ok(&["rm", "--force", "fix"]);
    assert!(!path_of(&job).exists());
}

#[test]
fn c20_a_forced_stop_releases_the_lock_on_the_worktree() {
    let repository = Repository::new();
    let script = "trap '' TERM; echo more >> a; echo ready; sleep 1000";
    assert_eq!(
        repository.lastword(&["run", "-d", "--worktree", "--name", "held", "sh", "-c", script]).code,
        0
    );
    until("it runs", || repository.home.ok(&["logs", "held"]).contains("ready").then_some(()));
    let is_locked = || repository.git(&["worktree", "list", "--porcelain"]).contains("\nlocked ");
    assert!(is_locked(), "it is locked while the job runs");
    repository.home.ok(&["cancel", "--force", "held"]);
    until("the lock is released", || (!is_locked()).then_some(()));
    let path = path_of(&repository.home.json(&["show", "held"]));
    repository.git(&["worktree", "remove", "--force", path.to_str().unwrap()]);
    assert!(repository.home.run(&["diff", "held"]).stderr.contains("changed nothing"));
    repository.home.ok(&["rm", "held"]);
    assert!(
        repository.left().is_empty(),
        "a worktree removed by hand is not an error: {:?}",
        repository.left()
    );
}

#[test]
fn several_jobs_of_one_repository_have_their_own_worktrees() {
    let repository = Repository::new();
    repository.home.ok(&["group", "set", "many", "--slots", "none"]);
    let names: Vec<String> = (0..5).map(|number| format!("job{number}")).collect();
    for name in &names {
        let script = format!("echo {name} >> a; git -c user.name=x -c user.email=x commit -qam {name}");
        let words = ["run", "-d", "-g", "many", "--worktree", "--name", name, "sh", "-c", &script];
        let output = repository.lastword(&words);
        assert_eq!(output.code, 0, "{output:?}");
    }
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(repository.home.run(&[&["wait"], all.as_slice()].concat()).code, 0);
    for name in &all {
        assert!(repository.home.ok(&["diff", name]).ends_with(&format!("+{name}")));
        repository.home.ok(&["rm", "--force", name]);
    }
    assert!(repository.left().is_empty(), "{:?}", repository.left());
}
