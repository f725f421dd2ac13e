//! A journal that cannot be written, was deleted, replaced, or is of another version.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::track::home::{Home, SOON, at, is_alive, is_gone_soon, until, within};
use crate::track::row::{Seen, held_if, rows};

rows! {
    "000-09" OUROBOROS_464 From010 SmallDisk [18, 42]
        "The write of the ending fails, and the failure is ignored."
        => "A job ends while the disk is full: its ending is reported once it is stored, with its true exit code.",
        ending_on_a_full_disk;
    "000-22" OUROBOROS_464 After010 Nothing [40, 85]
        "An error of the store aborts the cancel before the local work is stopped."
        => "The journal cannot be written; the keeper stops the tree all the same, and the journal gets the request later.",
        cancel_without_a_journal;
    "000-30" OUROBOROS_464 From010 Nothing [3]
        "A cancel that was dropped is answered as a success."
        => "A cancel that is not in the journal does not exit with 0.",
        unstored_cancel_is_no_success;
    "000-35" OUROBOROS_464 From010 SmallDisk [18]
        "The write of `cancelled` fails, and the work goes on."
        => "On a full disk the tree is killed, and its ending is stored when there is room.",
        cancel_on_a_full_disk;
    "000-38" OUROBOROS_464 From010 Nothing [3]
        "A request is answered as done although its durable part failed."
        => "A submit that cannot be stored is refused, and nothing of it ever runs.",
        unstored_submit_is_refused;
    "001-08" OUROBOROS_1207 From010 Nothing [50]
        "The store cannot be read, and the watchdog lets the work start anyway."
        => "While the journal cannot be written, a job whose time has come does not start.",
        nothing_starts_without_a_journal;
    "A5" ours After010 Nothing [3]
        "The journal is deleted under a live daemon, which goes on acknowledging jobs into the deleted file."
        => "The submit is refused.",
        deleted_journal;
    "A5-older" ours After010 Nothing [3, 43]
        "An older copy replaces the journal: jobs since then run unowned, and `doctor` says that all is well."
        => "`doctor` reports the process trees that no job owns.",
        older_journal;
    "A6" ours After010 Nothing [60]
        "A journal that was read-only for a moment wedges the daemon: every command hangs, also `daemon stop`."
        => "When the journal can be written again, commands work.",
        read_only_for_a_moment;
    "A11" ours After010 Nothing [43]
        "A journal of a newer version is called damaged, with the advice to move it away."
        => "It is called newer.",
        newer_journal;
    "A11-moved" ours After010 Nothing [44]
        "A state folder is renamed: its daemon lives on beside the next one."
        => "The daemon of the renamed folder exits.",
        renamed_folder;
    "A11-key" ours After010 Nothing [10]
        "An idempotency key that is used again after `rm` makes a second job."
        => "The repeated request does not make a second job.",
        key_after_rm;
    "B1" ours After010 Nothing [85]
        "A cancel is refused while the journal cannot be written, and the tree lives on."
        => "The tree is stopped, and the job ends as cancelled by the user once the journal is back.",
        cancel_without_a_journal;
}

/// Keeps the journal from being written, as a full or read-only disk does, until it is dropped.
pub(super) struct WriteLock(Child);

impl WriteLock {
    pub(super) fn take(home: &Home) -> Result<WriteLock, String> {
        let script = "import sqlite3, sys\n\
                      journal = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)\n\
                      journal.execute('BEGIN IMMEDIATE')\n\
                      print('held', flush=True)\n\
                      sys.stdin.read()";
        let mut command = home.command("python3");
        command.args(["-c", script]).arg(home.state().join("journal.db"));
        let holder = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut lock = WriteLock(holder.map_err(|error| format!("python3: {error}"))?);
        let mut line = String::new();
        let out = lock.0.stdout.take().ok_or("it has an output")?;
        BufReader::new(out).read_line(&mut line).map_err(|error| error.to_string())?;
        if line == "held\n" { Ok(lock) } else { Err(format!("the journal is not held: {line:?}")) }
    }
}

