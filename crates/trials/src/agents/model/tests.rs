//! The model as an agent meets it: over a socket.

use std::io::{Read as _, Write as _};

use super::*;

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(30);

fn send(model: &Model, path: &str, body: &Value) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", model.port())).unwrap();
    let body = body.to_string();
    let head = format!("POST {path} HTTP/1.1\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
}

fn prompt(text: &str, streams: bool) -> Value {
    let shell = json!({ "name": "Bash", "input_schema": { "properties": { "command": {} }, "required": ["command"] } });
    json!({ "model": "m", "stream": streams, "tools": [shell], "messages": [{ "role": "user", "content": text }] })
}

/// Reads until `end` was said, or the connection ends.
fn hear(stream: &mut TcpStream, end: &str) -> Result<String, std::io::Error> {
    let mut heard = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&heard).into_owned();
        if text.contains(end) {
            return Ok(text);
        }
        match stream.read(&mut piece)? {
            0 => return Ok(text),
            more => heard.extend(&piece[..more]),
        }
    }
}

#[test]
fn a_script_is_followed_in_pieces_and_as_a_whole() {
    let model = Model::start().unwrap();
    let heard = hear(&mut send(&model, "/v1/messages", &prompt("[[sh ls]]", true)), "message_stop").unwrap();
    assert!(heard.contains("event: content_block_start"), "{heard}");
    assert!(heard.contains("\\\"command\\\":\\\"ls\\\""), "{heard}");
    assert!(heard.contains("\"stop_reason\":\"tool_use\""), "{heard}");
    let heard = hear(&mut send(&model, "/v1/messages", &prompt("[[say good day]]", false)), "usage").unwrap();
    assert!(heard.contains("content-type: application/json"), "{heard}");
    assert!(heard.contains("\"text\":\"good day\""), "{heard}");
}

#[test]
fn a_prompt_for_readers_has_its_script_elsewhere() {
    let scripts = vec![("fix it".to_owned(), "[[say fixed]]".to_owned())];
    let model = Model::with_scripts(scripts).unwrap();
    let heard = hear(&mut send(&model, "/v1/messages", &prompt("please fix it", false)), "usage").unwrap();
    assert!(heard.contains("\"text\":\"fixed\""), "{heard}");
}

#[test]
fn a_gate_opens_when_it_is_released() {
    let model = Model::start().unwrap();
    let mut waiting = send(&model, "/v1/messages", &prompt("[[gate G1 now]]", true));
    assert!(model.wait(What::Asked, "gate G1", LONG));
    hear(&mut waiting, "message_start").unwrap();
    assert!(!model.log().iter().any(|record| record.what == What::Replied));
    model.release("G1");
    assert!(hear(&mut waiting, "message_stop").unwrap().contains("now"));
    assert!(model.wait(What::Replied, "gate G1", LONG));
}

#[test]
fn an_agent_that_hangs_up_is_noticed() {
    let model = Model::start().unwrap();
    for script in ["hang", "hang0", "slow 1000 1000"] {
        let stream = send(&model, "/v1/messages", &prompt(&format!("[[{script}]]"), true));
        assert!(model.wait(What::Asked, script, LONG), "{script}");
        drop(stream);
        assert!(model.wait(What::Gone, script, LONG), "{script}");
    }
}

#[test]
fn faults_come_as_often_as_they_are_asked_for() {
    let model = Model::start().unwrap();
    let again = prompt("[[@retryafter 3]] [[status 429 x2]]", true);
    for _ in 0..2 {
        let heard = hear(&mut send(&model, "/v1/messages", &again), "scripted error").unwrap();
        assert!(heard.starts_with("HTTP/1.1 429"), "{heard}");
        assert!(heard.contains("retry-after: 3"), "{heard}");
    }
    assert!(hear(&mut send(&model, "/v1/messages", &again), "message_stop").unwrap().contains("recovered."));
}

#[test]
fn a_connection_that_is_dropped_is_reset() {
    let model = Model::start().unwrap();
    for script in ["[[drop]]", "[[dropmid]]"] {
        let heard = hear(
            &mut send(
                &model,
                "/v1/responses",
                &json!({
                    "stream": true, "tools": [{ "name": "exec_command" }], "input": script,
                }),
            ),
            "never said",
        );
        assert_eq!(heard.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset, "{script}");
    }
}

#[test]
fn a_stream_that_ends_early_says_no_end() {
    let model = Model::start().unwrap();
    for script in ["[[truncate]]", "[[garbage]]", "[[sseerror]]"] {
        let heard = hear(&mut send(&model, "/v1/messages", &prompt(script, true)), "\r\n0\r\n").unwrap();
        assert!(!heard.contains("message_stop"), "{script}: {heard}");
    }
}

#[test]
fn what_is_asked_beside_replies_is_answered() {
    let model = Model::start().unwrap();
    let heard = hear(&mut send(&model, "/v1/messages/count_tokens", &json!({})), "input_tokens").unwrap();
    assert!(heard.starts_with("HTTP/1.1 200"), "{heard}");
    let heard = hear(&mut send(&model, "/telemetry", &json!({})), "nothing here").unwrap();
    assert!(heard.starts_with("HTTP/1.1 404"), "{heard}");
    assert!(model.wait(What::Unknown, "POST /telemetry", LONG));
}
