//! Questions that expire, and conversations that another job resumes.

use lastword_core::conversation::Position;
use lastword_core::decide::resume::How;
use lastword_core::decide::{Refusal, answer, interrupt, resume, retry, rule, send};
use lastword_core::event::{Fact, TurnEnding};
use lastword_core::question::{Ask, AskKind, Choice, Part, Reply};
use lastword_core::report::{Report, Signal};
use lastword_core::spec::{Dialect, Permissions, ProviderSession, Spec, Terms, Work, Worktree};
use lastword_core::view::row::Row;

use crate::common::{TestJob, agent, allow, command, ends, exited, id, name_of, question};
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

/// Returns the answers in the log with their authors.
fn answers(rig: &Rig) -> Vec<(&str, &str, &str)> {
    let told = rig.test.log.iter().filter_map(|event| match &event.fact {
        Fact::AnswerRequested(it) => Some((it.by.as_str(), it.question.as_str(), it.text.as_str())),
        _ => None,
    });
    told.collect()
}

#[test]
fn an_expired_question_is_denied_once() {
    let mut rig = Rig::new(TestJob::in_turn(impatient()));
    rig.tick();
    assert_eq!(rig.owner.next_question_expiry(), None);
    for name in ["q1", "q2"] {
        let outputs = rig.says(question(name));
        rig.settle(outputs);
        rig.later(30_000);
    }
    let asked = rig.test.now.wall;
    assert_eq!(rig.owner.next_question_expiry(), Some(asked), "the first one's");
    rig.tick();
    assert_eq!(answers(&rig), [("nobody", "q1", "deny not answered in time")]);
    assert_eq!(rig.owner.next_question_expiry(), Some(asked.plus_ms(30_000)));
    rig.tick();
    rig.later(29_999);
    rig.tick();
    assert_eq!(answers(&rig).len(), 1, "the second has not expired");
    rig.later(1);
    rig.tick();
    rig.tick();
    assert_eq!((answers(&rig).len(), rig.owner.next_question_expiry()), (2, None));
    // It is delivered like any other answer.
    assert_eq!(rig.test.job.inputs.len(), 2);
}

#[test]
fn an_answered_or_stopped_question_does_not_expire() {
    let asks = |spec: Spec| TestJob::in_turn(spec).says(question("q1"));
    let mut answered = asks(impatient());
    let facts = allow(&answered.job, "q1");
    answered.anyone(facts);
    for (test, why) in [
        (answered, "answered"),
        (asks(agent()), "the job sets no expiry"),
        (asks(impatient()).cancelled(), "it is being stopped"),
        (asks(impatient()).says(ends(TurnEnding::Completed)), "its turn is over"),
        (TestJob::running(command()), "a command asks nothing"),
    ] {
        let late = test.now.wall.plus_ms(10_000_000);
        assert_eq!(
            (answer::next_expiry(&test.job), answer::expire(&test.job, late)),
            (None, Vec::new()),
            "{why}"
        );
    }
}

#[test]
fn c88_an_answer_names_its_question() {
    let mut two = TestJob::in_turn(agent()).says(question("7")).says(question("8"));
    let names = [name_of(&two.job, "7"), name_of(&two.job, "8")];
    assert!(names[0].starts_with("q1-") && names[1].starts_with("q2-"), "{names:?}");
    // The agent's own id, a part of the name, or a guess is none.
    for name in ["7", "", "q1", "q1-", "q9-0000"] {
        let refused = answer::decide(&two.job, "ann", name, &Reply::Allow);
        assert_eq!(refused, Err(Refusal::Nothing(id(1), "no open question of that name")), "{name}");
    }
    let facts = allow(&two.job, "7");
    two.anyone(facts);
    let again = answer::decide(&two.job, "ann", &names[0], &Reply::Allow);
    assert_eq!(again, Err(Refusal::Nothing(id(1), "an answer to that question already")));
    assert!(answer::decide(&two.job, "ann", &names[1], &Reply::Deny(String::new())).is_ok());
    // A question that is asked under an id that was used before has another name.
    let again = two.says(question("7"));
    assert_ne!(name_of(&again.job, "7"), names[0]);
    assert!(answer::decide(&again.job, "ann", &names[0], &Reply::Allow).is_err());
}