impl Drop for WriteLock {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Fills the disk of the state folder.
fn fill(file: &Path) -> Result<(), String> {
    let mut ballast = fs::File::create(file).map_err(at(file))?;
    for size in [1 << 20, 1 << 12, 1] {
        let block = vec![0x5a; size];
        while ballast.write_all(&block).is_ok() {}
    }
    Ok(())
}

fn ending_on_a_full_disk(home: &Home) -> Seen {
    let job = home.start("", "while [ ! -e $PLACE/go ]; do sleep 0.01; done; exit 7")?;
    let (leader, ballast) = (home.leader(&job)?, home.state().join("ballast"));
    fill(&ballast)?;
    fs::write(home.work("go"), "").map_err(|error| error.to_string())?;
    until("the job has exited", || (!is_alive(leader)).then_some(()))?;
    let meanwhile = home.run(&["wait", "--timeout", "500ms", &job])?;
    // A disk that is full can still have room in the log of the journal, and then the ending is stored at once.
    let is_stored = home.show(&job)?["phase"] == "ended";
    fs::remove_file(&ballast).map_err(at(&ballast))?;
    let shown = home.ended_soon(&job)?;
    let exit = &shown["attempts"][0]["exit"]["code"];
    let is_held =
        meanwhile.code == if is_stored { 1 } else { 124 } && exit == 7 && home.count(&job, "last_word")? == 1;
    held_if(is_held, format!("`wait` exits with {} meanwhile; exit {exit} afterwards", meanwhile.code))
}

fn cancel_without_a_journal(home: &Home) -> Seen {
    let job = home.start("", "sleep 1000")?;
    let leader = home.leader(&job)?;
    let lock = WriteLock::take(home)?;
    let ran = home.run(&["cancel", "--no-wait", &job])?;
    let is_gone = within(Duration::from_secs(5), || (!is_alive(leader)).then_some(())).is_some();
    drop(lock);
    if !is_gone {
        return held_if(false, format!("exit {}: {}; the tree lives on", ran.code, ran.printed()));
    }
    let shown = home.ended_soon(&job)?;
    let is_held = shown["outcome"] == "cancelled" && shown["cause"] == "user";
    held_if(is_held, format!("the tree is gone; {} by {}", shown["outcome"], shown["cause"]))
}

fn unstored_cancel_is_no_success(home: &Home) -> Seen {
    let job = home.start("", "sleep 1000")?;
    home.leader(&job)?;
    let lock = WriteLock::take(home)?;
    let ran = home.run(&["cancel", "--timeout", "1s", &job])?;
    drop(lock);
    held_if(ran.code != 0, format!("exit {}: {}", ran.code, ran.printed()))
}

fn cancel_on_a_full_disk(home: &Home) -> Seen {
    let job = home.start("", super::cancel::DEAF)?;
    let (leader, ballast) = (home.leader(&job)?, home.state().join("ballast"));
    fill(&ballast)?;
    home.run(&["cancel", "--force", "--timeout", "300ms", &job])?;
    let is_gone = is_gone_soon(leader);
    fs::remove_file(&ballast).map_err(at(&ballast))?;
    let shown = home.ended_soon(&job)?;
    held_if(is_gone && shown["outcome"] == "cancelled", format!("gone: {is_gone}; {}", shown["outcome"]))
}

fn unstored_submit_is_refused(home: &Home) -> Seen {
    home.ok(&["daemon", "start"])?;
    let lock = WriteLock::take(home)?;
    let ran = home.run(&["run", "-d", "--", "sh", "-c", "echo ran > $PLACE/ran"])?;
    drop(lock);
    let next = home.start("", "exit 0")?;
    home.ended(&next)?;
    let (ran_at_all, jobs) = (home.work("ran").exists(), home.json(&["ls", "-a"])?);
    let jobs = jobs["items"].as_array().map_or(0, Vec::len);
    let is_held = ran.code == 125 && !ran_at_all && jobs == 1;
    held_if(is_held, format!("exit {}; it ran: {ran_at_all}; {jobs} job in the list", ran.code))
}

fn nothing_starts_without_a_journal(home: &Home) -> Seen {
    let job = home.start("--delay 1s", "echo ran > $PLACE/ran")?;
    let lock = WriteLock::take(home)?;
    let early = within(Duration::from_millis(2500), || home.work("ran").exists().then_some(())).is_some();
    drop(lock);
    let shown = home.ended_soon(&job)?;
    held_if(!early, format!("it ran meanwhile: {early}; afterwards {}", shown["outcome"]))
}

const FILES: [&str; 3] = ["journal.db", "journal.db-wal", "journal.db-shm"];

fn deleted_journal(home: &Home) -> Seen {
    let job = home.start("", "sleep 1000")?;
    home.leader(&job)?;
    for name in FILES {
        let _ = fs::remove_file(home.state().join(name));
    }
    let ran = home.run(&["run", "-d", "--", "true"])?;
    held_if(ran.code != 0, format!("exit {}: {}", ran.code, ran.printed()))
}

fn older_journal(home: &Home) -> Seen {
    home.ok(&["run", "--", "true"])?;
    home.ok(&["daemon", "stop"])?;
    let copied = home.shell("cp $LASTWORD_HOME/journal.db $PLACE/backup")?;
    let since = home.start("", "sleep 1000")?;
    let leader = home.leader(&since)?;
    home.ok(&["daemon", "stop"])?;
    let put = "rm -f $LASTWORD_HOME/journal.db-*; cat $PLACE/backup > $LASTWORD_HOME/journal.db";
    if copied.code != 0 || home.shell(put)?.code != 0 {
        return Err("the journal cannot be copied".to_owned());
    }
    home.ok(&["ls"])?;
    let found = within(SOON, || {
        let checks = home.json(&["doctor"]).ok()?;
        let trees = checks["items"].as_array()?.iter().find(|check| check["id"] == "trees")?.clone();
        (trees["status"] == "warn").then(|| trees["text"].to_string())
    });
    held_if(found.is_some(), format!("leader alive: {}; doctor: {found:?}", is_alive(leader)))
}

fn read_only_for_a_moment(home: &Home) -> Seen {
    home.ok(&["run", "--", "true"])?;
    home.kill_daemon()?;
    home.shell(
        "chmod 400 $LASTWORD_HOME/journal.db*; timeout 3 $LASTWORD ls; chmod 600 $LASTWORD_HOME/journal.db*",
    )?;
    let works =
        home.shell("for i in 1 2 3 4 5; do timeout 5 $LASTWORD ls && exit 0; sleep 0.2; done; exit 9")?;
    let stops = home.shell("timeout 10 $LASTWORD daemon stop")?;
    let is_held = works.code == 0 && stops.code == 0;
    held_if(is_held, format!("`ls` exits with {}, `daemon stop` with {}", works.code, stops.code))
}

fn newer_journal(home: &Home) -> Seen {
    home.ok(&["run", "--", "true"])?;
    home.ok(&["daemon", "stop"])?;
    let script = "import sqlite3, sys\n\
                  journal = sqlite3.connect(sys.argv[1])\n\
                  journal.execute('insert into migrations (version) values (99)')\n\
                  journal.commit()";
    let mut command = home.command("python3");
    let status = command.args(["-c", script]).arg(home.state().join(FILES[0])).status();
    if !status.is_ok_and(|status| status.success()) {
        return Err("the journal has no table of migrations".to_owned());
    }
    let said = home.run(&["ls"])?.printed();
    held_if(said.contains("newer") && !said.contains("damaged"), said)
}

fn renamed_folder(home: &Home) -> Seen {
    // The socket is elsewhere, as it is without LASTWORD_HOME: with it, the daemon would lose its socket too.
    let places =
        "unset LASTWORD_HOME; export XDG_RUNTIME_DIR=$PLACE/run XDG_STATE_HOME=$PLACE/state HOME=$PLACE";
    let pid = "$LASTWORD daemon status --json | tr ',' '\\n' | sed -n 's/.*\"pid\"://p' >";
    let script = format!(
        "{places}; mkdir -m 700 $PLACE/run $PLACE/state; $LASTWORD run -- true; {pid} $PLACE/first
         mv $PLACE/state/lastword $PLACE/state/moved; $LASTWORD ls; {pid} $PLACE/second"
    );
    home.shell(&script)?;
    let (first, second) = (home.pid_in("first")?, home.pid_in("second")?);
    let is_gone = is_gone_soon(first);
    let evidence = format!("the daemon of the renamed folder is gone: {is_gone}; the next one is {second}");
    held_if(is_gone && first != second, evidence)
}

fn key_after_rm(home: &Home) -> Seen {
    home.ok(&["daemon", "start"])?;
    let post = "curl -s --unix-socket $LASTWORD_HOME/lastword.sock http://x/v1/jobs -H 'Content-Type: application/json' \
                -H 'Idempotency-Key: once' -d '{\"argv\":[\"true\"],\"cwd\":\"/\",\"env\":{}}'";
    let first = home.shell(post)?.out;
    let id = first.split("\"id\":\"").nth(1).and_then(|rest| rest.split('"').next()).ok_or(first.clone())?;
    home.ended(id)?;
    home.ok(&["rm", id])?;
    let again = home.shell(post)?.out;
    let jobs = home.json(&["ls", "-a"])?["items"].as_array().map_or(0, Vec::len);
    held_if(jobs == 0, format!("{jobs} jobs afterwards: {}", again.chars().take(120).collect::<String>()))
}
