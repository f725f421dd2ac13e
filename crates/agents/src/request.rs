//! Requests of an agent that await an answer: for permission, or for a person's words.
//!
//! All possible answers are prepared when a request arrives, in the agent's protocol, so that a rule, a person or the end of the turn
//! only has to choose.

use lastword_core::job::PendingInput;
use lastword_core::question::Reply as Answer;
use lastword_core::report::Signal;
use lastword_core::spec::Permission;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::ask::Question;
use crate::inputs::Inputs;
use crate::protocol::{Goals, Outgoing};
use crate::rpc::{Framing, name};
use crate::value::brief;

/// Requests that may wait for a person at once: as many as a job shows. Any more are denied.
const ASKED_MAX: usize = 64;

/// Decided requests whose answer is still to be written. If there are more the oldest is dropped: such an agent is flooding.
const DECIDED_MAX: usize = 256;

/// Longest prepared answer that is kept, in bytes.
const ANSWER_BYTES_MAX: usize = 1 << 10;

/// Questions that one answer can cover.
const QUESTIONS_MAX: usize = 4;

/// A request of the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Request {
    id: Value,
    /// The id of its question, which no other question of this agent ever has. Empty in a state that 0.1.0 stored: the agent's id then.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    key: String,
    line: String,
    reply: Reply,
    verdict: Option<Verdict>,
}

/// How a request is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply {
    /// With one of these.
    Choice {
        allow: Value,
        deny: Value,
        /// For when the turn ends before there is a decision.
        cancel: Value,
    },
    /// With text, for the questions of these ids.
    Words(Vec<String>),
    /// With an error: it is not supported.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Allow,
    Deny,
    Cancel,
}

impl Request {
    /// Returns a request that is not supported.
    pub(crate) fn unknown(id: Value) -> Request {
        Request {
            id,
            key: String::new(),
            line: String::new(),
            reply: Reply::Unknown,
            verdict: Some(Verdict::Deny),
        }
    }

    /// Returns a request for permission. It is denied if the answer that allows it is too long to keep.
    pub(crate) fn permission(id: Value, line: &str, reply: Reply, permission: Permission) -> Request {
        let verdict = match (permission, &reply) {
            (_, Reply::Choice { allow, .. }) if is_long(allow) => Some(Verdict::Deny),
            (_, Reply::Words(ids)) if !ids.iter().all(|id| id.len() <= 64) || ids.len() > QUESTIONS_MAX => {
                Some(Verdict::Deny)
            }
            (Permission::Deny, _) => Some(Verdict::Deny),
            (Permission::Allow, Reply::Choice { .. }) => Some(Verdict::Allow),
            // A question needs an answer in words.
            (Permission::Allow, _) | (Permission::Ask, _) => None,
        };
        // A denial that is too long to keep is replaced by a cancel.
        let reply = match reply {
            Reply::Choice { allow, deny, cancel } if is_long(&deny) => {
                Reply::Choice { allow, deny: cancel.clone(), cancel }
            }
            reply => reply,
        };
        let request = Request { id, key: String::new(), line: brief(line), reply, verdict };
        if verdict == Some(Verdict::Deny) { request.denied() } else { request }
    }

    /// Returns the id of its question.
    fn question(&self) -> String {
        if self.key.is_empty() { name(&self.id) } else { self.key.clone() }
    }

    /// Denies the request and drops the answers that are no longer needed.
    fn denied(mut self) -> Request {
        self.verdict = Some(Verdict::Deny);
        self.reply = match self.reply {
            Reply::Choice { deny, cancel, .. } => Reply::Choice { allow: Value::Null, deny, cancel },
            Reply::Words(_) => Reply::Words(Vec::new()),
            Reply::Unknown => Reply::Unknown,
        };
        self
    }

    fn result(&self, verdict: Verdict, words: &[String]) -> Value {
        match (&self.reply, verdict) {
            (Reply::Choice { allow, .. }, Verdict::Allow) => allow.clone(),
            (Reply::Choice { deny, .. }, Verdict::Deny) => deny.clone(),
            (Reply::Choice { cancel, .. }, Verdict::Cancel) => cancel.clone(),
            (Reply::Words(ids), Verdict::Allow) => {
                let answers = ids.iter().enumerate().map(|(index, id)| {
                    let answer =
                        words.get(index).map(|answer| answer.trim()).filter(|answer| !answer.is_empty());
                    (id.clone(), json!({ "answers": answer.into_iter().collect::<Vec<_>>() }))
                });
                json!({ "answers": answers.collect::<serde_json::Map<_, _>>() })
            }
            (Reply::Words(_) | Reply::Unknown, _) => json!({ "answers": {} }),
        }
    }
}

/// Returns the id of the next question: the agent may use its own ids again, or several that read the same.
pub(crate) fn key(id: &str, count: &mut u32) -> String {
    *count = count.saturating_add(1);
    format!("{}#{count}", brief(id))
}

