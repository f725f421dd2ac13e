//! Bugs on purpose: switches by which the fuzzer shows that it would find one.
//!
//! Without the feature `seeded` every switch is a constant `false` and the compiler removes it; what ships is built without.

lastword_core::bugs! {
    /// A text is cut in the middle of a character.
    CutInMidCharacter = "cut-in-mid-character",
}
