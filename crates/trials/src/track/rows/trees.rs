//! Process trees: what is found, what is signalled, what the receipt says.

use std::fs;
use std::process::Command;
use std::time::Duration;

use crate::place::Programs;
use crate::product::figures::{self, Stat};
use crate::track::home::{Home, at, is_alive, signal, until, within};
use crate::track::row::{Seen, held_if, rows};

rows! {
    "A3" ours After010 Nothing [87]
        "A process whose main thread has exited is taken for dead: it gets no TERM and is missing in the receipt."
        => "The receipt has it.",
        main_thread_gone;
    "A3-alone" ours After010 Nothing [14, 87]
        "Both keepers of such a process are killed: it runs on after the last word."
        => "It is gone at the last word.",
        main_thread_gone_without_keepers;
    "A4" ours After010 Nothing [32, 37]
        "A job with an empty environment whose folder was deleted is called lost by the next daemon, although it runs."
        => "The next daemon has it, with the same process.",
        folder_deleted;
    "A7" ours After010 Nothing []
        "A job lowers the resource limits of another job with `prlimit`, and the kernel kills that job."
        => "The other job runs on.",
        limits_of_another_job;
    "A7-nursery" ours After010 Nothing []
        "A job lowers the resource limits of the process that starts keepers, and no later job can start."
        => "The next job runs.",
        limits_of_the_nursery;
    "A8" ours After010 Nothing [21]
        "A process enters a namespace that was handed to it and survives the job, whose receipt claims a strong proof."
        => "It is gone, or the receipt claims less.",
        foreign_namespace;
    "A12" ours After010 Nothing [21]
        "An ended job still has processes alive, by its own record."
        => "An ended job has none.",
        alive_after_the_end;
    "A12-rungs" ours After010 Nothing [21]
        "The receipt of an agent lacks the interrupt, and its total is shorter than the time to its last rung."
        => "The receipt begins with the interrupt, and its total is not shorter than its last rung.",
        rungs_add_up;
    "A13" ours After010 Nothing []
        "Jobs run with umask 077 and the daemon's limits and nice value, so that others cannot read what they make."
        => "A job has the umask, the limits and the nice value of its caller.",
        umask_of_the_caller;
}

/// Starts a leader and a child in another session whose main threads exit, and returns both.
fn headless(home: &Home) -> Result<(String, [i32; 2]), String> {
    let (adversary, canary) = (home.work("adversary"), home.work("canary"));
    // A process of its own copies: a file that is open for writing here cannot be run.
    let copied = Command::new("cp").arg(Programs::beside()?.adversary).arg(&adversary).status();
    if !copied.is_ok_and(|status| status.success()) {
        return Err(format!("{} cannot be copied", adversary.display()));
    }
    home.shell(": > $PLACE/canary")?;
    let script = "exec $PLACE/adversary main-thread-gone $PLACE/canary";
    let job = home.start("--grace 2s", script)?;
    let leader = home.leader(&job)?;
    let is_headless = |pid: i32| Stat::of(pid).is_some_and(|stat| stat.state == 'Z' && stat.threads > 1);
    let child = until("both have lost their main thread", || {
        let records = fs::read(&canary).ok()?;
        let pids = records
            .chunks_exact(crate::record::SIZE)
            .map(|record| i32::from_le_bytes([record[0], record[1], record[2], record[3]]));
        pids.into_iter().find(|pid| *pid != leader && is_headless(*pid)).filter(|_| is_headless(leader))
    })?;
    Ok((job, [leader, child]))
}

fn main_thread_gone(home: &Home) -> Seen {
    let (job, [leader, child]) = headless(home)?;
    home.run(&["cancel", &job])?;
    let shown = home.ended(&job)?;
    let receipt = &shown["attempts"][0]["receipt"];
    let processes = receipt["processes"].to_string();
    let has = |pid: i32| processes.contains(&pid.to_string());
    held_if(has(leader) && has(child), format!("found {}: {processes}", receipt["found"]))
}

fn main_thread_gone_without_keepers(home: &Home) -> Seen {
    let (job, [leader, child]) = headless(home)?;
    for keeper in home.keepers(leader)? {
        signal(keeper, libc::SIGKILL);
    }
    home.ended(&job)?;
    let alive: Vec<i32> = [leader, child].into_iter().filter(|pid| is_alive(*pid)).collect();
    for pid in &alive {
        signal(*pid, libc::SIGKILL);
    }
    held_if(alive.is_empty(), format!("alive after the last word: {alive:?}"))
}

fn folder_deleted(home: &Home) -> Seen {
    // Its command line names the place, so that it is found and killed in the end, whatever becomes of the job.
    let sleep = home.shell("cp /bin/sleep $PLACE/sleep")?;
    let job = home.start("", "exec env -i $PLACE/sleep 1000")?;
    let leader = home.leader(&job)?;
    until("it has an empty environment", || {
        fs::read(format!("/proc/{leader}/environ")).is_ok_and(|text| text.is_empty()).then_some(())
    })?;
    let folder = home.state().join("jobs").join(&job);
    fs::remove_dir_all(&folder).map_err(at(&folder))?;
    home.kill_daemon()?;
    home.run(&["wait", "--timeout", "3s", &job])?;
    let shown = home.show(&job)?;
    let is_held = sleep.code == 0 && shown["phase"] == "running" && is_alive(leader);
    held_if(is_held, format!("{} {}; leader alive: {}", shown["phase"], shown["outcome"], is_alive(leader)))
}

