//! Jobs whose agent is idle: they are held without a slot, and their holder claims one for the message that waits.

use lastword_core::event::{InputRequested, TurnEnded};
use lastword_core::limits::Limits;
use lastword_core::spec::{Dialect, Spec, Terms, Work};
use lastword_core::view::row::PhaseName;
use lastword_core::{Awake, Fact, Fence, Job};
use lastword_store::{Group, Store};

use super::stage::{
    QUEUE, at_once, end, from_gone, from_slots, held_of, ids, live_out, load, register, row, running, submit,
    take, write,
};
use crate::jobs::{self, id};

/// Returns an agent that stays open between turns.
fn open() -> Spec {
    let Work::Agent { provider, prompt, terms } = jobs::agent(QUEUE).work else { panic!("it is an agent") };
    let terms = Box::new(Terms { dialect: Dialect::Acp, ..*terms });
    let limits = Limits { idle_ms: Some(60_000), ..Limits::default() };
    Spec { work: Work::Agent { provider, prompt, terms }, limits, stays_open: true, ..jobs::spec(QUEUE) }
}

/// Writes a turn of an agent that stays open, after which it is idle.
async fn turn<J: Store>(journal: &J, job: &mut Job, fence: &Fence) {
    let (attempt, turn, thread) = (jobs::newest_attempt(job), job.turns.next(), job.id.short());
    let Fact::TurnEnded(ended) = jobs::turn_completed(turn, &thread) else { panic!("a turn has ended") };
    let ended = TurnEnded { awake: Some(Awake(9_000)), ..ended };
    let mut facts = vec![jobs::turn_started(turn), ended.into()];
    if job.session.is_none() {
        facts.insert(0, jobs::session_started(attempt, &thread));
    }
    write(journal, job, Some(fence), facts).await;
    assert!(job.idle);
}

async fn message<J: Store>(journal: &J, job: &mut Job) {
    let (input, text) = (job.inputs_made.next(), "go on".to_owned());
    let sent = InputRequested { by: "tester".to_owned(), input, text, eof: false, steer: false };
    write(journal, job, None, vec![sent.into()]).await;
}

/// What it gives back another job gets, and it waits in line for a slot like any other.
pub async fn c93_an_idle_agent_has_no_slot_until_its_holder_claims_one<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    let bob = register(&journal, "bob").await;
    let one = |who| from_slots(who, QUEUE, 9, Some(1));
    let (mut talk, fence) = running(&journal, 1, open(), &ann).await;
    submit(&journal, 2, jobs::spec(QUEUE)).await;
    assert_eq!(ids(&journal, one(&ann)).await, [], "its slot is taken during a turn");
    for round in 0..3 {
        turn(&journal, &mut talk, &fence).await;
        let idle = row(&journal, talk.id).await.expect("it is there");
        assert_eq!((idle.phase, idle.holder.as_ref(), idle.due), (PhaseName::Idle, Some(&fence), None));
        let (mut other, others) = take(&journal, one(&bob)).await;
        message(&journal, &mut talk).await;
        assert_eq!(ids(&journal, one(&ann)).await, [], "another job has the slot");
        assert_eq!(ids(&journal, from_slots(&bob, QUEUE, 9, Some(2))).await, [], "it is not bob's");
        live_out(&journal, &mut other, &others).await;
        let (woken, again) = take(&journal, one(&ann)).await;
        assert_eq!((woken.id, &again), (talk.id, &fence), "its holder is the same");
        let (row, events) = held_of(&journal, talk.id).await;
        assert!(matches!(events.last().map(|event| &event.fact), Some(Fact::Woken(_))), "{events:?}");
        let row = row.expect("it is there");
        assert_eq!((row.phase, row.due, row.holder), (PhaseName::Running, None, Some(fence.clone())));
        submit(&journal, 3 + round, jobs::spec(QUEUE)).await;
        assert_eq!(ids(&journal, one(&bob)).await, [], "it has the slot");
        talk = woken;
        let told = jobs::input_delivered(talk.inputs[0].no);
        write(&journal, &mut talk, Some(&fence), vec![told]).await;
    }
    // It ends while it is idle, and gives nothing back that it does not have.
    turn(&journal, &mut talk, &fence).await;
    let end = jobs::completed(&talk);
    write(&journal, &mut talk, Some(&fence), end).await;
    submit(&journal, 9, jobs::spec(QUEUE)).await;
    assert_eq!(ids(&journal, one(&bob)).await, [id(5)]);
    assert_eq!(ids(&journal, one(&bob)).await, []);
}

/// A bound that is set while agents are idle does not count them, and a job that changes hands stays idle.
pub async fn c93_idle_agents_do_not_count_whoever_holds_them<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    for n in 0..3 {
        let (mut talk, fence) = running(&journal, n, open(), &ann).await;
        turn(&journal, &mut talk, &fence).await;
    }
    for n in 3..9 {
        submit(&journal, n, jobs::spec(QUEUE)).await;
    }
    journal.set_group(Group::new(QUEUE, Some(2))).await.expect("it is set");
    assert_eq!(ids(&journal, from_slots(&ann, QUEUE, 9, None)).await, [id(3), id(4)]);
    let next = register(&journal, "ann").await;
    let mut taken = ids(&journal, from_gone(&next, 9)).await;
    taken.sort();
    assert_eq!(taken, [0, 1, 2, 3, 4].map(id));
    let mut talk = load(&journal, id(0)).await;
    assert!(talk.idle);
    message(&journal, &mut talk).await;
    assert_eq!(ids(&journal, from_slots(&next, QUEUE, 9, None)).await, [], "both slots are taken");
    journal.set_group(Group::new(QUEUE, Some(4))).await.expect("it is set");
    assert_eq!(ids(&journal, from_slots(&next, QUEUE, 9, None)).await, [id(5), id(6)]);
}

/// Many messages, and other jobs, come at once: the slots are filled and no more.
pub async fn c93_slots_hold_when_many_idle_agents_are_sent_messages<J: Store>(journal: J) {
    const SLOTS: u32 = 3;
    let mut held = Vec::new();
    for n in 0..4 {
        let who = register(&journal, &format!("owner-{n}")).await;
        for job in 0..4 {
            let (mut talk, fence) = running(&journal, 4 * n + job, open(), &who).await;
            turn(&journal, &mut talk, &fence).await;
            message(&journal, &mut talk).await;
        }
        held.push(who);
    }
    let taken = at_once(4, |n| {
        let (journal, who) = (journal.clone(), held[n as usize].clone());
        async move {
            let mut taken = 0;
            for _ in 0..4 {
                taken += ids(&journal, from_slots(&who, QUEUE, 1, Some(SLOTS))).await.len();
                tokio::task::yield_now().await;
            }
            taken
        }
    })
    .await;
    assert_eq!(taken.iter().sum::<usize>(), SLOTS as usize);
    // A life that ends takes its idle agents along: their slots were not counted, and are not given back.
    end(&journal, &held[0]).await;
    let late = register(&journal, "late").await;
    assert!(!ids(&journal, from_gone(&late, 99)).await.is_empty());
    submit(&journal, 99, jobs::spec(QUEUE)).await;
    assert_eq!(ids(&journal, from_slots(&late, QUEUE, 9, Some(SLOTS))).await, []);
}
