//! Plain commands that are live at the takeover.

use super::row::{Row, Wrote, run, special};

pub(super) fn rows(clock: &str) -> Vec<Row> {
    let counting = (1..=6).map(|no| {
        run(&format!("count-{no}"), "-l team=b", "count")
            .is("/limits/wall_ms=10800000")
            .then(&["go"])
            .wrote(Wrote::Counted)
    });
    counting.chain(running()).chain(limited(clock)).chain(stopping(clock)).chain(waiting(clock)).collect()
}

fn running() -> Vec<Row> {
    vec![
        run("both", "", "count >&2 & count; wait; exit 7")
            .then(&["go"])
            .ends("failed")
            .with("/attempts/0/exit/code=7")
            .wrote(Wrote::Counted),
        run("reads", "-i", r#"while read -r line; do echo "got $line"; done; exit 5"#)
            .old("send {} one")
            .is("/inputs_waiting=0")
            .then(&["send {} two", "send {} --eof"])
            .ends("failed")
            .with("/attempts/0/exit/code=5")
            .wrote(Wrote::Text("got one\ngot two\n")),
        run("terminal", "-t", r#"stty -echo -onlcr; hold; read -r line; echo "got $line""#)
            .then(&["go", "send {} one"])
            .wrote(Wrote::Text("got one\n")),
        run("signals-itself", "", "count; kill -SEGV $$")
            .then(&["go"])
            .ends("failed")
            .with("/attempts/0/exit/signal=11")
            .wrote(Wrote::Counted),
        // Leaves a process behind, which is killed when the leader exits.
        run("leaves", "", "setsid sleep 1000 & count").then(&["go"]).wrote(Wrote::Counted),
        run("quiet", "", "hold")
            .then(&["cancel {}"])
            .ends("cancelled")
            .with("/stop/rung=term")
            .with("/attempts/0/receipt/certain=true"),
        run("stubborn", "--grace 500ms", "trap '' TERM; setsid sleep 1000 & hold")
            .then(&["cancel {}"])
            .ends("cancelled")
            .with("/stop/rung=kill")
            .with("/attempts/0/receipt/certain=true"),
        run("forced", "--grace 1h", "trap '' TERM; hold").then(&["kill {}"]).ends("cancelled"),
        // Submits another job from inside.
        run(
            "parent",
            "",
            r#"JOB=child "$LASTWORD" run -d --name child -- sh -c '. "$PLACE/job.sh"; count'; hold"#,
        )
        .then(&["go child", "wait {child}", "go"]),
        special("child").wrote(Wrote::Counted),
        // Submitted with an idempotency key, which is used again after the upgrade.
        special("keyed").then(&["go"]).wrote(Wrote::Counted),
        // A client of 0.1.0 stays attached to it throughout.
        special("attached")
            .then(&["go"])
            .ends("failed")
            .with("/attempts/0/exit/code=4")
            .wrote(Wrote::Counted),
        run("second-try", "--retry 1 --backoff 1ms", r#"[ "$LASTWORD_ATTEMPT" = 2 ] || exit 3; count"#)
            .is("/attempts/1/no=2")
            .then(&["go"])
            .starts(2)
            .wrote(Wrote::Counted),
        run("tree-live", "--worktree", "count; echo live > live")
            .then(&["go", "wait {}", "diff {}", "apply {}"]),
        // These end while no daemon runs.
        run("gap-fails", "", "count; exit 9")
            .gap("go")
            .ends("failed")
            .with("/attempts/0/exit/code=9")
            .wrote(Wrote::Counted),
        run("gap-lost", "", "hold").gap("lose").ends("lost"),
    ]
}

fn limited(clock: &str) -> Vec<Row> {
    let for_clock = |flag: &str| format!("{flag} {clock}");
    vec![
        run("wall-raised", "--wall 30s", "hold")
            .old("limit {} wall=2h")
            .is("/limits/wall_ms=7200000")
            .then(&["limit {} wall=1h", "until /limits/wall_ms=3600000", "go"]),
        run("output", "--output-max 50000", "count; yes | head -c 100000; sleep 1000")
            .then(&["go"])
            .ends("over_budget")
            .with("/outcome_detail=output"),
        run("held", "--output-max 1000 --ask-at-limit 1h", "yes | head -c 3000; hold")
            .is("/paused/limit=output")
            .then(&["limit {} output=1000000", "until /paused=null", "go"])
            .wrote(Wrote::Bytes(3000)),
        run("held-cancelled", "--output-max 1000 --ask-at-limit 1h", "yes | head -c 3000; hold")
            .is("/paused/limit=output")
            .then(&["cancel {}"])
            .ends("cancelled"),
        run(
            "held-expires",
            &format!("--output-max 1000 {}", for_clock("--ask-at-limit")),
            "yes | head -c 3000; hold",
        )
        .is("/paused/limit=output")
        .timed()
        .ends("over_budget")
        .with("/outcome_detail=output"),
        run("wall", &for_clock("--wall"), "count")
            .stopped_by_clock()
            .ends("timed_out")
            .with("/outcome_detail=deadline"),
        run("stall", &for_clock("--stall"), "echo silent from now on; hold")
            .stopped_by_clock()
            .ends("timed_out")
            .with("/outcome_detail=stall"),
    ]
}

fn stopping(clock: &str) -> Vec<Row> {
    vec![
        run("stopping", &format!("--grace {clock}"), "trap '' TERM; ready; hold")
            .old("ready")
            .old("stop")
            .phase("stopping")
            .timed()
            .ends("cancelled")
            .with("/stop/rung=kill"),
        run("stopping-forced", "--grace 1h", "trap '' TERM; ready; hold")
            .old("ready")
            .old("stop")
            .phase("stopping")
            .then(&["kill {}"])
            .ends("cancelled"),
        run("stopping-late", "--grace 1h", "trap '' TERM; ready; hold")
            .old("ready")
            .old("limit {} wall=1ms")
            .phase("stopping")
            .then(&["kill {}"])
            .ends("timed_out"),
    ]
}

fn waiting(clock: &str) -> Vec<Row> {
    vec![
        // One slot: they run one at a time, the third before the second.
        run("lane-1", "-g lane", "mark lane; hold").then(&["go"]),
        run("lane-2", "-g lane", "mark lane; count").waits("slot").then(&["go"]),
        run("lane-3", "-g lane --priority 5", "mark lane; count").waits("slot").then(&["go"]),
        run("lane-tree", "-g lane --worktree", "mark lane; echo queued > queued")
            .waits("slot")
            .then(&["wait {}", "apply {}"]),
        // A paused group.
        run("shut-1", "-g shut", "mark shut").waits("paused"),
        run("shut-2", "-g shut", "mark shut").waits("paused").then(&["group resume shut"]),
        run("after", "--after {count-1}", "echo went").waits("dependencies").wrote(Wrote::Text("went\n")),
        run("after-after", "--after {after}", "").waits("dependencies"),
        run("after-failed", "--after {both}", "").waits("dependencies").ends("cancelled").starts(0),
        run("after-any", "--after {both}:any", "").waits("dependencies"),
        run("after-gap", "--after {gap-fails}:any", "").waits("dependencies").changes_in_gap(),
        run("after-met", "--after {done}", "count").then(&["go"]).wrote(Wrote::Counted),
        run("in-an-hour", "--delay 1h", "").waits("time").then(&["cancel {}"]).ends("cancelled").starts(0),
        run("delayed", &format!("--delay {clock}"), "").waits("time").timed(),
        run("backoff-hour", "--retry 1 --backoff 1h", "exit 3")
            .phase("backoff")
            .then(&["cancel {}"])
            .ends("cancelled"),
        run(
            "backoff",
            &format!("--retry 1 --backoff {clock}"),
            r#"echo "attempt $LASTWORD_ATTEMPT"; [ "$LASTWORD_ATTEMPT" = 2 ]"#,
        )
        .phase("backoff")
        .timed()
        .starts(2)
        .wrote(Wrote::Text("attempt 2\n")),
    ]
}
