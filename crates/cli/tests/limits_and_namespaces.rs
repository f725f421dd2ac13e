//! What reaches out of a tree although no signal does, or into a keeper from outside: resource limits and PID namespaces.

use lastword_core::receipt::{Exit, Level, Proof};
use lastword_proc::{Error, Identity, Keeper, Launch, Located, boot_id, clock, locate};
use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};

use crate::common::{Place, read, until};

/// Sets a limit of another process, as any process of its user may outside of a job.
fn set_limit(pid: i32, resource: Resource, soft: u64, hard: Option<u64>) {
    prlimit(Pid::from_raw(pid), resource, Rlimit { current: Some(soft), maximum: hard }).unwrap();
}

#[test]
fn c12_a_tree_whose_keeper_has_no_descriptors_left_is_stopped() {
    let place = Place::new();
    let limited = ["shim", "both"].map(|name| {
        let script = format!(
            "setsid sleep 100 & echo $! >{name}.pids; echo $$ >>{name}.pids; touch {name}.done; wait"
        );
        let launch = Launch { term_ms: 100, ..place.script(name, &script) };
        let launched = place.launch(&launch);
        until("it runs", || launch.cwd.join(format!("{name}.done")).exists().then_some(()));
        let deadline = clock::awake_ms();
        let mut keeper = Keeper::connect(&launch.dir, 0).unwrap();
        keeper.status().unwrap();
        let keepers =
            if name == "both" { vec![&launched.guard, &launched.shim] } else { vec![&launched.shim] };
        for pid in keepers.iter().map(|keeper| keeper.pid) {
            set_limit(pid, Resource::Nofile, 3, Some(3));
            set_limit(pid, Resource::Fsize, 0, Some(0));
        }
        keeper.deadline(Some(deadline)).unwrap();
        (name, launch)
    });
    for (name, launch) in limited {
        let pids = std::fs::read_to_string(launch.cwd.join(format!("{name}.pids"))).unwrap();
        let pids: Vec<Identity> = pids.lines().filter_map(|pid| Identity::of(pid.parse().unwrap())).collect();
        let found = until("it has ended", || match locate(&launch.dir, boot_id()).unwrap() {
            Located::Alive(_) => None,
            found => Some(found),
        });
        assert!(pids.iter().all(|pid| !pid.is_alive()), "{name}: {found:?}, but it is running");
        match found {
            // The leader's exit could not be recorded, and is not invented.
            Located::Ended(record) => {
                assert_eq!((name, record.by.as_str(), record.exit()), ("shim", "guard", None));
                assert!(record.receipt.proof.is_certain());
            }
            Located::Vanished(record) => {
                assert_eq!((name, record.receipt.proof), ("both", Proof::BestEffort))
            }
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn c51_a_tree_cannot_set_limits_of_other_processes() {
    let place = Place::new();
    // Its keeper, a child and a process in a user namespace of its own; itself it may limit, and what it starts.
    let script = "prlimit --nofile=9:9 --pid $PPID || echo refused; prlimit --nofile --pid $PPID >/dev/null && echo read
        sleep 100 & prlimit --nofile=9:9 --pid $! || echo refused; kill $!
        unshare -U prlimit --nofile=9:9 --pid $PPID || echo refused
        ulimit -n 50; ulimit -n; prlimit --nofile=40 sh -c 'ulimit -n'";
    for level in place.nursery.levels() {
        let name = format!("{level:?}");
        let launch = Launch { at_most: level, ..place.script(&name, script) };
        let said = match level {
            // Its keeper has no number there.
            Level::Namespace => continue,
            _ => "refused\nread\nrefused\nrefused\n50\n40\n",
        };
        let record = place.run(&launch);
        assert_eq!((record.exit(), read(&launch, "stdout").as_str()), (Some(Exit::Code(0)), said), "{name}");
    }
}

#[test]
fn c51_a_keeper_raises_its_soft_limits_again() {
    let place = Place::new();
    let script = "echo before; while ! test -e go; do sleep 0.01; done; echo after; exit 5";
    let launch = place.script("a", script);
    let launched = place.launch(&launch);
    until("it wrote", || (read(&launch, "stdout") == "before\n").then_some(()));
    for keeper in [&launched.guard, &launched.shim] {
        set_limit(keeper.pid, Resource::Fsize, 0, None);
    }
    std::fs::write(launch.cwd.join("go"), "").unwrap();
    let record = place.end_of(&launch);
    assert_eq!((record.by.as_str(), record.exit()), ("shim", Some(Exit::Code(5))));
    assert_eq!((read(&launch, "stdout").as_str(), record.receipt.output_lost), ("before\nafter\n", false));
}

#[test]
fn c51_a_nursery_with_lowered_limits_starts_nothing() {
    let place = Place::new();
    set_limit(place.nursery.pid(), Resource::Cpu, 1, Some(1));
    let refused = place.nursery.launch(&place.script("b", "exit 3"));
    assert!(matches!(&refused, Err(Error::NurseryGone(why)) if why.contains("cpu to 1")), "{refused:?}");
    assert_eq!(locate(&place.dir("b"), boot_id()).unwrap(), Located::NeverStarted);
}

/// A PID namespace that no tree made, and its init.
struct Container(std::process::Child, i32);

impl Container {
    #[expect(clippy::disallowed_methods, reason = "the test plays another program of the user")]
    fn start() -> Container {
        let mut command = std::process::Command::new("unshare");
        let child = command.args(["-Urpf", "--kill-child", "sleep", "1000"]).spawn().unwrap();
        let pid = child.id();
        let children = || std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok();
        let init = until("its init runs", || children()?.trim().parse().ok());
        Container(child, init)
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn c87_a_receipt_claims_less_if_the_tree_entered_a_namespace_made_elsewhere() {
    let place = Place::new();
    let container = Container::start();
    let leave = "setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo left";
    let enter = |init: &str| format!("nsenter --preserve-credentials -t {init} -U -p sh -c '{leave}'");
    let foreign = enter(&container.1.to_string());
    let own = format!(
        "unshare -Urpf --kill-child sleep 1000 & until I=$(pgrep -P $!); do :; done; {}",
        enter("$I")
    );
    for (name, script, may_escape) in [("foreign", &foreign, true), ("own", &own, false)] {
        let launch = Launch { at_most: Level::Subreaper, leftover_ms: 0, ..place.script(name, script) };
        let record = place.run(&launch);
        assert_eq!(
            (record.exit(), read(&launch, "stdout").as_str()),
            (Some(Exit::Code(0)), "left\n"),
            "{name}"
        );
        let receipt = &record.receipt;
        assert_eq!((receipt.proof, receipt.may_escape), (Proof::NoChildren, may_escape), "{name}");
        assert_eq!(receipt.is_certain(), !may_escape, "{name}");
    }
    // The guard knows it from the claim.
    let launch =
        Launch { at_most: Level::Subreaper, ..place.script("guard", &format!("{foreign}; sleep 100")) };
    let launched = place.launch(&launch);
    until("it left", || (read(&launch, "stdout") == "left\n").then_some(()));
    assert!(launched.shim.signal(Signal::KILL).unwrap());
    let record = place.end_of(&launch);
    assert_eq!((record.by.as_str(), record.receipt.may_escape), ("guard", true));
    // From a namespace of its own a tree cannot even name it.
    if place.nursery.levels().contains(&Level::Namespace) {
        let launch = Launch { at_most: Level::Namespace, ..place.script("namespace", &foreign) };
        let record = place.run(&launch);
        assert_eq!((record.exit(), record.receipt.may_escape), (Some(Exit::Code(1)), false));
    }
}
