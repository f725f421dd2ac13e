//! Too much of something: output by the gigabyte against keeper, disk and other jobs, and requests that are too large, too deep or no
//! numbers against the daemon.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use super::attempt::{Attempt, Ends};
use super::bug::Bug;
use super::setup::{Home, OWNER, Setup, says};
use crate::clock;
use crate::product::figures::{self, Stat};

#[rustfmt::skip] // One row, one attempt.
pub(super) const ATTEMPTS: &[Attempt] = &[
    Attempt { item: 23, what: "as much output as fits into some seconds", ends: Ends::Survived, make: flood },
    Attempt { item: 23, what: "ten million empty lines", ends: Ends::Survived, make: empty_lines },
    Attempt { item: 23, what: "a line of a gigabyte", ends: Ends::Survived, make: one_line },
    Attempt { item: 23, what: "a hundred thousand tiny writes a second", ends: Ends::Survived, make: tiny_writes },
    Attempt { item: 24, what: "a megabyte of arguments, and two", ends: Ends::Refused, make: arguments },
    Attempt { item: 24, what: "a hundred thousand variables", ends: Ends::Refused, make: variables },
    Attempt { item: 24, what: "a million labels", ends: Ends::Refused, make: labels },
    Attempt { item: 24, what: "six hundred large bodies that never end", ends: Ends::Survived, make: unfinished },
    Attempt { item: 24, what: "JSON that is deep, doubled, endless, or no number", ends: Ends::Refused, make: json_bombs },
];

/// What may be kept of each stream, and what the disk may hold beside it: the tail moves on in steps, and records stand behind it.
const DISK_MAX: u64 = (4 + 12 + 4) << 20;

/// The most memory that a shim may ever have had. As it is built for tests, its program alone takes more.
const SHIM_MAX_KB: u64 = if cfg!(debug_assertions) { 8 << 10 } else { 4 << 10 };

/// The longest that 99 of 100 questions to the daemon may take meanwhile. What they wait for a processor that a bomb has is not counted:
/// that is the machine's time, not the daemon's.
const ANSWER_MAX_MS: f64 = 50.0;

/// The longest that one bomb may take on a busy machine.
const BOMB_MAX: Duration = Duration::from_secs(120);

/// Throws a bomb, and watches.
fn throw(setup: &Setup, command: &[&str], bytes: u64) -> Result<String, String> {
    let home = &setup.another("bombed")?;
    let start: &[&str] = match setup.has(Bug::OutputHasNoCap) {
        true => &["daemon", "start", "--set", "output.tail=1T"],
        false => &["daemon", "start"],
    };
    home.0.said(start)?;
    let [before, before_clock] = answers(setup, home)?;
    let begun = Instant::now();
    // A job may be over before anything looks at its shim, so it ends only after the last look.
    let [over, measured] = ["over", "measured"].map(|name| home.0.home().join(name).display().to_string());
    for file in [&over, &measured] {
        let _ = fs::remove_file(file);
    }
    let script =
        r#"over=$1 measured=$2; shift 2; "$@"; : >"$over"; until test -e "$measured"; do sleep 0.01; done"#;
    let id =
        home.0.said(&[&["run", "-d", "--", "sh", "-c", script, "sh", &over, &measured], command].concat())?;
    let leader = home.until(&id, |job| job["attempts"][0]["pid"].as_i64())?;
    let shim = i32::try_from(leader).ok().and_then(Stat::of).map_or(0, |stat| stat.parent);
    let folder = home.0.home().join("jobs").join(&id).join("1");
    let (mut memory, mut disk, mut during) = (0, 0, None);
    let ended = clock::until(BOMB_MAX, Duration::from_millis(20), || {
        let is_over = Path::new(&over).exists();
        memory = memory.max(figures::most_resident_kb(shim).unwrap_or(0));
        disk = disk.max(blocks(&folder));
        if during.is_none() {
            during = Some(answers(setup, home));
        }
        if is_over {
            let _ = fs::write(&measured, "");
        }
        let job = home.json(&["show", &id]).ok()?;
        (job["phase"] == "ended" || disk > DISK_MAX).then_some(job)
    });
    let took = begun.elapsed().as_secs_f64();
    let [during, during_clock] = during.ok_or("no question was asked meanwhile")??;
    let job =
        ended.ok_or_else(|| format!("it does not end; {memory} kB in its shim, {disk} bytes on the disk"))?;
    let seen = job["attempts"][0]["receipt"]["output"]["seen"].as_u64();
    let figures = format!(
        "{} MB in {took:.1} s, shim {memory} kB, disk {:.1} MiB, answers p99 {during:.1} ms without waits for a processor \
         (before {before:.1}), {during_clock:.1} by the clock (before {before_clock:.1})",
        bytes / 1_000_000,
        disk as f64 / f64::from(1 << 20)
    );
    match () {
        () if disk > DISK_MAX => Err(format!("the disk fills: {figures}")),
        () if memory == 0 || memory >= SHIM_MAX_KB => Err(format!("the shim grows: {figures}")),
        () if during > ANSWER_MAX_MS => Err(format!("the daemon gets slow: {figures}")),
        () if seen != Some(bytes) => Err(format!("{seen:?} bytes were counted: {figures}")),
        () => Ok(figures),
    }
}

