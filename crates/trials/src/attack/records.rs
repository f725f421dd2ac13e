//! A job against what is written down about it: its folder, its records, its recording, the disk they are on.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::attempt::{Attempt, Ends};
use super::setup::{Home, Setup, at, says};

#[rustfmt::skip] // One row, one attempt.
pub(super) const ATTEMPTS: &[Attempt] = &[
    Attempt { item: 10, what: "a job puts a link, a FIFO, a folder or garbage in the place of its ending", ends: Ends::Survived, make: block_ending },
    Attempt { item: 10, what: "a job removes or forges its claim, its socket, a wish to stop it", ends: Ends::Survived, make: spoil_claim },
    Attempt { item: 10, what: "a job holds the locks of its folder and its claim", ends: Ends::Refused, make: hold_locks },
    Attempt { item: 10, what: "a job changes the mode of its folders: 777, 000", ends: Ends::Survived, make: change_modes },
    Attempt { item: 10, what: "a job removes its folder and everything in it", ends: Ends::Survived, make: remove_folder },
    Attempt { item: 10, what: "a job puts a link to a precious file, or a FIFO, in place of its recording", ends: Ends::Survived, make: replace_recording },
    Attempt { item: 10, what: "a job fills the disk that its records are on", ends: Ends::Survived, make: fill_disk },
    Attempt { item: 10, what: "a job rewrites its recording", ends: Ends::Limit("A job runs as you"), make: rewrite_recording },
    Attempt { item: 10, what: "a job forges a whole ending: there is no signature that it could not make", ends: Ends::Limit("A job runs as you"), make: forge_ending },
    Attempt { item: 10, what: "a job moves its folder away and leaves a link", ends: Ends::Limit("A job can hide its own ending"), make: hide_folder },
];

/// Runs a script as a job that exits with 7, and returns the job when it has ended.
fn run(home: &Home, script: &str) -> Result<Value, String> {
    let script = format!("m=$LASTWORD_MARKER; cd $m; {script}; exit 7");
    let id = home.0.said(&["run", "-d", "--", "sh", "-c", &script])?;
    home.until(&id, |job| (job["phase"] == "ended").then(|| job.clone()))
        .map_err(|why| format!("after `{script}`: {why}"))
}

/// Runs scripts as jobs that exit with 7; each must be known to have done so, with a proof.
fn run_all(home: &Home, scripts: &[&str]) -> Result<String, String> {
    for script in scripts {
        let job = run(home, script)?;
        let attempt = &job["attempts"][0];
        if attempt["exit"]["code"] != 7 || attempt["receipt"]["proof"] != "no_children" {
            return Err(format!("`{script}`: {attempt}"));
        }
    }
    Ok(format!("{} ways: failed (exit 7), proof no_children", scripts.len()))
}

fn precious(setup: &Setup) -> Result<PathBuf, String> {
    let path = setup.home.0.home().join("precious");
    fs::write(&path, "precious").map_err(at(&path))?;
    Ok(path)
}

fn is_untouched(path: &Path) -> Result<(), String> {
    match fs::read_to_string(path).map_err(at(path))?.as_str() {
        "precious" => Ok(()),
        other => Err(format!("{} was written to: {other:?}", path.display())),
    }
}

fn block_ending(setup: &Setup) -> Result<String, String> {
    let precious = precious(setup)?;
    let link = format!("ln -s {} exit", precious.display());
    let ways = [
        &link,
        "mkfifo exit",
        "mkdir -p exit/x",
        "echo hello > exit",
        "echo exit version=1 > exit",
        ": > exit; chmod 000 exit",
    ];
    let how = run_all(&setup.home, &ways)?;
    is_untouched(&precious)?;
    Ok(how)
}

fn spoil_claim(setup: &Setup) -> Result<String, String> {
    let ways = [
        "rm claim",
        "rm ctl.*",
        "rm -rf ./*",
        "cp claim c; rm claim; mv c claim",
        "echo closed version=1 > claim",
        "echo stop cause=cancel at=1 > stop",
        "rm claim; mkfifo claim",
    ];
    run_all(&setup.home, &ways)
}

fn hold_locks(setup: &Setup) -> Result<String, String> {
    let script = "for lock in $LASTWORD_MARKER $LASTWORD_MARKER/claim; do flock --nonblock $lock echo held; done; echo tried";
    let said = setup.home.0.said(&["run", "--", "sh", "-c", script])?;
    match said.as_str() {
        "tried" => Ok("its keeper has them both".to_owned()),
        other => Err(other.to_owned()),
    }
}

fn change_modes(setup: &Setup) -> Result<String, String> {
    run_all(&setup.home, &["chmod 777 $m", "chmod 000 $m", "chmod 777 $m/..", "chmod 000 $m/.."])
}

fn remove_folder(setup: &Setup) -> Result<String, String> {
    run_all(&setup.home, &["cd /; rm -rf $m", "cd /; rm -rf $(dirname $m)"])
        .map(|how| format!("{how}; its keeper made the folder again"))
}

