//! Trials of the keeper and the product, with real processes. Each verb is a file; `cargo xtask help` lists them.

mod agents;
mod api;
mod args;
mod attack;
mod bench;
mod bombs;
mod chaos;
mod clock;
mod fleet;
// Shared with the proof. They need only the standard library, so a crate for two files is not worth it.
#[path = "../../proof/src/power_loss/image.rs"]
#[expect(unreachable_pub, reason = "written for a library")]
mod image;
mod leader;
mod leases;
mod orphans;
mod place;
mod points;
mod postgres;
mod power_loss;
mod processes;
mod product;
#[path = "../../proof/src/random.rs"]
#[expect(unreachable_pub, reason = "written for a library")]
mod random;
mod record;
mod scale;
mod scope;
mod statistics;
mod survive;
mod torture;
mod tracer;
mod track;
mod upgrade;
mod verdict;

use std::process::ExitCode;

/// A verb and its function. The exit code says whether everything held.
type Verb = (&'static str, fn(&[&str]) -> Result<bool, String>);

#[rustfmt::skip] // One row, one verb.
const VERBS: &[Verb] = &[
    ("agents", agents::table::run),
    ("api", api::run),
    ("attack", attack::run),
    ("bench", bench::run),
    ("chaos", chaos::run),
    ("bombs", bombs::run),
    ("fault-points", points::fault::run),
    ("fleet", fleet::run),
    ("kill-points", points::kill::run),
    ("leases", leases::run),
    ("orphans", orphans::run),
    ("power-loss", power_loss::run),
    ("record", track::run),
    ("scale", scale::run),
    ("scope", scope::run),
    ("survive", survive::run),
    ("torture", torture::run),
    ("upgrade", upgrade::run),
    // Parts of these that run as separate processes.
    (attack::attacker::VERB, attack::attacker::run),
    ("bench-part", bench::part),
    ("leader", leader::run),
    ("power-writer", power_loss::writer),
    ("stand-in", survive::stand_in::run),
    (agents::table::PART, agents::table::part),
    (agents::table::COMPARE, agents::table::compare),
    (agents::apart::INIT, agents::apart::init),
    (agents::session::VERB, agents::session::run),
    (api::PART, api::part),
    (fleet::ask::VERB, fleet::ask::run),
    (fleet::canary::VERB, fleet::canary::run),
    (fleet::history::VERB, fleet::history::run),
    (fleet::host::INIT, fleet::host::init),
    (orphans::PART, orphans::part),
    (orphans::server::VERB, orphans::server::run),
    (scope::VERB, scope::part),
    (torture::driver::VERB, torture::driver::run),
    (points::leader::VERB, points::leader::run),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [name, rest @ ..] = arguments.as_slice() else {
        eprintln!("lastword-trials: which verb? `cargo xtask help` lists them");
        return ExitCode::from(2);
    };
    let Some((_, run)) = VERBS.iter().find(|(verb, _)| verb == name) else {
        eprintln!("lastword-trials: there is no verb `{name}`");
        return ExitCode::from(2);
    };
    match run(rest) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("{name}: {why}");
            ExitCode::from(2)
        }
    }
}
