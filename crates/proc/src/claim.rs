//! The claim: who keeps an attempt, and what became known of it on the way. One per folder.
//!
//! The first line is published by link, so that there is one claim; the keeper adds lines as things happen. The lock on its inode
//! says whether guard or shim is alive. Nothing of it is synced: a power cut changes the boot, and that proves death.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use lastword_core::receipt::{Exit, Level, OutputBytes};
use rustix::fs::OFlags;

use crate::folder::{Durable, Folder, Published};
use crate::identity::Identity;
use crate::level::cgroup::Leaf;
use crate::line::Line;
use crate::words;

/// The claim's name in its folder.
pub(crate) const NAME: &str = "claim";

/// The version of everything a keeper writes and says. A daemon reads its own and every older one.
pub(crate) const VERSION: u32 = 1;

/// Who may start something in this folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// Nobody, ever: it was closed before anything was started.
    Closed,
    /// A keeper.
    Kept(Box<Kept>),
}

/// What is known of an attempt that has or had a keeper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) guard: Identity,
    pub(crate) socket: String,
    pub(crate) marker: String,
    pub(crate) shim: Option<Identity>,
    /// The control group that its shim was going to make.
    pub(crate) cgroup: Option<PathBuf>,
    pub(crate) leader: Option<Leader>,
    pub(crate) exited: Option<Exit>,
    pub(crate) drained: Option<Drained>,
}

/// What was recorded of the output, once there can be no more of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Drained {
    pub(crate) output: OutputBytes,
    pub(crate) lost: bool,
}

/// A leader, as the claim knows it before it was let go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leader {
    pub(crate) identity: Identity,
    pub(crate) level: Level,
    /// By the awake clock.
    pub(crate) launched: u64,
    pub(crate) may_escape: bool,
}

impl Claim {
    /// Closes the folder, unless a keeper was first; returns whose it is then.
    pub(crate) fn close(folder: &Folder) -> io::Result<Claim> {
        let line = Line::new("closed").with("version", VERSION).to_string();
        match folder.publish(NAME, line.as_bytes(), Durable::No, false)? {
            Published::Ours(_) => Ok(Claim::Closed),
            Published::Taken => {
                Claim::read(folder)?.map(|(_, claim)| claim).ok_or_else(|| invalid("the claim disappeared"))
            }
        }
    }

    /// Takes the folder for a keeper that listens on `socket`. `None` if somebody was first. The file is locked as long as
    /// any process holds it.
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

    /// Reads the claim, if there is one.
    pub(crate) fn read(folder: &Folder) -> io::Result<Option<(File, Claim)>> {
        let Some((file, text)) = folder.read(NAME)? else { return Ok(None) };
        let claim = Claim::parse(&text).ok_or_else(|| invalid("the claim cannot be read"))?;
        Ok(Some((file, claim)))
    }

    fn parse(text: &str) -> Option<Claim> {
        // A last line without its end was cut off by a kill in mid-write: it was not said.
        let mut lines = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        let first = Line::parse(lines.next()?)?;
        if first.get::<u32>("version")? > VERSION {
            return None;
        }
        if first.word() == "closed" {
            return Some(Claim::Closed);
        }
        let mut kept = Kept {
            guard: Identity::read(&first)?,
            socket: first.text("socket")?.to_owned(),
            marker: first.text("marker")?.to_owned(),
            shim: None,
            cgroup: None,
            leader: None,
            exited: None,
            drained: None,
        };
        for line in lines.filter_map(Line::parse) {
            match line.word() {
                "shim" => {
                    kept.shim = Identity::read(&line);
                    kept.cgroup = line.bytes("cgroup").map(|path| OsStr::from_bytes(path).into());
                }
                "leader" => kept.leader = Leader::read(&line),
                "drained" => kept.drained = Drained::read(&line),
                "exited" => kept.exited = line.text("how").and_then(words::exit),
                _ => {}
            }
        }
        Some(Claim::Kept(Box::new(kept)))
    }
}

impl Kept {
    /// Opens its control group. `None` means that there is none: it was never made, or it was empty and removed.
    pub(crate) fn leaf(&self) -> io::Result<Option<Leaf>> {
        match self.cgroup.as_deref().map(Leaf::open) {
            None => Ok(None),
            Some(Err(error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Some(opened) => opened.map(Some),
        }
    }
}

impl Leader {
    /// Returns the line that makes the leader known.
    pub(crate) fn line(&self) -> Line {
        self.identity
            .write(Line::new("leader"))
            .with("level", words::of_level(self.level))
            .with("launched", self.launched)
            .with("may_escape", u8::from(self.may_escape))
    }

    /// Reads it from its line.
    pub(crate) fn read(line: &Line) -> Option<Leader> {
        Some(Leader {
            identity: Identity::read(line)?,
            level: words::level(line.text("level")?)?,
            launched: line.get("launched")?,
            may_escape: line.get::<u8>("may_escape")? == 1,
        })
    }
}

impl Drained {
    /// Returns the line that makes it known.
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

/// Adds a line to a claim that is held.
pub(crate) fn note(mut claim: &File, line: &Line) -> io::Result<()> {
    claim.write_all(line.to_string().as_bytes())
}

/// What a claim says last: the exit record is on the disk. Whoever reads it there need not flush the record again, which costs as
/// much for a clean file as for a dirty one.
const RECORDED: &str = "recorded\n";

/// Adds that the exit record is on the disk. Where that cannot be added, readers flush.
pub(crate) fn note_recorded(folder: &Folder) {
    if let Ok(mut claim) = folder.open_at(NAME, OFlags::WRONLY | OFlags::APPEND) {
        let _ = claim.write_all(RECORDED.as_bytes());
    }
}

/// Reports whether the exit record was said to be on the disk.
pub(crate) fn is_recorded(folder: &Folder) -> bool {
    matches!(folder.read(NAME), Ok(Some((_, text))) if text.ends_with(RECORDED))
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
