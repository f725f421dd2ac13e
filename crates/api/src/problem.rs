//! Problems: every response that is not a success, as problem details (RFC 9457) with a code for programs.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Row;
use crate::enums::{Code, Phase};

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// The code as a URN: `urn:lastword:problem:` and the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind of problem, for people.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened, to which job, and what to do about it.
    pub detail: String,
    /// The kind of problem, for programs.
    pub code: Code,
    /// The number of the request in the daemon's log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// The job it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// The jobs that an ambiguous reference matches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<Candidate>,
    /// Whether the same request may succeed later.
    pub retryable: bool,
}

/// A job that an ambiguous reference matches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Candidate {
    /// Its id.
    pub id: String,
    /// The last eight characters of the id.
    pub short: String,
    /// Its name.
    pub name: Option<String>,
    /// Its command or prompt, in one line.
    pub title: String,
    /// Its phase.
    pub phase: Phase,
}

impl Code {
    /// Returns the HTTP status for this code.
    pub fn status(&self) -> u16 {
        match self {
            Code::NotFound => 404,
            Code::Invalid => 400,
            Code::Ambiguous
            | Code::Ended
            | Code::NotEnded
            | Code::Held
            | Code::Conflict
            | Code::Unsaved
            | Code::InConversation
            | Code::Continued
            | Code::UsedUp => 409,
            Code::InsideAJob | Code::Forbidden => 403,
            Code::TooLarge => 413,
            Code::Removed => 410,
            Code::KeyReused => 422,
            Code::Full => 429,
            Code::Unavailable | Code::Starting | Code::Stopping | Code::HostAway => 503,
            Code::Corrupt | Code::NewerReader | Code::Internal | Code::Other(_) => 500,
        }
    }

    /// Returns the title for people.
    pub fn title(&self) -> &str {
        match self {
            Code::NotFound => "Not found",
            Code::Ambiguous => "Ambiguous job reference",
            Code::Invalid => "Invalid request",
            Code::Ended => "The job has ended",
            Code::NotEnded => "The job has not ended",
            Code::Held => "Another owner holds the job",
            Code::InsideAJob => "Not allowed from inside a job",
            Code::KeyReused => "The idempotency key was used for another request",
            Code::Removed => "The job of this key was removed",
            Code::Conflict => "The job was changed meanwhile",
            Code::Full => "A limit was reached",
            Code::Unavailable => "Temporarily unavailable",
            Code::Corrupt => "Stored data cannot be read",
            Code::NewerReader => "Written by a newer version",
            Code::Starting => "The daemon is starting",
            Code::Stopping => "The daemon is stopping",
            Code::TooLarge => "The request is too large",
            Code::Forbidden => "Not allowed",
            Code::HostAway => "The host is away",
            Code::Unsaved => "Unsaved work would be lost",
            Code::InConversation => "One of several jobs of a conversation",
            Code::Continued => "The conversation goes on",
            Code::UsedUp => "The budget of the conversation is used up",
            Code::Internal => "A bug in Lastword",
            Code::Other(name) => name,
        }
    }

    /// Reports whether the same request may succeed later.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Code::Unavailable | Code::Starting | Code::Stopping | Code::Full | Code::Held | Code::HostAway
        )
    }
}

impl Problem {
    /// Returns a problem with this code and detail.
    pub fn new(code: Code, detail: impl Into<String>) -> Problem {
        Problem {
            kind: format!("urn:lastword:problem:{code}"),
            title: code.title().to_owned(),
            status: code.status(),
            detail: detail.into(),
            instance: None,
            job: None,
            candidates: Vec::new(),
            retryable: code.is_retryable(),
            code,
        }
    }

    /// Adds the job it is about.
    pub fn about(mut self, job: impl ToString) -> Problem {
        self.job = Some(job.to_string());
        self
    }

    /// Adds the jobs that a reference matches.
    pub fn among(mut self, rows: impl IntoIterator<Item = Row>) -> Problem {
        self.candidates = rows.into_iter().map(Candidate::of).collect();
        self
    }
}

impl Candidate {
    fn of(row: Row) -> Candidate {
        Candidate { id: row.id, short: row.short, name: row.name, title: row.title, phase: row.phase }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_code_and_status_of_a_problem_agree() {
        for code in Code::ALL {
            let problem = Problem::new(code.clone(), "so it is");
            let json = serde_json::to_value(&problem).unwrap();
            assert_eq!(json["type"], format!("urn:lastword:problem:{code}"));
            assert_eq!(json["code"], code.as_str());
            assert_eq!(json["status"], code.status());
            assert_eq!(serde_json::from_value::<Problem>(json).unwrap(), problem);
        }
    }
}
