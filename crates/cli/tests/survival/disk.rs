//! Stored data that cannot be read or written.

use crate::home::{CommandOutput, Home, delete, is_alive, until};

/// Checks that a command failed with our own error, which names the file.
fn is_refused(output: &CommandOutput, names: &str) {
    assert_eq!(output.code, 125, "{}{}", output.out, output.err);
    assert!(output.err.contains(names), "it names the file: {}", output.err);
}

#[test]
fn c43_a_damaged_journal_is_reported_and_not_changed() {
    type Damage = fn(&mut Vec<u8>);
    let damages: [(&str, Damage); 3] = [
        ("garbage", |bytes| bytes[..4096].fill(0x5a)),
        ("cut off", |bytes| bytes.truncate(100)),
        ("empty", Vec::clear),
    ];
    for (what, damage) in damages {
        let home = Home::new();
        home.ok(&["run", "--", "true"]);
        home.ok(&["daemon", "stop"]);
        let journal = home.state().join("journal.db");
        let mut bytes = std::fs::read(&journal).unwrap();
        damage(&mut bytes);
        std::fs::write(&journal, &bytes).unwrap();
        for command in [&["ls", "-a"][..], &["run", "--", "true"], &["daemon", "start"]] {
            is_refused(&home.run(command), "journal.db");
        }
        assert_eq!(std::fs::read(&journal).unwrap(), bytes, "a journal that is {what} is not changed");
    }
}

#[test]
fn c43_a_journal_whose_file_vanished_is_not_replaced_by_a_new_one() {
    let home = Home::new();
    home.ok(&["run", "--", "true"]);
    // Killed, so that the writes are still in the write-ahead log.
    home.kill_daemon();
    let (journal, log) = (home.state().join("journal.db"), home.state().join("journal.db-wal"));
    assert!(std::fs::metadata(&log).is_ok_and(|found| found.len() > 0), "the log is there");
    std::fs::remove_file(&journal).unwrap();
    is_refused(&home.run(&["ls", "-a"]), "journal.db");
    assert!(!journal.exists());
}

#[test]
fn c3_a_journal_deleted_under_its_daemon_acknowledges_nothing_and_its_trees_are_found() {
    let home = Home::new();
    let (job, other) = (home.start("sleep 100"), home.start("sleep 100"));
    let (leader, left) = (home.leader(&job), home.leader(&other));
    // Settled: nothing is being written when the files go away.
    home.ok(&["ls"]);
    for name in ["journal.db", "journal.db-wal", "journal.db-shm"] {
        std::fs::remove_file(home.state().join(name)).unwrap();
    }
    is_refused(&home.run(&["run", "-d", "--", "sleep", "100"]), "journal.db");
    // Whatever it can say: the journal may have been written at the very moment when it was deleted.
    home.run(&["cancel", "--no-wait", &job]);
    until("its keeper stops it", || !is_alive(leader));
    home.ok(&["daemon", "restart"]);
    let troubles = home.json(&["daemon", "status"])["troubles"].to_string();
    assert!(troubles.contains("it was deleted, or an older copy was put in its place"), "{troubles}");
    let trees = home.json(&["doctor", "--trees"]);
    assert_eq!(trees["items"].as_array().unwrap().len(), 1, "{trees}");
    assert_eq!((&trees["items"][0]["job"], &trees["items"][0]["pid"]), (&other.into(), &left.into()));
    assert!(is_alive(left), "it is only listed");
    let stopped = home.json(&["doctor", "--trees", "--stop"]);
    assert_eq!(stopped["items"][0]["stopped"], true, "{stopped}");
    assert!(!is_alive(left));
    assert_eq!(home.json(&["doctor", "--trees"])["items"].as_array().map(Vec::len), Some(0));
}

#[test]
fn c3_an_older_journal_put_in_the_place_of_a_newer_one_is_reported() {
    let home = Home::new();
    home.ok(&["run", "--", "true"]);
    home.ok(&["daemon", "stop"]);
    let (journal, backup) = (home.state().join("journal.db"), home.path("backup"));
    std::fs::copy(&journal, &backup).unwrap();
    let since = home.start("sleep 100");
    let leader = home.leader(&since);
    home.ok(&["daemon", "stop"]);
    std::fs::copy(&backup, &journal).unwrap();
    let _ = std::fs::remove_file(home.state().join("journal.db-wal"));
    home.ok(&["ls"]);
    let mut troubles = String::new();
    until("the daemon has looked for trees", || {
        troubles = home.json(&["daemon", "status"])["troubles"].to_string();
        troubles.contains("1 process tree runs without a job")
    });
    assert!(troubles.contains("an older copy was put in its place"), "{troubles}");
    let checks = home.json(&["doctor"]);
    let checks = checks["items"].as_array().unwrap();
    assert!(checks.iter().any(|check| check["id"] == "trees" && check["status"] == "warn"), "{checks:?}");
    home.ok(&["doctor", "--trees", "--stop"]);
    assert!(!is_alive(leader));
}

