//! The environment of a new job.

use std::collections::BTreeMap;

use crate::environment;
use crate::ui::{Ui, describe};

/// Returns this environment without variables that are not UTF-8, and warns about those.
pub(super) fn current(ui: &Ui) -> BTreeMap<String, String> {
    let mut skipped = 0;
    let text = environment::all().into_iter().filter_map(|(name, value)| {
        match (name.into_string(), value.into_string()) {
            (Ok(name), Ok(value)) => Some((name, value)),
            _ => {
                skipped += 1;
                None
            }
        }
    });
    let env = text.collect();
    if skipped > 0 {
        let count = describe::count(
            skipped,
            "environment variable is not UTF-8 and is",
            "environment variables are not UTF-8 and are",
        );
        ui.say(&format!("lastword: {count} not passed to the job"));
    }
    env
}
