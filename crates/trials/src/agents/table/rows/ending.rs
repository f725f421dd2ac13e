//! Rows about endings: interrupts, cancels, limits, a kill.

use std::time::Duration;

use lastword_proc::Identity;
use serde_json::Value;

use super::super::setup::{Job, PATIENCE, Setup, kill};
use crate::agents::model::What;
use crate::clock;

const ALLOW: &[&str] = &["--permissions", "allow"];

/// Says something after an interrupt, and makes sure that it is answered and the job then ends well.
fn goes_on(setup: &Setup, job: &Job<'_>) -> Result<(), String> {
    job.lives()?;
    job.tell("send", &["Once more. [[say again]]"])?;
    job.turn_ends(2, "completed")?;
    job.ends("completed", "finished")?;
    match setup.times_asked("say again") {
        1 => Ok(()),
        times => Err(format!("the model was asked {times} times for what came next")),
    }
}

/// Interrupts an agent in the middle of its text.
pub(super) fn interrupted(setup: &Setup) -> Result<Job<'_>, String> {
    let job = setup.run(&[], "Tell. [[slow 3000 100]]")?;
    setup.asked("slow")?;
    job.nth("turn_started", 1)?;
    job.tell("interrupt", &[])?;
    job.turn_ends(1, "interrupted")?;
    Ok(job)
}

pub(super) fn interrupt_in_text(setup: &Setup) -> Result<(), String> {
    let job = interrupted(setup)?;
    if !setup.model.wait(What::Gone, "slow", PATIENCE) {
        return Err("the agent did not let its model go".to_owned());
    }
    goes_on(setup, &job)
}

pub(super) fn interrupt_at_once(setup: &Setup) -> Result<(), String> {
    let job = setup.run(&[], "Tell. [[slow 3000 100]]")?;
    job.nth("turn_started", 1)?;
    job.tell("interrupt", &[])?;
    job.turn_ends(1, "interrupted")?;
    goes_on(setup, &job)
}

pub(super) fn interrupt_in_tool(setup: &Setup) -> Result<(), String> {
    let job = setup.run(ALLOW, &format!("Run it. [[sh {}]] [[say no]]", setup.hold(3001)))?;
    let held = setup.until("the command runs", || setup.holding(3001).pop())?;
    job.nth("turn_started", 1)?;
    job.tell("interrupt", &[])?;
    job.turn_ends(1, "interrupted")?;
    setup.until("the command is gone", || (!held.is_alive()).then_some(()))?;
    goes_on(setup, &job)
}

/// Returns the prompt that has an agent start what does not want to die.
pub(in super::super) fn stubborn(setup: &Setup) -> String {
    let [child, apart, before, forked] = STUBBORN.map(|(seconds, _)| setup.hold(seconds));
    let command = format!("{child} & setsid {apart} & (nohup {forked} >/dev/null 2>&1 &) ; {before}");
    format!("Run it. [[sh {command}]] [[say no]]")
}

/// What does not want to die, by the seconds it would live, and what it is.
pub(in super::super) const STUBBORN: [(u32, &str); 4] =
    [(3001, "background"), (3002, "setsid"), (3003, "foreground"), (3004, "nohup")];

/// Starts that, and waits until it has become it.
pub(in super::super) fn with_children(setup: &Setup) -> Result<(Job<'_>, Vec<Identity>), String> {
    let job = setup.run(ALLOW, &stubborn(setup))?;
    let held =
        setup.until("all four commands run", || Some(setup.holding(0)).filter(|held| held.len() == 4))?;
    Ok((job, held))
}

pub(super) fn none_survives(held: &[Identity], setup: &Setup) -> Result<(), String> {
    let survivors: Vec<i32> = held.iter().filter(|who| who.is_alive()).map(|who| who.pid).collect();
    match survivors.is_empty() && setup.holding(0).is_empty() {
        true => Ok(()),
        false => Err(format!("survivors: {survivors:?}")),
    }
}

pub(super) fn cancel(setup: &Setup) -> Result<(), String> {
    let (job, held) = with_children(setup)?;
    let agent = job.agent()?;
    job.tell("cancel", &["--json"]).or_else(cancelled)?;
    job.ends("cancelled", "user")?;
    none_survives(&[&held[..], &[agent]].concat(), setup)?;
    is_certain(&job)
}

