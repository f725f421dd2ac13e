//! Names, paths and texts that no client of ours would send, on their way to files, to the journal and to the log.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use super::attempt::{Attempt, Ends};
use super::setup::{OWNER, STRANGER, Setup, at, refused, says, text};

#[rustfmt::skip] // One row, one attempt.
pub(super) const ATTEMPTS: &[Attempt] = &[
    Attempt { item: 18, what: "names with .., /, NUL, line breaks, a leading -, 65 bytes, look-alikes", ends: Ends::Refused, make: names },
    Attempt { item: 18, what: "ids of the client's making that lead elsewhere", ends: Ends::Refused, make: ids },
    Attempt { item: 18, what: "references in a path that lead elsewhere", ends: Ends::Refused, make: references },
    Attempt { item: 18, what: "names that differ in case only, and CON", ends: Ends::Survived, make: twins },
    Attempt { item: 19, what: "the state folder in a shared folder was made by a stranger", ends: Ends::Refused, make: foreign_state },
    Attempt { item: 19, what: "the folder of all jobs is a link", ends: Ends::Refused, make: linked_jobs },
    Attempt { item: 19, what: "the folder to run in is swapped between question and start", ends: Ends::Limit("A folder is a path"), make: swapped_folder },
    Attempt { item: 20, what: "quotes, SQL and much of both in label, command, folder and environment", ends: Ends::Survived, make: sql_in_fields },
    Attempt { item: 20, what: "SQL and LIKE in what lists are asked for", ends: Ends::Survived, make: sql_in_filters },
    Attempt { item: 20, what: "text that is no UTF-8", ends: Ends::Refused, make: no_text },
    Attempt { item: 21, what: "line breaks and escapes on their way to the log of the daemon", ends: Ends::Survived, make: into_log },
];

fn body(change: impl Fn(&mut Value)) -> String {
    let mut body = json!({ "argv": ["true"], "cwd": "/", "env": {} });
    change(&mut body);
    body.to_string()
}

/// Submits as the user, and returns status and code.
fn submit(setup: &Setup, body: &str) -> Result<String, String> {
    setup.post(&setup.home, "/v1/jobs", body.as_bytes())
}

/// Submits what must be refused.
fn must_refuse(setup: &Setup, bodies: &[String]) -> Result<usize, String> {
    for body in bodies {
        let said = submit(setup, body)?;
        if !said.starts_with("4") {
            return Err(format!("{said} for {}", body.chars().take(200).collect::<String>()));
        }
    }
    Ok(bodies.len())
}

fn count(setup: &Setup) -> Result<usize, String> {
    Ok(setup.home.0.said(&["ls", "-a", "-q", "-n", "1000"])?.lines().count())
}

fn names(setup: &Setup) -> Result<String, String> {
    let before = count(setup)?;
    let long = "x".repeat(65);
    let bad = [
        "",
        "-x",
        "..",
        "../x",
        "a/b",
        "a b",
        "a\nb",
        "a\u{1b}b",
        "@last",
        "pаypal",
        "ａ",
        "a\u{200b}",
        &long,
    ];
    for name in bad {
        let said = setup.home.0.run(&["run", "-d", &format!("--name={name}"), "--", "true"])?;
        if said.status.code() != Some(2) {
            return Err(format!("--name {name:?}: {} {}", said.status, text(&said.stdout)));
        }
    }
    let by_api: Vec<String> =
        bad.iter().chain(&["a\0b"]).map(|name| body(|body| body["name"] = json!(name))).collect();
    let tried = bad.len() + must_refuse(setup, &by_api)?;
    match count(setup)? == before {
        true => Ok(format!("{tried} of {tried}, and no job was made")),
        false => Err("a job was made".to_owned()),
    }
}

fn ids(setup: &Setup) -> Result<String, String> {
    let ids = [
        "../../x",
        "job_",
        "job_..",
        "/etc/passwd",
        "job_0001m7fky4kze019xrdx66eyvbz1/../x",
        "JOB_0001M7FKY4KZE019XRDX66EYVBZ1",
    ];
    let bodies: Vec<String> = ids.iter().map(|id| body(|body| body["id"] = json!(id))).collect();
    must_refuse(setup, &bodies).map(|tried| format!("{tried} of {tried}"))
}

