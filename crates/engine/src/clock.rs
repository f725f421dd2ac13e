//! The present. The one place of the engine where it is read.

use lastword_core::{Awake, Now, Timestamp};
use lastword_proc::clock;

/// Returns the present by both clocks.
pub fn now() -> Now {
    Now { wall: Timestamp(clock::wall_ms()), awake: Awake(clock::awake_ms()) }
}
