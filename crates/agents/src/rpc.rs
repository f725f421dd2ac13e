//! Lines of JSON-RPC, with its version number or without: what Codex and ACP have in common.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Requests of ours that wait for an answer. One is usual; a handful, when a turn is steered.
const ASKED_MAX: usize = 6;

/// Bytes of the longest name of a request that is taken. Agents count, or make a UUID.
const ID_BYTES_MAX: usize = 200;

/// The code for a method that is not known.
const METHOD_NOT_FOUND: i64 = -32601;

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// It wants an answer.
    Request { id: Value, method: String, params: Value },
    /// It wants none.
    Notice { method: String, params: Value },
    /// It is an answer.
    Reply { id: Value, result: Result<Value, Value> },
}

impl Message {
    /// Reads a line. What is no message, or cannot be answered because of its name, is none.
    pub(crate) fn read(line: &[u8]) -> Option<Message> {
        let Value::Object(mut members) = serde_json::from_slice(line).ok()? else { return None };
        let params = members.remove("params").unwrap_or_default();
        let method = match members.remove("method") {
            Some(Value::String(method)) => Some(method),
            _ => None,
        };
        match (method, members.remove("id")) {
            (Some(method), None) => Some(Message::Notice { method, params }),
            (Some(method), Some(id)) if is_id(&id) => Some(Message::Request { id, method, params }),
            (None, Some(id)) if is_id(&id) => {
                let error = members.remove("error").filter(|error| !error.is_null());
                let result = error.map_or_else(|| Ok(members.remove("result").unwrap_or_default()), Err);
                Some(Message::Reply { id, result })
            }
            _ => None,
        }
    }
}

fn is_id(id: &Value) -> bool {
    match id {
        Value::Number(_) => true,
        Value::String(name) => name.len() <= ID_BYTES_MAX && !name.chars().any(char::is_control),
        _ => false,
    }
}

/// Returns the name of a request as people see it.
pub(crate) fn name(id: &Value) -> String {
    id.as_str().map_or_else(|| id.to_string(), str::to_owned)
}

/// Returns what an error says, in one text: its own words, and what explains them.
pub(crate) fn words(error: &Value) -> String {
    let message = error["message"].as_str().unwrap_or("an error without words");
    let data = &error["data"];
    let more = ["message", "details", "error"].iter().find_map(|name| data[name].as_str()).or(data.as_str());
    more.filter(|more| *more != message)
        .map_or_else(|| message.to_owned(), |more| format!("{message}: {more}"))
}

/// Whether lines name the version of JSON-RPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    /// They do.
    Versioned,
    /// They do not.
    Bare,
}

impl Wire {
    pub(crate) fn request(self, id: u64, method: &str, params: Value) -> Value {
        self.line(json!({ "id": id, "method": method, "params": params }))
    }

    pub(crate) fn notice(self, method: &str, params: Value) -> Value {
        self.line(json!({ "method": method, "params": params }))
    }

    pub(crate) fn reply(self, id: &Value, result: &Value) -> Value {
        self.line(json!({ "id": id, "result": result }))
    }

    /// Returns the answer to a request that nobody here understands. Without one, the agent would wait.
    pub(crate) fn unknown(self, id: &Value) -> Value {
        let error = json!({ "code": METHOD_NOT_FOUND, "message": "lastword does not offer this" });
        self.line(json!({ "id": id, "error": error }))
    }

    fn line(self, mut line: Value) -> Value {
        if self == Wire::Versioned {
            line["jsonrpc"] = "2.0".into();
        }
        line
    }
}

/// The requests of ours that wait for an answer, and what each was for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Asked<K> {
    last: u64,
    open: BTreeMap<u64, K>,
}

impl<K> Default for Asked<K> {
    fn default() -> Asked<K> {
        Asked { last: 0, open: BTreeMap::new() }
    }
}

impl<K> Asked<K> {
    /// Returns the name of the next one.
    pub(crate) fn next(&self) -> u64 {
        self.last.saturating_add(1)
    }

    /// Takes note of one that was written.
    pub(crate) fn note(&mut self, id: &Value, what: K) {
        let Some(id) = id.as_u64() else { return };
        self.last = self.last.max(id);
        self.open.insert(id, what);
        while self.open.len() > ASKED_MAX {
            self.open.pop_first();
        }
    }

    /// Takes what an answer is for.
    pub(crate) fn take(&mut self, id: &Value) -> Option<K> {
        self.open.remove(&id.as_u64()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_request_a_notice_an_answer_or_nothing() {
        let read = |line: &str| Message::read(line.as_bytes());
        let params = json!([1]);
        let method = || "m".to_owned();
        assert_eq!(
            read(r#"{"method":"m","params":[1]}"#),
            Some(Message::Notice { method: method(), params: params.clone() })
        );
        let request = Message::Request { id: json!("a"), method: method(), params };
        assert_eq!(read(r#"{"id":"a","method":"m","params":[1]}"#), Some(request));
        assert_eq!(
            read(r#"{"id":1,"result":{}}"#),
            Some(Message::Reply { id: json!(1), result: Ok(json!({})) })
        );
        let failed = Message::Reply { id: json!(1), result: Err(json!({ "code": 2 })) };
        assert_eq!(read(r#"{"id":1,"error":{"code":2},"result":null}"#), Some(failed));
        let long = format!(r#"{{"id":"{}","method":"m"}}"#, "x".repeat(ID_BYTES_MAX + 1));
        for nothing in
            ["", "3", "[]", "{", r#"{"id":null,"result":1}"#, r#"{"id":{},"method":"m"}"#, "banner", &long]
        {
            assert_eq!(read(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn an_error_is_told_with_what_explains_it() {
        assert_eq!(
            words(&json!({ "message": "Internal error", "data": { "details": "no such session" } })),
            "Internal error: no such session"
        );
        assert_eq!(words(&json!({ "message": "Session not found" })), "Session not found");
        assert_eq!(words(&json!(7)), "an error without words");
    }

    #[test]
    fn an_answer_is_matched_once() {
        let mut asked = Asked::default();
        assert_eq!(asked.next(), 1);
        asked.note(&json!(1), 'a');
        assert_eq!(asked.next(), 2);
        assert_eq!(
            (asked.take(&json!("1")), asked.take(&json!(1)), asked.take(&json!(1))),
            (None, Some('a'), None)
        );
        asked.note(&json!(u64::MAX), 'b');
        assert_eq!(asked.next(), u64::MAX);
    }
}