#[test]
fn c44_a_daemon_whose_state_folder_was_moved_or_deleted_leaves_it_to_the_next() {
    let home = Home::new();
    let job = home.start("sleep 100");
    let leader = home.leader(&job);
    let before = home.daemon();
    let elsewhere = home.path("elsewhere");
    std::fs::rename(home.state(), &elsewhere).unwrap();
    until("its daemon is gone", || !is_alive(before));
    assert!(!home.state().exists(), "it has left nothing there");
    std::fs::rename(&elsewhere, home.state()).unwrap();
    assert_eq!(home.leader(&job), leader, "the next daemon has it");
    let before = home.daemon();
    delete(&home.state());
    until("its daemon is gone", || !is_alive(before));
    assert!(is_alive(leader));
    // Its keeper may have made it again already, because another daemon asked for that.
    std::fs::create_dir_all(home.state()).unwrap();
    home.make_private();
    home.ok(&["doctor", "--trees", "--stop"]);
    assert!(!is_alive(leader), "its keeper made its folder again");
}

#[test]
fn a_read_only_state_folder_is_named() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: a read-only mount needs root");
    }
    let home = Home::new();
    home.ok(&["run", "--", "true"]);
    home.ok(&["daemon", "stop"]);
    let script = "mount --bind \"$LASTWORD_HOME\" \"$LASTWORD_HOME\"\n\
                  mount -o remount,ro,bind \"$LASTWORD_HOME\"\n\
                  exec \"$LASTWORD\" run -- true";
    let output = CommandOutput::of(home.shell_apart(script).output().unwrap());
    is_refused(&output, home.state().to_str().unwrap());
    assert!(output.err.to_lowercase().contains("read-only"), "{}", output.err);
    assert_eq!(home.json(&["ls", "-a"])["items"].as_array().map(Vec::len), Some(1), "nothing was lost");
}

#[test]
fn c42_a_full_disk_refuses_new_jobs_and_loses_no_accepted_ones() {
    let Some(home) = Home::on_small_disk(24 << 20) else {
        return println!("skipped: mounting a file system needs root");
    };
    let ready = home.path("go");
    let job = home.start(&format!("while [ ! -e {} ]; do sleep 0.01; done; exit 7", ready.display()));
    let stopped = home.start("sleep 100");
    let (leader, other) = (home.leader(&job), home.leader(&stopped));
    let ballast = home.state().join("ballast");
    fill(&ballast);
    let refused = home.run(&["run", "-d", "--", "true"]);
    assert_eq!(refused.code, 125, "{}{}", refused.out, refused.err);
    // The running job continues, and ends while nothing can be written.
    assert!(is_alive(leader));
    std::fs::write(&ready, "").unwrap();
    until("the leader is gone", || !is_alive(leader));
    let output = home.run(&["cancel", &stopped, "--force", "--timeout=1s"]);
    assert_ne!(
        output.code, 0,
        "a stop that cannot be recorded is not reported as done: {}{}",
        output.out, output.err
    );
    std::fs::remove_file(&ballast).unwrap();
    assert_eq!(home.run(&["wait", &job]).code, 1);
    assert_eq!(home.show(&job)["attempts"][0]["exit"]["code"], 7);
    home.run(&["cancel", &stopped, "--force"]);
    assert_eq!(home.run(&["wait", &stopped]).code, 3);
    assert!(!is_alive(other));
    home.ok(&["run", "--", "true"]);
}

#[test]
fn a_job_that_fills_the_disk_can_be_stopped_even_by_a_new_daemon() {
    let Some(home) = Home::on_small_disk(24 << 20) else {
        return println!("skipped: mounting a file system needs root");
    };
    let (one, two) = (home.start("trap '' TERM; sleep 100"), home.start("sleep 100"));
    let leaders = [home.leader(&one), home.leader(&two)];
    let ballast = home.state().join("ballast");
    fill(&ballast);
    // The request is durable and the tree is stopped; only its exit record does not fit, so the job has not ended.
    let output = home.run(&["cancel", &one, "--force", "--timeout=100ms"]);
    assert_eq!(output.code, 124, "{}{}", output.out, output.err);
    until("the first is gone", || !is_alive(leaders[0]));
    home.kill_daemon();
    let output = home.run(&["ls"]);
    assert_eq!(output.code, 0, "{}{}", output.out, output.err);
    let output = home.run(&["cancel", &two, "--force", "--timeout=100ms"]);
    assert_eq!(output.code, 124, "{}{}", output.out, output.err);
    until("the second is gone", || !is_alive(leaders[1]));
    std::fs::remove_file(&ballast).unwrap();
    for job in [&one, &two] {
        assert_eq!(home.run(&["wait", job]).code, 3);
    }
}

/// Keeps the journal from being written, as a full or read-only disk does, until it is dropped.
struct WriteLock(std::process::Child);

impl WriteLock {
    fn take(home: &Home) -> WriteLock {
        use std::io::{BufRead as _, BufReader};
        let script = "import sqlite3, sys\n\
                      journal = sqlite3.connect(sys.argv[1], isolation_level=None)\n\
                      journal.execute('BEGIN IMMEDIATE')\n\
                      print('held', flush=True)\n\
                      sys.stdin.read()";
        let mut holder = std::process::Command::new("python3")
            .args(["-c", script])
            .arg(home.state().join("journal.db"))
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "held\n");
        WriteLock(holder)
    }
}

