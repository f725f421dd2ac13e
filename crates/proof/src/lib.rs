//! Proof: what shows that the promises of `docs/contract.md` hold, and fails when one is broken on purpose.
