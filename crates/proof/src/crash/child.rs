//! The process that is stopped or killed: this program again, under a verb of its own.

use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use super::history::Acked;

/// A child that prints acknowledgements.
#[derive(Debug)]
pub struct Writing {
    child: Child,
    heard: Arc<Heard>,
    listener: Option<JoinHandle<()>>,
}

/// What the child said so far, and whether it is over.
#[derive(Debug, Default)]
struct Heard {
    acks: Mutex<(Vec<Acked>, bool)>,
    more: Condvar,
}

impl Heard {
    fn lock(&self) -> MutexGuard<'_, (Vec<Acked>, bool)> {
        self.acks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Writing {
    /// Starts this program with `args`.
    pub fn start(args: &[String]) -> io::Result<Writing> {
        let program = std::env::current_exe()?;
        let mut child =
            Command::new(program).args(args).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().expect("it is piped");
        let heard: Arc<Heard> = Arc::default();
        let listening = Arc::clone(&heard);
        let listener = thread::spawn(move || {
            // The last line of a killed process may be cut short; what is not whole was not said.
            let lines = BufReader::new(stdout).lines().map_while(Result::ok);
            for ack in lines.filter_map(|line| line.parse().ok()) {
                listening.lock().0.push(ack);
                listening.more.notify_all();
            }
            listening.lock().1 = true;
            listening.more.notify_all();
        });
        Ok(Writing { child, heard, listener: Some(listener) })
    }

    /// Returns the child's process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns what was acknowledged so far.
    pub fn acks(&self) -> Vec<Acked> {
        self.heard.lock().0.clone()
    }

    /// Waits until more than `count` was acknowledged.
    pub fn wait_beyond(&self, count: usize) -> Result<(), Box<dyn std::error::Error>> {
        let waiting =
            self.heard.more.wait_while(self.heard.lock(), |(acks, over)| acks.len() <= count && !*over);
        let heard = waiting.unwrap_or_else(PoisonError::into_inner);
        if heard.0.len() > count { Ok(()) } else { Err("the writer ended by itself".into()) }
    }

    /// Kills the child with -9 and returns all it was told before.
    pub fn kill(mut self) -> io::Result<Vec<Acked>> {
        self.end()?;
        Ok(self.acks())
    }

    fn end(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        if let Some(listener) = self.listener.take() {
            listener.join().map_err(|_| io::Error::other("the listener panicked"))?;
        }
        Ok(())
    }
}

impl Drop for Writing {
    /// Leaves no child behind, whatever went wrong before.
    fn drop(&mut self) {
        let _ = self.end();
    }
}
