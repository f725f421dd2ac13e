//! What to start and how to keep it. Sent from the daemon to the keeper in memory, never through a file.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use lastword_core::receipt::Level;

use crate::attributes::Attributes;
use crate::lease::LeaseFile;
use crate::line_format::Line;
use crate::spelling;
use crate::user::Ids;

/// The environment variable that marks every process of an attempt.
pub const MARKER: &str = "LASTWORD_MARKER";

/// A launch: one attempt, one tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The attempt's folder, mode 0700, created by the launcher.
    pub dir: PathBuf,
    /// Unique among the attempts of this user. Every process of the attempt has it in its environment, and a sweep kills by it. The
    /// folder's path, unless something shorter is unique.
    pub marker: String,
    /// Program and arguments.
    pub argv: Vec<OsString>,
    /// The complete environment; nothing is inherited.
    pub env: Vec<(OsString, OsString)>,
    /// Its umask, resource limits and nice value.
    pub attributes: Attributes,
    /// The user it runs as; the keeper's own if `None`.
    pub user: Option<Ids>,
    /// The folder it runs in.
    pub cwd: PathBuf,
    /// What its stdin is.
    pub input: Input,
    /// Rows and columns, if it gets a terminal. Its output is then a single stream, `stdout`.
    pub terminal: Option<(u16, u16)>,
    /// How its stdout is recorded.
    pub stdout: Keep,
    /// How its stderr is recorded.
    pub stderr: Keep,
    /// Time between TERM and KILL.
    pub term_ms: u64,
    /// How long processes may survive their leader.
    pub leftover_ms: u64,
    /// When the keeper stops the tree on its own, in milliseconds of the awake clock (`CLOCK_MONOTONIC`).
    pub deadline: Option<u64>,
    /// The lease file that it follows. `None`: it may run without a lease.
    pub lease: Option<LeaseFile>,
    /// The highest containment level to use. A namespace changes what a program sees, so it is opt-in.
    pub at_most: Level,
    /// Lets the tree gain privileges (`sudo`). It may then escape to another user, and the record says so.
    pub new_privileges: bool,
    /// The owner's epoch; requests of older epochs are refused.
    pub epoch: u64,
}

/// The leader's stdin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Empty.
    Null,
    /// A pipe for inputs sent through the keeper.
    Pipe,
}

/// How a stream is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Keeps the first and the last bytes; the middle is counted and dropped.
    Caps {
        /// Bytes kept from the start.
        head: u64,
        /// Bytes kept from the end.
        tail: u64,
    },
    /// Keeps everything until the reader has consumed it. A writer that is too far ahead blocks.
    Spool {
        /// How far the writer may be ahead.
        ahead_max: u64,
    },
}

impl Launch {
    /// Returns a launch with defaults: no input, terminal or deadline.
    pub fn new(dir: impl Into<PathBuf>, argv: impl IntoIterator<Item = impl Into<OsString>>) -> Launch {
        let dir = dir.into();
        let caps = Keep::Caps { head: 4 << 20, tail: 12 << 20 };
        Launch {
            marker: dir.to_string_lossy().into_owned(),
            dir,
            argv: argv.into_iter().map(Into::into).collect(),
            env: Vec::new(),
            attributes: Attributes::default(),
            user: None,
            cwd: PathBuf::from("/"),
            input: Input::Null,
            terminal: None,
            stdout: caps,
            stderr: caps,
            term_ms: 5_000,
            leftover_ms: 2_000,
            deadline: None,
            lease: None,
            at_most: Level::Cgroup,
            new_privileges: false,
            epoch: 0,
        }
    }

