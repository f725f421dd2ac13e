//! Rows about recovery: the daemon dies in the middle of a turn, and a conversation goes on in another job.

use super::super::stand::{Job, Stand, kill};

const ALLOW: &[&str] = &["--permissions", "allow"];

pub(super) fn in_text(stand: &Stand) -> Result<(), String> {
    let job = stand.run(&[], "Tell. [[gate G1 and so it ended]]")?;
    stand.asked("gate G1")?;
    job.nth("turn_started", 1)?;
    stand.kill_daemon()?;
    // The agent goes on, and nobody is there to hear it.
    stand.model.release("G1");
    stand.product.start()?;
    job.completes(1)?;
    once(stand, "gate G1")
}

/// Makes sure that the model was asked once: a turn that went on did not begin anew.
fn once(stand: &Stand, directive: &str) -> Result<(), String> {
    match stand.times_asked(directive) {
        1 => Ok(()),
        times => Err(format!("the model was asked {times} times for `{directive}`")),
    }
}

pub(super) fn in_tool(stand: &Stand) -> Result<(), String> {
    let command = format!("{}; echo made >> made", stand.until_made("go"));
    let job = stand.run(ALLOW, &format!("Run it. [[sh {command}]] [[say done]]"))?;
    stand.until("the command runs", || (!stand.holding(0).is_empty()).then_some(()))?;
    stand.kill_daemon()?;
    stand.make("go")?;
    stand.product.start()?;
    job.completes(1)?;
    made_once(stand)
}

fn made_once(stand: &Stand) -> Result<(), String> {
    match stand.made("made").as_deref() {
        Some("made\n") => Ok(()),
        other => Err(format!("the command was to run once, and came to {other:?}")),
    }
}

pub(super) fn in_question(stand: &Stand) -> Result<(), String> {
    let job = stand.run(&["--permissions", "ask"], "Run it. [[sh echo made >> made]] [[say done]]")?;
    job.nth("question_asked", 1)?;
    stand.kill_daemon()?;
    stand.product.start()?;
    job.tell("approve", &[])?;
    job.completes(1)?;
    made_once(stand)
}

pub(super) fn resume(stand: &Stand) -> Result<(), String> {
    let job = stand.run(&[], "Begin. [[say first]]")?;
    job.completes(1)?;
    resumed(stand, &job)?.completes(1)?;
    remembered(stand)
}

/// Has another job go on with the conversation of one.
pub(super) fn resumed<'a>(stand: &'a Stand, job: &Job<'_>) -> Result<Job<'a>, String> {
    let id = job.tell("resume", &["--detach", "Go on. [[say second]]"])?;
    let next = stand.job(id);
    let reference = job.nth("session_started", 1)?["reference"].take();
    let from = next.nth("session_started", 1)?["resumed_from"].take();
    match reference == from && from.is_string() {
        true => Ok(next),
        false => Err(format!("the conversation was {reference}, and went on from {from}")),
    }
}

/// Makes sure that the agent told its model what was said before.
pub(super) fn remembered(stand: &Stand) -> Result<(), String> {
    let log = stand.model.log();
    match log.iter().any(|record| record.about == "say second" && record.prompts_before > 0) {
        true => Ok(()),
        false => Err("the model was not told what was said before".to_owned()),
    }
}

pub(super) fn fork(stand: &Stand) -> Result<(), String> {
    let job = stand.run(&[], "Begin. [[say first]]")?;
    job.completes(1)?;
    let copy = stand.job(job.tell("resume", &["--detach", "--fork", "Go on. [[say second]]"])?);
    copy.completes(1)?;
    remembered(stand)?;
    let reference =
        |job: &Job<'_>| job.nth("session_started", 1).map(|mut started| started["reference"].take());
    let (old, new) = (reference(&job)?, reference(&copy)?);
    if old == new || !new.is_string() {
        return Err(format!("the conversation was {old}, and its copy is {new}"));
    }
    // What it was copied from knows nothing of the copy.
    stand.job(job.tell("resume", &["--detach", "Go on. [[say third]]"])?).completes(1)?;
    let before = |directive: &str| {
        let log = stand.model.log();
        log.iter().find(|record| record.about == directive).map(|record| record.prompts_before)
    };
    match (before("say second"), before("say third")) {
        (Some(second), Some(third)) if second == third => Ok(()),
        (second, third) => {
            Err(format!("{second:?} prompts before that of the copy, {third:?} of the original"))
        }
    }
}

pub(super) fn resume_too_early(stand: &Stand) -> Result<(), String> {
    let job = super::ending::interrupted(stand)?;
    job.tell("cancel", &[]).or_else(super::ending::cancelled)?;
    job.ends("cancelled", "user")?;
    match job.tell("resume", &["--detach", "Go on. [[say second]]"]) {
        Err(why) if why.contains("none of its turns completed") => once(stand, "slow"),
        other => Err(format!("it was resumed from a turn that was not completed: {other:?}")),
    }
}

pub(super) fn resume_after_kill(stand: &Stand) -> Result<(), String> {
    let job = stand.run(&[], "Begin. [[gate G1 first]]")?;
    stand.asked("gate G1")?;
    job.tell("send", &["Go on. [[hang]]"])?;
    stand.model.release("G1");
    job.turn_ends(1, "completed")?;
    stand.asked("hang")?;
    let agent = job.agent()?;
    kill(&agent);
    job.turn_ends(2, "agent_exit")?;
    job.ends("failed", "agent")?;
    resumed(stand, &job)?.completes(1)?;
    once(stand, "hang")?;
    remembered(stand)
}