/// A cancel that did what it was asked for exits with 3.
pub(in super::super) fn cancelled(why: String) -> Result<String, String> {
    if why.contains("exit status: 3") { Ok(why) } else { Err(why) }
}

fn is_certain(job: &Job<'_>) -> Result<(), String> {
    let receipt = job.nth("attempt_ended", 1)?["receipt"].take();
    match receipt["certain"] == Value::Bool(true) {
        true => Ok(()),
        false => Err(format!("the receipt is not certain: {}", receipt["proof"])),
    }
}

pub(super) fn deadline(setup: &Setup) -> Result<(), String> {
    let job = setup.run(&[], "Answer. [[hang]]")?;
    setup.asked("hang")?;
    job.nth("turn_started", 1)?;
    job.tell("limit", &["wall=1s"])?;
    over_limit(&job, "timed_out")
}

fn over_limit(job: &Job<'_>, outcome: &str) -> Result<(), String> {
    let word = job.nth("last_word", 1)?;
    if word["outcome"] != outcome {
        return Err(format!("it ended {}, not {outcome}; {}", word["outcome"], job.story()));
    }
    let turns = job.all("turn_ended")?;
    match turns.iter().any(|turn| turn["ending"] == "completed") {
        true => Err("the turn is said to have completed".to_owned()),
        false => Ok(()),
    }
}

pub(super) fn stall(setup: &Setup) -> Result<(), String> {
    let command = format!("touch begun; {}", setup.until_made("go"));
    let job = setup.run(ALLOW, &format!("Run it. [[sh {command}]] [[hang]]"))?;
    setup.until("the command runs", || setup.made("begun"))?;
    // Long enough for the daemon to hear of the command, and shorter than the command runs.
    job.tell("limit", &["stall=6s"])?;
    clock::rest(Duration::from_secs(8));
    let rested = || -> Result<(), String> {
        match job.all("limit_fired")?.first() {
            None => Ok(()),
            Some(fired) => Err(format!("the clock did not rest: {fired}; {}", job.story())),
        }
    };
    rested()?;
    // An agent may take its time between the end of a command and its next question.
    job.tell("limit", &["stall=10m"])?;
    setup.make("go")?;
    setup.asked("hang")?;
    rested()?;
    job.tell("limit", &["stall=2s"])?;
    over_limit(&job, "timed_out")?;
    fired(&job, "stall")
}

pub(super) fn fired(job: &Job<'_>, limit: &str) -> Result<(), String> {
    let fired = job.all("limit_fired")?;
    match fired.iter().any(|fired| fired["limit"] == limit) {
        true => Ok(()),
        false => Err(format!("what fired is {fired:?}, not {limit}")),
    }
}

pub(super) fn turns(setup: &Setup) -> Result<(), String> {
    let job = setup.run(&["--turns", "1"], "Begin. [[gate G1 first]]")?;
    setup.asked("gate G1")?;
    job.tell("send", &["Go on. [[say second]]"])?;
    setup.model.release("G1");
    job.turn_ends(1, "completed")?;
    job.nth("last_word", 1)?;
    fired(&job, "turns")?;
    match setup.times_asked("say second") {
        0 => Ok(()),
        times => Err(format!("the model was asked {times} times for one turn too many")),
    }
}

pub(super) fn tokens(setup: &Setup) -> Result<(), String> {
    let job = setup.run(&["--tokens", "500"], "Answer. [[@usage 1000 20]] [[say good day]]")?;
    over_limit(&job, "over_budget")?;
    fired(&job, "tokens")
}

pub(super) fn money(setup: &Setup) -> Result<(), String> {
    let job = setup.run(&["--money", "0.01"], "Answer. [[@usage 1000000 20000]] [[say good day]]")?;
    over_limit(&job, "over_budget")?;
    fired(&job, "money")
}

/// Has people wait for a job in every way there is, does something to it, and returns the exit codes of their commands.
fn while_waited(job: &Job<'_>, act: impl FnOnce() -> Result<(), String>) -> Result<[Option<i32>; 3], String> {
    let ways = [["wait", &job.id], ["attach", &job.id], ["logs", &job.id]];
    let (wait, attach, logs) = (&ways[0][..], &ways[1][..], [&ways[2][..], &["--follow"]].concat());
    std::thread::scope(|scope| {
        let waiting = [wait, attach, &logs[..]].map(|words| scope.spawn(|| job.outcome(words)));
        act()?;
        let mut codes = [None; 3];
        for (code, waiting) in codes.iter_mut().zip(waiting) {
            *code = waiting.join().map_err(|_| "who waited is lost".to_owned())??;
        }
        Ok(codes)
    })
}

