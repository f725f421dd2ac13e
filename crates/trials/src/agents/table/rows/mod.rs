//! The behaviours that agents are tried for, one function each.
//!
//! - [`turns`]: a turn, a tool, what is said meanwhile, what it costs.
//! - [`permission`]: an agent that asks.
//! - [`ending`]: interrupts, cancels, limits, a kill.
//! - [`bounds`]: what is spent within a turn, limits that are refused, the model that was chosen.
//! - [`silence`]: an agent that goes idle without a word, dies or never answers.
//! - [`trouble`]: a model that fails.
//! - [`once`]: an agent with one prompt.
//! - [`typing`]: a person at a terminal.
//! - [`reach`]: what an agent serves to others.
//! - [`recovery`]: a daemon that dies in the middle of a turn, and a conversation that goes on in another job.

mod bounds;
pub(super) mod ending;
mod once;
mod permission;
mod reach;
mod recovery;
mod silence;
mod trouble;
mod turns;
mod typing;

use super::setup::{Setting, Setup};
use crate::agents::known::Agent;

/// One behaviour.
pub(super) struct Row {
    pub(super) name: &'static str,
    /// The promises of the contract that it shows, beside those that the judge knows.
    pub(super) promises: &'static [u16],
    /// What was seen when it is said to hold.
    pub(super) about: &'static str,
    pub(super) setting: Setting,
    /// The agents that cannot do it, and why.
    not_for: &'static [(&'static str, &'static str)],
    pub(super) run: fn(&Setup) -> Result<(), String>,
}

impl Row {
    /// Says why an agent cannot do this at all.
    pub(super) fn not_for(&self, agent: &Agent) -> Option<&'static str> {
        self.not_for.iter().find(|(name, _)| *name == agent.name).map(|(_, why)| *why)
    }

    const fn new(
        name: &'static str,
        promises: &'static [u16],
        about: &'static str,
        run: fn(&Setup) -> Result<(), String>,
    ) -> Row {
        Row { name, promises, about, setting: Setting { asks: false }, not_for: &[], run }
    }

    const fn asking(self) -> Row {
        Row { setting: Setting { asks: true }, ..self }
    }

    const fn except(self, not_for: &'static [(&'static str, &'static str)]) -> Row {
        Row { not_for, ..self }
    }
}

const NO_LOADING: &str =
    "it claims to load conversations, but fails and empties them; so `resume` is refused";
const NO_STEERING: &str = "its protocol does not support it; the text becomes the next turn";
const NO_PATCH: &str =
    "its tool for changes takes free text, which the scripted model does not send; recorded streams cover it";
const NO_CHOICE: &str = "it offers no such tool over its protocol";
const ONE_BY_ONE: &str = "it asks for one thing after the other; a scripted agent shows two at once";
const NO_TOKENS: &str = "it reports the tokens of its last model call only, so a limit on tokens is refused";
const NO_SPENDING: &str = "it reports what it used at the end of a turn only, so a limit on it is refused";
const NO_IDLE: &str = "it says nothing when it goes idle; the stall limit ends such a turn";
const NO_FAILED: &str = "it says nothing of an error but in the message that ends its turn";
const NO_QUOTA: &str = "it says nothing and waits by itself, so `--wait-for-quota` is refused";
const NO_EFFORT: &str = "its protocol has no choice of it, so `--effort` is refused";
const NO_FORK: &str = "its protocol does not support it";

