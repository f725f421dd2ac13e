//! The ending: one for each job, in every view, and true to what the work achieved.

use std::time::Duration;

use serde_json::Value;

use crate::track::home::{Home, is_alive, is_gone_soon, until, within};
use crate::track::row::{Seen, held_if, rows};

rows! {
    "000-05" OUROBOROS_464 From010 Nothing [26]
        "The job is cancelled, and its session stays open."
        => "Job, session and turn are cancelled.",
        session_ends_with_its_job;
    "000-06" OUROBOROS_464 From010 Nothing [23, 30]
        "Several places of the code write the ending, and contradict one another."
        => "`show`, `ls`, `wait` and the log of 8 raced jobs agree on one ending.",
        views_agree;
    "000-13" OUROBOROS_464 After010 Nothing [84]
        "The work has succeeded and its wrapper still finishes; a cancel turns the job into a cancelled one."
        => "The command exited with 0 and left a process; the cancel ends that process, and the job is completed.",
        cancel_after_success;
    "000-15" OUROBOROS_464 From010 Nothing [29]
        "An ending without a beginning is in the log, which cannot be replayed."
        => "The log of a job that was cancelled in the queue begins with its submission, ends with one ending, and is read again from any place.",
        log_is_whole;
    "000-17" OUROBOROS_464 From010 Nothing [14]
        "The session has ended, the job still runs, and a cancel does nothing."
        => "An agent that stays after its last turn is gone after the cancel.",
        cancel_of_a_lingering_agent;
    "000-18" OUROBOROS_464 After010 Nothing [84]
        "A session that completed gets `cancelled` as its ending."
        => "The agent completed its turn and stays; a cancel ends it, and the job is completed.",
        completed_turn_stays;
    "000-20" OUROBOROS_464 After010 Nothing [27, 84]
        "The caller is told something else than what was stored of the work."
        => "The command exited with 0; a time limit cuts off what it left; `run` exits with 0.",
        caller_is_told_the_result;
    "000-21" OUROBOROS_464 From010 Nothing [26]
        "A crash between two writes leaves a session that has ended and a job that has not."
        => "The daemon is killed during the cancel of an agent: afterwards job, attempt, session and turn have all ended.",
        crash_while_ending;
    "000-24" OUROBOROS_464 From010 Nothing [28]
        "A shutdown, a timeout and a crash are recorded as a user's cancel."
        => "Each has its own cause.",
        causes_are_told_apart;
    "002-08" CODEX_PLUGIN_184 After010 Nothing [54, 84]
        "A job that finished in time is reported as timed out."
        => "The agent completed its turn and stays beyond its time limit: the job is completed.",
        finished_in_time;
    "B2" ours After010 Nothing [84]
        "Finished work is rewritten: a limit turns a command that exited with 0 into one that timed out."
        => "It is completed.",
        limit_after_success;
}

/// Exits with 0 and leaves a process that ignores TERM.
const LEAVES_A_PROCESS: &str = "setsid sh -c 'trap \"\" TERM; echo $$ > $PLACE/left; while :; do sleep 0.05; done' & \
     while [ ! -s $PLACE/left ]; do sleep 0.01; done; exit 0";

fn session_ends_with_its_job(home: &Home) -> Seen {
    let job = home.start_agent("--grace 1s", "hang")?;
    home.event(&job, "turn_started")?;
    home.run(&["cancel", &job])?;
    let shown = home.ended(&job)?;
    let (state, turn) = (&shown["session"]["state"], &shown["session"]["turns"][0]["ending"]);
    let is_held = shown["outcome"] == "cancelled" && state == "stopped" && turn == "cancelled";
    held_if(is_held, format!("job {}, session {state}, turn {turn}", shown["outcome"]))
}

fn views_agree(home: &Home) -> Seen {
    for _ in 0..8 {
        let job = home.start("--grace 1s", "sleep 0.05; exit 0")?;
        home.run(&["cancel", "--no-wait", &job])?;
        let shown = home.ended(&job)?;
        let outcome = shown["outcome"].clone();
        let waited = home.run(&["wait", &job])?.code;
        let listed = home.json(&["ls", "-a", "-n", "1"])?["items"][0]["outcome"].clone();
        let words: Vec<Value> = home.events(&job)?;
        let words: Vec<&Value> = words.iter().filter(|event| event["type"] == "last_word").collect();
        let is_same = words.len() == 1 && words[0]["data"]["outcome"] == outcome && listed == outcome;
        if !is_same || waited != if outcome == "completed" { 0 } else { 3 } {
            return held_if(false, format!("show {outcome}, ls {listed}, wait {waited}, log {words:?}"));
        }
    }
    held_if(true, "8 of 8 agree")
}

/// Starts a job whose work is done while a process of it is left.
fn done_with_a_process_left(home: &Home, flags: &str) -> Result<(String, i32), String> {
    let job = home.start(flags, LEAVES_A_PROCESS)?;
    let left = home.pid_in("left")?;
    let leader = home.leader(&job)?;
    until("the command has exited", || (!is_alive(leader)).then_some(()))?;
    Ok((job, left))
}

