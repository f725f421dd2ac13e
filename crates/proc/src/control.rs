//! The daemon's side of the control socket: each request is one line and gets one answer.

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
use crate::lease::LeaseFile;
use crate::line_format::Line;
use crate::spelling;

/// How long a keeper may take to answer. Its single thread never blocks, so a slower one is stopped or dead.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection to the keeper of one attempt.
#[derive(Debug)]
pub struct Keeper {
    stream: BufReader<UnixStream>,
    epoch: u64,
    dir: std::path::PathBuf,
}

/// The parameters of a stop.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stop<'a> {
    /// The reason, as one word; the keeper records it if the journal cannot.
    pub cause: &'a str,
    /// Skip TERM and kill at once.
    pub force: bool,
    /// The journal is unavailable: the keeper records the request durably first.
    pub local: bool,
    /// Overrides the grace of the launch.
    pub term_ms: Option<u64>,
}

/// A command to a keeper.
#[derive(Clone, Copy, Debug)]
pub enum KeeperCommand<'a> {
    /// Report every change from now on.
    Watch,
    /// Stop the tree.
    Stop(Stop<'a>),
    /// Stop the tree at this time of the awake clock, in milliseconds.
    Deadline(Option<u64>),
    /// Write this to the leader's input, unless the number was accepted before.
    Input {
        /// The number of the input.
        no: u64,
        /// The input itself.
        bytes: &'a [u8],
    },
    /// Close the leader's input once everything accepted is written.
    Close,
    /// Send the leader SIGINT, as a terminal would.
    Interrupt,
    /// Freeze or thaw the whole tree.
    Freeze(bool),
    /// Standard output was read up to `upto`; bytes before `free` are no longer needed.
    Trim {
        /// How far it was read.
        upto: u64,
        /// What may be deleted.
        free: u64,
    },
}

impl<'a> KeeperCommand<'a> {
    /// Encodes the command for a given epoch, for callers that own the socket after [`Keeper::into_parts`].
    pub fn encode(&self, epoch: u64) -> Vec<u8> {
        let (line, payload) = self.line();
        let mut bytes = line.with("epoch", epoch).to_string().into_bytes();
        bytes.extend_from_slice(payload);
        bytes
    }

    fn line(&self) -> (Line, &'a [u8]) {
        match self {
            KeeperCommand::Watch => (Line::new("watch"), &[]),
            KeeperCommand::Stop(stop) => {
                let line = Line::new("stop")
                    .with("cause", stop.cause)
                    .with("force", u8::from(stop.force))
                    .with("local", u8::from(stop.local))
                    .with_some("term", stop.term_ms);
                (line, &[])
            }
            KeeperCommand::Deadline(at) => (Line::new("deadline").with_some("at", *at), &[]),
            KeeperCommand::Input { no, bytes } => {
                (Line::new("input").with("no", no).with("bytes", bytes.len()), bytes)
            }
            KeeperCommand::Close => (Line::new("close"), &[]),
            KeeperCommand::Interrupt => (Line::new("interrupt"), &[]),
            KeeperCommand::Freeze(on) => (Line::new("hold").with("still", u8::from(*on)), &[]),
            KeeperCommand::Trim { upto, free } => {
                (Line::new("trim").with("stream", "stdout").with("upto", upto).with("free", free), &[])
            }
        }
    }
}

/// Parses a keeper's answer; `None` if the line is an event.
pub fn parse_answer(line: &str) -> Option<Result<Line, Error>> {
    answered(Line::parse(line)?)
}

fn answered(answer: Line) -> Option<Result<Line, Error>> {
    let message = || answer.text("words").unwrap_or_default().to_owned();
    match (answer.kind(), answer.text("code")) {
        ("ok", _) => Some(Ok(answer)),
        ("event", _) => None,
        (_, Some("stale")) => Some(Err(Error::Stale(message()))),
        (_, code) => {
            Some(Err(Error::Declined { code: code.unwrap_or("unknown").to_owned(), message: message() }))
        }
    }
}

