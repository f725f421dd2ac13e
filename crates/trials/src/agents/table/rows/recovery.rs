//! Rows about recovery: the daemon dies in the middle of a turn, and a conversation goes on in another job.

use rustix::time::{ClockId, clock_gettime};

use super::super::setup::{Job, Setup, kill};

const ALLOW: &[&str] = &["--permissions", "allow"];

pub(super) fn in_text(setup: &Setup) -> Result<(), String> {
    let job = setup.run(&[], "Tell. [[gate G1 and so it ended]]")?;
    setup.asked("gate G1")?;
    job.nth("turn_started", 1)?;
    setup.kill_daemon()?;
    // The agent goes on while no daemon is there to hear it.
    setup.model.release("G1");
    setup.product.start()?;
    job.completes(1)?;
    once(setup, "gate G1")
}

/// Makes sure that the model was asked once: a turn that went on did not begin anew.
fn once(setup: &Setup, directive: &str) -> Result<(), String> {
    match setup.times_asked(directive) {
        1 => Ok(()),
        times => Err(format!("the model was asked {times} times for `{directive}`")),
    }
}

pub(super) fn in_tool(setup: &Setup) -> Result<(), String> {
    let command = format!("{}; echo made >> made", setup.until_made("go"));
    let job = setup.run(ALLOW, &format!("Run it. [[sh {command}]] [[say done]]"))?;
    setup.until("the command runs", || (!setup.holding(0).is_empty()).then_some(()))?;
    setup.kill_daemon()?;
    setup.make("go")?;
    setup.product.start()?;
    job.completes(1)?;
    made_once(setup)
}

fn made_once(setup: &Setup) -> Result<(), String> {
    match setup.made("made").as_deref() {
        Some("made\n") => Ok(()),
        other => Err(format!("the command was to run once, and came to {other:?}")),
    }
}

pub(super) fn in_question(setup: &Setup) -> Result<(), String> {
    let job = setup.run(&["--permissions", "ask"], "Run it. [[sh echo made >> made]] [[say done]]")?;
    job.nth("question_asked", 1)?;
    setup.kill_daemon()?;
    setup.product.start()?;
    job.answer("approve", &[])?;
    job.completes(1)?;
    made_once(setup)
}

pub(super) fn resume(setup: &Setup) -> Result<(), String> {
    let job = setup.run(&[], "Begin. [[say first]]")?;
    job.completes(1)?;
    resumed(setup, &job)?.completes(1)?;
    remembered(setup)
}

/// Has another job go on with the conversation of one.
pub(super) fn resumed<'a>(setup: &'a Setup, job: &Job<'_>) -> Result<Job<'a>, String> {
    let id = job.tell("resume", &["--detach", "Go on. [[say second]]"])?;
    let next = setup.job(id);
    let reference = job.nth("session_started", 1)?["reference"].take();
    let from = next.nth("session_started", 1)?["resumed_from"].take();
    match reference == from && from.is_string() {
        true => Ok(next),
        false => Err(format!("the conversation was {reference}, and went on from {from}")),
    }
}

/// Makes sure that the agent told its model what was said before.
pub(super) fn remembered(setup: &Setup) -> Result<(), String> {
    let log = setup.model.log();
    match log.iter().any(|record| record.about == "say second" && record.prompts_before > 0) {
        true => Ok(()),
        false => Err("the model was not told what was said before".to_owned()),
    }
}

pub(super) fn fork(setup: &Setup) -> Result<(), String> {
    let job = setup.run(&[], "Begin. [[say first]]")?;
    job.completes(1)?;
    let copy = setup.job(job.tell("resume", &["--detach", "--fork", "Go on. [[say second]]"])?);
    copy.completes(1)?;
    remembered(setup)?;
    let reference =
        |job: &Job<'_>| job.nth("session_started", 1).map(|mut started| started["reference"].take());
    let (old, new) = (reference(&job)?, reference(&copy)?);
    if old == new || !new.is_string() {
        return Err(format!("the conversation was {old}, and its copy is {new}"));
    }
    // What it was copied from knows nothing of the copy.
    setup.job(job.tell("resume", &["--detach", "Go on. [[say third]]"])?).completes(1)?;
    let before = |directive: &str| {
        let log = setup.model.log();
        log.iter().find(|record| record.about == directive).map(|record| record.prompts_before)
    };
    match (before("say second"), before("say third")) {
        (Some(second), Some(third)) if second == third => Ok(()),
        (second, third) => {
            Err(format!("{second:?} prompts before that of the copy, {third:?} of the original"))
        }
    }
}

