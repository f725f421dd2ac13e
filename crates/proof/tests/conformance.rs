//! Every case of the conformance suite as a test of its own, for every backend.

use lastword_proof::{backends, conformance, for_each_case};

/// Makes one test of each case, on a journal that `open` gives.
macro_rules! tests {
    ($($file:ident: $($case:ident),*;)*) => {
        $($(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                let (journal, _guard) = open().await;
                conformance::$file::$case(journal).await;
            }
        )*)*
    };
}

/// Runs the suite over a backend: its name and how a fresh, empty journal of it is opened, with a guard.
macro_rules! backend {
    ($name:ident, $open:path) => {
        mod $name {
            use super::*;
            use $open as open;
            for_each_case!(tests);
        }
    };
}

backend!(memory, backends::memory);
