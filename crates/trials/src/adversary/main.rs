//! Process trees that resist being killed: one program, one kind of misbehaviour per call.
//!
//! `lastword-adversary KIND CANARY [WHERE]`. Every process of every kind appends a heartbeat to the file CANARY about every millisecond, as
//! long as it can. Every process also sets an alarm, so that a tree that is never stopped ends by itself. `lastword-adversary list` lists
//! the kinds.

mod arguments;
mod borders;
mod canary;
mod detached;
mod forkers;
mod process;
#[path = "../record.rs"]
mod record;
mod stuck;

use arguments::{Arguments, OTHER_USER, REPLACED};
use canary::Canary;

type Kind = (&'static str, fn(&Arguments));

#[rustfmt::skip] // One row, one kind.
const KINDS: &[Kind] = &[
    ("family", detached::family),
    ("own-session", detached::own_session),
    ("daemon", detached::daemon),
    ("daemon-alone", detached::daemon_alone),
    ("daemon-bare", detached::daemon_bare),
    ("undumpable", detached::undumpable),
    ("deaf", detached::deaf),
    ("own-groups", detached::own_groups),
    ("runner", forkers::runner),
    ("runner-sessions", forkers::runner_sessions),
    ("runners", forkers::runners),
    ("storm", forkers::storm),
    ("burst", forkers::burst),
    ("stopped", stuck::stopped),
    ("zombies", stuck::zombies),
    ("blocked-writers", stuck::blocked_writers),
    ("pipe-holder", stuck::pipe_holder),
    ("thread-forks", forkers::thread_forks),
    ("main-thread-gone", stuck::main_thread_gone),
    ("folder-gone", detached::folder_gone),
    ("limits", borders::limits),
    ("subreaper", detached::subreaper),
    ("respawners", forkers::respawners),
    ("namespaces", borders::namespaces),
    ("other-namespace", borders::other_namespace),
    ("setuid", borders::setuid),
    ("cgroup-escape", borders::cgroup_escape),
];

#[rustfmt::skip] // One row, one kind.
const EXECUTED: &[Kind] = &[
    (REPLACED, replaced),
    (OTHER_USER, other_user),
];

fn replaced(arguments: &Arguments) {
    arguments.canary.settled();
    arguments.canary.sing_on();
}

fn other_user(arguments: &Arguments) {
    if borders::keeps_what_setuid_gave() {
        arguments.canary.settled();
    }
    arguments.canary.sing_on();
}

fn main() {
    process::set_alarm();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (kind, path, outside) = match words.as_slice() {
        ["list"] => {
            KINDS.iter().for_each(|(name, _)| println!("{name}"));
            return;
        }
        [kind, path] => (*kind, *path, None),
        [kind, path, outside] => (*kind, *path, Some((*outside).to_owned())),
        _ => misused("usage: lastword-adversary KIND CANARY [WHERE]"),
    };
    let Some((_, run)) = KINDS.iter().chain(EXECUTED).find(|(name, _)| *name == kind) else {
        misused("there is no such kind; `lastword-adversary list` names them");
    };
    let Some(canary) = Canary::open(path) else { misused("the canary's file cannot be opened") };
    canary.sing();
    run(&Arguments { canary, path: path.to_owned(), outside });
}

fn misused(why: &str) -> ! {
    eprintln!("lastword-adversary: {why}");
    std::process::exit(64)
}
