//! What agents take for a model: a server on the loopback that speaks four dialects and says what the prompt tells it to.
//!
//! - [`script`]: the directives of a prompt, and which of them is due.
//! - [`request`]: what an agent asks, whichever dialect it asks in.
//! - [`shell`]: the shell that an agent offers.
//! - [`voice`]: an answer, in each dialect.
//! - [`connection`]: HTTP, and whether the agent is still there.

mod connection;
mod request;
mod script;
mod shell;
mod voice;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use connection::{Connection, Sent};
use request::{Dialect, Request};
use script::{Call, Fault, Plan, Step};
use voice::{Piece, Voice};

/// A model. It goes on until it is dropped.
pub(crate) struct Model {
    port: u16,
    state: Arc<State>,
}

/// What happened to a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// It was asked for a reply.
    Asked,
    /// It has replied.
    Replied,
    /// The agent closed the connection before the reply was over: a real interrupt.
    Gone,
    /// Something was asked that is no model's business.
    Unknown,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) what: What,
    /// The directive that was due, or what was asked for.
    pub(crate) about: String,
    /// How many prompts before the present one the agent remembered.
    pub(crate) prompts_before: usize,
}

#[derive(Default)]
struct State {
    /// Prompts and their directives, for prompts that people are to read.
    scripts: Vec<(String, String)>,
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Default)]
struct Inner {
    is_closed: bool,
    requests: u64,
    log: Vec<Record>,
    /// The models that replies were asked of.
    models: BTreeSet<String>,
    /// The efforts that they were asked for.
    efforts: BTreeSet<String>,
    gates: BTreeSet<String>,
    /// How often a fault was served, by its script and place in it.
    faults: BTreeMap<(String, usize), u32>,
}

/// How long a text goes on before its connection is broken off: the agent has then begun to read it.
const BEFORE_DROP: Duration = Duration::from_millis(50);

impl Model {
    /// Serves a model on the loopback.
    pub(crate) fn start() -> Result<Model, String> {
        Model::with_scripts(Vec::new())
    }

