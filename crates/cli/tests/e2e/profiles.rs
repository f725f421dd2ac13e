//! Profiles: what they set, which of them counts, and that a repository's does nothing until a person has trusted its content.

use std::path::PathBuf;

use serde_json::json;

use crate::agents::define;
use crate::home::{Home, Output, run_command, until};
use crate::terminal::Screen;

/// Everything that a profile can set.
const PROFILE: &str = "agent = 'mine'\nmodel = 'm1'\nargs = ['--add-dir', 'x y']\ngroup = 'slow'\nenv = ['TOKEN']\n\
                       [labels]\nteam = 'core'\nkind = 'fix'\n[limits]\nwall = '2h'\noutput = '10M'\nturns = 7\n";

/// A folder with a repository and its profile.
struct Checkout {
    home: Home,
    top: PathBuf,
}

impl Checkout {
    fn new(profile: &str) -> Checkout {
        let home = Home::new();
        define(
            &home,
            "[mine]\ndialect = 'acp'\ncommand = ['mine']\n[mine.refused]\n'--free' = 'the rules would not hold'\n",
        );
        let top = home.work().join("repo");
        std::fs::create_dir_all(top.join("sub")).unwrap();
        std::fs::create_dir(top.join(".git")).unwrap();
        let checkout = Checkout { home, top };
        checkout.write(profile);
        checkout
    }

    fn write(&self, profile: &str) {
        std::fs::write(self.top.join(".lastword.toml"), profile).unwrap();
    }

    /// Runs lastword below the root of the repository.
    fn run(&self, words: &[&str]) -> Output {
        let mut command = self.home.command_in(&self.top.join("sub"), words);
        command.env("TOKEN", "hunter2");
        run_command(command)
    }

    /// Records a job that waits, and returns it with what was said.
    fn later(&self, words: &[&str]) -> (serde_json::Value, String) {
        let output = self.run(&[&["run", "-d", "--delay", "1h"], words].concat());
        assert_eq!(output.code, 0, "{output:?}");
        (self.home.json(&["show", output.stdout.trim_end()]), output.stderr)
    }

    fn hash(&self) -> String {
        let refused = self.run(&["trust"]);
        assert_eq!(refused.code, 2, "{refused:?}");
        let line = refused.stdout.lines().find_map(|line| line.strip_prefix("SHA-256 ")).unwrap();
        line.to_owned()
    }

    /// Trusts the profile as it is now.
    fn trust(&self) {
        let output = self.run(&["trust", "--hash", &self.hash()]);
        assert!(output.code == 0 && output.stderr.starts_with("trusted "), "{output:?}");
    }

    fn state(&self) -> String {
        self.home.json(&["trust", "--ls"])["items"][0]["state"].as_str().unwrap_or("none").to_owned()
    }
}

/// Asserts that a job has nothing of the profile.
fn is_untouched(job: &serde_json::Value) {
    assert_eq!((&job["agent"], &job["argv"]), (&json!(null), &json!(["true"])), "{job}");
    assert_eq!((&job["group"], &job["labels"]), (&json!("default"), &json!({})), "{job}");
    assert_eq!((&job["limits"]["wall_ms"], &job["worktree"]), (&json!(null), &json!(null)), "{job}");
}

