//! Tests each level with real processes, as root and as an unprivileged user, and makes each self-test fail.
//!
//! Everything runs in a single-threaded child, whatever the test runner does. It only makes system calls and allocates memory, and libc
//! keeps its allocator usable across a fork.

use std::io::{self, PipeReader, Read as _};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lastword_core::receipt::Level;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use super::cgroup::{Base, Leaf};
use super::self_test::{daemonise, in_child, kill_and_reap, set_alarm, sleep_until_killed, wait_for};
use super::{available, landlock, namespace, subreaper_test};
use crate::identity::Stat;
use crate::sys;

/// A uid that owns nothing.
const UNUSED_UID: u32 = 54_321;

/// Long enough for any machine; reached only when a test fails.
const LONG: Duration = Duration::from_secs(5);

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Drops root for good.
fn drop_root() -> Result<(), String> {
    // SAFETY: plain system calls in a single-threaded process.
    let done = unsafe {
        libc::setgroups(0, std::ptr::null()) == 0
            && libc::setgid(UNUSED_UID) == 0
            && libc::setuid(UNUSED_UID) == 0
    };
    done.then_some(()).ok_or_else(|| format!("dropping root: {}", io::Error::last_os_error()))
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn check(holds: bool, what: &str) -> Result<(), String> {
    holds.then_some(()).ok_or_else(|| what.to_owned())
}

/// Starts a child that runs `body` and returns its pid.
fn child(body: impl FnOnce()) -> Result<i32, String> {
    match sys::fork().map_err(text)? {
        sys::Fork::Parent(pid) => Ok(pid),
        sys::Fork::Child => {
            set_alarm();
            body();
            sys::exit(0)
        }
    }
}

/// Starts a child that joins a leaf, calls `act` and waits. Returns once it has done so.
fn member(leaf: &Leaf, act: impl FnOnce() -> io::Result<()>) -> Result<i32, String> {
    let (mut reader, writer) = io::pipe().map_err(text)?;
    let pid = child(|| {
        let done = leaf.join().and_then(|()| act());
        if done.and_then(|()| io::Write::write_all(&mut &writer, &[1])).is_ok() {
            sleep_until_killed();
        }
    })?;
    drop(writer);
    reader.read_exact(&mut [0]).map_err(|error| format!("a member did not join: {error}"))?;
    Ok(pid)
}

fn name(test: &str) -> String {
    format!("{test}-{}", std::process::id())
}

#[test]
fn a_double_forked_process_is_reparented_to_the_subreaper() {
    subreaper_test(rustix::process::set_child_subreaper).unwrap();
}

#[test]
fn without_the_subreaper_its_self_test_fails() {
    let found = subreaper_test(|_| Ok(())).unwrap_err();
    assert!(found.contains("not a child"), "{found}");
}

#[test]
fn root_and_user_find_the_same_levels_but_for_cgroups() {
    let found = available(&Base::find());
    let levels: Vec<Level> = found.iter().map(|(level, _)| *level).collect();
    assert_eq!(levels, [Level::Subreaper, Level::Landlock, Level::Cgroup, Level::Namespace]);
    for (level, result) in &found {
        if let Err(why) = result {
            assert!(*level != Level::Subreaper && !why.is_empty(), "{level:?}: {why}");
        }
    }
    if !is_root() {
        return;
    }
    let as_root: Vec<bool> = found.iter().map(|(_, result)| result.is_ok()).collect();
    in_child(|| {
        drop_root()?;
        let found = available(&Base::find());
        let landlock = found.iter().any(|(level, result)| *level == Level::Landlock && result.is_ok());
        check(landlock == as_root[1], "Landlock needs no root")?;
        match &found[2] {
            (Level::Cgroup, Err(why)) => check(why.contains("Delegate"), why),
            other => Err(format!("no control group was delegated to this user: {other:?}")),
        }
    })
    .unwrap();
}

/// Detects Landlock's signal scope in another way than the self-test does.
fn has_landlock() -> bool {
    let lsm = std::fs::read_to_string("/sys/kernel/security/lsm");
    // SAFETY: asking for the version passes no structure.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, 0_usize, 0_usize, 1_u32) };
    lsm.map_or(true, |lsm| lsm.contains("landlock")) && version >= 6
}

#[test]
fn a_scope_works_for_root_and_for_a_user() {
    assert_eq!(landlock::self_test(landlock::restrict).is_ok(), has_landlock());
    if is_root() {
        let found = in_child(|| drop_root().and_then(|()| landlock::self_test(landlock::restrict)));
        assert_eq!(found.is_ok(), has_landlock(), "{found:?}");
    }
}

#[test]
fn without_a_scope_its_self_test_fails() {
    let found = landlock::self_test(|| Ok(())).unwrap_err();
    assert_eq!(found, "a process in the scope can signal out of it");
}

/// Detects without trying whether root can create groups on this machine.
fn groups_are_writable() -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    mounts.any(|mount| matches!(mount[..], [_, _, "cgroup2", options, ..] if options.starts_with("rw")))
}