#[test]
fn an_answered_question_makes_room_once_its_answer_is_delivered() {
    let mut test = TestJob::in_turn(agent());
    // More than are open at once.
    for n in 0..100 {
        test = test.says(question(&n.to_string()));
        let facts = allow(&test.job, &n.to_string());
        test.anyone(facts);
        let input = test.job.inputs.last().expect("it waits").no;
        test = test.reports(Report::Told { input });
        assert!(test.job.session.as_ref().is_some_and(|session| session.questions.is_empty()), "{n}");
    }
}

#[test]
fn c88_an_answer_is_of_the_kind_that_is_asked_for() {
    let part = |text: &str| Part { text: text.to_owned(), options: Vec::new(), several: false };
    let options = vec![Choice { label: "SQLite".to_owned(), description: "one file".to_owned() }];
    let choice = Part { options, ..part("which?") };
    let asks = |ask: Ask| {
        let (question, text) = ("7".to_owned(), "?".to_owned());
        TestJob::in_turn(agent()).says(Signal::QuestionAsked {
            question,
            text,
            ask: Box::new(ask),
            edits: Vec::new(),
        })
    };
    let words = |count: usize| Reply::Words(vec!["SQLite".to_owned(); count]);
    let denies = Reply::Deny("not now".to_owned());
    for (ask, kind, fitting, others) in [
        (Ask::permission("Bash", "make"), AskKind::Permission, Reply::Allow, vec![words(1), words(0)]),
        (Ask::words("", vec![choice.clone()]), AskKind::Choice, words(1), vec![Reply::Allow, words(2)]),
        (Ask::words("", vec![part("a"), choice]), AskKind::Choice, words(2), vec![Reply::Allow, words(1)]),
        (Ask::words("", vec![part("a")]), AskKind::Text, words(1), vec![Reply::Allow, words(0)]),
    ] {
        assert_eq!(ask.kind, kind);
        let test = asks(ask);
        let decide = |reply: &Reply| answer::decide(&test.job, "ann", &name_of(&test.job, "7"), reply);
        assert!(decide(&fitting).is_ok() && decide(&denies).is_ok(), "{kind:?}");
        assert!(others.iter().all(|other| decide(other).is_err()), "{kind:?}");
    }
}

#[test]
fn c82_a_conversation_is_resumed_only_after_a_completed_turn() {
    let nothing = |what| Err(Refusal::Nothing(id(1), what));
    let decide = |test: &TestJob| resume::decide(&test.job, "and now the tests", None, How::default());
    assert_eq!(decide(&TestJob::empty()), Err(Refusal::NotFound(id(1))));
    assert_eq!(decide(&TestJob::ended(0)), nothing("no conversation: it runs a command, not an agent"));
    let begun = TestJob::in_turn(agent());
    assert_eq!(decide(&begun), Err(Refusal::NotEnded(id(1))));
    // No turn completed, so there is nothing that the agent may remember: the conversation goes on in a new session.
    let fresh = decide(&begun.clone().cancelled().emptied(exited(0))).expect("it has ended");
    let position = Position { first: id(1), after: id(1), number: 2 };
    assert_eq!((fresh.resume, fresh.fork, fresh.conversation), (None, false, Some(position)));
    // The second turn did not complete: the first is resumed.
    let second = |test: TestJob| test.says(ends(TurnEnding::Completed)).says(Signal::TurnStarted);
    let cut = second(begun).cancelled().emptied(exited(0));
    let next = decide(&cut).expect("it has ended");
    let conversation = ProviderSession { provider: "codex".to_owned(), reference: "ref-1".to_owned() };
    assert_eq!((next.resume.as_ref(), next.retry_of), (Some(&conversation), None));
    let Work::Agent { provider, prompt, terms } = &next.work else { panic!("{next:?}") };
    let Work::Agent { terms: before, .. } = agent().work else { panic!("an agent") };
    assert_eq!((provider.as_str(), prompt.as_str(), terms), ("codex", "and now the tests", &before));
    let mute = Terms { dialect: Dialect::Claude, ..Terms::default() };
    let cut = second(TestJob::in_turn(with(mute))).cancelled().emptied(exited(0));
    assert_eq!(decide(&cut), nothing("an agent that cannot be resumed: its definition has no `resume`"));
}

