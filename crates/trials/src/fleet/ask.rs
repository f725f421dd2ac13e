//! Clients of a history: each request runs as a process on a server's host, because a server looks at the process that asks it.

use std::time::Duration;

use lastword_api::{Cancel, Submit};
use lastword_client::jobs;
use serde_json::Value;

use super::host::Host;
use crate::product::client::Client;

/// The verb by which this program asks a server once.
pub(crate) const VERB: &str = "fleet-ask";

/// How long one request may take. Longer ones are killed, and their answer is lost.
const ANSWER_MAX_S: &str = "8";

/// What became of a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reply {
    /// It was granted.
    Yes(Value),
    /// It was refused for good, with this code.
    No(String),
    /// It is to be repeated, or its answer was lost.
    Unknown(String),
}

/// Runs `fleet-ask SOCKET submit JSON`, `fleet-ask SOCKET cancel JOB` or `fleet-ask SOCKET list`: prints how it went, then the answer.
pub(crate) fn run(words: &[&str]) -> Result<bool, String> {
    let [socket, words @ ..] = words else { return Err("SOCKET ...".to_owned()) };
    let call = match words {
        ["submit", json] => {
            let submit: Submit = serde_json::from_str(json).map_err(|error| error.to_string())?;
            jobs::submit(&submit).untyped()
        }
        ["cancel", job] => jobs::cancel(job, &Cancel::default()).untyped(),
        ["list"] => jobs::list(&jobs::Filter::default()).untyped(),
        _ => return Err(format!("what is {words:?}?")),
    };
    let mut client = Client::new(std::path::Path::new(socket));
    let (word, text) = match client.send(&call) {
        Ok(reply) if reply.is_success() => ("yes", String::from_utf8_lossy(&reply.body).into_owned()),
        Ok(reply) if reply.problem().retryable => {
            ("unknown", String::from_utf8_lossy(&reply.body).into_owned())
        }
        Ok(reply) => ("no", crate::product::client::code_of(&reply)),
        Err(why) => ("unknown", why.to_string()),
    };
    println!("{word} {text}");
    Ok(true)
}

/// Asks the server on a host once.
pub(super) fn ask(server: &Host, trials: &std::path::Path, words: &[&str]) -> Reply {
    let mut command = server.command("timeout");
    command.args(["--signal=KILL", ANSWER_MAX_S]).arg(trials).arg(VERB);
    command.arg(format!("{}/state/lastword.sock", super::host::FOLDER)).args(words);
    let said = super::host::said(&mut command);
    let Ok(said) = said else { return Reply::Unknown("no answer in time".to_owned()) };
    match said.trim_end().split_once(' ') {
        Some(("yes", body)) => match serde_json::from_str(body) {
            Ok(body) => Reply::Yes(body),
            Err(error) => Reply::Unknown(error.to_string()),
        },
        Some(("no", code)) => Reply::No(code.to_owned()),
        _ => Reply::Unknown(said.trim_end().to_owned()),
    }
}

/// Between two tries of one request.
pub(super) const AGAIN: Duration = Duration::from_millis(150);
