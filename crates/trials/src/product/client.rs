//! Calls of the API from a thread, each made once: the product's own connection without its retries, so that a trial can tell a call that
//! was never sent from one whose reply was lost.

use std::path::Path;
use std::time::Duration;

use lastword_client::{Call, Connect as _, Connection, FromReply, Lost, Reply, Unix};
use serde_json::Value;
use tokio::runtime::Runtime;

/// The longest a reply may take: a long poll is at most a minute.
const REPLY_MAX: Duration = Duration::from_secs(70);

/// A connection that is kept as long as the daemon keeps it.
pub(crate) struct Client {
    daemon: Unix,
    runtime: Runtime,
    open: Option<Connection>,
}

/// Why there is no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoReply {
    /// No daemon listens: nothing was sent.
    NotListening(String),
    /// It was sent, and may have taken effect.
    Cut(String),
}

impl std::fmt::Display for NoReply {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NoReply::NotListening(why) => write!(to, "no daemon listens: {why}"),
            NoReply::Cut(why) => write!(to, "cut off: {why}"),
        }
    }
}

/// Returns the code of a refusal, or the status of a reply that has none.
pub(crate) fn code_of(reply: &Reply) -> String {
    let body: Value = serde_json::from_slice(&reply.body).unwrap_or(Value::Null);
    body["code"].as_str().map_or_else(|| reply.status.to_string(), str::to_owned)
}

impl Client {
    /// Connects to this socket, once there is a call.
    pub(crate) fn new(socket: &Path) -> Client {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a trial that gets no descriptors has failed already");
        Client { daemon: Unix(socket.to_owned()), runtime, open: None }
    }

    /// Makes a call, on the connection that is open or on a new one.
    pub(crate) fn send<T>(&mut self, call: &Call<T>) -> Result<Reply, NoReply> {
        if let Some(mut kept) = self.open.take() {
            match self.once(&mut kept, call) {
                // A connection that an earlier daemon kept says nothing about this one.
                Err(Lost::NotSent(_)) => {}
                // A read may be repeated.
                Err(Lost::Cut(_)) if call.method() == "GET" => {}
                Err(Lost::Cut(why)) => return Err(NoReply::Cut(why)),
                Ok(reply) => {
                    self.open = Some(kept);
                    return Ok(reply);
                }
            }
        }
        let mut connection = self.connect()?;
        match self.once(&mut connection, call) {
            Ok(reply) => {
                self.open = Some(connection);
                Ok(reply)
            }
            Err(Lost::NotSent(why) | Lost::Cut(why)) => Err(NoReply::Cut(why)),
        }
    }

    /// Makes a call that must be granted.
    pub(crate) fn call<T: FromReply>(&mut self, call: &Call<T>) -> Result<T, String> {
        let reply = self.send(call).map_err(|why| format!("{call:?}: {why}"))?;
        match reply.is_success() {
            true => T::from_reply(reply).map_err(|why| format!("{call:?}: {why}")),
            false => Err(format!("{call:?}: {} {}", reply.status, String::from_utf8_lossy(&reply.body))),
        }
    }

    fn once<T>(&self, connection: &mut Connection, call: &Call<T>) -> Result<Reply, Lost> {
        let sent = async { tokio::time::timeout(REPLY_MAX, connection.send(call)).await };
        let late = || Lost::Cut(format!("no reply within {} s", REPLY_MAX.as_secs()));
        self.runtime.block_on(sent).unwrap_or_else(|_| Err(late()))
    }

    fn connect(&self) -> Result<Connection, NoReply> {
        self.runtime.block_on(async {
            let stream = self.daemon.connect(false).await;
            let stream = stream.map_err(|error| NoReply::NotListening(error.to_string()))?;
            Connection::open(stream).await.map_err(|lost| NoReply::NotListening(lost.to_string()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn not_listening_and_cut_off_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let show = lastword_client::daemon::show();
        assert!(matches!(Client::new(&socket).send(&show), Err(NoReply::NotListening(_))));
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let hangs_up = std::thread::spawn(move || listener.accept().map(drop));
        assert!(matches!(Client::new(&socket).send(&show), Err(NoReply::Cut(_))));
        hangs_up.join().unwrap().unwrap();
    }
}
