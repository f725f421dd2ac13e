//! Frames that are slow, huge or many, against the server and the workers that do no harm. Each is measured: what memory the server takes,
//! and how long a job on another worker waits.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use lastword_store::Journal as _;
use tokio::time::{sleep, timeout};

use super::super::attempt::{Attempt, Ends};
use super::super::setup::PATIENCE;
use super::parties::Fleet;
use super::raw::{BEAT, FRAME_MAX, REQUEST, Raw};
use super::thief::forged;
use crate::product::figures;

#[rustfmt::skip] // One row, one attempt.
pub(super) const ATTEMPTS: &[Attempt<Fleet>] = &[
    Attempt { item: 30, what: "a frame of four gigabytes is announced", ends: Ends::Refused, make: huge_frame },
    Attempt { item: 30, what: "a message never ends", ends: Ends::Refused, make: endless_message },
    Attempt { item: 30, what: "a frame comes byte by byte", ends: Ends::Refused, make: trickle },
    Attempt { item: 30, what: "a worker does not read what it asked for", ends: Ends::Survived, make: deaf },
    Attempt { item: 30, what: "a worker has as many large requests under way as it can", ends: Ends::Survived, make: large_requests },
    Attempt { item: 30, what: "a stolen token opens connection after connection, each with half a message", ends: Ends::Survived, make: many_connections },
    Attempt { item: 31, what: "strangers connect and say nothing, again and again", ends: Ends::Survived, make: strangers },
    Attempt { item: 31, what: "a stranger sends a long hello, a request, or no TLS at all", ends: Ends::Refused, make: no_hello },
];

/// What the server may take beside what it had, in KiB. Two messages of a connection may be incomplete, at 8 MiB each.
const MORE_MEMORY_MAX_KB: u64 = 160 << 10;

/// The longest that a short job on another worker may take meanwhile.
const JOB_MAX: Duration = Duration::from_secs(5);

/// How long the server waits for a frame, and some.
const SILENCE_MAX: Duration = Duration::from_secs(8);

/// The memory of the server before an attack.
struct Watch<'a> {
    fleet: &'a Fleet,
    pid: i32,
    before_kb: u64,
}

