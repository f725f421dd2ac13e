//! What programs write: requests to the daemon, stored facts, the lines of a keeper, and what it recorded.

use std::sync::LazyLock;

use lastword_api as api;
use lastword_core::event::{Fact, Stored};
use lastword_proc as proc;

static FOLDER: LazyLock<tempfile::TempDir> =
    LazyLock::new(|| tempfile::tempdir().expect("there is a folder for files"));

/// What reads is said again as it was meant.
macro_rules! reads_again {
    ($bytes:expr, $($body:ty),*) => {$(
        if let Ok(body) = serde_json::from_slice::<$body>($bytes) {
            let said = serde_json::to_vec(&body).expect("what was read can be written");
            assert_eq!(serde_json::from_slice::<$body>(&said).ok(), Some(body));
        }
    )*};
}

/// Bodies of requests, and what a client reads.
pub(crate) fn requests(bytes: &[u8]) {
    reads_again!(
        bytes,
        api::Submit,
        api::Cancel,
        api::CancelMany,
        api::RetryJob,
        api::LimitsPatch,
        api::Message,
        api::Prune,
        api::StopDaemon,
        api::GroupChange,
        api::Problem
    );
    let _ = serde_json::from_slice::<api::Event>(bytes);
    let _ = serde_json::from_slice::<api::Job>(bytes);
}

/// A stored fact: its kind on the first line, then its body. One that reads is stored again as it was meant.
pub(crate) fn facts(bytes: &[u8]) {
    let Some((kind, body)) = std::str::from_utf8(bytes).ok().and_then(|text| text.split_once('\n')) else {
        return;
    };
    let stored = Stored { kind: kind.to_owned(), version: 1, body: body.to_owned() };
    if let Ok(fact) = Fact::decode(stored) {
        assert_eq!(Fact::decode(fact.encode()).as_ref(), Ok(&fact));
    }
}

/// A line of a keeper, whatever it is. One that reads is written as it was meant.
pub(crate) fn keeper_lines(bytes: &[u8]) {
    for line in String::from_utf8_lossy(bytes).lines() {
        if let Some(read) = proc::Line::parse(line) {
            assert_eq!(proc::Line::parse(read.to_string().trim_end_matches('\n')), Some(read));
        }
        let _ = (
            proc::parse_answer(line),
            proc::parse_climbed(line),
            proc::parse_written(line),
            proc::is_ended_event(line),
        );
    }
}

/// What a keeper recorded of what was sent, as a crash or a disk may leave it.
pub(crate) fn sent_inputs(bytes: &[u8]) {
    std::fs::write(FOLDER.path().join("input"), bytes).expect("a file can be written");
    if let Ok(sent) = proc::sent_inputs(FOLDER.path()) {
        assert!(sent.iter().map(|input| input.bytes.len()).sum::<usize>() <= bytes.len());
    }
}
