//! Forwards standard input to a job.

use lastword_api::{Code, Job, Message};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::io::AsyncReadExt as _;

use crate::client::Client;
use crate::cmd::send::message;
use crate::failure::Failure;
use crate::ui::describe;

/// Bytes per read. Each piece is made durable before it is forwarded, so it should not be too small.
const READ_BYTES: usize = 64 << 10;

/// Ctrl-P Ctrl-Q detaches from a terminal, as in Docker.
const DETACH_KEYS: [u8; 2] = [0x10, 0x11];

/// Why forwarding stopped.
pub(super) enum Over {
    /// The input ended.
    End,
    /// The user detached.
    Detached,
}

/// Forwards standard input to a job until it ends. With `terminal`, every key is sent as it is.
pub(super) async fn forward(client: &Client, job: &Job, terminal: bool) -> Result<Over, Failure> {
    match forward_all(client, job, terminal).await {
        // The job ended without reading all of its input.
        Err(failure) if failure.problem.code == Code::Ended => Ok(Over::End),
        // The job would wait for input that never comes.
        Err(failure) => {
            let cancel = format!(
                "lastword cancel {}    # it is still running and waiting for input",
                describe::reference(job)
            );
            Err(failure.next(cancel))
        }
        other => other,
    }
}

async fn forward_all(client: &Client, job: &Job, terminal: bool) -> Result<Over, Failure> {
    let _raw = terminal.then(Raw::enter).flatten();
    let mut stdin = tokio::io::stdin();
    let (mut waiting, mut buffer) = (Vec::new(), vec![0; READ_BYTES]);
    let mut keys = Keys::default();
    loop {
        let read = stdin.read(&mut buffer).await.map_err(|error| {
            Failure::new(Code::Unavailable, format!("cannot read standard input: {error}"))
        })?;
        if read == 0 {
            // The end of our input is not the end of the job's terminal.
            if !terminal {
                let text = take_text(&mut waiting)?;
                client.call(&message(job, &Message { text, eof: true, ..Message::default() })?).await?;
            }
            return Ok(Over::End);
        }
        let detached = match terminal {
            true => keys.take(&buffer[..read], &mut waiting),
            false => {
                waiting.extend_from_slice(&buffer[..read]);
                false
            }
        };
        let text = take_text(&mut waiting)?;
        if !text.is_empty() {
            client.call(&message(job, &Message { text, ..Message::default() })?).await?;
        }
        if detached {
            return Ok(Over::Detached);
        }
    }
}

/// Detects the detach keys. The first one is held back until the next key is known.
#[derive(Default)]
struct Keys {
    held: bool,
}

impl Keys {
    /// Forwards keys up to the detach keys; returns whether those were typed.
    fn take(&mut self, typed: &[u8], to: &mut Vec<u8>) -> bool {
        for key in typed {
            match (std::mem::take(&mut self.held), *key) {
                (true, key) if key == DETACH_KEYS[1] => return true,
                (before, key) => {
                    if before {
                        to.push(DETACH_KEYS[0]);
                    }
                    self.held = key == DETACH_KEYS[0];
                    if !self.held {
                        to.push(key);
                    }
                }
            }
        }
        false
    }
}

/// Takes complete characters; an incomplete one stays until its remaining bytes arrive.
fn take_text(waiting: &mut Vec<u8>) -> Result<String, Failure> {
    let whole = match std::str::from_utf8(waiting) {
        Ok(_) => waiting.len(),
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        Err(_) => {
            let failure =
                Failure::new(Code::Invalid, "standard input is not UTF-8, which a job's input must be");
            return Err(failure.next("let the job read a file instead"));
        }
    };
    let rest = waiting.split_off(whole);
    let text = std::mem::replace(waiting, rest);
    String::from_utf8(text).map_err(|error| Failure::new(Code::Invalid, error.to_string()))
}

/// The terminal in raw mode. Dropping it restores the previous mode.
struct Raw {
    before: Termios,
}

impl Raw {
    fn enter() -> Option<Raw> {
        let before = tcgetattr(std::io::stdin()).ok()?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(std::io::stdin(), OptionalActions::Now, &raw).ok()?;
        Some(Raw { before })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_split_across_reads_arrives_whole() {
        let text = "aä日\n".as_bytes();
        for cut in 0..text.len() {
            let mut waiting = text[..cut].to_vec();
            let mut received = take_text(&mut waiting).expect("text");
            waiting.extend_from_slice(&text[cut..]);
            received.push_str(&take_text(&mut waiting).expect("text"));
            assert_eq!(received.as_bytes(), text, "cut at {cut}");
        }
        assert!(take_text(&mut vec![b'a', 0xff, b'b']).is_err());
    }

    #[test]
    fn the_detach_keys_are_not_forwarded_even_if_they_arrive_separately() {
        for (pieces, forwarded, detaches) in [
            (&[&b"abc"[..]][..], &b"abc"[..], false),
            (&[b"ab\x10\x11c"], b"ab", true),
            (&[b"a\x10", b"\x11"], b"a", true),
            (&[b"\x10", b"x\x11"], b"\x10x\x11", false),
            (&[b"\x10\x10", b"\x11"], b"\x10", true),
        ] {
            let (mut keys, mut to) = (Keys::default(), Vec::new());
            let detached = pieces.iter().any(|piece| keys.take(piece, &mut to));
            assert_eq!((to.as_slice(), detached), (forwarded, detaches), "{pieces:?}");
        }
    }
}
