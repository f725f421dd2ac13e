//! Jobs that ended before the upgrade: every outcome, with and without a stop.

use super::row::{Row, Wrote, agent, command, run};

pub(super) fn rows() -> Vec<Row> {
    let mut rows = commands();
    for dialect in ["acp", "claude", "codex"] {
        rows.extend(of_dialect(dialect));
    }
    rows
}

fn commands() -> Vec<Row> {
    vec![
        run("done", "-l team=a -l kind=short --priority 3", "echo hello; echo oops >&2")
            .ended("completed")
            .wrote(Wrote::Text("hello\n")),
        run("done-read", "", "echo read me").old("wait {}").old("result {}").ended("completed"),
        run("failed", "", "echo trouble >&2; exit 7").ended("failed").with("/attempts/0/exit/code=7"),
        run("signalled", "", "kill -SEGV $$").ended("failed").with("/attempts/0/exit/signal=11"),
        command("missing", "run -d --name missing -- /nonexistent/program").ended("failed").starts(0),
        run("cancelled", "", "hold")
            .old("started")
            .old("cancel {}")
            .ended("cancelled")
            .with("/stop/rung=term"),
        run("killed", "--grace 100ms", "trap '' TERM; setsid sleep 1000 & ready; hold")
            .old("ready")
            .old("cancel {}")
            .ended("cancelled")
            .with("/stop/rung=kill"),
        run("never", "--delay 1h", "").old("cancel {}").ended("cancelled").starts(0),
        run("late", "", "hold")
            .old("started")
            .old("limit {} wall=1ms")
            .ended("timed_out")
            .with("/outcome_detail=deadline"),
        run("silent", "", "hold")
            .old("started")
            .old("limit {} stall=100ms")
            .ended("timed_out")
            .with("/outcome_detail=stall"),
        run("loud", "--output-max 1000", "yes | head -c 100000; hold")
            .ended("over_budget")
            .with("/outcome_detail=output"),
        run("held-raised", "--output-max 1000 --ask-at-limit 1h", "yes | head -c 3000; hold")
            .old("until /paused/limit=output")
            .old("limit {} output=10000")
            .old("go")
            .ended("completed")
            .wrote(Wrote::Bytes(3000)),
        // More output than is kept: the middle is dropped.
        run("big", "", "head -c 20000000 /dev/zero | tr '\\0' x")
            .ended("completed")
            .wrote(Wrote::Bytes(20_000_000)),
        run("lost", "", "hold").old("started").old("lose").ended("lost"),
        run("retried", "--retry 1 --backoff 1ms", "exit 3")
            .ended("failed")
            .starts(2)
            .with("/attempts/1/exit/code=3"),
        run("skipped", "--after {failed}", "").ended("cancelled").starts(0),
        run("in-turn", "--after {failed}:any --after {done}", "").ended("completed"),
        command("again", "retry -d {failed}").ended("failed").with("/attempts/0/exit/code=7"),
        // The new executable applies the changes of this one.
        run("tree-kept", "--worktree", "echo kept > kept").ended("completed").then(&["diff {}", "apply {}"]),
        run("tree-applied", "--worktree", "echo applied > applied")
            .old("wait {}")
            .old("apply {}")
            .ended("completed"),
        run("tree-clean", "--worktree", "true").ended("completed").with("/worktree/present=false"),
        agent("plain-done", "plain", "", "good morning").ended("completed").with("/session=null"),
        agent("once-done", "once", "", "good morning")
            .ended("completed")
            .with("/session/turns/0/ending=completed"),
        // Made by the new executable out of the ones above.
        command("done-again", "retry -d {done}").after().wrote(Wrote::Text("hello\n")),
        run("after-both", "--after {done} --after {failed}:any", "").after(),
    ]
}

fn of_dialect(dialect: &str) -> Vec<Row> {
    let name = |what: &str| format!("{dialect}-{what}");
    let one = |what: &str, prompt: &str| agent(&name(what), dialect, "", prompt);
    let mut rows = vec![
        one("done", "hello; spend 10")
            .ended("completed")
            .with("/session/turns/0/ending=completed")
            .heard(&["prompt hello; spend 10"]),
        one("failed", "fail out of luck").ended("failed").with("/session/turns/0/ending=failed"),
        one("refused", "ask make clean; hello")
            .old("until /session/questions/0/id=ask-1")
            .old("deny {} no")
            .ended("completed")
            .heard(&["prompt ask make clean; hello", "ask-1 deny"]),
        one("turned", "count")
            .old("until /session/active_turn=1")
            .old("send {} again")
            .old("interrupt {}")
            .ended("completed")
            .with("/session/turns/0/ending=interrupted")
            .with("/session/turns/1/ending=completed")
            .heard(&["prompt count", "interrupt", "prompt again"]),
        command(&name("resumed"), &format!("resume -d {{{dialect}-done}} hello"))
            .old("wait {}")
            .ended("completed")
            .heard(&["prompt hello"]),
        // Resumes a conversation that 0.1.0 had resumed already.
        command(&name("third"), &format!("resume -d {{{dialect}-resumed}} and again"))
            .after()
            .heard(&["prompt and again"]),
    ];
    if dialect == "claude" {
        rows.push(one("background", "tasks 1; hello; tasks 0").ended("completed"));
    }
    if dialect != "acp" {
        rows.push(one("withdrawn", "withdraw make test; hello").ended("completed"));
        rows.push(
            agent(&name("spent"), dialect, "--tokens 1000", "spend 900; spend 200; count")
                .ended("over_budget")
                .with("/outcome_detail=tokens"),
        );
    }
    rows
}
