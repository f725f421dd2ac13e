//! What one job of `survive` says and how it ends: a function of its seed, so that leader and checker agree without a word.

use lastword_core::receipt::Exit;

use crate::random::Random;

/// Lines of one job, both streams together, at most: some kilobytes, a third of a second with the pauses.
const LINES_MAX: u64 = 400;

/// Pauses between lines: none (a burst), short, and as long as a slow agent's.
const PAUSES_US: [u64; 3] = [0, 300, 1_500];

/// Where a line goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Out,
    Err,
}

/// One line, in how many writes it is written, and what follows it.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) stream: Stream,
    pub(crate) text: String,
    pub(crate) in_two: bool,
    pub(crate) pause_us: u64,
}

/// Everything one job does.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) said: Vec<Said>,
    /// Inputs it is sent, each of which it says on stdout once it has read it; none means that nothing is sent.
    pub(crate) inputs: Vec<String>,
    pub(crate) exit: Exit,
}

impl Script {
    /// Returns the script of a seed.
    pub(crate) fn of(seed: u64) -> Script {
        let mut random = Random::new(seed);
        let pace = *random.pick(&PAUSES_US);
        let said = (0..1 + random.below(LINES_MAX)).map(|number| line(&mut random, number, pace)).collect();
        let inputs = match random.chance(50) {
            true => (0..1 + random.below(12)).map(|no| format!("input {no} of {seed}\n")).collect(),
            false => Vec::new(),
        };
        let exit = match random.chance(20) {
            true => Exit::Signal(*random.pick(&[libc::SIGKILL, libc::SIGTERM, libc::SIGUSR1])),
            false => Exit::Code(random.below(256) as i32),
        };
        Script { said, inputs, exit }
    }

    /// Returns what must be on a stream, but for what inputs made it say.
    pub(crate) fn expected(&self, stream: Stream) -> String {
        self.said.iter().filter(|said| said.stream == stream).map(|said| said.text.as_str()).collect()
    }

    /// Compares what was recorded with what must be there, every byte of it.
    pub(crate) fn check(&self, stdout: &[u8], stderr: &[u8]) -> Result<(), String> {
        let text = String::from_utf8_lossy(stdout);
        // Inputs are read by a thread of their own, so they come between the lines, but in their order.
        let (heard, said): (Vec<&str>, Vec<&str>) =
            text.split_inclusive('\n').partition(|line| line.starts_with("input "));
        same("stdout", said.concat().as_bytes(), self.expected(Stream::Out).as_bytes())?;
        same("stderr", stderr, self.expected(Stream::Err).as_bytes())?;
        same("what inputs arrived", heard.concat().as_bytes(), self.inputs.concat().as_bytes())
    }
}

fn line(random: &mut Random, number: u64, pace: u64) -> Said {
    let stream = if random.chance(30) { Stream::Err } else { Stream::Out };
    let filler = "abcdefghij".repeat(random.below(12) as usize);
    Said {
        stream,
        text: format!("line {number} {filler}\n"),
        in_two: random.chance(20),
        pause_us: if pace == 0 { 0 } else { random.below(pace) },
    }
}

/// Compares bytes and says where they part.
pub(crate) fn same(what: &str, got: &[u8], expected: &[u8]) -> Result<(), String> {
    if got == expected {
        return Ok(());
    }
    let at = got.iter().zip(expected).take_while(|(one, other)| one == other).count();
    let near = |bytes: &[u8]| String::from_utf8_lossy(&bytes[at..bytes.len().min(at + 40)]).into_owned();
    Err(format!(
        "{what}: {} bytes where {} were written; they part at {at}: {:?} instead of {:?}",
        got.len(),
        expected.len(),
        near(got),
        near(expected)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_inputs() -> Script {
        (0..).map(Script::of).find(|script| script.inputs.len() > 1).expect("half of them have inputs")
    }

    #[test]
    fn what_was_said_passes_and_every_loss_is_seen() {
        let script = with_inputs();
        let err = script.expected(Stream::Err);
        let all = format!("{}{}", script.inputs.concat(), script.expected(Stream::Out));
        assert_eq!(script.check(all.as_bytes(), err.as_bytes()), Ok(()));
        let short = &all.as_bytes()[..all.len() - 1];
        assert!(script.check(short, err.as_bytes()).is_err(), "a byte is missing");
        let twice = format!("{}{all}", script.inputs[0]);
        assert!(script.check(twice.as_bytes(), err.as_bytes()).is_err(), "an input came twice");
        assert!(
            script.check(script.expected(Stream::Out).as_bytes(), err.as_bytes()).is_err(),
            "no input came"
        );
    }
}
