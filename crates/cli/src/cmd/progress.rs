//! `progress`: says from inside a job how far its work is, or what its result is.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use lastword_api::{Code, ReportProgress};
use lastword_client::jobs;

use crate::client::Client;
use crate::failure::{Failure, Outcome};
use crate::text::clean::clean;

/// Bytes of a result. The daemon has the same bound.
const RESULT_BYTES_MAX: u64 = 64 * 1024;

/// Say how far a job is, or its result, from inside it
#[derive(Debug, clap::Args)]
#[command(
    after_help = "For programs and agents that run as a job. The text is shown by `lastword ls` and `lastword show`, the result by \
                  `lastword result`. What was said last counts; a new attempt begins with nothing said."
)]
pub(crate) struct Args {
    /// How far the work is: one line of at most 200 characters
    #[arg(value_name = "TEXT", required_unless_present = "result")]
    text: Option<String>,
    /// File with the result, at most 64 KiB of text; `-` for standard input
    #[arg(long, value_name = "FILE")]
    result: Option<PathBuf>,
}

pub(crate) async fn run(args: Args, client: Client) -> Outcome {
    let result = args.result.as_deref().map(read).transpose()?;
    let said = ReportProgress { text: args.text, result };
    client.call(&jobs::progress(&said)).await.map_err(|failure| match failure.problem.code {
        Code::Forbidden => failure.next(
            "it is for the programs and agents of a job: `lastword run -- PROGRAM` starts one".to_owned(),
        ),
        _ => failure,
    })?;
    Ok(0)
}

/// Reads a result.
fn read(file: &Path) -> Result<String, Failure> {
    let name = clean(&file.to_string_lossy()).into_owned();
    let mut bytes = Vec::new();
    let read = match file.as_os_str() == "-" {
        true => std::io::stdin().take(RESULT_BYTES_MAX + 1).read_to_end(&mut bytes),
        false => {
            std::fs::File::open(file).and_then(|file| file.take(RESULT_BYTES_MAX + 1).read_to_end(&mut bytes))
        }
    };
    read.map_err(|error| Failure::usage(format!("--result {name}: {error}")))?;
    if bytes.len() as u64 > RESULT_BYTES_MAX {
        let why = "it is larger than 64 KiB: write it to a file that stays, and report where that is";
        return Err(Failure::usage(format!("--result {name}: {why}")));
    }
    String::from_utf8(bytes).map_err(|_| Failure::usage(format!("--result {name}: it is no text in UTF-8")))
}
