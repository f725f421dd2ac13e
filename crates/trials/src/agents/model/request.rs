//! What an agent asks its model, whichever dialect it asks in: what was said so far, which tools there are, what form is wanted.

use std::collections::BTreeMap;

use serde_json::Value;

/// How an agent speaks to its model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Dialect {
    /// OpenAI's responses.
    #[default]
    Responses,
    /// OpenAI's chat completions.
    Chat,
    /// Anthropic's messages.
    Messages,
    /// Google's contents.
    Contents,
}

/// A request, as far as a script is concerned.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Request {
    pub(super) dialect: Dialect,
    /// The name of the model that was asked for.
    pub(super) model: String,
    /// How much it is to think.
    pub(super) effort: Option<String>,
    /// Whether the answer is to come in pieces.
    pub(super) streams: bool,
    pub(super) history: Vec<Said>,
    /// The schema of each tool's arguments, by its name.
    pub(super) tools: BTreeMap<String, Value>,
    /// The form that the answer must have.
    pub(super) schema: Option<Value>,
}

/// Something that was said before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    User(String),
    Model,
    /// What a tool answered.
    Output,
    Other,
}

impl Dialect {
    /// Returns the one that is spoken at a path.
    pub(super) fn at(path: &str) -> Option<Dialect> {
        let ends = |ending: &str| path.ends_with(ending);
        match () {
            () if ends("/responses") => Some(Dialect::Responses),
            () if ends("/chat/completions") => Some(Dialect::Chat),
            () if ends("/messages") => Some(Dialect::Messages),
            () if ends(":streamGenerateContent") || ends(":generateContent") => Some(Dialect::Contents),
            () => None,
        }
    }
}

impl Request {
    /// Reads what was sent to a path.
    pub(super) fn read(dialect: Dialect, path: &str, body: &Value) -> Request {
        let of_contents = dialect == Dialect::Contents;
        let last = path.rsplit('/').next().unwrap_or_default();
        let in_path = last.split(':').next().unwrap_or_default();
        let efforts =
            [&body["reasoning"]["effort"], &body["reasoning_effort"], &body["output_config"]["effort"]];
        Request {
            dialect,
            effort: efforts.into_iter().find_map(|effort| effort.as_str().map(str::to_owned)),
            model: body["model"].as_str().unwrap_or(in_path).to_owned(),
            streams: if of_contents { last.contains(":stream") } else { body["stream"] == Value::Bool(true) },
            history: match dialect {
                Dialect::Responses => responses(body),
                Dialect::Chat => chat(body),
                Dialect::Messages => messages(body),
                Dialect::Contents => contents(body),
            },
            tools: tools(body),
            schema: schema(dialect, body),
        }
    }

