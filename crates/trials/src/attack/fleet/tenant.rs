//! A job against the worker that runs it: its files, its processes, its link. Once as the user of the worker, as by default, and once
//! as another one (`--job-user`).

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Instant;

use lastword_core::JobId;

use super::super::attempt::{Attempt, Ends};
use super::super::bug::Bug;
use super::super::setup::{LOOK, PATIENCE, at, says};
use super::parties::{Fleet, LEASE_AND_MARGIN, Member, WORKER};
use crate::clock;
use crate::product::figures::Stat;

/// The heading of what jobs can take that run as their worker.
const AS_ITS_WORKER: Ends = Ends::Limit("A job runs as its worker, unless it runs as another user");

#[rustfmt::skip] // One row, one attempt.
pub(super) const ATTEMPTS: &[Attempt<Fleet>] = &[
    Attempt { item: 26, what: "a job reads the token of its worker", ends: AS_ITS_WORKER, make: read_token },
    Attempt { item: 26, what: "a job reads the output of another job of its worker", ends: AS_ITS_WORKER, make: read_output },
    Attempt { item: 26, what: "a job prolongs its own lease, and its worker dies", ends: AS_ITS_WORKER, make: prolong_lease },
    Attempt { item: 26, what: "a job kills its worker, keepers and other jobs", ends: Ends::Refused, make: kill_all },
    Attempt { item: 26, what: "a job looks into its worker, where the link is open", ends: Ends::Refused, make: peek },
    Attempt { item: 26, what: "a job asks its worker to stop, or for other jobs", ends: Ends::Refused, make: ask },
    Attempt { item: 26, what: "a job finds token or database in its environment or an open descriptor", ends: Ends::Refused, make: look_around },
    Attempt { item: 27, what: "a job of another user takes token, leases and output of others", ends: Ends::Refused, make: other_user_reads },
    Attempt { item: 27, what: "a job of another user kills or looks into its worker", ends: Ends::Refused, make: other_user_signals },
    Attempt { item: 27, what: "a job of another user reads the working folder of another job", ends: Ends::Limit("Jobs of one worker share a user"), make: other_folder },
];

fn file(member: &Member, name: &str) -> String {
    member.product.home().join(name).display().to_string()
}

/// Returns the file to which a job's output is recorded.
fn output(member: &Member, id: JobId) -> Result<String, String> {
    let folder = member.product.home().join("jobs").join(id.to_string()).join("1");
    let file = folder.join("stdout");
    let written = || fs::read(&file).ok().filter(|bytes| !bytes.is_empty()).map(drop);
    clock::until(PATIENCE, LOOK, written).ok_or_else(|| format!("{} is empty", file.display()))?;
    Ok(file.display().to_string())
}

fn read_token(fleet: &Fleet) -> Result<String, String> {
    let said = fleet.inside("ann", &["read", &file(&fleet.ann, "enrolment.json")])?;
    says(&said, &fleet.ann.stolen()?.token).map(|_| "enrolment.json is a file of its user".to_owned())
}

fn read_output(fleet: &Fleet) -> Result<String, String> {
    let other = fleet.running("ann", &["sh", "-c", "echo of another; sleep 1000"])?;
    let said = fleet.inside("ann", &["read", &output(&fleet.ann, other)?])?;
    says(&said, "of another").map(|_| "the recording is a file of its user".to_owned())
}

/// It writes its lease again and again, so that the file of the worker does not count. Its worker dies; by the time that another may have
/// the job, no process of it should be alive.
fn prolong_lease(fleet: &Fleet) -> Result<String, String> {
    let worker = Member::start(fleet.enrolled("kim", Some(54_333))?, &WORKER)?;
    let leases = file(&worker, "leases");
    let script = r#"cd "$0"; while :; do for f in *; do case $f in *.tmp|forged) ;; *)
        sed -E 's/(until|again)=[0-9]+/\1=99999999999/g' "$f" >forged && mv forged "$f";; esac; done; sleep 0.05; done"#;
    let id = fleet.running("kim", &["sh", "-c", script, &leases])?;
    let leader = fleet.show(id)?["attempts"][0]["pid"].as_i64().unwrap_or_default();
    let is_alive = || Stat::of(i32::try_from(leader).unwrap_or(0)).is_some_and(|stat| stat.is_alive());
    let forged = || {
        let files = fs::read_dir(&leases).into_iter().flatten().flatten();
        let mut texts = files.filter_map(|entry| fs::read_to_string(entry.path()).ok());
        texts.any(|text| text.contains("until=99999999999")).then_some(())
    };
    clock::until(PATIENCE, LOOK, forged).ok_or("it does not forge its lease")?;
    worker.kill();
    let begun = Instant::now();
    let ended = clock::until(LEASE_AND_MARGIN, LOOK, || (!is_alive()).then(|| begun.elapsed()));
    match ended {
        None => Ok(format!("it was alive {} s after its worker", LEASE_AND_MARGIN.as_secs())),
        Some(after) => Err(format!("it was ended after {:.1} s; mend the page", after.as_secs_f64())),
    }
}

fn kill_all(fleet: &Fleet) -> Result<String, String> {
    let other = fleet.running("ann", &["sleep", "1000"])?;
    let pids = processes(&fleet.ann)?;
    let pids: Vec<&str> = pids.iter().map(String::as_str).collect();
    let said = fleet.inside("ann", &[&["kill"], &pids[..]].concat())?;
    says(&said, "none of")?;
    let job = fleet.show(other)?;
    match job["phase"] == "running" {
        true => Ok(said),
        false => Err(format!("the other job is {}", job["phase"])),
    }
}

