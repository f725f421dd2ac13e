//! A cancel: what it reaches, when it may answer, what it leaves behind.

use std::time::{Duration, Instant};

use crate::track::home::{Home, SOON, is_alive, is_gone_soon, signal, until, within};
use crate::track::row::{Seen, held_if, rows};

rows! {
    "000-01" OUROBOROS_464 From010 Nothing [12]
        "The cancel of a job waits until its silent child process next prints something."
        => "The silent process is gone when `cancel` returns, long before its grace period ends.",
        silent_process;
    "000-02" OUROBOROS_464 From010 Nothing [14]
        "The job is reported cancelled, and its child process still runs."
        => "The child, in a session of its own, is gone by its pid.",
        child_in_its_own_session;
    "000-03" OUROBOROS_464 From010 Nothing [7]
        "The flag of an old cancel stays set and cancels a later resume of the same work."
        => "A retry of the cancelled job runs to its end.",
        later_retry;
    "000-04" OUROBOROS_464 From010 Nothing [7]
        "A flag in a global registry outlives its job and meets the next one of that name."
        => "The next job of the same name runs to its end.",
        same_name_again;
    "000-07" OUROBOROS_464 From010 Nothing [26, 29]
        "A consumer that watches only one stream never sees the end of a cancelled job."
        => "A follower of the job's events gets the last word, and the stream ends.",
        stream_sees_the_end;
    "000-08" OUROBOROS_464 From010 Nothing [10, 24]
        "A late cancel turns a finished job into a cancelled one."
        => "The log of an ended job does not grow, and its outcome stays.",
        late_cancel;
    "000-12" OUROBOROS_464 From010 Nothing [23]
        "Canceller and runner both write an ending."
        => "Six cancels that race with the job's own exit: one ending, at most one request.",
        one_ending_in_a_race;
    "000-14" OUROBOROS_464 From010 Nothing [20]
        "After a forced stop the lock of the killed runner stays held."
        => "The slot of the killed job is free: the next job of its group starts.",
        slot_is_free;
    "000-16" OUROBOROS_464 From010 Nothing [13]
        "A runner that never looks at the cancel flag goes on for ever."
        => "A job that ignores TERM is killed after its grace period.",
        deaf_job;
    "000-19" OUROBOROS_464 From010 Nothing [8]
        "A job that is cancelled in the queue is still counted as running."
        => "It ends at once, without an attempt.",
        queued_job;
    "000-23" OUROBOROS_464 From010 Nothing [11]
        "The canceller writes the ending itself, while the runner still works."
        => "After the request the job is stopping; the owner's last word comes when the tree is gone.",
        request_is_no_ending;
    "000-25" OUROBOROS_464 From010 Nothing [6, 39]
        "A cancel that arrives while ownership changes is lost."
        => "The daemon is killed right after the request; the next one carries it out, once.",
        takeover_keeps_the_request;
    "000-26" OUROBOROS_464 From010 Nothing [13]
        "A runner that is blocked outside of its checkpoints is never stopped."
        => "A job whose processes are all frozen is stopped.",
        frozen_job;
    "000-28" OUROBOROS_464 From010 Nothing [2]
        "A cancel reaches only runners in the memory of the same process."
        => "Another process cancels the job of an attached `run`, after the daemon that started it was killed.",
        cancel_by_another_process;
    "000-31" OUROBOROS_464 From010 Nothing [4]
        "A cancel before the start is forgotten when another worker picks the job up."
        => "The daemon is killed after the cancel; the next one never starts the job.",
        cancelled_before_start;
    "000-32" OUROBOROS_464 From010 Nothing [9]
        "A job that was cancelled before it started looks like one that was cancelled while it ran."
        => "The two are told apart in the record.",
        before_start_is_told_apart;
    "000-33" OUROBOROS_464 From010 Nothing [57]
        "Pollers and screens that wait on one stream hang after a cancel."
        => "`wait`, `logs -f`, `events -f` and `attach` all return.",
        waiters_return;
    "000-34" OUROBOROS_464 From010 Nothing [16]
        "`cancelled` is written while the work still runs."
        => "When the last word is read, no process of the job is alive.",
        dead_before_the_last_word;
    "000-36" OUROBOROS_464 From010 Nothing [5]
        "A starter looks at its memory first and at the store later."
        => "A delayed job is cancelled and the daemon killed; its time comes and nothing starts.",
        delayed_job;
    "000-37" OUROBOROS_464 From010 Nothing [17]
        "A timer of five seconds writes the ending, although the work still runs."
        => "When the caller's time is up the job is stopping, not ended, and its live processes are named.",
        no_timer_ends_a_job;
    "000-39" OUROBOROS_464 From010 Nothing [19]
        "A cancel during finalisation leaves the job in `cancel_requested` for ever."
        => "Cancels while the job is ending change nothing, and it ends.",
        cancel_while_ending;
}

