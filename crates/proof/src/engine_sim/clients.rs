//! Clients: people and programs with wishes, each in a task of its own on the runtime of the engine.
//!
//! A client whose answer did not come, because the engine died or the journal was away, asks again: for the same job, with the same
//! words. What it is told is compared with what is durable, and with the trees.

use std::collections::BTreeSet;
use std::time::Duration;

use lastword_core::decide::Refusal;
use lastword_core::decide::cancel::Cancel;
use lastword_core::limits::Limit;
use lastword_core::outcome::Asked;
use lastword_core::view::row::{PhaseName, Row};
use lastword_core::{AttemptNo, Job, JobId};
use lastword_engine::{Cancelled, Engine, Env, Error, Jobs, Prune, Settled, Until};
use lastword_store::Filter;

use super::fault::Fault;
use super::journal::{Frail, pause};
use super::plan::Planned;
use super::wish::{Answer, Client, State, Wish, said};
use super::world::{Doing, Process, World};
use crate::world::place::Key;

impl World {
    /// Makes a client that asks after a while.
    pub(super) fn client(&mut self, ms: u64, wish: Wish) {
        let may_go = matches!(wish, Wish::Submit(_) | Wish::Cancel { .. } | Wish::Retry(_) | Wish::Read(_));
        let patience_ms = (may_go && self.random.chance(6)).then(|| self.random.below(30));
        let (no, host) = (self.clients.len(), self.any_host());
        self.clients.push(Client { host, wish, state: State::Waiting, patience_ms, asked: false });
        self.after(ms, Doing::Ask(no));
    }

    /// Draws what is wanted of one job amid the faults.
    pub(super) fn draw_wishes(&mut self, planned: &Planned) {
        let job = planned.id;
        let at = self.random.below(2_500);
        self.client(at, Wish::Submit(planned.clone()));
        if self.random.chance(20) {
            let again = at + self.random.below(1_000);
            self.client(again, Wish::Submit(planned.clone()));
        }
        let mut wishes = Vec::new();
        if self.random.chance(40) {
            let force = self.random.chance(30);
            wishes.push(Wish::Cancel { job, force });
            if self.random.chance(30) {
                wishes.push(Wish::Cancel { job, force: true });
            }
        }
        if self.random.chance(30) {
            let limit = *self.random.pick(&[Limit::Wall, Limit::Stall, Limit::Output]);
            let value = if self.random.chance(30) { 0 } else { 100 + self.random.below(4_000) };
            wishes.push(Wish::SetLimit { job, limit, value });
        }
        for no in 0..self.random.below(4) {
            if planned.spec.io == lastword_core::spec::Io::Pipe {
                let eof = self.random.chance(15);
                wishes.push(Wish::Send { job, text: format!("{} says {no}", planned.mark), eof });
            }
        }
        if self.random.chance(6) {
            wishes.push(Wish::Abandon(job));
        }
        if self.random.chance(15) {
            wishes.push(Wish::Retry(job));
        }
        if self.random.chance(8) {
            wishes.push(Wish::Remove(job));
        }
        for _ in 0..2 + self.random.below(4) {
            wishes.push(Wish::Read(job));
        }
        if self.random.chance(50) {
            let ms = self.random.below(4_000);
            wishes.push(Wish::Wait { job, ms });
        }
        for wish in wishes {
            let later = at + self.random.below(4_000);
            self.client(later, wish);
        }
    }

    /// Queues a client to ask now. The loop that runs the engine starts it as soon as there is an engine.
    pub(super) fn ask_now(&mut self, no: usize) {
        if self.clients[no].state != State::Waiting {
            return;
        }
        if self.is_premature(&self.clients[no].wish) {
            return self.after(300, Doing::Ask(no));
        }
        self.asking.push(no);
    }

    /// Reports whether a job might be removed that a client still submits, because its first reply was lost. One that another job is about to
    /// wait for may be removed at any time.
    fn is_premature(&self, wish: &Wish) -> bool {
        let submits = |client: &Client, is: &dyn Fn(&Planned) -> bool| match &client.wish {
            Wish::Submit(planned) => is(planned) && !matches!(client.state, State::Done(_)),
            _ => false,
        };
        let any = |is: &dyn Fn(&Planned) -> bool| self.clients.iter().any(|client| submits(client, is));
        match wish {
            Wish::Remove(job) => any(&|planned| planned.id == *job),
            Wish::Prune => any(&|planned| self.plan.early.iter().any(|one| one.id == planned.id)),
            _ => false,
        }
    }

    /// Returns the clients that are to ask now, of those whose engine is ready: if all of them waited for that by themselves, tokio would
    /// wake them in an order that is not the seed's.
    pub(super) fn take_asking(&mut self) -> Vec<usize> {
        let now = self.now();
        let ready = |world: &World, no: usize| world.lives[world.clients[no].host].is_serving();
        let asking = std::mem::take(&mut self.asking);
        let (asking, later) = asking.into_iter().partition(|no| ready(self, *no));
        self.asking = later;
        for no in &asking {
            self.clients[*no].state = State::Asking(now);
        }
        asking
    }