/// Returns how long 99 of 100 questions take, in milliseconds: without the waits for a processor, and by the clock.
fn answers(setup: &Setup, home: &Home) -> Result<[f64; 2], String> {
    let said = setup.attack(OWNER, &["clock", &home.socket().display().to_string()])?;
    let times: Vec<f64> = said.split(' ').filter_map(|word| word.parse().ok()).collect();
    times.try_into().map_err(|_| format!("the daemon does not answer: {said}"))
}

/// Counts the bytes that the files of a folder take on the disk.
fn blocks(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|meta| meta.blocks() * 512).sum()
}

fn leader<'a>(program: &'a str, kind: &'a str, bytes: &'a str) -> [&'a str; 5] {
    [program, "leader", "bomb", kind, bytes]
}

fn of_leader(setup: &Setup, kind: &str, bytes: u64) -> Result<String, String> {
    let program = setup.programs.trials.display().to_string();
    throw(setup, &leader(&program, kind, &bytes.to_string()), bytes)
}

fn flood(setup: &Setup) -> Result<String, String> {
    of_leader(setup, "flood", if setup.short { 1_000_000_000 } else { 5_000_000_000 })
}

fn empty_lines(setup: &Setup) -> Result<String, String> {
    throw(setup, &["sh", "-c", "yes '' | head -n 10000000"], 10_000_000)
}

fn one_line(setup: &Setup) -> Result<String, String> {
    of_leader(setup, "line", 1_000_000_000)
}

fn tiny_writes(setup: &Setup) -> Result<String, String> {
    let seconds = if setup.short { 2 } else { 5 };
    of_leader(setup, "tiny", 100_000 * seconds * 10)
}

/// Sends bodies that must be refused, or else run as they are; afterwards the daemon must be the one it was, and answer.
fn bodies(setup: &Setup, all: &[(&str, Vec<u8>, &str)]) -> Result<String, String> {
    let before = super::transport::daemon(&setup.home)?;
    let mut told = Vec::new();
    for (what, body, code) in all {
        let said = setup.post(&setup.home, "/v1/jobs", body)?;
        says(&said, code).map_err(|_| format!("{what}: {said}"))?;
        told.push(format!("{what}: {said}"));
    }
    let after = super::transport::daemon(&setup.home)?;
    let resident = i32::try_from(after).ok().and_then(figures::resident_kb).unwrap_or(u64::MAX) >> 10;
    match (before == after, resident) {
        (true, ..=150) => Ok(format!("{}; the daemon has {resident} MiB", told.join(", "))),
        (false, _) => Err(format!("{}; the daemon has died", told.join(", "))),
        (true, _) => Err(format!("{}; the daemon has {resident} MiB", told.join(", "))),
    }
}

fn with(what: &str, value: serde_json::Value) -> Vec<u8> {
    let mut body = json!({ "argv": ["true"], "cwd": "/", "env": {} });
    body[what] = value;
    body.to_string().into_bytes()
}

fn arguments(setup: &Setup) -> Result<String, String> {
    let argv = |bytes: usize| with("argv", json!(["true", "x".repeat(bytes)]));
    let many = with("argv", json!(vec!["x"; 500_000]));
    bodies(
        setup,
        &[
            ("1 MB", argv(1_000_000), "4"),
            ("2.5 MB", argv(2_500_000), "413 too_large"),
            ("500000 words", many, "4"),
        ],
    )
}

