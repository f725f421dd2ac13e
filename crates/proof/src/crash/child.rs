//! The process that is stopped or killed: this program again, under a verb of its own.

use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::history::Acked;

/// How often the parent looks whether something was acknowledged yet.
const LOOK: Duration = Duration::from_micros(200);

/// A child that prints acknowledgements.
#[derive(Debug)]
pub struct Writing {
    child: Child,
    acks: Arc<Mutex<Vec<Acked>>>,
    listener: Option<JoinHandle<()>>,
}

impl Writing {
    /// Starts this program with `args`.
    pub fn start(args: &[String]) -> io::Result<Writing> {
        let program = std::env::current_exe()?;
        let mut child =
            Command::new(program).args(args).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().expect("it is piped");
        let acks: Arc<Mutex<Vec<Acked>>> = Arc::default();
        let heard = Arc::clone(&acks);
        let listener = thread::spawn(move || {
            // The last line of a killed process may be cut short; what is not whole was not said.
            let lines = BufReader::new(stdout).lines().map_while(Result::ok);
            for ack in lines.filter_map(|line| line.parse().ok()) {
                heard.lock().unwrap_or_else(PoisonError::into_inner).push(ack);
            }
        });
        Ok(Writing { child, acks, listener: Some(listener) })
    }

    /// Returns the child's process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns how much was acknowledged so far.
    pub fn acked(&self) -> usize {
        self.acks.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Returns what was acknowledged so far.
    pub fn acks(&self) -> Vec<Acked> {
        self.acks.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until more than `count` was acknowledged.
    pub fn wait_beyond(&mut self, count: usize) -> Result<(), Box<dyn std::error::Error>> {
        while self.acked() <= count {
            if let Some(status) = self.child.try_wait()? {
                return Err(format!("the writer ended by itself: {status}").into());
            }
            thread::sleep(LOOK);
        }
        Ok(())
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
