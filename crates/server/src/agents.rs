//! The coding agents known by name: built-in ones and the user's own. The user's file is read on every request, so changes to it count at
//! once, and for new jobs only.

use std::io;
use std::path::{Path, PathBuf};

use lastword_agents::{BadDefinition, BadPrices, Chosen, Definitions, PriceTable, Show, Shown, price_of};
use lastword_api::{AgentRequest, Code, Problem};
use lastword_core::Job;
use lastword_core::decide::resume;
use lastword_core::spec::{Dialect, Permissions, Work};
use lastword_store::Store;

use crate::app::App;
use crate::failure::Failure;

/// The user's file of agents cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct BadAgents {
    path: PathBuf,
    why: Why,
}

#[derive(Debug, thiserror::Error)]
enum Why {
    #[error(transparent)]
    Unreadable(io::Error),
    #[error(transparent)]
    Unusable(BadDefinition),
    #[error(transparent)]
    Prices(BadPrices),
}

/// Returns the built-in agents, overridden and extended by those of the user's file. The file need not exist.
pub fn known_agents(file: &Path) -> Result<Definitions, BadAgents> {
    let own = read(file)?;
    Definitions::with(own.as_deref())
        .map_err(|error| BadAgents { path: file.to_owned(), why: Why::Unusable(error) })
}

/// Returns the user's own prices. The file need not exist.
pub fn own_prices(file: &Path) -> Result<PriceTable, BadAgents> {
    let prices = read(file)?.map_or_else(|| Ok(PriceTable::default()), |text| PriceTable::read(&text));
    prices.map_err(|error| BadAgents { path: file.to_owned(), why: Why::Prices(error) })
}

/// Reads a file of the user's; `None` if there is none.
fn read(file: &Path) -> Result<Option<String>, BadAgents> {
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(BadAgents { path: file.to_owned(), why: Why::Unreadable(error) }),
    }
}

/// The last message of an agent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LastMessage {
    pub(crate) text: String,
    /// Its beginning may be missing.
    pub(crate) is_cut: bool,
}

/// Returns the last message in the end of an agent's output, which is cut if there is output before it; `None` for a plain agent, or if
/// there is no message.
pub(crate) fn last_message(dialect: Dialect, written: &[u8], is_cut: bool) -> Option<LastMessage> {
    let mut show = if is_cut { Show::midway(dialect) } else { Show::new(dialect) };
    let (mut message, mut last) = (None::<LastMessage>, None);
    for line in written.split(|byte| *byte == b'\n') {
        for shown in show.line(line) {
            match shown {
                Shown::Text(part) => {
                    let is_cut = show.missed_start();
                    message.get_or_insert(LastMessage { text: String::new(), is_cut }).text.push_str(&part);
                }
                Shown::Output(_) if dialect == Dialect::Plain => return None,
                _ => last = message.take().or(last),
            }
        }
    }
    message.or(last)
}

/// Returns the lines of an agent that are not of its protocol, which is objects of JSON. The first line may have lost its beginning.
pub(crate) fn outside_protocol(written: &[u8], is_cut: bool) -> String {
    let lines = written.split_inclusive(|byte| *byte == b'\n').skip(usize::from(is_cut));
    let plain = lines.filter(|line| !line.trim_ascii_start().starts_with(b"{"));
    plain.map(String::from_utf8_lossy).collect()
}

/// Refuses an empty prompt, and one that no agent can read.
pub(crate) fn check_prompt(prompt: &str) -> Result<(), Failure> {
    match () {
        () if prompt.trim().is_empty() => Err(Failure::invalid("`prompt` is empty")),
        () if prompt.contains('\0') => Err(Failure::invalid("`prompt` contains a zero byte")),
        () => Ok(()),
    }
}

/// Refuses to resume a conversation that the agent would lose. The current definition counts, not that of the job: it may know of newer
/// versions of the agent. Jobs without a conversation are refused elsewhere.
pub(crate) fn check_resume<J: Store>(app: &App<J>, job: &Job) -> Result<(), Failure> {
    let Some(provider) = job.provider().filter(|_| resume::source(job).session.is_some()) else {
        return Ok(());
    };
    match definitions(app)?.get(provider).and_then(|definition| definition.no_resume.as_deref()) {
        None => Ok(()),
        Some(why) => {
            let id = job.id;
            let detail = format!(
                "{id} cannot be resumed: `{provider}` would lose its conversation ({why}); \
                 nothing was started. Start a new one with `run --agent {provider}`"
            );
            Err(Problem::new(Code::Conflict, detail).about(id).into())
        }
    }
}

fn definitions<J: Store>(app: &App<J>) -> Result<Definitions, Failure> {
    known_agents(&app.about().agents).map_err(|bad| Problem::new(Code::Invalid, bad.to_string()).into())
}

/// Returns the work of the requested agent, with its current definition.
pub(crate) fn work<J: Store>(app: &App<J>, request: &AgentRequest) -> Result<Work, Failure> {
    let permissions = request.permissions.to_core().map_err(|why| Failure::invalid(why.to_string()))?;
    check_prompt(&request.prompt)?;
    if permissions.rules.iter().any(|rule| rule.pattern.is_empty()) {
        return Err(Failure::invalid("`permissions`: a rule has an empty pattern, which matches nothing"));
    }
    let known = definitions(app)?;
    let Some(definition) = known.get(&request.name) else {
        let names: Vec<&str> = known.all().map(|(name, _)| name).collect();
        let name: String = request.name.chars().take(64).flat_map(char::escape_default).collect();
        let available = names.join(", ");
        return Err(Failure::invalid(format!("unknown agent `{name}`; the agents are {available}")));
    };
    let AgentRequest { model, effort, account, args, .. } = request.clone();
    check_words(model.iter().chain(&effort).chain(&account).chain(&args))?;
    let chosen = Chosen { permissions, model, effort, account, args };
    let refused = |why: String| Failure::invalid(format!("`{}`: {why}", request.name));
    let mut terms = Box::new(definition.terms(chosen).map_err(refused)?);
    let prices = own_prices(&app.about().prices)
        .map_err(|bad| Failure::from(Problem::new(Code::Invalid, bad.to_string())))?;
    terms.model_prices = prices.models;
    if terms.dialect.is_one_shot() && terms.permissions != Permissions::default() {
        // Refused rather than ignored: the rules would have no effect.
        return Err(Failure::invalid(format!(
            "`permissions`: `{}` never asks for permission, so rules have no effect; use its own settings",
            request.name
        )));
    }
    Ok(Work::Agent { provider: request.name.clone(), prompt: request.prompt.clone(), terms })
}