/// Returns every process of a worker: itself, keepers and trees.
fn processes(member: &Member) -> Result<Vec<String>, String> {
    let all: Vec<String> = member.product.processes().iter().map(ToString::to_string).collect();
    match all.len() {
        0..4 => Err(format!("the worker has only the processes {all:?}")),
        _ => Ok(all),
    }
}

fn peek(fleet: &Fleet) -> Result<String, String> {
    let worker = fleet.ann.pid()?.to_string();
    says(&fleet.inside("ann", &["peek", &worker])?, "can be looked into")
}

fn ask(fleet: &Fleet) -> Result<String, String> {
    let other = fleet.running("ann", &["sleep", "1000"])?;
    let socket = file(&fleet.ann, "lastword.sock");
    let of = format!("/v1/jobs/{other}");
    let (cancel, output) = (format!("{of}:cancel"), format!("{of}/output"));
    let requests: [&[&str]; 5] = [
        &["POST", "/v1/daemon:stop", "{}"],
        &["GET", "/v1/jobs"],
        &["GET", &of],
        &["GET", &output],
        &["POST", &cancel, "{}"],
    ];
    for request in requests {
        let said = fleet.inside("ann", &[&["ask", &socket], request].concat())?;
        if !said.starts_with("403 ") {
            return Err(format!("{request:?}: {said}"));
        }
    }
    fleet.still_works("ann")?;
    Ok(format!("403, {0} of {0} requests", requests.len()))
}

fn look_around(fleet: &Fleet) -> Result<String, String> {
    let open = fleet.inside("ann", &["descriptors"])?;
    if open != "[0, 1, 2]" {
        return Err(format!("it has descriptors {open}"));
    }
    let env = fleet.server.product.said(&["run", "--on", "ann", "--", "env"])?;
    let token = fleet.ann.stolen()?.token;
    let mut names: Vec<&str> = env.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    names.sort_unstable();
    let ours: Vec<&str> = names.iter().copied().filter(|name| name.starts_with("LASTWORD_")).collect();
    match (env.contains(&token) || env.contains("dbname"), ours.as_slice()) {
        (false, ["LASTWORD_ATTEMPT", "LASTWORD_JOB_ID", "LASTWORD_MARKER"]) => {
            Ok("descriptors 0, 1 and 2; of ours it has its id, its attempt and its mark".to_owned())
        }
        _ => Err(env),
    }
}

/// Starts a worker whose jobs run as another user.
fn for_nobody(fleet: &Fleet, name: &str) -> Result<Member, String> {
    Member::start(fleet.enrolled(name, None)?, &[&WORKER[..], &["--job-user", "nobody"]].concat())
}

fn other_user_reads(fleet: &Fleet) -> Result<String, String> {
    let worker = for_nobody(fleet, "cat")?;
    let other = fleet.running("cat", &["sh", "-c", "echo of another; sleep 1000"])?;
    let output = output(&worker, other)?;
    let leases = fs::read_dir(worker.product.home().join("leases")).map_err(|error| error.to_string())?;
    let leases = leases.flatten().map(|entry| entry.path().display().to_string());
    let mut files = vec![file(&worker, "enrolment.json"), output, file(&worker, "daemon.log")];
    files.extend(leases);
    if fleet.has(Bug::TokenIsOpen) {
        for (path, mode) in [(worker.product.home().to_owned(), 0o755), ((&files[0]).into(), 0o644)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).map_err(at(&path))?;
        }
    }
    let words: Vec<&str> = ["read"].into_iter().chain(files.iter().map(String::as_str)).collect();
    let said = fleet.inside("cat", &words)?;
    let user = fleet.inside("cat", &["whoami"])?;
    let read = said.lines().filter(|line| !line.starts_with("no: Permission denied")).count();
    match read {
        0 => Ok(format!("{user}, {} files: Permission denied", files.len())),
        _ => Err(format!("it read {read} lines of {} files", files.len())),
    }
}

fn other_user_signals(fleet: &Fleet) -> Result<String, String> {
    let worker = for_nobody(fleet, "cut")?;
    let other = fleet.running("cut", &["sleep", "1000"])?;
    let pids = processes(&worker)?;
    let pids: Vec<&str> = pids.iter().map(String::as_str).collect();
    let killed = fleet.inside("cut", &[&["kill"], &pids[..]].concat())?;
    says(&killed, "none of")?;
    let own = worker.pid()?.to_string();
    says(&fleet.inside("cut", &["peek", &own])?, "can be looked into")?;
    let asked = fleet.inside("cut", &["ask", &file(&worker, "lastword.sock"), "GET", "/v1/jobs"])?;
    says(&asked, "Permission denied")?;
    match fleet.show(other)?["phase"] == "running" {
        true => Ok(format!("{killed}; its socket: {asked}")),
        false => Err("the other job was ended".to_owned()),
    }
}

fn other_folder(fleet: &Fleet) -> Result<String, String> {
    let worker = for_nobody(fleet, "cow")?;
    let other = fleet.running("cow", &["sh", "-c", "echo of another >here; sleep 1000"])?;
    let work = worker.product.home().with_extension("work").join(other.to_string()).join("here");
    let written = || work.exists().then_some(());
    clock::until(PATIENCE, LOOK, written).ok_or_else(|| format!("{} is not there", work.display()))?;
    let said = fleet.inside("cow", &["read", &work.display().to_string()])?;
    says(&said, "of another")
        .map(|_| "what another job writes in its folder is a file of the same user".to_owned())
}
