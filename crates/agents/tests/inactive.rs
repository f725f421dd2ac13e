//! Every word of an agent that it works on nothing, in every state of its turn: what is signalled, and what may be written next.

#[expect(dead_code, reason = "each dialect uses its part of it")]
mod common;

use common::{Driver, input};
use lastword_agents::{Goals, Start};
use lastword_core::InputNo;
use lastword_core::job::PendingInput;
use lastword_core::receipt::Exit;
use lastword_core::report::Signal;
use lastword_core::spec::Dialect;

const IDLE: &str = "Inactive { failed: false }";
const FAILED: &str = "Inactive { failed: true }";

fn driver(dialect: Dialect) -> Driver {
    let start = Start { prompt: "do it".to_owned(), cwd: "/w".to_owned(), ..Start::default() };
    Driver::new(dialect, start)
}

/// A state of the turn, reached in each dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Opened,
    Turn,
    Tool,
    Asked,
    Interrupted,
    Ended,
}

const STATES: [State; 6] =
    [State::Opened, State::Turn, State::Tool, State::Asked, State::Interrupted, State::Ended];

fn codex(state: State) -> Driver {
    let mut driver = driver(Dialect::Codex);
    let next =
        |driver: &mut Driver| driver.write_all(&Goals { stop: state == State::Opened, ..Goals::default() });
    driver.write_all(&Goals::default());
    driver.read(r#"{"id":1,"result":{}}"#);
    driver.write_all(&Goals::default());
    driver.read(r#"{"id":2,"result":{"thread":{"id":"t"}}}"#);
    next(&mut driver);
    if state != State::Opened {
        driver.read(r#"{"id":3,"result":{"turn":{"id":"u1"}}}"#);
        driver.read(r#"{"method":"turn/started","params":{"threadId":"t","turn":{"id":"u1"}}}"#);
    }
    match state {
        State::Opened | State::Turn => {}
        State::Tool => {
            driver.read(r#"{"method":"item/started","params":{"threadId":"t","item":{"id":"c","type":"commandExecution","command":"ls"}}}"#);
        }
        State::Asked => {
            driver.read(r#"{"id":9,"method":"item/commandExecution/requestApproval","params":{"threadId":"t","itemId":"c","command":"ls"}}"#);
        }
        State::Interrupted => {
            driver.write_all(&Goals { interrupt: true, ..Goals::default() });
        }
        State::Ended => {
            driver.read(r#"{"method":"turn/completed","params":{"threadId":"t","turn":{"id":"u1","status":"completed"}}}"#);
        }
    }
    driver.transcript();
    driver
}

fn goose(state: State) -> Driver {
    let mut driver = driver(Dialect::Acp);
    driver.write_all(&Goals::default());
    driver.read(r#"{"jsonrpc":"2.0","id":1,"result":{"agentInfo":{"name":"goose"}}}"#);
    driver.write_all(&Goals::default());
    driver.read(r#"{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}"#);
    if state != State::Opened {
        driver.write_all(&Goals::default());
    }
    match state {
        State::Opened | State::Turn => {}
        State::Tool => {
            driver.read(r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"c","title":"ls","status":"pending"}}}"#);
        }
        State::Asked => {
            driver.read(r#"{"jsonrpc":"2.0","id":9,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"c","title":"ls","rawInput":{"command":"ls"}},"options":[{"optionId":"a","kind":"allow_once","name":"Allow"},{"optionId":"r","kind":"reject_once","name":"Reject"}]}}"#);
        }
        State::Interrupted => {
            driver.write_all(&Goals { interrupt: true, ..Goals::default() });
        }
        State::Ended => {
            driver.read(r#"{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}"#);
        }
    }
    driver.transcript();
    driver
}

fn claude(state: State) -> Driver {
    let mut driver = driver(Dialect::Claude);
    driver.write_all(&Goals::default());
    if state != State::Opened {
        driver.read(r#"{"type":"system","subtype":"init","session_id":"s"}"#);
    }
    match state {
        State::Opened | State::Turn => {}
        State::Tool => {
            driver.read(r#"{"type":"assistant","message":{"model":"m","content":[{"type":"tool_use","id":"c","name":"Bash","input":{"command":"ls"}}]}}"#);
        }
        State::Asked => {
            driver.read(r#"{"type":"control_request","request_id":"r","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"ls"}}}"#);
        }
        State::Interrupted => {
            driver.write_all(&Goals { interrupt: true, ..Goals::default() });
        }
        State::Ended => {
            driver.read(
                r#"{"type":"result","subtype":"success","is_error":false,"session_id":"s","usage":{}}"#,
            );
        }
    }
    driver.transcript();
    driver
}

const CODEX_IDLE: &str =
    r#"{"method":"thread/status/changed","params":{"threadId":"t","status":{"type":"idle"}}}"#;
const CODEX_ACTIVE: &str = r#"{"method":"thread/status/changed","params":{"threadId":"t","status":{"type":"active","activeFlags":[]}}}"#;
const CODEX_ERROR: &str =
    r#"{"method":"thread/status/changed","params":{"threadId":"t","status":{"type":"systemError"}}}"#;
const CODEX_CHILD: &str =
    r#"{"method":"thread/status/changed","params":{"threadId":"child","status":{"type":"idle"}}}"#;
const CODEX_OTHER: &str =
    r#"{"method":"thread/status/changed","params":{"threadId":"t","status":{"type":"notLoaded"}}}"#;
const GOOSE_IDLE: &str = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"session_info_update","_meta":{"goose":{"activeRunId":null}}}}}"#;
const GOOSE_NAMED: &str = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"session_info_update","title":"a name"}}}"#;
const CLAUDE_IDLE: &str = r#"{"type":"system","subtype":"session_state_changed","state":"idle"}"#;

#[test]
fn c94_each_word_of_idleness_in_each_state() {
    type Of = fn(State) -> Driver;
    let words: [(Of, &str, &str); 7] = [
        (codex, CODEX_IDLE, IDLE),
        (codex, CODEX_ERROR, FAILED),
        (codex, CODEX_CHILD, ""),
        (codex, CODEX_OTHER, ""),
        (goose, GOOSE_IDLE, IDLE),
        (goose, GOOSE_NAMED, ""),
        (claude, CLAUDE_IDLE, IDLE),
    ];
    for (of, word, expected) in words {
        for state in STATES {
            let mut driver = of(state);
            driver.read(word);
            let holds_turn = !matches!(state, State::Opened | State::Ended);
            let expected = if holds_turn { expected } else { "" };
            assert_eq!(driver.whole_transcript(), expected, "{word} in {state:?}");
        }
    }
}

#[test]
fn c94_only_the_next_turn_follows_an_idle_word() {
    let mut steer = input(2, "quick");
    steer.steer = true;
    let offered = |driver: &Driver, input: &PendingInput| {
        let goals = Goals { inputs: std::slice::from_ref(input), ..Goals::default() };
        driver.dialogue.next(&goals).map(|next| next.input)
    };
    for (mut driver, idle) in [(codex(State::Turn), CODEX_IDLE), (goose(State::Turn), GOOSE_IDLE)] {
        driver.read(idle);
        // It may still end its turn: nothing is written into it. An input that the owner lets begin a turn does.
        assert_eq!(offered(&driver, &steer), None);
        assert_eq!(offered(&driver, &input(2, "next")), Some(InputNo(2)));
        assert!(driver.dialogue.is_busy(), "its turn has not ended");
    }
}

#[test]
fn the_late_end_of_an_idle_turn_does_not_end_the_next_one() {
    let mut driver = codex(State::Turn);
    driver.read(CODEX_IDLE);
    let inputs = [input(2, "next")];
    let line = driver.write_next(&Goals { inputs: &inputs, ..Goals::default() }).expect("it is due");
    assert_eq!(line["method"], "turn/start");
    assert_eq!(driver.whole_transcript(), format!("{IDLE}\nturn"));
    driver.read(
        r#"{"method":"turn/completed","params":{"threadId":"t","turn":{"id":"u1","status":"completed"}}}"#,
    );
    assert_eq!(driver.whole_transcript(), "");
    driver.read(r#"{"method":"turn/started","params":{"threadId":"t","turn":{"id":"u2"}}}"#);
    driver.read(
        r#"{"method":"turn/completed","params":{"threadId":"t","turn":{"id":"u2","status":"completed"}}}"#,
    );
    assert!(driver.transcript().starts_with("Completed"));
}

#[test]
fn work_after_an_idle_word_is_work() {
    let mut driver = codex(State::Turn);
    driver.read(CODEX_IDLE);
    driver.read(CODEX_ACTIVE);
    assert_eq!(driver.whole_transcript(), format!("{IDLE}\nActive"));
}

#[test]
fn a_death_is_reported_with_its_exit_and_its_last_words() {
    for of in [codex, goose, claude] {
        for state in STATES {
            let mut driver = of(state);
            let heard = driver.dialogue.exited(Exit::Code(3), "no space left | giving up");
            let ends = heard.into_iter().find_map(|heard| match heard.signal {
                Signal::TurnEnded { error, .. } => error,
                Signal::Unopened { error } => Some(error),
                _ => None,
            });
            let words = "; its last words: no space left | giving up";
            let expected = match state {
                State::Ended => None,
                // Claude opens a session with its first turn.
                State::Opened if driver.terms.dialect == Dialect::Claude => {
                    Some(format!("the agent exited with status 3 before it opened a session{words}"))
                }
                State::Opened => None,
                _ => Some(format!("the agent exited with status 3 before its turn ended{words}")),
            };
            assert_eq!(ends, expected, "{:?} in {state:?}", driver.terms.dialect);
        }
    }
    let heard = codex(State::Turn).dialogue.exited(Exit::Signal(9), "");
    let signals: Vec<String> = heard.iter().map(|heard| common::line_of(&heard.signal)).collect();
    assert!(signals[0].starts_with("AgentExit (the agent was killed by signal 9 before its turn ended)"));
}

#[test]
fn a_death_is_reported_once() {
    for of in [codex, goose, claude] {
        for state in STATES {
            let mut driver = of(state);
            driver.dialogue.exited(Exit::Code(3), "");
            assert_eq!(
                driver.dialogue.exited(Exit::Code(3), ""),
                [],
                "{:?} in {state:?}",
                driver.terms.dialect
            );
        }
    }
    // A turn of a session without a name.
    let mut driver = driver(Dialect::Claude);
    driver.read(r#"{"type":"system","subtype":"init"}"#);
    assert_eq!(driver.dialogue.exited(Exit::Signal(9), "").len(), 1);
    assert_eq!(driver.dialogue.exited(Exit::Signal(9), ""), []);
}
