//! The client: makes calls until there is a reply, whatever becomes of connections and daemons meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hyper::Response;
use hyper::body::Incoming;
use lastword_api::{Code, Problem, VERSION, VERSION_HEADER};

use crate::call::Call;
use crate::connect::Connect;
use crate::connection::{self, Connection};
use crate::error::Error;
use crate::patience::{self, Silent};
use crate::reply::{FromReply, Reply};

/// How often a call is made to daemons that go away at once in the middle of it. More is not a restart but a crash at each call.
const TRIES_MAX: u32 = 5;

/// A daemon that had a call for this long did not go away because of it. A wait of hours sees many daemons come and go.
const UNRELATED: Duration = Duration::from_millis(300);

/// How long a daemon may take to start.
const STARTING_MAX: Duration = Duration::from_secs(60);

/// A start that takes longer than this is reported.
const STARTING_NOTICED: Duration = Duration::from_secs(3);

/// Pause between two tries at a daemon that is starting: short at first, since most start at once.
const PAUSE_FIRST: Duration = Duration::from_millis(2);
pub(crate) const PAUSE: Duration = Duration::from_millis(50);

/// How long a daemon that is stopping may still refuse.
const STOPPING: Duration = Duration::from_millis(300);

/// Something that the user should know while a call waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice<'a> {
    /// The daemon is still starting, for this reason; the call waits. Said once.
    Starting(&'a str),
    /// The daemon is of this version, which is not that of the client. Said once.
    OtherVersion(&'a str),
    /// The daemon is there and does not answer; the call waits.
    Silent,
}

/// A daemon, as its callers see it. Cheap to clone.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    connect: Box<dyn Connect>,
    notice: Box<dyn Fn(Notice<'_>) + Send + Sync>,
    /// Connections that no call uses right now.
    idle: Mutex<Vec<Connection>>,
    was_connected: AtomicBool,
    version_noticed: AtomicBool,
    starting_noticed: AtomicBool,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

/// Why one try of a call has no reply, or none that ends it.
pub(crate) enum Failed {
    /// The daemon went away.
    WentAway(String),
    /// The daemon is starting, or has too many connections.
    Starting(Error),
    /// The daemon cannot do it now.
    Unavailable(Error),
    /// The daemon refused, or there is none.
    Final(Error),
}

impl From<connection::Lost> for Failed {
    fn from(lost: connection::Lost) -> Failed {
        match lost {
            // A daemon with too many connections closes more of them before a request is sent.
            connection::Lost::NotSent(_) => {
                let full = Problem::new(Code::Unavailable, "the daemon takes no more connections now");
                Failed::Starting(Error::Refused(Box::new(full)))
            }
            connection::Lost::Cut(error) => Failed::WentAway(error),
        }
    }
}

impl Client {
    /// Returns a client; nothing is connected yet.
    pub fn new(connect: impl Connect, notice: impl Fn(Notice<'_>) + Send + Sync + 'static) -> Client {
        Client(Arc::new(Inner {
            connect: Box::new(connect),
            notice: Box::new(notice),
            idle: Mutex::default(),
            was_connected: AtomicBool::new(false),
            version_noticed: AtomicBool::new(false),
            starting_noticed: AtomicBool::new(false),
        }))
    }

    /// Makes a call and reads its reply.
    pub async fn call<T: FromReply>(&self, call: &Call<T>) -> Result<T, Error> {
        let (mut tries, mut may_pass, mut pause) = (0, true, PAUSE_FIRST);
        let mut since = Instant::now();
        loop {
            let begin = Instant::now();
            match self.try_once(call).await {
                Ok(reply) => {
                    return T::from_reply(reply)
                        .map_err(|why| Error::Unreadable { path: call.path().to_owned(), why });
                }
                // It may be stopping, and another to come; if it is not, it says the same again.
                Err(Failed::Unavailable(_)) if may_pass => {
                    may_pass = false;
                    tokio::time::sleep(STOPPING).await;
                }
                Err(Failed::Final(error) | Failed::Unavailable(error)) => return Err(error),
                Err(Failed::Starting(error)) if since.elapsed() > STARTING_MAX => return Err(error),
                Err(Failed::Starting(error)) => {
                    if since.elapsed() > STARTING_NOTICED
                        && !self.0.starting_noticed.swap(true, Ordering::Relaxed)
                    {
                        self.notice(Notice::Starting(&error.to_string()));
                    }
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE);
                }
                Err(Failed::WentAway(_)) if begin.elapsed() > UNRELATED => {
                    (tries, may_pass, pause, since) = (0, true, PAUSE_FIRST, Instant::now());
                }
                Err(Failed::WentAway(error)) if tries >= TRIES_MAX => {
                    return Err(Error::WentAway { path: call.path().to_owned(), error });
                }
                Err(Failed::WentAway(_)) => tries += 1,
            }
        }
    }

    async fn try_once<T>(&self, call: &Call<T>) -> Result<Reply, Failed> {
        let (connection, response) = self.begin(call).await?;
        let reply = connection::read(response).await?;
        self.idle().push(connection);
        Ok(reply)
    }

    /// Makes a call and returns its reply before its body. A refusal is read to its end.
    pub(crate) async fn begin<T>(&self, call: &Call<T>) -> Result<(Connection, Response<Incoming>), Failed> {
        let mut connection = self.connection().await?;
        // Checked here, so that an invalid call is not repeated.
        call.request().map_err(|why| Failed::Final(Error::Invalid(why)))?;
        let (is_there, silent) = (|| self.is_there(), || self.notice(Notice::Silent));
        let response = patience::wait(connection.begin(call), is_there, silent).await;
        let response = response.map_err(|Silent(time)| Failed::Final(Error::Silent(time)))??;
        self.check_version(&response).map_err(Failed::Final)?;
        if response.status().is_success() {
            return Ok((connection, response));
        }
        let problem = connection::read(response).await?.problem();
        self.idle().push(connection);
        let (code, status) = (problem.code.clone(), problem.status);
        let refused = Error::Refused(Box::new(problem));
        Err(match code {
            // Of too many that connect at once, those that are turned away try again.
            Code::Starting | Code::Full if status == 503 => Failed::Starting(refused),
            Code::Unavailable => Failed::Unavailable(refused),
            _ => Failed::Final(refused),
        })
    }

    async fn connection(&self) -> Result<Connection, Failed> {
        while let Some(idle) = self.take_idle() {
            if !idle.is_closed() {
                return Ok(idle);
            }
        }
        let again = self.0.was_connected.load(Ordering::Relaxed);
        let io = self.0.connect.connect(again).await;
        let io = io.map_err(|error| Failed::Final(Error::Unreachable(error)))?;
        let connection = Connection::open(io).await?;
        self.0.was_connected.store(true, Ordering::Relaxed);
        Ok(connection)
    }

    /// Reports whether the daemon answers the cheapest request.
    pub async fn is_there(&self) -> bool {
        let asked = async {
            let io = self.0.connect.connect_if_listening().await.ok()??;
            Connection::open(io).await.ok()?.begin(&crate::daemon::live()).await.ok()
        };
        matches!(tokio::time::timeout(patience::ANSWER_MAX, asked).await, Ok(Some(_)))
    }

    /// Reports once that the daemon is of another version; refuses a server that is no daemon.
    fn check_version(&self, response: &Response<Incoming>) -> Result<(), Error> {
        let version = response.headers().get(VERSION_HEADER).and_then(|version| version.to_str().ok());
        let version = version.ok_or(Error::NotADaemon)?;
        if version != VERSION && !self.0.version_noticed.swap(true, Ordering::Relaxed) {
            self.notice(Notice::OtherVersion(version));
        }
        Ok(())
    }

    fn notice(&self, notice: Notice<'_>) {
        (self.0.notice)(notice);
    }

    fn take_idle(&self) -> Option<Connection> {
        self.idle().pop()
    }

    /// Locks, ignoring poison: no critical section here can panic half-way.
    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.0.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
