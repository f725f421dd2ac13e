//! A job that asks the daemon for more than is its own, and what a client's environment brings along.

use super::attacker;
use super::attempt::{Attempt, Ends};
use super::setup::{OWNER, Setup, says};

#[rustfmt::skip] // One row, one attempt.
pub(super) const ATTEMPTS: &[Attempt] = &[
    Attempt { item: 11, what: "a job asks to see, stop or change what is not its own", ends: Ends::Refused, make: ask_inside },
    Attempt { item: 11, what: "a job asks after it has left its parents and its session", ends: Ends::Refused, make: ask_daemonised },
    Attempt { item: 11, what: "a job without its variables starts a daemon of its own", ends: Ends::Refused, make: own_daemon },
    Attempt { item: 11, what: "a job looks for a token or an open descriptor of its supervisor", ends: Ends::Refused, make: look_for_token },
    Attempt { item: 11, what: "a job has somebody outside ask for it", ends: Ends::Limit("A job runs as you"), make: ask_by_friend },
    Attempt { item: 13, what: "LD_PRELOAD, LD_AUDIT and LD_LIBRARY_PATH of a client reach its job", ends: Ends::Refused, make: loader_variables },
    Attempt { item: 13, what: "PATH, BASH_ENV, NODE_OPTIONS and GIT_DIR of a client reach its job", ends: Ends::Limit("A job has your environment"), make: other_variables },
    Attempt { item: 13, what: "GIT_DIR and GIT_EXTERNAL_DIFF of a client steer the git of the daemon", ends: Ends::Refused, make: steer_git },
    Attempt { item: 13, what: "a repository has hooks and filters run when a worktree is made", ends: Ends::Refused, make: hooks },
];

