//! Turns of agents: how they end, what a cancel or a limit does to them, and what is shown of an agent at rest.

use serde_json::Value;

use crate::track::home::{Home, is_alive, is_gone_soon, until};
use crate::track::row::{Seen, held_if, rows};

rows! {
    "003-02" CLAW_CODE_524EDB2 From010 Nothing [71]
        "A cancel that comes before the turn is seen after it."
        => "A job is cancelled before its agent has begun: no turn begins.",
        cancel_before_the_turn;
    "003-03" CLAW_CODE_524EDB2 From010 Nothing [71, 73]
        "A turn that was given up is committed when it ends."
        => "The agent ends its turn after the cancel: the turn is cancelled, and no message counts.",
        late_end_is_no_commit;
    "003-05" CLAW_CODE_524EDB2 From010 Nothing [75]
        "A check for a cancel costs a turn that has none."
        => "Nothing is set: the log of the job mentions no limit and no stop.",
        nothing_is_set;
    "003-06" CLAW_CODE_524EDB2 From010 Nothing [72]
        "The next turn begins after a cancel."
        => "A message waits while the turn is cancelled: no turn begins with it.",
        cancel_holds_for_later_turns;
    "003-07" CLAW_CODE_524EDB2 From010 Nothing [71]
        "The caller is told of the timeout before the work is told to stop."
        => "A limit is stored, then the stop begins, then the turn has ended, then the job.",
        limit_comes_first;
    "003-08" CLAW_CODE_524EDB2 From010 Nothing [28]
        "Ends of different kinds look the same."
        => "Completed, failed, cancelled, out of time and out of turns are five endings.",
        five_endings;
    "003-09" CLAW_CODE_524EDB2 After010 Nothing [71]
        "Work that acknowledged its cancel and work that was given up look the same."
        => "A turn says whether the agent acknowledged its end or was killed.",
        acknowledged_or_killed;
    "003-10" CLAW_CODE_524EDB2 From010 Nothing [49]
        "A wedged turn outlives its deadline."
        => "The agent ignores everything: at its limit it is killed, and the job has ended.",
        wedged_turn;
    "003-11" CLAW_CODE_524EDB2 From010 Nothing [71]
        "A cancel after the commit takes the turn back."
        => "A completed turn stays completed when the job is cancelled after it.",
        completed_turn_stays;
    "003-12" CLAW_CODE_524EDB2 After010 Nothing [84]
        "A late cancel overrides a completed turn."
        => "The agent completed its turn and stays: after the cancel the job is completed.",
        completed_job_stays;
    "003-13" CLAW_CODE_524EDB2 From010 Nothing [52]
        "A turn beyond the limit begins."
        => "The second of one allowed turn does not begin, and the first one counts.",
        turn_beyond_the_limit;
    "003-14" CLAW_CODE_524EDB2 From010 Nothing [49]
        "Wedged work is abandoned, not ended."
        => "The process of a wedged agent is gone after its cancel.",
        wedged_work_is_ended;
    "003-15" CLAW_CODE_524EDB2 From010 Nothing [28]
        "A cancelled run has the exit code of a failed one."
        => "`wait` exits with 3 for a cancelled job, and with 1 for a failed one.",
        exit_code_of_a_cancel;
    "003-16" CLAW_CODE_524EDB2 After010 Nothing [90]
        "Only the whole run has a deadline."
        => "A turn has one of its own: the job ends at it.",
        deadline_of_a_turn;
    "003-17" CLAW_CODE_524EDB2 From010 Nothing [74]
        "The loop goes on after a turn that did not complete."
        => "The turn fails, and the message behind it starts no other.",
        failed_turn_ends_the_job;
    "003-18" CLAW_CODE_524EDB2 From010 Nothing [73]
        "Text that comes after the end changes the conversation."
        => "What the agent says after its cancel is in no turn that counts.",
        late_end_is_no_commit;
    "004-01" T3CODE_3159 After010 Nothing [76, 94]
        "The session is ready, and its turn is still active."
        => "Codex goes idle without ending its turn: the turn has ended, and so has the job.",
        |home| goes_inactive(home, "idle", "aborted");
    "004-02" T3CODE_3159 After010 Nothing [76, 94]
        "The session reports an error, and its turn is still active."
        => "Codex reports an error without ending its turn: the turn has ended, and so has the job.",
        |home| goes_inactive(home, "error", "runtime_error");
    "004-03" T3CODE_3159 From010 Nothing [76]
        "The session has stopped, and its turn is still active."
        => "Codex closes its thread in mid-turn: the turn has ended, and so has the job.",
        |home| goes_inactive(home, "closed", "agent_exit");
    "004-04" T3CODE_3159 From010 Nothing [76]
        "The session was interrupted, and its turn is still active."
        => "An interrupted agent has no active turn.",
        interrupted_has_no_turn;
    "004-05" T3CODE_3159 From010 Nothing [76]
        "A turn is taken from a session that works."
        => "A session that works has its turn, and the job runs.",
        working_has_a_turn;
    "004-06" T3CODE_3159 From010 Nothing [76]
        "A notice of the start of a session ends the turn that runs."
        => "Codex tells of its thread once more in mid-turn: the turn completes.",
        start_notice_in_mid_turn;
    "004-07" T3CODE_3159 After010 Nothing [79]
        "Settled work is shown as active."
        => "An interrupted agent is `interrupted` in `ls` and `show`, not `running`.",
        rest_is_shown;
    "004-11" T3CODE_3159 After010 Nothing [76, 94]
        "The rule holds for one provider only."
        => "Idle, failed and closed: for each, no turn is active.",
        for_each_signal;
}

