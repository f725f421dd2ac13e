//! Another host under one enrolment, and another server at the address of the server.

use std::fs;
use std::io::Read as _;
use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::process::Command;
use std::time::Duration;

use super::super::attempt::{Attempt, Ends};
use super::super::bug::Bug;
use super::super::setup::{LOOK, at, refused, says};
use super::parties::{Fleet, LEASE_AND_MARGIN, Member, WORKER, stolen};
use crate::clock;
use crate::product::enrol_line;
use crate::product::figures::Stat;

#[rustfmt::skip] // One row, one attempt.
pub(super) const ATTEMPTS: &[Attempt<Fleet>] = &[
    Attempt { item: 28, what: "a second host starts a worker with a copy of the enrolment", ends: Ends::Refused, make: second_host },
    Attempt { item: 28, what: "a second host starts a worker with a copy of the whole folder, host id included", ends: Ends::Refused, make: clone },
    Attempt { item: 28, what: "a second host waits until the worker is gone, and takes its name", ends: Ends::Limit("An enrolment is good on any host"), make: successor },
    Attempt { item: 29, what: "another server with its own certificate takes the address of the server", ends: Ends::Refused, make: other_server },
    Attempt { item: 29, what: "`worker enroll` meets another server at the address", ends: Ends::Refused, make: enrol_elsewhere },
    Attempt { item: 29, what: "a program that speaks no TLS listens for a token", ends: Ends::Refused, make: listen },
];

/// The user of impostors.
const MALLORY: u32 = 54_340;

/// Gives a copy of files of ann's folder to an impostor, in another folder.
fn copy(fleet: &Fleet, name: &str, files: &[&str]) -> Result<crate::product::Product, String> {
    let product = fleet.install(name, Some(MALLORY))?;
    for file in files {
        let from = fleet.ann.product.home().join(file);
        let copied = Command::new("cp").arg("-a").arg(&from).arg(product.home()).status();
        if !copied.is_ok_and(|status| status.success()) {
            return Err(format!("{} cannot be copied", from.display()));
        }
        let own = product.home().join(file);
        chown(&own, Some(MALLORY), Some(MALLORY)).map_err(at(&own))?;
    }
    Ok(product)
}

/// Starts a worker elsewhere while ann runs a job. It must be kept out, and ann must not notice.
fn beside_ann(fleet: &Fleet, name: &str, files: &[&str]) -> Result<String, String> {
    let id = fleet.running("ann", &["sleep", "1000"])?;
    let shown = fleet.show(id)?;
    let leader = i32::try_from(shown["attempts"][0]["pid"].as_i64().unwrap_or_default()).unwrap_or(0);
    let (before, _) = fleet.stored(id)?;
    let second = Member::elsewhere(copy(fleet, name, files)?, &WORKER, MALLORY)?;
    let words = second.logs("runs on another host")?;
    // For longer than a lease, in which the second one tries again and again.
    let is_gone = || Stat::of(leader).is_none_or(|stat| !stat.is_alive()).then_some(());
    if clock::until(LEASE_AND_MARGIN, LOOK, is_gone).is_some() {
        return Err("the job of the first one was ended".to_owned());
    }
    let (after, _) = fleet.stored(id)?;
    if (after.epoch, after.version) != (before.epoch, before.version) {
        return Err(format!("the job was written to: version {} is now {}", before.version, after.version));
    }
    fleet.still_works("ann")?;
    let jobs = fs::read_dir(second.product.home().join("jobs")).map_or(0, |jobs| jobs.flatten().count());
    let own = files.contains(&"jobs");
    match jobs == 0 || own {
        true => Ok(message(&words)),
        false => Err(format!("it got {jobs} jobs")),
    }
}

/// Returns what a line of a log says, without time and place.
fn message(line: &str) -> String {
    line.split_once(": ").map_or(line, |(_, message)| message).to_owned()
}

fn second_host(fleet: &Fleet) -> Result<String, String> {
    beside_ann(fleet, "second", &["enrolment.json", "role"])
}

fn clone(fleet: &Fleet) -> Result<String, String> {
    let all = fs::read_dir(fleet.ann.product.home()).map_err(|error| error.to_string())?;
    let names: Vec<String> = all.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    // A socket and a lock are of a process, not of a folder.
    let is_file = |name: &&str| !name.contains("sock") && !name.contains("lock") && *name != "jobs";
    let names: Vec<&str> = names.iter().map(String::as_str).filter(is_file).collect();
    beside_ann(fleet, "clone", &names).map(|how| format!("{} files and folders: {how}", names.len()))
}

