//! Output of jobs that run on a worker, as commands at the server show it: while they run, after their end, and while the worker is away.

use crate::fleet::{Database, Member, run_line};
use crate::home::{Home, until};

const WORKER: [&str; 5] = ["worker", "--slots", "4", "--lease", "3s"];

/// Starts a server and a worker.
fn fleet() -> (Database, Member, Member) {
    let database = Database::start();
    let server = database.serve();
    let home = Home::empty();
    run_line(&home, &server.home.ok(&["fleet", "add", "ann"]));
    let worker = Member::start(home, &WORKER);
    (database, server, worker)
}

#[test]
fn output_of_a_worker_is_followed_live_and_read_again() {
    let (_database, server, _worker) = fleet();
    let home = &server.home;
    let go = home.path().join("go");
    let wait = format!("while [ ! -e {} ]; do sleep 0.01; done", go.display());
    let id = home.start(&format!("echo one; {wait}; echo two; echo three >&2"));
    let (following, attached) = (home.spawn(&["logs", "-f", &id]), home.spawn(&["attach", &id]));
    following.until_printed("one\n");
    attached.until_printed("one\n");
    assert_eq!(home.run(&["logs", &id]).stdout, "one\n");
    assert!(home.ok(&["show", &id]).contains("one"));
    std::fs::write(&go, "").unwrap();
    let followed = following.end();
    assert_eq!((followed.code, followed.stdout.as_str()), (0, "one\ntwo\n"), "{followed:?}");
    assert!(followed.stderr.contains("three\n"), "{followed:?}");
    assert_eq!(attached.end().stdout, "one\ntwo\n");
    assert_eq!(home.run(&["logs", &id, "-n", "1", "--stdout"]).stdout, "two\n");
    assert_eq!(home.ok(&["result", &id]), "one\ntwo");

    // In the foreground, with more than one answer carries.
    let ran = home.run(&["run", "sh", "-c", "seq 1 200000; exit 3"]);
    let expected: String = (1..=200_000).map(|n| format!("{n}\n")).collect();
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(ran.stdout == expected, "{} bytes of {}", ran.stdout.len(), expected.len());
}

#[test]
fn a_stop_shows_the_processes_that_are_alive_on_a_worker() {
    let (_database, server, _worker) = fleet();
    let home = &server.home;
    let script = "trap '' TERM INT; echo $$; while :; do sleep 0.1; done";
    let id = home.ok(&["run", "-d", "--grace", "1h", "sh", "-c", script]);
    let pids = home.pids_of(&id, 1);
    let cancelling = home.spawn(&["cancel", &id]);
    until("its processes are shown", || {
        let job = home.json(&["show", &id]);
        let shown = job["stop"]["pids"].as_array()?.contains(&pids[0].into());
        shown.then_some(())
    });
    home.ok(&["cancel", "--force", &id]);
    cancelling.end();
}

#[test]
fn output_of_a_worker_that_is_away_is_never_called_empty() {
    let (_database, server, mut worker) = fleet();
    let home = &server.home;
    let id = home.start("echo one; sleep 1000");
    let following = home.spawn(&["logs", "-f", &id]);
    following.until_printed("one\n");
    worker.kill();
    // The first words depend on whether its life is over by then.
    let away = until("it is away", || {
        let output = home.run(&["logs", &id]);
        (output.code != 0).then_some(output)
    });
    assert_eq!((away.code, away.stdout.as_str()), (125, ""), "{away:?}");
    assert!(away.stderr.contains("is on the host of worker ann"), "{away:?}");
    // A command that stays waits for it, also one that begins while it is away.
    let attached = home.spawn(&["attach", &id]);
    // Its keeper ends the tree, and the server says so. Who follows is told both.
    let ended = home.until_phase(&id, "ended");
    assert_eq!(ended["outcome"], "lost", "{ended}");
    let followed = following.end();
    assert_eq!((followed.code, followed.stdout.as_str()), (0, "one\n"), "{followed:?}");
    assert_eq!(followed.stderr.matches("is on the host of worker ann").count(), 1, "{followed:?}");
    let attached = attached.end();
    assert_eq!((attached.code, attached.stdout.as_str()), (1, ""), "{attached:?}");
    assert_eq!(attached.stderr.matches("waiting: the output of").count(), 1, "{attached:?}");
    let words = "is on the host of worker ann, which has been away since 20";
    let logs = home.run(&["logs", &id]);
    assert!(logs.code == 125 && logs.stderr.contains(words), "{logs:?}");
    assert!(logs.stderr.contains("it can be read when that is back"), "{logs:?}");
    let result = home.run(&["result", &id]);
    assert_eq!((result.code, result.stdout.as_str()), (0, ""), "{result:?}");
    assert!(result.stderr.contains(words) && result.stderr.contains("lost"), "{result:?}");
    assert!(home.json(&["result", &id])["text_away"].as_str().unwrap().contains(words));
    let shown = home.ok(&["show", &id]);
    assert!(shown.contains("cannot be read: the output of"), "{shown}");

    // It comes back, with its files.
    worker.start_again(&WORKER);
    until("it is back", || (home.run(&["logs", &id]).stdout == "one\n").then_some(()));
    assert_eq!(home.ok(&["result", &id]), "one");
}
