//! What every voice has in common: its pieces, and the calls that make it speak.

use serde_json::Value;

use crate::agents::model::script::Usage;

/// One event of an answer that comes in pieces.
pub(in super::super) struct Piece {
    name: Option<String>,
    data: String,
}

/// What all voices know.
#[derive(Clone, Debug)]
pub(super) struct Speech {
    /// Of this answer, and part of every name in it.
    pub(super) id: u64,
    pub(super) model: String,
    pub(super) usage: Usage,
}

/// An answer that is being given. Each call returns what a stream has to carry then; what was said is kept for an answer that is
/// given whole.
pub(in super::super) trait Voice {
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

impl Piece {
    /// Returns one that says itself what it is.
    pub(super) fn typed(data: &Value) -> Piece {
        Piece { name: data["type"].as_str().map(str::to_owned), data: data.to_string() }
    }

    pub(super) fn plain(data: &Value) -> Piece {
        Piece::raw(&data.to_string())
    }

    /// Returns one that need not be JSON.
    pub(in super::super) fn raw(data: &str) -> Piece {
        Piece { name: None, data: data.to_owned() }
    }

    /// Returns it as a stream carries it.
    pub(in super::super) fn lines(&self) -> String {
        match &self.name {
            Some(name) => format!("event: {name}\ndata: {}\n\n", self.data),
            None => format!("data: {}\n\n", self.data),
        }
    }
}