fn successor(fleet: &Fleet) -> Result<String, String> {
    let product = fleet.enrolled("sue", Some(MALLORY))?;
    let copied = fleet.install("sues-heir", Some(MALLORY))?;
    for file in ["enrolment.json", "role"] {
        let (from, to) = (product.home().join(file), copied.home().join(file));
        fs::copy(&from, &to).and_then(|_| chown(&to, Some(MALLORY), Some(MALLORY))).map_err(at(&to))?;
    }
    let sue = Member::start(product, &WORKER)?;
    fleet.still_works("sue")?;
    sue.kill();
    let _heir = Member::elsewhere(copied, &WORKER, MALLORY)?;
    fleet.still_works("sue").map(|()| "it runs the next job of that name".to_owned())
}

/// The server ends, and one with another certificate and the same journal listens in its place.
fn other_server(fleet: &Fleet) -> Result<String, String> {
    let worker = Member::start(fleet.enrolled("zoe", Some(MALLORY))?, &WORKER)?;
    fleet.still_works("zoe")?;
    let address = worker.stolen()?.address;
    fleet.server.kill();
    let other = fleet.another_server("other", &address)?;
    let words = worker.logs("fingerprint");
    let job = other.product.said(&["run", "-d", "--on", "zoe", "--", "true"])?;
    let waited = other.product.run(&["wait", "--timeout", "3s", &job])?;
    drop(other);
    fleet.server.start_on(&address)?;
    if waited.status.code() != Some(124) {
        return Err(format!("a job of the other server was run: {:?}", waited.status));
    }
    let words = words?;
    fleet.server.product.said(&["wait", "--timeout", "30s", &job])?;
    says(&words, "fingerprint").map(|line| format!("{}; with the server back, it goes on", message(&line)))
}

fn enrol_elsewhere(fleet: &Fleet) -> Result<String, String> {
    let other = fleet.another_server("elsewhere", "127.0.0.1:0")?;
    let door: serde_json::Value = serde_json::from_str(&other.product.said(&["fleet", "--json"])?)
        .map_err(|error| format!("fleet: {error}"))?;
    let text = |name: &str| door[name].as_str().unwrap_or_default().to_owned();
    let line = fleet.server.product.said(&["fleet", "add", "joe"])?;
    let words = enrol_line(&line)?;
    let honest = stolen(&fleet.ann.product)?;
    let (address, seen) = (text("address"), text("fingerprint"));
    let swapped: Vec<&str> = words
        .iter()
        .map(|word| match *word {
            word if word == honest.address => &address,
            // Whatever it is shown is what it was told to expect.
            word if word == honest.fingerprint && fleet.has(Bug::AnyCertificate) => &seen,
            word => word,
        })
        .collect();
    let joe = fleet.install("joe", Some(MALLORY))?;
    let said = joe.run(&swapped)?;
    if said.status.success() {
        return Err("it enrolled at a server that was not meant".to_owned());
    }
    let why = says(&refused(&said)?, "no token was sent")?;
    joe.said(&words).map(|_| format!("{why}; the token was still good at the right one"))
}

/// Hears what `worker enroll` sends to a port where no server is.
fn listen(fleet: &Fleet) -> Result<String, String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    let address = listener.local_addr().map_err(|error| error.to_string())?.to_string();
    let heard = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().ok()?;
        let _ = stream.set_read_timeout(Some(Duration::from_secs(2)));
        let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
        while let Ok(count @ 1..) = stream.read(&mut piece) {
            bytes.extend_from_slice(&piece[..count]);
        }
        Some(bytes)
    });
    let line = fleet.server.product.said(&["fleet", "add", "hal"])?;
    let words = enrol_line(&line)?;
    let honest = stolen(&fleet.ann.product)?.address;
    let swapped: Vec<&str> =
        words.iter().map(|word| if *word == honest { address.as_str() } else { word }).collect();
    let said = refused(&fleet.install("hal", Some(MALLORY))?.run(&swapped)?)?;
    let heard = heard.join().ok().flatten().ok_or("nothing connected")?;
    let token = words.iter().skip_while(|word| **word != "--token").nth(1).ok_or("no token in the line")?;
    let has_token = heard.windows(token.len()).any(|piece| piece == token.as_bytes());
    match has_token || heard.is_empty() {
        true => Err(format!("it was sent {} bytes, the token among them: {has_token}", heard.len())),
        false => Ok(format!(
            "{} bytes were heard, no token; {}",
            heard.len(),
            said.lines().next().unwrap_or_default()
        )),
    }
}