pub(super) fn resume_too_early(setup: &Setup) -> Result<(), String> {
    let job = super::ending::interrupted(setup)?;
    job.tell("cancel", &[]).or_else(super::ending::cancelled)?;
    job.ends("cancelled", "user")?;
    let next = setup.job(job.tell("resume", &["--detach", "Go on. [[say second]]"])?);
    next.completes(1)?;
    let from = next.nth("session_started", 1)?["resumed_from"].take();
    if !from.is_null() {
        return Err(format!("it goes on from {from}, of which no turn was completed"));
    }
    let log = setup.model.log();
    let before = log.iter().find(|record| record.about == "say second").map(|record| record.prompts_before);
    match before {
        Some(0) => once(setup, "slow"),
        before => Err(format!("the model was told {before:?} prompts that did not complete")),
    }
}

pub(super) fn resume_after_kill(setup: &Setup) -> Result<(), String> {
    let job = setup.run(&[], "Begin. [[gate G1 first]]")?;
    setup.asked("gate G1")?;
    job.tell("send", &["Go on. [[hang]]"])?;
    setup.model.release("G1");
    job.turn_ends(1, "completed")?;
    setup.asked("hang")?;
    let agent = job.agent()?;
    kill(&agent);
    job.turn_ends(2, "agent_exit")?;
    job.ends("failed", "agent")?;
    resumed(setup, &job)?.completes(1)?;
    once(setup, "hang")?;
    remembered(setup)
}

/// Agents that have no way to forget a turn.
const REMEMBERS: &[&str] = &["opencode"];

/// A turn is cancelled while its model answers, in a job that goes on with a conversation. Then that goes on twice: what was forgotten must
/// not come back.
pub(super) fn forget_cancelled(setup: &Setup) -> Result<(), String> {
    let job = setup.run(&[], "Begin. [[say first]]")?;
    job.completes(1)?;
    let cut = resumed(setup, &job)?;
    cut.completes(1)?;
    // goose cuts its record by the second, and this model answers at once: a person's next prompt comes later.
    let second = || clock_gettime(ClockId::Realtime).tv_sec;
    let ended = second();
    setup.until("the second is over", || (second() > ended).then_some(()))?;
    let cut = setup.job(cut.tell("resume", &["--detach", "Drop the table. [[hang]]"])?);
    setup.asked("hang")?;
    cut.tell("cancel", &[]).or_else(super::ending::cancelled)?;
    cut.ends("cancelled", "user")?;
    let output = setup.product.run(&["resume", &cut.id, "--detach", "Go on. [[say third]]"])?;
    let (id, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    setup.job(id.trim().to_owned()).completes(1)?;
    let last = setup.job(cut.tell("resume", &["--detach", "Go on. [[say fourth]]"])?);
    last.completes(1)?;
    let remembers = REMEMBERS.contains(&setup.agent.name);
    if said.contains("cannot forget it") != remembers {
        return Err(format!("before it went on, the user was told: {said:?}"));
    }
    let extra = usize::from(remembers);
    let log = setup.model.log();
    for (directive, prompts) in [("say third", 2 + extra), ("say fourth", 3 + extra)] {
        let before = log.iter().find(|record| record.about == directive).map(|record| record.prompts_before);
        if before != Some(prompts) {
            return Err(format!("{before:?} prompts came before that of `{directive}`, and not {prompts}"));
        }
    }
    Ok(())
}
