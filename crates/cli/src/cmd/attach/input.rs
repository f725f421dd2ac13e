//! What is typed, or comes through a pipe, on its way to a job.

use lastword_api::{Code, Job};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::io::AsyncReadExt as _;

use super::message;
use crate::client::Client;
use crate::failure::Failure;

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
        other => other,
    }
}

async fn pass_on_to_the_end(client: &Client, job: &Job, terminal: bool) -> Result<Over, Failure> {
    let _raw = terminal.then(Raw::enter).flatten();
    let mut stdin = tokio::io::stdin();
    let (mut waiting, mut buffer) = (Vec::new(), vec![0; PIECE]);
    let mut half_let_go = false;
    loop {
        let read = stdin.read(&mut buffer).await.map_err(|error| {
            Failure::new(Code::Unavailable, format!("cannot read standard input: {error}"))
        })?;
        if read == 0 {
            let text = take_text(&mut waiting)?;
            // A terminal is not at its end because ours is.
            client.send(&message(job, text, !terminal)?).await?;
            return Ok(Over::End);
        }
        let mut piece = &buffer[..read];
        let let_go = if terminal { lets_go(&mut half_let_go, piece) } else { None };
        if let Some(at) = let_go {
            piece = &piece[..at];
        }
        waiting.extend_from_slice(piece);
        let text = take_text(&mut waiting)?;
        if !text.is_empty() {
            client.send(&message(job, text, false)?).await?;
        }
        if let_go.is_some() {
            return Ok(Over::LetGo);
        }
    }
}

/// Looks for the keys that let go, also across two pieces; returns where they begin.
fn lets_go(half: &mut bool, piece: &[u8]) -> Option<usize> {
    if *half && piece.first() == Some(&LET_GO[1]) {
        return Some(0);
    }
    *half = piece.last() == Some(&LET_GO[0]);
    piece.windows(2).position(|keys| keys == LET_GO)
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
    fn two_keys_let_go_also_when_they_come_apart() {
        let mut half = false;
        assert_eq!(lets_go(&mut half, b"abc"), None);
        assert_eq!(lets_go(&mut half, b"ab\x10\x11c"), Some(2));
        let mut half = false;
        assert_eq!(lets_go(&mut half, b"\x10"), None);
        assert_eq!(lets_go(&mut half, b"\x11"), Some(0));
        let mut half = false;
        assert_eq!(lets_go(&mut half, b"\x10"), None);
        assert_eq!(lets_go(&mut half, b"x\x11"), None);
    }
}