    /// Serves a model that also follows a script whose prompt shows none: pairs of a prompt and its directives.
    pub(crate) fn with_scripts(scripts: Vec<(String, String)>) -> Result<Model, String> {
        let failed = |error: io::Error| format!("no model: {error}");
        let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        let state = Arc::new(State { scripts, ..State::default() });
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if shared.lock().is_closed {
                    return;
                }
                let state = Arc::clone(&shared);
                // An agent that exits closes its connection; there is no caller to report the error to.
                std::thread::spawn(move || drop(state.talk(Connection::new(stream))));
            }
        });
        Ok(Model { port, state })
    }

    /// Returns where it is served.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Lets a `gate` of that name go on, and those to come.
    pub(crate) fn release(&self, name: &str) {
        self.state.change(|inner| inner.gates.insert(name.to_owned()));
    }

    /// Returns everything that happened so far.
    pub(crate) fn log(&self) -> Vec<Record> {
        self.state.lock().log.clone()
    }

    /// Returns the efforts that replies were asked with.
    pub(crate) fn efforts(&self) -> BTreeSet<String> {
        self.state.lock().efforts.clone()
    }

    /// Returns the names of the models that replies were asked of.
    pub(crate) fn models(&self) -> BTreeSet<String> {
        self.state.lock().models.clone()
    }

    /// Waits until something has happened to a directive, or a request, with `about` in it.
    pub(crate) fn wait(&self, what: What, about: &str, at_most: Duration) -> bool {
        let is = |record: &Record| record.what == what && record.about.contains(about);
        let is_missing = |inner: &mut Inner| !inner.log.iter().any(is);
        let waited = self.state.changed.wait_timeout_while(self.state.lock(), at_most, is_missing);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.state.change(|inner| inner.is_closed = true);
        // One more connection wakes the accept loop, which then sees `is_closed`.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

impl State {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, how: impl FnOnce(&mut Inner) -> T) -> T {
        let changed = how(&mut self.lock());
        self.changed.notify_all();
        changed
    }

    fn record(&self, what: What, about: &str, prompts_before: usize) {
        self.change(|inner| inner.log.push(Record { what, about: about.to_owned(), prompts_before }));
    }

    fn talk(&self, mut connection: Connection) -> io::Result<()> {
        while let Some(sent) = connection.read()? {
            let dialect = Dialect::at(&sent.path).filter(|_| sent.method == "POST");
            let Some(dialect) = dialect else {
                self.other(&mut connection, &sent)?;
                continue;
            };
            let mut request = Request::read(dialect, &sent.path, &sent.body);
            request.add_scripts(&self.scripts);
            let plan = script::plan(&request);
            self.change(|inner| {
                inner.models.insert(request.model.clone());
                inner.efforts.extend(request.effort.clone());
            });
            self.record(What::Asked, &plan.directive, plan.prompts_before);
            let served = self.serve(connection, &request, &plan);
            let what = if served.is_ok() { What::Replied } else { What::Gone };
            self.record(what, &plan.directive, plan.prompts_before);
            match served? {
                Some(kept) => connection = kept,
                None => return Ok(()),
            }
        }
        Ok(())
    }

    /// Answers what is asked beside replies: how many tokens, which models.
    fn other(&self, connection: &mut Connection, sent: &Sent) -> io::Result<()> {
        let ends = |ending: &str| sent.path.ends_with(ending);
        let body = match () {
            () if sent.method == "HEAD" => return connection.answer(200, &[], ""),
            () if ends("/count_tokens") || ends(":countTokens") => {
                json!({ "input_tokens": 1000, "totalTokens": 1000 })
            }
            () if ends("/models") => {
                let model = json!({ "id": "scripted", "object": "model", "type": "model", "display_name": "scripted", "created": 0 });
                json!({ "object": "list", "models": [], "data": [model], "has_more": false })
            }
            () => {
                self.record(What::Unknown, &format!("{} {}", sent.method, sent.path), 0);
                let error =
                    json!({ "error": { "message": "there is nothing here", "type": "not_found_error" } });
                return connection.answer(404, &[], &error.to_string());
            }
        };
        connection.answer(200, &[], &body.to_string())
    }

    /// Replies, and returns the connection if more may follow on it. An error is an agent that went away.
    fn serve(
        &self,
        mut connection: Connection,
        request: &Request,
        plan: &Plan,
    ) -> io::Result<Option<Connection>> {
        connection.wait(Some(plan.delay), || self.lock().is_closed)?;
        let id = self.change(|inner| {
            inner.requests += 1;
            inner.requests
        });
        let recovered = Step::Say(vec!["recovered.".to_owned()]);
        let step = if self.has_recovered(plan) { &recovered } else { &plan.step };
        if let Step::Fault { fault, .. } = step {
            return self.fail(connection, request, plan, id, *fault);
        }
        let mut reply = Reply::new(connection, voice::of(request, id, plan.usage), request.streams);
        match step {
            Step::Silence => reply.connection.wait(None, || self.lock().is_closed)?,
            Step::Hang => {
                reply.begin()?;
                reply.connection.wait(None, || self.lock().is_closed)?;
            }
            Step::Gate { name, text } => {
                reply.begin()?;
                reply.connection.wait(None, || {
                    let inner = self.lock();
                    inner.is_closed || inner.gates.contains(name)
                })?;
                reply.text(std::slice::from_ref(text), Duration::ZERO)?;
                reply.end()?;
            }
            Step::Say(pieces) => reply.all(pieces, Duration::ZERO)?,
            Step::Slow { pieces, apart } => reply.all(pieces, *apart)?,
            Step::Think(thought) => {
                reply.begin()?;
                reply.say(|voice| voice.think(thought))?;
                reply.text(&["thought.".to_owned()], Duration::ZERO)?;
                reply.end()?;
            }
            Step::Call(calls) => reply.calls(calls, request)?,
            Step::Fault { .. } => {}
        }
        Ok(Some(reply.connection))
    }

    /// Reports whether a fault was to happen a few times, and has.
    fn has_recovered(&self, plan: &Plan) -> bool {
        let Step::Fault { times: Some(times), .. } = &plan.step else { return false };
        let key = (plan.script.clone(), plan.reply.unwrap_or_default());
        self.change(|inner| {
            let served = inner.faults.entry(key).or_default();
            *served += 1;
            *served > *times
        })
    }

    fn fail(
        &self,
        mut connection: Connection,
        request: &Request,
        plan: &Plan,
        id: u64,
        fault: Fault,
    ) -> io::Result<Option<Connection>> {
        let status = match (fault, request.streams) {
            (Fault::Status(status), _) => Some(status),
            // What fails in a stream fails as a whole where there is none.
            (Fault::InStream, false) => Some(529),
            _ => None,
        };
        if let Some(status) = status {
            let after = plan.retry_after_s.filter(|_| matches!(status, 429 | 503 | 529));
            let headers: Vec<_> =
                after.map(|seconds| ("retry-after", seconds.to_string())).into_iter().collect();
            connection.answer(status, &headers, &voice::refusal(request.dialect, status).to_string())?;
            return Ok(Some(connection));
        }
        if let Fault::Quota(seconds) = fault {
            let voice::Refusal { headers, body } = voice::used_up(request.dialect, seconds);
            connection.answer(429, &headers, &body.to_string())?;
            return Ok(Some(connection));
        }
        if fault == Fault::Drop || (fault == Fault::DropInText && !request.streams) {
            return connection.reset().map(|()| None);
        }
        if !request.streams {
            connection.answer(200, &[], "{\"type\":")?;
            return Ok(Some(connection));
        }
        let mut reply = Reply::new(connection, voice::of(request, id, plan.usage), true);
        reply.begin()?;
        match fault {
            Fault::Garbage => reply.send(&Piece::raw("{this is not JSON"))?,
            Fault::InStream => reply.send(&reply.voice.fail("scripted error in the stream"))?,
            Fault::DropInText | Fault::Truncate | Fault::Drop | Fault::Status(_) | Fault::Quota(_) => {
                reply.say(|voice| voice.open())?;
                reply.say(|voice| voice.text("half an answer "))?;
            }
        }
        if fault == Fault::DropInText {
            reply.connection.wait(Some(BEFORE_DROP), || self.lock().is_closed)?;
            return reply.connection.reset().map(|()| None);
        }
        reply.connection.close()?;
        Ok(Some(reply.connection))
    }
}

