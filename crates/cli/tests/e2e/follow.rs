//! `logs`, `events`, `send`, `result`: a job's output, input and events.

use std::io::Read as _;
use std::process::Stdio;

use crate::home::{Home, Running, until};
use crate::plain::plain;

#[test]
fn logs_print_each_stream_to_its_own_stream() {
    let home = Home::new();
    let id = home.start("seq 1 5; seq 11 15 >&2");
    home.ok(&["wait", &id]);
    let output = home.run(&["logs", &id]);
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("1\n2\n3\n4\n5\n", "11\n12\n13\n14\n15\n"));
    let output = home.run(&["logs", &id, "-n", "2", "--stdout"]);
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("4\n5\n", ""));
    let output = home.run(&["logs", &id, "-n", "1", "--stderr"]);
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("", "15\n"));
    assert_eq!(home.run(&["logs", &id, "-n", "0"]).stdout, "");
    let output = home.run(&["logs", &id, "--attempt", "2"]);
    assert!(output.code == 125 && output.stderr.contains("no attempt 2"), "{output:?}");
}

#[test]
fn logs_follow_a_job_to_its_end() {
    let home = Home::new();
    let go = home.path().join("go");
    let id = home.start(&format!("echo one; while [ ! -e {} ]; do sleep 0.01; done; echo two", go.display()));
    let following = home.spawn(&["logs", "-f", &id]);
    home.until_phase(&id, "running");
    std::fs::write(&go, "").unwrap();
    let output = following.end();
    assert_eq!((output.code, output.stdout.as_str()), (0, "one\ntwo\n"), "{output:?}");
    assert_eq!(home.run(&["logs", "-f", &id]).stdout, "one\ntwo\n", "an ended job returns at once");
}

#[test]
fn a_job_that_has_not_started_has_no_logs() {
    let home = Home::new();
    let id = home.ok(&["run", "-d", "--delay", "1h", "true"]);
    let output = home.run(&["logs", &id]);
    assert_eq!((output.code, output.stdout.as_str()), (0, ""));
    assert!(output.stderr.contains("has not been started yet"), "{output:?}");
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let home = Home::new();
    let id = home.start("seq 1 200000");
    home.ok(&["wait", &id]);
    for words in [&["logs", &id][..], &["events"], &["ls", "-a", "--json"]] {
        let mut command = home.command(words);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut first = [0; 1];
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_exact(&mut first).unwrap();
        drop(stdout);
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{words:?}");
        assert!(matches!(output.status.code(), Some(0 | 141)), "{words:?}: {:?}", output.status);
    }
}

#[test]
fn dropped_output_is_reported() {
    let home = Home::empty();
    home.ok(&["config", "set", "output.head", "4K"]);
    home.ok(&["config", "set", "output.tail", "4K"]);
    home.serve();
    let id = home.start("seq 1 100000");
    home.ok(&["wait", &id]);
    let output = home.run(&["logs", &id]);
    assert!(output.stdout.starts_with("1\n2\n") && output.stdout.ends_with("99999\n100000\n"));
    assert!(output.stdout.len() < 200_000, "{} bytes were kept", output.stdout.len());
    assert!(output.stderr.contains("of stdout are not kept"), "{}", output.stderr);
    let shown = home.ok(&["show", &id]);
    assert!(shown.contains("of 575 KiB kept"), "{shown}");
}

