//! Items of the reports that have no row, and why.

use super::report::{
    CLAW_CODE_524EDB2, CODEX_PLUGIN_184, OUROBOROS_464, OUROBOROS_1207, Report, T3CODE_3159,
};

/// An item without a row.
pub(super) struct LeftOut {
    pub(super) id: &'static str,
    pub(super) report: &'static Report,
    pub(super) what: &'static str,
    pub(super) why: &'static str,
}

const fn item(id: &'static str, report: &'static Report, what: &'static str, why: &'static str) -> LeftOut {
    LeftOut { id, report, what, why }
}

#[rustfmt::skip] // One row, one item.
pub(super) const ITEMS: &[LeftOut] = &[
    item("000-40", &OUROBOROS_464, "MCP tools to start, watch and cancel a job", "an MCP server comes later"),
    item("000-41", &OUROBOROS_464, "cancelling the outer work cancels the work it is linked to", "a tied job ends with the one it was submitted from: the tests of C96 show it, no row does yet"),
    item("000-42", &OUROBOROS_464, "jobs that are coroutines of the supervisor's own process", "a job is always a process here"),
    item("000-43", &OUROBOROS_464, "resuming a session after a cancel", "the tests of C91 and C92 show it, no row does yet"),
    item("000-44", &OUROBOROS_464, "two runners of one session", "one job drives a conversation at a time: the tests of C92 show it, no row does yet"),
    item("001-13", &OUROBOROS_1207, "one time budget over all processes and resumes of a session", "the jobs of a conversation share their limits: the tests of C92 show it, no row does yet"),
    item("001-14", &OUROBOROS_1207, "one budget over a pipeline of phases", "today the agents of a group share a budget of money or tokens for each day; one over chosen jobs comes later"),
    item("001-15", &OUROBOROS_1207, "settings that another loader owns are accepted", "there is one loader; an unknown key is refused"),
    item("001-17", &OUROBOROS_1207, "stores that cannot be queried still work", "a matter of that store's interface; every journal here passes one conformance suite"),
    item("002-09", &CODEX_PLUGIN_184, "a hub watches the child that its clients share", "no two jobs share a process (C59, C67)"),
    item("002-26", &CODEX_PLUGIN_184, "jobs of this workspace and this session", "a list by folder or session comes later; labels select jobs today"),
    item("002-27", &CODEX_PLUGIN_184, "commands inside Claude Code", "an MCP server comes later"),
    item("002-28", &CODEX_PLUGIN_184, "one app-server for several companions", "no two jobs share a process (C59, C67)"),
    item("003-01", &CLAW_CODE_524EDB2, "a token in the call of a turn, inside one process", "there is no library; a cancel is a request to the daemon"),
    item("003-04", &CLAW_CODE_524EDB2, "a cancelled turn is not part of the conversation that goes on", "the tests of C91 show it, no row does yet"),
    item("004-08", &T3CODE_3159, "a settled session is ended after an idle time", "the tests of C93 show it, no row does yet"),
    item("004-09", &T3CODE_3159, "a session stays ready between turns", "the tests of C93 show it, no row does yet"),
    item("004-10", &T3CODE_3159, "threads, sessions and turns can be read", "`show` and `conversation show` print them; no row shows it yet"),
    item("004-12", &T3CODE_3159, "what the agent says, as it says it", "a normalised stream comes with the UIs"),
    item("002-29", &CODEX_PLUGIN_184, "macOS and Windows", "Linux only"),
];
