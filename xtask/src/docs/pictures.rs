//! Pictures of a real terminal: commands are run in a terminal of `tmux`, and what the screen then shows is drawn as SVG.
//!
//! Nothing on them is written by hand. They are taken by `cargo xtask docs --pictures`, looked at and committed. `cargo xtask docs` plays
//! the scenes again and compares; `cargo xtask agents` does that for the scenes with agents, which it has installed by then.

mod drawing;

use std::fs;
use std::process::Command;

use super::compare;
use super::session::Home;
use crate::program::{Failure, Outcome, cache, target};

const FOLDER: &str = "docs/pictures";

/// The folder of what cargo builds unless it is told otherwise.
const DEV: &str = "debug";

/// One picture: the lines that are run, one after the other. A line that starts with `#` runs unseen.
struct Scene {
    name: &'static str,
    width: usize,
    height: usize,
    /// Real agents, and what their scripted model answers to each prompt.
    agents: Option<Agents>,
    typed: &'static [&'static str],
}

/// What a scene with agents needs.
struct Agents {
    names: &'static str,
    /// One prompt per line, followed by the model's replies: `crates/trials/src/agents/model/script.rs` has the directives.
    scripts: &'static str,
}

const SCENES: &[Scene] = &[
    Scene {
        name: "receipt",
        width: 100,
        height: 30,
        agents: None,
        typed: &[
            "lastword run -d --name stubborn -- sh -c 'trap \"\" TERM; setsid sleep 1000 & sleep 1000'",
            "#until [ $(pgrep -c -x -P $(lastword show stubborn --json | jq '.attempts[0].pid') sleep) = 2 ]; do :; done",
            "lastword ls",
            "lastword cancel stubborn",
        ],
    },
    Scene {
        name: "adoption",
        width: 100,
        height: 40,
        agents: None,
        typed: &[
            "lastword run -d --name count -- sh -c 'for i in 1 2 3; do echo $i; sleep 1; done; exit 7'",
            "#until lastword show count | grep ' running '; do :; done",
            "kill -9 $(lastword daemon status | awk '/pid/ { print $2 }')",
            "lastword ls",
            "lastword logs -f count",
            "lastword wait count",
            "lastword events count",
        ],
    },
    Scene {
        name: "agents",
        width: 100,
        height: 50,
        agents: Some(Agents {
            names: "claude,codex",
            scripts: "make the test pass [[sh sed -i 's/a - b/a + b/' sum.js && node --test]] [[say it adds now]]\n\
                start the dev server [[sh setsid node server.js > log 2>&1 & until [ -e up ]; do sleep 0.1; done]] [[hang]]\n",
        }),
        typed: &[
            "#git init -b main calc && cd calc",
            "#echo 'exports.sum = (a, b) => a - b;' > sum.js",
            "#echo \"require('fs').writeFileSync('up', ''); setInterval(() => {}, 1000);\" > server.js",
            // The test runs until the file `go` exists, so the daemon is killed in the middle of the turn on any machine.
            "#echo \"require('assert').equal(require('./sum').sum(2, 2), 4); const wait = () => require('fs').existsSync('$HOME/go') || setTimeout(wait, 10); wait();\" > sum.test.js",
            "#git add . && git commit -m first",
            "lastword run -d --agent claude --worktree --name fix 'make the test pass'",
            "lastword run -d --agent codex --permissions allow --name dev 'start the dev server, try the login'",
            "#until lastword ls | tee -a /dev/stderr | grep 'needs input' && ls -l up; do :; done",
            "lastword ls",
            "lastword question fix",
            // The name depends on what is asked alone.
            "lastword approve fix q1-cf47",
            "kill -9 $(lastword daemon status | awk '/pid/ { print $2 }')",
            "lastword ls",
            "#touch ~/go",
            "lastword wait fix",
            "lastword diff fix",
            "lastword cancel dev",
        ],
    },
];

impl Scene {
    fn path(&self) -> String {
        format!("{FOLDER}/{}.svg", self.name)
    }

    /// Plays it and draws it. `profile` is the one that the trials, which install agents and serve their model, were built with.
    fn drawn(&self, profile: &str) -> Result<String, Failure> {
        let screen = Terminal::new(self)?.play(self, profile)?;
        Ok(drawing::draw(&screen, self.width))
    }
}

/// Takes every picture.
pub(super) fn take() -> Outcome {
    fs::create_dir_all(FOLDER).map_err(|error| Failure::new(format!("{FOLDER}: {error}")))?;
    for scene in SCENES {
        let path = scene.path();
        fs::write(&path, scene.drawn(DEV)?).map_err(|error| Failure::new(format!("{path}: {error}")))?;
        println!("{path} was taken: look at it");
    }
    Ok(())
}

/// Plays the scenes without agents again and returns the pictures that show something else now.
pub(super) fn stale() -> Result<Vec<String>, Failure> {
    stale_of(SCENES.iter().filter(|scene| scene.agents.is_none()), DEV)
}