    /// The engine of a host is gone: its clients that waited for an answer ask again.
    pub(super) fn clients_lose_the_engine(&mut self, host: usize) {
        for no in 0..self.clients.len() {
            if self.clients[no].host == host && matches!(self.clients[no].state, State::Asking(_)) {
                self.ask_again(no);
            }
        }
    }

    fn ask_again(&mut self, no: usize) {
        let now = self.now();
        // What may have been done and would be done twice is not asked for again.
        let once = matches!(self.clients[no].wish, Wish::Retry(_) | Wish::Send { .. } | Wish::ShutDown);
        if once {
            self.clients[no].state = State::Done(now);
            return;
        }
        self.clients[no].state = State::Waiting;
        let ms = 50 + self.random.below(400);
        self.after(ms, Doing::Ask(no));
    }

    fn begins(&mut self, no: usize) -> Wish {
        self.clients[no].asked = true;
        self.note(0xc1e7 + no as u64);
        self.say(|world| format!("client {no} asks: {}", world.words(&world.clients[no].wish)));
        self.clients[no].wish.clone()
    }

    /// Returns the attempts on a host whose keepers are gone now.
    fn gone(&self, host: usize) -> BTreeSet<Key> {
        let gone = self.places.iter().filter(|(key, place)| key.host == host && place.gone_at().is_some());
        gone.map(|(key, _)| *key).collect()
    }

    /// A client has its answer.
    fn answered(&mut self, no: usize, gone: &BTreeSet<Key>, answer: Answer) {
        let wish = self.clients[no].wish.clone();
        self.note(0xa175 + no as u64);
        self.say(|_| format!("client {no} hears: {}", said(&answer)));
        match &answer {
            Answer::Job(job) => self.check_told(job),
            Answer::Held(job) => {
                self.check_told(job);
                self.held_stops.extend(job.open_attempt().map(|attempt| (job.id, attempt.no)));
            }
            Answer::Read(read) => {
                self.check_told(&read.value);
                self.check_read(read, gone);
            }
            Answer::Rows(rows) => self.check_rows(rows, gone),
            Answer::Gone => self.struck(Fault::ClientGone, wish.job()),
            _ => {}
        }
        match (&wish, &answer) {
            // Whatever came of it: it exits.
            (Wish::ShutDown, _) => self.engine_goes_down(self.clients[no].host),
            (_, Answer::Failed(_)) | (Wish::Submit(_) | Wish::Cancel { .. }, Answer::Gone) => {
                self.clients[no].patience_ms = None;
                return self.ask_again(no);
            }
            // It waits for a job that is not there yet.
            (Wish::Submit(_), Answer::Refused(Refusal::NotFound(other))) if !self.never_comes(*other) => {
                return self.ask_again(no);
            }
            (Wish::Cancel { job, .. }, Answer::Job(told)) => self.check_cancelled(*job, told),
            (Wish::Wait { ms, .. }, Answer::Read(read)) => self.check_wait(no, *ms, &read.value),
            _ => {}
        }
        self.clients[no].state = State::Done(self.now());
    }

    /// Reports whether a job will not be there any more: it was removed, or refused because it waits for one that was.
    pub(super) fn never_comes(&self, job: JobId) -> bool {
        let is_refused = |client: &Client| match &client.wish {
            Wish::Submit(planned) => planned.id == job && matches!(client.state, State::Done(_)),
            _ => false,
        };
        match self.witness.get(&job) {
            Some(watched) => watched.removed,
            None => self.clients.iter().any(is_refused),
        }
    }

    /// Checks that the client is told only what is durable.
    fn check_told(&mut self, job: &Job) {
        let known = self.witness.get(&job.id).map(|watched| watched.known.job.version);
        if known.is_none_or(|version| version < job.version) {
            let version = job.version;
            self.fail("told of what is not stored", |world| format!("{} #{version}", world.name(job.id)));
        }
    }

    fn check_cancelled(&mut self, id: JobId, told: &Job) {
        if !told.is_ended() && told.stop.is_none() {
            self.fail("a cancel that was acknowledged is not in the log", |world| world.name(id));
        }
        if let Some(known) = self.witness.get_mut(&id).map(|watched| &mut watched.known) {
            known.cancel_acknowledged(known.job.version);
        }
    }

    /// One read is enough: a tree whose keeper was gone when it began is not shown as running.
    fn check_read(&mut self, read: &Settled<Job>, gone: &BTreeSet<Key>) {
        let open = read.value.open_attempt().filter(|attempt| attempt.tree.is_some());
        if let Some(attempt) = open {
            self.check_shown(read.value.id, attempt.no, read.unsettled, gone);
        }
    }

    fn check_rows(&mut self, rows: &Settled<Vec<Row>>, gone: &BTreeSet<Key>) {
        for row in &rows.value {
            if row.phase == PhaseName::Running {
                self.check_shown(row.job, AttemptNo(row.summary.attempts), rows.unsettled, gone);
            }
        }
    }

