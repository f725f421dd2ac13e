//! JSON-RPC lines, with or without the version field: what Codex and ACP have in common.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Requests of ours that may await a reply. Usually one; a few when a turn is steered.
const PENDING_MAX: usize = 6;

/// Longest id of an agent's request that is accepted, in bytes. Agents use counters or UUIDs.
const ID_BYTES_MAX: usize = 200;

/// The JSON-RPC error code for an unknown method.
const METHOD_NOT_FOUND: i64 = -32601;

/// A JSON-RPC message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    Request { id: Value, method: String, params: Value },
    Notice { method: String, params: Value },
    Reply { id: Value, result: Result<Value, Value> },
}

impl Message {
    /// Parses a line; `None` if it is not a message, or its id cannot be replied to.
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

/// Returns the id of a request as text.
pub(crate) fn name(id: &Value) -> String {
    id.as_str().map_or_else(|| id.to_string(), str::to_owned)
}

/// Returns an error's message, with the detail that explains it.
pub(crate) fn error_text(error: &Value) -> String {
    let message = error["message"].as_str().unwrap_or("unknown error");
    let data = &error["data"];
    let more = ["message", "details", "error"].iter().find_map(|name| data[name].as_str()).or(data.as_str());
    more.filter(|more| *more != message)
        .map_or_else(|| message.to_owned(), |more| format!("{message}: {more}"))
}

/// Whether lines carry the version of JSON-RPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Versioned,
    Bare,
}

impl Framing {
    pub(crate) fn request(self, id: u64, method: &str, params: Value) -> Value {
        self.line(json!({ "id": id, "method": method, "params": params }))
    }

    pub(crate) fn notice(self, method: &str, params: Value) -> Value {
        self.line(json!({ "method": method, "params": params }))
    }

    pub(crate) fn reply(self, id: &Value, result: &Value) -> Value {
        self.line(json!({ "id": id, "result": result }))
    }

    /// Returns the reply to a request that is not supported. Without a reply, the agent would wait.
    pub(crate) fn unknown(self, id: &Value) -> Value {
        let error = json!({ "code": METHOD_NOT_FOUND, "message": "lastword does not support this request" });
        self.line(json!({ "id": id, "error": error }))
    }

    fn line(self, mut line: Value) -> Value {
        if self == Framing::Versioned {
            line["jsonrpc"] = "2.0".into();
        }
        line
    }
}

/// Our requests that await a reply, with the purpose of each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PendingCalls<K> {
    last: u64,
    open: BTreeMap<u64, K>,
}

impl<K> Default for PendingCalls<K> {
    fn default() -> PendingCalls<K> {
        PendingCalls { last: 0, open: BTreeMap::new() }
    }
}

impl<K> PendingCalls<K> {
    /// Returns the id for the next request.
    pub(crate) fn next(&self) -> u64 {
        self.last.saturating_add(1)
    }

    /// Records a request that was written.
    pub(crate) fn note(&mut self, id: &Value, what: K) {
        let Some(id) = id.as_u64() else { return };
        self.last = self.last.max(id);
        self.open.insert(id, what);
        while self.open.len() > PENDING_MAX {
            self.open.pop_first();
        }
    }

    /// Removes and returns the purpose of the request with this id.
    pub(crate) fn take(&mut self, id: &Value) -> Option<K> {
        self.open.remove(&id.as_u64()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_request_a_notice_a_reply_or_nothing() {
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
    fn an_error_includes_its_detail() {
        assert_eq!(
            error_text(&json!({ "message": "Internal error", "data": { "details": "no such session" } })),
            "Internal error: no such session"
        );
        assert_eq!(error_text(&json!({ "message": "Session not found" })), "Session not found");
        assert_eq!(error_text(&json!(7)), "unknown error");
    }

    #[test]
    fn a_reply_is_matched_once() {
        let mut calls = PendingCalls::default();
        assert_eq!(calls.next(), 1);
        calls.note(&json!(1), 'a');
        assert_eq!(calls.next(), 2);
        assert_eq!(
            (calls.take(&json!("1")), calls.take(&json!(1)), calls.take(&json!(1))),
            (None, Some('a'), None)
        );
        calls.note(&json!(u64::MAX), 'b');
        assert_eq!(calls.next(), u64::MAX);
    }
}
