//! `trust`: shows the profile of a repository, and makes it count once a person has read it.

use std::path::{Path, PathBuf};

use lastword_api::Code;
use serde::Serialize;

use crate::client::connect::inside_a_job;
use crate::failure::{Failure, Outcome};
use crate::paths::Paths;
use crate::profile::Profile;
use crate::profile::repository::{RepositoryProfile, file_of, root_of};
use crate::profile::trusted::{Record, Trusted};
use crate::text::clean::clean;
use crate::text::shell::quoted;
use crate::ui::question::barred;
use crate::ui::{JsonList, Ui, screen};

/// Show the profile of a repository, and trust it
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The profile is the file .lastword.toml at the root of the repository. It is ignored until you trust it, and again after \
                  each change. Refused inside a job: an agent must not trust what it can write."
)]
pub(crate) struct Args {
    /// Folder in the repository; the current one by default
    #[arg(value_name = "FOLDER", value_hint = clap::ValueHint::DirPath)]
    folder: Option<PathBuf>,
    /// Trust the content with this hash without asking
    #[arg(long, value_name = "SHA256")]
    hash: Option<String>,
    /// List the profiles that you trust
    #[arg(long, conflicts_with_all = ["folder", "hash", "rm"])]
    ls: bool,
    /// Stop trusting the profile
    #[arg(long, conflicts_with = "hash")]
    rm: bool,
}

/// A trusted profile, as JSON.
#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    record: Record,
    state: &'static str,
}

/// Lines of the screen that a page leaves free for the question below it.
const FREE_LINES: usize = 3;

/// The fewest lines of a page.
const PAGE_MIN: usize = 4;

pub(crate) fn run(args: &Args, ui: &Ui) -> Outcome {
    let trusted = Trusted::of(&Paths::find()?);
    if args.ls {
        return list(&trusted, ui);
    }
    if let Some(job) = inside_a_job() {
        let text = format!("`trust` is refused inside a job ({job}): a job must not trust what it can write");
        return Err(Failure::new(Code::InsideAJob, text).next("run it outside of the job"));
    }
    let folder = args.folder.as_deref().unwrap_or(Path::new("."));
    if args.rm {
        return remove(folder, &trusted, ui);
    }
    let folder = std::fs::canonicalize(folder)
        .map_err(|error| Failure::usage(format!("{}: {error}", folder.display())))?;
    add(root_of(&folder), args.hash.as_deref(), &trusted, ui)
}

/// Trusts the profile of a repository, if the hash names its content or a person agrees.
fn add(root: &Path, hash: Option<&str>, trusted: &Trusted, ui: &Ui) -> Outcome {
    let file = file_of(root);
    let unreadable = |why: String| Failure::usage(format!("{}: {why}", file.display()));
    let found = RepositoryProfile::read(root).map_err(unreadable)?;
    let found = found.ok_or_else(|| Failure::usage(format!("there is no profile {}", file.display())))?;
    let profile = Profile::parse(&found.path, &found.bytes)?;
    let record = Record { root: root.to_owned(), sha256: found.sha256() };
    match hash {
        Some(hash) if hash.eq_ignore_ascii_case(&record.sha256) => {}
        Some(_) => {
            let text = format!("{} has another content: its SHA-256 is {}", file.display(), record.sha256);
            return Err(Failure::usage(text).next(format!("lastword trust {}    # shows it", quoted(root))));
        }
        None => {
            let lines = shown(&found, &profile, &record, ui);
            if !ui.can_ask || !ui.read_by_person {
                return Err(unasked(&lines, &record, ui)?);
            }
            if !print_pages(&lines, ui)?
                || !ui.confirm("Use this profile for `lastword run` in this repository?")
            {
                ui.say("nothing was changed");
                return Ok(0);
            }
        }
    }
    trusted.add(&record)?;
    match ui.json {
        true => ui.print_json(&Shown { record, state: TRUSTED })?,
        false => ui.say(&format!("trusted {}", clean(&file.display().to_string()))),
    }
    Ok(0)
}

/// Prints a profile that no person can be asked about, and returns the refusal.
fn unasked(lines: &[String], record: &Record, ui: &Ui) -> Result<Failure, Failure> {
    if !ui.json {
        ui.print(&lines.join("\n"))?;
    }
    let root = quoted(&record.root);
    let text = format!("{root} is not trusted: only a person at a terminal can be asked");
    Ok(Failure::usage(text)
        .next(format!("lastword trust --hash {} {root}    # trusts exactly this content", record.sha256)))
}

/// Returns all of a profile and what it sets. Lines of the repository begin with a bar, so that they cannot pass for ours.
fn shown(found: &RepositoryProfile, profile: &Profile, record: &Record, ui: &Ui) -> Vec<String> {
    let path = found.path.display().to_string();
    let mut lines = vec![ui.out.strong(&clean(&path)), format!("SHA-256 {}", record.sha256), String::new()];
    lines.extend(barred(&String::from_utf8_lossy(&found.bytes), ui.out, ui.width));
    let sets = profile.lines();
    let heading = match sets.is_empty() {
        true => "It sets nothing.",
        false => "Options of `lastword run` override what it sets:",
    };
    lines.extend([String::new(), heading.to_owned()]);
    lines.extend(sets.iter().flat_map(|line| barred(line, ui.out, ui.width)));
    lines
}

/// Prints lines page by page; reports whether all were shown. A person must not agree to what scrolled by unread.
fn print_pages(lines: &[String], ui: &Ui) -> Result<bool, Failure> {
    let page = screen().0.saturating_sub(FREE_LINES).max(PAGE_MIN);
    let mut printed = 0;
    for chunk in lines.chunks(page) {
        if printed > 0 && !ui.confirm(&format!("-- line {printed} of {}: show more?", lines.len())) {
            return Ok(false);
        }
        ui.print(&chunk.join("\n"))?;
        printed += chunk.len();
    }
    Ok(true)
}

fn remove(folder: &Path, trusted: &Trusted, ui: &Ui) -> Outcome {
    // The folder may be gone; its path was canonical.
    let root = match std::fs::canonicalize(folder) {
        Ok(folder) => root_of(&folder).to_owned(),
        Err(_) => std::path::absolute(folder).map_err(|error| Failure::usage(error.to_string()))?,
    };
    let shown = clean(&root.display().to_string()).into_owned();
    match trusted.remove(&root)? {
        true if ui.json => ui.print_json(&serde_json::json!({ "root": root }))?,
        true => ui.say(&format!("the profile of {shown} is not trusted any more")),
        false => {
            return Err(
                Failure::usage(format!("no profile of {shown} is trusted")).next("lastword trust --ls")
            );
        }
    }
    Ok(0)
}

const TRUSTED: &str = "trusted";

fn list(trusted: &Trusted, ui: &Ui) -> Outcome {
    let state = |record: &Record| match RepositoryProfile::read(&record.root) {
        Ok(Some(found)) if found.sha256() == record.sha256 => TRUSTED,
        Ok(Some(_)) => "changed",
        Ok(None) | Err(_) => "missing",
    };
    let all = trusted.all()?;
    let items: Vec<Shown> = all.into_iter().map(|record| Shown { state: state(&record), record }).collect();
    if ui.json {
        ui.print_json(&JsonList { items: &items, next_cursor: None })?;
        return Ok(0);
    }
    for Shown { record, state } in &items {
        ui.print(&format!("{state:<8} {}", clean(&record.root.display().to_string())))?;
    }
    if items.is_empty() {
        ui.say("no trusted profiles");
    }
    Ok(0)
}
