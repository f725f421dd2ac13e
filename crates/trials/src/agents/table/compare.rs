//! `agents --compare`: an agent in the middle of a tool is stopped by its own means alone, and by ours; surviving processes are counted.
//!
//! What is said to the agent is said in the product's own words for its dialect, but for what the product does beyond them.

use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use lastword_agents::{Chosen, Definitions, Dialogue, Goals, Start};
use lastword_core::spec::{Permission, Permissions};

use super::rows::ending::{STUBBORN, cancelled, stubborn, with_children};
use super::setup::{PATIENCE, Setup};
use crate::clock;

/// How long an agent may take to do what it is asked for, and then what it left to go by itself.
const SETTLE: Duration = Duration::from_secs(6);

const LOOK: Duration = Duration::from_millis(50);

/// What we send codex beyond its interrupt. Not sent here: a client that does not know of it would not send it either.
const BEYOND: &str = "backgroundTerminals/clean";

/// How an agent is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// By the interrupt of its protocol.
    Interrupt,
    /// By a TERM to it.
    Term,
    /// By `lastword cancel`.
    Ours,
}

pub(super) const WAYS: [(Way, &str); 3] =
    [(Way::Interrupt, "its interrupt"), (Way::Term, "TERM"), (Way::Ours, "lastword cancel")];

/// Returns what of its tool survives an agent that is ended like this in the middle of it.
pub(super) fn survivors(setup: &Setup, way: Way) -> Result<Vec<&'static str>, String> {
    if way == Way::Ours {
        let (job, _) = with_children(setup)?;
        job.tell("cancel", &["--json"]).or_else(cancelled)?;
        job.ends("cancelled", "user")?;
        return Ok(living(setup));
    }
    let mut alone = Alone::start(setup)?;
    alone.talk(false, PATIENCE, |_| living(setup).len() == STUBBORN.len())?;
    match way {
        Way::Interrupt => {
            let asked = Instant::now();
            alone.talk(true, PATIENCE, |_| asked.elapsed() > SETTLE)?;
        }
        Way::Term | Way::Ours => {
            // SAFETY: a signal to our own child, which was not waited for.
            unsafe { libc::kill(alone.child.id().cast_signed(), libc::SIGTERM) };
        }
    }
    clock::until(SETTLE, LOOK, || living(setup).is_empty().then_some(()));
    Ok(living(setup))
}

fn living(setup: &Setup) -> Vec<&'static str> {
    STUBBORN
        .iter()
        .filter(|(seconds, _)| !setup.holding(*seconds).is_empty())
        .map(|(_, what)| *what)
        .collect()
}

/// An agent without the product.
struct Alone {
    child: Child,
    input: ChildStdin,
    output: Receiver<Vec<u8>>,
    dialogue: Dialogue,
}

impl Alone {
    fn start(setup: &Setup) -> Result<Alone, String> {
        let definitions = Definitions::with(None).map_err(|error| error.to_string())?;
        let definition = definitions.get(setup.agent.name).ok_or("the product does not know it")?;
        let permissions = Permissions { otherwise: Permission::Allow, ..Permissions::default() };
        let terms = definition.terms(Chosen { permissions: permissions.clone(), ..Chosen::default() })?;
        let cwd = setup.work.display().to_string();
        let start = Start { prompt: stubborn(setup), cwd, permissions, ..Start::default() };
        let argv = start.argv(&terms);
        let [program, words @ ..] = argv.as_slice() else { return Err("it has no command".to_owned()) };
        // Found where the agent is set up, and in a group of its own, as from a shell.
        let program = setup.product.place().join("bin").join(program);
        let mut command = Command::new(program);
        command.args(words).env_clear().envs(setup.environment.clone()).current_dir(&setup.work);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        let mut child = command.spawn().map_err(|error| format!("{}: {error}", setup.agent.name))?;
        let input = child.stdin.take().ok_or("it has no input")?;
        let mut said = child.stdout.take().ok_or("it has no output")?;
        let (to, output) = channel();
        std::thread::spawn(move || {
            let mut chunk = vec![0; 64 << 10];
            while let Ok(read @ 1..) = said.read(&mut chunk) {
                if to.send(chunk[..read].to_vec()).is_err() {
                    return;
                }
            }
        });
        Ok(Alone { child, input, output, dialogue: Dialogue::new(start, &terms) })
    }

    /// Says what is due and hears what it says, until something is so.
    fn talk(
        &mut self,
        interrupt: bool,
        within: Duration,
        is_so: impl Fn(&Dialogue) -> bool,
    ) -> Result<(), String> {
        let deadline = Instant::now() + within;
        while !is_so(&self.dialogue) {
            let goals = Goals { interrupt, ..Goals::default() };
            while let Some(outgoing) = self.dialogue.next(&goals) {
                if !outgoing.line.contains(BEYOND) {
                    let line = format!("{}\n", outgoing.line);
                    self.input
                        .write_all(line.as_bytes())
                        .map_err(|error| format!("it reads no more: {error}"))?;
                }
                self.dialogue.wrote(outgoing.line.as_bytes(), outgoing.input);
            }
            match self.output.recv_timeout(LOOK) {
                Ok(bytes) => drop(self.dialogue.read(&bytes)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err("the agent is gone".to_owned()),
            }
            if Instant::now() > deadline {
                return Err("the agent did not come to it".to_owned());
            }
        }
        Ok(())
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        // What it left is ended with everything that carries the name of its place.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