#[test]
fn a_group_is_frozen_and_killed() {
    match Base::find() {
        Ok(base) => base.self_test().unwrap(),
        Err(why) => assert!(!(is_root() && groups_are_writable()), "{why}"),
    }
}

#[test]
fn a_process_that_did_not_join_or_was_not_killed_fails_the_self_test() {
    let Ok(base) = Base::find() else { return };
    let found = base.self_test_with(|_| Ok(()), Leaf::kill).unwrap_err();
    assert_eq!(found, "a process that joined is not in its leaf");
    let found = base.self_test_with(Leaf::join, |_| Ok(())).unwrap_err();
    assert_eq!(found, "a killed leaf is not empty");
}

/// A group delegated to a user, as systemd does with `Delegate=yes`, works like root's.
#[test]
fn a_delegated_group_serves_a_user() {
    if !is_root() {
        return;
    }
    let Ok(base) = Base::find() else { return };
    let given = base.leaf(&name("delegated")).unwrap();
    let path = given.path().to_owned();
    for file in ["", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"] {
        chown(path.join(file), Some(UNUSED_UID), Some(UNUSED_UID)).unwrap();
    }
    let found = in_child(|| {
        // Moving a process requires rights on the common ancestor: the user's processes start in the delegated group.
        given.join().map_err(text)?;
        drop_root()?;
        Base::find()?.self_test()
    });
    given.remove().unwrap();
    found.unwrap();
}

#[test]
fn groups_created_by_a_tree_are_killed_and_removed_with_it() {
    let Ok(base) = Base::find() else { return };
    for kill in [Leaf::kill, Leaf::kill_each] {
        let leaf = base.leaf(&name("nested")).unwrap();
        let found = in_child(|| {
            let deep = leaf.path().join("a/b/c");
            std::fs::create_dir_all(&deep).map_err(text)?;
            std::fs::create_dir(leaf.path().join("empty")).map_err(text)?;
            let pid = member(&leaf, || std::fs::write(deep.join("cgroup.procs"), "0"))?;
            check(leaf.pids().map_err(text)?.is_empty(), "it moved down")?;
            check(!leaf.is_empty().map_err(text)?, "a process further down counts")?;
            check(leaf.remove().is_err(), "a group with a process in it cannot be removed")?;
            kill(&leaf).map_err(text)?;
            check(leaf.wait_until("populated 0", LONG).map_err(text)?, "killed")?;
            check(wait_for(pid)? == libc::SIGKILL, "by KILL")?;
            Ok(())
        });
        let _ = leaf.kill();
        leaf.remove().unwrap();
        found.unwrap();
        assert!(!leaf.path().exists());
        assert!(leaf.is_empty().unwrap(), "a removed group is empty");
    }
}

#[test]
fn a_leaf_can_be_reopened_by_path_after_its_keeper_is_gone() {
    let Ok(base) = Base::find() else { return };
    let leaf = base.leaf(&name("again")).unwrap();
    let found = in_child(|| {
        let pid = member(&leaf, || Ok(()))?;
        let again = Leaf::open(leaf.path()).map_err(text)?;
        check(again.pids().map_err(text)? == [pid], "the member is in it")?;
        again.freeze().and_then(|()| again.kill()).map_err(text)?;
        check(wait_for(pid)? == libc::SIGKILL, "killed though frozen")?;
        check(again.wait_until("populated 0", LONG).map_err(text)?, "empty")
    });
    let _ = leaf.kill();
    leaf.remove().unwrap();
    found.unwrap();
    let gone = Leaf::open(leaf.path()).unwrap_err();
    assert_eq!(gone.kind(), io::ErrorKind::NotFound);
}

