//! Every case of the conformance suite as a test of its own, for every backend.

use lastword_proof::{backends, conformance, for_each_backend, for_each_case};

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

/// Makes one module of tests for each backend.
macro_rules! suites {
    ($($backend:ident;)*) => {
        $(mod $backend {
            use super::*;
            use super::backends::$backend as open;
            for_each_case!(tests);
        })*
    };
}

for_each_backend!(suites);
suites! {
    link_postgres;
}
