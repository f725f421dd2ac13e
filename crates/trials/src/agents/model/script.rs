//! What a model is to say: directives in double square brackets, in the prompt itself.
//!
//! A script is one line of a prompt, and each directive of it is the model's next reply. Which one is due is read off the request:
//! as many as there are replies after the prompt have been given. So agents may repeat a request, ask beside it, and share a
//! model, and none of it matters.

use std::time::Duration;

use serde_json::{Value, json};

use super::request::{Request, Said};

/// What to answer, and what to say of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    pub(super) step: Step,
    /// The directive as it was written.
    pub(super) directive: String,
    /// The line it is from.
    pub(super) script: String,
    /// Which reply of the turn this is; `None` for a question beside the turn.
    pub(super) reply: Option<usize>,
    /// Prompts with a script before the one it is from.
    pub(super) prompts_before: usize,
    pub(super) usage: Usage,
    pub(super) retry_after_s: Option<u64>,
    pub(super) delay: Duration,
}

/// One reply.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// `say TEXT`, `big KB`, `empty`.
    Say(Vec<String>),
    /// `slow N MS [TEXT]`: that many pieces, so far apart.
    Slow { pieces: Vec<String>, apart: Duration },
    /// `think TEXT`: reasoning, then a text.
    Think(String),
    /// `sh COMMAND`, `shbg COMMAND`, `shells COMMAND ;; COMMAND`, `tool NAME {JSON}`, `tools NAME {JSON} ;; NAME {JSON}`, `longline KB`.
    Call(Vec<Call>),
    /// `hang`: a beginning, and then nothing.
    Hang,
    /// `hang0`: nothing at all.
    Silence,
    /// `gate NAME [TEXT]`: a beginning, and the rest once it is let go.
    Gate { name: String, text: String },
    /// What goes wrong, how often before it goes well: `xN` after it.
    Fault { fault: Fault, times: Option<u32> },
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Call {
    /// Of the agent's own shell, whatever it is called.
    Shell { command: String, in_background: bool },
    /// Of the one of that name.
    Tool { name: String, arguments: Value },
}

/// What can go wrong with a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// `status CODE`.
    Status(u16),
    /// `quota SECONDS`: the quota of the account is used up for so long.
    Quota(u64),
    /// `drop`: the connection is reset before anything is said.
    Drop,
    /// `dropmid`: it is reset in the middle of a text.
    DropInText,
    /// `truncate`: the stream ends in the middle of a text, as if that were all.
    Truncate,
    /// `garbage`: an event that is not JSON.
    Garbage,
    /// `sseerror`: an error of the model's own kind, inside the stream.
    InStream,
}

/// Tokens that a reply claims to have cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) read: u64,
    pub(super) written: u64,
    pub(super) cached: u64,
}

impl Default for Usage {
    fn default() -> Usage {
        Usage { read: 1000, written: 20, cached: 0 }
    }
}

/// Bytes of a piece of text: a short answer takes a few.
const PIECE: usize = 24;

/// Chooses the reply to a request.
pub(super) fn plan(request: &Request) -> Plan {
    let is_script = |said: &Said| matches!(said, Said::User(text) if script_in(text).is_some());
    let Some(at) = request.history.iter().rposition(is_script) else {
        return Plan::saying("ok.", None);
    };
    let Said::User(text) = &request.history[at] else { return Plan::saying("ok.", None) };
    let script = script_in(text).unwrap_or_default();
    // An agent asks for titles and the like beside the turn. Such a question quotes the prompt and offers no tools.
    if request.tools.is_empty() {
        let text = request.schema.as_ref().map_or_else(|| "A title".to_owned(), |it| sample(it).to_string());
        return Plan::saying(&text, None);
    }
    let reply = replies(&request.history[at + 1..]);
    let mut plan = Plan::saying("done.", Some(reply));
    script.clone_into(&mut plan.script);
    plan.prompts_before = request.history[..at].iter().filter(|said| is_script(said)).count();
    let mut steps = Vec::new();
    for directive in directives(script) {
        match directive.strip_prefix('@') {
            Some(modifier) => plan.modify(modifier),
            None => steps.push(directive),
        }
    }
    if let Some(directive) = steps.get(reply) {
        plan.step = step(directive);
        (*directive).clone_into(&mut plan.directive);
    }
    plan
}

impl Plan {
    fn saying(text: &str, reply: Option<usize>) -> Plan {
        Plan {
            step: say(text),
            directive: format!("say {text}"),
            script: String::new(),
            reply,
            prompts_before: 0,
            usage: Usage::default(),
            retry_after_s: None,
            delay: Duration::ZERO,
        }
    }

