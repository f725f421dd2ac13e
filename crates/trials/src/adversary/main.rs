//! Process trees that do not want to die: one program, one kind of misbehaviour per call.
//!
//! `lastword-adversary KIND CANARY [WHERE]`. Every process of every kind is a canary: as long as it can, it appends a
//! sign of life to the file CANARY about every millisecond. Every process also has an alarm set, so that a tree which
//! nobody stops ends by itself. `lastword-adversary list` names the kinds.

mod borders;
mod canary;
mod detached;
mod forkers;
mod process;
#[path = "../record.rs"]
mod record;
mod stuck;

use canary::Canary;

/// What a tree is given.
struct Scene {
    canary: Canary,
    /// The file of the canary, for those that replace themselves.
    path: String,
    /// What lies outside the tree and is needed to get out: a setuid copy of this program, a control group.
    outside: Option<String>,
}

type Kind = (&'static str, fn(&Scene));

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
    ("subreaper", detached::subreaper),
    ("respawners", forkers::respawners),
    ("namespaces", borders::namespaces),
    ("setuid", borders::setuid),
    ("cgroup-escape", borders::cgroup_escape),
];

/// What some kinds become when they replace themselves: one more process that goes on living.
const REPLACED: Kind = ("replaced", |scene| {
    scene.canary.settled();
    scene.canary.sing_on();
});

/// The same as a setuid program, which is another user now if the kernel let it.
const OTHER_USER: Kind = ("other-user", |scene| {
    if borders::keeps_what_setuid_gave() {
        scene.canary.settled();
    }
    scene.canary.sing_on();
});

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
    let Some((_, run)) = KINDS.iter().chain([&REPLACED, &OTHER_USER]).find(|(name, _)| *name == kind) else {
        misused("there is no such kind; `lastword-adversary list` names them");
    };
    let Some(canary) = Canary::open(path) else { misused("the canary's file cannot be opened") };
    canary.sing();
    run(&Scene { canary, path: path.to_owned(), outside });
}

fn misused(why: &str) -> ! {
    eprintln!("lastword-adversary: {why}");
    std::process::exit(64)
}
