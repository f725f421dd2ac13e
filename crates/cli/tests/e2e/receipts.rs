//! What a stop says of itself, while it lasts and afterwards: its numbers add up.

use serde_json::{Value, json};

use crate::agents::define_agent;
use crate::home::{Home, is_alive, run_command, until};
use crate::run::parent;

/// Parses a time of the API.
fn ms(time: &Value) -> u64 {
    serde_json::from_value::<lastword_api::Time>(time.clone()).unwrap().0
}

#[test]
fn an_ended_job_has_no_process_alive() {
    let home = Home::new();
    let (id, _) = home.start_with_pids("echo $$; sleep 100", 1);
    let job = home.json(&["cancel", &id])["items"][0].clone();
    assert_eq!((&job["phase"], &job["stop"]["rung"]), (&json!("ended"), &json!("term")), "{job}");
    assert_eq!((&job["stop"]["alive"], &job["stop"]["pids"]), (&Value::Null, &json!([])), "{job}");
}

#[test]
fn a_stop_that_waits_only_for_its_record_has_no_process_alive() {
    let home = Home::new();
    let (id, pids) = home.start_with_pids("echo $$; sleep 100 & echo $!; wait", 2);
    // A folder in the place of the record's temporary file.
    let obstacle = format!("jobs/{id}/1/exit.{}.tmp", parent(pids[0]));
    std::fs::create_dir(home.worker().join(&obstacle)).unwrap();
    assert_eq!(home.run(&["cancel", "--no-wait", &id]).code, 124);
    until("its processes are gone", || pids.iter().all(|pid| !is_alive(*pid)).then_some(()));
    let job = until("its keeper says so", || {
        let job = home.json(&["show", &id]);
        (job["stop"]["rung"] == "term" && job["stop"]["alive"] == 0).then_some(job)
    });
    let output = home.run(&["cancel", "--timeout", "1ms", &id]);
    std::fs::remove_dir(home.worker().join(&obstacle)).unwrap();
    assert_eq!((&job["phase"], &job["stop"]["pids"]), (&json!("stopping"), &json!([])), "{job}");
    assert!(output.code == 124 && output.stdout.contains("stopping with TERM, none alive"), "{output:?}");
    assert_eq!(home.run(&["wait", &id]).code, 3);
}

#[test]
fn the_receipt_of_an_agent_counts_from_the_request_and_has_every_rung() {
    let home = Home::new();
    define_agent(&home);
    let id = home.ok(&["run", "-d", "--agent", "echo", "--grace", "300ms", "deaf"]);
    until("the agent is deaf", || home.ok(&["logs", &id]).contains("deaf").then_some(()));
    let job = home.json(&["cancel", &id])["items"][0].clone();
    let receipt = &job["attempts"][0]["receipt"];
    let rungs = receipt["rungs"].as_array().unwrap();
    let names: Vec<&str> = rungs.iter().map(|taken| taken["rung"].as_str().unwrap()).collect();
    assert_eq!(names, ["interrupt", "term", "kill"], "{receipt}");
    let requested = ms(&job["stop"]["requested_at"]);
    let after: Vec<u64> = rungs.iter().map(|taken| ms(&taken["at"]) - requested).collect();
    assert!(after.is_sorted() && after[1] >= 5_000, "{after:?}: an agent has five seconds to react");
    let total = receipt["asked_to_empty_ms"].as_u64().unwrap();
    assert!(total >= after[2], "{total} ms in total, but KILL after {after:?}");
    let mut command = home.command(&["show", &id]);
    command.env("COLUMNS", "200");
    let shown = run_command(command).stdout;
    // How long the request was on its way is said if it was long.
    let took = shown.lines().find_map(|line| line.strip_prefix("  took      interrupt")).unwrap();
    assert!(took.contains(", then TERM after 5"), "{shown}");
}

/// Passes descriptors of the namespaces of a process to a client, or enters those it is passed and leaves a process there.
const PASS: &str = r#"
import array, ctypes, os, socket, subprocess, sys
path = sys.argv[1]
s = socket.socket(socket.AF_UNIX)
if len(sys.argv) > 2:
    s.bind(path); s.listen(1); print("ready", flush=True); c, _ = s.accept()
    fds = [os.open(f"/proc/{sys.argv[2]}/ns/{kind}", os.O_RDONLY) for kind in ("user", "pid")]
    c.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
else:
    s.connect(path); _, passed, _, _ = s.recvmsg(1, socket.CMSG_SPACE(8))
    for fd in array.array("i", passed[0][2]):
        if ctypes.CDLL(None).setns(fd, 0): sys.exit(5)
    if not os.fork():
        null = subprocess.DEVNULL
        subprocess.Popen(["sleep", "1000"], stdin=null, stdout=null, stderr=null, start_new_session=True); os._exit(0)
    os.wait()
"#;

#[test]
fn c87_a_job_that_entered_a_namespace_made_elsewhere_has_no_certain_receipt() {
    let home = Home::new();
    let (script, socket) = (home.work().join("pass.py"), home.work().join("socket"));
    std::fs::write(&script, PASS).unwrap();
    let (script, socket) = (script.to_str().unwrap(), socket.to_str().unwrap());
    let mut container = Background::start("unshare", &["-Urpf", "--kill-child", "sleep", "1000"]);
    let pid = container.0.id();
    let children = || std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok();
    let init: i32 = until("its init runs", || children()?.trim().parse().ok());
    let mut helper = Background::start("python3", &[script, socket, &init.to_string()]);
    let mut ready = [0; 5];
    std::io::Read::read_exact(helper.0.stdout.as_mut().unwrap(), &mut ready).unwrap();
    home.ok(&["run", "--name", "enters", "--", "python3", script, socket]);
    let job = home.json(&["show", "enters"]);
    let receipt = &job["attempts"][0]["receipt"];
    assert_eq!((&job["outcome"], &receipt["exit"]["code"]), (&json!("completed"), &json!(0)), "{job}");
    assert_eq!((&receipt["certain"], &receipt["may_escape"]), (&json!(false), &json!(true)), "{receipt}");
    let shown = home.ok(&["show", "enters"]);
    assert!(
        shown.contains("not certain") && shown.contains("entered a PID namespace made elsewhere"),
        "{shown}"
    );
    helper.end();
    container.end();
    home.ok(&["run", "--name", "stays", "--", "true"]);
    assert_eq!(home.json(&["show", "stays"])["attempts"][0]["receipt"]["certain"], true);
}

/// A program outside of jobs.
struct Background(std::process::Child);

impl Background {
    #[expect(clippy::disallowed_methods, reason = "the test plays other programs of the user")]
    fn start(program: &str, words: &[&str]) -> Background {
        let mut command = std::process::Command::new(program);
        Background(command.args(words).stdout(std::process::Stdio::piped()).spawn().unwrap())
    }

    fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.end();
    }
}