fn references(setup: &Setup) -> Result<String, String> {
    let paths =
        ["..%2f..%2fetc%2fpasswd", "%2e%2e", "%00", "a%0ab", "job_..%2f..", "%ff%fe", "%27%20OR%201=1"];
    for path in paths {
        for end in ["", "/output", "/events", "/result"] {
            let said = setup.ask(OWNER, &setup.home, &["GET", &format!("/v1/jobs/{path}{end}")])?;
            if !said.starts_with('4') {
                return Err(format!("{path}{end}: {said}"));
            }
        }
    }
    Ok(format!("{} of {}", paths.len() * 4, paths.len() * 4))
}

fn twins(setup: &Setup) -> Result<String, String> {
    for (name, code) in [("Twin", "3"), ("twin", "4"), ("CON", "5"), ("con", "6")] {
        let said = setup.home.0.run(&[
            "run",
            "--name",
            name,
            "--",
            "sh",
            "-c",
            &format!("echo {name}; exit {code}"),
        ])?;
        says(&text(&said.stdout), name)?;
    }
    for (name, code) in [("Twin", 3), ("twin", 4), ("CON", 5), ("con", 6)] {
        let job = setup.home.json(&["show", name])?;
        if job["attempts"][0]["exit"]["code"] != code {
            return Err(format!("{name} is another: {job}"));
        }
    }
    Ok("each is the job it was given to; folders are named by id".to_owned())
}

fn foreign_state(setup: &Setup) -> Result<String, String> {
    let home = setup.another("shared-state")?;
    setup.folder("shared-states", 0, 0o1777)?;
    let state = setup.folder("shared-states/state", STRANGER, 0o777)?;
    let mut command = home.0.command(&["run", "-d", "--", "true"]);
    command.env("LASTWORD_HOME", &state);
    let said = refused(&home.0.run_to_end(&command)?)?;
    match fs::read_dir(&state).map_err(at(&state))?.count() {
        0 => says(&said, "belongs to another user"),
        _ => Err("something was made in it".to_owned()),
    }
}

fn linked_jobs(setup: &Setup) -> Result<String, String> {
    let home = setup.another("linked-jobs")?;
    let elsewhere = setup.folder("elsewhere-jobs", OWNER, 0o700)?;
    symlink(&elsewhere, home.0.home().join("jobs")).map_err(at(home.0.home()))?;
    let said = home.refused(&["run", "--", "true"])?;
    match fs::read_dir(&elsewhere).map_err(at(&elsewhere))?.count() {
        0 => Ok(said.lines().next().unwrap_or_default().to_owned()),
        _ => Err("the link was followed".to_owned()),
    }
}

fn swapped_folder(setup: &Setup) -> Result<String, String> {
    let (one, two) = (setup.folder("one", OWNER, 0o755)?, setup.folder("two", OWNER, 0o755)?);
    let links = setup.folder("links", OWNER, 0o755)?;
    let (link, swapped) = (links.join("link"), links.join("swapped"));
    symlink(&one, &link).map_err(at(&link))?;
    // The job before it goes on until the folder is swapped, however long that takes.
    let script = r#"until test -e "$1"; do sleep 0.01; done"#;
    let gate = swapped.display().to_string();
    let first = setup.home.0.said(&["run", "-d", "--", "sh", "-c", script, "sh", &gate])?;
    let body = body(|body| {
        body["cwd"] = json!(link.display().to_string());
        body["argv"] = json!(["pwd", "-P"]);
        body["name"] = json!("swapped");
        body["after"] = json!([{ "job": first }]);
    });
    says(&submit(setup, &body)?, "202")?;
    fs::remove_file(&link).and_then(|()| symlink(&two, &link)).map_err(at(&link))?;
    fs::write(&swapped, "").map_err(at(&swapped))?;
    setup.home.0.said(&["wait", "swapped"])?;
    let ran = setup.home.0.said(&["logs", "swapped"])?;
    match ran == two.display().to_string() {
        true => Ok("it runs where the path leads when it starts".to_owned()),
        false => Err(format!("it ran in {ran}")),
    }
}

