//! What an agent takes for a model: it says once, in the agent's own dialect, that a command is to be run, and is polite otherwise.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

/// How an agent speaks to its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// OpenAI's responses.
    Responses,
    /// OpenAI's chat completions.
    Chat,
    /// Anthropic's messages.
    Messages,
    /// Google's contents.
    Gemini,
}

/// The longest request that is read: the tools of an agent take a hundred kilobytes.
const BODY_MAX: u64 = 64 << 20;

/// How long a tool may take, where an agent lets its model say so: longer than the trial does on a busy machine.
const TOOL_MS: u64 = 600_000;

/// One model, for one agent.
struct Model {
    dialect: Dialect,
    command: String,
    said: AtomicBool,
}

/// Serves a model on this machine alone, and returns its port.
pub(super) fn serve(dialect: Dialect, command: String) -> io::Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let port = listener.local_addr()?.port();
    let model = Arc::new(Model { dialect, command, said: AtomicBool::new(false) });
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let model = Arc::clone(&model);
            std::thread::spawn(move || drop(model.talk(stream)));
        }
    });
    Ok(port)
}

/// What was asked.
struct Asked {
    method: String,
    path: String,
    body: Value,
}

/// Reads a request; `None` is the end of the connection.
fn read(stream: &mut BufReader<TcpStream>) -> io::Result<Option<Asked>> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_ascii_whitespace().map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (mut length, mut chunked) = (0, false);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let line = line.trim().to_ascii_lowercase();
        match line.split_once(':') {
            Some(("content-length", value)) => length = value.trim().parse().unwrap_or(0),
            Some(("transfer-encoding", value)) => chunked = value.contains("chunked"),
            Some(_) => {}
            None => break,
        }
    }
    let mut body = Vec::new();
    if chunked {
        while let Some(piece) = chunk(stream)? {
            body.extend(piece);
        }
    } else {
        stream.take(u64::min(length, BODY_MAX)).read_to_end(&mut body)?;
    }
    Ok(Some(Asked { method, path, body: serde_json::from_slice(&body).unwrap_or(Value::Null) }))
}

/// Reads a piece of a body that says its length as it goes; `None` is its end.
fn chunk(stream: &mut BufReader<TcpStream>) -> io::Result<Option<Vec<u8>>> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let size = u64::from_str_radix(line.trim(), 16).unwrap_or(0).min(BODY_MAX);
    let mut piece = Vec::new();
    stream.take(size).read_to_end(&mut piece)?;
    stream.read_line(&mut String::new())?;
    Ok((size > 0).then_some(piece))
}

impl Model {
    fn talk(&self, stream: TcpStream) -> io::Result<()> {
        let mut stream = BufReader::new(stream);
        while let Some(asked) = read(&mut stream)? {
            let (kind, body) = self.answer(&asked);
            let head =
                format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", body.len());
            let body = if asked.method == "HEAD" { "" } else { &body };
            stream.get_mut().write_all(format!("{head}{body}").as_bytes())?;
        }
        Ok(())
    }

    fn answer(&self, asked: &Asked) -> (&'static str, String) {
        let plain = |value: Value| ("application/json", value.to_string());
        let path = asked.path.split('?').next().unwrap_or_default();
        if path.ends_with("count_tokens") || path.ends_with(":countTokens") {
            return plain(json!({ "input_tokens": 1, "totalTokens": 1 }));
        }
        if asked.method != "POST" {
            return plain(json!({ "object": "list", "data": [], "models": [] }));
        }
        // An agent asks for titles and the like beside; such a question offers no tools.
        let has_tools = asked.body["tools"].as_array().is_some_and(|tools| !tools.is_empty());
        if has_tools && self.said.swap(true, Ordering::SeqCst) {
            // It has said all it has to say: an agent that comes back from its tool waits here.
            loop {
                std::thread::park();
            }
        }
        let call = has_tools.then_some(self.command.as_str());
        let events = match self.dialect {
            Dialect::Responses => responses(call),
            Dialect::Chat => chat(call),
            Dialect::Messages => messages(call),
            Dialect::Gemini => gemini(call),
        };
        let mut text: String = events
            .iter()
            .map(|event| match event["type"].as_str() {
                Some(kind) => format!("event: {kind}\ndata: {event}\n\n"),
                None => format!("data: {event}\n\n"),
            })
            .collect();
        if self.dialect == Dialect::Chat {
            text.push_str("data: [DONE]\n\n");
        }
        ("text/event-stream", text)
    }
}

