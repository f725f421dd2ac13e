//! `docs`: builds the book, checks its links, and runs every command that README and book show.
//!
//! Each page runs in a fresh home, and its output is compared (`blocks.rs` says what a block is, `compare.rs` what may differ). `wrong.md` is
//! wrong on purpose: every block of it must be reported.

mod blocks;
mod compare;
mod files;
mod links;
mod pictures;
mod reference;
mod session;

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

use crate::program::{Failure, Outcome, cargo, output, succeeds};
use crate::tools;
use blocks::{Block, Blocks, NotRun};
use session::Home;

const BOOK: &str = "target/book";
const SUMMARY: &str = "docs/SUMMARY.md";
const REFERENCE: &str = "docs/reference/cli.md";

/// Pages that are read in the repository. The commands of the first one are run as well.
const IN_REPOSITORY: &[&str] = &["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"];

/// A page on which every block is wrong.
const WRONG: &str = include_str!("wrong.md");

/// How many pages are run at once. Most of their time they wait.
const AT_ONCE: usize = 4;

const USAGE: &str = "usage: cargo xtask docs [--write | --pictures]";

/// A page, and what of it is run.
struct Page {
    path: String,
    text: String,
    blocks: Blocks,
}

impl Page {
    /// Reads a page. Skips blocks that need a missing program.
    fn read(path: &str, text: &str) -> Result<Page, Failure> {
        let mut blocks = blocks::read(text).map_err(|error| Failure::new(format!("{path}: {error}")))?;
        for block in &mut blocks.run {
            let missing = block.needs.iter().find(|program| !succeeds("which", &[program]));
            if let Some(program) = missing {
                blocks.not_run.push(NotRun { line: block.line, why: format!("{program} is not here") });
                block.is_left_out = true;
            }
        }
        Ok(Page { path: path.into(), text: text.into(), blocks })
    }
}

/// The result of one page.
struct Checked {
    /// Each difference, as it is reported.
    wrong: Vec<String>,
    /// The page with the output that was printed.
    mended: String,
}

/// Checks everything; with `--write`, writes the new output into the pages; with `--pictures`, takes the pictures again.
pub(crate) fn run(arguments: &[&str]) -> Outcome {
    let begin = Instant::now();
    let write = match arguments {
        [] => false,
        ["--write"] => true,
        ["--pictures"] => {
            tools::need("agents")?;
            cargo("build --quiet --package lastword")?;
            cargo("build --quiet --package lastword-trials")?;
            return pictures::take();
        }
        _ => return Err(Failure::new(USAGE)),
    };
    cargo("build --quiet --package lastword")?;
    let mut wrong = check_reference(write)?;
    wrong.extend(files::check(write)?);
    let pages = pages()?;
    let (checked, stale) = std::thread::scope(|scope| {
        // Pictures wait most of the time.
        let stale = scope.spawn(pictures::stale);
        (check(&pages), stale.join().expect("it fails without a panic"))
    });
    let (checked, stale) = (checked?, stale?);
    for (page, checked) in pages.iter().zip(checked) {
        match write && checked.mended != page.text {
            true => {
                save(&page.path, &checked.mended)?;
                println!("{} was written: look at it", page.path);
            }
            false => wrong.extend(checked.wrong),
        }
    }
    wrong.extend(stale);
    wrong.extend(seeded()?);
    wrong.extend(dead_links()?);
    report(&pages, begin);
    match wrong.len() {
        0 => Ok(()),
        count => {
            eprintln!("{}", wrong.join("\n"));
            Err(Failure::new(format!("{count} places are wrong")))
        }
    }
}

/// Plays the scenes with agents again and compares their pictures. The trials were built with this profile.
pub(crate) fn check_agent_pictures(profile: &str) -> Outcome {
    cargo("build --quiet --package lastword")?;
    match pictures::stale_with_agents(profile)?.as_slice() {
        [] => Ok(()),
        stale => Err(Failure::new(stale.join("\n"))),
    }
}

fn report(pages: &[Page], begin: Instant) {
    let run: Vec<&Block> =
        pages.iter().flat_map(|page| &page.blocks.run).filter(|block| !block.is_left_out).collect();
    let commands: usize = run.iter().map(|block| block.exchanges.len()).sum();
    for page in pages {
        for left in &page.blocks.not_run {
            println!("{}:{}: not run: {}", page.path, left.line, left.why);
        }
    }
    let not_run: usize = pages.iter().map(|page| page.blocks.not_run.len()).sum();
    println!(
        "{} pages, {} blocks with {commands} commands run, {not_run} not run, {} blocks wrong on purpose found; {:.1} s",
        pages.len(),
        run.len(),
        blocks::read(WRONG).map_or(0, |blocks| blocks.run.len()),
        begin.elapsed().as_secs_f64()
    );
}

