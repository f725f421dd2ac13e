//! `agents`: what real agents do under the product, behaviour by behaviour. The page `docs/agents.md` is this table, written by it.
//!
//! - [`rows`]: the behaviours.
//! - [`setup`]: an agent, a model and the product, for one of them.
//! - `judge`: what is looked at in every cell.
//! - [`page`]: the table as it is written, and compared.
//! - `compare`: what is left when agents are ended by their own means, and by ours.

mod compare;
mod judge;
mod page;
mod rows;
mod setup;
mod verdict;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::known::{AGENTS, Agent, named};
use super::{apart, install};
use crate::args::Args;
use crate::place::{Programs, temporary};
use page::Page;
use rows::{ROWS, Row};
use setup::Setup;

pub(crate) use verdict::Verdict;

/// The verb by which this program fills the table in, inside.
pub(crate) const PART: &str = "agents-part";

/// The verb by which it compares, inside.
pub(crate) const COMPARE: &str = "agents-compare";

/// The agents that must be tried always; others are when they can be had.
const ALWAYS: &[&str] = &["claude", "codex"];

/// Seconds after which CI begins no further cell of an agent that is not tried always. What is left over is said, and is that of the
/// slowest.
const WITHIN_CI_S: u64 = 90;

/// The agents, quickest first, for runs with a time limit.
const QUICKEST_FIRST: &[&str] = &["claude", "codex", "goose", "gemini", "opencode"];

/// Tries agents, and compares the table with the page; with `--write`, writes it.
pub(crate) fn run(words: &[&str]) -> Result<bool, String> {
    let args = Args::new(words, &["--agent", "--only", "--at-once"], &["--write", "--ci", "--compare"])?;
    let wanted = args.text("--agent").map_or_else(|| Ok(AGENTS.iter().collect()), named)?;
    let installed = install::all(&wanted)?;
    if let Some((agent, why)) = installed.skipped.iter().find(|(agent, _)| ALWAYS.contains(&agent.name)) {
        return Err(format!("{} is tried always: {why}", agent.name));
    }
    let begun = Instant::now();
    let place = temporary("agents")?;
    let programs = Programs::beside()?;
    let names: Vec<&str> = installed.agents.iter().map(|agent| agent.name).collect();
    let names = names.join(",");
    if args.has("--compare") {
        let words: [&OsStr; 4] =
            [place.path().as_ref(), installed.cache.as_ref(), programs.lastword.as_ref(), names.as_ref()];
        return compared(apart::command(&programs, COMPARE, &words), args.has("--write"));
    }
    // At most as many cells at once as there are processors: agents take seconds of one to start.
    let at_once = std::thread::available_parallelism().map_or(1, usize::from);
    let at_once: usize = args.value("--at-once", at_once)?;
    let at_once = at_once.to_string();
    let within = if args.has("--ci") { WITHIN_CI_S } else { u64::MAX }.to_string();
    let words: [&OsStr; 7] = [
        place.path().as_ref(),
        installed.cache.as_ref(),
        programs.lastword.as_ref(),
        names.as_ref(),
        args.text("--only").unwrap_or("all").as_ref(),
        at_once.as_ref(),
        within.as_ref(),
    ];
    let mut inside = apart::command(&programs, PART, &words);
    let status = inside.status().map_err(|error| format!("unshare (of util-linux) is needed: {error}"))?;
    let mut page = Page::read(&place.path().join(FOUND))?;
    page.skipped = installed.skipped.iter().map(|(agent, why)| (agent.name, why.clone())).collect();
    println!("\n{}", page.table());
    println!("{} cells in {:.0} s", page.cells.len(), begun.elapsed().as_secs_f64());
    let is_as_written = match args.has("--write") {
        true => page.write().map(|()| true)?,
        false => page.compare()?,
    };
    Ok(status.success() && is_as_written)
}