/// What a keeper reports about its tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// `running`, `stopping`, or `unrecorded` if the tree is gone and its record cannot be written.
    pub phase: String,
    /// KILL has had no effect for a long time.
    pub stuck: bool,
    /// Processes alive in the tree.
    pub alive: u32,
    /// The pids of some of them.
    pub pids: Vec<i32>,
    /// The leader's exit, if it has exited.
    pub exited: Option<Exit>,
    /// The last rung of the stop.
    pub rung: Option<Rung>,
    /// Bytes seen on stdout.
    pub stdout: u64,
    /// Bytes seen on stderr.
    pub stderr: u64,
    /// The newest input that was written completely.
    pub inputs_written: u64,
    /// When the keeper will stop the tree on its own.
    pub deadline: Option<u64>,
    /// Until when its lease lasts, as far as the keeper has read, in milliseconds of the boot clock.
    pub lease: Option<u64>,
    /// The epoch of the owner that it obeys.
    pub epoch: u64,
}

impl Keeper {
    /// Connects to the keeper of an attempt on behalf of an epoch.
    pub fn connect(dir: &Path, epoch: u64) -> Result<Keeper, Error> {
        let folder = Folder::open_ours(dir).map_err(Error::io(format!("cannot open {}", dir.display())))?;
        let claim =
            Claim::read(&folder).map_err(Error::io(format!("cannot read the claim in {}", dir.display())))?;
        let Some((_, Claim::Keeper(keeper))) = claim else {
            return Err(Error::NoKeeper(dir.to_owned()));
        };
        let stream = connect_with_timeout(&folder.path_of(&keeper.socket))
            .map_err(|_| Error::NoKeeper(dir.to_owned()))?;
        let peer = rustix::net::sockopt::socket_peercred(&stream);
        // The guard created the socket: any other listener replaced it.
        let is_keeper = |peer: rustix::net::UCred| {
            peer.uid == rustix::process::geteuid() && keeper.listens_as(peer.pid.as_raw_nonzero().get())
        };
        if !peer.is_ok_and(is_keeper) {
            return Err(Error::NoKeeper(dir.to_owned()));
        }
        Ok(Keeper { stream: BufReader::new(stream), epoch, dir: dir.to_owned() })
    }

    /// Sets a shorter timeout for each answer.
    pub fn with_timeout(self, time: Duration) -> Keeper {
        // A socket refuses a timeout of zero.
        let time = Some(time.max(Duration::from_millis(1)));
        let stream = self.stream.get_ref();
        let _ = stream.set_read_timeout(time).and_then(|()| stream.set_write_timeout(time));
        self
    }

    /// Asks for the state of the tree.
    pub fn status(&mut self) -> Result<Status, Error> {
        let line = self.call(Line::new("status"), &[])?;
        self.read_status(&line)
    }

    /// Sends an input. Returns `false` if its number was accepted before.
    pub fn input(&mut self, no: u64, bytes: &[u8]) -> Result<bool, Error> {
        Ok(self.send(KeeperCommand::Input { no, bytes })?.text("taken") == Some("now"))
    }

    /// Closes the leader's input once everything accepted is written.
    pub fn close_input(&mut self) -> Result<(), Error> {
        self.send(KeeperCommand::Close).map(drop)
    }

    /// Sends the leader SIGINT, as a terminal would.
    pub fn interrupt(&mut self) -> Result<(), Error> {
        self.send(KeeperCommand::Interrupt).map(drop)
    }

    /// Requests the end of the tree and returns at once; the exit record tells when it is empty. Returns `false` if a local stop could not be
    /// recorded durably; the tree is stopped anyway.
    pub fn stop(&mut self, stop: Stop<'_>) -> Result<bool, Error> {
        Ok(self.send(KeeperCommand::Stop(stop))?.get::<u8>("durable") == Some(1))
    }

    /// Sets when the keeper stops the tree on its own, in milliseconds of the awake clock.
    pub fn deadline(&mut self, at: Option<u64>) -> Result<(), Error> {
        self.send(KeeperCommand::Deadline(at)).map(drop)
    }

    /// Has the keeper follow this lease file from now on, or none. A keeper of version 0.1.0 declines: it knows no such file.
    pub fn follow(&mut self, lease: Option<&LeaseFile>) -> Result<(), Error> {
        let line = Line::new("follow").with_bytes_some("lease_file", lease.map(LeaseFile::path));
        self.call(line, &[]).map(drop)
    }

