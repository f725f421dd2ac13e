//! The model's voice: the same few things said in each of the four dialects, in pieces or as a whole.

mod chat;
mod contents;
mod messages;
mod responses;
mod speech;

use serde_json::{Value, json};

use super::request::{Dialect, Request};
use super::script::Usage;
use speech::Speech;

pub(super) use speech::{Piece, Voice};

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

/// What a provider answers when the quota of an account is used up.
pub(super) struct Refusal {
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Value,
}

/// Returns what a dialect says when the quota is used up for so many seconds.
pub(super) fn used_up(dialect: Dialect, seconds: u64) -> Refusal {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let at = now.as_secs() + seconds;
    let mut body = refusal(dialect, 429);
    let headers = match dialect {
        Dialect::Messages => [
            ("anthropic-ratelimit-unified-status", "rejected".to_owned()),
            ("anthropic-ratelimit-unified-reset", at.to_string()),
            ("anthropic-ratelimit-unified-representative-claim", "five_hour".to_owned()),
            ("anthropic-ratelimit-unified-5h-status", "rejected".to_owned()),
            ("anthropic-ratelimit-unified-5h-utilization", "1.0".to_owned()),
            ("anthropic-ratelimit-unified-5h-reset", at.to_string()),
            ("retry-after", seconds.to_string()),
            ("x-should-retry", "true".to_owned()),
        ]
        .into(),
        Dialect::Responses => {
            body = json!({ "error": {
                "type": "usage_limit_reached", "plan_type": "plus", "resets_at": at, "resets_in_seconds": seconds,
                "message": "The usage limit has been reached",
            }});
            [
                ("x-codex-primary-used-percent", "100".to_owned()),
                ("x-codex-primary-window-minutes", "300".to_owned()),
                ("x-codex-primary-reset-at", at.to_string()),
            ]
            .into()
        }
        Dialect::Contents => {
            let info = "type.googleapis.com/google.rpc.RetryInfo";
            body["error"]["details"] = json!([{ "@type": info, "retryDelay": format!("{seconds}s") }]);
            Vec::new()
        }
        Dialect::Chat => vec![("retry-after", seconds.to_string())],
    };
    Refusal { headers, body }
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
