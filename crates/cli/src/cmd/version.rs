//! `version`: prints the version.

use crate::failure::Outcome;
use crate::ui::Ui;

/// Print the version
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args, ui: &Ui) -> Outcome {
    match ui.json {
        true => ui.print_json(&serde_json::json!({ "version": lastword_api::VERSION }))?,
        false => ui.print(&format!("lastword {}", lastword_api::VERSION))?,
    }
    Ok(0)
}
