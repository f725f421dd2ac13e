//! Replies, and how they become types of the API.

use hyper::HeaderMap;
use hyper::body::Bytes;
use lastword_api::{
    Accepted, Changes, Code, ConversationInFull, Daemon, Feed, Fleet, Group, Invitation, Job, JobResult,
    Page, Problem, Processes, Pruned, Resized, Stopping, UsageSums, VERSION_HEADER,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A reply as it was received.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Reply {
    /// Returns a header, if it is there and text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Returns the version of the daemon. A reply without one is not from a daemon of Lastword.
    pub fn version(&self) -> Option<&str> {
        self.header(VERSION_HEADER)
    }

    /// Reports whether it is a success.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Returns the problem of a reply that is no success.
    pub fn problem(&self) -> Problem {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| Problem {
            status: self.status,
            ..Problem::new(Code::Internal, format!("the daemon answered {}", self.status))
        })
    }
}

/// A type that a successful reply is read as.
pub trait FromReply: Sized {
    /// Reads it. An error says what is wrong with the reply.
    fn from_reply(reply: Reply) -> Result<Self, String>;
}

impl FromReply for Reply {
    fn from_reply(reply: Reply) -> Result<Reply, String> {
        Ok(reply)
    }
}

impl FromReply for () {
    fn from_reply(_: Reply) -> Result<(), String> {
        Ok(())
    }
}

impl<T: DeserializeOwned> FromReply for Page<T> {
    fn from_reply(reply: Reply) -> Result<Page<T>, String> {
        json(&reply)
    }
}

macro_rules! documents {
    ($($name:ty),+) => {
        $(impl FromReply for $name {
            fn from_reply(reply: Reply) -> Result<$name, String> {
                json(&reply)
            }
        })+
    };
}

documents!(
    Accepted,
    Changes,
    ConversationInFull,
    Daemon,
    Feed,
    Fleet,
    Group,
    Invitation,
    Job,
    JobResult,
    Processes,
    Pruned,
    Resized,
    Stopping,
    UsageSums,
    Value
);

fn json<T: DeserializeOwned>(reply: &Reply) -> Result<T, String> {
    serde_json::from_slice(&reply.body).map_err(|error| error.to_string())
}