/// Asks for everything that a job may not, with `as_whom` between.
fn ask_all(setup: &Setup, as_whom: &[&str]) -> Result<String, String> {
    let other = setup.home.0.said(&["run", "-d", "--", "sleep", "1000"])?;
    let socket = setup.home.socket().display().to_string();
    let of = |end: &str| format!("/v1/jobs/{other}{end}");
    let requests = [
        ("GET", of(""), ""),
        ("GET", of("/output"), ""),
        ("GET", of("/events"), ""),
        ("GET", of("/processes"), ""),
        ("GET", of("/transcript"), ""),
        ("POST", of(":cancel"), "{}"),
        ("POST", of("/messages"), r#"{"text":"x"}"#),
        ("POST", of(":abandon"), "{}"),
        ("DELETE", of(""), ""),
        ("PATCH", of("/limits"), r#"{"wall_ms":1}"#),
        ("GET", "/v1/jobs".to_owned(), ""),
        ("GET", "/v1/events".to_owned(), ""),
        ("GET", "/v1/usage".to_owned(), ""),
        ("POST", "/v1/jobs:cancel".to_owned(), r#"{"all":true}"#),
        ("POST", "/v1/jobs:prune".to_owned(), "{}"),
        ("PUT", "/v1/groups/default".to_owned(), r#"{"paused":true}"#),
        ("POST", "/v1/daemon:stop".to_owned(), "{}"),
    ];
    let count = requests.len();
    for (method, path, body) in requests {
        let ask = [as_whom, &["ask", &socket, method, &path][..]].concat();
        let ask = if body.is_empty() { ask } else { [&ask[..], &[body]].concat() };
        let said = setup.inside(&setup.home, &ask)?;
        if said != "403 inside_a_job" {
            return Err(format!("{method} {path}: {said}"));
        }
    }
    setup.home.0.said(&["cancel", "--force", &other])?;
    Ok(format!("403 inside_a_job, {count} of {count} requests"))
}

fn ask_inside(setup: &Setup) -> Result<String, String> {
    ask_all(setup, &[])
}

fn ask_daemonised(setup: &Setup) -> Result<String, String> {
    ask_all(setup, &["daemonised"])
}

fn own_daemon(setup: &Setup) -> Result<String, String> {
    let other = setup.home.0.home().join("other");
    let script = format!(
        "exec env -u LASTWORD_JOB_ID -u LASTWORD_MARKER -u LASTWORD_ATTEMPT LASTWORD_HOME={} {} ls 2>&1",
        other.display(),
        setup.home.0.program().display()
    );
    let said = setup.home.0.run(&["run", "--", "sh", "-c", &script])?;
    match other.join("journal.db").exists() {
        true => Err("a daemon was started inside of a job".to_owned()),
        false => says(&super::setup::text(&said.stdout), "none is started from inside a job"),
    }
}

fn look_for_token(setup: &Setup) -> Result<String, String> {
    let open = setup.inside(&setup.home, &["descriptors"])?;
    if open != "[0, 1, 2]" {
        return Err(format!("it has descriptors {open}"));
    }
    let said = setup.home.0.said(&["run", "--", "env"])?;
    let mut names: Vec<&str> =
        said.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    names.sort_unstable();
    let asked = ["HOME", "LASTWORD_HOME", "PATH", crate::product::MARKER];
    names.retain(|name| !asked.contains(name));
    match names.as_slice() {
        ["LASTWORD_ATTEMPT", "LASTWORD_JOB_ID", "LASTWORD_MARKER"] => {
            Ok("descriptors 0, 1 and 2; of ours it has its id, its attempt and its mark".to_owned())
        }
        other => Err(format!("its environment has {other:?}")),
    }
}

fn ask_by_friend(setup: &Setup) -> Result<String, String> {
    let door = setup.home.0.home().join("friend.sock");
    let socket = setup.home.socket();
    let _friend = setup.lurker(OWNER, &["relay".as_ref(), door.as_os_str(), socket.as_os_str()])?;
    let door = door.display().to_string();
    let said = setup.inside(&setup.home, &["ask", &door, "GET", "/v1/jobs"])?;
    says(&said, "200").map(|_| "a process of the user outside of the job is answered as the user".to_owned())
}

/// Runs `env` as a job of a client with more variables.
fn env_with(setup: &Setup, variables: &[(&str, &str)]) -> Result<String, String> {
    let mut command = setup.home.0.command(&["run", "--", "/usr/bin/env"]);
    command.envs(variables.iter().copied());
    let said = setup.home.0.run_to_end(&command)?;
    match said.status.success() {
        true => Ok(super::setup::text(&said.stdout)),
        false => Err(super::setup::text(&said.stderr)),
    }
}

fn loader_variables(setup: &Setup) -> Result<String, String> {
    let variables = ["LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH", "LD_DEBUG_OUTPUT"]
        .map(|name| (name, "/nowhere/evil.so"));
    let env = env_with(setup, &variables)?;
    match env.lines().find(|line| line.starts_with("LD_")) {
        Some(line) => Err(format!("it has {line}")),
        None => Ok("it has none of them".to_owned()),
    }
}

fn other_variables(setup: &Setup) -> Result<String, String> {
    let variables = [
        ("PATH", "/evil:/usr/bin:/bin"),
        ("BASH_ENV", "/evil"),
        ("NODE_OPTIONS", "--require=/evil"),
        ("GIT_DIR", "/evil"),
    ];
    let env = env_with(setup, &variables)?;
    for (name, value) in variables {
        says(&env, &format!("{name}={value}"))?;
    }
    Ok("it has them, as any command of that client would".to_owned())
}

/// Makes a repository of the user with one commit.
fn repository(setup: &Setup, name: &str) -> Result<std::path::PathBuf, String> {
    let folder = setup.folder(name, OWNER, 0o700)?;
    let script =
        "git init -q . && echo a > a && git add a && git -c user.name=a -c user.email=a@b commit -qm a";
    shell(setup, &folder, script)?;
    Ok(folder)
}

/// Runs a script as the user in a folder.
fn shell(setup: &Setup, folder: &std::path::Path, script: &str) -> Result<String, String> {
    use std::os::unix::process::CommandExt as _;
    let mut command = std::process::Command::new("sh");
    command.args(["-c", script]).current_dir(folder).uid(OWNER).gid(OWNER);
    command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", setup.home.0.home());
    let said = command.output().map_err(|error| error.to_string())?;
    match said.status.success() {
        true => Ok(super::setup::text(&said.stdout)),
        false => Err(format!("`{script}`: {}", super::setup::text(&said.stderr))),
    }
}

/// Runs a job in a worktree of a repository, and shows what it changed.
fn worktree(setup: &Setup, folder: &std::path::Path, variables: &[(&str, &str)]) -> Result<String, String> {
    let script = "echo b >> a; git rev-parse --show-toplevel";
    let folder = folder.display().to_string();
    let words = ["run", "--worktree", "-C", &folder, "--", "env", "-u", "GIT_DIR", "sh", "-c", script];
    let mut command = setup.home.0.command(&words);
    command.envs(variables.iter().copied());
    let said = setup.home.0.run_to_end(&command)?;
    if !said.status.success() {
        return Err(super::setup::text(&said.stderr));
    }
    let mut diff = setup.home.0.command(&["diff", "@last"]);
    diff.envs(variables.iter().copied());
    let diff = setup.home.0.run_to_end(&diff)?;
    says(&super::setup::text(&diff.stdout), "+b")
}

fn steer_git(setup: &Setup) -> Result<String, String> {
    let folder = repository(setup, "steered")?;
    let evil = format!("{} {} whoami", setup.programs.trials.display(), attacker::VERB);
    let variables = [
        ("GIT_DIR", "/nowhere"),
        ("GIT_WORK_TREE", "/nowhere"),
        ("GIT_EXTERNAL_DIFF", &evil),
        ("GIT_PAGER", &evil),
    ];
    worktree(setup, &folder, &variables)?;
    Ok("worktree and diff are those of the repository".to_owned())
}

fn hooks(setup: &Setup) -> Result<String, String> {
    let folder = repository(setup, "hooked")?;
    let mark = setup.home.0.home().join("hook-ran");
    let script = format!(
        "printf '#!/bin/sh\\n: > {0}\\n' > .git/hooks/post-checkout && chmod +x .git/hooks/post-checkout && \
         git config filter.evil.smudge ': > {0}; cat' && git config filter.evil.clean ': > {0}; cat' && \
         git config core.fsmonitor ': > {0}' && git config diff.external ': > {0}' && echo 'a filter=evil' > .git/info/attributes",
        mark.display()
    );
    shell(setup, &folder, &script)?;
    worktree(setup, &folder, &[])?;
    match mark.exists() {
        true => Err("something of the repository was run".to_owned()),
        false => Ok("none of hook, filter, monitor and external diff was run".to_owned()),
    }
}