/// Returns README and the pages of the book.
fn pages() -> Result<Vec<Page>, Failure> {
    let summary = load(SUMMARY)?;
    let listed = summary.lines().filter_map(|line| line.split_once("](")?.1.strip_suffix(".md)"));
    let mut paths: Vec<String> = vec!["README.md".into()];
    // The reference is compared as a whole.
    paths.extend(listed.map(|page| format!("docs/{page}.md")).filter(|path| path != REFERENCE));
    let mut pages = Vec::new();
    for path in paths {
        pages.push(Page::read(&path, &load(&path)?)?);
    }
    Ok(pages)
}

fn check(pages: &[Page]) -> Result<Vec<Checked>, Failure> {
    let next = Mutex::new(pages.iter().enumerate());
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let taken = next.lock().expect("no holder panics").next();
                    let Some((number, page)) = taken else { break };
                    let checked = check_page(&number.to_string(), page);
                    done.lock().expect("no holder panics").push((number, checked));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no holder panics");
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, checked)| checked).collect()
}

fn check_page(name: &str, page: &Page) -> Result<Checked, Failure> {
    let mut checked = Checked { wrong: Vec::new(), mended: page.text.clone() };
    if page.blocks.run.is_empty() {
        return Ok(checked);
    }
    let said = |why: &str| Failure::new(format!("{}: {why}", page.path));
    let printed = Home::new(name)?.run(&page.blocks.run).map_err(|failure| said(&failure.why))?;
    let mut right = Vec::new();
    for (block, printed) in page.blocks.run.iter().zip(printed) {
        let mut lines = Vec::new();
        for (exchange, printed) in block.exchanges.iter().zip(printed) {
            if block.is_left_out || compare::same(&exchange.printed, &printed) {
                lines.push(None);
                continue;
            }
            checked.wrong.push(format!(
                "{}:{}: $ {}\n{}\n  the page shows:\n{}",
                page.path,
                block.line,
                exchange.command,
                indented(&printed),
                indented(&exchange.printed)
            ));
            lines.push(Some(printed));
        }
        right.push(lines);
    }
    checked.mended = blocks::rewrite(&page.text, &right);
    Ok(checked)
}

fn indented(lines: &[String]) -> String {
    lines.iter().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

/// Runs the page on which every block is wrong, and returns the blocks that were taken to be right.
fn seeded() -> Result<Vec<String>, Failure> {
    let page = Page::read("wrong.md", WRONG)?;
    let found = check_page("wrong", &page)?.wrong;
    let missed = page.blocks.run.iter().filter(|block| {
        let place = format!("wrong.md:{}: ", block.line);
        !found.iter().any(|found| found.starts_with(&place))
    });
    Ok(missed
        .map(|block| format!("wrong.md:{}: this block is wrong, and was taken to be right", block.line))
        .collect())
}

fn check_reference(write: bool) -> Result<Vec<String>, Failure> {
    let page = reference::page(&Home::new("reference")?)?;
    if fs::read_to_string(REFERENCE).is_ok_and(|text| text == page) {
        return Ok(Vec::new());
    }
    if write {
        save(REFERENCE, &page)?;
        return Ok(Vec::new());
    }
    Ok(vec![format!("{REFERENCE} is not what the program says of itself: cargo xtask docs --write")])
}

/// Builds the book and follows its links, and those of the pages in the repository.
fn dead_links() -> Result<Vec<String>, Failure> {
    output("mdbook", &["build", "docs"])?;
    let mut dead = links::dead_in_book(Path::new(BOOK))?;
    for path in IN_REPOSITORY {
        dead.extend(links::dead_in_page(Path::new(path), &load(path)?));
    }
    Ok(dead.into_iter().map(|link| format!("dead link in {link}")).collect())
}

fn load(path: &str) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| Failure::new(format!("{path}: {error}")))
}

fn save(path: &str, text: &str) -> Outcome {
    fs::write(path, text).map_err(|error| Failure::new(format!("{path}: {error}")))
}