/// A reply that is being given.
struct Reply {
    connection: Connection,
    voice: Box<dyn Voice>,
    streams: bool,
}

impl Reply {
    fn new(connection: Connection, voice: Box<dyn Voice>, streams: bool) -> Reply {
        Reply { connection, voice, streams }
    }

    fn send(&mut self, piece: &Piece) -> io::Result<()> {
        if self.streams { self.connection.piece(&piece.lines()) } else { Ok(()) }
    }

    fn say(&mut self, what: impl FnOnce(&mut dyn Voice) -> Vec<Piece>) -> io::Result<()> {
        let pieces = what(self.voice.as_mut());
        pieces.iter().try_for_each(|piece| self.send(piece))
    }

    fn begin(&mut self) -> io::Result<()> {
        if self.streams {
            self.connection.open()?;
        }
        self.say(|voice| voice.begin())
    }

    fn text(&mut self, pieces: &[String], apart: Duration) -> io::Result<()> {
        self.say(|voice| voice.open())?;
        for (at, piece) in pieces.iter().enumerate() {
            if at > 0 && !apart.is_zero() {
                self.connection.wait(Some(apart), || false)?;
            }
            self.say(|voice| voice.text(piece))?;
        }
        self.say(|voice| voice.close())
    }

    fn all(&mut self, pieces: &[String], apart: Duration) -> io::Result<()> {
        self.begin()?;
        if !pieces.is_empty() {
            self.text(pieces, apart)?;
        }
        self.end()
    }

    fn calls(&mut self, calls: &[Call], request: &Request) -> io::Result<()> {
        let mut meant: Vec<(String, Value)> = Vec::new();
        for call in calls {
            match call {
                Call::Tool { name, arguments } => meant.push((name.clone(), arguments.clone())),
                Call::Shell { command, in_background } => {
                    let Some(call) = shell::call(&request.tools, command, *in_background) else {
                        return self.all(&["there is no shell here".to_owned()], Duration::ZERO);
                    };
                    meant.push(call);
                }
            }
        }
        self.begin()?;
        for (name, arguments) in &meant {
            self.say(|voice| voice.call(name, arguments))?;
        }
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        self.say(|voice| voice.end())?;
        match self.streams {
            true => self.connection.close(),
            false => self.connection.answer(200, &[], &self.voice.whole().to_string()),
        }
    }
}

#[cfg(test)]
mod tests;
