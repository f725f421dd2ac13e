//! What the jobs of these trials run: the hidden verb `leader`. Each is the leader of a tree under a keeper.

mod argv;

use std::fs::OpenOptions;
use std::io::{self, BufRead as _, Write};
use std::time::{Duration, Instant};

use lastword_core::receipt::Exit;

use crate::bombs::Bomb;
use crate::chaos;
use crate::clock;
use crate::survive::script::{Script, Stream};

pub(crate) use argv::argv;

/// Runs `leader KIND ...`.
pub(crate) fn run(words: &[&str]) -> Result<bool, String> {
    match words {
        ["lines", seed, started] => lines(number(seed)?, started),
        ["bomb", kind, size] => bomb(kind, number(size)?),
        ["canary", life, numbers @ ..] => {
            let numbers: Result<Vec<u64>, String> = numbers.iter().map(|word| number(word)).collect();
            chaos::sing(life, &numbers?)
        }
        ["stamp"] => stamp().map_err(|error| error.to_string()),
        ["stamp-in", file] => stamp_in(file).map_err(|error| format!("{file}: {error}")),
        ["sleep"] => loop {
            std::thread::park();
        },
        _ => Err(format!("no such leader: {}", words.join(" "))),
    }
}

fn number(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("{word}: not a number"))
}

/// Prints when it began, by the boot clock.
fn stamp() -> io::Result<bool> {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    writeln!(io::stdout(), "{}", now.tv_sec * 1_000_000_000 + now.tv_nsec)?;
    Ok(true)
}

/// The same, in a file.
fn stamp_in(file: &str) -> io::Result<bool> {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    std::fs::write(file, format!("{}\n", now.tv_sec * 1_000_000_000 + now.tv_nsec))?;
    Ok(true)
}

/// Follows a script: prints its lines, echoes its inputs, exits as told.
fn lines(seed: u64, started: &str) -> Result<bool, String> {
    // Shows outside the keeper that this job was started, and only once.
    if OpenOptions::new().write(true).create_new(true).open(started).is_err() {
        let _ = std::fs::write(format!("{started}.twice"), "");
    }
    let script = Script::of(seed);
    let echo = (!script.inputs.is_empty()).then(|| std::thread::spawn(repeat_inputs));
    for said in &script.said {
        match said.stream {
            Stream::Out => say(io::stdout().lock(), &said.text, said.in_two),
            Stream::Err => say(io::stderr().lock(), &said.text, said.in_two),
        }
        .map_err(|error| error.to_string())?;
        pause(said.pause_us);
    }
    if let Some(echo) = echo {
        echo.join().map_err(|_| "the thread of inputs failed")?.map_err(|error| error.to_string())?;
    }
    end(script.exit)
}

fn say(mut to: impl Write, text: &str, in_two: bool) -> io::Result<()> {
    let half = if in_two { text.len() / 2 } else { 0 };
    to.write_all(&text.as_bytes()[..half])?;
    to.flush()?;
    to.write_all(&text.as_bytes()[half..])?;
    to.flush()
}

/// Echoes every line of the input until it ends.
fn repeat_inputs() -> io::Result<()> {
    for line in io::stdin().lock().lines() {
        let line = format!("{}\n", line?);
        say(io::stdout().lock(), &line, false)?;
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a leader that takes its time is what is meant")]
fn pause(us: u64) {
    if us > 0 {
        std::thread::sleep(Duration::from_micros(us));
    }
}

fn end(exit: Exit) -> Result<bool, String> {
    match exit {
        Exit::Code(code) => std::process::exit(code),
        Exit::Signal(signal) => {
            // SAFETY: a fatal signal to this process.
            unsafe { libc::raise(signal) };
            Err(format!("signal {signal} did not end this process"))
        }
    }
}

/// Writes `size` bytes of a bomb to stdout, in its pattern.
fn bomb(kind: &str, size: u64) -> Result<bool, String> {
    let bomb = Bomb::named(kind)?;
    match bomb.writes_per_second() {
        None => pour(bomb, size),
        Some(rate) => drip(bomb, size, rate),
    }
    .map_err(|error| format!("{kind}: {error}"))?;
    Ok(true)
}

/// At full speed, in large writes.
fn pour(bomb: Bomb, size: u64) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let mut block = vec![0; 256 << 10];
    let mut at = 0;
    while at < size {
        let length = (size - at).min(block.len() as u64) as usize;
        bomb.fill(at, &mut block[..length]);
        rustix_write(&mut out, &block[..length])?;
        at += length as u64;
    }
    Ok(())
}

/// In writes of one line each, `rate` per second.
fn drip(bomb: Bomb, size: u64, rate: u64) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let mut line = vec![0; bomb.unit()];
    let begin = Instant::now();
    let (mut at, mut writes) = (0, 0_u64);
    while at < size {
        let length = (size - at).min(line.len() as u64) as usize;
        bomb.fill(at, &mut line[..length]);
        rustix_write(&mut out, &line[..length])?;
        at += length as u64;
        writes += 1;
        while u128::from(writes) * 1_000_000 > begin.elapsed().as_micros() * u128::from(rate) {
            clock::rest(clock::MOMENT);
        }
    }
    Ok(())
}

/// Writes without the library's buffer: the size of a write matters here.
fn rustix_write(out: &mut io::StdoutLock<'_>, mut bytes: &[u8]) -> io::Result<()> {
    use std::os::fd::AsFd as _;
    while !bytes.is_empty() {
        let written = rustix::io::write(out.as_fd(), bytes)?;
        bytes = &bytes[written..];
    }
    Ok(())
}
