//! What an agent asked and waits for: permissions, and questions to a person.
//!
//! Both answers to a wish are written down when it is heard, in the agent's own words, so that a rule, a person or the end of the
//! turn only has to choose.

use lastword_core::job::PendingInput;
use lastword_core::report::Signal;
use lastword_core::spec::Permission;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Goals;
use crate::dialogue::Outgoing;
use crate::inputs::Inputs;
use crate::permission::Answer;
use crate::rpc::{Wire, name};
use crate::value::brief;

/// Requests that wait for a person at once: as many as a job shows. What is asked beyond that is denied.
const ASKED_MAX: usize = 64;

/// Requests at once whose answer is only to be written. The oldest is forgotten, if there are more: its agent is not asking, it is flooding.
const DECIDED_MAX: usize = 256;

/// Bytes of the longest answer that is kept ready.
const ANSWER_BYTES_MAX: usize = 1 << 10;

/// Questions that are answered in one go.
const QUESTIONS_MAX: usize = 4;

/// One request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Request {
    id: Value,
    line: String,
    reply: Reply,
    verdict: Option<Verdict>,
}

/// How a request is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply {
    /// One of these.
    Choice {
        /// It may.
        allow: Value,
        /// It may not.
        deny: Value,
        /// The turn ends, and nobody cares any more.
        cancel: Value,
    },
    /// With words, for the questions of these names.
    Words(Vec<String>),
    /// Nobody here understands it.
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
    /// Returns a request that nobody here understands.
    pub(crate) fn unknown(id: Value) -> Request {
        Request { id, line: String::new(), reply: Reply::Unknown, verdict: Some(Verdict::Deny) }
    }

    /// Returns a wish to do something. One that could not be granted in words of a reasonable length is denied.
    pub(crate) fn permission(id: Value, line: &str, reply: Reply, permission: Permission) -> Request {
        let verdict = match (permission, &reply) {
            (_, Reply::Choice { allow, .. }) if is_long(allow) => Some(Verdict::Deny),
            (_, Reply::Words(names))
                if !names.iter().all(|name| name.len() <= 64) || names.len() > QUESTIONS_MAX =>
            {
                Some(Verdict::Deny)
            }
            (Permission::Deny, _) => Some(Verdict::Deny),
            (Permission::Allow, Reply::Choice { .. }) => Some(Verdict::Allow),
            // A question in words has no answer but words.
            (Permission::Allow, _) | (Permission::Ask, _) => None,
        };
        // What takes the agent too many words to hear is said in the fewest there are.
        let reply = match reply {
            Reply::Choice { allow, deny, cancel } if is_long(&deny) => {
                Reply::Choice { allow, deny: cancel.clone(), cancel }
            }
            reply => reply,
        };
        let request = Request { id, line: brief(line), reply, verdict };
        if verdict == Some(Verdict::Deny) { request.denied() } else { request }
    }

    /// Returns the same, denied; of what could have been said besides nothing is kept.
    fn denied(mut self) -> Request {
        self.verdict = Some(Verdict::Deny);
        self.reply = match self.reply {
            Reply::Choice { deny, cancel, .. } => Reply::Choice { allow: Value::Null, deny, cancel },
            Reply::Words(_) => Reply::Words(Vec::new()),
            Reply::Unknown => Reply::Unknown,
        };
        self
    }

    fn result(&self, verdict: Verdict, text: &str) -> Value {
        match (&self.reply, verdict) {
            (Reply::Choice { allow, .. }, Verdict::Allow) => allow.clone(),
            (Reply::Choice { deny, .. }, Verdict::Deny) => deny.clone(),
            (Reply::Choice { cancel, .. }, Verdict::Cancel) => cancel.clone(),
            (Reply::Words(names), Verdict::Allow) => {
                // A line to a question; the last one has the rest.
                let mut lines = text.splitn(names.len().max(1), '\n');
                let answers = names.iter().map(|name| {
                    let words = lines.next().map(str::trim).filter(|words| !words.is_empty());
                    (name.clone(), json!({ "answers": words.into_iter().collect::<Vec<_>>() }))
                });
                json!({ "answers": answers.collect::<serde_json::Map<_, _>>() })
            }
            (Reply::Words(_) | Reply::Unknown, _) => json!({ "answers": {} }),
        }
    }
}

fn is_long(answer: &Value) -> bool {
    answer.to_string().len() > ANSWER_BYTES_MAX
}

/// The requests that wait.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Requests(Vec<Request>);

impl Requests {
    /// Takes a request in, and says what a person is asked, if one is. `text` is the question in full.
    pub(crate) fn open(&mut self, request: Request, text: &str) -> Option<Signal> {
        self.0.retain(|open| open.id != request.id);
        let waiting = self.0.iter().filter(|open| open.verdict.is_none()).count();
        let is_too_much = request.verdict.is_none() && waiting >= ASKED_MAX;
        let request = if is_too_much { request.denied() } else { request };
        if self.0.len() - waiting >= DECIDED_MAX
            && let Some(oldest) = self.0.iter().position(|open| open.verdict.is_some())
        {
            self.0.remove(oldest);
        }
        let asked = request.verdict.is_none();
        let question = name(&request.id);
        self.0.push(request);
        asked.then(|| Signal::QuestionAsked { question, text: text.to_owned() })
    }

    /// Takes note that the agent does not wait for it any more, and says so if a person was asked.
    pub(crate) fn close(&mut self, id: &Value) -> Option<Signal> {
        let open = self.0.iter().position(|open| open.id == *id)?;
        let closed = self.0.remove(open);
        closed.verdict.is_none().then(|| Signal::QuestionClosed { question: name(id) })
    }

    /// Takes note that everything that waits is withdrawn.
    pub(crate) fn cancel(&mut self) {
        for open in &mut self.0 {
            open.verdict = Some(Verdict::Cancel);
        }
    }

    /// Forgets all of them.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the answer that is due. Nothing is allowed any more while a turn is to end.
    pub(crate) fn due(&self, wire: Wire, goals: &Goals<'_>) -> Option<Outgoing> {
        let (request, verdict) = self.0.iter().find_map(|open| Some((open, open.verdict?)))?;
        let verdict = if goals.stop || goals.interrupt { verdict.max_cancel() } else { verdict };
        match &request.reply {
            Reply::Unknown => Outgoing::bare(wire.unknown(&request.id)),
            _ => Outgoing::bare(wire.reply(&request.id, &request.result(verdict, ""))),
        }
    }

    /// Returns the answer of a person that is due.
    pub(crate) fn answer(&self, wire: Wire, goals: &Goals<'_>, inputs: &Inputs) -> Option<Outgoing> {
        let (input, request) = inputs.answers(goals).find_map(|input| Some((input, self.find(input)?)))?;
        let verdict = match (&request.reply, Answer::read(&input.text)) {
            (Reply::Words(_), _) | (_, Answer::Allow) => Verdict::Allow,
            (_, Answer::Deny(_)) => Verdict::Deny,
        };
        Outgoing::with_input(input.no, wire.reply(&request.id, &request.result(verdict, &input.text)))
    }

    fn find(&self, input: &PendingInput) -> Option<&Request> {
        let question = input.question.as_ref()?;
        self.0.iter().find(|open| open.verdict.is_none() && name(&open.id) == *question)
    }

    /// Takes note of an answer that was written. Returns what was denied with it.
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
    fn max_cancel(self) -> Verdict {
        match self {
            Verdict::Allow | Verdict::Cancel => Verdict::Cancel,
            Verdict::Deny => Verdict::Deny,
        }
    }
}
