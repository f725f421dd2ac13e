//! The daemon's side of the control socket: one call, one line, one answer.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use lastword_core::receipt::{Exit, Rung};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::claim::Claim;
use crate::error::Error;
use crate::folder::Folder;
use crate::line::Line;
use crate::words;

/// How long a keeper may take to answer. It is one thread that never waits for anybody; longer, and it is stopped or dead.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection to the keeper of one attempt.
#[derive(Debug)]
pub struct Keeper {
    stream: BufReader<UnixStream>,
    epoch: u64,
    dir: std::path::PathBuf,
}

/// How a stop is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stop<'a> {
    /// Why, in a word; the keeper notes it when the journal cannot.
    pub cause: &'a str,
    /// Straight to KILL.
    pub force: bool,
    /// The journal is away: the wish must be durable here first.
    pub local: bool,
    /// Another grace than the launch's.
    pub term_ms: Option<u64>,
}

/// Something to be said to a keeper.
#[derive(Clone, Copy, Debug)]
pub enum Saying<'a> {
    /// Let us hear of every change from now on.
    Watch,
    /// End the tree.
    Stop(Stop<'a>),
    /// Stop the tree by yourself at this moment of the awake clock, in milliseconds.
    Deadline(Option<u64>),
    /// Write this to the leader, unless you have taken that number.
    Input {
        /// Its number.
        no: u64,
        /// What.
        bytes: &'a [u8],
    },
    /// Close the leader's input once everything sent is written.
    Close,
    /// Interrupt the leader, as a terminal would.
    Interrupt,
    /// Make the whole tree hold still, or go on.
    Hold(bool),
    /// Standard output was read up to here, and is needed again only from there on.
    Trim {
        /// Up to here.
        upto: u64,
        /// From there on.
        free: u64,
    },
}

impl<'a> Saying<'a> {
    /// Returns it as it goes over the line, in the name of a claim: for whoever has taken the line from [`Keeper::into_parts`].
    pub fn encode(&self, epoch: u64) -> Vec<u8> {
        let (line, payload) = self.line();
        let mut bytes = line.with("epoch", epoch).to_string().into_bytes();
        bytes.extend_from_slice(payload);
        bytes
    }

    fn line(&self) -> (Line, &'a [u8]) {
        match self {
            Saying::Watch => (Line::new("watch"), &[]),
            Saying::Stop(stop) => {
                let line = Line::new("stop")
                    .with("cause", stop.cause)
                    .with("force", u8::from(stop.force))
                    .with("local", u8::from(stop.local))
                    .with_some("term", stop.term_ms);
                (line, &[])
            }
            Saying::Deadline(at) => (Line::new("deadline").with_some("at", *at), &[]),
            Saying::Input { no, bytes } => {
                (Line::new("input").with("no", no).with("bytes", bytes.len()), bytes)
            }
            Saying::Close => (Line::new("close"), &[]),
            Saying::Interrupt => (Line::new("interrupt"), &[]),
            Saying::Hold(still) => (Line::new("hold").with("still", u8::from(*still)), &[]),
            Saying::Trim { upto, free } => {
                (Line::new("trim").with("stream", "stdout").with("upto", upto).with("free", free), &[])
            }
        }
    }
}

/// Reads an answer of a keeper; `None` for what is none, but an event.
pub fn answer(line: &str) -> Option<Result<Line, Error>> {
    answered(Line::parse(line)?)
}

fn answered(answer: Line) -> Option<Result<Line, Error>> {
    let words = || answer.text("words").unwrap_or_default().to_owned();
    match (answer.word(), answer.text("code")) {
        ("ok", _) => Some(Ok(answer)),
        ("event", _) => None,
        (_, Some("stale")) => Some(Err(Error::Stale(words()))),
        (_, code) => {
            Some(Err(Error::Declined { code: code.unwrap_or("unknown").to_owned(), words: words() }))
        }
    }
}