/// Ignores TERM, in a loop that a shell cannot leave early.
pub(super) const DEAF: &str = "trap '' TERM; while :; do sleep 0.05; done";

fn silent_process(home: &Home) -> Seen {
    let job = home.start("--grace 60s", "sleep 1000 & echo $! > $PLACE/child; wait")?;
    let child = home.pid_in("child")?;
    let begin = Instant::now();
    let ran = home.run(&["cancel", &job])?;
    let took = begin.elapsed();
    let is_held = ran.code == 0 && !is_alive(child) && took < SOON;
    held_if(is_held, format!("cancel took {} ms; child alive: {}", took.as_millis(), is_alive(child)))
}

pub(super) fn child_in_its_own_session(home: &Home) -> Seen {
    let job = home.start("--grace 1s", "setsid sh -c 'echo $$ > $PLACE/child; exec sleep 1000' & wait")?;
    let child = home.pid_in("child")?;
    home.run(&["cancel", &job])?;
    let is_dead = !is_alive(child);
    held_if(is_dead, format!("pid {child} alive after the cancel: {}", !is_dead))
}

fn later_retry(home: &Home) -> Seen {
    let job = home.start("--name again", "[ -e $PLACE/go ] || sleep 1000")?;
    home.leader(&job)?;
    home.run(&["cancel", &job])?;
    std::fs::write(home.work("go"), "").map_err(|error| error.to_string())?;
    let retried = home.ok(&["retry", "-d", &job])?;
    let shown = home.ended_soon(&retried)?;
    held_if(shown["outcome"] == "completed", format!("the retry is {} {}", shown["phase"], shown["outcome"]))
}

fn same_name_again(home: &Home) -> Seen {
    let first = home.start("--name twin", "sleep 1000")?;
    home.leader(&first)?;
    home.run(&["cancel", "twin"])?;
    let second = home.start("--name twin", "exit 0")?;
    let shown = home.ended_soon(&second)?;
    held_if(shown["outcome"] == "completed", format!("the next `twin`: {}", shown["outcome"]))
}

fn stream_sees_the_end(home: &Home) -> Seen {
    let job = home.start("", "sleep 1000")?;
    home.leader(&job)?;
    let mut follower = home.follow(&["events", "-f", "--json", &job])?;
    until("it follows", || follower.printed().contains("submitted").then_some(()))?;
    home.run(&["cancel", &job])?;
    let ended = follower.ends();
    let last = follower.printed().lines().last().unwrap_or_default().to_owned();
    held_if(ended == Some(0) && last.contains("last_word"), format!("exit {ended:?}, last line {last}"))
}

fn late_cancel(home: &Home) -> Seen {
    let job = home.start("", "exit 0")?;
    let before = home.ended(&job)?;
    let log = home.events(&job)?;
    for flag in ["--no-wait", "--force"] {
        home.run(&["cancel", flag, &job])?;
    }
    let after = home.show(&job)?;
    let is_same = home.events(&job)? == log && before["outcome"] == after["outcome"];
    held_if(is_same, format!("{} events before, outcome {}", log.len(), after["outcome"]))
}

fn one_ending_in_a_race(home: &Home) -> Seen {
    for _ in 0..5 {
        let job = home.start("--grace 1s", "sleep 0.1; exit 3")?;
        let cancels = format!("for i in 1 2 3 4 5 6; do $LASTWORD cancel --no-wait {job} & done; wait");
        home.shell(&cancels)?;
        home.ended(&job)?;
        let (words, requests) = (home.count(&job, "last_word")?, home.count(&job, "cancel_requested")?);
        if words != 1 || requests > 1 {
            return held_if(false, format!("{words} endings and {requests} requests in one log"));
        }
    }
    held_if(true, "5 races with 6 cancels each: one ending, at most one request in each log")
}

