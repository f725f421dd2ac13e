//! A job against its supervisor: it signals, and it gets into the processes that hold it. And what any other process of the user can do
//! to those: that is not refused, and must do no harm.

use lastword_proc::Identity;
use serde_json::Value;

use super::attempt::{Attempt, Ends};
use super::bug::Bug;
use super::setup::{Home, LOOK, OWNER, PATIENCE, Setup, says};
use super::transport::daemon;
use crate::clock;
use crate::product::figures::{self, Stat};
use crate::torture::container::Container;

#[rustfmt::skip] // One row, one attempt.
pub(super) const ATTEMPTS: &[Attempt] = &[
    Attempt { item: 9, what: "a job kills its keeper, and everybody above that", ends: Ends::Refused, make: kill_above },
    Attempt { item: 9, what: "a job kills the keepers of another, the nursery and the daemon, by number", ends: Ends::Refused, make: kill_by_number },
    Attempt { item: 9, what: "a job kills them by group", ends: Ends::Refused, make: kill_by_group },
    Attempt { item: 9, what: "a job kills whoever has their names", ends: Ends::Refused, make: kill_by_name },
    Attempt { item: 9, what: "a job kills everybody it can: kill -1", ends: Ends::Survived, make: kill_everybody },
    Attempt { item: 9, what: "a process outside of jobs kills a shim", ends: Ends::Survived, make: lose_shim },
    Attempt { item: 9, what: "a process outside of jobs kills a guard", ends: Ends::Survived, make: lose_guard },
    Attempt { item: 9, what: "a process outside of jobs kills guard and shim", ends: Ends::Survived, make: lose_both },
    Attempt { item: 9, what: "a process outside of jobs kills the daemon", ends: Ends::Survived, make: lose_daemon },
    Attempt { item: 12, what: "a job gets into shim, guard, nursery or daemon: ptrace, mem, environ, fd", ends: Ends::Refused, make: peek_from_inside },
    Attempt { item: 12, what: "a process outside of jobs gets into them", ends: Ends::Refused, make: peek_from_outside },
    Attempt { item: 12, what: "the first command brings LD_PRELOAD and its like to the daemon", ends: Ends::Refused, make: preload },
    Attempt { item: 12, what: "a job sets limits of another job, keepers, nursery and daemon", ends: Ends::Refused, make: limit_from_inside },
    Attempt { item: 12, what: "a process outside of jobs lowers soft limits of keepers and daemon", ends: Ends::Survived, make: limit_softly },
    Attempt { item: 12, what: "a process outside of jobs takes all processes from the nursery", ends: Ends::Survived, make: limit_nursery },
    Attempt { item: 12, what: "a process outside of jobs takes all file sizes from guard and shim", ends: Ends::Limit("A job runs as you"), make: limit_keepers },
    Attempt { item: 14, what: "a job leaves a process in a PID namespace made elsewhere", ends: Ends::Limit("A job can leave a process in a namespace made elsewhere"), make: leave_in_namespace },
    Attempt { item: 14, what: "a job runs a program that is setuid root", ends: Ends::Refused, make: setuid },
    Attempt { item: 14, what: "a client asks for a job that may gain privileges", ends: Ends::Refused, make: ask_for_privileges },
];

/// A job that waits to be ended or let go, and the processes that hold it.
pub(super) struct Victim {
    pub(super) id: String,
    leader: i32,
    shim: i32,
    guard: i32,
    go: std::path::PathBuf,
}

impl Victim {
    /// Starts one that exits with 7 when it is let go.
    pub(super) fn start(home: &Home) -> Result<Victim, String> {
        let go = home.0.home().join(format!("go-{}", clock::boot_ns()));
        let script = format!(
            "setsid sleep 1000 & while ! test -e {}; do sleep 0.01; done; kill $!; exit 7",
            go.display()
        );
        let id = home.0.said(&["run", "-d", "--", "sh", "-c", &script])?;
        let leader = home.until(&id, |job| job["attempts"][0]["pid"].as_i64())?;
        let leader = i32::try_from(leader).map_err(|error| error.to_string())?;
        let parent = |pid: i32| Stat::of(pid).map(|stat| stat.parent).ok_or("a keeper is gone".to_owned());
        let shim = parent(leader)?;
        Ok(Victim { id, leader, shim, guard: parent(shim)?, go })
    }

