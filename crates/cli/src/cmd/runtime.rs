//! The async runtime of a command.

use std::future::Future;

use lastword_api::Code;

use crate::failure::{Failure, Outcome};

/// Runs a future to its end on this thread.
pub(crate) fn block_on(work: impl Future<Output = Outcome>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Failure::new(Code::Unavailable, format!("cannot start: {error}")))?;
    let done = runtime.block_on(work);
    // A blocking read of the terminal cannot be cancelled; do not wait for it.
    runtime.shutdown_background();
    done
}