fn slot_is_free(home: &Home) -> Seen {
    home.ok(&["group", "set", "lane", "--slots", "1"])?;
    let first = home.start("-g lane", DEAF)?;
    home.leader(&first)?;
    let next = home.start("-g lane", "exit 0")?;
    home.run(&["cancel", "--force", &first])?;
    let shown = home.ended_soon(&next)?;
    held_if(shown["outcome"] == "completed", format!("the next job of the group: {}", shown["phase"]))
}

fn deaf_job(home: &Home) -> Seen {
    let job = home.start("--grace 300ms", DEAF)?;
    let leader = home.leader(&job)?;
    home.run(&["cancel", &job])?;
    let shown = home.ended_soon(&job)?;
    let is_held = shown["outcome"] == "cancelled" && !is_alive(leader);
    held_if(is_held, format!("{}; rungs {}", shown["outcome"], shown["attempts"][0]["receipt"]["rungs"]))
}

fn queued_job(home: &Home) -> Seen {
    let job = home.start("--delay 1h", "exit 0")?;
    home.run(&["cancel", &job])?;
    let shown = home.show(&job)?;
    let running = home.json(&["ls"])?["items"].as_array().map_or(0, Vec::len);
    let is_held =
        shown["phase"] == "ended" && shown["attempts"].as_array().is_none_or(Vec::is_empty) && running == 0;
    held_if(is_held, format!("{} {}; {running} jobs in `ls`", shown["phase"], shown["outcome"]))
}

fn request_is_no_ending(home: &Home) -> Seen {
    let job = home.start("--grace 1s", DEAF)?;
    let leader = home.leader(&job)?;
    home.run(&["cancel", "--no-wait", &job])?;
    let (shown, alive) = (home.show(&job)?, is_alive(leader));
    let is_held = alive && shown["phase"] == "stopping" && shown["outcome"].is_null();
    let shown = home.ended(&job)?;
    let at = |kind: &str| home.event(&job, kind).map(|event| event["seq"].as_u64());
    let is_in_order = at("cancel_requested")? < at("last_word")?;
    let is_held = is_held && is_in_order && shown["outcome"] == "cancelled";
    held_if(is_held, "stopping after the request; the last word after the tree was gone")
}

fn takeover_keeps_the_request(home: &Home) -> Seen {
    let job = home.start("--grace 1s", DEAF)?;
    let leader = home.leader(&job)?;
    home.run(&["cancel", "--no-wait", &job])?;
    home.kill_daemon()?;
    let shown = home.ended_soon(&job)?;
    let requests = home.count(&job, "cancel_requested")?;
    let is_held = shown["outcome"] == "cancelled" && !is_alive(leader) && requests == 1;
    held_if(is_held, format!("{}, {requests} request in the log", shown["outcome"]))
}

fn frozen_job(home: &Home) -> Seen {
    let job = home.start("--grace 500ms", "sleep 1000")?;
    let leader = home.leader(&job)?;
    signal(leader, libc::SIGSTOP);
    home.run(&["cancel", &job])?;
    let is_gone = is_gone_soon(leader);
    held_if(is_gone, format!("frozen pid {leader} gone: {is_gone}"))
}

fn cancel_by_another_process(home: &Home) -> Seen {
    let mut run = home.follow(&["run", "--name", "attached", "--", "sh", "-c", "echo $$; sleep 1000"])?;
    until("the job prints", || (!run.printed().is_empty()).then_some(()))?;
    let leader = home.leader("attached")?;
    home.kill_daemon()?;
    home.run(&["cancel", "attached"])?;
    let (code, alive) = (run.ends(), is_alive(leader));
    held_if(!alive && code == Some(3), format!("`run` exits with {code:?}; leader alive: {alive}"))
}

