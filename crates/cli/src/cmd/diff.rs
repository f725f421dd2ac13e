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
use crate::ui::{Ui, describe};

/// Show what a job changed in its worktree
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Shows all changes since the commit the job started from: committed, uncommitted and untracked files, but not ignored \
                  ones. Works while the job runs. The output is a patch for `git apply --3way`."
)]
pub(crate) struct Args {
    /// Job whose changes to show; the newest by default
    #[arg(value_name = "JOB", default_value = "@last", hide_default_value = true, value_parser = super::which::reference, add = super::completion::jobs())]
    job: String,
    /// Show only a summary per file
    #[arg(long)]
    stat: bool,
}

/// The changes as JSON.
#[derive(Debug, Serialize)]
struct Changes<'a> {
    job: &'a str,
    base: &'a str,
    branch: &'a str,
    files: Vec<Changed>,
    added: u64,
    deleted: u64,
    /// Git's error message if some files could not be read.
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
    let skipped = view.as_ref().and_then(|view| view.skipped());
    if ui.json {
        ui.print_json(&document(&job, &files, skipped))?;
        return Ok(0);
    }
    if let Some(why) = skipped {
        ui.say(&format!("lastword: some files could not be read: {}", clean(why)));
    }
    let Some(view) = view.filter(|_| !files.is_empty()) else {
        let job_name = describe::job_name(job.name.as_deref(), &job.short);
        let so_far = if job.is_ended() { "" } else { " so far" };
        ui.say(&format!("{job_name} changed nothing{so_far}"));
        return Ok(0);
    };
    let drawn = if args.stat { view.stat(ui.width.min(140)) } else { view.patch() };
    print(&drawn.map_err(|error| worktree::failed(&error))?, ui)?;
    Ok(0)
}

fn document<'a>(job: &'a Job, files: &[FileChange], skipped: Option<&'a str>) -> Changes<'a> {
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
        left_out: skipped,
    }
}

/// Prints git's output: unchanged to a program; coloured and cleaned to a terminal.
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

/// Colours a line of a patch.
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