#[test]
fn a_name_or_path_outside_our_groups_is_refused() {
    let Ok(base) = Base::find() else { return };
    for name in ["", "..", "a/b", "../x", "a.b", "a b", "ä", &"x".repeat(65)] {
        assert_eq!(base.leaf(name).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{name:?}");
    }
    let leaf = base.leaf(&name("elsewhere")).unwrap();
    let around = leaf.path().join("..").join(leaf.path().file_name().unwrap());
    let link = std::env::temp_dir().join(format!("lastword-{}", name("link")));
    std::os::unix::fs::symlink(leaf.path(), &link).unwrap();
    let above = leaf.path().parent().map(Path::to_owned).unwrap();
    let refused: Vec<(PathBuf, bool)> = [around, above, link.clone(), "/tmp".into()]
        .map(|path| (path.clone(), Leaf::open(&path).is_err()))
        .into();
    std::fs::remove_file(link).unwrap();
    leaf.remove().unwrap();
    assert!(refused.iter().all(|(_, refused)| *refused), "{refused:?}");
}

/// Detects whether this machine allows a PID namespace; the self-test must agree.
fn can_unshare() -> bool {
    // SAFETY: in a single-threaded child that exits right after.
    in_child(|| check(unsafe { libc::unshare(libc::CLONE_NEWPID) } == 0, "refused")).is_ok()
}

#[test]
fn a_namespace_ends_with_its_init() {
    let found = namespace::self_test(namespace::FLAGS);
    assert!(found.is_ok() || !can_unshare(), "{found:?}");
    if is_root() {
        // A keeper is undumpable, so its files in /proc belong to root. The namespace must work nevertheless.
        in_child(|| {
            drop_root()?;
            sys::set_undumpable();
            namespace::self_test(namespace::FLAGS)
        })
        .unwrap();
    }
}

#[test]
fn without_a_namespace_its_self_test_fails() {
    assert!(namespace::self_test(libc::CLONE_NEWNS).is_err());
    let (held, holder) = io::pipe().unwrap();
    assert!(namespace::is_closed(held).is_err(), "the other end is open");
    drop(holder);
}

/// Starts a namespace whose leader leaves a daemon behind and exits with 5.
fn namespace_with_daemon() -> Result<namespace::Init, String> {
    let left = || daemonise(|_| sleep_until_killed()).map_or(1, |_| 5);
    let init = namespace::spawn(left).map_err(text)?;
    check(init.leader_status().map_err(text)? == Some(5 << 8), "the leader's status came")?;
    Ok(init)
}

/// Waits until no process holds the other end. One that did would time out much later than this waits.
fn wait_until_closed(mut held: PipeReader) -> Result<(), String> {
    use rustix::event::{PollFd, PollFlags, poll};
    let limit = rustix::time::Timespec { tv_sec: LONG.as_secs().cast_signed(), tv_nsec: 0 };
    let ready = poll(&mut [PollFd::new(&held, PollFlags::IN)], Some(&limit)).map_err(text)?;
    check(ready == 1, "a process outlived its shim")?;
    check(held.read(&mut [0]).map_err(text)? == 0, "unexpected data")
}

#[test]
fn c14_a_namespace_dies_with_its_shim() {
    if !can_unshare() {
        return;
    }
    in_child(|| {
        let (held, holder) = io::pipe().map_err(text)?;
        let (mut ready, speaker) = io::pipe().map_err(text)?;
        let shim = child(|| {
            if namespace_with_daemon().is_ok() {
                let _ = io::Write::write_all(&mut &speaker, &[1]);
                sleep_until_killed();
            }
        })?;
        drop((holder, speaker));
        ready.read_exact(&mut [0]).map_err(text)?;
        kill_and_reap(shim)?;
        wait_until_closed(held)
    })
    .unwrap();
}

#[test]
fn pids_of_a_namespace_are_those_outside_and_term_does_not_end_it() {
    if !can_unshare() {
        return;
    }
    in_child(|| {
        let (mut go, mut gate) = io::pipe().map_err(text)?;
        let leader = move || i32::from(go.read_exact(&mut [0]).is_ok()) + 41;
        let init = namespace::spawn(leader).map_err(text)?;
        let stat = Stat::of(init.leader).ok_or("no process has the leader's pid")?;
        check(stat.parent == init.pid, "the leader is the init's child")?;
        let outer = Stat::of(init.pid).ok_or("no process has the init's pid")?;
        check(outer.parent.cast_unsigned() == std::process::id(), "the init is our child")?;
        let pid = Pid::from_raw(init.pid).ok_or("no pid")?;
        for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::USR1] {
            kill_process(pid, signal).map_err(text)?;
        }
        io::Write::write_all(&mut gate, &[1]).map_err(text)?;
        check(init.leader_status().map_err(text)? == Some(42 << 8), "the leader exited on its own")?;
        check(wait_for(init.pid)? == 0, "an init without children exits")?;
        check(test_kill_process(pid).is_err(), "and is gone")
    })
    .unwrap();
}

#[test]
fn a_killed_init_reports_no_status() {
    if !can_unshare() {
        return;
    }
    in_child(|| {
        let init = namespace::spawn(|| sleep_until_killed()).map_err(text)?;
        kill_and_reap(init.pid)?;
        check(init.leader_status().map_err(text)?.is_none(), "no status")
    })
    .unwrap();
}