impl Drop for WriteLock {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

#[test]
fn c85_a_cancel_lands_although_the_journal_cannot_be_written() {
    let home = Home::new();
    let polite =
        home.start_with(&["--name=polite", "--retry=3"], "trap 'exit 9' TERM; while :; do sleep 0.01; done");
    let deaf = home.start_with(&["--name=deaf"], "trap '' TERM; while :; do sleep 0.01; done");
    let leaders = [home.leader(&polite), home.leader(&deaf)];
    let lock = WriteLock::take(&home);
    let asked = home.run(&["cancel", "polite", "--no-wait", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&asked.out).unwrap();
    assert_eq!(
        (asked.code, &shown["items"][0]["stop"]["held_in"]),
        (124, &"disk".into()),
        "{}{}",
        asked.out,
        asked.err
    );
    until("the first is gone", || !is_alive(leaders[0]));
    let forced = home.run(&["cancel", "deaf", "--force", "--timeout=100ms"]);
    assert_eq!(forced.code, 124, "its end is not recorded yet: {}{}", forced.out, forced.err);
    assert!(forced.err.contains("the keeper of deaf ("), "{}", forced.err);
    until("the second is gone", || !is_alive(leaders[1]));
    for job in ["polite", "deaf"] {
        assert_eq!(home.show(job)["phase"], "running", "nothing is said to have ended that is not recorded");
    }
    drop(lock);
    for job in [&polite, &deaf] {
        assert_eq!(home.run(&["wait", job]).code, 3);
        let shown = home.show(job);
        assert_eq!((&shown["outcome"], &shown["cause"]), (&"cancelled".into(), &"user".into()));
        assert_eq!(shown["attempts"].as_array().map(Vec::len), Some(1), "a cancelled job is not retried");
        assert_eq!(shown["attempts"][0]["receipt"]["keeper_stop"], "local_cancel");
    }
}

#[test]
fn c85_a_cancel_lands_although_no_daemon_can_start() {
    let home = Home::new();
    let [one, two, three] = ["one", "two", "three"]
        .map(|name| home.start_with(&["--name", name, "--grace=200ms"], "while :; do sleep 0.01; done"));
    let leaders = [&one, &two, &three].map(|job| home.leader(job));
    home.kill_daemon();
    // A daemon that cannot start answers for no tree, so those with a job are listed, too; they are not stopped.
    // Its other threads may outlive the main one for a moment, and it counts as running as long.
    until("the trees are listed", || {
        let listed = home.json(&["doctor", "--trees", "--stop"]);
        listed["items"].as_array().unwrap().iter().filter(|tree| tree["has_job"] == true).count() == 3
    });
    assert_eq!(leaders.map(is_alive), [true; 3]);
    let files = ["journal.db", "journal.db-wal"].map(|name| home.state().join(name));
    let whole = files.each_ref().map(|file| std::fs::read(file).unwrap());
    for file in &files {
        std::fs::write(file, [0x5a; 8192]).unwrap();
    }
    let listed = home.run(&["doctor", "--trees"]);
    assert!([&one, &two, &three].iter().all(|id| listed.out.contains(*id)), "{}{}", listed.out, listed.err);
    assert!(listed.err.contains("lastword cancel ID"), "{}", listed.err);
    assert_eq!(home.run(&["doctor", "--trees", "--stop"]).code, 125, "they may have jobs");
    let unnamed = home.run(&["cancel", "one"]);
    assert_eq!(unnamed.code, 125, "names are in the journal: {}", unnamed.err);
    assert!(unnamed.err.contains("lastword doctor --trees"), "{}", unnamed.err);
    let asked = home.run(&["cancel", &one[one.len() - 8..]]);
    assert_eq!(asked.code, 124, "its ending is not recorded yet: {}{}", asked.out, asked.err);
    assert!(asked.err.contains("no process of it is left"), "{}", asked.err);
    assert_eq!(leaders.map(is_alive), [false, true, true]);
    let asked = home.run(&["cancel", "--all"]);
    assert_eq!(asked.code, 124, "{}{}", asked.out, asked.err);
    assert_eq!(leaders.map(is_alive), [false; 3]);
    for (file, bytes) in files.iter().zip(&whole) {
        std::fs::write(file, bytes).unwrap();
    }
    for job in [&one, &two, &three] {
        let shown = home.show(job);
        assert_eq!((&shown["outcome"], &shown["cause"]), (&"cancelled".into(), &"user".into()), "{shown}");
    }
}

/// Fills the disk.
fn fill(file: &std::path::Path) {
    use std::io::Write as _;
    let mut ballast = std::fs::File::create(file).unwrap();
    for size in [1 << 20, 1 << 12, 1] {
        let block = vec![0x5a; size];
        while ballast.write_all(&block).is_ok() {}
    }
}
