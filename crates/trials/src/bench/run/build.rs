//! One build of the product by itself, for the comparison with another.

use std::path::Path;

use super::super::beside::Figures;
use super::super::folders::Folders;
use super::super::rates::AT_ONCE;
use super::product::Ours;
use super::{calls, rates};
use crate::statistics::median;

/// Measures jobs per second, and how many starts, looks and forced ends one user gets in a second.
pub(in crate::bench) fn figures(
    executable: &Path,
    folders: &Folders,
    short: bool,
) -> Result<Figures, String> {
    let (jobs, count) = if short { (40, 10) } else { (200, 60) };
    let ours = Ours::start_of(executable, &folders.folder()?)?;
    let mut figures = Figures::new();
    for at_once in AT_ONCE {
        let rate = rates::by_api(&ours, at_once, jobs)?;
        figures.push((format!("jobs per second by the API, {at_once} at once"), rate));
        let rate = rates::by_command(&ours, at_once, jobs / 2)?;
        figures.push((format!("jobs per second by commands, {at_once} at once"), rate));
    }
    for (name, mut times) in calls::by_commands(&ours, folders, count)? {
        figures.push((format!("per second, one at a time: {name}"), 1e3 / median(&mut times)));
    }
    Ok(figures)
}
