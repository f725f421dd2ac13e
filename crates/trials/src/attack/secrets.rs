//! A secret that a job was given: which users and files can show it, while the job runs and after.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::attempt::{Attempt, Ends};
use super::bug::Bug;
use super::setup::{LOOK, PATIENCE, STRANGER, Setup, at, says, text};
use crate::clock;
use crate::product::figures;

#[rustfmt::skip] // One row, one attempt.
pub(super) const ATTEMPTS: &[Attempt] = &[
    Attempt { item: 15, what: "a secret of the environment shows on command lines, in records, log or API", ends: Ends::Refused, make: in_environment },
    Attempt { item: 15, what: "the daemon is killed so that it leaves its memory behind", ends: Ends::Refused, make: core_file },
    Attempt { item: 15, what: "a secret on a command line is read by a stranger", ends: Ends::Limit("A command line is public"), make: on_command_line },
    Attempt { item: 16, what: "a job writes its secret", ends: Ends::Limit("Output is recorded as it is written"), make: written },
    Attempt { item: 17, what: "a stranger reads environment, output, journal and log of a job", ends: Ends::Refused, make: read_files },
];

const SECRET: &str = "correct-horse-battery-staple";

/// Returns the files below a folder in which the secret stands.
fn holding_secret(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(at(&folder))?.flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_file() && has_secret(&fs::read(entry.path()).unwrap_or_default()) => {
                    found.push(entry.path());
                }
                _ => {}
            }
        }
    }
    Ok(found)
}

fn has_secret(bytes: &[u8]) -> bool {
    bytes.windows(SECRET.len()).any(|piece| piece == SECRET.as_bytes())
}

fn in_environment(setup: &Setup) -> Result<String, String> {
    let home = setup.another("secret")?;
    let mut words = vec!["run", "-d", "--name", "keeps", "--retry", "1", "--"];
    let given = format!("TOKEN={SECRET}");
    if setup.has(Bug::SecretOnCommandLine) {
        words.extend(["env", &given]);
    }
    words.extend(["sh", "-c", "sleep 1000; exit 1"]);
    let mut command = home.0.command(&words);
    command.env("TOKEN", SECRET);
    home.0.run_to_end(&command)?;
    home.until("keeps", |job| job["attempts"][0]["pid"].as_i64())?;
    let lines = figures::all()
        .into_iter()
        .filter(|pid| has_secret(&fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()));
    if let [pid, ..] = lines.collect::<Vec<_>>().as_slice() {
        return Err(format!("it stands on the command line of process {pid}"));
    }
    for words in
        [&["show", "keeps", "--json"][..], &["events", "--json"], &["ls", "--json"], &["doctor", "--json"]]
    {
        if has_secret(&home.0.run(words)?.stdout) {
            return Err(format!("{words:?} shows it"));
        }
    }
    let held = holding_secret(home.0.home())?;
    let [only] = held.as_slice() else { return Err(format!("it stands in {held:?}")) };
    let mode = fs::metadata(only).map_err(at(only))?.mode() & 0o777;
    if !only.ends_with("env") || mode != 0o600 {
        return Err(format!("it stands in {} with mode {mode:o}", only.display()));
    }
    home.0.said(&["cancel", "--force", "keeps"])?;
    home.until("keeps", |job| (job["phase"] == "ended").then_some(()))?;
    // The file goes after the last word: nothing waits for that but this.
    let mut left = Vec::new();
    let gone = clock::until(PATIENCE, LOOK, || match holding_secret(home.0.home()) {
        Ok(held) if held.is_empty() => Some(Ok(())),
        Ok(held) => {
            left = held;
            None
        }
        Err(why) => Some(Err(why)),
    });
    gone.unwrap_or_else(|| Err(format!("after its end it stands in {left:?}")))?;
    Ok("while it runs in one private file (0600), afterwards nowhere".to_owned())
}

fn core_file(setup: &Setup) -> Result<String, String> {
    let home = setup.another("core")?;
    home.0.said(&["daemon", "start"])?;
    let pid = i32::try_from(super::transport::daemon(&home)?).map_err(|error| error.to_string())?;
    let everything = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the kernel reads a structure that outlives the call; the process is our own daemon.
    unsafe { libc::prlimit(pid, libc::RLIMIT_CORE, &raw const everything, std::ptr::null_mut()) };
    // What the kernel would dump belongs to the user; what it does not is root's.
    let owner = fs::metadata(format!("/proc/{pid}/mem")).map_err(|error| error.to_string())?.uid();
    // SAFETY: a signal to our own daemon.
    unsafe { libc::kill(pid, libc::SIGABRT) };
    let gone = || figures::Stat::of(pid).is_none_or(|stat| !stat.is_alive()).then_some(());
    clock::until(PATIENCE, LOOK, gone).ok_or("the daemon does not die")?;
    match owner {
        0 => Ok("it is dead, and the kernel was told not to write its memory down".to_owned()),
        _ => Err("its memory is its user's to be dumped".to_owned()),
    }
}

fn on_command_line(setup: &Setup) -> Result<String, String> {
    let id = setup.home.0.said(&["run", "-d", "--", "sh", "-c", "sleep 1000; :", SECRET])?;
    let pid = setup.home.until(&id, |job| job["attempts"][0]["pid"].as_i64())?;
    let said = setup.attack(STRANGER, &["read", &format!("/proc/{pid}/cmdline")])?;
    setup.home.0.said(&["cancel", "--force", &id])?;
    says(&said, SECRET).map(|_| "the kernel shows it to everybody, and the journal keeps it".to_owned())
}

fn written(setup: &Setup) -> Result<String, String> {
    let mut command = setup.home.0.command(&["run", "--", "sh", "-c", "echo $TOKEN"]);
    command.env("TOKEN", SECRET);
    says(&text(&setup.home.0.run_to_end(&command)?.stdout), SECRET)?;
    says(&setup.home.0.said(&["logs", "@last"])?, SECRET)
        .map(|_| "nothing is blacked out: `logs` shows it".to_owned())
}

fn read_files(setup: &Setup) -> Result<String, String> {
    let home = setup.another("read")?;
    let mut command = home.0.command(&["run", "-d", "--", "sh", "-c", "echo $TOKEN; sleep 1000"]);
    command.env("TOKEN", SECRET);
    let id = text(&home.0.run_to_end(&command)?.stdout);
    home.until(&id, |job| job["attempts"][0]["pid"].as_i64())?;
    // Even where the folders have been opened to other users.
    for folder in [home.0.home().to_owned(), home.0.home().join("jobs"), home.0.home().join("jobs").join(&id)]
    {
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).map_err(at(&folder))?;
    }
    let state = home.0.home();
    let job = state.join("jobs").join(&id);
    let files =
        [job.join("env"), state.join("journal.db"), state.join("journal.db-wal"), state.join("daemon.log")];
    let mut words = vec!["read".to_owned()];
    words.extend(files.iter().map(|file| file.display().to_string()));
    let said = setup.attack(STRANGER, &words)?;
    let listed = setup.attack(STRANGER, &["list", &job.join("1").display().to_string()])?;
    fs::set_permissions(state, fs::Permissions::from_mode(0o700)).map_err(at(state))?;
    says(&listed, "Permission denied")?;
    match said.lines().all(|line| line.starts_with("no:")) {
        true => Ok(format!("{} files and the folder of the attempt: Permission denied", files.len())),
        false => Err(said),
    }
}
