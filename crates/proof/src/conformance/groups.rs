//! Groups: created, changed, removed.

use lastword_store::{Group, Store};

use super::stage::at_once;

fn group(name: &str, slots: Option<u32>, paused: bool) -> Group {
    Group { name: name.to_owned(), slots, paused }
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
