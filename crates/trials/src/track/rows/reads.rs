//! Reads and waits: what a caller learns when an agent, a keeper or the daemon is gone.

use std::fs;
use std::time::{Duration, Instant};

use crate::track::home::{Home, is_alive, is_gone_soon, signal, until};
use crate::track::row::{Seen, held_if, rows};

rows! {
    "002-01" CODEX_PLUGIN_184 From010 Nothing [56]
        "The worker dies in mid-turn, and the turn is awaited for ever."
        => "The agent is killed in mid-turn: `wait` returns at once.",
        agent_dies;
    "002-02" CODEX_PLUGIN_184 After010 Nothing [56]
        "The turn of a dead worker ends without the error with which it exited."
        => "The error names the exit code of the agent or its last words.",
        exit_error_is_recorded;
    "002-03" CODEX_PLUGIN_184 From010 Nothing [56]
        "The progress log says nothing of the failure."
        => "The log has one end of the turn, one of the attempt and one of the job.",
        failure_is_in_the_log;
    "002-04" CODEX_PLUGIN_184 From010 Nothing [57]
        "Some callers that wait for a dead worker are never released."
        => "`wait`, `logs -f`, `events -f` and `attach` return when the agent is killed.",
        waiters_of_a_dead_agent;
    "002-11" CODEX_PLUGIN_184 From010 Nothing [60]
        "A broker that exits leaves its socket and pid file."
        => "No socket is left when the daemon has stopped.",
        socket_is_removed;
    "002-12" CODEX_PLUGIN_184 From010 Nothing [60]
        "A dead endpoint is used again and again."
        => "The daemon is killed: the next command finds that out and starts another.",
        dead_daemon_is_replaced;
    "002-13" CODEX_PLUGIN_184 After010 Nothing [60]
        "An endpoint that accepts and stays silent is taken for alive."
        => "The daemon is frozen: `cancel` replaces it, and the job is stopped.",
        frozen_daemon_is_replaced;
    "002-14" CODEX_PLUGIN_184 From010 Nothing [64]
        "A check whether a job is alive changes the job."
        => "`show`, `ls` and `wait` leave the log of a running job as it is.",
        reads_change_nothing;
    "002-15" CODEX_PLUGIN_184 From010 Nothing [64]
        "Reconciliation rewrites jobs that have ended."
        => "The log of an ended job is the same after the daemon was killed and replaced.",
        ended_jobs_are_left_alone;
    "002-17" CODEX_PLUGIN_184 From010 Nothing [61]
        "Status reports a job as running long after its worker died."
        => "Job, keepers and daemon are killed: the first `show` says that the job has ended.",
        |home| first_read(home, &["show", "old", "--json"]);
    "002-18" CODEX_PLUGIN_184 From010 Nothing [61]
        "The list reports a job as running long after its worker died."
        => "Job, keepers and daemon are killed: the first `ls` says that the job has ended.",
        |home| first_read(home, &["ls", "-a", "--json"]);
    "002-19" CODEX_PLUGIN_184 From010 Nothing [61, 63]
        "A wait for a dead worker lasts until its own timeout."
        => "Job, keepers and daemon are killed: the first `wait` returns.",
        |home| first_read(home, &["wait", "old", "--json"]);
    "002-20" CODEX_PLUGIN_184 After010 Nothing [62]
        "A job that has just died is in no list, because lists are sorted before deaths are noticed."
        => "An old job dies: it is among the first in the list of jobs.",
        newly_dead_job_is_listed;
    "002-21" CODEX_PLUGIN_184 From010 Nothing [32]
        "A dead worker leaves a job without a reason and a time of its end."
        => "The job is lost, with its reason and its time.",
        lost_with_a_reason;
    "002-22" CODEX_PLUGIN_184 From010 Nothing [60]
        "A cancel fails because the broker refuses the connection."
        => "The daemon is killed: `cancel` starts another and stops the job.",
        cancel_without_a_daemon;
    "002-23" CODEX_PLUGIN_184 From010 Nothing [65]
        "Only wiping the job store by hand makes the tool usable again."
        => "Every process of three jobs and the daemon is killed: each job gets its ending, and the next job runs.",
        nothing_is_wiped;
    "002-30" CODEX_PLUGIN_184 From010 Nothing [37, 61]
        "A job that finishes while nothing looks is never reported."
        => "It finishes while no daemon runs: `wait` and `result` have its exit and its output later.",
        finished_unobserved;
    "B6" ours After010 Nothing [62]
        "An old job that just died is in no list: `ls` sorts by submission only."
        => "It is among the first in the list of jobs.",
        newly_dead_job_is_listed;
    "B12" ours After010 Nothing [60]
        "A frozen daemon makes every command give up after 70 seconds."
        => "It is replaced, and the command is carried out.",
        frozen_daemon_is_replaced;
}

