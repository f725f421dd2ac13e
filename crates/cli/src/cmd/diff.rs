//! `diff`: what a job changed in its worktree.

use std::fs::File;
use std::io::{BufRead as _, BufReader, IsTerminal as _, Write as _};

use lastword_api::Job;
use lastword_git::FileChange;
use serde::Serialize;

use super::worktree;
use crate::client::Client;
use crate::failure::{Failure, Outcome};
use crate::text::clean::clean;
use crate::ui::style::Style;
use crate::ui::{Ui, words};

/// Shows what a job changed in its worktree
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Everything since the commit it began at: committed or not, files that git does not know among it, but not what is \
                  ignored. Also while the job runs. What is printed is a patch: `lastword diff JOB | git apply --3way` takes it."
)]
pub(crate) struct Args {
    /// Which job
    #[arg(value_name = "JOB", default_value = "@last", hide_default_value = true, add = super::completion::jobs())]
    job: String,
    /// Only which files, and how much of each
    #[arg(long)]
    stat: bool,
}

/// What was changed, as a document.
#[derive(Debug, Serialize)]
struct Changes<'a> {
    job: &'a str,
    base: &'a str,
    branch: &'a str,
    files: Vec<Changed>,
    added: u64,
    deleted: u64,
    /// What could not be looked at, in the words of git.
    left_out: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct Changed {
    path: String,
    from: Option<String>,
    kind: &'static str,
    added: Option<u64>,
    deleted: Option<u64>,
}

pub(crate) async fn run(args: Args, client: Client) -> Outcome {
    let job = client.job(&args.job).await?;
    let ui = client.ui();
    let view = worktree::view(&job)?;
    let files = match &view {
        Some(view) => view.files().map_err(|error| worktree::failed(&error))?,
        None => Vec::new(),
    };
    let left_out = view.as_ref().and_then(|view| view.skipped());
    if ui.json {
        ui.print_json(&document(&job, &files, left_out))?;
        return Ok(0);
    }
    if let Some(why) = left_out {
        ui.say(&format!("lastword: some of it could not be looked at: {}", clean(why)));
    }
    let Some(view) = view.filter(|_| !files.is_empty()) else {
        let called = words::called(job.name.as_deref(), &job.short);
        let so_far = if job.is_ended() { "" } else { " so far" };
        ui.say(&format!("{called} has changed nothing{so_far}"));
        return Ok(0);
    };
    let drawn = if args.stat { view.stat(ui.width.min(140)) } else { view.patch() };
    print(&drawn.map_err(|error| worktree::failed(&error))?, ui)?;
    Ok(0)
}

fn document<'a>(job: &'a Job, files: &[FileChange], left_out: Option<&'a str>) -> Changes<'a> {
    let worktree = job.worktree.as_ref();
    let text = |path: &std::path::Path| path.to_string_lossy().into_owned();
    let changed = |file: &FileChange| Changed {
        path: text(&file.path),
        from: file.from.as_deref().map(text),
        kind: file.kind.as_str(),
        added: file.added,
        deleted: file.deleted,
    };
    Changes {
        job: &job.id,
        base: worktree.map_or("", |worktree| &worktree.base),
        branch: worktree.map_or("", |worktree| &worktree.branch),
        added: files.iter().filter_map(|file| file.added).sum(),
        deleted: files.iter().filter_map(|file| file.deleted).sum(),
        files: files.iter().map(changed).collect(),
        left_out,
    }
}

/// Prints what git wrote: to a program byte for byte, to a terminal in colour and without anything that acts on it.
fn print(drawn: &File, ui: &Ui) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    if !ui.out.on && !out.is_terminal() {
        std::io::copy(&mut &*drawn, &mut out)?;
        return Ok(out.flush()?);
    }
    let mut lines = BufReader::new(drawn);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line)? > 0 {
        let text = String::from_utf8_lossy(&line);
        let text = clean(text.trim_end_matches('\n')).replace('\u{2409}', "\t");
        writeln!(out, "{}", coloured(&text, ui.out))?;
        line.clear();
    }
    Ok(out.flush()?)
}

/// Colours a line of a patch by what it opens with.
fn coloured(line: &str, style: Style) -> String {
    match line.as_bytes() {
        [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] | [b'd', b'i', b'f', b'f', b' ', ..] => {
            style.strong(line)
        }
        [b'+', ..] => style.good(line),
        [b'-', ..] => style.bad(line),
        [b'@', b'@', ..] => style.live(line),
        _ => line.to_owned(),
    }
}