/// Plays the scenes with agents again and returns the pictures that show something else now.
pub(super) fn stale_with_agents(profile: &str) -> Result<Vec<String>, Failure> {
    stale_of(SCENES.iter().filter(|scene| scene.agents.is_some()), profile)
}

fn stale_of<'a>(scenes: impl Iterator<Item = &'a Scene>, profile: &str) -> Result<Vec<String>, Failure> {
    let mut stale = Vec::new();
    for scene in scenes {
        let path = scene.path();
        let kept = fs::read_to_string(&path).map_err(|error| Failure::new(format!("{path}: {error}")))?;
        let (kept, now) = (drawing::lines(&kept), drawing::lines(&scene.drawn(profile)?));
        if !compare::same(&kept, &now) {
            stale.push(format!(
                "{path} shows something else now: cargo xtask docs --pictures\n{}",
                now.join("\n")
            ));
        }
    }
    Ok(stale)
}

/// Runs each of its arguments behind a prompt, and one that begins with `#` unseen. A shell that reads from a terminal says too early that
/// it is ready for the next line.
const LINES: &str = "for line; do case $line in \
    '#'*) eval \"${line#?}\" >~/unseen 2>&1;; \
    *) printf '\\033[32m$\\033[0m \\033[1m%s\\033[0m\\n' \"$line\"; eval \"$line\";; \
    esac; done; true";

/// A terminal that is not on any screen.
struct Terminal {
    home: Home,
    /// The name of a tmux server of its own.
    server: String,
}

impl Terminal {
    fn new(scene: &Scene) -> Result<Terminal, Failure> {
        let server = format!("lastword-docs-{}-{}", std::process::id(), scene.name);
        Ok(Terminal { home: Home::new(scene.name)?, server })
    }

    /// Runs the lines of a scene, each behind a prompt, and returns the screen after the last one, with its colours.
    fn play(&self, scene: &Scene, profile: &str) -> Result<String, Failure> {
        let (width, height) = (scene.width.to_string(), scene.height.to_string());
        let mut words = vec!["-f", "/dev/null", "new-session", "-d", "-x", &width, "-y", &height, "--"];
        // The screen is captured even if the scene fails.
        let outer = format!(
            "\"$@\" || touch ~/failed; tmux -L {0} wait-for -S done; tmux -L {0} wait-for seen",
            self.server
        );
        words.extend(["env", "TERM=xterm-256color", "bash", "--noprofile", "--norc", "-c", &outer, "bash"]);
        // A scene that waits for words which no screen has any more must fail, not hang.
        words.extend(["timeout", "--foreground", "300"]);
        let session = self.agent_session(scene, profile)?;
        words.extend(session.iter().map(String::as_str));
        words.extend(["bash", "--noprofile", "--norc", "-c", LINES, "bash"]);
        words.extend(scene.typed);
        self.tmux(&words)?;
        self.tmux(&["wait-for", "done"])?;
        let screen = self.home.shown(&self.tmux(&["capture-pane", "-e", "-p"])?);
        match self.home.folder().join("home/failed").exists() {
            false => Ok(screen.trim_end().to_owned()),
            true => Err(Failure::new(format!(
                "{} did not end:\n{}\nthe last unseen line printed:\n{}",
                scene.path(),
                screen.trim_end(),
                self.unseen()
            ))),
        }
    }

    /// Returns the end of what the last unseen line printed.
    fn unseen(&self) -> String {
        let printed = fs::read(self.home.folder().join("home/unseen")).unwrap_or_default();
        String::from_utf8_lossy(&printed[printed.len().saturating_sub(2_000)..]).into_owned()
    }

    /// Returns the command that runs another one with the scene's agents beside it; nothing if there are none.
    fn agent_session(&self, scene: &Scene, profile: &str) -> Result<Vec<String>, Failure> {
        let Some(agents) = &scene.agents else { return Ok(Vec::new()) };
        let folder = self.home.folder();
        let scripts = folder.join("scripts");
        fs::write(&scripts, agents.scripts)
            .map_err(|error| Failure::new(format!("{}: {error}", scripts.display())))?;
        let trials = target().join(profile).join("lastword-trials");
        let trials =
            trials.canonicalize().map_err(|error| Failure::new(format!("{}: {error}", trials.display())))?;
        let words = [
            "env",
            &format!("XDG_CACHE_HOME={}", cache()?.display()),
            &trials.display().to_string(),
            "agent-session",
            agents.names,
            &folder.display().to_string(),
            &scripts.display().to_string(),
        ];
        Ok(words.map(str::to_owned).into())
    }

    fn tmux(&self, words: &[&str]) -> Result<String, Failure> {
        let output = self.command().args(words).output();
        let output = output.map_err(|error| Failure::new(format!("tmux did not start: {error}")))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => {
                Err(Failure::new(format!("tmux {words:?}: {}", String::from_utf8_lossy(&output.stderr))))
            }
        }
    }

    fn command(&self) -> Command {
        let mut command = self.home.command("tmux");
        command.args(["-u", "-L", &self.server]);
        command
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.command().arg("kill-server").output();
    }
}
