//! Single reports of other tools, each with the case it describes.

use std::fs;
use std::os::unix::process::CommandExt as _;

use super::{cancel, owners, reads};
use crate::track::home::{Home, is_alive, signal, until};
use crate::track::row::{Seen, held_if, rows};

rows! {
    "ao-3537" AGENT_ORCHESTRATOR_3537 From010 Nothing [37]
        "The daemon crashes, and its workers run on without a control plane."
        => "The next command starts a daemon that has the job: `cancel` stops it.",
        reads::cancel_without_a_daemon;
    "claude-19433" CLAUDE_CODE_19433 From010 Nothing [14]
        "`/exit` ends the main process; its children become orphans and add up over days."
        => "What the command leaves running is gone when the job has ended.",
        left_by_an_exit;
    "claude-terminal-202" CLAUDE_TERMINAL_202 From010 Nothing [14]
        "Busy loops that a command put into the background run for hours after it returned."
        => "They are gone when the job has ended.",
        busy_loops;
    "codex-432" CODEX_PLUGIN_432 From010 Nothing [37]
        "The shell that started a task is reaped with its tree: the task dies and stays `running`."
        => "The shell and its client are killed: the job goes on to its true end.",
        shell_is_reaped;
    "codex-540" CODEX_PLUGIN_540 From010 Nothing [35, 37]
        "One session ends and takes the shared broker with it: tasks of other sessions die and stay `running`."
        => "The daemon is restarted under a job, which goes on to its true end.",
        owners::restart_under_a_job;
    "codex-665" CODEX_PLUGIN_665 From010 Nothing [60]
        "Requests after the death of the app-server hang for ever."
        => "The daemon is killed: the next command is answered.",
        reads::dead_daemon_is_replaced;
    "flux-1412" FLUX_CORE_1412 From010 Nothing [14]
        "Killing a job does not reach children that daemonized."
        => "A process that forked twice into another session is gone after the cancel.",
        daemonized_child;
    "lingtai-587" LINGTAI_KERNEL_587 From010 Nothing [37]
        "Running work is declared failed after a restart, because the recorded parent process is gone."
        => "Three daemons are killed one after the other: the job runs on as the same attempt.",
        owners::adopted_again_and_again;
    "meeseeks-19" MEESEEKS_19 From010 Nothing [65]
        "A task whose process crashed stays `RUNNING` and is never claimed again."
        => "Everything is killed: the next command gives the job its ending, and it can be retried.",
        retried_after_a_crash;
    "node-cron-601" NODE_CRON_601 From010 Nothing [63]
        "The process of a task is killed, and its parent never notices."
        => "The job has failed at once, with the signal, and its waiter returns.",
        killed_by_a_signal;
    "ouroboros-100" OUROBOROS_100 From010 Nothing [37, 65]
        "The user interrupts the client, and the execution stays `running` until the database is edited by hand."
        => "The client is interrupted: the job is known, and `cancel` ends it.",
        client_is_interrupted;
    "taipy-274" TAIPY_CORE_274 From010 Nothing [14]
        "Cancelling a job does not end its subprocess."
        => "The subprocess, in a session of its own, is gone by its pid.",
        cancel::child_in_its_own_session;
}

fn left_by_an_exit(home: &Home) -> Seen {
    let job = home.start("", "sleep 1000 & echo $! > $PLACE/child; exit 0")?;
    let child = home.pid_in("child")?;
    let shown = home.ended(&job)?;
    let alive = is_alive(child);
    held_if(!alive && shown["outcome"] == "completed", format!("child alive after the end: {alive}"))
}

fn busy_loops(home: &Home) -> Seen {
    let script = "for i in 1 2 3; do (while :; do :; done) & echo $! >> $PLACE/loops; done; kill $(jobs -p | grep x); exit 0";
    let job = home.start("--grace 1s", script)?;
    home.ended(&job)?;
    let file = home.work("loops");
    let pids = fs::read_to_string(&file).map_err(|error| error.to_string())?;
    let pids: Vec<i32> = pids.lines().filter_map(|line| line.parse().ok()).collect();
    let alive = pids.iter().filter(|pid| is_alive(**pid)).count();
    held_if(pids.len() == 3 && alive == 0, format!("{} loops, {alive} alive after the end", pids.len()))
}

fn shell_is_reaped(home: &Home) -> Seen {
    let script = "$LASTWORD run --name reaped -- sh -c 'echo started; while [ ! -e $PLACE/go ]; do sleep 0.01; done; exit 3'; true";
    let mut command = home.command("sh");
    let shell = command.args(["-c", script]).process_group(0).spawn();
    let mut shell = shell.map_err(|error| error.to_string())?;
    let leader = until("the job runs", || home.leader("reaped").ok())?;
    // SAFETY: the group of the shell that was just started.
    unsafe { libc::killpg(shell.id() as i32, libc::SIGKILL) };
    let _ = shell.wait();
    let lives = is_alive(leader);
    fs::write(home.work("go"), "").map_err(|error| error.to_string())?;
    let shown = home.ended_soon("reaped")?;
    let exit = &shown["attempts"][0]["exit"]["code"];
    held_if(lives && exit == 3, format!("the job outlives the shell: {lives}; exit {exit}"))
}

fn daemonized_child(home: &Home) -> Seen {
    let daemon = "exec < /dev/null > /dev/null 2>&1; (echo $(exec sh -c 'echo $PPID') > $PLACE/child; exec sleep 1000) & exit";
    fs::write(home.work("daemon.sh"), daemon).map_err(|error| error.to_string())?;
    let job = home.start("--grace 1s", "setsid sh $PLACE/daemon.sh; sleep 1000")?;
    let child = home.pid_in("child")?;
    let lived = is_alive(child);
    home.run(&["cancel", &job])?;
    let alive = is_alive(child);
    held_if(lived && !alive, format!("alive before: {lived}, after: {alive}"))
}

fn retried_after_a_crash(home: &Home) -> Seen {
    let job = reads::all_killed(home)?;
    let shown = home.ended_soon(&job)?;
    let retried = home.ok(&["retry", "-d", &job])?;
    let leader = home.leader(&retried)?;
    held_if(shown["outcome"] == "lost" && is_alive(leader), format!("{}; the retry runs", shown["outcome"]))
}

fn killed_by_a_signal(home: &Home) -> Seen {
    let job = home.start("", "exec sleep 1000")?;
    let leader = home.leader(&job)?;
    let mut waiter = home.follow(&["wait", &job])?;
    signal(leader, libc::SIGKILL);
    let (code, shown) = (waiter.ends(), home.ended_soon(&job)?);
    let exit = &shown["attempts"][0]["exit"]["signal"];
    let is_held = code == Some(1) && shown["outcome"] == "failed" && !exit.is_null();
    held_if(is_held, format!("wait exits with {code:?}; {} by signal {exit}", shown["outcome"]))
}

fn client_is_interrupted(home: &Home) -> Seen {
    let mut client = home.follow(&["run", "--name", "left", "--", "sh", "-c", "echo started; sleep 1000"])?;
    until("it prints", || client.printed().contains("started").then_some(()))?;
    let leader = home.leader("left")?;
    client.signal(libc::SIGINT);
    client.ends();
    let known = home.show("left")?["phase"] == "running" && is_alive(leader);
    home.ok(&["cancel", "left"])?;
    let left = home.json(&["ls"])?["items"].as_array().map_or(0, Vec::len);
    held_if(
        known && !is_alive(leader) && left == 0,
        format!("known after the interrupt: {known}; {left} left running"),
    )
}