#[test]
fn the_profile_of_a_repository_does_nothing_until_it_is_trusted_and_after_each_change() {
    let checkout = Checkout::new(PROFILE);
    let file = checkout.top.join(".lastword.toml").display().to_string();
    let trust = format!("`lastword trust {}` shows it and asks", checkout.top.display());
    let (job, said) = checkout.later(&["true"]);
    is_untouched(&job);
    assert_eq!(said, format!("lastword: ignored {file}: you have not trusted it; {trust}\n"));
    checkout.trust();
    let (job, said) = checkout.later(&["fix", "it"]);
    assert_eq!(said, format!("lastword: using the profile {file}\n"));
    let agent = &job["agent"];
    assert_eq!((&agent["provider"], &agent["prompt"]), (&json!("mine"), &json!("fix it")));
    assert_eq!((&agent["model"], &job["group"]), (&json!("m1"), &json!("slow")));
    assert_eq!(job["labels"], json!({ "kind": "fix", "team": "core" }));
    let limits = &job["limits"];
    assert_eq!((&limits["wall_ms"], &limits["output_bytes"]), (&json!(7_200_000), &json!(10 << 20)));
    assert_eq!(limits["turns"], 7);
    // One byte more, even in a comment, is another content.
    checkout.write(&format!("{PROFILE}#"));
    let (job, said) = checkout.later(&["true"]);
    is_untouched(&job);
    assert_eq!(said, format!("lastword: ignored {file}: it has changed since you trusted it; {trust}\n"));
    assert_eq!(checkout.state(), "changed");
    checkout.write(PROFILE);
    assert_eq!(checkout.state(), "trusted");
    let output = checkout.run(&["trust", "--rm"]);
    assert_eq!(output.code, 0, "{output:?}");
    is_untouched(&checkout.later(&["true"]).0);
    assert_eq!(checkout.state(), "none");
    assert_eq!(checkout.run(&["trust", "--rm"]).code, 2, "nothing is left to remove");
}

#[test]
fn options_override_the_profile_which_overrides_the_settings() {
    let checkout = Checkout::new(PROFILE);
    std::fs::write(checkout.home.state().join("config.toml"), "[limits]\nwall = '5h'\nstall = '4h'\n")
        .unwrap();
    checkout.home.restart(&[]);
    checkout.trust();
    let (job, _) = checkout.later(&[
        "--model",
        "m2",
        "-g",
        "fast",
        "-l",
        "kind=test",
        "--wall",
        "1h",
        "--turns",
        "3",
        "go",
    ]);
    assert_eq!((&job["agent"]["model"], &job["group"]), (&json!("m2"), &json!("fast")));
    assert_eq!(job["labels"], json!({ "kind": "test", "team": "core" }));
    let limits = &job["limits"];
    assert_eq!((&limits["wall_ms"], &limits["turns"]), (&json!(3_600_000), &json!(3)));
    assert_eq!(limits["stall_ms"], 14_400_000, "the profile says nothing about it");
    assert_eq!(checkout.later(&["go"]).0["limits"]["wall_ms"], 7_200_000);
    // Model and arguments are those of the profile's agent.
    let (job, _) = checkout.later(&["--agent", "claude", "go"]);
    assert_eq!((&job["agent"]["model"], &job["limits"]["turns"]), (&json!(null), &json!(7)));
    let (job, _) = checkout.later(&["--agent", "none", "true"]);
    assert_eq!(
        (&job["argv"], &job["agent"], &job["group"]),
        (&json!(["true"]), &json!(null), &json!("slow"))
    );
    is_untouched_but_for_settings(&checkout.later(&["--profile", "none", "true"]).0);
}

#[test]
fn a_variable_that_a_profile_needs_must_be_set() {
    let checkout = Checkout::new(PROFILE);
    checkout.trust();
    let output = run_command(checkout.home.command_in(&checkout.top, &["run", "go"]));
    assert!(output.code == 2 && output.stderr.contains("the variable TOKEN is not set"), "{output:?}");
}

fn is_untouched_but_for_settings(job: &serde_json::Value) {
    assert_eq!(
        (&job["argv"], &job["agent"], &job["group"]),
        (&json!(["true"]), &json!(null), &json!("default"))
    );
    assert_eq!(job["limits"]["wall_ms"], 18_000_000);
}

#[test]
fn arguments_of_a_profile_reach_the_agent_and_are_refused_like_those_of_the_command_line() {
    let checkout = Checkout::new("agent = 'mine'\nargs = ['--add-dir', 'x y']\n");
    let script = "printf '%s\\n' \"$@\" > given";
    let command = format!("['sh', '-c', {}, 'it', '--', '{{prompt}}']", serde_json::Value::from(script));
    define(
        &checkout.home,
        &format!("[mine]\ndialect = 'plain'\ncommand = {command}\n[mine.refused]\n'--free' = 'it is not'\n"),
    );
    checkout.trust();
    let output = checkout.run(&["run", "fix", "--", "-v"]);
    assert_eq!(output.code, 0, "{output:?}");
    let given = std::fs::read_to_string(checkout.top.join("sub/given")).unwrap();
    assert_eq!(given, "--add-dir\nx y\n-v\n--\nfix\n");
    checkout.write("agent = 'mine'\nargs = ['--free']\n");
    checkout.trust();
    let output = checkout.run(&["run", "fix"]);
    assert!(output.code == 2 && output.stderr.contains("`--free` is refused: it is not"), "{output:?}");
}

