//! `bench run`: the whole product beside programs that do less, in one run: what a user waits for, and what it costs.
//!
//! - [`rates`]: `true` per second, through the API and through the command line.
//! - [`calls`]: one thing at a time: from the command to the job's first instruction, a look at a job, a forced end.
//! - [`build`]: one build alone, for the comparison of two.
//! - [`memory`]: what the servers hold when nobody asks.

mod build;
mod calls;
mod memory;
mod rates;

use std::path::{Path, PathBuf};

use lastword_api::{GroupChange, Job, Submit};
use lastword_client::{Call, groups, jobs};

use super::cost::Cpu;
use super::rivals::{Pueue, TaskSpooler};
use super::{Ground, latency};
use crate::args::Args;
use crate::place::Programs;
use crate::product::Product;
use crate::product::client::Client;

const USAGE: &str = "bench run [--rounds N] [--short] [--in FOLDER]

Through the whole product, beside a bare spawn, xargs, task-spooler and pueue, in turn: jobs a second two and eight at once, from
the command to the job's first instruction, a look at one job, a forced end until nothing is left, memory of an idle server.

  --rounds N    rounds of the rates, 5 if nothing is said; medians are shown
  --short       one small round, and pueue only if it is there
  --in FOLDER   where to work: what a flush costs, its file system decides";

pub(super) use build::figures;

/// Runs `bench run`.
pub(super) fn run(words: &[&str]) -> Result<bool, String> {
    if words.iter().any(|word| matches!(*word, "--help" | "-h")) {
        println!("{USAGE}");
        return Ok(true);
    }
    let args = Args::new(words, &["--rounds", "--in"], &["--short"])?;
    let short = args.has("--short");
    let rounds: usize = args.value("--rounds", if short { 1 } else { 5 })?;
    let folder = args.text("--in").map_or_else(std::env::temp_dir, PathBuf::from);
    let ground = Ground::within(&folder)?;
    println!("bench run in {}: {rounds} rounds, interleaved; medians", folder.display());
    latency::flushes(&ground, if short { 50 } else { 200 })?.print();
    let rivals = Rivals::find(!short);
    let mut reached = memory::idle(&ground, &rivals, if short { 40 } else { 500 })?;
    // Before its daemon: what that starts counts, too.
    let cpu = Cpu::here();
    let ours = Ours::start(&ground)?;
    reached &= rates::compare(&ours, &ground, &rivals, &cpu, rounds, short)?;
    let count = if short { 10 } else { 100 };
    reached &= calls::start(&ours, &ground, &rivals, count)?;
    calls::show(&ours, &ground, &rivals, count)?;
    calls::cancel(&ours, &ground, &rivals, count)?;
    println!("{}", if reached { "every goal was reached" } else { "some goals were NOT REACHED" });
    // A goal that a busy machine misses is a figure to be read, not a broken promise.
    Ok(true)
}

/// What others have, as far as it can be had here.
struct Rivals {
    spooler: Option<TaskSpooler>,
    pueue: Option<Pueue>,
}

impl Rivals {
    fn find(may_build: bool) -> Rivals {
        let had = |name: &str, why: &String| println!("{name} cannot be had: {why}");
        let spooler = TaskSpooler::find().inspect_err(|why| had("task-spooler", why)).ok();
        let pueue = Pueue::find(may_build).inspect_err(|why| had("pueue", why)).ok();
        Rivals { spooler, pueue }
    }
}

/// The product, with its daemon. Torn down with the value.
struct Ours {
    product: Product,
}

impl Ours {
    fn start(ground: &Ground) -> Result<Ours, String> {
        let folder = ground.folder()?;
        Ours::start_in(&folder)
    }

    fn start_in(folder: &Path) -> Result<Ours, String> {
        Ours::start_of(&Programs::beside()?.lastword, folder)
    }

    fn start_of(executable: &Path, folder: &Path) -> Result<Ours, String> {
        let product = Product::install(executable, folder, &folder.join("home"))?;
        // Torn down whatever becomes of its start.
        let ours = Ours { product };
        ours.product.start()?;
        Ok(ours)
    }

    /// Lets so many run at once.
    fn slots(&self, client: &mut Client, slots: usize) -> Result<(), String> {
        let change = GroupChange { slots: Some(u32::try_from(slots).ok()), paused: None };
        client.call(&groups::set("default", &change)).map(drop)
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        self.product.tear_down();
    }
}

/// Returns the call that asks for a job with nothing in its environment but a path.
fn submit(argv: Vec<String>) -> Call<Job> {
    jobs::submit(&Submit {
        argv,
        cwd: "/".to_owned(),
        env: [("PATH".to_owned(), "/bin".to_owned())].into(),
        ..Submit::default()
    })
}
