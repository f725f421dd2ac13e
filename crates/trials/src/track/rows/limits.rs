//! Limits: a decision that was stored stays, whatever restarts or changes afterwards.

use std::time::Duration;

use serde_json::Value;

use crate::track::home::{Home, is_alive, within};
use crate::track::row::{Seen, held_if, rows};

rows! {
    "001-01" OUROBOROS_1207 From010 Nothing [46]
        "After a restart the watchdog records its decision a second time."
        => "The daemon is killed when the limit has fired: the decision is in the log once.",
        one_decision;
    "001-02" OUROBOROS_1207 From010 Nothing [46]
        "A crash between the decision and the new state lets the work go on."
        => "The daemon is killed when the limit has fired: the job still ends as timed out.",
        decision_survives_a_crash;
    "001-03" OUROBOROS_1207 From010 Nothing [47]
        "Raising the budget after a restart undoes the decision."
        => "Raised after it fired, the limit still ends the job.",
        |home| changed_afterwards(home, "wall=10000s");
    "001-04" OUROBOROS_1207 From010 Nothing [47]
        "Switching the watchdog off after a restart undoes the decision."
        => "Switched off after it fired, the limit still ends the job.",
        |home| changed_afterwards(home, "wall=0");
    "001-05" OUROBOROS_1207 From010 Nothing [48]
        "After a restart the decision is made again, from new measurements."
        => "Time, measurement and limit of the decision are the same before and after a crash.",
        decision_is_read_back;
    "001-06" OUROBOROS_1207 From010 Nothing [48]
        "A stored decision that cannot be read in full is ignored."
        => "The stored decision loses its measurement and its limit: the next daemon still ends the job as timed out.",
        |home| malformed(home, "body = json_remove(body, '$.measured', '$.allowed')");
    "001-07" OUROBOROS_1207 From010 Nothing [46]
        "A second look in the same process records the decision again."
        => "A job that ignores TERM long after its limit has the decision in its log once.",
        looked_at_twice;
    "001-09" OUROBOROS_1207 From010 Nothing [51]
        "The decision about one session blocks another."
        => "The job beside the one that is out of time runs to its end.",
        other_job_is_left_alone;
    "001-10" OUROBOROS_1207 From010 Nothing [28, 46]
        "Present settings are looked at before what was stored."
        => "After the limit fired, a raised limit and a cancel change nothing: the job has timed out.",
        stored_decision_comes_first;
    "001-18" OUROBOROS_1207 From010 Nothing [48, 52]
        "The operator cannot see which limit fired, when, and by how much."
        => "The log names the limit, its time, the measurement and the limit of that moment.",
        decision_is_shown;
    "001-19" OUROBOROS_1207 From010 Nothing [48]
        "A decision with a malformed time breaks the replay."
        => "The stored decision gets the time 1970-01-01: the next daemon still ends the job as timed out.",
        |home| malformed(home, "at = 0");
    "A11-limits" ours After010 Nothing []
        "Every change of a job's limits takes longer than the one before."
        => "A change after 1000 others takes at most twice as long as one of the first.",
        many_changes;
    "002-07" CODEX_PLUGIN_184 From010 Nothing [49]
        "A task hangs, no timeout ends it, and the caller is blocked."
        => "A job that ignores everything is ended by its time limit, says so, and its caller gets exit code 124.",
        timeout_releases_the_caller;
    "002-24" CODEX_PLUGIN_184 From010 Nothing [52]
        "No progress for nine minutes, and nothing notices."
        => "A job that prints nothing for its stall limit is stopped, and the record says that it stalled.",
        silence_is_noticed;
    "002-24-seen" CODEX_PLUGIN_184 After010 Nothing [52]
        "No progress for nine minutes, and no list says so."
        => "A running job that prints nothing has the moment of its last output in lists and when it is shown.",
        silence_is_shown;
    "002-25" CODEX_PLUGIN_184 From010 Nothing [66]
        "With one guard gone, nothing stops the work."
        => "The daemon is killed and none is started: the keeper enforces the time limit.",
        limit_without_a_daemon;
}

/// Starts a job that outlives its limit of 300 ms by its grace period, and waits until the limit has fired.
fn fired(home: &Home) -> Result<(String, Value), String> {
    let job = home.start("--wall 300ms --grace 2s", super::cancel::DEAF)?;
    let decision = home.event(&job, "limit_fired")?;
    Ok((job, decision))
}

fn one_decision(home: &Home) -> Seen {
    let (job, _) = fired(home)?;
    home.kill_daemon()?;
    home.ended(&job)?;
    let count = home.count(&job, "limit_fired")?;
    held_if(count == 1, format!("{count} decisions in the log"))
}

fn decision_survives_a_crash(home: &Home) -> Seen {
    let (job, _) = fired(home)?;
    home.kill_daemon()?;
    let shown = home.ended_soon(&job)?;
    held_if(shown["outcome"] == "timed_out", format!("{} {}", shown["phase"], shown["outcome"]))
}

fn changed_afterwards(home: &Home, change: &str) -> Seen {
    let (job, _) = fired(home)?;
    home.kill_daemon()?;
    let changed = home.run(&["limit", &job, change])?;
    let shown = home.ended_soon(&job)?;
    let evidence = format!("`limit {change}` exits with {}; {}", changed.code, shown["outcome"]);
    held_if(shown["outcome"] == "timed_out", evidence)
}

fn decision_is_read_back(home: &Home) -> Seen {
    let (job, before) = fired(home)?;
    home.kill_daemon()?;
    let after = home.event(&job, "limit_fired")?;
    held_if(before == after, format!("{} and {}", before["text"], after["text"]))
}