#[test]
fn a_profile_that_grants_permissions_or_has_unknown_keys_cannot_be_trusted() {
    for (text, why) in [
        (
            "agent = 'mine'\npermissions = 'allow'\n",
            ".lastword.toml:2: `permissions`: a profile holds no permissions",
        ),
        ("agnet = 'mine'\n", ".lastword.toml:1: `agnet`: a profile has no such key (did you mean `agent`?)"),
        ("env = ['TOKEN=hunter2']\n", "the values come from your environment"),
    ] {
        let checkout = Checkout::new(text);
        for words in [&["trust"][..], &["trust", "--hash", "0"]] {
            let output = checkout.run(words);
            assert!(output.code == 2 && output.stderr.contains(why), "{output:?}");
            assert!(!output.stderr.contains("hunter2"), "{output:?}");
        }
        assert_eq!(checkout.state(), "none");
    }
}

#[test]
fn a_profile_that_is_no_plain_file_is_ignored_and_never_waited_for() {
    let checkout = Checkout::new("group = 'slow'\n");
    let (file, outside) = (checkout.top.join(".lastword.toml"), checkout.home.work().join("outside.toml"));
    std::fs::rename(&file, &outside).unwrap();
    std::os::unix::fs::symlink(&outside, &file).unwrap();
    for why in ["it is a symbolic link", "it is not a regular file"] {
        let (job, said) = checkout.later(&["true"]);
        is_untouched(&job);
        assert!(said.contains(why), "{said}");
        let output = checkout.run(&["trust"]);
        assert!(output.code == 2 && output.stderr.contains(why), "{output:?}");
        std::fs::remove_file(&file).unwrap();
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &file, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    }
    checkout.home.ok(&["daemon", "status"]);
}

#[test]
fn a_person_sees_all_of_a_profile_before_it_can_be_trusted() {
    let lines: String = (0..60).map(|line| format!("# {line}\n")).collect();
    let checkout = Checkout::new(&format!("group = 'slow' # \u{202e}\n{lines}"));
    let top = checkout.top.to_str().unwrap();
    let mut screen = Screen::start(&checkout.home, (24, 80), &["trust", top]);
    // Typed before anything was shown, or before the next page was.
    screen.write("y\ny\ny\n");
    for line in [21, 42, 63] {
        screen.until_shown(&format!("-- line {line} of "));
        until("it invites an answer", || {
            let shown = screen.so_far();
            let page = shown.rfind("show more?").unwrap();
            shown[page..].contains("[y/N] ").then_some(())
        });
        assert_eq!(checkout.state(), "none");
        screen.write("y\n");
    }
    screen.until_shown("Use this profile for `lastword run` in this repository?");
    until("it invites an answer", || {
        let shown = screen.so_far();
        shown.rsplit("Use this profile").next().unwrap().contains("[y/N] ").then_some(())
    });
    assert_eq!(checkout.state(), "none");
    screen.write("y\n");
    let shown = screen.end();
    assert!(shown.contains("# \u{fffd}") && !shown.contains('\u{202e}'), "{shown:?}");
    assert!(shown.contains(" # 59") && shown.contains(" group = \"slow\""), "{shown:?}");
    assert_eq!(checkout.state(), "trusted");
    assert_eq!(checkout.later(&["true"]).0["group"], "slow");
}