fn agent_dies(home: &Home) -> Seen {
    let job = home.start_agent("", "crash")?;
    let begin = Instant::now();
    let ran = home.run(&["wait", "--timeout", "20s", &job])?;
    let shown = home.show(&job)?;
    let is_held = ran.code == 1 && shown["outcome"] == "failed" && shown["session"]["active_turn"].is_null();
    held_if(is_held, format!("wait exits with {} after {:.1} s", ran.code, begin.elapsed().as_secs_f64()))
}

fn exit_error_is_recorded(home: &Home) -> Seen {
    let job = home.start_agent("", "die")?;
    let shown = home.ended(&job)?;
    let error = shown["session"]["turns"][0]["error"].to_string();
    held_if(error.contains("17") || error.contains("401"), format!("the turn's error: {error}"))
}

fn failure_is_in_the_log(home: &Home) -> Seen {
    let job = home.start_agent("", "crash")?;
    home.ended(&job)?;
    let kinds = ["turn_ended", "attempt_ended", "last_word"];
    let counts: Result<Vec<usize>, String> = kinds.iter().map(|kind| home.count(&job, kind)).collect();
    let counts = counts?;
    held_if(counts == [1, 1, 1], format!("{kinds:?}: {counts:?}"))
}

fn waiters_of_a_dead_agent(home: &Home) -> Seen {
    let job = home.start_agent("", "silent")?;
    let leader = home.leader(&job)?;
    home.event(&job, "turn_started")?;
    let lines = ["wait", "logs -f", "events -f", "attach"];
    let mut followers = Vec::new();
    for line in lines {
        followers.push(home.follow(&line.split(' ').chain([job.as_str()]).collect::<Vec<_>>())?);
    }
    until("they follow", || followers[1..].iter().all(|one| !one.printed().is_empty()).then_some(()))?;
    signal(leader, libc::SIGKILL);
    let ends: Vec<Option<i32>> = followers.iter_mut().map(|follower| follower.ends()).collect();
    held_if(ends.iter().all(Option::is_some), format!("{lines:?} exit with {ends:?}"))
}

fn socket_is_removed(home: &Home) -> Seen {
    home.ok(&["run", "--", "true"])?;
    let socket = home.state().join("lastword.sock");
    let was = socket.exists();
    home.ok(&["daemon", "stop"])?;
    held_if(was && !socket.exists(), format!("socket before: {was}, after: {}", socket.exists()))
}

pub(super) fn dead_daemon_is_replaced(home: &Home) -> Seen {
    home.ok(&["run", "--", "true"])?;
    home.kill_daemon()?;
    let ran = home.run(&["ls", "-a"])?;
    held_if(ran.code == 0, format!("`ls` exits with {}", ran.code))
}

fn frozen_daemon_is_replaced(home: &Home) -> Seen {
    let job = home.start("", "sleep 1000")?;
    let (leader, daemon) = (home.leader(&job)?, home.daemon()?);
    signal(daemon, libc::SIGSTOP);
    let begin = Instant::now();
    let ran = home.run(&["cancel", &job])?;
    let (took, is_gone) = (begin.elapsed().as_secs(), !is_alive(leader));
    held_if(ran.code == 0 && is_gone, format!("exit {} after {took} s; the job is gone: {is_gone}", ran.code))
}

fn reads_change_nothing(home: &Home) -> Seen {
    let job = home.start("", "sleep 1000")?;
    let leader = home.leader(&job)?;
    let before = home.events(&job)?;
    for words in [&["show", &job][..], &["ls"], &["wait", "--timeout", "100ms", &job]] {
        home.run(words)?;
    }
    let is_same = home.events(&job)? == before;
    held_if(is_same && is_alive(leader), format!("{} events before and after: {is_same}", before.len()))
}