fn cancelled_before_start(home: &Home) -> Seen {
    home.ok(&["group", "set", "shut", "--slots", "1"])?;
    home.ok(&["group", "pause", "shut"])?;
    let job = home.start("-g shut", "echo ran > $PLACE/ran")?;
    home.run(&["cancel", &job])?;
    home.kill_daemon()?;
    home.ok(&["group", "resume", "shut"])?;
    let next = home.start("-g shut", "exit 0")?;
    home.ended(&next)?;
    let (shown, ran) = (home.show(&job)?, home.work("ran").exists());
    held_if(!ran && shown["outcome"] == "cancelled", format!("{}; it ran: {ran}", shown["outcome"]))
}

fn before_start_is_told_apart(home: &Home) -> Seen {
    let (waiting, running) = (home.start("--delay 1h", "exit 0")?, home.start("", "sleep 1000")?);
    home.leader(&running)?;
    let waiting = home.run(&["cancel", &waiting])?.printed();
    let running = home.run(&["cancel", &running])?.printed();
    let is_held = waiting.contains("before it started") && running.contains("cancelled while");
    held_if(is_held, format!("{waiting} and {running}"))
}

fn waiters_return(home: &Home) -> Seen {
    let job = home.start("", "echo started; sleep 1000")?;
    home.leader(&job)?;
    let lines = ["wait", "logs -f", "events -f", "attach"];
    let mut followers = Vec::new();
    for line in lines {
        let words: Vec<&str> = line.split(' ').chain([job.as_str()]).collect();
        followers.push(home.follow(&words)?);
    }
    until("they follow", || followers[1..].iter().all(|one| !one.printed().is_empty()).then_some(()))?;
    home.run(&["cancel", &job])?;
    let stuck: Vec<&str> = lines
        .iter()
        .zip(&mut followers)
        .filter_map(|(line, follower)| follower.ends().is_none().then_some(*line))
        .collect();
    held_if(stuck.is_empty(), format!("still waiting after the end: {stuck:?}"))
}

fn dead_before_the_last_word(home: &Home) -> Seen {
    let script = format!("(echo $$ > $PLACE/ready; {DEAF}) & {DEAF}");
    let job = home.start("--grace 500ms", &script)?;
    let leader = home.leader(&job)?;
    home.file("ready")?;
    let follower = home.follow(&["events", "-f", "--json", &job])?;
    until("it follows", || follower.printed().contains("submitted").then_some(()))?;
    home.run(&["cancel", "--no-wait", &job])?;
    until("the last word", || follower.printed().contains("last_word").then_some(()))?;
    let alive = is_alive(leader);
    held_if(!alive, format!("leader alive when the last word was read: {alive}"))
}

fn delayed_job(home: &Home) -> Seen {
    let job = home.start("--delay 1s", "echo ran > $PLACE/ran")?;
    home.run(&["cancel", &job])?;
    home.kill_daemon()?;
    let other = home.start("--delay 2s", "exit 0")?;
    home.ended(&other)?;
    let ran = home.work("ran").exists();
    held_if(!ran, format!("a second after its time it ran: {ran}"))
}

fn no_timer_ends_a_job(home: &Home) -> Seen {
    let job = home.start("--grace 60s", DEAF)?;
    let leader = home.leader(&job)?;
    let ran = home.run(&["cancel", "--timeout", "300ms", &job])?;
    let named = within(Duration::from_secs(5), || {
        let pids = home.show(&job).ok()?["stop"]["pids"].to_string();
        pids.contains(&leader.to_string()).then_some(pids)
    });
    let shown = home.show(&job)?;
    let is_held = ran.code == 124 && shown["phase"] == "stopping" && is_alive(leader) && named.is_some();
    held_if(is_held, format!("exit {}, {}, alive {named:?}", ran.code, shown["phase"]))
}

fn cancel_while_ending(home: &Home) -> Seen {
    let job = home.start("--grace 500ms", DEAF)?;
    home.leader(&job)?;
    home.run(&["cancel", "--no-wait", &job])?;
    within(Duration::from_secs(5), || {
        let _ = home.run(&["cancel", "--no-wait", &job]);
        home.show(&job).ok().filter(|shown| shown["phase"] == "ended")
    });
    let shown = home.ended_soon(&job)?;
    let words = home.count(&job, "last_word")?;
    held_if(shown["outcome"] == "cancelled" && words == 1, format!("{} {words}", shown["outcome"]))
}
