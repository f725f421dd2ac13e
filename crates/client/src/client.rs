//! The client: repeats a call until there is a reply, across broken connections and restarts of the daemon. So a call that must not take
//! effect twice needs an idempotency key: [`Call::once`].

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hyper::Response;
use hyper::body::Incoming;
use lastword_api::{Code, JobsFate, Problem, STOPPING_HEADER, Stopping, VERSION, VERSION_HEADER};

use crate::call::Call;
use crate::connect::Connect;
use crate::connection::{self, Connection};
use crate::error::Error;
use crate::patience::{self, Silent};
use crate::reply::{FromReply, Reply};

/// How often a call is repeated if the daemon goes away right after it was sent. If it still does then, it is not being restarted: the call
/// crashes it.
const RETRIES_MAX: u32 = 5;

/// If the daemon goes away later than this after a call was sent, the call is taken to be unrelated: retries are counted from zero again.
/// A call that waits for hours may see many restarts.
const UNRELATED_AFTER: Duration = Duration::from_millis(300);

/// How long a daemon may take to start.
const STARTING_MAX: Duration = Duration::from_secs(60);

/// A start that takes longer than this is reported to the user.
const STARTING_NOTICE_AFTER: Duration = Duration::from_secs(3);

/// Pause between two calls to a daemon that is starting: the first, since most daemons start within milliseconds, and the longest.
const PAUSE_FIRST: Duration = Duration::from_millis(2);
pub(crate) const PAUSE: Duration = Duration::from_millis(50);

/// How long a daemon of version 0.1.0 that is stopping may still answer that it is unavailable.
const STOPPING_MAX: Duration = Duration::from_millis(300);

