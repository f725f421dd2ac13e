//! The keeper with real processes, through the real executable. One binary, so that it is linked once.

mod common;
mod life;
mod output;
mod recovery;
mod skew;
mod stopping;
mod trouble;
