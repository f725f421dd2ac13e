//! A taste of the real crashes: `cargo xtask crash postgres` has the whole meal.

use lastword_core::seeded::{self, Bug};
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

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_that_forgets_what_it_was_asked_is_found_by_cut_connections() {
    seeded::switch(Some(Bug::AppendTwice));
    let server = Server::start(Settings::default()).expect("PostgreSQL starts");
    let told = cut_connections(&server, CUTS, 7).await;
    assert!(told.is_err(), "the bug is gone: so is its proof");
}