    /// Changes the size of the leader's terminal. A keeper of version 0.1.0 declines.
    pub fn resize(&mut self, rows: u16, columns: u16) -> Result<(), Error> {
        self.call(Line::new("resize").with("rows", rows).with("columns", columns), &[]).map(drop)
    }

    /// Reports how far a spool was read, so that the keeper can delete what lies before.
    pub fn trim(&mut self, stream: &str, upto: u64) -> Result<(), Error> {
        self.call(Line::new("trim").with("stream", stream).with("upto", upto), &[]).map(drop)
    }

    /// Subscribes to changes; [`Keeper::next_event`] reads them.
    pub fn watch(&mut self) -> Result<Status, Error> {
        let line = self.send(KeeperCommand::Watch)?;
        self.read_status(&line)
    }

    /// Waits for the next change; `None` if the keeper is gone. The exit record or `locate` tells why.
    pub fn next_event(&mut self) -> Result<Option<Line>, Error> {
        self.stream.get_ref().set_read_timeout(None).map_err(Error::io("cannot set a time limit"))?;
        Ok(self.read_line())
    }

    /// Returns the socket and the bytes received but not yet read, for callers with their own event loop.
    pub fn into_parts(self) -> (UnixStream, Vec<u8>) {
        let unread = self.stream.buffer().to_vec();
        (self.stream.into_inner(), unread)
    }

    fn send(&mut self, command: KeeperCommand<'_>) -> Result<Line, Error> {
        let (line, payload) = command.line();
        self.call(line, payload)
    }

    fn call(&mut self, line: Line, payload: &[u8]) -> Result<Line, Error> {
        let gone = || Error::NoKeeper(self.dir.clone());
        let text = line.with("epoch", self.epoch).to_string();
        let stream = self.stream.get_mut();
        stream.write_all(text.as_bytes()).and_then(|()| stream.write_all(payload)).map_err(|_| gone())?;
        loop {
            let line = self.read_line().ok_or_else(|| Error::NoKeeper(self.dir.clone()))?;
            // Skip events that arrived meanwhile; a watcher reads the exit record in the end.
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
        let malformed = || Error::Declined { code: "malformed".to_owned(), message: line.to_string() };
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
            exited: line.text("exited").and_then(spelling::parse_exit),
            rung: line.text("rung").and_then(spelling::parse_rung),
            stdout: line.get("stdout").unwrap_or(0),
            stderr: line.get("stderr").unwrap_or(0),
            inputs_written: line.get("told").unwrap_or(0),
            deadline: line.get("deadline"),
            lease: line.get("lease"),
            epoch: line.get("epoch").unwrap_or(0),
        })
    }
}

/// Parses the rung of a `climbed` event, and how many processes were alive.
pub fn parse_climbed(line: &str) -> Option<(Rung, u32)> {
    let line =
        Line::parse(line).filter(|line| line.kind() == "event" && line.text("what") == Some("climbed"))?;
    Some((line.text("rung").and_then(spelling::parse_rung)?, line.get("alive")?))
}

/// Parses the number of a `told` event: this input and all before it are written completely.
pub fn parse_written(line: &str) -> Option<u64> {
    Line::parse(line)
        .filter(|line| line.kind() == "event" && line.text("what") == Some("told"))
        .and_then(|line| line.get("no"))
}

/// Reports whether an event says that the tree has ended and its record is published.
pub fn is_ended_event(line: &str) -> bool {
    Line::parse(line).is_some_and(|line| line.kind() == "event" && line.text("what") == Some("ended"))
}

/// Reports for each connection whether the other end is closed, with a single `poll`.
pub fn hung_up<'a>(connections: impl IntoIterator<Item = BorrowedFd<'a>>) -> std::io::Result<Vec<bool>> {
    let mut polled: Vec<PollFd<'a>> =
        connections.into_iter().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::empty())).collect();
    if !polled.is_empty() {
        rustix::io::retry_on_intr(|| poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })))?;
    }
    let over = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    Ok(polled.iter().map(|fd| fd.revents().intersects(over)).collect())
}

/// Connects with a timeout: a stopped keeper accepts no connection once its backlog is full.
fn connect_with_timeout(path: &str) -> std::io::Result<UnixStream> {
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    let stream = UnixStream::from(socket);
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
    rustix::net::connect(&stream, &SocketAddrUnix::new(path)?)?;
    Ok(stream)
}
