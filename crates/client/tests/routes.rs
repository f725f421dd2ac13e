//! Every request that the document of the API names has a call, and every call is in the document.

use std::collections::BTreeSet;
use std::time::Duration;

use lastword_api::{
    Answer, Cancel, CancelMany, GroupChange, Interrupt, Invite, LimitsPatch, Message, Prune, ReportProgress,
    Resize, Resume, RetryJob, StopDaemon, Submit, Time,
};
use lastword_client::output::Part;
use lastword_client::{
    Call, changes, conversations, daemon, events, groups, jobs, output, transcript, workers,
};
use serde_json::Value;

const DOCUMENT: &str = include_str!("../../../docs/reference/openapi.json");

/// Returns method and path of a call without its query, with the names of the document for what varies.
fn route<T>(call: &Call<T>) -> String {
    let path = call.path().split('?').next().unwrap();
    let path = path.replace("/REF", "/{ref}").replace("/NAME", "/{name}").replace("/RULE", "/{rule}");
    format!("{} {path}", call.method())
}

#[test]
fn every_request_of_the_document_has_a_call() {
    let document: Value = serde_json::from_str(DOCUMENT).unwrap();
    let paths = document["paths"].as_object().unwrap();
    let documented: BTreeSet<String> = paths
        .iter()
        .flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap().keys();
            methods.map(move |method| format!("{} {path}", method.to_uppercase()))
        })
        .collect();
    let calls = BTreeSet::from([
        route(&daemon::live()),
        route(&daemon::ready()),
        route(&daemon::document()),
        route(&daemon::show()),
        route(&daemon::stop(&StopDaemon::default())),
        route(&jobs::list(&jobs::Filter::default())),
        route(&jobs::submit(&Submit::default())),
        route(&jobs::show("REF")),
        route(&jobs::wait("REF", jobs::Until::Ended, Duration::from_secs(1))),
        route(&jobs::cancel("REF", &Cancel::default())),
        route(&jobs::cancel_many(&CancelMany::default())),
        route(&jobs::retry("REF", &RetryJob::default())),
        route(&jobs::resume("REF", &Resume::default())),
        route(&jobs::interrupt("REF", &Interrupt::default())),
        route(&jobs::resize("REF", &Resize::default())),
        route(&jobs::abandon("REF")),
        route(&jobs::seen("REF")),
        route(&jobs::set_limits("REF", &LimitsPatch::default())),
        route(&jobs::set_labels("REF", &Default::default())),
        route(&jobs::send("REF", &Message::default())),
        route(&jobs::answer("REF", &Answer::default())),
        route(&jobs::remove_rule("REF", "RULE")),
        route(&jobs::remove("REF", true)),
        route(&jobs::prune(&Prune::default())),
        route(&jobs::processes("REF")),
        route(&changes::list("REF")),
        route(&changes::patch("REF", Some("a file"), 0, 10)),
        route(&jobs::progress(&ReportProgress::default())),
        route(&jobs::usage(Time(1), &["day".to_owned()])),
        route(&events::of_job("REF", &events::Filter::default(), Some("3"), 10)),
        route(&events::of_all(&events::Filter::default(), Some("now"), 10)),
        route(&output::read("REF", &Part::default())),
        route(&output::result("REF")),
        route(&transcript::read("REF", Some(1), Some("CURSOR"), 10)),
        route(&conversations::list(&conversations::Filter::default())),
        route(&conversations::show("REF")),
        route(&conversations::remove("REF", true)),
        route(&groups::list()),
        route(&groups::set("NAME", &GroupChange::default())),
        route(&groups::remove("NAME")),
        route(&workers::list()),
        route(&workers::invite(&Invite::default())),
        route(&workers::remove("NAME")),
    ]);
    assert_eq!(calls, documented);
}
