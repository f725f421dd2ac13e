//! The model's voice: the same few things said in each of the four dialects, in pieces or as a whole.

mod chat;
mod contents;
mod messages;
mod responses;

use serde_json::{Value, json};

use super::request::{Dialect, Request};
use super::script::Usage;

/// One event of an answer that comes in pieces.
pub(super) struct Piece {
    name: Option<String>,
    data: String,
}

/// What all voices know.
#[derive(Clone, Debug)]
pub(super) struct Speech {
    /// Of this answer, and part of every name in it.
    id: u64,
    model: String,
    usage: Usage,
}

/// An answer that is being given. Each call returns what a stream has to carry then; what was said is kept for an answer that is
/// given whole.
pub(super) trait Voice {
    fn begin(&mut self) -> Vec<Piece>;
    /// Begins a text; its pieces follow.
    fn open(&mut self) -> Vec<Piece>;
    fn text(&mut self, piece: &str) -> Vec<Piece>;
    fn close(&mut self) -> Vec<Piece>;
    fn think(&mut self, text: &str) -> Vec<Piece>;
    fn call(&mut self, name: &str, arguments: &Value) -> Vec<Piece>;
    fn end(&mut self) -> Vec<Piece>;
    /// Returns the answer as a whole, once it is at its end.
    fn whole(&self) -> Value;
    /// Says in the stream that it failed.
    fn fail(&self, message: &str) -> Piece;
}

/// Returns the voice for a request.
pub(super) fn of(request: &Request, id: u64, usage: Usage) -> Box<dyn Voice> {
    let speech = Speech { id, model: request.model.clone(), usage };
    match request.dialect {
        Dialect::Responses => Box::new(responses::Responses::new(speech)),
        Dialect::Chat => Box::new(chat::Chat::new(speech)),
        Dialect::Messages => Box::new(messages::Messages::new(speech)),
        Dialect::Contents => Box::new(contents::Contents::new(speech)),
    }
}

/// Returns what a dialect says instead of an answer, under a status that is no yes.
pub(super) fn refusal(dialect: Dialect, status: u16) -> Value {
    let message = format!("scripted error {status}");
    let kind = match status {
        400 => "invalid_request_error",
        401 => "authentication_error",
        403 => "permission_error",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        _ => "api_error",
    };
    match dialect {
        Dialect::Messages => json!({ "type": "error", "error": { "type": kind, "message": message } }),
        Dialect::Contents => {
            let kind = match status {
                400 => "INVALID_ARGUMENT",
                401 => "UNAUTHENTICATED",
                429 => "RESOURCE_EXHAUSTED",
                503 => "UNAVAILABLE",
                _ => "INTERNAL",
            };
            json!({ "error": { "code": status, "message": message, "status": kind } })
        }
        Dialect::Responses | Dialect::Chat => {
            json!({ "error": { "message": message, "type": kind, "param": null, "code": kind } })
        }
    }
}

impl Piece {
    /// Returns one that says itself what it is.
    fn typed(data: &Value) -> Piece {
        Piece { name: data["type"].as_str().map(str::to_owned), data: data.to_string() }
    }

    fn plain(data: &Value) -> Piece {
        Piece::raw(&data.to_string())
    }

    /// Returns one that need not be JSON.
    pub(super) fn raw(data: &str) -> Piece {
        Piece { name: None, data: data.to_owned() }
    }

    /// Returns it as a stream carries it.
    pub(super) fn lines(&self) -> String {
        match &self.name {
            Some(name) => format!("event: {name}\ndata: {}\n\n", self.data),
            None => format!("data: {}\n\n", self.data),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_answer_says_what_the_pieces_said() {
        for dialect in [Dialect::Responses, Dialect::Chat, Dialect::Messages, Dialect::Contents] {
            let request = Request { dialect, model: "m".to_owned(), ..Request::default() };
            let mut voice = of(&request, 7, Usage { read: 11, written: 12, cached: 3 });
            let mut stream = String::new();
            let mut hear = |pieces: Vec<Piece>| pieces.iter().for_each(|it| stream.push_str(&it.lines()));
            hear(voice.begin());
            hear(voice.think("hm"));
            hear(voice.open());
            hear(voice.text("good "));
            hear(voice.text("day"));
            hear(voice.close());
            hear(voice.call("sh", &json!({ "command": "ls" })));
            hear(voice.end());
            let whole = voice.whole().to_string();
            for word in ["good day", "sh", "ls", "11"] {
                assert!(whole.contains(word), "{dialect:?}: {word} is not in {whole}");
            }
            for word in ["hm", "good ", "day", "ls", "11"] {
                assert!(stream.contains(word), "{dialect:?}: {word} is not in {stream}");
            }
        }
    }
}
