//! The claim file of an attempt: which keeper owns the folder, and what has happened so far.
//!
//! Its first line is published with a hard link, so only one keeper can win; the keeper appends lines as things happen. A lock on the
//! file shows whether guard or shim is alive. Nothing is synced: a power cut changes the boot id, which proves that all processes died.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use lastword_core::receipt::{Exit, KeeperStop, Level, OutputBytes};
use rustix::fs::OFlags;

use crate::folder::{Durable, Folder, Published};
use crate::identity::Identity;
use crate::level::cgroup::Leaf;
use crate::limits;
use crate::line_format::Line;
use crate::spelling;

/// The name of the file.
pub(crate) const NAME: &str = "claim";

/// The version of all records and messages of a keeper. A daemon reads its own version and every older one.
pub(crate) const VERSION: u32 = 1;

/// The content of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The folder was closed before anything was started in it; nothing can be.
    Closed,
    /// A keeper owns the folder.
    Keeper(Box<KeeperClaim>),
}

/// What a claim says of its keeper and the attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeeperClaim {
    pub(crate) guard: Identity,
    pub(crate) socket: String,
    pub(crate) marker: String,
    pub(crate) shim: Option<Identity>,
    /// The control group that the shim announced before creating it.
    pub(crate) cgroup: Option<PathBuf>,
    pub(crate) leader: Option<Leader>,
    pub(crate) exited: Option<Exit>,
    /// The leader exited before anything asked the tree to stop.
    pub(crate) exited_first: bool,
    pub(crate) drained: Option<Drained>,
    /// Why the tree was to be stopped, if no journal could store it.
    pub(crate) stop: Option<KeeperStop>,
    /// A process of the tree entered a PID namespace that the tree did not make.
    pub(crate) entered_foreign: bool,
}

/// How much output was recorded, known once the tree is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Drained {
    pub(crate) output: OutputBytes,
    pub(crate) lost: bool,
}

/// The leader, recorded before its program was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leader {
    pub(crate) identity: Identity,
    pub(crate) level: Level,
    /// In milliseconds of the awake clock.
    pub(crate) launched: u64,
    pub(crate) may_escape: bool,
    /// What of its attributes could not be given to it, for people.
    pub(crate) withheld: Option<String>,
}

impl Claim {
    /// Closes the folder unless a keeper claimed it first; returns the claim that stands.
    pub(crate) fn close(folder: &Folder) -> io::Result<Claim> {
        let line = Line::new("closed").with("version", VERSION).to_string();
        match folder.publish(NAME, line.as_bytes(), Durable::No, false)? {
            Published::Ours(_) => Ok(Claim::Closed),
            Published::Taken => Claim::read(folder)?
                .map(|(_, claim)| claim)
                .ok_or_else(|| invalid("the claim file disappeared")),
        }
    }

    /// Claims the folder for a keeper that listens on `socket`; `None` if it is already claimed. The file stays locked as long as any
    /// process holds it open.
    pub(crate) fn take(
        folder: &Folder,
        guard: &Identity,
        socket: &str,
        marker: &str,
    ) -> io::Result<Option<File>> {
        let line = Line::new("kept").with("version", VERSION).with("socket", socket).with("marker", marker);
        let line = guard.write(line).to_string();
        match folder.publish(NAME, line.as_bytes(), Durable::No, true)? {
            Published::Ours(file) => Ok(Some(file)),
            Published::Taken => Ok(None),
        }
    }

    /// Reads the claim; `None` if there is none.
    pub(crate) fn read(folder: &Folder) -> io::Result<Option<(File, Claim)>> {
        let Some((file, text)) = folder.read(NAME)? else { return Ok(None) };
        let claim = Claim::parse(&text).ok_or_else(|| invalid("the claim file cannot be parsed"))?;
        Ok(Some((file, claim)))
    }

