//! `claim`: at most one held job drives a conversation of an agent.

use std::collections::BTreeSet;

use lastword_core::spec::Spec;
use lastword_store::Store;

use super::stage::{
    QUEUE, at_once, end, from_gone, from_queue, held, holds, ids, live_out, register, submit, take, write,
};
use crate::jobs::{self, id};

fn resuming(reference: &str) -> Spec {
    Spec { resume: Some(jobs::conversation(reference)), ..jobs::agent(QUEUE) }
}

/// A second job that goes on with the same conversation waits; the same name at another provider is another one.
pub async fn one_conversation_is_driven_by_one_job<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    let bob = register(&journal, "bob").await;
    let (mut first, fence) = held(&journal, 1, resuming("a"), &ann).await;
    let second = submit(&journal, 2, resuming("a")).await;
    assert_eq!(ids(&journal, from_queue(&bob, QUEUE, 9)).await, []);
    assert_eq!(ids(&journal, from_queue(&ann, QUEUE, 9)).await, [], "not even for its own owner");

    let mut elsewhere = resuming("a");
    elsewhere.resume.as_mut().expect("it resumes").provider = "claude".to_owned();
    held(&journal, 3, elsewhere, &bob).await;
    held(&journal, 4, resuming("b"), &bob).await;

    live_out(&journal, &mut first, &fence).await;
    assert_eq!(ids(&journal, from_queue(&bob, QUEUE, 9)).await, [second.id]);
}

/// One call that could take both takes one.
pub async fn one_batch_takes_a_conversation_once<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    for (n, reference) in ["a", "a", "b", "a", "b"].into_iter().enumerate() {
        submit(&journal, n as u64, resuming(reference)).await;
    }
    assert_eq!(ids(&journal, from_queue(&ann, QUEUE, 9)).await, [id(0), id(2)]);
    assert_eq!(ids(&journal, from_queue(&ann, QUEUE, 9)).await, []);
}

/// Eight owners grab at 40 jobs of five conversations and get five.
pub async fn concurrent_claimers_never_share_a_conversation<J: Store>(journal: J) {
    for n in 0..40 {
        submit(&journal, n, resuming(&format!("thread-{}", n % 5))).await;
    }
    let taken = at_once(8, |n| {
        let journal = journal.clone();
        async move {
            let me = register(&journal, &format!("owner-{n}")).await;
            let mut talks = Vec::new();
            for _ in 0..4 {
                for claimed in journal.claim(from_queue(&me, QUEUE, 2)).await.expect("a live owner may claim")
                {
                    let job = lastword_core::Job::fold(claimed.job, &claimed.events).expect("a log folds");
                    talks.push(job.spec.as_ref().and_then(|spec| spec.resume.clone()));
                }
                tokio::task::yield_now().await;
            }
            talks
        }
    })
    .await;
    let all: Vec<_> = taken.into_iter().flatten().collect();
    assert_eq!(all.len(), all.iter().collect::<BTreeSet<_>>().len(), "a conversation has two drivers");
    // A claimer may have passed over a conversation that another was just about to take.
    let late = register(&journal, "late").await;
    let rest = ids(&journal, from_queue(&late, QUEUE, 50)).await.len();
    assert_eq!(all.len() + rest, 5);
}

/// The name that a provider gives a new conversation is taken from that moment on.
pub async fn a_conversation_the_agent_named_is_taken_too<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    let (mut job, fence) = held(&journal, 1, jobs::agent(QUEUE), &ann).await;
    let mut life = jobs::agent_life(&job, "new-thread").into_iter();
    for facts in life.by_ref().take(2) {
        write(&journal, &mut job, Some(&fence), facts).await;
    }
    let resumed = submit(&journal, 2, resuming("new-thread")).await;
    assert_eq!(ids(&journal, from_queue(&ann, QUEUE, 9)).await, []);
    for facts in life {
        write(&journal, &mut job, Some(&fence), facts).await;
    }
    assert_eq!(ids(&journal, from_queue(&ann, QUEUE, 9)).await, [resumed.id]);
}

/// Two agents gave their conversations one name, as those that count them may. Both run, so both are taken over.
pub async fn jobs_that_share_a_conversation_are_all_taken_over<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    let mut running = Vec::new();
    for n in 1..=2 {
        let (mut job, fence) = held(&journal, n, jobs::agent(QUEUE), &ann).await;
        for facts in jobs::agent_life(&job, "session-1").into_iter().take(2) {
            write(&journal, &mut job, Some(&fence), facts).await;
        }
        running.push(job.id);
    }
    let resumed = submit(&journal, 3, resuming("session-1")).await;
    end(&journal, &ann).await;
    let bob = register(&journal, "bob").await;
    assert_eq!(ids(&journal, from_gone(&bob, 9)).await, running);
    assert_eq!(ids(&journal, from_queue(&bob, QUEUE, 9)).await, [], "who is not begun waits");
    holds(&journal, &resumed).await;
}

/// A release gives it back, a takeover hands it on, an end frees it.
pub async fn a_conversation_is_given_back_with_the_job<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    let (mut first, fence) = held(&journal, 1, resuming("a"), &ann).await;
    let waiting = submit(&journal, 2, Spec { priority: 1, ..resuming("a") }).await;
    let release = vec![jobs::released(&first)];
    write(&journal, &mut first, Some(&fence), release).await;
    assert_eq!(ids(&journal, from_queue(&ann, QUEUE, 9)).await, [waiting.id]);

    end(&journal, &ann).await;
    let bob = register(&journal, "bob").await;
    let (mut second, fence) = take(&journal, from_gone(&bob, 9)).await;
    assert_eq!(ids(&journal, from_queue(&bob, QUEUE, 9)).await, [], "a takeover keeps the conversation");
    live_out(&journal, &mut second, &fence).await;
    assert_eq!(ids(&journal, from_queue(&bob, QUEUE, 9)).await, [first.id]);
    holds(&journal, &second).await;
}

/// However many wait for a busy conversation, the next job that can run is found behind them.
pub async fn a_busy_conversation_holds_nobody_else_up<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    held(&journal, 0, resuming("a"), &ann).await;
    for n in 1..30 {
        submit(&journal, n, Spec { priority: 5, ..resuming("a") }).await;
    }
    let free = submit(&journal, 50, jobs::spec(QUEUE)).await;
    assert_eq!(ids(&journal, from_queue(&ann, QUEUE, 1)).await, [free.id]);
}
