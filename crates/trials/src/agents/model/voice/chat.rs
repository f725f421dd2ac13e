//! OpenAI's chat completions: one message, in deltas.

use serde_json::{Value, json};

use super::speech::{Piece, Speech, Voice};

pub(super) struct Chat {
    speech: Speech,
    text: String,
    calls: Vec<Value>,
}

impl Chat {
    pub(super) fn new(speech: Speech) -> Chat {
        Chat { speech, text: String::new(), calls: Vec::new() }
    }

    fn answer(&self, object: &str, choices: Value) -> Value {
        let id = format!("chat_{}", self.speech.id);
        json!({ "id": id, "object": object, "created": 0, "model": self.speech.model, "choices": choices })
    }

    fn delta(&self, delta: &Value, finish: Option<&str>) -> Piece {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
        Piece::plain(&self.answer("chat.completion.chunk", json!([choice])))
    }

    fn finish(&self) -> &'static str {
        if self.calls.is_empty() { "stop" } else { "tool_calls" }
    }

    fn usage(&self) -> Value {
        let usage = self.speech.usage;
        json!({
            "prompt_tokens": usage.read, "completion_tokens": usage.written,
            "total_tokens": usage.read + usage.written, "prompt_tokens_details": { "cached_tokens": usage.cached },
        })
    }
}

impl Voice for Chat {
    fn begin(&mut self) -> Vec<Piece> {
        vec![self.delta(&json!({ "role": "assistant", "content": "" }), None)]
    }

    fn open(&mut self) -> Vec<Piece> {
        Vec::new()
    }

    fn text(&mut self, piece: &str) -> Vec<Piece> {
        self.text.push_str(piece);
        vec![self.delta(&json!({ "content": piece }), None)]
    }

    fn close(&mut self) -> Vec<Piece> {
        Vec::new()
    }

    fn think(&mut self, text: &str) -> Vec<Piece> {
        vec![self.delta(&json!({ "reasoning_content": text }), None)]
    }

    fn call(&mut self, name: &str, arguments: &Value) -> Vec<Piece> {
        let at = self.calls.len();
        let mut call = json!({
            "id": format!("call_{}_{at}", self.speech.id), "type": "function",
            "function": { "name": name, "arguments": arguments.to_string() },
        });
        self.calls.push(call.clone());
        call["index"] = json!(at);
        vec![self.delta(&json!({ "tool_calls": [call] }), None)]
    }

    fn end(&mut self) -> Vec<Piece> {
        let mut last = self.answer("chat.completion.chunk", json!([]));
        last["usage"] = self.usage();
        vec![self.delta(&json!({}), Some(self.finish())), Piece::plain(&last), Piece::raw("[DONE]")]
    }

    fn whole(&self) -> Value {
        let mut message = json!({ "role": "assistant", "content": self.text });
        if !self.calls.is_empty() {
            message["tool_calls"] = json!(self.calls);
        }
        let choice = json!({ "index": 0, "message": message, "finish_reason": self.finish() });
        let mut answer = self.answer("chat.completion", json!([choice]));
        answer["usage"] = self.usage();
        answer
    }

    fn fail(&self, message: &str) -> Piece {
        let kind = "overloaded_error";
        Piece::plain(&json!({ "error": { "message": message, "type": kind, "code": kind } }))
    }
}
