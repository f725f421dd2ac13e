//! Google's contents: every piece is an answer of its own.

use serde_json::{Value, json};

use super::speech::{Piece, Speech, Voice};

pub(super) struct Contents {
    speech: Speech,
    text: String,
    parts: Vec<Value>,
}

impl Contents {
    pub(super) fn new(speech: Speech) -> Contents {
        Contents { speech, text: String::new(), parts: Vec::new() }
    }

    fn answer(&self, parts: &Value, finish: Option<&str>) -> Value {
        let usage = self.speech.usage;
        let mut candidate = json!({ "content": { "role": "model", "parts": parts }, "index": 0 });
        if let Some(finish) = finish {
            candidate["finishReason"] = json!(finish);
        }
        json!({
            "candidates": [candidate], "modelVersion": self.speech.model,
            "responseId": format!("contents_{}", self.speech.id),
            "usageMetadata": {
                "promptTokenCount": usage.read, "candidatesTokenCount": usage.written,
                "cachedContentTokenCount": usage.cached, "totalTokenCount": usage.read + usage.written,
            },
        })
    }

    fn part(&self, part: &Value) -> Piece {
        Piece::plain(&self.answer(&json!([part]), None))
    }
}

impl Voice for Contents {
    fn begin(&mut self) -> Vec<Piece> {
        Vec::new()
    }

    fn open(&mut self) -> Vec<Piece> {
        self.text.clear();
        Vec::new()
    }

    fn text(&mut self, piece: &str) -> Vec<Piece> {
        self.text.push_str(piece);
        vec![self.part(&json!({ "text": piece }))]
    }

    fn close(&mut self) -> Vec<Piece> {
        self.parts.push(json!({ "text": self.text }));
        Vec::new()
    }

    fn think(&mut self, text: &str) -> Vec<Piece> {
        let part = json!({ "text": text, "thought": true });
        self.parts.push(part.clone());
        vec![self.part(&part)]
    }

    fn call(&mut self, name: &str, arguments: &Value) -> Vec<Piece> {
        let part = json!({ "functionCall": { "name": name, "args": arguments } });
        self.parts.push(part.clone());
        vec![self.part(&part)]
    }

    fn end(&mut self) -> Vec<Piece> {
        vec![Piece::plain(&self.answer(&json!([{ "text": "" }]), Some("STOP")))]
    }

    fn whole(&self) -> Value {
        self.answer(&json!(self.parts), Some("STOP"))
    }

    fn fail(&self, message: &str) -> Piece {
        Piece::plain(&json!({ "error": { "code": 500, "message": message, "status": "INTERNAL" } }))
    }
}
