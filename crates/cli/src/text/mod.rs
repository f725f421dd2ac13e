//! Text for people: durations, sizes, times, suggestions, agent transcripts, and making text safe for a terminal.

pub(crate) mod clean;
pub(crate) mod duration;
pub(crate) mod limit;
pub(crate) mod modes;
pub(crate) mod moment;
mod sgr;
pub(crate) mod shell;
pub(crate) mod similar;
pub(crate) mod size;
pub(crate) mod transcript;