/// The definition may say otherwise by now: it is asked before this is decided.
#[test]
fn a_conversation_is_resumed_without_the_old_reason_not_to() {
    let terms = Terms {
        resume: vec!["--resume".to_owned()],
        no_resume: Some("it loses them".to_owned()),
        ..Terms::default()
    };
    let done = TestJob::in_turn(with(terms)).says(ends(TurnEnding::Completed)).emptied(exited(0));
    let next = resume::decide(&done.job, "more", None, How::default()).expect("it has ended");
    let Work::Agent { terms, .. } = next.work else { panic!("it is an agent") };
    assert_eq!(terms.no_resume, None);
}

#[test]
fn a_conversation_is_resumed_in_its_worktree() {
    let (git_dir, checkout) = ("/src/.git".to_owned(), "/src".to_owned());
    let worktree = Worktree { git_dir, checkout, base: "a".repeat(40), keep: false };
    let spec = Spec { worktree: Some(worktree), cwd: "/src/sub".to_owned(), ..agent() };
    let done = TestJob::in_turn(spec.clone()).says(ends(TurnEnding::Completed)).emptied(exited(0));
    let next = resume::decide(&done.job, "more", Some("/trees/1"), How::default()).expect("it has ended");
    assert_eq!((next.cwd.as_str(), next.worktree), ("/trees/1/sub", None));
    let lost = resume::decide(&done.job, "more", None, How::default());
    assert_eq!(lost, Err(Refusal::Nothing(id(1), "lost its worktree, which the conversation is about")));
    // A retry starts with a fresh worktree and a new conversation.
    let again = retry::decide(&done.job, &done.job).expect("it has ended");
    assert_eq!((again.resume, again.worktree), (None, spec.worktree));
}

#[test]
fn a_fork_leaves_the_conversation_to_its_job() {
    let spec = |dialect, fork: &[&str]| {
        let fork = fork.iter().map(|word| (*word).to_owned()).collect();
        let terms = Terms { dialect, resume: vec!["--resume".to_owned()], fork, ..Terms::default() };
        let (provider, prompt) = ("mine".to_owned(), "go".to_owned());
        Spec::of(Work::Agent { provider, prompt, terms: Box::new(terms) }, "/src")
    };
    let forked = |spec: Spec| {
        let live = TestJob::in_turn(spec).says(ends(TurnEnding::Completed)).says(Signal::TurnStarted);
        assert!(resume::decide(&live.job, "x", None, How::default()).is_err(), "its job is still live");
        resume::decide(&live.job, "another way", None, How { fork: true, ..How::default() })
    };
    for spec in [spec(Dialect::Codex, &[]), spec(Dialect::Claude, &["--fork"])] {
        let next = forked(spec).expect("it can be copied");
        assert!(next.fork && next.resume.is_some());
        assert_eq!(next.conversation, None, "it begins a conversation of its own");
        let drives = |spec: Spec| Row::of(&TestJob::queued(spec).job).drives;
        assert_eq!(drives(next.clone()), None, "other jobs can still drive the session");
        assert!(drives(Spec { fork: false, ..next }).is_some());
    }
    for spec in [spec(Dialect::Acp, &["--fork"]), spec(Dialect::Claude, &[])] {
        let refused = forked(spec).expect_err("it cannot").to_string();
        assert!(refused.contains("cannot fork a conversation"), "{refused}");
    }
}