/// Reports whether an answer to this question is for the request with this key and id. A question that 0.1.0 recorded has the agent's id.
pub(crate) fn is_meant(question: &str, key: &str, id: &str) -> bool {
    let has_number = question.rsplit_once('#').is_some_and(|(_, number)| number.parse::<u32>().is_ok());
    if has_number { question == key } else { question == id }
}

fn is_long(answer: &Value) -> bool {
    answer.to_string().len() > ANSWER_BYTES_MAX
}

/// The requests that await an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Requests(Vec<Request>);

impl Requests {
    /// Adds a request that is not supported.
    pub(crate) fn refuse(&mut self, id: Value) {
        self.add(Request::unknown(id), false);
    }

    /// Adds a request, the `count`th of this agent. Yields its question if a person must decide, and the end of one that it replaces.
    pub(crate) fn open(&mut self, mut request: Request, question: Question, count: &mut u32) -> Vec<Signal> {
        let replaced = self.close(&request.id);
        request.key = key(&name(&request.id), count);
        let (id, is_too_large) = (request.key.clone(), question.is_too_large());
        let asked = self.add(request, is_too_large);
        let Question { text, ask, edits } = question;
        let asked = asked.then(|| Signal::QuestionAsked { question: id, text, ask: Box::new(ask), edits });
        replaced.into_iter().chain(asked).collect()
    }

    /// Adds a request, and reports whether a person must decide.
    fn add(&mut self, request: Request, is_too_large: bool) -> bool {
        self.0.retain(|open| open.id != request.id);
        let waiting = self.0.iter().filter(|open| open.verdict.is_none()).count();
        let is_too_much = request.verdict.is_none() && (is_too_large || waiting >= ASKED_MAX);
        let request = if is_too_much { request.denied() } else { request };
        if self.0.len() - waiting >= DECIDED_MAX
            && let Some(oldest) = self.0.iter().position(|open| open.verdict.is_some())
        {
            self.0.remove(oldest);
        }
        let asked = request.verdict.is_none();
        self.0.push(request);
        asked
    }

    /// Removes a request that the agent withdrew, and its question if there is one.
    pub(crate) fn close(&mut self, id: &Value) -> Option<Signal> {
        let open = self.0.iter().position(|open| open.id == *id)?;
        let closed = self.0.remove(open);
        closed.verdict.is_none().then(|| Signal::QuestionClosed { question: closed.question() })
    }

    /// Cancels all requests.
    pub(crate) fn cancel(&mut self) {
        for open in &mut self.0 {
            open.verdict = Some(Verdict::Cancel);
        }
    }

    /// Drops all requests.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the next answer that needs no person. While the turn is to end, nothing is allowed any more.
    pub(crate) fn due(&self, framing: Framing, goals: &Goals<'_>) -> Option<Outgoing> {
        let (request, verdict) = self.0.iter().find_map(|open| Some((open, open.verdict?)))?;
        let verdict = if goals.stop || goals.interrupt { verdict.without_allow() } else { verdict };
        match &request.reply {
            Reply::Unknown => Outgoing::bare(framing.unknown(&request.id)),
            _ => Outgoing::bare(framing.reply(&request.id, &request.result(verdict, &[]))),
        }
    }

    /// Returns the next answer that a person gave.
    pub(crate) fn answer(&self, framing: Framing, goals: &Goals<'_>, inputs: &Inputs) -> Option<Outgoing> {
        let (input, request) = inputs.answers(goals).find_map(|input| Some((input, self.find(input)?)))?;
        let (verdict, words) = match (&request.reply, input.reply.as_ref()) {
            (Reply::Words(_), Some(Answer::Words(words))) => (Verdict::Allow, words.as_slice()),
            (Reply::Choice { .. }, Some(Answer::Allow)) => (Verdict::Allow, &[][..]),
            _ => (Verdict::Deny, &[][..]),
        };
        Outgoing::with_input(input.no, framing.reply(&request.id, &request.result(verdict, words)))
    }

    fn find(&self, input: &PendingInput) -> Option<&Request> {
        let question = input.question.as_ref()?;
        self.0.iter().find(|open| open.verdict.is_none() && is_meant(question, &open.key, &name(&open.id)))
    }

    /// Records that an answer was written. Returns the line of the tool use it denied, if it did.
    pub(crate) fn answered(&mut self, id: &Value, result: &Value) -> Option<String> {
        let open = self.0.iter().position(|open| open.id == *id)?;
        let request = self.0.remove(open);
        match request.reply {
            Reply::Choice { deny, .. } if deny == *result && request.verdict != Some(Verdict::Cancel) => {
                Some(request.line)
            }
            _ => None,
        }
    }
}

impl Verdict {
    fn without_allow(self) -> Verdict {
        match self {
            Verdict::Allow | Verdict::Cancel => Verdict::Cancel,
            Verdict::Deny => Verdict::Deny,
        }
    }
}
