//! Every case of the enrolments as a test of its own, over memory and over PostgreSQL.

use lastword_proof::{backends, enrolments};

macro_rules! tests {
    ($($case:ident),* $(,)?) => {
        $(mod $case {
            use super::*;

            #[tokio::test]
            async fn memory() {
                enrolments::$case(backends::memory().await.0).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn postgres() {
                let (store, _server) = backends::postgres().await;
                enrolments::$case(store).await;
            }
        })*
    };
}

tests! {
    a_one_time_token_is_used_once,
    of_many_that_use_a_token_at_once_one_is_enrolled,
    a_repeated_enrolment_is_the_same,
    an_old_one_time_token_is_refused,
    the_last_invitation_of_a_name_counts,
    a_name_belongs_to_one_enrolment,
    a_revoked_worker_is_none,
    the_workload_is_counted,
    what_is_to_be_removed_is_noted_until_it_is,
    a_worker_is_found_at_its_server,
}