/// Returns the turns of a job.
fn turns(shown: &Value) -> Vec<&str> {
    let turns = shown["session"]["turns"].as_array().map(Vec::as_slice).unwrap_or_default();
    turns.iter().map(|turn| turn["ending"].as_str().unwrap_or("active")).collect()
}

fn cancel_before_the_turn(home: &Home) -> Seen {
    let job = home.start_agent("--delay 1h", "hello")?;
    home.run(&["cancel", &job])?;
    let shown = home.ended(&job)?;
    let begun = home.count(&job, "turn_started")?;
    held_if(shown["outcome"] == "cancelled" && begun == 0, format!("{}, {begun} turns", shown["outcome"]))
}

fn late_end_is_no_commit(home: &Home) -> Seen {
    let job = home.start_agent("--grace 1s", "deaf")?;
    home.event(&job, "turn_started")?;
    home.run(&["cancel", &job])?;
    let shown = home.ended(&job)?;
    let (turns, messages) = (turns(&shown), &shown["session"]["messages"]);
    held_if(turns == ["cancelled"] && messages == 0, format!("turns {turns:?}, {messages} messages"))
}

fn nothing_is_set(home: &Home) -> Seen {
    let job = home.start_agent("", "hello")?;
    home.ended(&job)?;
    let kinds: Vec<String> =
        home.events(&job)?.iter().filter_map(|event| event["type"].as_str().map(str::to_owned)).collect();
    let is_held =
        !kinds.iter().any(|kind| kind.contains("limit") || kind.contains("stop") || kind.contains("cancel"));
    held_if(is_held, kinds.join(", "))
}

fn cancel_holds_for_later_turns(home: &Home) -> Seen {
    let job = home.start_agent("--grace 1s", "obey")?;
    home.event(&job, "turn_started")?;
    home.ok(&["send", &job, "hello"])?;
    home.run(&["cancel", &job])?;
    let shown = home.ended(&job)?;
    let turns = turns(&shown);
    held_if(turns == ["cancelled"] && shown["outcome"] == "cancelled", format!("turns {turns:?}"))
}