    /// Takes a directive that is no reply: `@usage IN OUT [CACHED]`, `@retryafter SECONDS`, `@delay MS`.
    fn modify(&mut self, modifier: &str) {
        let mut words = modifier.split_ascii_whitespace();
        let name = words.next().unwrap_or_default();
        let mut numbers = words.map(|word| word.parse::<u64>().unwrap_or(0));
        match name {
            "usage" => {
                self.usage.read = numbers.next().unwrap_or(0);
                self.usage.written = numbers.next().unwrap_or(0);
                self.usage.cached = numbers.next().unwrap_or(0);
            }
            "retryafter" => self.retry_after_s = numbers.next(),
            "delay" => self.delay = Duration::from_millis(numbers.next().unwrap_or(0)),
            _ => {}
        }
    }
}

/// Returns the script of a message. Agents put messages together after an interrupt: the last line of directives counts.
fn script_in(text: &str) -> Option<&str> {
    text.lines().rfind(|line| directives(line).next().is_some())
}

/// Returns what stands in double brackets. A command may end in a bracket of its own.
fn directives(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        let (_, inner) = rest.split_once("[[")?;
        let mut end = inner.find("]]")?;
        while inner[end + 2..].starts_with(']') {
            end += 1;
        }
        rest = &inner[end + 2..];
        Some(inner[..end].trim())
    })
}

/// Counts the model's replies. Several things that it said in a row are one, unless a tool's output is between them.
fn replies(after: &[Said]) -> usize {
    let mut count = 0;
    let mut spoke = false;
    for said in after {
        match said {
            Said::Model if !spoke => (count, spoke) = (count + 1, true),
            Said::Output => spoke = false,
            Said::Model | Said::User(_) | Said::Other => {}
        }
    }
    count
}

fn step(directive: &str) -> Step {
    let (verb, rest) = directive.split_once(' ').unwrap_or((directive, ""));
    let rest = rest.trim();
    let kilobytes = || rest.parse::<usize>().unwrap_or(1);
    let shell = |in_background| Call::Shell { command: rest.to_owned(), in_background };
    match verb {
        "slow" => slow(rest),
        "think" => Step::Think(if rest.is_empty() { "thinking" } else { rest }.to_owned()),
        "sh" => Step::Call(vec![shell(false)]),
        "shbg" => Step::Call(vec![shell(true)]),
        "shells" => {
            let shell =
                |command: &str| Call::Shell { command: command.trim().to_owned(), in_background: false };
            Step::Call(rest.split(";;").map(shell).collect())
        }
        "longline" => {
            let command = format!("echo {}", "x".repeat(kilobytes() << 10));
            Step::Call(vec![Call::Shell { command, in_background: false }])
        }
        "tool" => Step::Call(vec![tool(rest)]),
        "tools" => Step::Call(rest.split(";;").map(tool).collect()),
        "hang" => Step::Hang,
        "hang0" => Step::Silence,
        "gate" => {
            let (name, text) = rest.split_once(' ').unwrap_or((rest, "released."));
            Step::Gate { name: name.to_owned(), text: text.to_owned() }
        }
        "big" => Step::Say((0..kilobytes()).map(kilobyte).collect()),
        "empty" => Step::Say(Vec::new()),
        "say" => say(rest),
        _ => fault(verb, rest).unwrap_or_else(|| say(directive)),
    }
}

fn say(text: &str) -> Step {
    let letters: Vec<char> = text.chars().collect();
    Step::Say(letters.chunks(PIECE).map(|piece| piece.iter().collect()).collect())
}

/// Returns a kilobyte that is like no other: agents take a text that repeats itself for a model gone mad.
fn kilobyte(no: usize) -> String {
    let words = (0..).map(|word: usize| format!("{:x} ", (no << 10 | word).wrapping_mul(0x9e37_79b9)));
    let mut text: String = words.take(1 << 7).collect();
    text.truncate(1 << 10);
    text
}

fn slow(rest: &str) -> Step {
    let mut words = rest.splitn(3, ' ');
    let count: usize = words.next().and_then(|word| word.parse().ok()).unwrap_or(1);
    let apart = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
    let text = words.next().unwrap_or_default();
    let piece = |at: usize| if text.is_empty() { format!("tick{at} ") } else { format!("{text} ") };
    Step::Slow { pieces: (1..=count).map(piece).collect(), apart: Duration::from_millis(apart) }
}

fn tool(spec: &str) -> Call {
    let spec = spec.trim();
    let (name, arguments) = spec.split_once(' ').unwrap_or((spec, "{}"));
    let arguments = serde_json::from_str(arguments).unwrap_or_else(|_| json!({}));
    Call::Tool { name: name.to_owned(), arguments }
}

