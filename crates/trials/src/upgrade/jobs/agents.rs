//! Coding agents that are live at the takeover, nearly all in mid-turn.

use super::row::{Row, Wrote, agent, command};

pub(super) fn rows(clock: &str) -> Vec<Row> {
    let dialects = ["acp", "claude", "codex"].into_iter();
    let mut rows: Vec<Row> = dialects.flat_map(|dialect| of_dialect(dialect, clock)).collect();
    rows.push(agent("plain-turn", "plain", "", "count").then(&["go"]));
    rows.push(agent("once-turn", "once", "", "count").is(TURN).then(&["go"]).with(COMPLETED));
    rows
}

/// The first turn is active.
const TURN: &str = "/session/active_turn=1";

/// The first turn was completed.
const COMPLETED: &str = "/session/turns/0/ending=completed";

fn of_dialect(dialect: &str, clock: &str) -> Vec<Row> {
    let name = |what: &str| format!("{dialect}-{what}");
    let one = |what: &str, flags: &str, prompt: &str| agent(&name(what), dialect, flags, prompt).is(TURN);
    let tool = if dialect == "codex" { "commandExecution" } else { "execute" };
    let asks = &format!("/session/questions/0/text={tool}: make test");
    let mut rows = vec![
        one("turn", "", "count").then(&["go"]).with(COMPLETED).wrote(Wrote::Counted).heard(&["prompt count"]),
        one("asks", "", "ask make test; count")
            .is(asks)
            .then(&["approve {} ask-1", "go"])
            .with(COMPLETED)
            .wrote(Wrote::Counted)
            .heard(&["prompt ask make test; count", "ask-1 allow"]),
        one("denied", "", "ask make test")
            .is(asks)
            .then(&["deny {} ask-1 not now"])
            .with(COMPLETED)
            .heard(&["prompt ask make test", "ask-1 deny"]),
        // 0.1.0 accepted a message for the next turn.
        one("queued", "", "count")
            .old("until /session/active_turn=1")
            .old("send {} more")
            .is("/inputs_waiting=1")
            .then(&["go"])
            .with(COMPLETED)
            .with("/session/turns/1/ending=completed")
            .wrote(Wrote::Counted)
            .heard(&["prompt count", "prompt more"]),
        one("interrupted", "", "count")
            .then(&["send {} more", "interrupt {}"])
            .with("/session/turns/0/ending=interrupted")
            .with("/session/turns/1/ending=completed")
            .heard(&["prompt count", "interrupt", "prompt more"]),
        one("cancelled", "", "count")
            .then(&["cancel {}"])
            .ends("cancelled")
            .heard(&["prompt count", "interrupt"]),
        one("expires", &format!("--ask-expires {clock}"), "ask make test")
            .is(asks)
            .timed()
            .with(COMPLETED)
            .heard(&["prompt ask make test", "ask-1 deny"]),
        // It has written enough for its dialogue to be stored; the new daemon starts from that instead of the first byte.
        one("long", "", "ask make test; fill 17; count")
            .old("until /session/questions/0/id=ask-1")
            .old("approve {}")
            .old("stored 1.dialogue")
            .then(&["go"])
            .with(COMPLETED)
            .wrote(Wrote::Counted)
            .heard(&["prompt ask make test; fill 17; count", "ask-1 allow"]),
        command(&name("going-on"), &format!("resume -d {{{dialect}-turned}} count"))
            .is(TURN)
            .then(&["go"])
            .with(COMPLETED)
            .wrote(Wrote::Counted)
            .heard(&["prompt count"]),
    ];
    if dialect != "acp" {
        rows.push(
            one("steered", "", "count")
                .then(&["send --steer {} left", "heard steer left", "go"])
                .with(COMPLETED)
                .wrote(Wrote::Counted)
                .heard(&["prompt count", "steer left"]),
        );
        rows.push(
            agent(&name("limited"), dialect, "--tokens 1000", "spend 900; count; spend 200; ask nothing")
                .is(TURN)
                .is("/spent/tokens_in=900")
                .then(&["go"])
                .ends("over_budget")
                .with("/outcome_detail=tokens"),
        );
    }
    rows
}
