//! What is typed, or comes through a pipe, on its way to a job.

use lastword_api::{Code, Job, Message};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::io::AsyncReadExt as _;

use super::message;
use crate::client::Client;
use crate::failure::Failure;
use crate::ui::words;

/// Bytes taken at once. Each piece is made durable before it is passed on, so not too small.
const PIECE: usize = 64 << 10;

/// Ctrl-P and then Ctrl-Q let go of a terminal, as docker has it.
const LET_GO: [u8; 2] = [0x10, 0x11];

/// Why no more input comes.
pub(super) enum Over {
    /// There is no more.
    End,
    /// Somebody lets go of the job.
    LetGo,
}

/// Passes standard input on to a job until it ends. With `terminal`, every key goes to the job as it is.
pub(super) async fn pass_on(client: &Client, job: &Job, terminal: bool) -> Result<Over, Failure> {
    match pass_on_to_the_end(client, job, terminal).await {
        // A job need not read all there is.
        Err(failure) if failure.problem.code == Code::Ended => Ok(Over::End),
        // It reads on, and nobody writes any more.
        Err(failure) => {
            let cancel =
                format!("lastword cancel {}    # it goes on, and waits for input", words::reference(job));
            Err(failure.next(cancel))
        }
        other => other,
    }
}

async fn pass_on_to_the_end(client: &Client, job: &Job, terminal: bool) -> Result<Over, Failure> {
    let _raw = terminal.then(Raw::enter).flatten();
    let mut stdin = tokio::io::stdin();
    let (mut waiting, mut buffer) = (Vec::new(), vec![0; PIECE]);
    let mut keys = Keys::default();
    loop {
        let read = stdin.read(&mut buffer).await.map_err(|error| {
            Failure::new(Code::Unavailable, format!("cannot read standard input: {error}"))
        })?;
        if read == 0 {
            // A terminal is not at its end because ours is.
            if !terminal {
                client
                    .send(&message(job, Message { text: take_text(&mut waiting)?, eof: true, steer: false })?)
                    .await?;
            }
            return Ok(Over::End);
        }
        let let_go = match terminal {
            true => keys.take(&buffer[..read], &mut waiting),
            false => {
                waiting.extend_from_slice(&buffer[..read]);
                false
            }
        };
        let text = take_text(&mut waiting)?;
        if !text.is_empty() {
            client.send(&message(job, Message { text, ..Message::default() })?).await?;
        }
        if let_go {
            return Ok(Over::LetGo);
        }
    }
}

/// Keys on their way to a terminal. The first of the two that let go is held back until it is known what follows.
#[derive(Default)]
struct Keys {
    held: bool,
}

impl Keys {
    /// Passes keys on, up to those that let go; reports whether they came.
    fn take(&mut self, typed: &[u8], to: &mut Vec<u8>) -> bool {
        for key in typed {
            match (std::mem::take(&mut self.held), *key) {
                (true, key) if key == LET_GO[1] => return true,
                (before, key) => {
                    if before {
                        to.push(LET_GO[0]);
                    }
                    self.held = key == LET_GO[0];
                    if !self.held {
                        to.push(key);
                    }
                }
            }
        }
        false
    }
}

/// Takes the text that is whole; the beginning of a character waits for its rest.
fn take_text(waiting: &mut Vec<u8>) -> Result<String, Failure> {
    let whole = match std::str::from_utf8(waiting) {
        Ok(_) => waiting.len(),
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        Err(_) => {
            let failure =
                Failure::new(Code::Invalid, "standard input is not UTF-8 text, and a job is sent text");
            return Err(failure.next("have the job read a file instead"));
        }
    };
    let rest = waiting.split_off(whole);
    let text = std::mem::replace(waiting, rest);
    String::from_utf8(text).map_err(|error| Failure::new(Code::Invalid, error.to_string()))
}

/// The terminal, with every key passed on as it is. Dropping it makes it as it was.
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
    fn a_character_in_two_pieces_arrives_whole() {
        let text = "aä日\n".as_bytes();
        for cut in 0..text.len() {
            let mut waiting = text[..cut].to_vec();
            let mut heard = take_text(&mut waiting).expect("text");
            waiting.extend_from_slice(&text[cut..]);
            heard.push_str(&take_text(&mut waiting).expect("text"));
            assert_eq!(heard.as_bytes(), text, "cut at {cut}");
        }
        assert!(take_text(&mut vec![b'a', 0xff, b'b']).is_err());
    }

    #[test]
    fn two_keys_let_go_and_reach_nobody_also_when_they_come_apart() {
        for (pieces, passed_on, lets_go) in [
            (&[&b"abc"[..]][..], &b"abc"[..], false),
            (&[b"ab\x10\x11c"], b"ab", true),
            (&[b"a\x10", b"\x11"], b"a", true),
            (&[b"\x10", b"x\x11"], b"\x10x\x11", false),
            (&[b"\x10\x10", b"\x11"], b"\x10", true),
        ] {
            let (mut keys, mut to) = (Keys::default(), Vec::new());
            let let_go = pieces.iter().any(|piece| keys.take(piece, &mut to));
            assert_eq!((to.as_slice(), let_go), (passed_on, lets_go), "{pieces:?}");
        }
    }
}
