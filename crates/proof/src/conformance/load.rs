//! `load`: what was stored, as it was stored.

use lastword_core::event::ItemCompleted;
use lastword_core::spec::Work;
use lastword_core::{Fact, Seq};
use lastword_store::Store;

use super::stage::{QUEUE, holds, register, running, submit, write};
use crate::jobs::{self, id};

/// Nothing was ever written: no events, and no error.
pub async fn an_unknown_job_has_no_events<J: Store>(journal: J) {
    assert_eq!(journal.load(id(1), Seq(0)).await, Ok(vec![]));
    submit(&journal, 1, jobs::spec(QUEUE)).await;
    assert_eq!(journal.load(id(2), Seq(0)).await, Ok(vec![]));
}

/// A reader that knows a part asks for the rest.
pub async fn only_later_events_are_loaded<J: Store>(journal: J) {
    let mut job = submit(&journal, 1, jobs::spec(QUEUE)).await;
    for n in 0..4 {
        write(&journal, &mut job, None, vec![jobs::limit_changed(n), jobs::limit_changed(n)]).await;
    }
    let all = journal.load(job.id, Seq(0)).await.expect("a job can be loaded");
    assert_eq!(all.len(), 9);
    for after in 0..=9 {
        assert_eq!(journal.load(job.id, Seq(after)).await, Ok(all[after as usize..].to_vec()));
    }
    assert_eq!(journal.load(job.id, Seq(10)).await, Ok(vec![]));
}

/// A fact of a later build is kept to the byte, and a log that holds one is told in full.
pub async fn an_unknown_kind_comes_back_as_it_was<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    let (mut job, fence) = running(&journal, 1, jobs::spec(QUEUE), &ann).await;
    let facts = vec![jobs::spent(1), jobs::unknown(), jobs::spent(2)];
    let append = write(&journal, &mut job, Some(&fence), facts).await;
    let Seq(before) = append.expected;
    assert_eq!(journal.load(job.id, Seq(before)).await, Ok(append.events));
    holds(&journal, &job).await;
}

/// Stores a fact with this text and checks that it comes back.
async fn comes_back<J: Store>(journal: &J, n: u64, text: String) {
    let ann = register(journal, "ann").await;
    let mut spec = jobs::spec(QUEUE);
    spec.labels.insert(text.chars().take(40).collect(), text.chars().take(40).collect());
    spec.work = Work::Command { argv: vec![text.clone()] };
    let (mut job, fence) = running(journal, n, spec, &ann).await;
    let fact: Fact = ItemCompleted { offset: u64::MAX, title: text }.into();
    let append = write(journal, &mut job, Some(&fence), vec![fact]).await;
    assert_eq!(journal.load(job.id, append.expected).await, Ok(append.events));
    holds(journal, &job).await;
    let end = jobs::completed(&job);
    write(journal, &mut job, Some(&fence), end).await;
}

/// Quotes, line ends, other scripts, the null character: what an agent says is not ours to choose.
pub async fn any_text_comes_back_as_it_was<J: Store>(journal: J) {
    let texts =
        ["it's \"quoted\" \\ %s $1 ? ; --", "a\nb\r\n\t", "日本語 🦀 é e\u{301}", "\0 and \u{7f}", "", " "];
    for (n, text) in texts.into_iter().enumerate() {
        comes_back(&journal, n as u64, text.to_owned()).await;
    }
}

/// A fact is bounded by core, not by the width of a column.
pub async fn a_large_fact_comes_back_whole<J: Store>(journal: J) {
    comes_back(&journal, 1, "long ".repeat(100_000)).await;
}