#[test]
fn only_a_yes_trusts_and_without_a_terminal_only_the_hash() {
    let checkout = Checkout::new("group = 'slow'\n");
    let top = checkout.top.to_str().unwrap();
    for typed in ["n\n", "\n", "ok\n"] {
        let mut screen = Screen::start(&checkout.home, (24, 80), &["trust", top]);
        screen.until_shown("[y/N] ");
        screen.write(typed);
        assert!(screen.end().contains("nothing was changed"));
        assert_eq!(checkout.state(), "none", "{typed:?}");
    }
    let output = checkout.run(&["trust"]);
    assert!(output.code == 2 && output.stderr.contains("only a person at a terminal"), "{output:?}");
    let output = checkout.run(&["trust", "--hash", &"0".repeat(64)]);
    assert!(output.code == 2 && output.stderr.contains("has another content"), "{output:?}");
    assert_eq!(checkout.state(), "none");
    let hash = checkout.hash();
    assert!(output.stderr.contains(&hash), "{output:?}");
    assert_eq!(checkout.run(&["trust", "--hash", &hash.to_uppercase()]).code, 0);
    assert_eq!(checkout.state(), "trusted");
    // The folder is gone, and its record can still be removed.
    std::fs::remove_dir_all(&checkout.top).unwrap();
    assert_eq!(checkout.state(), "missing");
    checkout.home.ok(&["trust", "--rm", top]);
    assert_eq!(checkout.state(), "none");
}

#[test]
fn a_job_cannot_trust_a_profile() {
    let checkout = Checkout::new("group = 'slow'\n");
    let (top, hash) = (checkout.top.display(), checkout.hash());
    let program = checkout.home.command(&[]).get_program().display().to_string();
    let unset = "env -u LASTWORD_JOB_ID -u LASTWORD_MARKER -u LASTWORD_ATTEMPT";
    for before in ["", unset, "setsid -w", &format!("{unset} setsid -w")] {
        let script = format!(
            "{before} {program} trust --hash {hash} {top}; echo $?; {before} {program} trust --rm {top}"
        );
        let output = checkout.home.run(&["run", "--", "sh", "-c", &script]);
        assert_eq!(output.stdout, "125\n", "{before}: {output:?}");
        assert_eq!(
            output.stderr.matches("`trust` is refused inside a job").count(),
            2,
            "{before}: {output:?}"
        );
        assert_eq!(checkout.state(), "none");
    }
}

#[test]
fn a_profile_of_the_user_is_chosen_by_name_and_replaces_that_of_the_repository() {
    let checkout = Checkout::new("group = 'slow'\nlabels.team = 'core'\n");
    checkout.trust();
    let output = checkout.run(&["run", "--profile", "quick", "true"]);
    assert!(
        output.code == 2 && output.stderr.contains("there is no profile `quick`; there are none"),
        "{output:?}"
    );
    let folder = checkout.home.state().join("profiles");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("quick.toml"), "group = 'fast'\n").unwrap();
    std::fs::write(folder.join("wide.toml"), "worktree = 3\n").unwrap();
    let (job, said) = checkout.later(&["--profile", "quick", "true"]);
    assert_eq!((&job["group"], &job["labels"]), (&json!("fast"), &json!({})));
    assert_eq!(said, "lastword: using the profile `quick`\n");
    let output = checkout.run(&["run", "--profile", "quik", "true"]);
    let known = "there is no profile `quik` (did you mean `quick`?); your profiles are quick, wide";
    assert!(output.code == 2 && output.stderr.contains(known), "{output:?}");
    let output = checkout.run(&["run", "--profile", "../profiles/quick", "true"]);
    assert!(output.code == 2 && output.stderr.contains("there is no profile"), "{output:?}");
    let output = checkout.run(&["run", "--profile", "wide", "true"]);
    assert!(output.code == 2 && output.stderr.contains("wide.toml:1: `worktree`"), "{output:?}");
}

#[test]
fn a_profile_can_ask_for_worktrees_and_an_option_for_none() {
    let repository = crate::worktree::Repository::new();
    repository.write(".lastword.toml", "worktree = 'keep'\n");
    repository.commit("profile");
    let shown = repository.lastword(&["trust"]).stdout;
    let hash = shown.lines().find_map(|line| line.strip_prefix("SHA-256 ")).unwrap().to_owned();
    assert_eq!(repository.lastword(&["trust", "--hash", &hash]).code, 0);
    assert_eq!(repository.lastword(&["run", "--name", "in", "true"]).code, 0);
    assert_eq!(repository.home.json(&["show", "in"])["worktree"]["keep"], true);
    assert_eq!(repository.lastword(&["run", "--name", "out", "--worktree=none", "true"]).code, 0);
    assert_eq!(repository.home.json(&["show", "out"])["worktree"], json!(null));
}