fn sql_in_fields(setup: &Setup) -> Result<String, String> {
    let before = count(setup)?;
    // A variable has at most 128 KiB.
    let long = "x'\";--".repeat(17_000);
    let evil = [
        "'; DROP TABLE jobs; --",
        "\" OR \"\"=\"",
        "Robert'); DELETE FROM events;--",
        "%_\\",
        "$1 ?1 :name",
        "\u{fffd}\u{10ffff}",
    ];
    for text in evil {
        let body = body(|body| {
            body["argv"] = json!(["true", text]);
            body["labels"] = json!({ "evil": text });
            body["env"] = json!({ "EVIL": text, "LONG": long });
            body["cwd"] = json!("/");
            body["name"] = json!("evil");
        });
        says(&submit(setup, &body)?, "202")?;
        setup.home.0.said(&["wait", "evil"])?;
        let job = setup.home.json(&["show", "evil"])?;
        if job["argv"][1] != text || job["labels"]["evil"] != text {
            return Err(format!("{text:?} came back as {}", job["argv"]));
        }
        // A folder that is not there: its name goes into the error.
        let said = setup.home.0.run(&["run", "-C", &format!("/nowhere/{text}"), "--", "true"])?;
        if said.status.success() {
            return Err(format!("it ran in a folder called {text:?}"));
        }
    }
    says(&text(&setup.home.0.run(&["doctor"])?.stdout), "intact: ")?;
    match count(setup)? - before {
        6..=12 => Ok("each comes back as it was; the journal is sound".to_owned()),
        other => Err(format!("{other} jobs were made")),
    }
}

fn sql_in_filters(setup: &Setup) -> Result<String, String> {
    setup.home.0.said(&["run", "--name", "plain", "-l", "k=v", "--", "true"])?;
    let evil =
        ["%", "_____", "plain' OR '1'='1", "pl*", "\"plain\"", "plain\" NEAR x", "'; DROP TABLE jobs; --"];
    for words in evil {
        for flags in [["--name".to_owned(), words.to_owned()], ["--label".to_owned(), format!("k={words}")]] {
            let said = setup.home.0.run(&["ls", "-a", "-q", &flags[0], &flags[1]])?;
            if !text(&said.stdout).is_empty() {
                return Err(format!("{flags:?} finds {}", text(&said.stdout)));
            }
        }
    }
    says(&setup.home.0.said(&["ls", "-a", "-q", "--name", "plain"])?, "job_")?;
    Ok(format!("{} filters find nothing, and the true one finds its job", evil.len() * 2))
}

fn no_text(setup: &Setup) -> Result<String, String> {
    let before = count(setup)?;
    let bodies: [&[u8]; 3] = [
        b"{\"argv\":[\"true\",\"\xff\xfe\"],\"cwd\":\"/\"}",
        b"{\"argv\":[\"true\"],\"cwd\":\"/\xc3\"}",
        b"{\"argv\":[\"true\",\"\\ud800\"],\"cwd\":\"/\"}",
    ];
    for body in bodies {
        let said = setup.post(&setup.home, "/v1/jobs", body)?;
        says(&said, "400 invalid")?;
    }
    let zero = submit(setup, &body(|body| body["argv"] = json!(["true", "a\0b"])))?;
    match (zero.starts_with('4'), count(setup)? == before) {
        (true, true) => Ok(format!("400 invalid; a NUL in an argument: {zero}")),
        found => Err(format!("{found:?}: {zero}")),
    }
}

fn into_log(setup: &Setup) -> Result<String, String> {
    let home = setup.another("log")?;
    home.0.said(&["daemon", "start", "--set", "log_level=trace"])?;
    let evil = "x\n2026-11-15T00:00:00.000000Z  INFO forged\r\u{1b}[31m\u{9b}2J";
    home.0.run(&["run", "--", &format!("./{evil}")])?;
    home.0.run(&["run", "-C", &format!("/{evil}"), "--", "true"])?;
    home.0.run(&["run", "-l", &format!("k={evil}"), "--", "sh", "-c", "exit 1", evil])?;
    home.0.run(&["show", evil])?;
    for path in ["/v1/jobs/x%0a2026-11-15T00:00:00%20INFO%20forged%1b%5b31m", "/v1/%0d%0a%1b[2J"] {
        setup.ask(OWNER, &home, &["GET", path])?;
    }
    let log = home.0.home().join("daemon.log");
    let said = fs::read_to_string(&log).map_err(at(&log))?;
    if let Some(found) = said.chars().find(|c| c.is_control() && *c != '\n') {
        return Err(format!("the log has {found:?}"));
    }
    match said.lines().find(|line| {
        !line.starts_with("20") || line.contains("INFO forged\u{0}") || line.ends_with("INFO forged")
    }) {
        Some(line) => Err(format!("a line of the log is forged: {line}")),
        None => {
            Ok(format!("{} lines, each begins with its time, no control character", said.lines().count()))
        }
    }
}
