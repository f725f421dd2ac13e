//! Which jobs: the reference to one, and the arguments by which `ls` and `events` select them.

use std::path::{Path, PathBuf};

use lastword_api::Time;

use crate::failure::Failure;
use crate::text::duration;
use crate::text::moment::now_ms;

/// Parses a reference to a job. Whether there is such a job, the daemon says.
pub(super) fn reference(text: &str) -> Result<String, String> {
    match text.trim().is_empty() {
        true => Err("it is empty: give an id or its beginning, a name, or @last".to_owned()),
        false => Ok(text.to_owned()),
    }
}

/// Which jobs to look at; all if nothing is given.
#[derive(Debug, clap::Args)]
pub(super) struct Which {
    /// Only jobs of this group
    #[arg(short, long)]
    pub(super) group: Option<String>,
    /// Only jobs with this label
    #[arg(short, long, value_name = "NAME=VALUE")]
    pub(super) label: Option<String>,
    /// Only jobs that were submitted from this folder or below it
    #[arg(long, value_hint = clap::ValueHint::DirPath)]
    folder: Option<PathBuf>,
    /// Only jobs that were submitted from inside this job
    #[arg(long, value_name = "JOB", value_parser = reference, add = super::completion::jobs())]
    pub(super) parent: Option<String>,
    /// Only what happened within this time, such as 2h
    #[arg(long, value_name = "TIME", value_parser = duration::parse_ms)]
    since: Option<u64>,
}

impl Which {
    /// Reports whether it leaves jobs out.
    pub(super) fn is_narrow(&self) -> bool {
        self.is_about_jobs() || self.since.is_some()
    }

    /// Reports whether it selects jobs by what they are.
    pub(super) fn is_about_jobs(&self) -> bool {
        self.group.is_some() || self.label.is_some() || self.folder.is_some() || self.parent.is_some()
    }

    /// Returns the moment from which on changes count.
    pub(super) fn since(&self) -> Option<Time> {
        self.since.map(|ms| Time(now_ms().saturating_sub(ms)))
    }

    /// Returns the folder as jobs record it: absolute, without links.
    pub(super) fn folder(&self) -> Result<Option<String>, Failure> {
        let absolute = |folder: &Path| {
            let found = folder.canonicalize().or_else(|_| std::path::absolute(folder));
            let found =
                found.map_err(|error| Failure::usage(format!("--folder {}: {error}", folder.display())))?;
            found
                .into_os_string()
                .into_string()
                .map_err(|_| Failure::usage("--folder must be UTF-8".to_owned()))
        };
        self.folder.as_deref().map(absolute).transpose()
    }
}