fn replace_recording(setup: &Setup) -> Result<String, String> {
    let precious = precious(setup)?;
    let written = "echo before; while ! test -e stdout; do :; done; rm stdout";
    let link = format!("{written}; ln -s {} stdout; echo after", precious.display());
    let how = run_all(&setup.home, &[&link, &format!("{written}; mkfifo stdout; echo after")])?;
    is_untouched(&precious)?;
    says(&setup.home.0.said(&["show", "@last"])?, "cannot be read")
        .map(|said| format!("{how}; its output {said}"))
}

/// A file system of a few megabytes. Unmounted when it goes.
struct Small(PathBuf);

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

fn fill_disk(setup: &Setup) -> Result<String, String> {
    let home = setup.another("full")?;
    let options = format!("size=24m,mode=700,uid={0},gid={0}", super::setup::OWNER);
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", &options, "none"]).arg(home.0.home()).status();
    let small = Small(home.0.home().to_owned());
    if !mounted.is_ok_and(|status| status.success()) {
        return Err("no small file system can be mounted".to_owned());
    }
    home.0.said(&["run", "--", "true"])?;
    let ballast = home.0.home().join("ballast");
    let script = format!("cat /dev/zero > {0} 2> /dev/null; : > {0}.done", ballast.display());
    let job = {
        let script = format!("{script}; echo and it went on; exit 7");
        let id = home.0.said(&["run", "-d", "--", "sh", "-c", &script])?;
        let is_full = || ballast.with_extension("done").exists().then_some(());
        crate::clock::until(super::setup::PATIENCE, super::setup::LOOK, is_full)
            .ok_or("the disk does not fill")?;
        let other = super::setup::text(&home.0.run(&["run", "-d", "--", "true"])?.stderr);
        fs::remove_file(&ballast).map_err(at(&ballast))?;
        let job = home.until(&id, |job| (job["phase"] == "ended").then(|| job.clone()))?;
        home.0.said(&["run", "--", "true"])?;
        (job, other)
    };
    drop(home);
    drop(small);
    let (job, other) = job;
    let told =
        if other.is_empty() { "a new job was taken".to_owned() } else { format!("a new job: {other}") };
    match job["attempts"][0]["exit"]["code"] == 7 {
        true => Ok(format!("failed (exit 7) is known; while it was full {told}")),
        false => Err(format!("{job}")),
    }
}

fn rewrite_recording(setup: &Setup) -> Result<String, String> {
    run(&setup.home, "echo truth; while ! test -s stdout; do :; done; echo lie > stdout")?;
    says(&setup.home.0.said(&["logs", "@last"])?, "lie")
        .map(|_| "`logs` shows what it wrote there".to_owned())
}

fn forge_ending(setup: &Setup) -> Result<String, String> {
    let honest = setup.home.0.said(&["run", "-d", "--", "true"])?;
    setup.home.0.said(&["wait", &honest])?;
    let job = run(&setup.home, &format!("cp ../../{honest}/1/exit exit"))?;
    match job["outcome"] == "completed" {
        true => Ok("it exited with 7, and is shown as completed".to_owned()),
        false => Err(format!("the forgery did not count: {}; mend the page", job["outcome"])),
    }
}

fn hide_folder(setup: &Setup) -> Result<String, String> {
    let away = setup.home.0.home().join("away");
    // Both at once: a daemon that looks in between would make the folder again.
    let exchange = format!("syscall({}, -100, $ARGV[0], -100, $ARGV[1], 2) == 0 or die", libc::SYS_renameat2);
    let script = format!(
        "m=$LASTWORD_MARKER; d=$(dirname $m); ln -s {0} {0}; perl -e '{exchange}' $d {0} && : > {0}.done; exit 7",
        away.display()
    );
    let id = setup.home.0.said(&["run", "-d", "--", "sh", "-c", &script])?;
    let done = || away.with_extension("done").exists().then_some(());
    crate::clock::until(super::setup::PATIENCE, super::setup::LOOK, done)
        .ok_or("it does not move its folder")?;
    let waited = setup.home.0.run(&["wait", "--timeout", "1s", &id])?;
    if waited.status.code() != Some(124) {
        return Err(format!("it was not hidden: {}", super::setup::text(&waited.stdout)));
    }
    let folder = setup.home.0.home().join("jobs").join(&id);
    fs::remove_file(&folder).and_then(|()| fs::rename(&away, &folder)).map_err(at(&folder))?;
    // A new daemon looks at once; this one looks again after a pause.
    setup.home.0.said(&["daemon", "restart"])?;
    let job = setup.home.until(&id, |job| (job["phase"] == "ended").then(|| job.clone()))?;
    match job["attempts"][0]["exit"]["code"] == 7 {
        true => Ok("the link is not followed; when the folder is back, it has failed (exit 7)".to_owned()),
        false => Err(format!("{job}")),
    }
}