impl<'a> Watch<'a> {
    fn new(fleet: &'a Fleet) -> Result<Watch<'a>, String> {
        fleet.still_works("bob")?;
        let pid = fleet.server.pid()?;
        Ok(Watch { fleet, pid, before_kb: resident_kb(pid)? })
    }

    /// Runs a job on bob meanwhile, and says what server and job took.
    fn look(&self) -> Result<String, String> {
        let begun = Instant::now();
        self.fleet.still_works("bob")?;
        let took = begun.elapsed();
        let more = resident_kb(self.pid)?.saturating_sub(self.before_kb);
        let words = format!("{} MiB more; a job on another worker took {} ms", more >> 10, took.as_millis());
        match took <= JOB_MAX && more <= MORE_MEMORY_MAX_KB {
            true => Ok(words),
            false => Err(words),
        }
    }
}

fn resident_kb(pid: i32) -> Result<u64, String> {
    figures::resident_kb(pid).ok_or_else(|| "the server has ended".to_owned())
}

/// Enters as ann, and goes on with that connection.
fn entered(fleet: &Fleet) -> Result<Raw, String> {
    let stolen = fleet.ann.stolen()?;
    fleet
        .wait(Raw::enter(&stolen.address, &stolen.token))
        .map_err(|error| format!("it is not let in: {error}"))
}

/// Waits for the end of a connection, and returns how long that took.
async fn until_cut(raw: &mut Raw, max: Duration) -> Result<Duration, String> {
    let begun = Instant::now();
    match timeout(max, raw.end()).await {
        Ok(()) => Ok(begun.elapsed()),
        Err(_) => Err(format!("it is not cut off within {} s", max.as_secs())),
    }
}

fn huge_frame(fleet: &Fleet) -> Result<String, String> {
    let watch = Watch::new(fleet)?;
    let mut raw = entered(fleet)?;
    let cut = fleet.wait(async {
        raw.header(u32::MAX, REQUEST, true, 1).await.map_err(|error| error.to_string())?;
        until_cut(&mut raw, Duration::from_secs(2)).await
    })?;
    Ok(format!("cut off after {} ms; {}", cut.as_millis(), watch.look()?))
}

fn endless_message(fleet: &Fleet) -> Result<String, String> {
    let watch = Watch::new(fleet)?;
    let mut raw = entered(fleet)?;
    let piece = vec![b'x'; FRAME_MAX];
    let sent = fleet.wait(async {
        let mut sent = 0_usize;
        while sent < 64 << 20 && raw.frame(REQUEST, false, 1, &piece).await.is_ok() {
            sent += FRAME_MAX;
        }
        sent
    });
    match sent < 64 << 20 {
        true => Ok(format!("cut off after {} MiB; {}", sent >> 20, watch.look()?)),
        false => Err(format!("{} MiB were taken", sent >> 20)),
    }
}

fn trickle(fleet: &Fleet) -> Result<String, String> {
    let watch = Watch::new(fleet)?;
    let mut raw = entered(fleet)?;
    let begun = Instant::now();
    let is_cut = fleet.wait(async {
        raw.header(FRAME_MAX as u32, REQUEST, true, 1).await.map_err(|error| error.to_string())?;
        while begun.elapsed() < SILENCE_MAX {
            if raw.bytes(b"x").await.is_err() {
                return Ok(true);
            }
            sleep(Duration::from_millis(100)).await;
        }
        Ok::<bool, String>(false)
    })?;
    match is_cut {
        true => Ok(format!("cut off after {} s; {}", begun.elapsed().as_secs(), watch.look()?)),
        false => Err(format!("it goes on for {} s", SILENCE_MAX.as_secs())),
    }
}

/// Asks again and again for the log of a job with 200 kB in it, and reads nothing.
fn deaf(fleet: &Fleet) -> Result<String, String> {
    let words = "x".repeat(100_000);
    let words: Vec<&str> = ["true"].into_iter().chain(std::iter::repeat_n(words.as_str(), 2)).collect();
    let id = fleet.submitted("ann", &words)?;
    fleet.until(id, |job| (job["phase"] == "ended").then_some(()))?;
    let watch = Watch::new(fleet)?;
    let mut raw = entered(fleet)?;
    let request = serde_json::json!({ "load_log": { "job": id.to_string(), "after": 0 } }).to_string();
    let begun = Instant::now();
    let task = fleet.runtime.spawn(async move {
        for stream in 1..=64 {
            raw.message(stream, request.as_bytes()).await?;
        }
        // It beats, so it is not silent.
        loop {
            raw.frame(BEAT, true, 0, &[]).await?;
            sleep(Duration::from_millis(500)).await;
        }
        #[expect(unreachable_code, reason = "names the error of the task")]
        Ok::<(), std::io::Error>(())
    });
    let how = watch.look()?;
    let ended = fleet.wait(async { timeout(PATIENCE, task).await });
    match ended {
        Ok(_) => Ok(format!("{how}; cut off after {} s", begun.elapsed().as_secs())),
        Err(_) => Err(format!("it goes on for {} s", PATIENCE.as_secs())),
    }
}

/// Reports of nearly eight megabytes about a job of another worker, as many at once as a link sends.
fn large_requests(fleet: &Fleet) -> Result<String, String> {
    let id = fleet.running("bob", &["sleep", "1000"])?;
    let (job, _) = fleet.stored(id)?;
    let body = serde_json::json!({ "epoch": 1, "what": "x".repeat(7 << 20) }).to_string();
    let append = forged(&job, None, "late_reported", &body)?;
    let watch = Watch::new(fleet)?;
    let (links, each) = if fleet.short { (2, 8) } else { (3, 16) };
    // All are connected first: a link that sends so much leaves this process no time for a handshake.
    let stolen = fleet.ann.stolen()?;
    let entered = (0..links).map(|_| fleet.link(&stolen)).collect::<Result<Vec<_>, String>>()?;
    let mut tasks = Vec::new();
    for link in &entered {
        for _ in 0..each {
            let (link, append) = (link.clone(), append.clone());
            tasks.push(fleet.runtime.spawn(async move { link.append(append).await }));
        }
    }
    let mut how = watch.look()?;
    for task in tasks {
        while !task.is_finished() {
            how = watch.look()?;
        }
        let answer = fleet.wait(task).map_err(|error| error.to_string())?;
        if answer.is_ok() {
            return Err("it was written".to_owned());
        }
    }
    Ok(format!("{} requests of 7 MiB, none is stored; {how}", links * each))
}

fn many_connections(fleet: &Fleet) -> Result<String, String> {
    let watch = Watch::new(fleet)?;
    let stolen = fleet.ann.stolen()?;
    let count = if fleet.short { 60 } else { 200 };
    let piece = vec![b'x'; FRAME_MAX];
    let mut open = Vec::new();
    for _ in 0..count {
        let entered = fleet.wait(async {
            let mut raw = timeout(PATIENCE, Raw::enter(&stolen.address, &stolen.token)).await.ok()?.ok()?;
            for _ in 0..(7 << 20) / FRAME_MAX {
                raw.frame(REQUEST, false, 1, &piece).await.ok()?;
            }
            Some(raw)
        });
        open.extend(entered);
        if open.len() % 20 == 0 {
            watch.look()?;
        }
    }
    Ok(format!("{} of {count} let in; {}", open.len(), watch.look()?))
}

fn strangers(fleet: &Fleet) -> Result<String, String> {
    let watch = Watch::new(fleet)?;
    let address = fleet.ann.stolen()?.address;
    let seconds = if fleet.short { 6 } else { 15 };
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut open, mut made, mut last) = (Vec::new(), 0, String::new());
    while Instant::now() < end {
        while open.len() < 400 {
            let Ok(stream) = TcpStream::connect(&address) else { break };
            let _ = stream.set_nonblocking(true);
            open.push(stream);
            made += 1;
        }
        last = watch.look()?;
        open.retain(|stream| {
            let peeked = stream.peek(&mut [0]);
            peeked.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
        });
    }
    drop(open);
    let begun = Instant::now();
    let stolen = fleet.ann.stolen()?;
    while fleet.link(&stolen).is_err() {
        if begun.elapsed() > PATIENCE {
            return Err("no worker is let in afterwards".to_owned());
        }
    }
    Ok(format!(
        "{made} in {seconds} s; {last}; afterwards a worker is let in within {} ms",
        begun.elapsed().as_millis()
    ))
}

fn no_hello(fleet: &Fleet) -> Result<String, String> {
    use std::io::{Read as _, Write as _};
    let watch = Watch::new(fleet)?;
    let address = fleet.ann.stolen()?.address;
    fleet.wait(async {
        let mut long = Raw::connect(&address).await.map_err(|error| error.to_string())?;
        let _ = long.frame(super::raw::HELLO, true, 0, &[b'x'; 5_000]).await;
        until_cut(&mut long, Duration::from_secs(2)).await?;
        let mut early = Raw::connect(&address).await.map_err(|error| error.to_string())?;
        let _ = early.frame(REQUEST, true, 1, br#"{"feed_end":{}}"#).await;
        until_cut(&mut early, Duration::from_secs(2)).await
    })?;
    let mut plain = TcpStream::connect(&address).map_err(|error| error.to_string())?;
    let _ = plain.set_read_timeout(Some(SILENCE_MAX));
    let _ = plain.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    let mut answer = Vec::new();
    plain.read_to_end(&mut answer).map_err(|error| format!("plain text is not cut off: {error}"))?;
    Ok(format!("3 of 3 are cut off; {}", watch.look()?))
}
