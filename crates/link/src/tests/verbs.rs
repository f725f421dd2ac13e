//! What each verb is to a worker, as a table. `rights.rs` shows the same through a server.

use std::collections::BTreeSet;

use lastword_core::budget::Day;
use lastword_core::decide::claim::Claimant;
use lastword_core::event::LateReported;
use lastword_core::{Append, AttemptNo, Epoch, Fence, Incarnation, OwnerId, Seq};
use lastword_store::{Claim, Error, Filter, Group, Instance, Key, List, Prune, Source};

use super::setup::{NOW, append, claim_of, id, limit_changed, place, renewal, spec, submission};
use crate::ask;
use crate::policy::check_request;
use crate::wire::{
    AddGroup, AskWorker, Count, CountByGroup, Dependents, EndLife, FeedEnd, Find, FindPrunable, Held,
    LoadLog, MarkSeen, ReadFeed, ReadGroups, ReadInstance, ReadList, ReadListed, ReadLives, ReadReady,
    ReadRow, ReadRows, Remove, RemoveGroup, RenewLease, Request, SetGroup, Settle, SpentOn, StoreAndTake,
    StoreAppend, StoreKey, TakeJobs, WaitsOver,
};

/// What a worker may do with a verb before the journal is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum May {
    /// Under its own name.
    AsItself,
    /// If the journal says that job or life are its own, or if it matters to no other.
    Ask,
    /// A server does it.
    Never,
}
use May::{AsItself, Ask, Never};

const LIFE: Incarnation = Incarnation { instance: 1, number: 1 };

fn claims(owner: &str) -> Vec<Claim> {
    let by = Claimant { owner: OwnerId(owner.into()), incarnation: LIFE, host: place().host, boot: None };
    let alive = Source::Alive { trees: vec![(id(1), AttemptNo(1))] };
    let ready = claim_of(&by);
    vec![Claim { from: Source::Expired, ..ready.clone() }, Claim { from: alive, ..ready.clone() }, ready]
}

/// Returns an append that needs no fence.
fn late_report() -> Append {
    let report = LateReported { epoch: Epoch(1), what: "exited".to_owned() };
    append(&submission(1, spec()).1, None, vec![report.into()]).0
}

/// Returns every verb, as it is called by an owner, with what it is to a worker.
fn table(owner: &str) -> Vec<(May, Request)> {
    let job = id(1);
    let fence = Fence { owner: OwnerId(owner.into()), incarnation: LIFE, epoch: Epoch(1) };
    let append = || Append { fence: Some(fence.clone()), ..late_report() };
    let instance = Instance { number: 1, settling: Some(1), lease_max_ms: 1 };
    let prune = Prune { before: NOW, unread: true, limit: 9 };
    let key = Key { key: "k".to_owned(), fingerprint: 1, job, now: NOW };
    let mut table: Vec<(May, Request)> = vec![
        (AsItself, RenewLease { renew: renewal(owner) }.into()),
        (AsItself, StoreAppend { append: append() }.into()),
        (Ask, LoadLog { job, after: Seq(0) }.into()),
        (Ask, Held { by: LIFE, after: None, limit: 9 }.into()),
        (Ask, EndLife { life: LIFE, beat: 1 }.into()),
        (Ask, ReadInstance {}.into()),
        (Never, ReadLives {}.into()),
        (Never, Settle { instance }.into()),
        (Never, ReadFeed { after: None, limit: 9 }.into()),
        (Never, FeedEnd {}.into()),
        (Never, Dependents { other: job }.into()),
        (Never, WaitsOver { after: None, limit: 9 }.into()),
        (Never, ReadReady { now: NOW }.into()),
        (Never, ReadRow { job }.into()),
        (Never, ReadRows { filter: Filter::default(), before: None, limit: 9 }.into()),
        (Never, ReadList { list: List::default() }.into()),
        (Never, ReadListed { jobs: vec![job] }.into()),
        (Never, Find { reference: "@last".parse().unwrap() }.into()),
        (Never, Count {}.into()),
        (Never, CountByGroup {}.into()),
        (Never, MarkSeen { job, now: NOW }.into()),
        (Never, FindPrunable { prune }.into()),
        (Never, Remove { job, now: NOW }.into()),
        (Ask, ReadGroups {}.into()),
        (Never, AddGroup { group: Group::new("q", None) }.into()),
        (Never, SetGroup { group: Group::new("q", None) }.into()),
        (Ask, SpentOn { day: Day::of(NOW) }.into()),
        (Never, RemoveGroup { name: "q".to_owned() }.into()),
        (Never, StoreKey { key }.into()),
        (
            Never,
            AskWorker {
                owner: OwnerId("bob".into()),
                ask: ask::Ask { job, attempt: 1, what: ask::What::Alive },
            }
            .into(),
        ),
    ];
    for claim in claims(owner) {
        table.push((AsItself, StoreAndTake { append: append(), claim: claim.clone() }.into()));
        table.push((AsItself, TakeJobs { claim }.into()));
    }
    table
}

#[test]
fn every_verb_is_decided_for_a_worker() {
    let ann = OwnerId("ann".into());
    for (may, request) in table("ann") {
        assert_eq!(check_request(&ann, &request).is_ok(), may != Never, "{request:?}");
    }
    for (may, request) in table("bob") {
        let refused = matches!(check_request(&ann, &request), Err(Error::Refused(_)));
        assert_eq!(refused, may != Ask, "{request:?}");
    }
    let named: BTreeSet<&str> = table("ann").iter().map(|(_, request)| request.name()).collect();
    assert_eq!(named, Request::NAMES.iter().copied().collect(), "a verb is missing in the table");
}

/// A claim may not carry in what a worker may not write, nor an append a claim of another.
#[test]
fn both_halves_of_an_append_and_claim_are_checked() {
    let ann = OwnerId("ann".into());
    let late = late_report();
    let (request, _) = append(&submission(1, spec()).1, None, vec![limit_changed(1)]);
    for (append, owner, may) in [(&late, "ann", true), (&late, "bob", false), (&request, "ann", false)] {
        let claim = claims(owner).remove(0);
        let both = StoreAndTake { append: append.clone(), claim }.into();
        assert_eq!(check_request(&ann, &both).is_ok(), may, "{owner}: {append:?}");
    }
}