#[test]
fn input_to_a_one_shot_agent_is_refused_with_advice() {
    for dialect in [Dialect::Once, Dialect::Plain] {
        let spec = with(Terms { dialect, ..Terms::default() });
        let test = if dialect == Dialect::Once { TestJob::in_turn(spec) } else { TestJob::running(spec) };
        let refused =
            |decision: Result<Vec<Fact>, Refusal>| decision.expect_err("it hears nothing").to_string();
        for refusal in [send::decide(&test.job, "ann", "more", false), send::steer(&test.job, "ann", "more")]
            .map(refused)
        {
            assert!(refusal.contains("no input") && refusal.contains("`lastword resume`"), "{refusal}");
        }
        let refusal = refused(interrupt::decide(&test.job, "ann", None));
        assert!(refusal.contains("`lastword cancel`"), "{refusal}");
    }
}

#[test]
fn a_rule_allows_exactly_what_was_shown_until_it_is_removed() {
    let asks = |id: &str, tool: &str, request: &str, lacks: &str| {
        let exact = format!("{tool} {request}");
        let ask = Box::new(Ask { lacks: lacks.to_owned(), exact, ..Ask::permission(tool, request) });
        Signal::QuestionAsked { question: id.to_owned(), text: "may I?".to_owned(), ask, edits: Vec::new() }
    };
    let ruled = |test: &TestJob| answer::by_rule(&test.job).len();
    let mut test = TestJob::in_turn(agent()).says(asks("a", "Bash", "make test", ""));
    let facts = answer::allow_always(&test.job, "ann", &name_of(&test.job, "a"));
    test.anyone(facts);
    assert_eq!((test.count("answer_requested"), test.count("rule_added")), (1, 1));
    assert_eq!(test.job.rules[0].request, "make test");
    // The same again is allowed by the rule, and the log says so.
    let again = test.clone().says(asks("b", "Bash", "make test", ""));
    let facts = answer::by_rule(&again.job);
    let Some(Fact::AnswerRequested(answered)) = facts.first() else { panic!("{facts:?}") };
    assert_eq!((answered.by.as_str(), answered.reply.as_ref()), ("rule r1", Some(&Reply::Allow)));
    // Anything else is asked.
    let others = [
        ("Bash", "make test ", ""),
        ("Bash", "make tes", ""),
        ("Bash", "make test\nrm -rf /", ""),
        ("bash", "make test", ""),
        ("Bash", "make test", "the rest cannot be shown"),
        ("Bash", "make*", ""),
    ];
    for (tool, request, lacks) in others {
        assert_eq!(
            ruled(&test.clone().says(asks("c", tool, request, lacks))),
            0,
            "{tool} {request:?} {lacks}"
        );
    }
    // So is what looks the same and is not.
    let ask = Box::new(Ask { exact: "another".to_owned(), ..Ask::permission("Bash", "make test") });
    let other =
        Signal::QuestionAsked { question: "d".to_owned(), text: "may I?".to_owned(), ask, edits: Vec::new() };
    assert_eq!(ruled(&test.clone().says(other)), 0);
    // Removed, it allows nothing, and the same rule made again has another number.
    let facts = rule::remove(&again.job, "ann", 1);
    let mut removed = again;
    removed.anyone(facts);
    assert_eq!((ruled(&removed), removed.job.rules.len()), (0, 0));
    assert!(rule::remove(&removed.job, "ann", 1).is_err());
    let facts = answer::allow_always(&removed.job, "ann", &name_of(&removed.job, "b"));
    removed.anyone(facts);
    assert_eq!(removed.job.rules[0].no, 2);
}

#[test]
fn a_rule_is_made_only_of_what_can_be_shown_whole() {
    let ask = Box::new(Ask { lacks: "it is too large".to_owned(), ..Ask::permission("Bash", "make") });
    let signal =
        Signal::QuestionAsked { question: "a".to_owned(), text: "may I?".to_owned(), ask, edits: Vec::new() };
    let test = TestJob::in_turn(agent()).says(signal);
    let name = name_of(&test.job, "a");
    assert!(answer::allow_always(&test.job, "ann", &name).is_err());
    assert!(answer::decide(&test.job, "ann", &name, &Reply::Allow).is_ok());
    assert_eq!(
        [rule::parse("r7"), rule::parse("7"), rule::parse("r"), rule::parse("r-1")],
        [Some(7), None, None, None]
    );
}
