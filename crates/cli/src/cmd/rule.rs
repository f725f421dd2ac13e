//! `rule`: what was allowed for the rest of a job.

use clap::Subcommand;
use lastword_api::Job;
use lastword_client::jobs;

use crate::client::Client;
use crate::failure::{Failure, Outcome};
use crate::text::clean::clean;
use crate::ui::{JsonList, describe};

/// Show and remove rules that were made with approve --always
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the rules of a job, each with the complete request that it allows
    Ls {
        /// Job whose rules to show
        #[arg(value_name = "JOB", value_parser = super::which::reference, add = super::completion::jobs())]
        job: String,
    },
    /// Remove a rule: what it allows is asked again
    Rm {
        /// Job that has the rule
        #[arg(value_name = "JOB", value_parser = super::which::reference, add = super::completion::jobs())]
        job: String,
        /// Name of the rule, such as r1
        #[arg(value_name = "RULE", value_parser = name)]
        rule: String,
    },
}

fn name(text: &str) -> Result<String, String> {
    match text {
        "" => Err("it is empty: `lastword rule ls JOB` shows the names of rules".to_owned()),
        text => Ok(text.to_owned()),
    }
}

pub(crate) async fn run(args: Args, client: Client) -> Outcome {
    match args.verb {
        Verb::Ls { job } => {
            let job = client.job(&job).await?;
            print(&client, &job)?;
        }
        Verb::Rm { job, rule } => {
            let removed = client.call(&jobs::remove_rule(&job, &rule)).await;
            let after = client.explain(&job, removed).await?;
            let ui = client.ui();
            match ui.json {
                true => ui.print_json(&JsonList { items: &after.rules, next_cursor: None })?,
                false => {
                    let name = describe::job_name(after.name.as_deref(), &after.short);
                    ui.say(&format!("rule {} of {name} removed", clean(&rule)));
                }
            }
        }
    }
    Ok(0)
}

/// Prints the rules of a job, each whole.
fn print(client: &Client, job: &Job) -> Result<(), Failure> {
    let ui = client.ui();
    if ui.json {
        return ui.print_json(&JsonList { items: &job.rules, next_cursor: None });
    }
    for rule in &job.rules {
        let head = format!(
            "{}  {} may be used so without asking, by {}",
            rule.id,
            clean(&rule.tool),
            clean(&rule.by)
        );
        ui.print(&ui.out.strong(&head))?;
        for line in rule.request.lines() {
            ui.print(&format!("  {} {}", ui.out.faint("│"), clean(line)))?;
        }
    }
    if job.rules.is_empty() {
        ui.say("no rules");
    }
    Ok(())
}
