//! `man`: prints manual pages.

use std::io::Write as _;

use super::help;
use crate::failure::{Failure, Outcome, exit};

/// Print the manual
#[derive(Debug, clap::Args)]
#[command(after_help = "lastword man run | man -l -")]
pub(crate) struct Args {
    /// Command to print the page of
    verb: Option<String>,
    /// Write all pages into this folder instead; creates it if needed
    #[arg(long, value_name = "FOLDER", conflicts_with = "verb")]
    into: Option<std::path::PathBuf>,
}

pub(crate) fn run(args: &Args, mut root: clap::Command) -> Outcome {
    root.build();
    if let Some(folder) = &args.into {
        let failed = |error| {
            Failure::new(lastword_api::Code::Unavailable, format!("{}: {error}", folder.display()))
                .next("choose a writable folder")
        };
        std::fs::create_dir_all(folder)
            .and_then(|()| clap_mangen::generate_to(root, folder))
            .map_err(failed)?;
        return Ok(0);
    }
    let command = help::find(root, args.verb.as_slice())?;
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    let mut out = std::io::stdout().lock();
    out.write_all(&page)?;
    out.flush()?;
    Ok(0)
}

const _: () = assert!(exit::USAGE == 2, "clap exits with this code too");
