//! The daemon of this user, as a verb calls it: reached or started by [`connect`], with errors and notices in words for people.

pub(crate) mod connect;
pub(crate) mod dialogue;
pub(crate) mod follow;
pub(crate) mod passage;
pub(crate) mod recording;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use lastword_api::{Code, Event, Job, JobsFate, VERSION};
use lastword_client::jobs::Filter;
use lastword_client::{Call, Error, FromReply, Notice, events, jobs};

use crate::daemon::role::Role;
use crate::failure::Failure;
use crate::lock::Holder;
use crate::paths::Paths;
use crate::text::clean::clean;
use crate::text::similar;
use crate::ui::{Ui, describe};

/// The daemon, as a verb calls it. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Client {
    api: lastword_client::Client,
    paths: Paths,
    ui: Ui,
    /// Whether the user was told that the host of the output is away.
    is_host_away: Arc<AtomicBool>,
}

impl Client {
    /// Returns a client; nothing is connected yet.
    pub(crate) fn new(paths: Paths, ui: Ui) -> Client {
        let connect = connect::LocalDaemon { paths: paths.clone() };
        let at = paths.clone();
        let api = lastword_client::Client::new(connect, move |notice| say(&ui, &at, notice));
        Client { api, paths, ui, is_host_away: Arc::default() }
    }

    /// Makes a call and reads its reply.
    pub(crate) async fn call<T: FromReply>(&self, call: &Call<T>) -> Result<T, Failure> {
        self.api.call(call).await.map_err(|error| self.failure(error))
    }

    /// Streams the events of a job after a place in its log, up to its end.
    pub(crate) fn follow_job(&self, id: &str, filter: &events::Filter, after: Option<u64>) -> Events {
        Events { client: self.clone(), events: self.api.follow_job(id, filter, after) }
    }

    /// Streams the events of all jobs after a cursor, without end.
    pub(crate) fn follow_all(&self, filter: &events::Filter, cursor: Option<String>) -> Events {
        Events { client: self.clone(), events: self.api.follow_all(filter, cursor) }
    }

    /// Reports whether the daemon answers the cheapest request.
    pub(crate) async fn is_there(&self) -> bool {
        self.api.is_there().await
    }

    /// Returns a job by any reference.
    pub(crate) async fn job(&self, reference: &str) -> Result<Job, Failure> {
        let found = self.call(&jobs::show(reference)).await;
        self.explain(reference, found).await
    }

    /// Says that how a job ended was read, if it has ended and a person reads what is printed. If that fails, the ending stays unread, which
    /// is harmless.
    pub(crate) async fn seen(&self, job: &Job) {
        if job.is_ended() {
            self.seen_ended(&job.id).await;
        }
    }

    /// Like [`Client::seen`], of a job that has ended.
    pub(crate) async fn seen_ended(&self, id: &str) {
        if self.ui.read_by_person {
            let _ = self.call(&jobs::seen(id)).await;
        }
    }

    /// Lets the failure of a call name the job as its user did, and adds a close guess if there is no such job.
    pub(crate) async fn explain<T>(&self, reference: &str, done: Result<T, Failure>) -> Result<T, Failure> {
        let failure = match done {
            Err(failure) if failure.problem.code == Code::NotFound => failure,
            Err(failure) => return Err(self.name_job(reference, failure).await),
            done => return done,
        };
        let newest = Filter { limit: Some(200), ..Filter::default() };
        let Ok(page) = self.call(&jobs::list(&newest)).await else { return Err(failure) };
        let names =
            page.items.iter().flat_map(|row| row.name.as_deref().into_iter().chain([row.short.as_str()]));
        Err(match similar::nearest(reference, names) {
            Some(near) => failure.next(format!("did you mean `{near}`?")),
            None => failure.next("lastword ls -a    # shows every job"),
        })
    }

    /// Lets a failure name its job as people do, if it is about the job that is referred to.
    async fn name_job(&self, reference: &str, mut failure: Failure) -> Failure {
        if let Some(id) = failure.problem.job.clone()
            && let Ok(job) = self.call(&jobs::show(reference)).await
            && job.id == id
        {
            let job_name = describe::job_name(job.name.as_deref(), &job.short);
            failure.problem.detail = failure.problem.detail.replace(&id, &job_name);
        }
        failure
    }

    /// Reports whether the jobs run on other hosts: it talks to a server of a fleet.
    pub(crate) fn is_fleet(&self) -> bool {
        Role::of(&self.paths) == Role::Server
    }

    /// Returns how to print.
    pub(crate) fn ui(&self) -> &Ui {
        &self.ui
    }

    /// Converts an error of the API client into a failure that says what to do about it.
    fn failure(&self, error: Error) -> Failure {
        let restart = "lastword daemon restart    # jobs keep running";
        match error {
            Error::WentAway { .. } => {
                let log = self.paths.in_state(crate::daemon::LOG);
                Failure::from(error).next(format!("its log says why: {}", log.display()))
            }
            Error::Silent(time) => {
                let text = format!(
                    "the daemon{} has not answered for {} s, and may still do what was asked",
                    pid_of_holder(&self.paths),
                    time.as_secs()
                );
                Failure::new(Code::Unavailable, text).next(restart)
            }
            Error::NotADaemon => {
                let socket = self.paths.socket.display();
                let text = format!("the process that listens at {socket} is not a Lastword daemon");
                Failure::new(Code::Unavailable, text).next("end it; the next command starts a daemon")
            }
            error => error.into(),
        }
    }
}

/// A stream of events.
pub(crate) struct Events {
    client: Client,
    events: lastword_client::Events,
}

impl Events {
    /// Returns the next event; `None` after the last one.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, Failure> {
        self.events.next().await.map_err(|error| self.client.failure(error))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let text = error.to_string();
        match error {
            Error::Refused(problem) => Failure::answered(*problem),
            Error::Unreachable(error) => match error.downcast::<Failure>() {
                Ok(failure) => *failure,
                Err(_) => Failure::new(Code::Unavailable, text),
            },
            Error::Unreadable { .. } => Failure::new(Code::Internal, text)
                .next("lastword daemon restart    # if the daemon is of another version; jobs keep running"),
            Error::Invalid(_) => Failure::new(Code::Invalid, text),
            Error::WentAway { .. } | Error::Silent(_) | Error::NotADaemon | Error::NoRandom(_) => {
                Failure::new(Code::Unavailable, text)
            }
        }
    }
}

/// Prints a notice for a user whose call waits.
fn say(ui: &Ui, paths: &Paths, notice: Notice<'_>) {
    ui.say(&match notice {
        Notice::Starting(why) => format!("lastword: {}; waiting for it", clean(why)),
        Notice::OtherVersion(version) => format!(
            "lastword: this is {VERSION}, the daemon is {}; `lastword daemon restart` replaces it, and jobs keep running",
            clean(version)
        ),
        Notice::Stopping(JobsFate::Cancel) => {
            "lastword: the daemon stops; its jobs were cancelled".to_owned()
        }
        Notice::Stopping(_) => {
            "lastword: the daemon stops; jobs keep running, and the next daemon takes them over".to_owned()
        }
        Notice::Killed => {
            "lastword: it was frozen and was killed; the next daemon answers, and jobs keep running".to_owned()
        }
        Notice::Silent => {
            format!("lastword: the daemon{} does not answer; waiting for it", pid_of_holder(paths))
        }
    });
}

fn pid_of_holder(paths: &Paths) -> String {
    Holder::of(paths).map_or_else(String::new, |holder| format!(" (pid {})", holder.pid))
}