fn limit_comes_first(home: &Home) -> Seen {
    let job = home.start_agent("--wall 1s --grace 300ms", "silent")?;
    home.ended(&job)?;
    let events = home.events(&job)?;
    let place = |kind: &str| events.iter().position(|event| event["type"] == kind);
    let places = ["limit_fired", "stop_began", "turn_ended", "last_word"].map(place);
    held_if(places.iter().all(Option::is_some) && places.is_sorted(), format!("{places:?}"))
}

fn five_endings(home: &Home) -> Seen {
    let completed = home.start_agent("", "hello")?;
    let failed = home.start_agent("", "fail")?;
    let cancelled = home.start_agent("--grace 300ms", "obey")?;
    let late = home.start_agent("--wall 1s --grace 300ms", "obey")?;
    let over = home.start_agent("--turns 1 --grace 300ms", "linger")?;
    home.event(&cancelled, "turn_started")?;
    home.run(&["cancel", &cancelled])?;
    home.event(&over, "turn_started")?;
    home.run(&["send", &over, "once more"])?;
    let mut seen = Vec::new();
    for job in [&completed, &failed, &cancelled, &late, &over] {
        seen.push(home.ended(job)?["outcome"].as_str().unwrap_or_default().to_owned());
    }
    let expected = ["completed", "failed", "cancelled", "timed_out", "over_budget"];
    held_if(seen == expected, seen.join(", "))
}

fn acknowledged_or_killed(home: &Home) -> Seen {
    let obeys = home.start_agent("--grace 300ms", "obey")?;
    let wedged = home.start_agent("--grace 300ms", "hang")?;
    let mut said = Vec::new();
    for job in [&obeys, &wedged] {
        home.event(job, "turn_started")?;
        home.run(&["cancel", job])?;
        let shown = home.ended(job)?;
        said.push(shown["session"]["turns"][0]["acknowledged"].clone());
    }
    held_if(said == [Value::from(true), Value::from(false)], format!("acknowledged: {said:?}"))
}

fn wedged_turn(home: &Home) -> Seen {
    let job = home.start_agent("--wall 1s --grace 300ms", "hang")?;
    let leader = home.leader(&job)?;
    let shown = home.ended(&job)?;
    let is_gone = !is_alive(leader);
    held_if(shown["outcome"] == "timed_out" && is_gone, format!("{}, gone: {is_gone}", shown["outcome"]))
}

fn completed_turn_stays(home: &Home) -> Seen {
    let job = home.start_agent("--grace 300ms", "linger")?;
    home.event(&job, "turn_ended")?;
    home.run(&["cancel", "--force", &job])?;
    let shown = home.ended(&job)?;
    let turns = turns(&shown);
    held_if(turns == ["completed"], format!("turns {turns:?}"))
}

fn completed_job_stays(home: &Home) -> Seen {
    let job = home.start_agent("--grace 300ms", "linger")?;
    home.event(&job, "turn_ended")?;
    home.run(&["cancel", "--force", &job])?;
    let shown = home.ended(&job)?;
    held_if(shown["outcome"] == "completed", format!("{}", shown["outcome"]))
}

fn turn_beyond_the_limit(home: &Home) -> Seen {
    let job = home.start_agent("--turns 1 --grace 300ms", "linger")?;
    home.event(&job, "turn_started")?;
    // It may have ended by now: then there is no second turn either.
    home.run(&["send", &job, "hello"])?;
    let shown = home.ended(&job)?;
    let turns = turns(&shown);
    held_if(turns == ["completed"], format!("turns {turns:?}, {}", shown["outcome"]))
}

fn wedged_work_is_ended(home: &Home) -> Seen {
    let job = home.start_agent("--grace 300ms", "hang")?;
    let leader = home.leader(&job)?;
    home.event(&job, "turn_started")?;
    home.run(&["cancel", &job])?;
    let is_gone = is_gone_soon(leader);
    held_if(is_gone, format!("gone: {is_gone}"))
}

