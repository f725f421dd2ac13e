//! Broken on purpose: what the attempts are for is taken away, one guard at a time, and the attempt that must notice has to fail.
//!
//! The executable that ships has no bugs to switch on, so a guard is taken away around it.

use super::attempt;
use super::stage::Stage;

/// A guard that is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bug {
    /// Whoever reaches the socket is answered as the user.
    AnybodyIsAnswered,
    /// A job may signal whom its user may.
    JobsAreNotScoped,
    /// The memory of one who holds a job can be read.
    KeeperIsOpen,
}

/// Each bug, what is wrong with it, and the attempt that must notice.
#[rustfmt::skip] // One row, one bug.
const BUGS: &[(Bug, &str, &str)] = &[
    (Bug::AnybodyIsAnswered, "the daemon does not look who asks", "a stranger connects to a socket whose mode somebody has opened"),
    (Bug::JobsAreNotScoped, "a job is not kept from signalling its keeper", "a job kills the keepers of another, the nursery and the daemon, by number"),
    (Bug::KeeperIsOpen, "one of four processes is left open to others", "a process outside of jobs gets into them"),
];

/// Seeds one bug after the other; reports whether all were noticed.
pub(super) fn run(short: bool) -> Result<bool, String> {
    println!("\nbroken on purpose");
    let mut all = true;
    for (bug, about, what) in BUGS {
        let attempt = attempt(what).ok_or_else(|| format!("there is no attempt `{what}`"))?;
        let stage = Stage::set(Some(*bug), short)?;
        let (word, how) = match (attempt.make)(&stage) {
            Err(why) => ("noticed", why),
            Ok(how) => {
                all = false;
                ("NOT NOTICED", how)
            }
        };
        println!("{:>3}  {about:<74} {word:<9} {}", attempt.item, stage.shown(&how));
    }
    Ok(all)
}