/// Refuses words that cannot be arguments of a program.
fn check_words<'a>(words: impl IntoIterator<Item = &'a String>) -> Result<(), Failure> {
    match words.into_iter().any(|word| word.contains('\0') || word.is_empty()) {
        true => Err(Failure::invalid("`model`, `effort` or `args`: a word is empty or contains a zero byte")),
        false => Ok(()),
    }
}

/// Refuses a limit on money whose agent uses a model without a known price. Nothing would count towards it.
pub(crate) fn check_money(work: &Work, limit: Option<u64>) -> Result<(), Failure> {
    let Work::Agent { provider, terms, .. } = work else { return Ok(()) };
    let by_model = matches!(terms.dialect, Dialect::Claude | Dialect::Codex) && terms.prices.is_none();
    let Some(model) = terms.model.as_deref().filter(|_| by_model && limit.is_some_and(|limit| limit > 0))
    else {
        return Ok(());
    };
    match price_of(&terms.model_prices, model) {
        Some(_) => Ok(()),
        None => Err(Failure::invalid(format!(
            "no price is known for the model `{model}` of `{provider}`, so a limit on its money could not stop it; \
             add the model to prices.toml (`lastword prices` says where), or limit `tokens`, `wall` or `turns`"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Returns the last message in the last `lines` of these, the first of which has lost its beginning unless all are read.
    fn found(dialect: Dialect, written: &[Value], lines: usize) -> Option<(String, bool)> {
        let begin = written.len() - lines;
        let cut: Vec<String> = written[begin..].iter().map(Value::to_string).collect();
        let cut = cut.join("\n");
        let cut = if begin > 0 { &cut[1..] } else { &cut };
        last_message(dialect, cut.as_bytes(), begin > 0).map(|found| (found.text, found.is_cut))
    }

    #[test]
    fn a_message_that_begins_before_the_end_that_is_read_is_whole_or_counted_as_cut() {
        let event = |event: Value| json!({ "type": "stream_event", "event": event });
        let delta = |text| event(json!({ "type": "content_block_delta", "delta": { "text": text } }));
        let claude = [
            event(json!({ "type": "content_block_start" })),
            delta("one "),
            delta("two "),
            delta("three"),
            json!({ "type": "assistant", "message": { "content": [{ "type": "text", "text": "one two three" }] } }),
            event(json!({ "type": "content_block_stop" })),
            json!({ "type": "result", "result": "one two three" }),
        ];
        let delta =
            |text| json!({ "method": "item/agentMessage/delta", "params": { "itemId": "a", "delta": text } });
        let item = |method: &str| json!({ "method": method, "params": { "item": { "id": "a", "type": "agentMessage", "text": "one two three" } } });
        let codex = [
            item("item/started"),
            delta("one "),
            delta("two "),
            delta("three"),
            item("item/completed"),
            json!({ "method": "turn/completed", "params": {} }),
        ];
        let whole = Some(("one two three".to_owned(), false));
        for lines in 4..=7 {
            assert_eq!(found(Dialect::Claude, &claude, lines), whole, "{lines}");
        }
        assert_eq!(found(Dialect::Claude, &claude, 3), None, "the whole message has lost its beginning");
        for lines in 3..=6 {
            assert_eq!(found(Dialect::Codex, &codex, lines), whole, "{lines}");
        }
        let update = |update: Value| json!({ "method": "session/update", "params": { "update": update } });
        let chunk =
            |text| update(json!({ "sessionUpdate": "agent_message_chunk", "content": { "text": text } }));
        let acp = [
            json!({ "id": 2, "result": { "sessionId": "s" } }),
            update(json!({ "sessionUpdate": "tool_call", "title": "make" })),
            chunk("one "),
            chunk("two "),
            chunk("three"),
            json!({ "id": 3, "result": { "stopReason": "end_turn" } }),
        ];
        assert_eq!(found(Dialect::Acp, &acp, 6), whole);
        assert_eq!(found(Dialect::Acp, &acp, 5), Some(("one two three".to_owned(), true)));
        assert_eq!(found(Dialect::Acp, &acp, 3), Some(("three".to_owned(), true)));
    }

    #[test]
    fn an_unusable_file_is_reported_with_its_path_and_reason() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("agents.toml");
        assert!(known_agents(&file).unwrap().get("claude").is_some());
        std::fs::write(&file, "[mine]\ndialect = 'acp'\ncommand = ['m']").unwrap();
        assert!(known_agents(&file).unwrap().get("mine").is_some());
        std::fs::write(&file, "[mine]\ndialect = 'acp'\ncommand = []").unwrap();
        let error = known_agents(&file).unwrap_err().to_string();
        assert!(error.contains("agents.toml: agent `mine`: it has no command"), "{error}");
        let error = known_agents(folder.path()).unwrap_err().to_string();
        assert!(error.starts_with(&folder.path().display().to_string()), "{error}");
    }
}
