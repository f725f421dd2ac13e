//! The environment of a job, as a private file beside it: `NAME=VALUE`, each terminated by a zero byte, and one more zero byte at the end.
//! Umask, limits and nice value are one more variable, which no job sees.
//!
//! No name is empty, so a file that a power cut left short or with zeroed blocks does not parse.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use lastword_core::{AttemptNo, JobId};
use lastword_proc::{Attributes, User, limits};

use crate::Env;

/// The file's name in the folder of its job.
const NAME: &str = "env";

/// Bytes of an environment. The kernel passes no more to a program.
const BYTES_MAX: u64 = 4 << 20;

/// Writes the file, so that it can be read at once.
pub(super) fn keep(folder: &Path, env: &Env) -> io::Result<()> {
    match std::fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let bytes = encode(env)?;
    // Written under another name first: another submit of the same job must not see half of it.
    static DRAFTS: AtomicU64 = AtomicU64::new(0);
    let draft = folder.join(format!("{NAME}.{}.tmp", DRAFTS.fetch_add(1, Ordering::Relaxed)));
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    limits::retried(|| options.open(&draft)?.write_all(&bytes))?;
    std::fs::rename(&draft, folder.join(NAME))
}

/// Makes the file durable. A missing file is not needed any more.
pub(super) fn sync(place: &Path, folder: &Path) -> io::Result<()> {
    match File::open(folder.join(NAME)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        file => {
            file?.sync_data()?;
            File::open(folder)?.sync_all()?;
            File::open(place)?.sync_all()
        }
    }
}

/// Reads the file for an attempt, and adds the variables that name job and attempt.
pub(super) fn read(folder: &Path, job: JobId, attempt: AttemptNo) -> io::Result<Env> {
    let mut bytes = Vec::new();
    File::open(folder.join(NAME))?.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    let env = decode(&bytes).ok_or_else(|| io::Error::other("a power cut left only a part of it"))?;
    Ok(with_names(env, job, attempt))
}

/// Adds the variables that name job and attempt.
fn with_names(mut env: Env, job: JobId, attempt: AttemptNo) -> Env {
    env.variables.push(("LASTWORD_JOB_ID".into(), job.to_string().into()));
    env.variables.push(("LASTWORD_ATTEMPT".into(), attempt.to_string().into()));
    env
}

/// Variables that every job of a worker gets, where they are set.
const USUAL: [&str; 10] =
    ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"];

/// Returns the environment of a job that was submitted on another host: the usual variables of `own`, and those that it names. Refuses a
/// name that is not set.
pub(super) fn named(
    own: &[(OsString, OsString)],
    names: &[String],
    job: JobId,
    attempt: AttemptNo,
) -> Result<Env, String> {
    let find = |wanted: &str| own.iter().find(|(name, _)| name == wanted && is_passed_on(name)).cloned();
    let mut variables: Vec<_> = USUAL.iter().filter_map(|name| find(name)).collect();
    for name in names.iter().filter(|name| !USUAL.contains(&name.as_str())) {
        let found = find(name).ok_or_else(|| {
            format!(
                "its worker has no variable {}: set it where the worker is started",
                name.escape_default()
            )
        })?;
        variables.push(found);
    }
    Ok(with_names(Env::new(variables), job, attempt))
}

/// Returns an environment with the names and folders of the user that a job runs as.
pub(super) fn as_user(mut env: Env, user: Option<&User>) -> Env {
    let Some(user) = user else { return env };
    let own: [(&str, OsString); 4] = [
        ("HOME", user.home.clone().into()),
        ("USER", user.name.clone().into()),
        ("LOGNAME", user.name.clone().into()),
        ("SHELL", user.shell.clone()),
    ];
    // The folder of another user's temporary files is not the user's.
    env.variables.retain(|(name, _)| name != "TMPDIR" && own.iter().all(|(own, _)| name != own));
    env.variables.extend(own.into_iter().map(|(name, value)| (name.into(), value)));
    env
}

/// Removes the file.
pub(super) fn remove(folder: &Path) -> io::Result<()> {
    match std::fs::remove_file(folder.join(NAME)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Removes the files of jobs that need none, with folders that are empty then; returns how many files.
pub(super) fn sweep(place: &Path, is_over: impl Fn(JobId) -> bool) -> io::Result<u32> {
    let mut removed = 0;
    for entry in std::fs::read_dir(place)? {
        let entry = entry?;
        let job = entry.file_name().to_str().and_then(|name| name.parse::<JobId>().ok());
        if job.is_some_and(&is_over) && std::fs::remove_file(entry.path().join(NAME)).is_ok() {
            removed += 1;
            // Fails unless it is empty: the folder of a job that was never stored.
            let _ = std::fs::remove_dir(entry.path());
        }
    }
    Ok(removed)
}

fn encode(env: &Env) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let attributes = (OsString::from(ATTRIBUTES), OsString::from(env.attributes.encode()));
    let variables = env.variables.iter().filter(|(name, _)| is_passed_on(name));
    for (name, value) in variables.chain([&attributes]) {
        let pair = [name.as_bytes(), b"=", value.as_bytes()].concat();
        if name.is_empty() || name.as_bytes().contains(&b'=') || pair.contains(&0) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a variable has an invalid name or value",
            ));
        }
        bytes.extend_from_slice(&pair);
        bytes.push(0);
    }
    bytes.push(0);
    if bytes.len() as u64 > BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is larger than 4 MiB"));
    }
    Ok(bytes)
}