    fn check_shown(&mut self, job: JobId, attempt: AttemptNo, unsettled: bool, gone: &BTreeSet<Key>) {
        if gone.iter().any(|key| (key.job, key.attempt) == (job, attempt)) && !unsettled {
            self.fail("a read shows a dead tree as running", |world| {
                format!("attempt {attempt} of {}", world.name(job))
            });
        }
        // Where nothing goes wrong, a read is never in doubt.
        if unsettled && self.is_prompt(self.now()) {
            self.fail("a read is unsettled although all is well", |world| world.name(job));
        }
    }

    /// A wait ends with what it waited for, or with its time.
    fn check_wait(&mut self, no: usize, ms: u64, job: &Job) {
        let State::Asking(since) = self.clients[no].state else { return };
        let ended_at = self.witness.get(&job.id).and_then(|watched| watched.ended_at);
        let now = self.now();
        if !job.is_ended() && now < since + ms {
            self.fail("a wait ended early", |world| world.name(job.id));
        }
        let slept = ended_at.is_some_and(|at| now > at.max(since) + 1_000 && now > since + 1_000);
        if slept && self.is_prompt(since) {
            self.fail("a wait slept on after the last word", |world| world.name(job.id));
        }
    }

    /// Returns since when every change of a group that was asked for has been acknowledged; `None` while one was not.
    pub(super) fn groups_settled_at(&self) -> Option<u64> {
        let changes = self.clients.iter().filter(|client| matches!(client.wish, Wish::SetGroup(_)));
        let mut settled = 0;
        for client in changes {
            match client.state {
                State::Done(at) => settled = settled.max(at),
                State::Asking(_) => return None,
                // One that was not heard may count all the same.
                State::Waiting if client.asked => return None,
                State::Waiting => {}
            }
        }
        Some(settled)
    }

    /// Returns a wish in words.
    fn words(&self, wish: &Wish) -> String {
        match wish {
            Wish::Submit(planned) => format!("run {} {:?}", self.name(planned.id), planned.spec),
            other => format!("{other:?}, {}", other.job().map_or(String::new(), |job| self.name(job))),
        }
    }
}

/// Asks for what a client wants, and hands over what it hears.
pub(super) async fn ask(process: Process, engine: Engine<Frail>, no: usize) {
    let begun =
        |world: &mut World| (world.begins(no), world.gone(process.host), world.clients[no].patience_ms);
    let (wish, gone, patience_ms) = process.act(begun).await;
    let asked = answer(&engine, wish);
    let answer = match patience_ms {
        None => asked.await,
        Some(ms) => tokio::select! {
            biased;
            answer = asked => answer,
            () = pause(ms) => Answer::Gone,
        },
    };
    process.act(|world| world.answered(no, &gone, answer)).await;
}

async fn answer(engine: &Engine<Frail>, wish: Wish) -> Answer {
    let by = "somebody";
    let answer = match wish {
        Wish::Submit(planned) => {
            let env = Env::new(vec![("MARK".into(), planned.mark.into())]);
            engine.submit(planned.id, (*planned.spec).clone(), env, by).await.map(Answer::Job)
        }
        Wish::Cancel { job, force } => {
            let wish = Cancel { by: by.to_owned(), asked: Asked::User, force };
            engine.cancel(job, &wish).await.map(|cancelled| match cancelled {
                Cancelled::Stored(job) => Answer::Job(*job),
                Cancelled::Held(held) => Answer::Held(held.job),
            })
        }
        Wish::SetLimit { job, limit, value } => {
            engine.desk().set_limit(job, by, limit, value).await.map(Answer::Job)
        }
        Wish::Send { job, text, eof } => {
            engine.desk().send(job, by, &text, eof, None).await.map(|(job, _)| Answer::Job(job))
        }
        Wish::Retry(job) => match engine.desk().new_id() {
            Ok(new) => engine.retry_as(new, job, Env::default(), by).await.map(Answer::Job),
            Err(error) => Err(error),
        },
        Wish::Abandon(job) => engine.desk().abandon(job, by).await.map(Answer::Job),
        Wish::Read(job) => engine.job(job).await.map(Answer::Read),
        Wish::List => engine.rows(Filter::default(), None, 100).await.map(Answer::Rows),
        Wish::Wait { job, ms } => {
            engine.wait(job, Until::Ended, Duration::from_millis(ms)).await.map(Answer::Read)
        }
        Wish::SetGroup(group) => engine.desk().set_group(group).await.map(|()| Answer::Done),
        Wish::Remove(job) => engine.remove(job, false).await.map(|()| Answer::Done),
        Wish::Prune => {
            let which = Prune { older_than_ms: 500, unread: true, unsaved: false, dry_run: false };
            engine.prune(&which).await.map(|_| Answer::Done)
        }
        Wish::ShutDown => engine.shut_down(Jobs::Keep).await.map(|()| Answer::Done),
    };
    match answer {
        Ok(answer) => answer,
        Err(Error::Refused(refusal)) => Answer::Refused(refusal),
        Err(error) => Answer::Failed(error.to_string()),
    }
}
