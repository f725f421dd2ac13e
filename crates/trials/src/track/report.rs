//! Where failures were reported.

/// A public report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Report {
    /// As the contract and the page name it.
    pub(super) name: &'static str,
    pub(super) link: &'static str,
}

const fn report(name: &'static str, link: &'static str) -> Report {
    Report { name, link }
}

/// The threads whose every item about jobs has a row, with what they are about. The contract names them.
pub(super) const THREADS: [(&Report, &str); 5] = [
    (&OUROBOROS_464, "A cancelled job leaves its subprocess running"),
    (&OUROBOROS_1207, "A watchdog forgets its decision when the process restarts"),
    (&CODEX_PLUGIN_184, "Tracked jobs hang forever when a broker disconnects"),
    (&CLAW_CODE_524EDB2, "A turn that was given up goes on and changes the conversation"),
    (&T3CODE_3159, "A turn stays active after its session became inactive"),
];

pub(super) const OUROBOROS_464: Report =
    report("ouroboros #464", "https://github.com/Q00/ouroboros/pull/464");
pub(super) const OUROBOROS_1207: Report =
    report("ouroboros #1207", "https://github.com/Q00/ouroboros/pull/1207");
pub(super) const CODEX_PLUGIN_184: Report =
    report("codex-plugin-cc #184", "https://github.com/openai/codex-plugin-cc/pull/184");

pub(super) const CLAW_CODE_524EDB2: Report =
    report("claw-code 524edb2", "https://github.com/ultraworkers/claw-code/commit/524edb2b2e");
pub(super) const T3CODE_3159: Report =
    report("t3code #3159", "https://github.com/pingdotgg/t3code/pull/3159");

// Single reports.
#[rustfmt::skip] // One row, one report.
mod single {
    use super::{Report, report};

    pub(in crate::track) const AGENT_ORCHESTRATOR_3537: Report = report("agent-orchestrator #3537", "https://github.com/Untrivial-ai/agent-orchestrator/issues/3537");
    pub(in crate::track) const CLAUDE_CODE_19433: Report = report("claude-code #19433", "https://github.com/anthropics/claude-code/issues/19433");
    pub(in crate::track) const CLAUDE_TERMINAL_202: Report = report("claude-terminal #202", "https://github.com/Sterll/claude-terminal/issues/202");
    pub(in crate::track) const CODEX_PLUGIN_432: Report = report("codex-plugin-cc #432", "https://github.com/openai/codex-plugin-cc/issues/432");
    pub(in crate::track) const CODEX_PLUGIN_540: Report = report("codex-plugin-cc #540", "https://github.com/openai/codex-plugin-cc/issues/540");
    pub(in crate::track) const CODEX_PLUGIN_665: Report = report("codex-plugin-cc #665", "https://github.com/openai/codex-plugin-cc/issues/665");
    pub(in crate::track) const FLUX_CORE_1412: Report = report("flux-core #1412", "https://github.com/flux-framework/flux-core/issues/1412");
    pub(in crate::track) const LINGTAI_KERNEL_587: Report = report("lingtai-kernel #587", "https://github.com/Lingtai-AI/lingtai-kernel/issues/587");
    pub(in crate::track) const MEESEEKS_19: Report = report("meeseeks #19", "https://github.com/matt-ramotar/meeseeks/issues/19");
    pub(in crate::track) const NODE_CRON_601: Report = report("node-cron #601", "https://github.com/node-cron/node-cron/pull/601");
    pub(in crate::track) const OUROBOROS_100: Report = report("ouroboros #100", "https://github.com/Q00/ouroboros/issues/100");
    pub(in crate::track) const TAIPY_CORE_274: Report = report("taipy-core #274", "https://github.com/Avaiga/taipy-core/issues/274");
}

pub(super) use single::*;