/// What a keeper says of its tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// `running`, `stopping`, or `unrecorded` when the tree is gone and its record cannot be written.
    pub phase: String,
    /// KILL has not helped for a long time.
    pub stuck: bool,
    /// Processes alive in the tree.
    pub alive: u32,
    /// Some of them.
    pub pids: Vec<i32>,
    /// How the leader exited, if it has.
    pub exited: Option<Exit>,
    /// The last rung of a stop.
    pub rung: Option<Rung>,
    /// Bytes seen on standard output.
    pub stdout: u64,
    /// Bytes seen on standard error.
    pub stderr: u64,
    /// The newest input that was written to its last byte.
    pub told: u64,
    /// When the keeper stops the tree by itself.
    pub deadline: Option<u64>,
    /// When its lease runs out.
    pub lease: Option<u64>,
    /// Whose requests it obeys.
    pub epoch: u64,
}

impl Keeper {
    /// Connects to the keeper of an attempt, to speak for the given claim.
    pub fn connect(dir: &Path, epoch: u64) -> Result<Keeper, Error> {
        let folder = Folder::open_ours(dir).map_err(Error::io(format!("cannot open {}", dir.display())))?;
        let claim =
            Claim::read(&folder).map_err(Error::io(format!("cannot read the claim in {}", dir.display())))?;
        let Some((_, Claim::Kept(kept))) = claim else {
            return Err(Error::NoKeeper(dir.to_owned()));
        };
        let stream = reach(&folder.path_of(&kept.socket)).map_err(|_| Error::NoKeeper(dir.to_owned()))?;
        let peer = rustix::net::sockopt::socket_peercred(&stream);
        // Its guard made the socket: who listens there now and is not it has put another in its place.
        let is_keeper = |peer: rustix::net::UCred| {
            peer.uid == rustix::process::geteuid() && peer.pid.as_raw_nonzero().get() == kept.guard.pid
        };
        if !peer.is_ok_and(is_keeper) {
            return Err(Error::NoKeeper(dir.to_owned()));
        }
        Ok(Keeper { stream: BufReader::new(stream), epoch, dir: dir.to_owned() })
    }

    /// Waits this long for each answer, instead of as long as a keeper may take.
    pub fn within(self, time: Duration) -> Keeper {
        // A socket takes any time but none.
        let time = Some(time.max(Duration::from_millis(1)));
        let stream = self.stream.get_ref();
        let _ = stream.set_read_timeout(time).and_then(|()| stream.set_write_timeout(time));
        self
    }

    /// Asks how the tree is.
    pub fn status(&mut self) -> Result<Status, Error> {
        let line = self.call(Line::new("status"), &[])?;
        self.read_status(&line)
    }

    /// Sends an input. A number that was taken before is not taken again; `true` means that it was taken now.
    pub fn input(&mut self, no: u64, bytes: &[u8]) -> Result<bool, Error> {
        Ok(self.say(Saying::Input { no, bytes })?.text("taken") == Some("now"))
    }

    /// Closes the leader's input once everything sent is written.
    pub fn close_input(&mut self) -> Result<(), Error> {
        self.say(Saying::Close).map(drop)
    }

    /// Sends the leader an interrupt, as a terminal would.
    pub fn interrupt(&mut self) -> Result<(), Error> {
        self.say(Saying::Interrupt).map(drop)
    }

    /// Asks for the tree's end. Returns at once; the exit record tells when it is empty. `false` means that a local stop
    /// could not be made durable; the tree is stopped all the same.
    pub fn stop(&mut self, stop: Stop<'_>) -> Result<bool, Error> {
        Ok(self.say(Saying::Stop(stop))?.get::<u8>("durable") == Some(1))
    }

    /// Sets when the keeper stops the tree by itself, in milliseconds of the awake clock.
    pub fn deadline(&mut self, at: Option<u64>) -> Result<(), Error> {
        self.say(Saying::Deadline(at)).map(drop)
    }

    /// Renews the lease, in milliseconds of the boot clock.
    pub fn lease(&mut self, at: Option<u64>) -> Result<(), Error> {
        self.call(Line::new("lease").with_some("at", at), &[]).map(drop)
    }

    /// Says how far a spool was read: what lies before may go.
    pub fn trim(&mut self, stream: &str, upto: u64) -> Result<(), Error> {
        self.call(Line::new("trim").with("stream", stream).with("upto", upto), &[]).map(drop)
    }

    /// Asks to hear of every change from now on; [`Keeper::next_event`] reads them.
    pub fn watch(&mut self) -> Result<Status, Error> {
        let line = self.say(Saying::Watch)?;
        self.read_status(&line)
    }

