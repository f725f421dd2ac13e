//! The simulation of the engine: the engine that ships, on a clock and with keepers that a seed decides.
//!
//! `sim` drives the owner's step alone, in worlds of several hosts. Here the whole engine runs, with its tasks, its claims and its
//! waits, on one host: a journal that fails on purpose below it, simulated keepers beside it, and clients above it.
//!
//! A seed decides everything only as long as the engine takes nothing from elsewhere: clocks and random bytes come from whoever
//! implements `Trees`, time passes on tokio's clock alone, every `select!` is `biased`, and nothing is done in the order of a
//! `HashMap`. Trees are asked for things; nothing else of the engine blocks a thread.