pub(super) fn killed(setup: &Setup) -> Result<(), String> {
    let (job, held) = with_children(setup)?;
    let agent = job.agent()?;
    let codes = while_waited(&job, || {
        kill(&agent);
        job.turn_ends(1, "agent_exit")?;
        job.ends("failed", "agent").map(|_| ())
    })?;
    none_survives(&[&held[..], &[agent]].concat(), setup)?;
    match codes {
        [Some(1), Some(1), Some(0)] => Ok(()),
        other => Err(format!("wait, attach and logs exited with {other:?}")),
    }
}

/// Two jobs share no process: the death of one agent, with all that it started, is nothing to the other.
pub(super) fn two_jobs(setup: &Setup) -> Result<(), String> {
    let first = setup.run(&[], "Wait. [[gate G1 first]]")?;
    // One after the other: in a new home, two programs of Codex that start at once are in each other's way.
    setup.asked("gate G1")?;
    let second = setup.run(&[], "Wait. [[gate G2 second]]")?;
    setup.asked("gate G2")?;
    kill(&first.agent()?);
    first.ends("failed", "agent")?;
    second.lives()?;
    setup.model.release("G2");
    second.completes(1)
}

pub(super) fn killed_after_turn(setup: &Setup) -> Result<(), String> {
    let job = setup.run(&[], "Answer. [[say good day]]")?;
    let agent = job.agent()?;
    job.turn_ends(1, "completed")?;
    kill(&agent);
    job.completes(1)?;
    none_survives(&[agent], setup)
}

pub(super) fn deadline_in_tool(setup: &Setup) -> Result<(), String> {
    let (job, held) = with_children(setup)?;
    let agent = job.agent()?;
    job.tell("limit", &["wall=1s"])?;
    match job.outcome(&["wait", &job.id])? {
        Some(1) => none_survives(&[&held[..], &[agent]].concat(), setup)?,
        other => return Err(format!("wait exited with {other:?}")),
    }
    over_limit(&job, "timed_out")
}

pub(super) fn interrupt_of_nothing(setup: &Setup) -> Result<(), String> {
    let job = interrupted(setup)?;
    match job.tell("interrupt", &[]) {
        Err(why) if why.contains("no active turn") => {}
        other => return Err(format!("there was nothing to interrupt, and it said {other:?}")),
    }
    goes_on(setup, &job)
}

pub(super) fn cancel_before_next(setup: &Setup) -> Result<(), String> {
    let job = setup.run(&[], "Begin. [[gate G1 first]]")?;
    setup.asked("gate G1")?;
    job.nth("turn_started", 1)?;
    job.tell("send", &["Go on. [[say second]]"])?;
    job.tell("cancel", &[]).or_else(cancelled)?;
    setup.model.release("G1");
    job.ends("cancelled", "user")?;
    job.turn_ends(1, "cancelled")?;
    match setup.times_asked("say second") {
        0 => Ok(()),
        times => Err(format!("the model was asked {times} times after the cancel")),
    }
}

pub(super) fn ask_at_limit(setup: &Setup) -> Result<(), String> {
    // Tokens of a turn, where they are reported while it runs; else the turns themselves.
    let (limit, allowed, raised) = match setup.agent.name {
        "claude" | "codex" => ("tokens", "500", "1000000"),
        _ => ("turns", "1", "9"),
    };
    let flags = [&format!("--{limit}"), allowed, "--ask-at-limit", "10m"];
    let job = setup.run(&flags, "Begin. [[@usage 1000 20]] [[gate G1 first]]")?;
    setup.asked("gate G1")?;
    job.tell("send", &["Go on. [[say second]]"])?;
    setup.model.release("G1");
    let paused = job.nth("paused", 1)?;
    if paused["limit"] != limit {
        return Err(format!("it paused at {}", paused["limit"]));
    }
    job.lives()?;
    job.tell("limit", &[&format!("{limit}={raised}")])?;
    job.nth("unpaused", 1)?;
    job.completes(2)
}
