//! Groups: created, changed, removed; what their jobs spend in a day.

use lastword_core::budget::{Budget, Day, SPENT_MAX, Spent};
use lastword_core::event::{self, Usage};
use lastword_core::{Fact, Timestamp};
use lastword_store::{Claim, Group, Store};

use super::stage::{LATER, QUEUE, at_once, from_queue, ids, register, running, submit, write};
use crate::jobs::{self, NOW, id};

fn group(name: &str, slots: Option<u32>, paused: bool) -> Group {
    Group { paused, ..Group::new(name, slots) }
}

/// Groups are listed by name and say what was last set.
pub async fn a_group_is_made_changed_and_removed<J: Store>(journal: J) {
    assert_eq!(journal.groups().await, Ok(vec![]));
    for made in
        [group("web", None, false), group("default", Some(4), false), group("ci", Some(u32::MAX), true)]
    {
        journal.set_group(made).await.expect("it is set");
    }
    let all =
        vec![group("ci", Some(u32::MAX), true), group("default", Some(4), false), group("web", None, false)];
    assert_eq!(journal.groups().await, Ok(all));
    journal.set_group(group("ci", None, false)).await.expect("it is set");
    journal.set_group(group("web", Some(0), true)).await.expect("it is set");
    assert_eq!(journal.remove_group("default").await, Ok(true));
    assert_eq!(journal.remove_group("default").await, Ok(false));
    assert_eq!(journal.groups().await, Ok(vec![group("ci", None, false), group("web", Some(0), true)]));
    // Adding leaves alone what is there.
    assert_eq!(journal.add_group(group("ci", Some(1), true)).await, Ok(group("ci", None, false)));
    assert_eq!(journal.add_group(group("new", Some(1), true)).await, Ok(group("new", Some(1), true)));
    assert_eq!(journal.groups().await.expect("they are there").len(), 3);
}

/// Later calls return the group that the first call made.
pub async fn a_group_added_by_many_is_made_once<J: Store>(journal: J) {
    let answers = at_once(16, |n| {
        let journal = journal.clone();
        async move { journal.add_group(group("new", Some(n as u32), false)).await.expect("it is made") }
    })
    .await;
    assert_eq!(journal.groups().await, Ok(vec![answers[0].clone()]));
    assert!(answers.iter().all(|group| *group == answers[0]), "{answers:?}");
}

/// A budget is stored, changed and removed with its group.
pub async fn a_budget_is_kept_with_its_group<J: Store>(journal: J) {
    let budget = Budget { tokens: Some(7), money_micros: Some(u64::from(u32::MAX) * 2) };
    let of = |budget| Group { budget, ..group("web", None, false) };
    journal.set_group(of(budget)).await.expect("it is set");
    assert_eq!(journal.groups().await, Ok(vec![of(budget)]));
    assert_eq!(journal.add_group(group("web", Some(1), false)).await, Ok(of(budget)));
    journal.set_group(of(Budget { tokens: None, ..budget })).await.expect("it is set");
    assert_eq!(journal.groups().await, Ok(vec![of(Budget { tokens: None, ..budget })]));
}

fn spent(offset: u64, money_micros: u64, overcounted_micros: u64) -> Fact {
    let usage = Usage { tokens_in: 3, tokens_out: 2, money_micros };
    event::Spent { offset, usage, overcounted_micros }.into()
}

/// What jobs spend is counted once, for their group and the day on which it is stored.
pub async fn what_jobs_spend_is_counted_by_group_and_day<J: Store>(journal: J) {
    let (today, ann) = (Day::of(NOW), register(&journal, "ann").await);
    assert_eq!(journal.spent(today).await, Ok(vec![]));
    let (mut one, fence) = running(&journal, 1, jobs::spec(QUEUE), &ann).await;
    let append = write(&journal, &mut one, Some(&fence), vec![spent(1, 100, 0), spent(2, 10, 30)]).await;
    journal.append(append).await.expect("a repeat is stored");
    let (mut two, fence) = running(&journal, 2, jobs::spec("other"), &ann).await;
    write(&journal, &mut two, Some(&fence), vec![spent(1, 0, 0)]).await;
    let (mut three, fence) = running(&journal, 3, jobs::spec(QUEUE), &ann).await;
    write(&journal, &mut three, Some(&fence), vec![spent(1, 5, 0)]).await;
    let of = |name: &str, tokens, money_micros| (name.to_owned(), Spent { tokens, money_micros });
    assert_eq!(journal.spent(today).await, Ok(vec![of("other", 5, 0), of(QUEUE, 15, 85)]));
    assert_eq!(journal.spent(Day(today.0 + 1)).await, Ok(vec![]));
    assert_eq!(journal.spent(Day(today.0 - 1)).await, Ok(vec![]));
}

