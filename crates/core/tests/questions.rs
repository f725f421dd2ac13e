//! Questions of an agent that nobody answers, and conversations that go on in another job.

use lastword_core::decide::{Refusal, answer, interrupt, resume, retry, send};
use lastword_core::event::{Fact, TurnEnding};
use lastword_core::report::Signal;
use lastword_core::spec::{Conversation, Dialect, Permissions, Spec, Terms, Work, Worktree};
use lastword_core::view::row::Row;

use crate::common::{Desk, agent, command, ends, exited, id, question};
use crate::rig::Rig;

/// Returns an agent whose questions are denied after a minute.
fn impatient() -> Spec {
    let permissions = Permissions { expires_ms: Some(60_000), ..Permissions::default() };
    with(Terms { permissions, ..Terms::default() })
}

fn with(terms: Terms) -> Spec {
    let (provider, prompt) = ("codex".to_owned(), "fix the build".to_owned());
    Spec { work: Work::Agent { provider, prompt, terms: Box::new(terms) }, ..agent() }
}

/// Returns who answered what, by the log.
fn answers(rig: &Rig) -> Vec<(&str, &str, &str)> {
    let told = rig.desk.log.iter().filter_map(|event| match &event.fact {
        Fact::AnswerRequested(it) => Some((it.by.as_str(), it.question.as_str(), it.text.as_str())),
        _ => None,
    });
    told.collect()
}

#[test]
fn a_question_that_nobody_answers_in_time_is_denied_once() {
    let mut rig = Rig::new(Desk::in_turn(impatient()));
    rig.tick();
    assert_eq!(rig.owner.next_question_expiry(), None);
    for name in ["q1", "q2"] {
        let outputs = rig.says(question(name));
        rig.settle(outputs);
        rig.later(30_000);
    }
    let asked = rig.desk.now.wall;
    assert_eq!(rig.owner.next_question_expiry(), Some(asked), "that of the first");
    rig.tick();
    assert_eq!(answers(&rig), [("nobody", "q1", "deny nobody answered in time")]);
    assert_eq!(rig.owner.next_question_expiry(), Some(asked.plus_ms(30_000)));
    rig.tick();
    rig.later(29_999);
    rig.tick();
    assert_eq!(answers(&rig).len(), 1, "the second has time");
    rig.later(1);
    rig.tick();
    rig.tick();
    assert_eq!((answers(&rig).len(), rig.owner.next_question_expiry()), (2, None));
    // It is said like any other answer.
    assert_eq!(rig.desk.job.inputs.len(), 2);
}

#[test]
fn whoever_answers_or_stops_is_not_followed_by_nobody() {
    let asks = |spec: Spec| Desk::in_turn(spec).says(question("q1"));
    let mut answered = asks(impatient());
    let facts = answer::decide(&answered.job, "ann", "q1", "allow");
    answered.anyone(facts);
    for (desk, why) in [
        (answered, "somebody answered"),
        (asks(agent()), "nobody said that it runs out"),
        (asks(impatient()).cancelled(), "it is being stopped"),
        (asks(impatient()).says(ends(TurnEnding::Completed)), "its turn is over"),
        (Desk::running(command()), "a command asks nothing"),
    ] {
        let late = desk.now.wall.plus_ms(10_000_000);
        assert_eq!(
            (answer::next_expiry(&desk.job), answer::expire(&desk.job, late)),
            (None, Vec::new()),
            "{why}"
        );
    }
}

#[test]
fn one_open_question_need_not_be_named() {
    let none = Desk::in_turn(agent());
    assert_eq!(answer::only(&none.job), Err(Refusal::Nothing(id(1), "no open question")));
    assert_eq!(answer::only(&Desk::ended(0).job), Err(Refusal::Ended(id(1))));
    let one = none.says(question("q1"));
    assert_eq!(answer::only(&one.job), Ok("q1"));
    let mut two = one.says(question("q2"));
    assert_eq!(answer::only(&two.job), Err(Refusal::Several(id(1), "q1, q2".to_owned())));
    let facts = answer::decide(&two.job, "ann", "q1", "allow");
    two.anyone(facts);
    assert_eq!(answer::only(&two.job), Ok("q2"), "an answer that is on its way is one");
}