/// Something that the user should know while a call waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice<'a> {
    /// The daemon is still starting, for this reason; the call waits. Given once.
    Starting(&'a str),
    /// The daemon is of this version, which is not that of the client. Given once.
    OtherVersion(&'a str),
    /// The daemon accepts connections but does not answer; the call waits.
    Silent,
    /// The daemon was frozen and was killed; the call is repeated to the next one.
    Killed,
    /// The daemon stops, and this happens to its jobs. Given once for each daemon.
    Stopping(&'a JobsFate),
}

/// A client of one daemon. Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    connect: Box<dyn Connect>,
    /// Called with each notice.
    notice: Box<dyn Fn(Notice<'_>) + Send + Sync>,
    /// Connections that no call uses right now.
    idle: Mutex<Vec<Connection>>,
    /// Whether there was ever a connection.
    was_connected: AtomicBool,
    version_noticed: AtomicBool,
    starting_noticed: AtomicBool,
    /// The pid of the last daemon that announced its stop; 0 if none did.
    stopping_noticed: AtomicU32,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

/// Why a call that was made once has no successful reply, by what to do about it.
pub(crate) enum Failed {
    /// The daemon went away after it may have got the call: repeat it, a few times.
    WentAway(String),
    /// The daemon is starting or stopping, or has too many connections: repeat it for a minute.
    Starting(Error),
    /// The daemon cannot do it now: repeat it once.
    Unavailable(Error),
    /// The daemon refused, or there is none: give up.
    Final(Error),
}

impl From<connection::Lost> for Failed {
    fn from(lost: connection::Lost) -> Failed {
        match lost {
            // A daemon with too many connections closes a new one before a request was sent on it.
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
            stopping_noticed: AtomicU32::new(0),
        }))
    }

    /// Makes a call, repeats it if necessary, and reads its reply.
    pub async fn call<T: FromReply>(&self, call: &Call<T>) -> Result<T, Error> {
        let (mut retries, mut may_be_stopping, mut pause) = (0, true, PAUSE_FIRST);
        let mut since = Instant::now();
        loop {
            let sent = Instant::now();
            match self.try_once(call).await {
                Ok(reply) => {
                    return T::from_reply(reply)
                        .map_err(|why| Error::Unreadable { path: call.path().to_owned(), why });
                }
                // It may be a stopping daemon of version 0.1.0, and the next one can do it. If not, it answers the same again.
                Err(Failed::Unavailable(_)) if may_be_stopping => {
                    may_be_stopping = false;
                    tokio::time::sleep(STOPPING_MAX).await;
                }
                Err(Failed::Final(error) | Failed::Unavailable(error)) => return Err(error),
                Err(Failed::Starting(error)) if since.elapsed() > STARTING_MAX => return Err(error),
                Err(Failed::Starting(error)) => {
                    if since.elapsed() > STARTING_NOTICE_AFTER
                        && !self.0.starting_noticed.swap(true, Ordering::Relaxed)
                    {
                        self.notice(Notice::Starting(&error.to_string()));
                    }
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE);
                }
                Err(Failed::WentAway(_)) if sent.elapsed() > UNRELATED_AFTER => {
                    (retries, may_be_stopping, pause, since) = (0, true, PAUSE_FIRST, Instant::now());
                }
                Err(Failed::WentAway(error)) if retries >= RETRIES_MAX => {
                    return Err(Error::WentAway { path: call.path().to_owned(), error });
                }
                Err(Failed::WentAway(_)) => retries += 1,
            }
        }
    }

    /// Makes a call once. The connection is kept for the next call only if the reply was read to its end.
    async fn try_once<T>(&self, call: &Call<T>) -> Result<Reply, Failed> {
        let (connection, response) = self.begin(call).await?;
        let reply = connection::read(response).await?;
        self.idle().push(connection);
        Ok(reply)
    }

    /// Makes a call once and returns the head of its reply; the caller reads the body. A refusal is read to its end and returned as an
    /// error.
    pub(crate) async fn begin<T>(&self, call: &Call<T>) -> Result<(Connection, Response<Incoming>), Failed> {
        let mut connection = self.connection().await?;
        // Checked here: as a failure of the connection, an invalid call would be repeated.
        call.request().map_err(|why| Failed::Final(Error::Invalid(why)))?;
        let silent = || async {
            self.notice(Notice::Silent);
            if matches!(self.0.connect.end_frozen().await, Ok(true)) {
                self.notice(Notice::Killed);
            }
        };
        let response = patience::wait(connection.begin(call), || self.is_there(), silent).await;
        let response = response.map_err(|Silent(time)| Failed::Final(Error::Silent(time)))??;
        self.check_version(&response).map_err(Failed::Final)?;
        if let Some(stopping) = response.headers().get(STOPPING_HEADER) {
            self.notice_stopping(stopping.as_bytes());
        }
        if response.status().is_success() {
            return Ok((connection, response));
        }
        let problem = connection::read(response).await?.problem();
        self.idle().push(connection);
        let (code, status) = (problem.code.clone(), problem.status);
        let refused = Error::Refused(Box::new(problem));
        Err(match code {
            // `Full` with this status: too many connections at once, which passes.
            Code::Starting | Code::Stopping | Code::Full if status == 503 => Failed::Starting(refused),
            Code::Unavailable => Failed::Unavailable(refused),
            _ => Failed::Final(refused),
        })
    }

    /// Returns an idle connection, or a new one.
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

    /// Reports whether the daemon answers the cheapest request, on a connection of its own: the others may be busy.
    pub async fn is_there(&self) -> bool {
        let answered = async {
            let io = self.0.connect.connect_if_listening().await.ok()??;
            Connection::open(io).await.ok()?.begin(&crate::daemon::live()).await.ok()
        };
        matches!(tokio::time::timeout(patience::ANSWER_MAX, answered).await, Ok(Some(_)))
    }

    /// Gives a notice, once, if the daemon is of another version; refuses a server that is not a daemon of ours.
    fn check_version(&self, response: &Response<Incoming>) -> Result<(), Error> {
        let version = response.headers().get(VERSION_HEADER).and_then(|version| version.to_str().ok());
        let version = version.ok_or(Error::NotADaemon)?;
        if version != VERSION && !self.0.version_noticed.swap(true, Ordering::Relaxed) {
            self.notice(Notice::OtherVersion(version));
        }
        Ok(())
    }

    /// Gives a notice, once for each daemon, that it stops.
    pub(crate) fn notice_stopping(&self, announced: &[u8]) {
        // One that cannot be read is from a newer daemon, and is no reason to fail.
        let Ok(Stopping { pid, jobs }) = serde_json::from_slice(announced) else { return };
        if self.0.stopping_noticed.swap(pid, Ordering::Relaxed) != pid {
            self.notice(Notice::Stopping(&jobs));
        }
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