    fn parse(text: &str) -> Option<Claim> {
        // A last line without a line feed was cut off when its writer was killed.
        let mut lines = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        let first = Line::parse(lines.next()?)?;
        if first.get::<u32>("version")? > VERSION {
            return None;
        }
        if first.kind() == "closed" {
            return Some(Claim::Closed);
        }
        let mut keeper = KeeperClaim {
            guard: Identity::read(&first)?,
            socket: first.text("socket")?.to_owned(),
            marker: first.text("marker")?.to_owned(),
            shim: None,
            cgroup: None,
            leader: None,
            exited: None,
            exited_first: false,
            drained: None,
            stop: None,
            entered_foreign: false,
        };
        for line in lines.filter_map(Line::parse) {
            match line.kind() {
                "shim" => {
                    keeper.shim = Identity::read(&line);
                    keeper.cgroup = line.bytes("cgroup").map(|path| OsStr::from_bytes(path).into());
                }
                "leader" => keeper.leader = Leader::read(&line),
                "drained" => keeper.drained = Drained::read(&line),
                // The first reason counts.
                "stop" => {
                    let why = line.text("why").and_then(spelling::parse_keeper_stop);
                    keeper.stop = keeper.stop.or(why);
                }
                "exited" => {
                    keeper.exited = line.text("how").and_then(spelling::parse_exit);
                    keeper.exited_first = line.get::<u8>("first") == Some(1);
                }
                "entered" => keeper.entered_foreign = true,
                _ => {}
            }
        }
        Some(Claim::Keeper(Box::new(keeper)))
    }
}

impl KeeperClaim {
    /// Reads a claim from its open file, which need not have a name any more.
    pub(crate) fn read_from(file: &File) -> io::Result<KeeperClaim> {
        match Claim::parse(&text_of(file)?) {
            Some(Claim::Keeper(keeper)) => Ok(*keeper),
            _ => Err(invalid("the claim file cannot be parsed")),
        }
    }

    /// Reports whether its socket listens as this process: the guard's, or the shim's after it wrote its records again.
    pub(crate) fn listens_as(&self, pid: i32) -> bool {
        self.guard.pid == pid || self.shim.as_ref().is_some_and(|shim| shim.pid == pid)
    }

    /// Opens the attempt's control group; `None` if it was never created, or was removed once empty.
    pub(crate) fn leaf(&self) -> io::Result<Option<Leaf>> {
        match self.cgroup.as_deref().map(Leaf::open) {
            None => Ok(None),
            Some(Err(error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Some(opened) => opened.map(Some),
        }
    }
}

impl Leader {
    /// Returns the claim line of a leader.
    pub(crate) fn line(&self) -> Line {
        self.identity
            .write(Line::new("leader"))
            .with("level", spelling::level_name(self.level))
            .with("launched", self.launched)
            .with("may_escape", u8::from(self.may_escape))
            .with_some("withheld", self.withheld.as_ref())
    }

    /// Parses a leader from its claim line.
    pub(crate) fn read(line: &Line) -> Option<Leader> {
        Some(Leader {
            identity: Identity::read(line)?,
            level: spelling::parse_level(line.text("level")?)?,
            launched: line.get("launched")?,
            may_escape: line.get::<u8>("may_escape")? == 1,
            withheld: line.text("withheld").map(str::to_owned),
        })
    }
}

impl Drained {
    /// Returns the claim line.
    pub(crate) fn line(&self) -> Line {
        Line::new("drained")
            .with("seen", self.output.seen)
            .with("kept", self.output.kept)
            .with("lost", u8::from(self.lost))
    }

    fn read(line: &Line) -> Option<Drained> {
        let output = OutputBytes { seen: line.get("seen")?, kept: line.get("kept")? };
        Some(Drained { output, lost: line.get::<u8>("lost")? == 1 })
    }
}

/// Returns the text of a claim from its open file.
pub(crate) fn text_of(file: &File) -> io::Result<String> {
    /// It has a few lines.
    const BYTES_MAX: usize = 64 << 10;
    let mut bytes = vec![0; BYTES_MAX];
    let read = file.read_at(&mut bytes, 0)?;
    Ok(String::from_utf8_lossy(&bytes[..read]).into_owned())
}

/// Appends a line to a claim file.
pub(crate) fn append(claim: &File, line: &Line) -> io::Result<()> {
    limits::append(claim, line.to_string().as_bytes())
}

/// The last line of a claim: the exit record is durable. A reader then need not flush the record again, which costs as much for a clean
/// file as for a dirty one.
const RECORDED: &str = "recorded\n";

/// Appends that the exit record is durable. If that fails, readers flush the record again.
pub(crate) fn mark_exit_durable(folder: &Folder) {
    if let Ok(mut claim) = folder.open_at(NAME, OFlags::WRONLY | OFlags::APPEND) {
        let _ = claim.write_all(RECORDED.as_bytes());
    }
}

/// Reports whether the claim says that the exit record is durable.
pub(crate) fn is_exit_durable(folder: &Folder) -> bool {
    matches!(folder.read(NAME), Ok(Some((_, text))) if text.ends_with(RECORDED))
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