/// Decodes; `None` unless the file is complete. Version 0.1.0 wrote no attributes.
fn decode(bytes: &[u8]) -> Option<Env> {
    let (end, mut rest) = bytes.split_last()?;
    let mut env = Env::default();
    while !rest.is_empty() {
        let close = rest.iter().position(|byte| *byte == 0)?;
        let middle = rest[..close].iter().position(|byte| *byte == b'=')?;
        let part = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        match (&rest[..middle], &rest[middle + 1..close]) {
            (name, value) if name == ATTRIBUTES.as_bytes() => {
                env.attributes = Attributes::decode(std::str::from_utf8(value).ok()?);
            }
            (name, value) => env.variables.push((part(name), part(value))),
        }
        rest = &rest[close + 1..];
    }
    (*end == 0).then_some(env)
}

/// The variable that holds the attributes.
const ATTRIBUTES: &str = "LASTWORD_ATTRIBUTES";

/// Variables that only Lastword sets. `LASTWORD_HOME` is not among them: a job may call the same daemon.
const OURS: [&[u8]; 4] =
    [b"LASTWORD_JOB_ID", b"LASTWORD_ATTEMPT", lastword_proc::MARKER.as_bytes(), ATTRIBUTES.as_bytes()];

/// Reports whether a job sees this variable: not those that make the loader run other code, and not those that only Lastword sets.
fn is_passed_on(name: &OsStr) -> bool {
    !lastword_proc::is_loader_variable(name) && !OURS.contains(&name.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &[(&str, &[u8])]) -> Env {
        let pair = |(name, value): &(&str, &[u8])| ((*name).into(), OsStr::from_bytes(value).to_owned());
        Env::new(pairs.iter().map(pair).collect())
    }

    #[test]
    fn an_environment_reads_back_without_what_loaders_obey() {
        let given = env(&[
            ("PATH", b"/bin"),
            ("LD_PRELOAD", b"evil.so"),
            ("LASTWORD_JOB_ID", b"another"),
            ("LASTWORD_ATTRIBUTES", b"umask 0"),
            ("LASTWORD_HOME", b"/mine"),
            ("ODD", b"\xff=\n"),
            ("EMPTY", b""),
        ]);
        let bytes = encode(&given).unwrap();
        assert_eq!(
            decode(&bytes).unwrap(),
            env(&[("PATH", b"/bin"), ("LASTWORD_HOME", b"/mine"), ("ODD", b"\xff=\n"), ("EMPTY", b"")])
        );
    }

    #[test]
    fn a_job_of_another_host_gets_the_usual_variables_and_those_it_names() {
        let own =
            env(&[("PATH", b"/bin"), ("KEY", b"k"), ("SECRET", b"s"), ("LD_PRELOAD", b"evil.so")]).variables;
        let (job, attempt) = (JobId::new(0, lastword_core::Timestamp(7), [1; 10]), AttemptNo(1));
        let named = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            named(&own, &names, job, attempt)
        };
        let names = |env: Env| env.variables.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(
            names(named(&["KEY", "PATH"]).unwrap()),
            ["PATH", "KEY", "LASTWORD_JOB_ID", "LASTWORD_ATTEMPT"]
        );
        assert!(named(&["MISSING"]).unwrap_err().contains("MISSING"));
        assert!(named(&["LD_PRELOAD"]).is_err(), "a loader obeys it");
    }

    #[test]
    fn what_a_power_cut_left_does_not_read() {
        let bytes =
            encode(&env(&[("PATH", b"/bin:/usr/bin"), ("EMPTY", b""), ("HOME", b"/home/ann")])).unwrap();
        assert!(decode(&bytes).is_some());
        for cut in 0..bytes.len() {
            assert_eq!(decode(&bytes[..cut]), None, "{cut}");
            for end in cut + 1..bytes.len() {
                let mut zeroed = bytes.clone();
                zeroed[cut..end].fill(0);
                assert!(zeroed == bytes || decode(&zeroed).is_none(), "{cut}..{end}");
            }
        }
        assert_eq!(decode(&encode(&env(&[])).unwrap()), Some(env(&[])));
    }

    #[test]
    fn attributes_are_kept_and_version_0_1_0_had_none() {
        let attributes = Attributes { umask: 0o027, ..Attributes::own() };
        let given = Env { attributes, ..env(&[("PATH", b"/bin")]) };
        assert_eq!(decode(&encode(&given).unwrap()), Some(given));
        assert_eq!(decode(b"PATH=/bin\0\0"), Some(env(&[("PATH", b"/bin")])));
    }

    #[test]
    fn names_and_values_that_would_read_as_others_are_refused() {
        for bad in [env(&[("A=B", b"")]), env(&[("", b"x")]), env(&[("A", b"x\0B=y")])] {
            assert!(encode(&bad).is_err(), "{:?}", bad.variables);
        }
    }
}