fn limits_of_another_job(home: &Home) -> Seen {
    let victim = home.start("--wall 60s", "while :; do :; done")?;
    let leader = home.leader(&victim)?;
    let attack = home.run(&["run", "--", "prlimit", "--pid", &leader.to_string(), "--cpu=1:1"])?;
    // The limit is a second of processor time, on a machine with other work.
    let is_gone = within(Duration::from_secs(8), || (!is_alive(leader)).then_some(())).is_some();
    held_if(!is_gone, format!("prlimit exits with {}; the other job is gone: {is_gone}", attack.code))
}

fn limits_of_the_nursery(home: &Home) -> Seen {
    home.ok(&["run", "--", "true"])?;
    let daemon = home.daemon()?;
    let is_its_child = |pid: &i32| Stat::of(*pid).is_some_and(|stat| stat.parent == daemon);
    let nursery = figures::living().into_iter().find(is_its_child).ok_or("the daemon has no child")?;
    let attack = home.run(&["run", "--", "prlimit", "--pid", &nursery.to_string(), "--nproc=0:0"])?;
    let next = home.run(&["run", "--", "echo", "again"])?;
    held_if(
        next.out == "again\n",
        format!("prlimit exits with {}; the next job: {}", attack.code, next.printed()),
    )
}

/// Hands descriptors of a namespace to the process that connects (`serve`), or takes them, enters and leaves a process there.
const NAMESPACE: &str = r#"
import array, ctypes, os, socket, sys
path = os.environ["PLACE"] + "/namespace.sock"
if sys.argv[1] == "serve":
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen(1)
    connection, _ = server.accept()
    files = [os.open(f"/proc/{sys.argv[2]}/ns/{name}", os.O_RDONLY) for name in ("user", "pid")]
    connection.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))])
    sys.exit()
client = socket.socket(socket.AF_UNIX)
client.connect(path)
_, given, _, _ = client.recvmsg(10, socket.CMSG_SPACE(8))
files = array.array("i")
files.frombytes(given[0][2])
libc = ctypes.CDLL(None, use_errno=True)
for file in files:
    if libc.setns(file, 0):
        print("setns:", os.strerror(ctypes.get_errno()))
        sys.exit(5)
if os.fork() == 0:
    if os.fork() == 0:
        os.setsid()
        os.closerange(0, 256)
        os.execve(os.environ["PLACE"] + "/sleep", [os.environ["PLACE"] + "/sleep", "1001"], {})
    os._exit(0)
os.wait()
"#;

fn foreign_namespace(home: &Home) -> Seen {
    let script = home.work("namespace.py");
    fs::write(&script, NAMESPACE).map_err(at(&script))?;
    let run = home.shell(
        "cp /bin/sleep $PLACE/sleep; unshare -Urpf --kill-child sh -c 'sleep 1000 & wait' > /dev/null 2>&1 & U=$!
         for i in $(seq 200); do I=$(pgrep -P $U) && break; sleep 0.02; done
         python3 $PLACE/namespace.py serve $I > /dev/null 2>&1 & for i in $(seq 200); do [ -S $PLACE/namespace.sock ] && break; sleep 0.02; done
         timeout 30 $LASTWORD run --name inside --grace 500ms -- python3 $PLACE/namespace.py enter
         pgrep -f $PLACE/sleep.1001 > $PLACE/left; kill -9 $U",
    )?;
    let shown = home.show("inside")?;
    if shown["outcome"] != "completed" {
        return Err(format!("no namespace can be entered here: {}", run.printed()));
    }
    let left = fs::read_to_string(home.work("left")).unwrap_or_default();
    let certain = &shown["attempts"][0]["receipt"]["certain"];
    held_if(
        left.trim().is_empty() || certain == false,
        format!("left: {:?}; certain: {certain}", left.trim()),
    )
}

fn alive_after_the_end(home: &Home) -> Seen {
    let job = home.start("", "sleep 1000")?;
    home.leader(&job)?;
    home.ok(&["cancel", &job])?;
    let stop = home.ended(&job)?["stop"].clone();
    held_if(stop["alive"].is_null() || stop["alive"] == 0, format!("alive: {}", stop["alive"]))
}

fn rungs_add_up(home: &Home) -> Seen {
    let job = home.start_agent("--grace 300ms", "hang")?;
    home.event(&job, "turn_started")?;
    home.run(&["cancel", &job])?;
    let receipt = home.ended(&job)?["attempts"][0]["receipt"].clone();
    let total = receipt["asked_to_empty_ms"].as_u64().unwrap_or(0);
    // An agent has five seconds to react to the interrupt before TERM.
    let is_held = receipt["rungs"][0]["rung"] == "interrupt" && total >= 5_000;
    held_if(is_held, format!("{} in {total} ms", receipt["rungs"]))
}

fn umask_of_the_caller(home: &Home) -> Seen {
    home.ok(&["daemon", "start"])?;
    let script = "umask 027; ulimit -n 123; exec nice -n 3 $LASTWORD run -- sh -c 'umask; ulimit -n; nice'";
    let said = home.shell(script)?.out.replace('\n', " ");
    held_if(said.trim() == "0027 123 3", format!("umask, files, nice: {said}"))
}
