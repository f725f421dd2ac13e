//! `config`: shows settings and their origins, and changes them without losing comments.

use clap::Subcommand;
use serde_json::json;

use crate::failure::{Failure, Outcome};
use crate::paths::Paths;
use crate::settings::{self, Origin, Settings, SettingsError, Value};
use crate::ui::Ui;
use crate::ui::table::Table;

/// Show and change settings
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show all settings and where their values come from
    Show,
    /// Print one setting
    Get {
        /// Name of the setting
        key: String,
    },
    /// Change one setting in the file
    Set {
        /// Name of the setting
        key: String,
        /// New value
        #[arg(allow_hyphen_values = true)]
        value: String,
    },
    /// Print the path of the settings file
    Path,
}

pub(crate) fn run(args: Args, ui: &Ui) -> Outcome {
    let paths = Paths::find()?;
    let load = || Settings::of_process(&paths, &[]);
    match args.verb {
        Verb::Path => {
            let path = paths.config.display().to_string();
            match ui.json {
                true => ui.print_json(&json!({ "path": path }))?,
                false => ui.print(&path)?,
            }
        }
        Verb::Show => show(&load()?, ui)?,
        Verb::Get { key } => {
            let key = settings::key(&key).map_err(usage)?;
            let all = load()?;
            let found = all.iter().find(|(known, ..)| known.name == key.name);
            if let Some((_, value, _)) = found {
                match ui.json {
                    true => ui.print_json(&json_value(value))?,
                    false => ui.print(&value.to_string())?,
                }
            }
        }
        Verb::Set { key, value } => {
            let key = settings::key(&key).map_err(usage)?;
            let value = key.parse(&value, &Origin::Config).map_err(usage)?;
            settings::write_value(&paths.config, key, value)?;
            match ui.json {
                true => ui.print_json(&json!({ "key": key.name, "value": json_value(value) }))?,
                false => ui.say(&format!("{} = {value} in {}", key.name, paths.config.display())),
            }
            if crate::lock::is_held(&paths) {
                ui.say("to apply it to the running daemon: lastword daemon restart");
            }
        }
    }
    Ok(0)
}

/// Returns an error of the arguments.
fn usage(error: SettingsError) -> Failure {
    Failure::usage(error.to_string())
}

fn show(settings: &Settings, ui: &Ui) -> Result<(), Failure> {
    if ui.json {
        let items: Vec<_> = settings
            .iter()
            .map(|(key, value, origin)| {
                json!({ "key": key.name, "value": json_value(value), "origin": origin.to_string(), "about": key.about })
            })
            .collect();
        return ui.print_json(&json!({ "items": items, "next_cursor": null }));
    }
    let mut table = Table::new(vec!["KEY", "VALUE", "FROM"]);
    for (key, value, origin) in settings.iter() {
        table.push(vec![key.name.to_owned(), value.to_string(), origin.to_string()]);
    }
    let lines = table.lines(ui.width, |row, column, text| match (row, column) {
        (None, _) => ui.out.strong(text),
        (_, 2) => ui.out.faint(text),
        _ => text.to_owned(),
    });
    ui.print(&lines.join("\n"))
}

/// Returns a value as JSON, in the units of the API: milliseconds and bytes.
fn json_value(value: Value) -> serde_json::Value {
    match value {
        Value::Level(_) => json!(value.to_string()),
        other => json!(other.number()),
    }
}
