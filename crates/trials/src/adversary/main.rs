//! Process trees that do not want to die: one program, one kind of misbehaviour per call.

fn main() {}
