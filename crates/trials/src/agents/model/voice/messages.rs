//! Anthropic's messages: blocks of content, each opened, filled and closed.

use serde_json::{Value, json};

use super::speech::{Piece, Speech, Voice};

/// What stands for the proof that a thought is the model's own.
const SIGNATURE: &str = "c2NyaXB0ZWQ=";

pub(super) struct Messages {
    speech: Speech,
    text: String,
    blocks: Vec<Value>,
}

impl Messages {
    pub(super) fn new(speech: Speech) -> Messages {
        Messages { speech, text: String::new(), blocks: Vec::new() }
    }

    fn message(&self, stop: Option<&str>, written: u64) -> Value {
        json!({
            "id": format!("msg_{}", self.speech.id), "type": "message", "role": "assistant", "model": self.speech.model,
            "content": self.blocks, "stop_reason": stop, "stop_sequence": null, "usage": self.usage(written),
        })
    }

    fn usage(&self, written: u64) -> Value {
        json!({
            "input_tokens": self.speech.usage.read, "output_tokens": written, "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": self.speech.usage.cached, "service_tier": "standard",
        })
    }

    fn stop(&self) -> &'static str {
        let calls = self.blocks.iter().any(|block| block["type"] == "tool_use");
        if calls { "tool_use" } else { "end_turn" }
    }

    fn start(&self, block: &Value) -> Piece {
        let at = self.blocks.len();
        Piece::typed(&json!({ "type": "content_block_start", "index": at, "content_block": block }))
    }

    fn delta(&self, delta: &Value) -> Piece {
        let at = self.blocks.len();
        Piece::typed(&json!({ "type": "content_block_delta", "index": at, "delta": delta }))
    }

    fn stop_block(&mut self, block: Value) -> Piece {
        let at = self.blocks.len();
        self.blocks.push(block);
        Piece::typed(&json!({ "type": "content_block_stop", "index": at }))
    }
}

impl Voice for Messages {
    fn begin(&mut self) -> Vec<Piece> {
        let start = json!({ "type": "message_start", "message": self.message(None, 1) });
        vec![Piece::typed(&start), Piece::typed(&json!({ "type": "ping" }))]
    }

    fn open(&mut self) -> Vec<Piece> {
        self.text.clear();
        vec![self.start(&json!({ "type": "text", "text": "" }))]
    }

    fn text(&mut self, piece: &str) -> Vec<Piece> {
        self.text.push_str(piece);
        vec![self.delta(&json!({ "type": "text_delta", "text": piece }))]
    }

    fn close(&mut self) -> Vec<Piece> {
        vec![self.stop_block(json!({ "type": "text", "text": self.text }))]
    }

    fn think(&mut self, text: &str) -> Vec<Piece> {
        vec![
            self.start(&json!({ "type": "thinking", "thinking": "", "signature": "" })),
            self.delta(&json!({ "type": "thinking_delta", "thinking": text })),
            self.delta(&json!({ "type": "signature_delta", "signature": SIGNATURE })),
            self.stop_block(json!({ "type": "thinking", "thinking": text, "signature": SIGNATURE })),
        ]
    }

    fn call(&mut self, name: &str, arguments: &Value) -> Vec<Piece> {
        let id = format!("toolu_{}_{}", self.speech.id, self.blocks.len());
        let mut block = json!({ "type": "tool_use", "id": id, "name": name, "input": {} });
        let start = self.start(&block);
        block["input"] = arguments.clone();
        let delta = json!({ "type": "input_json_delta", "partial_json": arguments.to_string() });
        vec![start, self.delta(&delta), self.stop_block(block)]
    }

    fn end(&mut self) -> Vec<Piece> {
        let delta = json!({ "stop_reason": self.stop(), "stop_sequence": null });
        let usage = self.usage(self.speech.usage.written);
        vec![
            Piece::typed(&json!({ "type": "message_delta", "delta": delta, "usage": usage })),
            Piece::typed(&json!({ "type": "message_stop" })),
        ]
    }

    fn whole(&self) -> Value {
        self.message(Some(self.stop()), self.speech.usage.written)
    }

    fn fail(&self, message: &str) -> Piece {
        let error = json!({ "type": "overloaded_error", "message": message });
        Piece::typed(&json!({ "type": "error", "error": error }))
    }
}
