//! Rows about a person at a terminal.

use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::{Arc, Mutex};

use super::super::setup::Setup;

/// What the terminal says about a yes that was typed too early.
const NOT_SENT: &str = "nothing is asked now";

/// A command of the product in a terminal.
struct Terminal {
    child: Child,
    typed: ChildStdin,
    shown: Arc<Mutex<String>>,
}

impl Terminal {
    fn attach(setup: &Setup, job: &str) -> Result<Terminal, String> {
        let line = format!("{} attach {job}", setup.product.program().display());
        let mut command = setup.product.other_command("script");
        command.args(["--quiet", "--return", "--flush", "--command", &line, "/dev/null"]);
        command.env("TERM", "xterm").env("SHELL", "/bin/sh");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| format!("script: {error}"))?;
        let (typed, stdout) = (child.stdin.take(), child.stdout.take());
        let (typed, mut stdout) = typed.zip(stdout).ok_or("script has no pipes")?;
        let shown = Arc::new(Mutex::new(String::new()));
        let into = Arc::clone(&shown);
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(read @ 1..) = stdout.read(&mut piece) {
                let Ok(mut shown) = into.lock() else { return };
                shown.push_str(&String::from_utf8_lossy(&piece[..read]));
            }
        });
        Ok(Terminal { child, typed, shown })
    }

    fn type_in(&mut self, text: &str) -> Result<(), String> {
        self.typed.write_all(text.as_bytes()).map_err(|error| format!("the terminal: {error}"))
    }

    fn shown(&self) -> String {
        self.shown.lock().map(|shown| shown.clone()).unwrap_or_default()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It has ended, or the row has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A yes that waits in the terminal before the question is shown does not answer it; one that is typed below it does.
pub(super) fn ahead(setup: &Setup) -> Result<(), String> {
    let go = setup.work.join("go");
    let wait = format!("until [ -e {} ]; do sleep 0.05; done", go.display());
    let gate = setup.product.said(&["run", "--detach", "--", "sh", "-c", &wait])?;
    let prompt = "Run it. [[sh echo made >> made]] [[say done]]";
    let job = setup.run(&["--permissions", "ask", "--after", &gate], prompt)?;
    let mut terminal = Terminal::attach(setup, &job.id)?;
    terminal.type_in("y\n")?;
    setup.until("the line is read", || terminal.shown().contains(NOT_SENT).then_some(()))?;
    setup.make("go")?;
    setup.until("the question is shown", || terminal.shown().contains("[y] allow").then_some(()))?;
    let shown = terminal.shown();
    if !shown.contains("echo made") {
        return Err(format!("the terminal shows {shown}"));
    }
    let told = job.all("answer_requested")?.len() + job.all("input_requested")?.len();
    match (told, setup.made("made")) {
        (0, None) => {}
        other => return Err(format!("what was typed before has answered it, or was sent: {other:?}")),
    }
    // What the agent wrote since has the question shown again, and each showing wants its own yes.
    let mut answered = 0;
    setup.until("it is answered", || {
        let asked = terminal.shown().matches("[y] allow").count();
        if asked > answered {
            answered = asked;
            terminal.type_in("y\n").ok()?;
        }
        job.all("answer_requested").ok().filter(|answers| !answers.is_empty())
    })?;
    job.completes(1)?;
    match setup.made("made").as_deref() {
        Some("made\n") => Ok(()),
        other => Err(format!("it was allowed, and came to {other:?}")),
    }
}
