//! OpenAI's responses: a list of items, each announced, filled and finished.

use serde_json::{Value, json};

use super::speech::{Piece, Speech, Voice};

pub(super) struct Responses {
    speech: Speech,
    events: u64,
    text: String,
    items: Vec<Value>,
}

impl Responses {
    pub(super) fn new(speech: Speech) -> Responses {
        Responses { speech, events: 0, text: String::new(), items: Vec::new() }
    }

    fn event(&mut self, mut data: Value) -> Piece {
        data["sequence_number"] = json!(self.events);
        self.events += 1;
        Piece::typed(&data)
    }

    fn of_text(&mut self, mut data: Value) -> Piece {
        data["item_id"] = json!(self.item_id());
        data["output_index"] = json!(self.items.len());
        data["content_index"] = json!(0);
        self.event(data)
    }

    fn item_id(&self) -> String {
        format!("item_{}_{}", self.speech.id, self.items.len())
    }

    /// Announces an item, fills it with what `between` says, and finishes it.
    fn item(&mut self, announced: &Value, between: Vec<Value>, item: Value) -> Vec<Piece> {
        let at = self.items.len();
        let added = json!({ "type": "response.output_item.added", "output_index": at, "item": announced });
        let mut pieces = vec![self.event(added)];
        pieces.extend(between.into_iter().map(|data| self.event(data)));
        pieces.push(
            self.event(json!({ "type": "response.output_item.done", "output_index": at, "item": item })),
        );
        self.items.push(item);
        pieces
    }

    fn response(&self, status: &str) -> Value {
        json!({
            "id": format!("resp_{}", self.speech.id), "object": "response", "created_at": 0, "status": status,
            "model": self.speech.model, "output": self.items, "error": null, "incomplete_details": null,
            "parallel_tool_calls": true, "tools": [], "usage": null,
        })
    }
}

impl Voice for Responses {
    fn begin(&mut self) -> Vec<Piece> {
        let created = json!({ "type": "response.created", "response": self.response("in_progress") });
        vec![self.event(created)]
    }

    fn open(&mut self) -> Vec<Piece> {
        self.text.clear();
        let item = json!({
            "type": "message", "id": self.item_id(), "role": "assistant", "status": "in_progress", "content": [],
        });
        let at = self.items.len();
        let part = json!({ "type": "output_text", "text": "", "annotations": [] });
        vec![
            self.event(json!({ "type": "response.output_item.added", "output_index": at, "item": item })),
            self.of_text(json!({ "type": "response.content_part.added", "part": part })),
        ]
    }

    fn text(&mut self, piece: &str) -> Vec<Piece> {
        self.text.push_str(piece);
        vec![self.of_text(json!({ "type": "response.output_text.delta", "delta": piece }))]
    }

    fn close(&mut self) -> Vec<Piece> {
        let part = json!({ "type": "output_text", "text": self.text, "annotations": [] });
        let item = json!({
            "type": "message", "id": self.item_id(), "role": "assistant", "status": "completed", "content": [part],
        });
        let at = self.items.len();
        let text = self.text.clone();
        let pieces = vec![
            self.of_text(json!({ "type": "response.output_text.done", "text": text })),
            self.of_text(json!({ "type": "response.content_part.done", "part": part })),
            self.event(json!({ "type": "response.output_item.done", "output_index": at, "item": item })),
        ];
        self.items.push(item);
        pieces
    }

    fn think(&mut self, text: &str) -> Vec<Piece> {
        let (id, at) = (self.item_id(), self.items.len());
        let mut item = json!({ "type": "reasoning", "id": id, "summary": [], "encrypted_content": null });
        let announced = item.clone();
        item["summary"] = json!([{ "type": "summary_text", "text": text }]);
        let of = |kind: &str| json!({ "type": kind, "item_id": id, "output_index": at, "summary_index": 0 });
        let mut added = of("response.reasoning_summary_part.added");
        added["part"] = json!({ "type": "summary_text", "text": "" });
        let mut delta = of("response.reasoning_summary_text.delta");
        delta["delta"] = json!(text);
        self.item(&announced, vec![added, delta], item)
    }

    fn call(&mut self, name: &str, arguments: &Value) -> Vec<Piece> {
        let (id, at) = (self.item_id(), self.items.len());
        let mut item = json!({
            "type": "function_call", "id": id, "call_id": format!("call_{id}"), "name": name,
            "arguments": "", "status": "in_progress",
        });
        let announced = item.clone();
        item["arguments"] = json!(arguments.to_string());
        item["status"] = json!("completed");
        let delta = json!({
            "type": "response.function_call_arguments.delta", "item_id": id, "output_index": at,
            "delta": arguments.to_string(),
        });
        self.item(&announced, vec![delta], item)
    }

    fn end(&mut self) -> Vec<Piece> {
        let completed = json!({ "type": "response.completed", "response": self.whole() });
        vec![self.event(completed)]
    }

    fn whole(&self) -> Value {
        let usage = self.speech.usage;
        let mut response = self.response("completed");
        response["usage"] = json!({
            "input_tokens": usage.read, "input_tokens_details": { "cached_tokens": usage.cached },
            "output_tokens": usage.written, "output_tokens_details": { "reasoning_tokens": 0 },
            "total_tokens": usage.read + usage.written,
        });
        response
    }

    fn fail(&self, message: &str) -> Piece {
        let mut response = self.response("failed");
        response["error"] = json!({ "code": "server_error", "message": message });
        Piece::typed(
            &json!({ "type": "response.failed", "sequence_number": self.events, "response": response }),
        )
    }
}