fn fault(verb: &str, rest: &str) -> Option<Step> {
    let times = rest.split_ascii_whitespace().last().and_then(|word| word.strip_prefix('x')?.parse().ok());
    let fault = match verb {
        "status" => Fault::Status(rest.split_ascii_whitespace().next()?.parse().ok()?),
        "quota" => Fault::Quota(rest.split_ascii_whitespace().next()?.parse().ok()?),
        "drop" => Fault::Drop,
        "dropmid" => Fault::DropInText,
        "truncate" => Fault::Truncate,
        "garbage" => Fault::Garbage,
        "sseerror" => Fault::InStream,
        _ => return None,
    };
    Some(Step::Fault { fault, times })
}

/// Returns the smallest value that fits a schema.
fn sample(schema: &Value) -> Value {
    if let Some(first) = schema["enum"].as_array().and_then(|values| values.first()) {
        return first.clone();
    }
    let kind = schema["type"].as_str().or_else(|| schema["type"][0].as_str()).unwrap_or("object");
    match kind.to_ascii_lowercase().as_str() {
        "object" => {
            let required = schema["required"].as_array();
            let needs = |name: &str| required.is_none_or(|names| names.iter().any(|known| known == name));
            let fields = schema["properties"].as_object().into_iter().flatten();
            fields
                .filter(|(name, _)| needs(name))
                .map(|(name, field)| (name.clone(), sample(field)))
                .collect()
        }
        "array" => json!([]),
        "boolean" => json!(false),
        "number" | "integer" => json!(0),
        "null" => Value::Null,
        _ => json!("a word"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(history: Vec<Said>) -> Request {
        let tools = [("Bash".to_owned(), json!({}))].into();
        Request { history, tools, ..Request::default() }
    }

    fn user(text: &str) -> Said {
        Said::User(text.to_owned())
    }

    fn due(history: Vec<Said>) -> String {
        plan(&asked(history)).directive
    }

    #[test]
    fn the_reply_that_is_due_is_read_off_the_request() {
        let script = || user("please [[sh ls]] [[@usage 7 8]] [[say b]]");
        assert_eq!(due(vec![user("hello")]), "say ok.");
        assert_eq!(due(vec![script()]), "sh ls");
        assert_eq!(due(vec![Said::Other, script(), Said::Model, Said::Model, Said::Output]), "say b");
        assert_eq!(due(vec![script(), Said::Model, Said::Output, Said::Model]), "say done.");
        // A later prompt begins anew, also when it was put together with an earlier one.
        assert_eq!(due(vec![script(), Said::Model, user("[[say c]]")]), "say c");
        assert_eq!(due(vec![user("[[hang]]\n[[say d]]\nthank you")]), "say d");
        let usage = Usage { read: 7, written: 8, cached: 0 };
        assert_eq!(plan(&asked(vec![script()])).usage, usage);
    }

    #[test]
    fn a_question_beside_the_turn_is_answered_at_once() {
        let mut beside = Request { history: vec![user("[[hang]]")], ..Request::default() };
        assert_eq!(plan(&beside).step, say("A title"));
        beside.schema = Some(json!({
            "type": "object", "required": ["to"],
            "properties": { "to": { "type": "string", "enum": ["me", "you"] }, "why": { "type": "string" } },
        }));
        assert_eq!(plan(&beside).step, say("{\"to\":\"me\"}"));
    }

    #[test]
    fn a_command_may_hold_brackets() {
        let found: Vec<&str> = directives("[[sh test ${a[0]}]] and [[sh echo a[1]]]").collect();
        assert_eq!(found, ["sh test ${a[0]}", "sh echo a[1]"]);
    }

    #[test]
    fn directives_mean_what_the_table_says() {
        let fault = |fault, times| Step::Fault { fault, times };
        assert_eq!(step("status 429 x2"), fault(Fault::Status(429), Some(2)));
        assert_eq!(step("status 500"), fault(Fault::Status(500), None));
        assert_eq!(step("quota 5 x1"), fault(Fault::Quota(5), Some(1)));
        assert_eq!(step("drop x1"), fault(Fault::Drop, Some(1)));
        assert_eq!(step("gate G1 go on"), Step::Gate { name: "G1".to_owned(), text: "go on".to_owned() });
        let pieces = vec!["tick1 ".to_owned(), "tick2 ".to_owned()];
        assert_eq!(step("slow 2 30"), Step::Slow { pieces, apart: Duration::from_millis(30) });
        let calls = |names: [&str; 2]| {
            let call = |name: &str| Call::Tool { name: name.to_owned(), arguments: json!({ "a": 1 }) };
            Step::Call(names.map(call).to_vec())
        };
        assert_eq!(step("tools A {\"a\":1} ;; B {\"a\":1}"), calls(["A", "B"]));
        let Step::Say(big) = step("big 2") else { panic!("text is said") };
        assert_eq!(big.iter().map(String::len).collect::<Vec<_>>(), [1024, 1024]);
        assert_ne!(big[0], big[1]);
        assert_eq!(step("what is this"), say("what is this"));
    }
}