/// Has agents ended by their own means and by ours, inside, and prints what became of it.
fn compared(mut inside: Command, write: bool) -> Result<bool, String> {
    let output = inside.stderr(Stdio::inherit()).output().map_err(|error| format!("unshare: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}");
    if write && output.status.success() {
        page::write_compared(&text)?;
    }
    Ok(output.status.success())
}

/// The file by which the inside tells what it found.
const FOUND: &str = "found";

/// A cell to be filled in.
struct Cell {
    agent: &'static Agent,
    row: &'static Row,
}

/// Fills the table in, inside.
pub(crate) fn part(words: &[&str]) -> Result<bool, String> {
    let [place, cache, lastword, names, only, at_once, within] = words else {
        return Err("what is to be tried?".to_owned());
    };
    let (place, cache) = (Path::new(place), Path::new(cache));
    let is_wanted = |row: &&Row| *only == "all" || only.split(',').any(|name| name == row.name);
    let rows: Vec<&'static Row> = ROWS.iter().filter(is_wanted).collect();
    if rows.is_empty() {
        return Err(format!("there is no row `{only}`: {}", page::names().join(", ")));
    }
    let agents = named(names)?;
    let mut cells: Vec<Cell> =
        rows.iter().flat_map(|row| agents.iter().map(|agent| Cell { agent, row })).collect();
    let within = within.parse().map_or(Duration::MAX, Duration::from_secs);
    if within < Duration::from_secs(u64::MAX) {
        cells.sort_by_key(|cell| QUICKEST_FIRST.iter().position(|name| *name == cell.agent.name));
    }
    let begun = Instant::now();
    let program = place.join("lastword");
    fs::copy(lastword, &program).map_err(|error| format!("{lastword}: {error}"))?;
    let (next, found) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..at_once.parse().unwrap_or(1) {
            scope.spawn(|| {
                while let Some(cell) = cells.get(next.fetch_add(1, Ordering::SeqCst)) {
                    if begun.elapsed() > within && !ALWAYS.contains(&cell.agent.name) {
                        println!("SKIPPED: {} {}: the time is over", cell.agent.name, cell.row.name);
                        continue;
                    }
                    let verdict = cell.fill(cache, &program, place);
                    let mut found = found.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    found.insert((cell.row.name, cell.agent.name), verdict);
                }
            });
        }
    });
    let found = found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    page::hand_over(&place.join(FOUND), &found)?;
    Ok(!found.values().any(|verdict| matches!(verdict, Verdict::Fail(_))))
}

impl Cell {
    fn fill(&self, cache: &Path, lastword: &Path, place: &Path) -> Verdict {
        let begun = Instant::now();
        let verdict = match self.row.not_for(self.agent) {
            Some(why) => Verdict::NotApplicable(why),
            None => match self.try_it(
                cache,
                lastword,
                place.join(format!("{}-{}-here", self.agent.name, self.row.name)),
            ) {
                Ok(()) => Verdict::Pass,
                Err(why) => Verdict::Fail(why),
            },
        };
        let seconds = begun.elapsed().as_secs_f64();
        let (agent, row) = (self.agent.name, self.row.name);
        match &verdict {
            Verdict::Pass => println!("{agent:<9} {row:<26} ok    {seconds:>5.1} s"),
            Verdict::NotApplicable(why) => println!("{agent:<9} {row:<26} n/a   {why}"),
            Verdict::Fail(why) => println!("{agent:<9} {row:<26} FAILED {seconds:>4.1} s  {why}"),
        }
        verdict
    }

    fn try_it(&self, cache: &Path, lastword: &Path, place: PathBuf) -> Result<(), String> {
        let setup = Setup::new(self.agent, cache, lastword, &place, self.row.setting)?;
        (self.row.run)(&setup)?;
        judge::judge(&setup)
    }
}

/// Ends each agent in the middle of a tool, by its own means and by ours, and prints how many processes survive. Ours must leave none.
pub(crate) fn compare(words: &[&str]) -> Result<bool, String> {
    let [place, cache, lastword, names] = words else { return Err("what is to be tried?".to_owned()) };
    let (place, cache) = (Path::new(place), Path::new(cache));
    let program = place.join("lastword");
    fs::copy(lastword, &program).map_err(|error| format!("{lastword}: {error}"))?;
    println!("How many of the four processes of a tool (background, setsid, foreground, nohup) survive:\n");
    let heads = compare::WAYS.map(|(_, name)| name).join(" | ");
    println!("| agent | {heads} |\n|---|---|---|---|");
    let mut is_clean = true;
    for agent in named(names)? {
        let mut cells = Vec::new();
        for (way, name) in compare::WAYS {
            let folder = place.join(format!("{}-{}-here", agent.name, name.replace(' ', "-")));
            let setup = Setup::new(agent, cache, &program, &folder, setup::Setting::default())?;
            let left =
                compare::survivors(&setup, way).map_err(|why| format!("{} {name}: {why}", agent.name))?;
            is_clean &= way != compare::Way::Ours || left.is_empty();
            cells.push(if left.is_empty() {
                "0".to_owned()
            } else {
                format!("{}: {}", left.len(), left.join(", "))
            });
        }
        println!("| {} {} | {} |", agent.name, agent.version(), cells.join(" | "));
    }
    Ok(is_clean)
}
