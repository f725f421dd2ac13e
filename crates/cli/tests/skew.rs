//! Old keepers and new daemons: every later version understands the records and messages of the first.
//!
//! A keeper lives as long as its job, and an upgrade does not wait for it. The files in `recorded/v1` are from a version 1 keeper; only
//! boot, pid and start time of its processes are filled in. They are never changed, only added to.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use lastword_core::receipt::{Exit, Level, Proof, Rung};
use lastword_proc::{Error, Identity, Keeper, Located, boot_id, locate};
use rustix::fs::FlockOperation;

use crate::common::FORCE;

const CLAIM: &str = include_str!("recorded/v1/claim");
const EXIT: &str = include_str!("recorded/v1/exit");
const TALK: &str = include_str!("recorded/v1/talk");

fn folder() -> (tempfile::TempDir, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("7");
    std::fs::DirBuilder::new().mode(0o700).create(&dir).unwrap();
    (place, dir)
}

/// Writes the recorded claim with this process as its keeper.
fn claim(dir: &Path, text: &str) -> std::fs::File {
    let own = Identity::own().unwrap();
    let text = text
        .replace("BOOT", &own.boot)
        .replace("PID", &own.pid.to_string())
        .replace("START", &own.start_ticks.to_string());
    std::fs::write(dir.join("claim"), text).unwrap();
    std::fs::File::open(dir.join("claim")).unwrap()
}

#[test]
fn c37_messages_of_a_version_1_keeper_are_understood() {
    let (_place, dir) = folder();
    let held = claim(&dir, CLAIM);
    rustix::fs::flock(&held, FlockOperation::LockExclusive).unwrap();
    let listener = UnixListener::bind(dir.join("ctl.1729")).unwrap();
    let Located::Alive(alive) = locate(&dir, boot_id()).unwrap() else { panic!("it lives") };
    assert_eq!((alive.leader.unwrap().1, alive.launched), (Level::Subreaper, Some(13_646_721)));

    let keeper = std::thread::spawn(move || replay(&listener));
    let mut client = Keeper::connect(&dir, 3).unwrap();
    let status = client.status().unwrap();
    assert_eq!(
        (status.phase.as_str(), status.alive, status.stdout, status.inputs_written),
        ("running", 2, 6, 0)
    );
    assert_eq!(status.pids, [1731, 1733]);
    assert!(client.input(1, b"hello\n").unwrap());
    assert!(!client.input(1, b"hello\n").unwrap());
    assert!(matches!(client.stop(FORCE), Err(Error::Stale(_))));
    assert!(
        matches!(client.deadline(Some(99_999_999_999)), Err(Error::Declined { code, .. }) if code == "unknown")
    );
    keeper.join().unwrap();
}

/// Plays the keeper: expects the recorded requests and sends the recorded answers.
fn replay(listener: &UnixListener) {
    let (socket, _) = listener.accept().unwrap();
    let mut reader = BufReader::new(socket.try_clone().unwrap());
    let mut writer = socket;
    let lines: Vec<&str> = TALK.lines().collect();
    for pair in lines.chunks(2) {
        let (asked, said) = (pair[0].strip_prefix("> ").unwrap(), pair[1].strip_prefix("< ").unwrap());
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert_eq!(line.trim_end(), asked);
        if asked.contains("bytes=6") {
            reader.read_exact(&mut [0; 6]).unwrap();
        }
        writeln!(writer, "{said}").unwrap();
    }
}

#[test]
fn the_records_of_a_version_1_keeper_are_read() {
    let (_place, dir) = folder();
    claim(&dir, CLAIM);
    std::fs::write(dir.join("exit"), EXIT).unwrap();
    let Located::Ended(record) = locate(&dir, "an earlier boot").unwrap() else { panic!("it ended") };
    assert_eq!((record.exit(), record.receipt.proof), (Some(Exit::Signal(9)), Proof::NoChildren));
    assert_eq!(record.receipt.rungs[0].rung, Rung::Kill);
    let commands: Vec<&str> =
        record.receipt.processes.iter().map(|process| process.command.as_str()).collect();
    assert_eq!(commands, ["sh -c echo ready; cat", "cat"]);
}

#[test]
fn unknown_fields_are_skipped_and_a_later_version_is_refused() {
    let (_place, dir) = folder();
    std::fs::write(
        dir.join("exit"),
        EXIT.replace("found=2", "found=2 mood=good").replace("end\n", "novelty a=b\nend\n"),
    )
    .unwrap();
    assert!(matches!(locate(&dir, boot_id()).unwrap(), Located::Ended(_)));
    for text in [EXIT.replace("version=1", "version=2"), EXIT.replace("end\n", "")] {
        std::fs::write(dir.join("exit"), text).unwrap();
        assert!(matches!(locate(&dir, boot_id()), Err(Error::Io { .. })), "an error, not a guess");
    }
    let (_place, dir) = folder();
    claim(&dir, &CLAIM.replace("version=1", "version=2"));
    assert!(matches!(locate(&dir, boot_id()), Err(Error::Io { .. })));
}
