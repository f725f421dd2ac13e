//! Proof: what shows that the promises of `docs/contract.md` hold, and fails when one is broken on purpose.
#![expect(clippy::print_stdout, reason = "the verbs of this crate talk to a person")]

pub mod model;