    /// Encodes it for the keeper.
    pub(crate) fn encode(&self) -> String {
        let mut text = Line::new("launch")
            .with_bytes("dir", &self.dir)
            .with("marker", &self.marker)
            .with_bytes("cwd", &self.cwd)
            .with("input", u8::from(self.input == Input::Pipe))
            .with_some("rows", self.terminal.map(|(rows, _)| rows))
            .with_some("columns", self.terminal.map(|(_, columns)| columns))
            .with("term", self.term_ms)
            .with("leftover", self.leftover_ms)
            .with_some("deadline", self.deadline)
            .with_bytes_some("lease_file", self.lease.as_ref().map(LeaseFile::path))
            .with("at_most", spelling::level_name(self.at_most))
            .with("privileges", u8::from(self.new_privileges))
            .with("epoch", self.epoch)
            .with_some("user", self.user.as_ref().map(Ids::encode))
            .to_string();
        for (name, keep) in [("stdout", self.stdout), ("stderr", self.stderr)] {
            let line = Line::new("keep").with("stream", name);
            let line = match keep {
                Keep::Caps { head, tail } => line.with("head", head).with("tail", tail),
                Keep::Spool { ahead_max } => line.with("ahead", ahead_max),
            };
            text.push_str(&line.to_string());
        }
        text.push_str(&Line::new("attributes").with("value", self.attributes.encode()).to_string());
        for word in &self.argv {
            text.push_str(&Line::new("argv").with_bytes("value", word).to_string());
        }
        for (name, value) in &self.env {
            text.push_str(&Line::new("env").with_bytes("name", name).with_bytes("value", value).to_string());
        }
        text
    }

    /// Decodes it in the keeper; `None` if it is malformed.
    pub(crate) fn decode(text: &str) -> Option<Launch> {
        let mut lines = text.lines().map(Line::parse);
        let first = lines.next()??;
        if first.kind() != "launch" {
            return None;
        }
        let path = |key| first.bytes(key).map(|bytes| PathBuf::from(OsStr::from_bytes(bytes)));
        let mut launch = Launch {
            marker: first.text("marker")?.to_owned(),
            cwd: path("cwd")?,
            input: if first.get::<u8>("input")? == 1 { Input::Pipe } else { Input::Null },
            terminal: first.get("rows").zip(first.get("columns")),
            term_ms: first.get("term")?,
            leftover_ms: first.get("leftover")?,
            deadline: first.get("deadline"),
            lease: path("lease_file").map(LeaseFile::new),
            at_most: spelling::parse_level(first.text("at_most")?)?,
            new_privileges: first.get::<u8>("privileges")? == 1,
            epoch: first.get("epoch")?,
            // Malformed, it must not run as the keeper's own user.
            user: first.text("user").map(|text| Ids::decode(text).ok_or(())).transpose().ok()?,
            ..Launch::new(path("dir")?, Vec::<OsString>::new())
        };
        for line in lines {
            let line = line?;
            let bytes = |key| line.bytes(key).map(|bytes| OsString::from_vec(bytes.to_vec()));
            match line.kind() {
                "argv" => launch.argv.push(bytes("value")?),
                "env" => launch.env.push((bytes("name")?, bytes("value")?)),
                "attributes" => launch.attributes = Attributes::decode(line.text("value")?),
                "keep" => *launch.stream(line.text("stream")?)? = keep(&line)?,
                _ => {}
            }
        }
        (!launch.argv.is_empty()).then_some(launch)
    }

    fn stream(&mut self, name: &str) -> Option<&mut Keep> {
        match name {
            "stdout" => Some(&mut self.stdout),
            "stderr" => Some(&mut self.stderr),
            _ => None,
        }
    }
}

fn keep(line: &Line) -> Option<Keep> {
    match line.get("ahead") {
        Some(ahead_max) => Some(Keep::Spool { ahead_max }),
        None => Some(Keep::Caps { head: line.get("head")?, tail: line.get("tail")? }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_round_trips() {
        let launch = Launch {
            env: vec![("A".into(), OsStr::from_bytes(b"\xff =\n%").to_owned()), ("B".into(), "".into())],
            attributes: Attributes { umask: 0o027, ..Attributes::own() },
            cwd: "/with space".into(),
            input: Input::Pipe,
            terminal: Some((24, 80)),
            stdout: Keep::Spool { ahead_max: 9 },
            stderr: Keep::Caps { head: 1, tail: 2 },
            term_ms: 3,
            leftover_ms: 4,
            deadline: Some(5),
            lease: Some(LeaseFile::new("/leases/6 7")),
            at_most: Level::Namespace,
            new_privileges: true,
            epoch: 7,
            user: Ids::decode("1000,100,7"),
            ..Launch::new("/attempts/7", ["sh", "-c", "echo 'a b'"])
        };
        assert_eq!(Launch::decode(&launch.encode()), Some(launch.clone()));
        let nothing_to_run = Launch { argv: Vec::new(), ..launch };
        assert_eq!(Launch::decode(&nothing_to_run.encode()), None);
    }
}
