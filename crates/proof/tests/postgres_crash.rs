//! A taste of the real crashes: `cargo xtask crash postgres` has the whole meal.

use lastword_proof::crash::postgres::cut_connections;
use lastword_proof::pg::{Server, Settings};

/// Answers kept back after the server was done. Enough for every statement of every verb.
const CUTS: u64 = 60;

#[tokio::test(flavor = "multi_thread")]
async fn c42_a_connection_cut_between_commit_and_answer_doubles_nothing() {
    let server = Server::start(Settings::default()).expect("PostgreSQL starts");
    let (cuts, acked) = cut_connections(&server, CUTS, 7).await.expect("nothing is doubled or misreported");
    assert!(cuts >= CUTS && acked > 0);
}