fn variables(setup: &Setup) -> Result<String, String> {
    let env: serde_json::Map<String, serde_json::Value> =
        (0..100_000).map(|number| (format!("VARIABLE_{number}"), json!("value"))).collect();
    bodies(setup, &[("100000 variables", with("env", env.into()), "413 too_large")])
}

fn labels(setup: &Setup) -> Result<String, String> {
    let labels = |count: usize| -> serde_json::Value {
        (0..count).map(|number| (format!("l{number}"), json!(""))).collect::<serde_json::Map<_, _>>().into()
    };
    bodies(
        setup,
        &[
            ("1000 labels", with("labels", labels(1_000)), "4"),
            ("1000000", with("labels", labels(1_000_000)), "413 too_large"),
        ],
    )
}

/// Unfinished bodies at once.
const UNFINISHED: u64 = 600;

/// How much of its memory before the daemon may have meanwhile, after it has served as many ordinary clients at once.
const GROWS_MAX: f64 = 1.5;

/// Sends bodies that never end, for ten minutes, or for some seconds if it is to be short. The daemon must not grow, and must answer.
fn unfinished(setup: &Setup) -> Result<String, String> {
    let seconds: u64 = if setup.short { 12 } else { 600 };
    let daemon = i32::try_from(super::transport::daemon(&setup.home)?).map_err(|error| error.to_string())?;
    let resident = || figures::resident_kb(daemon).ok_or("there is no daemon");
    let (socket, count) = (setup.home.socket().display().to_string(), UNFINISHED.to_string());
    let fresh = resident()?;
    // What as many ordinary clients cost is no harm.
    setup.attack(OWNER, &["crowd", &socket, &count])?;
    let before = resident()?;
    let words = ["unfinished", &socket, &count, &seconds.to_string()];
    let mut most = 0;
    let said = std::thread::scope(|scope| {
        let attack = scope.spawn(|| setup.attack(OWNER, &words));
        while !attack.is_finished() {
            most = most.max(figures::resident_kb(daemon).unwrap_or(u64::MAX));
            clock::rest(Duration::from_millis(100));
        }
        attack.join().map_err(|_| "the attacker panicked".to_owned())?
    })?;
    let ratio = most as f64 / before as f64;
    let figures = format!(
        "{} MiB, {} with as many ordinary clients, at most {} meanwhile (×{ratio:.2}); {said}",
        fresh >> 10,
        before >> 10,
        most >> 10
    );
    match ratio <= GROWS_MAX {
        true => Ok(figures),
        false => Err(format!("the daemon grows: {figures}")),
    }
}

fn json_bombs(setup: &Setup) -> Result<String, String> {
    let plain = |rest: &str| format!("{{\"argv\":[\"true\"],\"cwd\":\"/\",{rest}}}").into_bytes();
    let invalid = "400 invalid";
    let deep = [b"{\"argv\":".to_vec(), vec![b'['; 500_000]].concat();
    bodies(
        setup,
        &[
            ("depth 500000", deep, invalid),
            (
                "deep labels",
                plain(&format!("\"labels\":{}1{}", "{\"a\":".repeat(100_000), "}".repeat(100_000))),
                invalid,
            ),
            ("a key twice", plain("\"cwd\":\"/tmp\""), invalid),
            ("NaN", plain("\"priority\":NaN"), invalid),
            ("1e999", plain("\"priority\":1e999"), invalid),
            ("10^40", plain(&format!("\"priority\":1{}", "0".repeat(40))), invalid),
            ("-1 ms", plain("\"limits\":{\"wall_ms\":-1}"), invalid),
            ("no end", b"{\"argv\":[\"true\"".to_vec(), invalid),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_counted_by_its_blocks() {
        let folder = tempfile::tempdir().unwrap();
        fs::File::create(folder.path().join("hole")).unwrap().set_len(1 << 30).unwrap();
        fs::write(folder.path().join("full"), vec![1; 1 << 20]).unwrap();
        let blocks = blocks(folder.path());
        assert!((1 << 20..2 << 20).contains(&blocks), "{blocks}");
    }
}
