//! The tracer against a shell whose subshells stand for guard and shim.

use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};

use super::*;

/// The shell is the nursery, its subshell the guard, the subshell of that the shim, and the guard says how it ended.
const FAMILY: &str =
    "read go; (umask 022; (umask 027; echo shim >/dev/null; exit 5); echo shim $?; exit 3); echo guard $?";

fn family() -> Child {
    Command::new("sh").args(["-c", FAMILY]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// Lets the family go and returns what it said.
fn told(mut child: Child) -> String {
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let mut words = String::new();
    child.stdout.take().unwrap().read_to_string(&mut words).unwrap();
    // A nursery that was struck is reaped by the tracer, which is a thread of this process.
    let _ = child.wait();
    words
}

fn aim(role: Role, point: Point, side: Side, blow: Blow) -> Plan {
    Plan { first: Aim { role, point, side, blow }, times: 1, then: None }
}

fn traced(plan: Plan) -> (Seen, String) {
    let child = family();
    let tracer = Tracer::attach(child.id() as i32, plan).unwrap();
    let words = told(child);
    (tracer.join().unwrap(), words)
}

fn list(role: Role) -> Vec<String> {
    let (seen, words) = traced(aim(role, Point::Nth(1), Side::Entry, Blow::None));
    assert_eq!(words, "shim 5\nguard 3\n");
    assert!(seen.struck.is_none());
    seen.calls.iter().map(|call| name_of(call.number)).collect()
}

#[test]
fn roles_are_told_apart_and_listed_to_their_end() {
    let (guard, shim) = (list(Role::Guard), list(Role::Shim));
    assert_eq!(guard.last().map(String::as_str), Some("exit_group"));
    assert_eq!(shim.last().map(String::as_str), Some("exit_group"));
    assert!(guard.iter().any(|name| name == "wait4") && !shim.iter().any(|name| name == "wait4"));
    assert!(shim.iter().any(|name| name == "openat"), "{shim:?}");
}

#[test]
fn a_role_is_killed_at_each_of_its_calls_and_nobody_else_is() {
    let calls = list(Role::Shim).len();
    for nth in 1..=calls {
        let (seen, words) = traced(aim(Role::Shim, Point::Nth(nth), Side::Entry, Blow::Kill));
        assert_eq!(seen.calls.len(), nth);
        assert!(seen.struck.is_some_and(|call| call.result.is_none()));
        assert_eq!(words, "shim 137\nguard 3\n", "at {nth}");
    }
    let (seen, words) = traced(aim(Role::Shim, Point::Nth(calls + 1), Side::Entry, Blow::Kill));
    assert!(seen.struck.is_none());
    assert_eq!(words, "shim 5\nguard 3\n");
}

#[test]
fn at_exit_the_call_was_done_and_at_entry_it_was_not() {
    let umask = Point::NthOf(libc::SYS_umask as u64, 1);
    let (seen, words) = traced(aim(Role::Guard, umask, Side::Exit, Blow::Kill));
    assert!(seen.struck.is_some_and(|call| call.result.is_some()));
    assert_eq!(words, "guard 137\n");
    let (seen, words) =
        traced(aim(Role::Guard, Point::NthOf(libc::SYS_write as u64, 1), Side::Entry, Blow::Kill));
    assert!(seen.struck.is_some_and(|call| call.result.is_none()));
    assert_eq!(words, "guard 137\n", "the guard's line was not written");
    let (_, words) =
        traced(aim(Role::Guard, Point::NthOf(libc::SYS_write as u64, 1), Side::Exit, Blow::Kill));
    assert_eq!(words, "shim 5\nguard 137\n", "the guard's line was written");
}

#[test]
fn a_call_is_made_to_fail() {
    let open = Point::NthOf(libc::SYS_openat as u64, 1);
    let (seen, words) = traced(aim(Role::Shim, open, Side::Entry, Blow::Fail(libc::EIO)));
    assert!(seen.struck.is_some());
    // A shell whose redirection fails goes on without the command.
    assert_eq!(words, "shim 5\nguard 3\n");
    // A pipe has no bad sectors, but a sandbox may forbid to write.
    let write = Point::NthOf(libc::SYS_write as u64, 1);
    let (seen, words) = traced(aim(Role::Guard, write, Side::Entry, Blow::Fail(libc::EIO)));
    assert!(seen.is_spared && seen.struck.is_none());
    assert_eq!(words, "shim 5\nguard 3\n");
    let (_, words) = traced(aim(Role::Guard, write, Side::Entry, Blow::Fail(libc::EPERM)));
    assert_eq!(words, "guard 3\n", "the guard's line was refused");
}

#[test]
fn a_second_role_is_killed_after_the_first() {
    let first = Aim { role: Role::Shim, point: Point::Nth(2), side: Side::Entry, blow: Blow::Kill };
    let (seen, words) = traced(Plan { first, times: 1, then: Some((Role::Guard, 1)) });
    assert!(seen.struck.is_some() && seen.struck_then.is_some());
    assert_eq!(words, "guard 137\n");
}

#[test]
fn the_nursery_is_struck_too() {
    let (seen, words) =
        traced(aim(Role::Nursery, Point::NthOf(libc::SYS_wait4 as u64, 1), Side::Entry, Blow::Kill));
    assert!(seen.struck.is_some());
    assert_eq!(words, "shim 5\n");
}

#[test]
fn who_is_let_go_runs_on_as_if_nothing_had_been() {
    let child = family();
    let tracer =
        Tracer::attach(child.id() as i32, aim(Role::Shim, Point::Nth(1), Side::Entry, Blow::Kill)).unwrap();
    tracer.release().unwrap();
    assert_eq!(told(child), "shim 5\nguard 3\n");
}