fn responses(call: Option<&str>) -> Vec<Value> {
    let item = match call {
        Some(command) => json!({
            "type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "exec_command", "status": "completed",
            "arguments": json!({ "cmd": command, "yield_time_ms": TOOL_MS }).to_string(),
        }),
        None => json!({
            "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
            "content": [{ "type": "output_text", "text": "done", "annotations": [] }],
        }),
    };
    let usage = json!({
        "input_tokens": 1, "input_tokens_details": { "cached_tokens": 0 },
        "output_tokens": 1, "output_tokens_details": { "reasoning_tokens": 0 }, "total_tokens": 2,
    });
    vec![
        json!({ "type": "response.created", "response": { "id": "resp_1" } }),
        json!({ "type": "response.output_item.done", "output_index": 0, "item": item }),
        json!({ "type": "response.completed", "response": { "id": "resp_1", "status": "completed", "output": [item], "usage": usage } }),
    ]
}

fn chat(call: Option<&str>) -> Vec<Value> {
    let (delta, finish) = match call {
        Some(command) => {
            let arguments =
                json!({ "command": command, "description": "Runs it", "timeout": TOOL_MS }).to_string();
            let function = json!({ "name": "bash", "arguments": arguments });
            (
                json!({ "tool_calls": [{ "index": 0, "id": "call_1", "type": "function", "function": function }] }),
                "tool_calls",
            )
        }
        None => (json!({ "content": "done" }), "stop"),
    };
    let part = |choice: Value| json!({ "id": "c_1", "object": "chat.completion.chunk", "created": 0, "model": "scripted", "choices": [choice] });
    vec![
        part(json!({ "index": 0, "delta": { "role": "assistant", "content": "" }, "finish_reason": null })),
        part(json!({ "index": 0, "delta": delta, "finish_reason": null })),
        part(json!({ "index": 0, "delta": {}, "finish_reason": finish })),
    ]
}

fn messages(call: Option<&str>) -> Vec<Value> {
    let (block, delta, stop) = match call {
        Some(command) => (
            json!({ "type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {} }),
            json!({ "type": "input_json_delta", "partial_json": json!({ "command": command, "timeout": TOOL_MS }).to_string() }),
            "tool_use",
        ),
        None => (
            json!({ "type": "text", "text": "" }),
            json!({ "type": "text_delta", "text": "done" }),
            "end_turn",
        ),
    };
    let usage = json!({ "input_tokens": 1, "output_tokens": 1 });
    let message = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": usage,
    });
    vec![
        json!({ "type": "message_start", "message": message }),
        json!({ "type": "content_block_start", "index": 0, "content_block": block }),
        json!({ "type": "content_block_delta", "index": 0, "delta": delta }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": stop, "stop_sequence": null }, "usage": { "output_tokens": 1 } }),
        json!({ "type": "message_stop" }),
    ]
}

fn gemini(call: Option<&str>) -> Vec<Value> {
    let part = match call {
        Some(command) => {
            json!({ "functionCall": { "name": "run_shell_command", "args": { "command": command } } })
        }
        None => json!({ "text": "done" }),
    };
    vec![json!({
        "candidates": [{ "content": { "role": "model", "parts": [part] }, "index": 0, "finishReason": "STOP" }],
        "usageMetadata": { "promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2 },
        "modelVersion": "scripted", "responseId": "r_1",
    })]
}
