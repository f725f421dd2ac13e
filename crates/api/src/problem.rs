//! Every answer that is not a success: problem details by RFC 9457, with a code that programs decide by.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Row;
use crate::enums::{Code, Phase};

/// Why a request came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// The code as a name for ever: `urn:lastword:problem:` and the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// What kind of problem it is, for people.
    pub title: String,
    /// The status of the answer.
    pub status: u16,
    /// What happened here, to which job, and what to do about it.
    pub detail: String,
    /// What kind of problem it is, for programs.
    pub code: Code,
    /// The request, by its number in the daemon's log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// The job it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// The jobs that an ambiguous reference may mean.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<Candidate>,
    /// Whether the very same request may succeed later.
    pub retryable: bool,
}

/// A job that a reference may mean.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Candidate {
    /// Its id.
    pub id: String,
    /// The last eight characters of the id.
    pub short: String,
    /// Its name.
    pub name: Option<String>,
    /// What runs.
    pub title: String,
    /// Where it stands.
    pub phase: Phase,
}

impl Code {
    /// Returns the status of an answer with this code.
    pub fn status(&self) -> u16 {
        match self {
            Code::NotFound => 404,
            Code::Invalid => 400,
            Code::Ambiguous | Code::Ended | Code::NotEnded | Code::Held | Code::Conflict | Code::Unsaved => {
                409
            }
            Code::InsideAJob | Code::Forbidden => 403,
            Code::TooLarge => 413,
            Code::KeyReused => 422,
            Code::Full => 429,
            Code::Unavailable | Code::Starting => 503,
            Code::Corrupt | Code::NewerReader | Code::Internal | Code::Other(_) => 500,
        }
    }

    /// Returns what kind of problem it is, for people.
    pub fn title(&self) -> &str {
        match self {
            Code::NotFound => "There is no such thing",
            Code::Ambiguous => "Several jobs are meant",
            Code::Invalid => "The request cannot be used",
            Code::Ended => "The job has ended",
            Code::NotEnded => "The job has not ended",
            Code::Held => "Somebody else holds the job",
            Code::InsideAJob => "Not from inside a job",
            Code::KeyReused => "The idempotency key was used for something else",
            Code::Conflict => "Somebody else was faster",
            Code::Full => "A bound was reached",
            Code::Unavailable => "Not available now",
            Code::Corrupt => "What is stored cannot be read",
            Code::NewerReader => "Written by a newer build",
            Code::Starting => "The daemon is starting",
            Code::TooLarge => "The request is too large",
            Code::Forbidden => "Not allowed",
            Code::Unsaved => "Work would be lost",
            Code::Internal => "A bug of Lastword",
            Code::Other(word) => word,
        }
    }

    /// Reports whether the very same request may succeed later.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Code::Unavailable | Code::Starting | Code::Full | Code::Held)
    }
}

impl Problem {
    /// Returns the problem of a code, told by `detail`.
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

    /// Says which job it is about.
    pub fn about(mut self, job: impl ToString) -> Problem {
        self.job = Some(job.to_string());
        self
    }

    /// Says which jobs a reference may mean.
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
    fn a_problem_says_its_code_three_times_the_same() {
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