fn cancel_after_success(home: &Home) -> Seen {
    let (job, left) = done_with_a_process_left(home, "--grace 3s")?;
    home.run(&["cancel", "--force", &job])?;
    let shown = home.ended(&job)?;
    let exit = shown["attempts"][0]["exit"]["code"].clone();
    let is_held = shown["outcome"] == "completed" && !is_alive(left);
    held_if(is_held, format!("exit {exit}, outcome {}", shown["outcome"]))
}

fn limit_after_success(home: &Home) -> Seen {
    let (job, left) = done_with_a_process_left(home, "--grace 4s --wall 2s")?;
    let shown = home.ended(&job)?;
    let is_held = shown["outcome"] == "completed" && !is_alive(left);
    held_if(is_held, format!("exit {}, {}", shown["attempts"][0]["exit"]["code"], shown["outcome"]))
}

fn caller_is_told_the_result(home: &Home) -> Seen {
    let ran = home.run(&["run", "--wall", "2s", "--grace", "4s", "--", "sh", "-c", LEAVES_A_PROCESS])?;
    held_if(ran.code == 0, format!("`run` exits with {}", ran.code))
}

fn log_is_whole(home: &Home) -> Seen {
    let job = home.start("--delay 1h", "exit 0")?;
    home.run(&["cancel", &job])?;
    let log = home.events(&job)?;
    let kinds: Vec<&str> = log.iter().filter_map(|event| event["type"].as_str()).collect();
    let tail = home.ok(&["events", &job, "--after", "1", "--json"])?;
    let is_held = kinds.first() == Some(&"submitted")
        && kinds.last() == Some(&"last_word")
        && kinds.iter().filter(|kind| **kind == "last_word").count() == 1
        && !kinds.contains(&"attempt_ended")
        && tail.lines().count() == log.len() - 1;
    held_if(is_held, kinds.join(", "))
}

/// Starts an agent that completes its turn and stays.
fn lingering(home: &Home, flags: &str) -> Result<(String, i32), String> {
    let job = home.start_agent(flags, "linger")?;
    let leader = home.leader(&job)?;
    home.event(&job, "turn_ended")?;
    Ok((job, leader))
}

fn cancel_of_a_lingering_agent(home: &Home) -> Seen {
    let (job, leader) = lingering(home, "--grace 300ms")?;
    home.run(&["cancel", "--force", &job])?;
    let is_gone = is_gone_soon(leader);
    held_if(is_gone, format!("the agent is gone: {is_gone}"))
}

fn completed_turn_stays(home: &Home) -> Seen {
    let (job, _) = lingering(home, "--grace 300ms")?;
    home.run(&["cancel", "--force", &job])?;
    let shown = home.ended(&job)?;
    let turn = &shown["session"]["turns"][0]["ending"];
    held_if(shown["outcome"] == "completed", format!("turn {turn}, job {}", shown["outcome"]))
}

fn finished_in_time(home: &Home) -> Seen {
    let (job, _) = lingering(home, "--wall 2s --grace 300ms")?;
    let shown = home.ended(&job)?;
    let turn = &shown["session"]["turns"][0]["ending"];
    held_if(shown["outcome"] == "completed", format!("turn {turn}, job {}", shown["outcome"]))
}

fn crash_while_ending(home: &Home) -> Seen {
    let job = home.start_agent("--grace 300ms", "hang")?;
    home.event(&job, "turn_started")?;
    let daemon = home.daemon()?;
    home.run(&["cancel", "--no-wait", "--force", &job])?;
    crate::track::home::signal(daemon, libc::SIGKILL);
    let shown =
        within(Duration::from_secs(30), || home.show(&job).ok().filter(|shown| shown["phase"] == "ended"));
    let shown = shown.unwrap_or_default();
    let parts =
        [&shown["outcome"], &shown["attempts"][0]["outcome"], &shown["session"]["turns"][0]["ending"]];
    let is_held = parts.iter().all(|part| !part.is_null()) && shown["session"]["active_turn"].is_null();
    held_if(is_held, format!("job, attempt, turn: {parts:?}"))
}

fn causes_are_told_apart(home: &Home) -> Seen {
    let timed = home.start("--wall 300ms", "sleep 1000")?;
    let timed = home.ended(&timed)?;
    let lost = home.start("", "sleep 1000")?;
    home.lose(home.leader(&lost)?)?;
    let lost = home.ended(&lost)?;
    let stopped = home.start("", "sleep 1000")?;
    home.leader(&stopped)?;
    home.ok(&["daemon", "stop", "--cancel-jobs"])?;
    let stopped = home.ended(&stopped)?;
    let cancelled = home.start("", "sleep 1000")?;
    home.leader(&cancelled)?;
    home.run(&["cancel", &cancelled])?;
    let cancelled = home.ended(&cancelled)?;
    let mut causes: Vec<String> = [timed, lost, stopped, cancelled]
        .iter()
        .map(|job| format!("{} {}", job["outcome"], job["cause"]))
        .collect();
    let said = causes.join("; ");
    causes.sort();
    causes.dedup();
    held_if(causes.len() == 4, said)
}