/// An agent may claim to have spent anything. The sum stays where it is then, and every later append is stored.
pub async fn a_sum_that_is_too_large_stays_at_its_bound<J: Store>(journal: J) {
    let (today, ann) = (Day::of(NOW), register(&journal, "ann").await);
    let (mut job, fence) = running(&journal, 1, jobs::spec(QUEUE), &ann).await;
    let much = |offset, money_micros, overcounted_micros| {
        let usage = Usage { tokens_in: u64::MAX, tokens_out: u64::MAX, money_micros };
        Fact::from(event::Spent { offset, usage, overcounted_micros })
    };
    for n in 0..4 {
        let facts = vec![much(n, u64::MAX, 0), much(n, u64::MAX, 0)];
        write(&journal, &mut job, Some(&fence), facts).await;
    }
    let at = |tokens, money_micros| Ok(vec![(QUEUE.to_owned(), Spent { tokens, money_micros })]);
    assert_eq!(journal.spent(today).await, at(SPENT_MAX, SPENT_MAX));
    for n in 4..9 {
        write(&journal, &mut job, Some(&fence), vec![much(n, 0, u64::MAX)]).await;
    }
    assert_eq!(journal.spent(today).await, at(SPENT_MAX, -SPENT_MAX));
    let highest = Budget { tokens: Some(SPENT_MAX as u64), money_micros: None };
    let group = Group { budget: highest, ..group("high", None, false) };
    journal.set_group(group.clone()).await.expect("it is set");
    assert_eq!(journal.groups().await, Ok(vec![group]));
}

/// A group that has used up its budget gives out no job before the next day.
pub async fn a_budget_that_is_used_up_closes_its_group_for_the_day<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    let (mut first, fence) = running(&journal, 1, jobs::spec(QUEUE), &ann).await;
    for n in 2..6 {
        submit(&journal, n, jobs::spec(QUEUE)).await;
    }
    submit(&journal, 9, jobs::spec("other")).await;
    let allow = |money| {
        let budget = Budget { tokens: None, money_micros: Some(money) };
        journal.set_group(Group { budget, ..Group::new(QUEUE, None) })
    };
    let takes = || ids(&journal, from_queue(&ann, QUEUE, 1));
    allow(100).await.expect("it is set");
    assert_eq!(takes().await, [id(2)], "nothing is spent");
    write(&journal, &mut first, Some(&fence), vec![spent(1, 99, 0)]).await;
    assert_eq!(takes().await, [id(3)], "something is left");
    write(&journal, &mut first, Some(&fence), vec![spent(2, 1, 0)]).await;
    assert_eq!(takes().await, [], "it is used up");
    assert_eq!(ids(&journal, from_queue(&ann, "other", 1)).await, [id(9)], "another group has none");
    write(&journal, &mut first, Some(&fence), vec![spent(3, 0, 1)]).await;
    assert_eq!(takes().await, [id(4)], "a correction counts");
    write(&journal, &mut first, Some(&fence), vec![spent(4, 1, 0)]).await;
    assert_eq!(takes().await, []);
    let tomorrow = Claim { now: Day::of(LATER).end(), ..from_queue(&ann, QUEUE, 1) };
    let last_moment = Claim { now: Timestamp(tomorrow.now.0 - 1), ..tomorrow.clone() };
    assert_eq!(ids(&journal, last_moment).await, []);
    assert_eq!(ids(&journal, tomorrow).await, [id(5)]);
}
