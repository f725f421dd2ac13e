//! Pictures of a real terminal: commands are run in a terminal of `tmux`, and what the screen then shows is drawn as SVG.
//!
//! Nothing on them is written by hand. They are taken by `cargo xtask docs --pictures`, looked at and
//! committed; `cargo xtask docs` plays the sessions again and compares.

mod drawing;

use std::fs;
use std::process::Command;

use super::compare;
use super::session::Home;
use crate::program::{Failure, Outcome};

const FOLDER: &str = "docs/pictures";

/// One picture: what is run, one line after the other. What opens with `#` is waited for and not shown.
struct Scene {
    name: &'static str,
    width: usize,
    height: usize,
    typed: &'static [&'static str],
}

const SCENES: &[Scene] = &[
    Scene {
        name: "receipt",
        width: 100,
        height: 30,
        typed: &[
            "lastword run -d --name stubborn -- sh -c 'trap \"\" TERM; setsid sleep 1000 & sleep 1000'",
            "#until [ $(pgrep -c -P $(lastword show stubborn --json | jq '.attempts[0].pid')) = 2 ]; do :; done",
            "lastword ls",
            "lastword cancel stubborn",
        ],
    },
    Scene {
        name: "adoption",
        width: 100,
        height: 40,
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
];

impl Scene {
    fn path(&self) -> String {
        format!("{FOLDER}/{}.svg", self.name)
    }

    /// Plays it and draws it.
    fn drawn(&self) -> Result<String, Failure> {
        let screen = Terminal::new(self)?.play(self)?;
        Ok(drawing::draw(&screen, self.width))
    }
}

/// Takes every picture.
pub(super) fn take() -> Outcome {
    fs::create_dir_all(FOLDER).map_err(|error| Failure::new(format!("{FOLDER}: {error}")))?;
    for scene in SCENES {
        let path = scene.path();
        fs::write(&path, scene.drawn()?).map_err(|error| Failure::new(format!("{path}: {error}")))?;
        println!("{path} was taken: look at it");
    }
    Ok(())
}

/// Takes every picture again and returns those that show something else now.
pub(super) fn stale() -> Result<Vec<String>, Failure> {
    let mut stale = Vec::new();
    for scene in SCENES {
        let path = scene.path();
        let kept = fs::read_to_string(&path).map_err(|error| Failure::new(format!("{path}: {error}")))?;
        let (kept, now) = (drawing::lines(&kept), drawing::lines(&scene.drawn()?));
        if !compare::same(&kept, &now) {
            stale.push(format!(
                "{path} shows something else now: cargo xtask docs --pictures\n{}",
                now.join("\n")
            ));
        }
    }
    Ok(stale)
}

/// A terminal that nobody sees.
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
    fn play(&self, scene: &Scene) -> Result<String, Failure> {
        let (width, height) = (scene.width.to_string(), scene.height.to_string());
        // A shell that reads from a terminal says too early that it is ready for the next line, so it is given them.
        let mut words = vec!["-f", "/dev/null", "new-session", "-d", "-x", &width, "-y", &height, "--"];
        let script = format!(
            "for line; do case $line in '#'*) eval \"${{line#?}}\" >/dev/null 2>&1;; *) printf '$ %s\\n' \"$line\"; eval \"$line\";; esac; done; tmux -L {0} wait-for -S done; tmux -L {0} wait-for seen",
            self.server
        );
        words.extend(["env", "TERM=xterm-256color", "bash", "--noprofile", "--norc", "-c", &script, "bash"]);
        words.extend(scene.typed);
        self.tmux(&words)?;
        self.tmux(&["wait-for", "done"])?;
        let screen = self.home.shown(&self.tmux(&["capture-pane", "-e", "-p"])?);
        Ok(screen.trim_end().to_owned())
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