#[rustfmt::skip] // One row, one line.
pub(super) const ROWS: &[Row] = &[
    Row::new("turn", &[75], "a prompt is answered, and the job ends completed; limits are not mentioned", turns::completed),
    Row::new("tool", &[], "a command runs, and its result is stored as a fact", turns::tool),
    Row::new("parallel-tools", &[], "two commands in one reply both run", turns::parallel),
    Row::new("queue", &[], "a message sent during a turn becomes the next turn, once", turns::queue),
    Row::new("steer", &[], "a message sent into a turn reaches it", turns::steer)
        .except(&[("goose", NO_STEERING), ("opencode", NO_STEERING), ("gemini", NO_STEERING)]),
    Row::new("long-text", &[], "an answer of one megabyte arrives", turns::long_text),
    Row::new("usage", &[], "tokens are counted as the model reports them", turns::usage),
    Row::new("cost", &[], "money is counted, by the agent or by the user's prices", turns::cost),
    Row::new("permission-allowed", &[], "it asks, a person approves, and it runs the command", permission::allowed).asking(),
    Row::new("permission-whole", &[88, 89], "a command of 4 kB is shown to its last byte, and its name below it", permission::whole).asking(),
    Row::new("permission-diff", &[89], "a change to a file is shown as a diff against it", permission::diff).asking()
        .except(&[("codex", NO_PATCH)]),
    Row::new("choice", &[88], "two questions in one request: each with its options and its own answer", permission::choice).asking()
        .except(&[("codex", "it asks in its plan mode only"), ("goose", NO_CHOICE), ("opencode", NO_CHOICE), ("gemini", NO_CHOICE)]),
    Row::new("permission-two", &[88], "two questions at once: each answer reaches its own", permission::two).asking()
        .except(&[("claude", ONE_BY_ONE), ("goose", ONE_BY_ONE), ("opencode", ONE_BY_ONE), ("gemini", ONE_BY_ONE)]),
    Row::new("permission-denied", &[], "it asks, a person denies, and it does not run the command", permission::denied).asking(),
    Row::new("permission-always", &[88], "a rule is made of what was shown: it allows the same again, is shown, and is removed", permission::rule).asking(),
    Row::new("permission-by-rule", &[], "a rule allows it, and no question is asked; one in the agent's own syntax is refused with what to write", permission::by_rule).asking(),
    Row::new("typed-ahead", &[], "a yes that was typed before the question is shown does not answer it; one that is typed below it does", typing::ahead).asking(),
    Row::new("permission-cancelled", &[81], "cancelled while it asks: the question can no longer be answered", permission::cancelled).asking(),
    Row::new("interrupt-at-once", &[71], "just after the start: the turn ends, the next prompt works", ending::interrupt_at_once),
    Row::new("interrupt-in-text", &[71, 74], "the turn ends, the connection to the model closes, the next prompt works", ending::interrupt_in_text),
    Row::new("interrupt-in-tool", &[71, 74], "the turn ends, the command is gone, the next prompt works", ending::interrupt_in_tool),
    Row::new("interrupt-of-nothing", &[71, 80], "after the turn: the answer is that no turn is active, and nothing changes", ending::interrupt_of_nothing),
    Row::new("cancel", &[71], "children, a setsid, a double fork: nothing survives", ending::cancel),
    Row::new("cancel-before-next", &[72], "a message queued for the next turn does not start it", ending::cancel_before_next),
    Row::new("deadline", &[], "the limit applies while the model hangs", ending::deadline),
    Row::new("deadline-in-tool", &[68], "a waiting client is answered once every process is gone", ending::deadline_in_tool),
    Row::new("stall", &[], "the clock stops while a command runs, and the limit applies when none does", ending::stall),
    Row::new("budget-turns", &[], "the turn after the last allowed one does not start", ending::turns),
    Row::new("budget-tokens", &[70], "the job ends over its budget", ending::tokens)
        .except(&[("goose", NO_TOKENS), ("opencode", NO_SPENDING), ("gemini", NO_SPENDING)]),
    Row::new("budget-money", &[70], "the job ends over its budget", ending::money)
        .except(&[("opencode", NO_SPENDING), ("gemini", NO_SPENDING)]),
    Row::new("money-in-turn", &[90], "a turn of ten model calls is stopped at the one that exceeds the limit: at most that one is spent beyond it", bounds::money_in_turn)
        .except(&[("opencode", NO_SPENDING), ("gemini", NO_SPENDING)]),
    Row::new("limit-refused", &[90], "a limit that it cannot be held to is refused with the reason, and nothing is started", bounds::refused),
    Row::new("turn-deadline", &[90], "the limit of a turn stops it, and the time in which a person is asked does not count", bounds::turn_deadline).asking(),
    Row::new("model", &[], "the model that was chosen is the one that is asked", bounds::model),
    Row::new("effort", &[], "the effort that was chosen reaches the model", bounds::effort)
        .except(&[("gemini", NO_EFFORT)]),
    Row::new("servers", &[], "two jobs at once: whatever the agent serves on a port asks for a password", reach::servers),
    Row::new("idle-without-end", &[94], "it goes idle and the message that ends its turn is lost: the turn ends within seconds", silence::idle)
        .except(&[("opencode", NO_IDLE), ("gemini", NO_IDLE)]),
    Row::new("failed-without-end", &[94], "it reports an error and the message that ends its turn is lost: the turn ends within seconds", silence::failed)
        .except(&[("claude", NO_FAILED), ("goose", NO_FAILED), ("opencode", NO_FAILED), ("gemini", NO_FAILED)]),
    Row::new("death", &[], "it exits by itself: the job says its exit status and its last words", silence::death),
    Row::new("no-handshake", &[], "it never answers: it is reported, and ended by the limit of its handshake", silence::no_handshake),
    Row::new("ask-at-limit", &[], "it is frozen, the limit is raised, it continues and completes", ending::ask_at_limit),
    Row::new("agent-killed", &[56, 57], "kill -9: the turn ends, the job fails, nothing survives, waiting clients return", ending::killed),
    Row::new("agent-killed-after-turn", &[58], "kill -9 after the turn: turn and job stay completed", ending::killed_after_turn),
    Row::new("two-jobs", &[59, 67], "two jobs at once: the agent of one is killed, and the other completes", ending::two_jobs),
    Row::new("model-400", &[74], "the turn fails, and a queued message does not start the next one", trouble::next_is_not_begun),
    Row::new("model-500", &[], "the turn does not complete", trouble::status_500),
    Row::new("model-429", &[], "the turn does not complete", trouble::status_429),
    Row::new("model-529-once", &[], "the turn completes at the second attempt", trouble::recovers),
    Row::new("quota", &[95], "its quota is used up: it waits without a process for the time it was told, asks once, and goes on", trouble::quota)
        .except(&[("goose", NO_QUOTA), ("opencode", NO_QUOTA), ("gemini", "it waits for a few seconds by itself; a scripted agent shows its error for a long time")]),
    Row::new("model-drops", &[], "connections reset: the turn does not complete", trouble::drops),
    Row::new("model-hangs", &[], "no answer at all: the stall limit ends the job", trouble::hangs),
    Row::new("daemon-killed-in-text", &[70], "the turn continues and completes once", recovery::in_text),
    Row::new("daemon-killed-in-tool", &[70], "the turn continues, and the command runs once", recovery::in_tool),
    Row::new("daemon-killed-in-question", &[], "the question waits, and its answer counts once", recovery::in_question).asking(),
    Row::new("resume", &[82], "another job continues the conversation", recovery::resume)
        .except(&[("gemini", NO_LOADING)]),
    Row::new("resume-after-kill", &[82], "a turn that was cut off is not run again, and the conversation continues", recovery::resume_after_kill)
        .except(&[("gemini", NO_LOADING)]),
    Row::new("resume-too-early", &[82, 91], "without a completed turn the next job has a new session, and nothing runs again", recovery::resume_too_early),
    Row::new("forget-cancelled", &[91], "a cancelled turn: the next job's model is not told of it, or the user was told before that it will be", recovery::forget_cancelled)
        .except(&[("gemini", NO_LOADING)]),
    Row::new("fork", &[], "another job continues a copy, and the original conversation is unchanged", recovery::fork)
        .except(&[("goose", NO_FORK), ("opencode", NO_FORK), ("gemini", NO_FORK)]),
    Row::new("one-shot", &[56], "its one-prompt form: an answer, a tool, a failure, a kill and a resume", once::all),
];