    /// Lets it go, and returns it when it has ended.
    pub(super) fn let_go(&self, home: &Home) -> Result<Value, String> {
        std::fs::write(&self.go, "").map_err(|error| error.to_string())?;
        self.ended(home)
    }

    fn ended(&self, home: &Home) -> Result<Value, String> {
        home.until(&self.id, |job| (job["phase"] == "ended").then(|| job.clone()))
    }

    /// Makes sure that it went on, whatever was tried, and that its ending is the true one.
    fn unharmed(&self, home: &Home) -> Result<(), String> {
        for (who, pid) in [("leader", self.leader), ("shim", self.shim), ("guard", self.guard)] {
            if !Stat::of(pid).is_some_and(|stat| stat.is_alive()) {
                return Err(format!("the {who} of another job was killed"));
            }
        }
        let job = self.let_go(home)?;
        let exit = &job["attempts"][0]["exit"];
        match exit["code"] == 7 {
            true => Ok(()),
            false => Err(format!("it exited with 7, and is said to have ended so: {exit}")),
        }
    }

    fn holders(&self, home: &Home) -> Result<Vec<String>, String> {
        let nursery = Stat::of(self.guard).map(|stat| stat.parent).filter(|parent| *parent > 1);
        let all = [i64::from(self.shim), i64::from(self.guard), daemon(home)?];
        Ok(all.into_iter().chain(nursery.map(i64::from)).map(|pid| pid.to_string()).collect())
    }
}

/// Has an attacker in a job do something that must leave daemon and another job as they were.
fn from_inside(
    setup: &Setup,
    words: impl Fn(&Victim) -> Result<Vec<String>, String>,
) -> Result<String, String> {
    let home = &setup.home;
    let (before, victim) = (daemon(home)?, Victim::start(home)?);
    let said = setup.inside(home, &words(&victim)?)?;
    if daemon(home)? != before {
        return Err(format!("the daemon was killed: {said}"));
    }
    victim.unharmed(home).map_err(|why| format!("{why}: {said}"))?;
    Ok(said)
}

fn deed(first: &str, rest: Vec<String>) -> Vec<String> {
    [first.to_owned()].into_iter().chain(rest).collect()
}

fn kill_above(setup: &Setup) -> Result<String, String> {
    says(&from_inside(setup, |_| Ok(deed("kill-above", vec![])))?, "none of 4 could be signalled")
}

fn kill_by_number(setup: &Setup) -> Result<String, String> {
    let said = from_inside(setup, |victim| Ok(deed("kill", victim.holders(&setup.home)?)))?;
    says(&said, "none of 4 could be signalled")
}

fn kill_by_group(setup: &Setup) -> Result<String, String> {
    let groups = |victim: &Victim| {
        let mut groups: Vec<String> = Vec::new();
        for pid in victim.holders(&setup.home)? {
            let pid = pid.parse().ok().and_then(rustix::process::Pid::from_raw);
            let group = rustix::process::getpgid(pid).map_err(|error| error.to_string())?;
            groups.push(format!("-{}", group.as_raw_nonzero()));
        }
        Ok(deed("kill", groups))
    };
    says(&from_inside(setup, groups)?, "none of 4")
}

fn kill_by_name(setup: &Setup) -> Result<String, String> {
    let names = ["lastword", "lw-nursery", "lw-guard", "lw-shim"].map(str::to_owned).to_vec();
    says(&from_inside(setup, |_| Ok(deed("kill-named", names.clone())))?, "none of")
}

fn kill_everybody(setup: &Setup) -> Result<String, String> {
    from_inside(setup, |_| Ok(deed("kill", vec!["-1".to_owned()])))?;
    Ok("it reached nobody but its own; daemon and other jobs went on".to_owned())
}

/// Kills some of the processes that hold a job, as any process of the user may, and returns the job as it ended.
fn lose(
    setup: &Setup,
    who: impl Fn(&Victim) -> Vec<i32>,
    is_let_go: bool,
) -> Result<(Value, Vec<i32>), String> {
    let home = &setup.home;
    let victim = Victim::start(home)?;
    let sleeper = figures::living()
        .into_iter()
        .filter(|pid| Stat::of(*pid).is_some_and(|stat| stat.parent == victim.leader));
    let tree: Vec<i32> = sleeper.chain([victim.leader]).collect();
    let targets: Vec<Identity> = who(&victim).into_iter().filter_map(Identity::of).collect();
    let words = deed("kill", targets.iter().map(|target| target.pid.to_string()).collect());
    says(&setup.attack(OWNER, &words)?, "signalled: ")?;
    let gone = || targets.iter().all(|target| !target.is_alive()).then_some(());
    clock::until(PATIENCE, LOOK, gone).ok_or("who was killed does not die")?;
    let job = if is_let_go { victim.let_go(home)? } else { victim.ended(home)? };
    let left = tree.into_iter().filter(|pid| Stat::of(*pid).is_some_and(|stat| stat.is_alive()));
    Ok((job, left.collect()))
}

