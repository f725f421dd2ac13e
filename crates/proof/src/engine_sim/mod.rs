//! The simulation of the engine: the engine that ships, on a clock and with keepers that a seed decides.
//!
//! `sim` drives the owner's step alone, in worlds of several hosts. Here the whole engine runs, with its tasks, its claims and its
//! waits, on one host: a journal that fails on purpose below it, simulated keepers beside it, and clients above it.