#[test]
fn events_prints_the_log_of_one_job_or_of_all() {
    let home = Home::new();
    let id = home.ok(&["run", "-d", "--name", "told", "true"]);
    home.ok(&["wait", &id]);
    insta::assert_snapshot!("events_of_a_job", plain(&home, &home.ok(&["events", &id])));
    home.ok(&["run", "true"]);
    let all = home.ok(&["events", "--json"]);
    let events: Vec<serde_json::Value> =
        all.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last_words = events.iter().filter(|event| event["type"] == "last_word").count();
    assert_eq!(last_words, 2);
    let of_one: Vec<u64> = events
        .iter()
        .filter(|event| event["job"] == id)
        .map(|event| event["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(of_one, (1..=of_one.len() as u64).collect::<Vec<_>>(), "every event once, in order");
    let after = home.ok(&["events", &id, "--after", &(of_one.len() - 1).to_string(), "--json"]);
    assert_eq!(after.lines().count(), 1);
}

#[test]
fn events_follows_one_job_to_its_end_and_all_jobs_forever() {
    let home = Home::new();
    let id = home.start("sleep 0.2");
    let output = home.run(&["events", "-f", "--json", &id]);
    assert_eq!(output.code, 0, "{output:?}");
    let last: serde_json::Value = serde_json::from_str(output.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(last["type"], "last_word");
    let following = home.spawn(&["events", "-f", "--json"]);
    // Starts now: earlier events are not printed.
    crate::home::until("it printed an event", || {
        let next = home.start("true");
        home.ok(&["wait", &next]);
        let heard = following.printed();
        heard.contains(&next).then(|| assert!(!heard.contains(&id), "{heard}"))
    });
}

#[test]
fn a_message_is_delivered_once() {
    let home = Home::new();
    let id = home.ok(&["run", "-d", "-i", "cat"]);
    let output = home.run(&["send", &id, "one", "two"]);
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.stderr.contains("message 1"), "{output:?}");
    assert_eq!(home.json(&["send", &id, "three", "--raw"])["input"], 2);
    let mut command = home.command(&["send", &id]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b" four\n").unwrap();
    assert!(child.wait().unwrap().success());
    home.ok(&["send", &id, "--eof"]);
    assert_eq!(home.run(&["wait", &id]).code, 0);
    assert_eq!(home.ok(&["logs", &id]), "one two\nthree four");
    let output = home.run(&["send", &id, "late"]);
    assert!(output.code == 125 && output.stderr.contains("ended"), "{output:?}");
}

#[test]
fn a_result_is_the_last_output_and_how_the_job_ended() {
    let home = Home::new();
    let id = home.start("echo the answer; exit 3");
    home.run(&["wait", &id]);
    let output = home.run(&["result", &id]);
    assert_eq!((output.code, output.stdout.as_str()), (0, "the answer\n"));
    assert!(output.stderr.contains("failed, exit 3"), "{output:?}");
    let result = home.json(&["result", &id]);
    assert_eq!((&result["text"], &result["exit"]["code"]), (&"the answer\n".into(), &3.into()));
    let running = home.start("sleep 100");
    let output = home.run(&["result", &running]);
    assert_eq!(output.code, 125, "{output:?}");
    assert!(output.stderr.contains("lastword wait"), "it suggests what to do: {output:?}");
}

#[test]
fn events_are_filtered_by_type_group_and_label() {
    let home = Home::new();
    let left = home.ok(&["run", "-d", "--group", "left", "--label", "colour=red", "true"]);
    let right = home.ok(&["run", "-d", "--group", "right", "--label", "colour=red", "true"]);
    home.ok(&["wait", &left, &right]);
    let of = |words: &[&str]| -> Vec<(String, String)> {
        let text = home.ok(&[&["--json", "events"], words].concat());
        let text_of = |event: &serde_json::Value, name: &str| event[name].as_str().unwrap().to_owned();
        let events = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        events.map(|event| (text_of(&event, "job"), text_of(&event, "type"))).collect()
    };
    let pair = |job: &str, kind: &str| (job.to_owned(), kind.to_owned());
    assert_eq!(
        of(&["--group", "left", "--type", "submitted,last_word"]),
        [pair(&left, "submitted"), pair(&left, "last_word")]
    );
    assert_eq!(of(&["--label", "colour=red", "--type", "submitted"]).len(), 2);
    assert_eq!(of(&[&right, "--type", "last_word"]), [pair(&right, "last_word")]);
    assert_eq!(of(&["--label", "colour=blue"]), []);
    let refused = home.run(&["events", "--type", "tea"]);
    assert!(refused.code == 2 && refused.stderr.contains("last_word"), "{refused:?}");
    let following =
        home.spawn(&["events", "-f", "--json", "--type", "last_word", "--group", "right", "--after", "0"]);
    following.until_printed(&right);
    assert!(!following.printed().contains(&left), "{}", following.printed());
}

/// Starts every command that follows a job, waits until each is in the middle of it, and returns them with their names.
/// Reports whether the daemon has a connection of a process: it has a handle of the process as well.
fn is_connected(home: &Home, client: impl std::fmt::Display) -> bool {
    let handles = std::fs::read_dir(format!("/proc/{}/fdinfo", home.daemon_pid())).unwrap();
    let told = handles.flatten().filter_map(|handle| std::fs::read_to_string(handle.path()).ok());
    told.into_iter().any(|told| told.lines().any(|line| line == format!("Pid:\t{client}")))
}

fn followers(home: &Home, id: &str) -> Vec<(&'static str, Running)> {
    let followers = [
        ("events -f", home.spawn(&["events", "-f", id])),
        ("logs -f", home.spawn(&["logs", "-f", id])),
        ("attach", home.spawn(&["attach", id])),
        ("wait", home.spawn(&["wait", id])),
    ];
    for (name, follower) in &followers {
        match *name {
            "events -f" => follower.until_printed("launched"),
            // It prints nothing before its end, and must not start the next daemon.
            "wait" => until("`wait` is connected", || is_connected(home, follower.pid()).then_some(())),
            _ => follower.until_printed("one"),
        }
    }
    followers.into()
}

#[test]
fn followers_are_told_once_that_the_daemon_stops() {
    let home = Home::new();
    let go = home.path().join("go");
    let id = home.start(&format!("echo one; while [ ! -e {} ]; do sleep 0.01; done; echo two", go.display()));
    let line = "lastword: the daemon stops; jobs keep running, and the next daemon takes them over\n";
    let following = followers(&home, &id);
    let mut restarts = 0;
    // More than one restart if a follower was not connected again, or not yet.
    until("all were told", || {
        home.restart(&[]);
        restarts += 1;
        following.iter().all(|(_, follower)| follower.said().contains(line)).then_some(())
    });
    std::fs::write(&go, "").unwrap();
    for (name, follower) in following {
        let output = follower.end();
        assert_eq!(output.code, 0, "{name}: {output:?}");
        assert!(output.stderr.matches(line).count() <= restarts, "{name}, {restarts} restarts: {output:?}");
        // A server that was just started may not have its worker yet, and says where the output is.
        let rest = output.stderr.replace(line, "");
        let rest = rest.lines().filter(|line| !line.contains(" is on the host of worker "));
        assert_eq!(rest.count(), 0, "{name}: {output:?}");
    }
}

#[test]
fn a_follower_whose_daemon_is_stopped_says_what_goes_on() {
    let home = Home::new();
    let id = home.start("echo one; exec sleep 1000");
    let following = followers(&home, &id);
    home.ok(&["daemon", "stop"]);
    for (name, follower) in following {
        let output = follower.end();
        assert_eq!(output.code, 125, "{name}: {output:?}");
        assert!(output.stderr.contains("jobs keep running without it"), "{name}: {output:?}");
        assert!(output.stderr.contains(&format!("{}    # then", home.starter())), "{name}: {output:?}");
    }
    home.restart(&[]);
}

#[test]
fn a_feed_is_told_that_the_daemon_stops_and_its_jobs_were_cancelled() {
    let home = Home::new();
    home.start("exec sleep 1000");
    let feed = home.spawn(&["events", "-f", "--after", "0"]);
    feed.until_printed("launched");
    home.ok(&["daemon", "stop", "--cancel-jobs"]);
    feed.until_said("lastword: the daemon stops; its jobs were cancelled\n");
}
