//! `completion`: what a shell needs to complete our words, and jobs by name while it does.

use clap::CommandFactory as _;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};
use lastword_api::{Page, Row};

use crate::args::Cli;
use crate::client::{Call, Client, connect};
use crate::failure::{Failure, Outcome};
use crate::paths::Paths;
use crate::ui::{Colour, Ui};

/// The variable by which a shell asks for completions instead of running anything.
const ASKED: &str = "COMPLETE";

/// Prints what a shell needs to complete words and jobs
#[derive(Debug, clap::Args)]
#[command(after_help = "source <(lastword completion bash)")]
pub(crate) struct Args {
    /// Which shell
    #[arg(value_name = "SHELL", value_parser = ["bash", "elvish", "fish", "powershell", "zsh"])]
    shell: String,
}

pub(crate) fn run(args: &Args, ui: &Ui) -> Outcome {
    let shells = Shells::builtins();
    let unknown = || Failure::usage(format!("there is nothing for `{}`", args.shell));
    let shell = shells.completer(&args.shell).ok_or_else(unknown)?;
    let mut script = Vec::new();
    shell.write_registration(ASKED, "lastword", "lastword", "lastword", &mut script)?;
    ui.print(String::from_utf8_lossy(&script).trim_end())?;
    Ok(0)
}

/// Answers a shell that asks for completions, and ends the program then.
pub(crate) fn answer() {
    if crate::environment::is_set(ASKED) {
        CompleteEnv::with_factory(Cli::command).var(ASKED).complete();
    }
}

/// Returns what completes a job: names and short ids of the newest.
pub(crate) fn jobs() -> ArgValueCandidates {
    ArgValueCandidates::new(|| newest().unwrap_or_default())
}

/// Asks a daemon that runs; none is started for a guess.
fn newest() -> Result<Vec<CompletionCandidate>, Failure> {
    let paths = Paths::find()?;
    let mut found = Vec::new();
    super::on_one_thread(async {
        if connect::is_reached(&paths).await? {
            let client = Client::new(paths.clone(), Ui::new(true, Colour::Never, true));
            let page: Page<Row> = client.call(Call::get("/v1/jobs?limit=50")).await?;
            found = page.items;
        }
        Ok(0)
    })?;
    let candidate = |row: Row| {
        let title = crate::text::clean::clean(&row.title).into_owned();
        CompletionCandidate::new(row.name.unwrap_or(row.short)).help(Some(title.into()))
    };
    Ok(found.into_iter().map(candidate).collect())
}
