//! `label`: shows or changes the labels of a job.

use std::collections::BTreeMap;

use lastword_client::jobs;

use super::run::label;
use crate::client::Client;
use crate::failure::{Failure, Outcome};
use crate::text::clean::clean;

/// Show or change the labels of a job
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Job whose labels to show or change
    #[arg(value_name = "JOB", value_parser = super::which::reference, add = super::completion::jobs())]
    job: String,
    /// Labels to set
    #[arg(value_name = "NAME=VALUE", value_parser = label)]
    set: Vec<(String, String)>,
    /// Remove this label; can be repeated
    #[arg(long, value_name = "NAME")]
    remove: Vec<String>,
}

pub(crate) async fn run(args: Args, client: Client) -> Outcome {
    let changes = changes(&args)?;
    let job = match changes.is_empty() {
        true => client.job(&args.job).await?,
        false => {
            let changed = client.call(&jobs::set_labels(&args.job, &changes)).await;
            client.explain(&args.job, changed).await?
        }
    };
    let ui = client.ui();
    if ui.json {
        ui.print_json(&job.labels)?;
        return Ok(0);
    }
    for (name, value) in &job.labels {
        ui.print(&format!("{}={}", clean(name), clean(value)))?;
    }
    if job.labels.is_empty() {
        ui.say("no labels");
    }
    Ok(0)
}

fn changes(args: &Args) -> Result<BTreeMap<String, Option<String>>, Failure> {
    let set = args.set.iter().map(|(name, value)| (name.clone(), Some(value.clone())));
    let mut changes: BTreeMap<_, _> = set.collect();
    for name in &args.remove {
        if changes.insert(name.clone(), None).is_some() {
            return Err(Failure::usage(format!("the label `{}` cannot be set and removed", clean(name))));
        }
    }
    Ok(changes)
}