    /// Adds its directives to each prompt that has some in `scripts`.
    pub(super) fn add_scripts(&mut self, scripts: &[(String, String)]) {
        for said in &mut self.history {
            let Said::User(text) = said else { continue };
            if let Some((_, script)) = scripts.iter().find(|(prompt, _)| text.contains(prompt)) {
                text.push('\n');
                text.push_str(script);
            }
        }
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Returns the text of a message, which is a text or a list of parts.
fn text(content: &Value) -> String {
    if let Some(text) = content.as_str() {
        return text.to_owned();
    }
    let is_said = |part: &&Value| !matches!(part["type"].as_str(), Some("tool_result" | "tool_use"));
    let part = |part: &Value| part["text"].as_str().or(part.as_str()).map(str::to_owned);
    list(content).filter(is_said).filter_map(part).collect::<Vec<String>>().join("\n")
}

fn responses(body: &Value) -> Vec<Said> {
    if let Some(text) = body["input"].as_str() {
        return vec![Said::User(text.to_owned())];
    }
    let said = |item: &Value| match (item["type"].as_str().unwrap_or("message"), item["role"].as_str()) {
        ("message", Some("user")) => Said::User(text(&item["content"])),
        ("message", Some("assistant")) => Said::Model,
        (kind, _) if kind.ends_with("_output") => Said::Output,
        (kind, _) if kind.ends_with("_call") => Said::Model,
        _ => Said::Other,
    };
    list(&body["input"]).map(said).collect()
}

fn chat(body: &Value) -> Vec<Said> {
    let said = |message: &Value| match message["role"].as_str() {
        Some("user") => Said::User(text(&message["content"])),
        Some("assistant") => Said::Model,
        Some("tool") => Said::Output,
        _ => Said::Other,
    };
    list(&body["messages"]).map(said).collect()
}

fn messages(body: &Value) -> Vec<Said> {
    let mut history = Vec::new();
    for message in list(&body["messages"]) {
        match message["role"].as_str() {
            Some("assistant") => history.push(Said::Model),
            // What a person says into a turn reaches the model as the word of the system.
            Some("user" | "system") => {
                // A message may hold what a tool answered, and what a person said meanwhile.
                if list(&message["content"]).any(|part| part["type"] == "tool_result") {
                    history.push(Said::Output);
                }
                let text = text(&message["content"]);
                if !text.is_empty() {
                    history.push(Said::User(text));
                }
            }
            _ => history.push(Said::Other),
        }
    }
    history
}

fn contents(body: &Value) -> Vec<Said> {
    let said = |content: &Value| {
        let answers = list(&content["parts"]).any(|part| part.get("functionResponse").is_some());
        match content["role"].as_str() {
            Some("model") => Said::Model,
            _ if answers => Said::Output,
            _ => Said::User(text(&content["parts"])),
        }
    };
    list(&body["contents"]).map(said).collect()
}

fn tools(body: &Value) -> BTreeMap<String, Value> {
    let mut tools = BTreeMap::new();
    for tool in list(&body["tools"]) {
        // A tool, or a space of its own with more of them.
        let inner = ["functionDeclarations", "tools"].iter().find_map(|name| tool[name].as_array());
        for tool in inner.map_or(std::slice::from_ref(tool), Vec::as_slice) {
            let it = if tool["function"].is_object() { &tool["function"] } else { tool };
            let Some(name) = it["name"].as_str().or(it["type"].as_str()) else { continue };
            let schema = ["parametersJsonSchema", "parameters", "input_schema"];
            let schema = schema.iter().find_map(|name| it.get(name)).cloned().unwrap_or_default();
            tools.insert(name.to_owned(), schema);
        }
    }
    tools
}

fn schema(dialect: Dialect, body: &Value) -> Option<Value> {
    let (wanted, schema) = match dialect {
        Dialect::Responses => (&body["text"]["format"], "schema"),
        Dialect::Chat => (&body["response_format"]["json_schema"], "schema"),
        Dialect::Messages => {
            let older = &body["output_format"];
            (if older.is_object() { older } else { &body["output_config"]["format"] }, "schema")
        }
        Dialect::Contents => {
            let wanted = &body["generationConfig"];
            let newer = wanted.get("responseJsonSchema").is_some();
            (wanted, if newer { "responseJsonSchema" } else { "responseSchema" })
        }
    };
    wanted.get(schema).cloned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_dialect_is_read_alike() {
        let parts = json!([{ "type": "text", "text": "hi" }]);
        let responses = json!({ "model": "m", "stream": true, "tools": [{ "type": "function", "name": "t" }], "input": [
            { "type": "message", "role": "developer", "content": "rules" },
            { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "hi" }] },
            { "type": "function_call", "name": "t" },
            { "type": "function_call_output", "output": "x" },
        ] });
        let chat = json!({ "model": "m", "stream": true, "tools": [{ "type": "function", "function": { "name": "t" } }],
            "messages": [
                { "role": "system", "content": "rules" },
                { "role": "user", "content": parts },
                { "role": "assistant", "tool_calls": [] },
                { "role": "tool", "content": "x" },
            ] });
        let messages = json!({ "model": "m", "stream": true, "tools": [{ "name": "t", "input_schema": {} }],
            "messages": [
                { "role": "user", "content": parts },
                { "role": "assistant", "content": [{ "type": "tool_use" }] },
                { "role": "user", "content": [{ "type": "tool_result", "content": "x" }] },
            ] });
        let contents = json!({ "tools": [{ "functionDeclarations": [{ "name": "t" }] }], "contents": [
            { "role": "user", "parts": [{ "text": "hi" }] },
            { "role": "model", "parts": [{ "functionCall": {} }] },
            { "role": "user", "parts": [{ "functionResponse": {} }] },
        ] });
        for (path, body) in [
            ("/v1/responses", responses),
            ("/v1/chat/completions", chat),
            ("/v1/messages", messages),
            ("/v1beta/models/m:streamGenerateContent", contents),
        ] {
            let dialect = Dialect::at(path).unwrap();
            let request = Request::read(dialect, path, &body);
            assert_eq!(request.model, "m", "{path}");
            assert!(request.streams, "{path}");
            assert_eq!(request.tools.keys().collect::<Vec<_>>(), ["t"], "{path}");
            let history: Vec<Said> = request.history.into_iter().filter(|it| *it != Said::Other).collect();
            assert_eq!(history, [Said::User("hi".to_owned()), Said::Model, Said::Output], "{path}");
        }
    }

    #[test]
    fn what_a_person_said_beside_a_tools_answer_is_heard() {
        let content = json!([{ "type": "tool_result", "content": "x" }, { "type": "text", "text": "stop" }]);
        let later = json!([{ "type": "text", "text": "now" }]);
        let body = json!({ "messages": [
            { "role": "user", "content": content }, { "role": "system", "content": later },
        ] });
        let said = |text: &str| Said::User(text.to_owned());
        assert_eq!(messages(&body), [Said::Output, said("stop"), said("now")]);
    }
}