/// Returns outcome, exit code and proof of a job, unless something of it lives on.
fn told((job, left): (Value, Vec<i32>)) -> Result<String, String> {
    let attempt = &job["attempts"][0];
    let proof = attempt["receipt"]["proof"].as_str().unwrap_or("none").to_owned();
    let exit = attempt["exit"]["code"].as_i64().map_or_else(String::new, |code| format!(" (exit {code})"));
    match left.is_empty() {
        true => {
            Ok(format!("{}{exit}, proof {proof}, nothing is left", job["outcome"].as_str().unwrap_or("none")))
        }
        false => Err(format!("{left:?} live on after {}", job["outcome"])),
    }
}

fn lose_shim(setup: &Setup) -> Result<String, String> {
    says(&told(lose(setup, |victim| vec![victim.shim], false)?)?, "lost, proof no_children")
}

fn lose_guard(setup: &Setup) -> Result<String, String> {
    says(&told(lose(setup, |victim| vec![victim.guard], true)?)?, "failed (exit 7), proof no_children")
}

fn lose_both(setup: &Setup) -> Result<String, String> {
    says(&told(lose(setup, |victim| vec![victim.guard, victim.shim], false)?)?, "lost, proof best_effort")
}

fn lose_daemon(setup: &Setup) -> Result<String, String> {
    let pid = i32::try_from(daemon(&setup.home)?).map_err(|error| error.to_string())?;
    let said = told(lose(setup, |_| vec![pid], true)?)?;
    match i64::from(pid) == daemon(&setup.home)? {
        true => Err("the daemon was not killed".to_owned()),
        false => says(&said, "failed (exit 7), proof no_children")
            .map(|said| format!("adopted by the next daemon: {said}")),
    }
}

fn peek_from_inside(setup: &Setup) -> Result<String, String> {
    let said = from_inside(setup, |victim| Ok(deed("peek", victim.holders(&setup.home)?)))?;
    says(&said, "none of 4 can be looked into")
}

fn peek_from_outside(setup: &Setup) -> Result<String, String> {
    let victim = Victim::start(&setup.home)?;
    let mut holders = victim.holders(&setup.home)?;
    if setup.has(Bug::KeeperIsOpen) {
        holders.push(victim.leader.to_string());
    }
    let said = setup.attack(OWNER, &deed("peek", holders))?;
    victim.unharmed(&setup.home)?;
    says(&said, "none of 4 can be looked into")
}

fn preload(setup: &Setup) -> Result<String, String> {
    let home = setup.another("preload")?;
    let mut command = home.0.command(&["run", "-d", "--", "sleep", "1000"]);
    for name in ["LD_LIBRARY_PATH", "LD_AUDIT", "LD_PRELOAD"] {
        command.env(name, "/nowhere/evil.so");
    }
    let id = super::setup::text(&home.0.run_to_end(&command)?.stdout);
    home.until(&id, |job| job["attempts"][0]["pid"].as_i64())?;
    let ours = home.0.processes();
    for pid in &ours {
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        if let Some(found) = environ.split(|byte| *byte == 0).find(|pair| pair.starts_with(b"LD_")) {
            return Err(format!("process {pid} was started with {}", String::from_utf8_lossy(found)));
        }
    }
    match ours.len() {
        5.. => Ok(format!(
            "none of {} processes has any of it: daemon, nursery, guard, shim and the job",
            ours.len()
        )),
        few => Err(format!("only {few} processes were found")),
    }
}

fn limit_from_inside(setup: &Setup) -> Result<String, String> {
    let words = |victim: &Victim| {
        let pids = victim.holders(&setup.home)?.into_iter().chain([victim.leader.to_string()]);
        Ok(["limit-for-good", "cpu", "60"].map(str::to_owned).into_iter().chain(pids).collect())
    };
    says(&from_inside(setup, words)?, "none of 5 could be limited")
}

