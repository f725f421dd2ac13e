//! Broken on purpose: what the attempts are for is taken away, one guard at a time, and the attempt that must notice has to fail.
//!
//! The executable that ships has no bugs to switch on, so a guard is taken away around it.

use super::attempt::{Groups, named};
use super::bug::Bug;
use super::parties::Parties;

/// Something that is broken on purpose.
pub(super) struct Broken {
    bug: Bug,
    about: &'static str,
    /// The attempt that must notice.
    noticed_by: &'static str,
    /// What it must say then: that something failed is not enough.
    says: &'static str,
}

#[rustfmt::skip] // One row, one bug.
pub(super) const BUGS: &[Broken] = &[
    Broken { bug: Bug::AnybodyIsAnswered, about: "the daemon does not look who asks", noticed_by: "a stranger connects to a socket whose mode somebody has opened", says: "a stranger was answered" },
    Broken { bug: Bug::JobsAreNotScoped, about: "a job is not kept from signalling its keeper", noticed_by: "a job kills the keepers of another, the nursery and the daemon, by number", says: "no daemon" },
    Broken { bug: Bug::JobsAreNotScoped, about: "a job is not kept from setting limits of other processes", noticed_by: "a job sets limits of another job, keepers, nursery and daemon", says: "limited: " },
    Broken { bug: Bug::KeeperIsOpen, about: "one of four processes is left open to others", noticed_by: "a process outside of jobs gets into them", says: "ptrace" },
    Broken { bug: Bug::SecretOnCommandLine, about: "a secret is handed on as an argument", noticed_by: "a secret of the environment shows on command lines, in records, log or API", says: "shows it" },
    Broken { bug: Bug::TerminalIsRaw, about: "what a job writes reaches a terminal as it is", noticed_by: "what a job writes steers a terminal", says: "prints" },
    Broken { bug: Bug::OutputHasNoCap, about: "all that a job writes is kept", noticed_by: "as much output as fits into some seconds", says: "the disk fills" },
    Broken { bug: Bug::ProfilesAreTrusted, about: "a profile that was not read is trusted", noticed_by: "a repository chooses agent, model, arguments, variables, group and limits by a profile", says: "using the profile" },
    Broken { bug: Bug::ProfilesAreTrusted, about: "a profile that was edited is trusted", noticed_by: "an agent edits the profile that its user trusts", says: "the profile counts" },
    Broken { bug: Bug::JobsAreNotScoped, about: "a job may trust a profile", noticed_by: "an agent trusts a profile from inside its job", says: "a job trusted a profile" },
];

/// The same of a fleet.
#[rustfmt::skip] // One row, one bug.
pub(super) const OF_A_FLEET: &[Broken] = &[
    Broken { bug: Bug::WorkersSpeakSql, about: "a worker reads the journal itself", noticed_by: "a stolen token reads jobs of others: running, waiting, ended", says: "it was read" },
    Broken { bug: Bug::WorkersSpeakSql, about: "a worker writes to the journal itself", noticed_by: "a stolen token cancels, answers, and changes limits, labels, rules and messages", says: "it was written" },
    Broken { bug: Bug::TokenIsOpen, about: "the user of jobs can read the files of the worker", noticed_by: "a job of another user takes token, leases and output of others", says: "it read" },
    Broken { bug: Bug::AnyCertificate, about: "a worker takes any certificate", noticed_by: "`worker enroll` meets another server at the address", says: "it enrolled" },
];

/// Takes away one guard after the other, and makes the attempt that must notice; reports whether all were noticed.
pub(super) fn run<S: Parties + 'static>(
    bugs: &[Broken],
    groups: &'static Groups<S>,
    parties: impl Fn(Bug) -> Result<S, String>,
) -> Result<bool, String> {
    println!("\nbroken on purpose");
    let mut all = true;
    for Broken { bug, about, noticed_by, says } in bugs {
        let attempt =
            named(groups, noticed_by).ok_or_else(|| format!("there is no attempt `{noticed_by}`"))?;
        let parties = parties(*bug)?;
        let (word, how) = match (attempt.make)(&parties) {
            Err(why) if why.contains(says) => ("noticed", why),
            Err(how) | Ok(how) => {
                all = false;
                ("NOT NOTICED", how)
            }
        };
        println!("{:>3}  {about:<74} {word:<9} {}", attempt.item, parties.shown(&how));
    }
    Ok(all)
}
