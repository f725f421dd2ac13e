//! Text as people write and read it: lengths of time, sizes, moments, close guesses, and what must not reach a terminal.

pub(crate) mod along;
pub(crate) mod clean;
pub(crate) mod duration;
pub(crate) mod moment;
pub(crate) mod similar;
pub(crate) mod size;