fn ended_jobs_are_left_alone(home: &Home) -> Seen {
    let job = home.start("", "exit 3")?;
    home.ended(&job)?;
    let before = (home.show(&job)?["version"].clone(), home.events(&job)?);
    home.kill_daemon()?;
    let after = (home.show(&job)?["version"].clone(), home.events(&job)?);
    held_if(before == after, format!("version {} and {}", before.0, after.0))
}

/// Kills a job with its keepers and the daemon, and returns its id.
pub(super) fn all_killed(home: &Home) -> Result<String, String> {
    let job = home.start("--name old", "exec sleep 1000")?;
    let leader = home.leader(&job)?;
    home.kill_daemon()?;
    home.lose(leader)?;
    Ok(job)
}

fn first_read(home: &Home, words: &[&str]) -> Seen {
    all_killed(home)?;
    let begin = Instant::now();
    let out = home.run(words)?.out;
    let is_fast = begin.elapsed() < Duration::from_secs(10);
    let is_held = out.contains("\"lost\"") && !out.contains("\"running\"") && is_fast;
    held_if(is_held, format!("{} ms: {}", begin.elapsed().as_millis(), out.trim()))
}

fn newly_dead_job_is_listed(home: &Home) -> Seen {
    let old = home.start("--name old", "exec sleep 1000")?;
    let leader = home.leader(&old)?;
    home.shell("for i in 1 2 3 4 5 6 7 8 9 10 11 12; do $LASTWORD run -- true; done")?;
    home.lose(leader)?;
    home.ended(&old)?;
    let listed = home.ok(&["ls", "-a", "-n", "8", "-q"])?;
    held_if(
        listed.contains(&old),
        format!("{} jobs listed, with the dead one: {}", listed.lines().count(), listed.contains(&old)),
    )
}

fn lost_with_a_reason(home: &Home) -> Seen {
    let job = all_killed(home)?;
    let shown = home.ended_soon(&job)?;
    let is_held = shown["outcome"] == "lost" && !shown["cause"].is_null() && shown["ended_at"].is_string();
    held_if(is_held, format!("{} {} at {}", shown["outcome"], shown["cause"], shown["ended_at"]))
}

pub(super) fn cancel_without_a_daemon(home: &Home) -> Seen {
    let job = home.start("", "sleep 1000")?;
    let leader = home.leader(&job)?;
    home.kill_daemon()?;
    let ran = home.run(&["cancel", &job])?;
    held_if(ran.code == 0 && !is_alive(leader), format!("exit {}", ran.code))
}

fn nothing_is_wiped(home: &Home) -> Seen {
    let mut jobs = Vec::new();
    for _ in 0..3 {
        let job = home.start("", "exec sleep 1000")?;
        jobs.push((home.leader(&job)?, job));
    }
    home.kill_daemon()?;
    for (leader, _) in &jobs {
        home.lose(*leader)?;
    }
    let next = home.run(&["run", "--", "echo", "again"])?;
    let mut outcomes = Vec::new();
    for (_, job) in &jobs {
        outcomes.push(home.ended_soon(job)?["outcome"].to_string());
    }
    let is_held = next.out == "again\n" && outcomes.iter().all(|outcome| outcome == "\"lost\"");
    held_if(is_held, format!("{outcomes:?}; the next job prints {:?}", next.out))
}

fn finished_unobserved(home: &Home) -> Seen {
    let job = home.start("", "while [ ! -e $PLACE/go ]; do sleep 0.01; done; echo done; exit 4")?;
    let leader = home.leader(&job)?;
    home.ok(&["daemon", "stop"])?;
    fs::write(home.work("go"), "").map_err(|error| error.to_string())?;
    if !is_gone_soon(leader) {
        return Err("the job does not exit".to_owned());
    }
    let waited = home.run(&["wait", &job])?;
    let (exit, result) =
        (home.show(&job)?["attempts"][0]["exit"]["code"].clone(), home.ok(&["result", &job])?);
    held_if(waited.code == 1 && exit == 4 && result == "done", format!("exit {exit}, result {result:?}"))
}