#[test]
fn c82_a_conversation_goes_on_in_a_new_job_from_an_acknowledged_turn_only() {
    let nothing = |what| Err(Refusal::Nothing(id(1), what));
    let decide = |desk: &Desk| resume::decide(&desk.job, "and now the tests", None, false);
    assert_eq!(decide(&Desk::empty()), Err(Refusal::NotFound(id(1))));
    assert_eq!(decide(&Desk::ended(0)), nothing("no conversation: it is not an agent's"));
    let begun = Desk::in_turn(agent());
    assert_eq!(decide(&begun), Err(Refusal::NotEnded(id(1))));
    let none = "no conversation to go on with: none of its turns was completed";
    assert_eq!(decide(&begun.clone().cancelled().emptied(exited(0))), nothing(none));
    // The second turn was cut short: what goes on is the first.
    let second = |desk: Desk| desk.says(ends(TurnEnding::Completed)).says(Signal::TurnStarted);
    let cut = second(begun).cancelled().emptied(exited(0));
    let next = decide(&cut).expect("it has ended");
    let conversation = Conversation { provider: "codex".to_owned(), reference: "ref-1".to_owned() };
    assert_eq!((next.resume.as_ref(), next.retry_of), (Some(&conversation), None));
    let Work::Agent { provider, prompt, terms } = &next.work else { panic!("{next:?}") };
    let Work::Agent { terms: before, .. } = agent().work else { panic!("an agent") };
    assert_eq!((provider.as_str(), prompt.as_str(), terms), ("codex", "and now the tests", &before));
    let mute = Terms { dialect: Dialect::Claude, ..Terms::default() };
    let cut = second(Desk::in_turn(with(mute))).cancelled().emptied(exited(0));
    assert_eq!(decide(&cut), nothing("no way to go on: the definition of its agent does not say `resume`"));
}

#[test]
fn a_conversation_goes_on_in_the_worktree_it_is_about() {
    let (git_dir, checkout) = ("/src/.git".to_owned(), "/src".to_owned());
    let worktree = Worktree { git_dir, checkout, base: "a".repeat(40), keep: false };
    let spec = Spec { worktree: Some(worktree), cwd: "/src/sub".to_owned(), ..agent() };
    let done = Desk::in_turn(spec.clone()).says(ends(TurnEnding::Completed)).emptied(exited(0));
    let next = resume::decide(&done.job, "more", Some("/trees/1"), false).expect("it has ended");
    assert_eq!((next.cwd.as_str(), next.worktree), ("/trees/1/sub", None));
    let lost = resume::decide(&done.job, "more", None, false);
    assert_eq!(lost, Err(Refusal::Nothing(id(1), "lost the worktree that its conversation is about")));
    // Another try begins with a worktree in which nothing was done, and so does its conversation.
    let again = retry::decide(&done.job).expect("it has ended");
    assert_eq!((again.resume, again.worktree), (None, spec.worktree));
}

#[test]
fn a_copy_of_a_conversation_leaves_it_to_whoever_drives_it() {
    let spec = |dialect, fork: &[&str]| {
        let fork = fork.iter().map(|word| (*word).to_owned()).collect();
        let terms = Terms { dialect, resume: vec!["--resume".to_owned()], fork, ..Terms::default() };
        let (provider, prompt) = ("mine".to_owned(), "go".to_owned());
        Spec::of(Work::Agent { provider, prompt, terms: Box::new(terms) }, "/src")
    };
    let forked = |spec: Spec| {
        let live = Desk::in_turn(spec).says(ends(TurnEnding::Completed)).says(Signal::TurnStarted);
        assert!(resume::decide(&live.job, "x", None, false).is_err(), "it is still driven");
        resume::decide(&live.job, "another way", None, true)
    };
    for spec in [spec(Dialect::Codex, &[]), spec(Dialect::Claude, &["--fork"])] {
        let next = forked(spec).expect("it can be copied");
        assert!(next.fork && next.resume.is_some());
        assert_eq!(
            Row::of(&Desk::queued(next.clone()).job).conversation,
            None,
            "nobody else is kept from it"
        );
        assert!(Row::of(&Desk::queued(Spec { fork: false, ..next }).job).conversation.is_some());
    }
    for spec in [spec(Dialect::Acp, &["--fork"]), spec(Dialect::Claude, &[])] {
        let refused = forked(spec).expect_err("it cannot").to_string();
        assert!(refused.contains("cannot copy a conversation"), "{refused}");
    }
}

#[test]
fn an_agent_with_one_prompt_hears_nothing_more_and_says_what_to_do_instead() {
    for dialect in [Dialect::Once, Dialect::Plain] {
        let spec = with(Terms { dialect, ..Terms::default() });
        let desk = if dialect == Dialect::Once { Desk::in_turn(spec) } else { Desk::running(spec) };
        let refused =
            |decision: Result<Vec<Fact>, Refusal>| decision.expect_err("it hears nothing").to_string();
        for said in [send::decide(&desk.job, "ann", "more", false), send::steer(&desk.job, "ann", "more")]
            .map(refused)
        {
            assert!(said.contains("no input") && said.contains("`lastword resume`"), "{said}");
        }
        let said = refused(interrupt::decide(&desk.job, "ann", None));
        assert!(said.contains("`lastword cancel`"), "{said}");
        assert!(answer::only(&desk.job).is_err());
    }
}
