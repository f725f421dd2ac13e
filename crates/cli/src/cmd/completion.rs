//! `completion`: shell completions, including the names of jobs.

use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};
use lastword_api::Row;
use lastword_client::jobs::Filter;

use super::runtime;
use crate::client::{Client, connect};
use crate::failure::{Failure, Outcome};
use crate::paths::Paths;
use crate::ui::{Colour, Ui};

/// The variable by which a shell requests completions.
const REQUEST: &str = "COMPLETE";

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "source <(lastword completion bash)")]
pub(crate) struct Args {
    /// The shell
    #[arg(value_name = "SHELL", value_parser = ["bash", "elvish", "fish", "powershell", "zsh"])]
    shell: String,
}

pub(crate) fn run(args: &Args, ui: &Ui) -> Outcome {
    let shells = Shells::builtins();
    let unknown = || Failure::usage(format!("no completions for `{}`", args.shell));
    let shell = shells.completer(&args.shell).ok_or_else(unknown)?;
    let mut script = Vec::new();
    shell.write_registration(REQUEST, "lastword", "lastword", "lastword", &mut script)?;
    ui.print(String::from_utf8_lossy(&script).trim_end())?;
    Ok(0)
}

/// If a shell requests completions, prints them and exits.
pub(crate) fn complete_if_requested(command: fn() -> clap::Command) {
    if crate::environment::is_set(REQUEST) {
        CompleteEnv::with_factory(command).var(REQUEST).complete();
    }
}

/// Completes jobs: names and short ids of the newest ones.
pub(crate) fn jobs() -> ArgValueCandidates {
    ArgValueCandidates::new(|| newest().unwrap_or_default())
}

/// Lists the newest jobs if a daemon is running; starts none.
fn newest() -> Result<Vec<CompletionCandidate>, Failure> {
    let paths = Paths::find()?;
    let mut found = Vec::new();
    runtime::block_on(async {
        if connect::is_reached(&paths).await? {
            let client = Client::new(paths.clone(), Ui::new(true, Colour::Never, true));
            let newest = Filter { limit: Some(50), ..Filter::default() };
            found = client.call(&lastword_client::jobs::list(&newest)).await?.items;
        }
        Ok(0)
    })?;
    let candidate = |row: Row| {
        let title = crate::text::clean::clean(&row.title).into_owned();
        CompletionCandidate::new(row.name.unwrap_or(row.short)).help(Some(title.into()))
    };
    Ok(found.into_iter().map(candidate).collect())
}