/// Changes the stored decision while no daemon runs.
fn malformed(home: &Home, change: &str) -> Seen {
    let (job, _) = fired(home)?;
    home.kill_daemon()?;
    let script = format!(
        "import sqlite3, sys\n\
         journal = sqlite3.connect(sys.argv[1], timeout=30)\n\
         changed = journal.execute(\"update events set {change} where kind = 'limit_fired'\").rowcount\n\
         journal.commit()\n\
         sys.exit(changed != 1)"
    );
    let mut command = home.command("python3");
    let output = command.args(["-c", &script]).arg(home.state().join("journal.db")).output();
    let output = output.map_err(|error| format!("python3: {error}"))?;
    if !output.status.success() {
        return Err(format!("the journal: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let shown = home.ended_soon(&job)?;
    let decision = home.event(&job, "limit_fired")?;
    let evidence = format!("{}; {} {}", shown["outcome"], decision["time"], decision["text"]);
    held_if(shown["outcome"] == "timed_out", evidence)
}

fn looked_at_twice(home: &Home) -> Seen {
    let (job, _) = fired(home)?;
    home.ended(&job)?;
    let count = home.count(&job, "limit_fired")?;
    held_if(count == 1, format!("{count} decisions in the log after 2 s beyond the limit"))
}

fn other_job_is_left_alone(home: &Home) -> Seen {
    let other = home.start("--wall 100s", "while [ ! -e $PLACE/go ]; do sleep 0.02; done")?;
    let (job, _) = fired(home)?;
    home.ended(&job)?;
    std::fs::write(home.work("go"), "").map_err(|error| error.to_string())?;
    let shown = home.ended_soon(&other)?;
    held_if(shown["outcome"] == "completed", format!("the other job: {}", shown["outcome"]))
}

fn stored_decision_comes_first(home: &Home) -> Seen {
    let (job, _) = fired(home)?;
    home.run(&["limit", &job, "wall=1h"])?;
    home.run(&["cancel", "--no-wait", &job])?;
    let shown = home.ended_soon(&job)?;
    held_if(shown["outcome"] == "timed_out", format!("{} by {}", shown["outcome"], shown["cause"]))
}

fn decision_is_shown(home: &Home) -> Seen {
    let (_, decision) = fired(home)?;
    let text = decision["text"].as_str().unwrap_or_default();
    let is_held = text.contains("wall") && text.contains("300") && decision["time"].is_string();
    held_if(is_held, format!("{} {text}", decision["time"]))
}

/// Changes the limit of a job 1000 times, and prints what one of the first and one of the last takes, in microseconds.
const CHANGES: &str = r#"
import http.client, json, os, socket, sys, time
connection = http.client.HTTPConnection("x", timeout=60)
def connect():
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(os.environ["LASTWORD_HOME"] + "/lastword.sock")
connection.connect = connect
def change(value):
    body = json.dumps({"wall_ms": 600000 + value})
    connection.request("PATCH", f"/v1/jobs/{sys.argv[1]}/limits", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    assert answer.status == 200, answer.status
times = []
for value in range(1000):
    began = time.time()
    change(value)
    times.append(time.time() - began)
# The fastest of a hundred: the machine may have other work.
print(int(min(times[:100]) * 1000000), int(min(times[-100:]) * 1000000))
"#;

fn many_changes(home: &Home) -> Seen {
    let job = home.start("", "sleep 1000")?;
    home.leader(&job)?;
    let mut command = home.command("python3");
    let output = command.args(["-c", CHANGES, &job]).output().map_err(|error| format!("python3: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let times: Vec<u64> = said.split(' ').filter_map(|time| time.parse().ok()).collect();
    match times[..] {
        [first, last] => held_if(last <= 2 * first, format!("a change takes {first} µs, later {last} µs")),
        _ => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

fn timeout_releases_the_caller(home: &Home) -> Seen {
    let words = ["run", "--wall", "300ms", "--grace", "300ms", "--name", "hung", "--", "sh", "-c"];
    let ran = home.run(&[&words[..], &[super::cancel::DEAF]].concat())?;
    let shown = home.show("hung")?;
    let is_held = ran.code == 124 && shown["outcome"] == "timed_out" && ran.err.contains("time");
    held_if(is_held, format!("exit {}: {}", ran.code, ran.printed()))
}

fn silence_is_noticed(home: &Home) -> Seen {
    let job = home.start("--stall 500ms --grace 300ms", "sleep 1000")?;
    let shown = home.ended_soon(&job)?;
    held_if(shown["cause"] == "limit_stall", format!("{} {}", shown["outcome"], shown["cause"]))
}

fn silence_is_shown(home: &Home) -> Seen {
    let job = home.start("", "echo once; exec sleep 1000")?;
    home.leader(&job)?;
    let (shown, listed) = (home.show(&job)?, home.json(&["ls"])?);
    let (shown, listed) = (&shown["silent_since"], &listed["items"][0]["silent_since"]);
    held_if(shown.is_string() && shown == listed, format!("shown: {shown}; listed: {listed}"))
}

fn limit_without_a_daemon(home: &Home) -> Seen {
    let job = home.start("--wall 2s --grace 300ms", super::cancel::DEAF)?;
    let leader = home.leader(&job)?;
    home.kill_daemon()?;
    let is_gone = within(Duration::from_secs(20), || (!is_alive(leader)).then_some(())).is_some();
    let shown = home.ended_soon(&job)?;
    held_if(is_gone && shown["outcome"] == "timed_out", format!("gone: {is_gone}; {}", shown["outcome"]))
}
