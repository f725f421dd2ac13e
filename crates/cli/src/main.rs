//! The one executable. What keeps a process tree is chosen here, before anything else of the program starts.
//!
//! There are no verbs for people yet: the keeper is what others are built on.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|verb| verb == lastword_proc::KEEPER_VERB) {
        return lastword_proc::keeper::run();
    }
    complain();
    ExitCode::from(125)
}

#[expect(clippy::print_stderr, reason = "the one thing there is to say to a person")]
fn complain() {
    eprintln!("lastword: there are no commands yet; `lastword keeper` is started by programs, not by people");
}