fn exit_code_of_a_cancel(home: &Home) -> Seen {
    let cancelled = home.start_agent("--grace 300ms", "obey")?;
    let failed = home.start_agent("", "fail")?;
    home.event(&cancelled, "turn_started")?;
    home.run(&["cancel", &cancelled])?;
    let codes = [home.run(&["wait", &cancelled])?.code, home.run(&["wait", &failed])?.code];
    held_if(codes == [3, 1], format!("{codes:?}"))
}

fn deadline_of_a_turn(home: &Home) -> Seen {
    let job = match home.start_agent("--turn 1s --grace 300ms", "obey") {
        Ok(job) => job,
        Err(why) => return held_if(false, why),
    };
    let shown = home.ended_soon(&job)?;
    held_if(shown["cause"] == "limit_turn", format!("{} by {}", shown["outcome"], shown["cause"]))
}

fn failed_turn_ends_the_job(home: &Home) -> Seen {
    let job = home.start_agent("", "fail")?;
    home.run(&["send", &job, "hello"])?;
    let shown = home.ended(&job)?;
    let turns = turns(&shown);
    held_if(turns == ["failed"] && shown["outcome"] == "failed", format!("turns {turns:?}"))
}

fn goes_inactive(home: &Home, prompt: &str, ending: &str) -> Seen {
    let job = home.start_codex("", prompt)?;
    home.event(&job, "turn_started")?;
    let shown = home.ended_soon(&job)?;
    let turns = turns(&shown);
    let is_held = shown["phase"] == "ended" && shown["session"]["active_turn"].is_null() && turns == [ending];
    held_if(is_held, format!("{}, turns {turns:?}", shown["phase"]))
}

/// Starts an agent and interrupts it.
fn interrupted(home: &Home) -> Result<(String, Value), String> {
    let job = home.start_codex("", "obey")?;
    home.event(&job, "turn_started")?;
    home.ok(&["interrupt", &job])?;
    let shown = until("the turn has ended", || {
        home.show(&job).ok().filter(|shown| shown["session"]["active_turn"].is_null())
    })?;
    Ok((job, shown))
}

fn interrupted_has_no_turn(home: &Home) -> Seen {
    let (_, shown) = interrupted(home)?;
    let (state, turns) = (&shown["session"]["state"], turns(&shown));
    held_if(state == "interrupted" && turns == ["interrupted"], format!("{state}, turns {turns:?}"))
}

fn working_has_a_turn(home: &Home) -> Seen {
    let job = home.start_codex("", "obey")?;
    home.event(&job, "turn_started")?;
    let shown = home.show(&job)?;
    let (state, turn) = (&shown["session"]["state"], &shown["session"]["active_turn"]);
    held_if(state == "running" && turn == 1 && shown["phase"] == "running", format!("{state}, turn {turn}"))
}

fn start_notice_in_mid_turn(home: &Home) -> Seen {
    let job = home.start_codex("", "again")?;
    let shown = home.ended(&job)?;
    let turns = turns(&shown);
    held_if(turns == ["completed"] && shown["outcome"] == "completed", format!("turns {turns:?}"))
}

fn rest_is_shown(home: &Home) -> Seen {
    let (job, _) = interrupted(home)?;
    let (listed, shown) = (home.ok(&["ls"])?, home.ok(&["show", &job])?);
    let is_so = |text: &str| text.contains("interrupted") && !text.contains("running ");
    let head = shown.lines().next().unwrap_or_default().to_owned();
    held_if(is_so(&listed) && head.contains("interrupted"), format!("{head}; {listed}"))
}

fn for_each_signal(home: &Home) -> Seen {
    let mut seen = Vec::new();
    for prompt in ["idle", "error", "closed"] {
        let job = home.start_codex("", prompt)?;
        home.event(&job, "turn_started")?;
        let shown = home.ended_soon(&job)?;
        seen.push((shown["phase"] == "ended", shown["session"]["active_turn"].is_null()));
    }
    held_if(seen == [(true, true); 3], format!("ended, without a turn: {seen:?}"))
}
