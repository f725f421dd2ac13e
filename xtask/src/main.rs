//! Every task of this repository, as a cargo verb.

fn main() {}