/// Sets a limit of processes from outside of jobs.
fn limit(setup: &Setup, how: [&str; 3], pids: impl IntoIterator<Item = String>) -> Result<(), String> {
    let words: Vec<String> = how.map(str::to_owned).into_iter().chain(pids).collect();
    says(&setup.attack(OWNER, &words)?, "limited: ").map(|_| ())
}

fn limit_softly(setup: &Setup) -> Result<String, String> {
    let home = &setup.home;
    let (before, victim) = (daemon(home)?, Victim::start(home)?);
    limit(setup, ["limit", "fsize", "0"], victim.holders(home)?)?;
    limit(setup, ["limit", "nofile", "3"], [victim.shim.to_string(), victim.guard.to_string()])?;
    victim.unharmed(home)?;
    match daemon(home)? == before {
        true => Ok("they raise them again; the job ends as it did".to_owned()),
        false => Err("the daemon was killed".to_owned()),
    }
}

fn limit_nursery(setup: &Setup) -> Result<String, String> {
    let home = &setup.home;
    let victim = Victim::start(home)?;
    let nursery = Stat::of(victim.guard).map(|stat| stat.parent).ok_or("its guard is gone")?;
    limit(setup, ["limit-for-good", "nproc", "0"], [nursery.to_string()])?;
    says(&home.0.said(&["run", "--", "echo", "hello"])?, "hello")?;
    victim.unharmed(home)?;
    Ok("another is started; jobs go on, and later ones start".to_owned())
}

fn limit_keepers(setup: &Setup) -> Result<String, String> {
    let victim = Victim::start(&setup.home)?;
    limit(setup, ["limit-for-good", "fsize", "0"], [victim.shim, victim.guard].map(|pid| pid.to_string()))?;
    let job = victim.let_go(&setup.home)?;
    let left = [victim.leader, victim.shim, victim.guard].into_iter();
    let left = left.filter(|pid| Stat::of(*pid).is_some_and(|stat| stat.is_alive())).collect();
    says(&told((job, left))?, "lost, proof best_effort")
}

fn leave_in_namespace(setup: &Setup) -> Result<String, String> {
    let container =
        Container::start(&setup.folder("container", OWNER, 0o755)?.join("namespaces"), Some(OWNER))?;
    let file = |kind: &str| format!("--{kind}={}", container.folder().join(kind).display());
    let script = "setsid sleep 1000 </dev/null >/dev/null 2>&1 &";
    let enter = ["nsenter", "--preserve-credentials", &file("user"), &file("pid"), "sh", "-c", script];
    setup.home.0.said(&[&["run", "--"], &enter[..]].concat())?;
    let job = setup.home.json(&["show", "@last"])?;
    let receipt = &job["attempts"][0]["receipt"];
    match (job["outcome"].as_str(), receipt["certain"].as_bool(), receipt["may_escape"].as_bool()) {
        (Some("completed"), Some(false), Some(true)) => {
            Ok("its receipt is not certain, and says why".to_owned())
        }
        _ => Err(format!("{}, with the receipt {receipt}", job["outcome"])),
    }
}

fn setuid(setup: &Setup) -> Result<String, String> {
    use std::os::unix::fs::PermissionsExt as _;
    let program = setup.programs.trials.with_file_name("setuid");
    std::fs::copy(&setup.programs.trials, &program).map_err(|error| error.to_string())?;
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755))
        .map_err(|error| error.to_string())?;
    let program = program.display().to_string();
    // Outside of a job it works: otherwise the attempt shows nothing.
    let mut plain = std::process::Command::new(&program);
    std::os::unix::process::CommandExt::uid(&mut plain, OWNER).args([super::attacker::VERB, "whoami"]);
    let outside = plain.output().map_err(|error| error.to_string())?;
    says(&super::setup::text(&outside.stdout), "user 0")?;
    let said = setup.home.0.said(&["run", "--", &program, super::attacker::VERB, "whoami"])?;
    let level = setup.home.json(&["show", "@last"])?["attempts"][0]["level"].clone();
    says(&said, &format!("user {OWNER}")).map(|said| format!("it stays {said}; held at level {level}"))
}

fn ask_for_privileges(setup: &Setup) -> Result<String, String> {
    let body = br#"{"argv":["true"],"cwd":"/","new_privileges":true}"#;
    says(&setup.post(&setup.home, "/v1/jobs", body)?, "400 invalid")
        .map(|said| format!("{said}: there is no such wish"))
}