    /// Waits for the next change. `None` when the keeper is gone; the exit record, or locate, tells why.
    pub fn next_event(&mut self) -> Result<Option<Line>, Error> {
        self.stream.get_ref().set_read_timeout(None).map_err(Error::io("cannot set a time limit"))?;
        Ok(self.read_line())
    }

    /// Gives the connection away, with what was received and not read yet: for whoever waits for events in its own way.
    pub fn into_parts(self) -> (UnixStream, Vec<u8>) {
        let unread = self.stream.buffer().to_vec();
        (self.stream.into_inner(), unread)
    }

    fn say(&mut self, saying: Saying<'_>) -> Result<Line, Error> {
        let (line, payload) = saying.line();
        self.call(line, payload)
    }

    fn call(&mut self, line: Line, payload: &[u8]) -> Result<Line, Error> {
        let gone = || Error::NoKeeper(self.dir.clone());
        let text = line.with("epoch", self.epoch).to_string();
        let stream = self.stream.get_mut();
        stream.write_all(text.as_bytes()).and_then(|()| stream.write_all(payload)).map_err(|_| gone())?;
        loop {
            let line = self.read_line().ok_or_else(|| Error::NoKeeper(self.dir.clone()))?;
            // Something may have happened while the question was under way; whoever watches reads the exit record in the end.
            if let Some(answer) = answered(line) {
                return answer;
            }
        }
    }

    fn read_line(&mut self) -> Option<Line> {
        let mut text = String::new();
        match self.stream.read_line(&mut text) {
            Ok(read) if read > 0 => Line::parse(text.strip_suffix('\n')?),
            _ => None,
        }
    }

    fn read_status(&self, line: &Line) -> Result<Status, Error> {
        let malformed = || Error::Declined { code: "malformed".to_owned(), words: line.to_string() };
        Ok(Status {
            phase: line.text("phase").ok_or_else(malformed)?.to_owned(),
            stuck: line.get::<u8>("stuck") == Some(1),
            alive: line.get("alive").ok_or_else(malformed)?,
            pids: line
                .text("pids")
                .unwrap_or_default()
                .split(',')
                .filter_map(|pid| pid.parse().ok())
                .collect(),
            exited: line.text("exited").and_then(words::exit),
            rung: line.text("rung").and_then(words::rung),
            stdout: line.get("stdout").unwrap_or(0),
            stderr: line.get("stderr").unwrap_or(0),
            told: line.get("told").unwrap_or(0),
            deadline: line.get("deadline"),
            lease: line.get("lease"),
            epoch: line.get("epoch").unwrap_or(0),
        })
    }
}

/// Reads the rung that was climbed, and how many were alive, from an event of a keeper that is watched.
pub fn climbed(line: &str) -> Option<(Rung, u32)> {
    let line =
        Line::parse(line).filter(|line| line.word() == "event" && line.text("what") == Some("climbed"))?;
    Some((line.text("rung").and_then(words::rung)?, line.get("alive")?))
}

/// Reads from an event of a keeper that is watched which input was written to its last byte, and with it all before it.
pub fn told(line: &str) -> Option<u64> {
    Line::parse(line)
        .filter(|line| line.word() == "event" && line.text("what") == Some("told"))
        .and_then(|line| line.get("no"))
}

/// Reports whether an event of a keeper that is watched says that the tree has ended and its record is there.
pub fn has_ended(line: &str) -> bool {
    Line::parse(line).is_some_and(|line| line.word() == "event" && line.text("what") == Some("ended"))
}

/// Reports which of these connections have nobody at their other end any more, with one call for all of them.
pub fn hung_up<'a>(connections: impl IntoIterator<Item = BorrowedFd<'a>>) -> std::io::Result<Vec<bool>> {
    let mut polled: Vec<PollFd<'a>> =
        connections.into_iter().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::empty())).collect();
    if !polled.is_empty() {
        rustix::io::retry_on_intr(|| poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })))?;
    }
    let over = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    Ok(polled.iter().map(|fd| fd.revents().intersects(over)).collect())
}

/// Connects to a socket, with a time limit on that too: a keeper that is stopped lets nobody in once its queue is full.
fn reach(path: &str) -> std::io::Result<UnixStream> {
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    let stream = UnixStream::from(socket);
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
    rustix::net::connect(&stream, &SocketAddrUnix::new(path)?)?;
    Ok(stream)
}
