//! Every error as a problem.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use lastword_api::{Code, Problem, Row, Time};
use lastword_core::Illegal;
use lastword_core::decide::Refusal;
use lastword_engine::{Away, Error, FindError};
use lastword_store as store;

/// The media type of a problem.
const PROBLEM: HeaderValue = HeaderValue::from_static("application/problem+json");

/// The result of a handler.
pub(crate) type Reply = Result<Response, Failure>;

/// The problem that a handler returns instead of a response. [`write_problem`] writes its body, with the number of the request.
#[derive(Debug)]
pub(crate) struct Failure(Box<Problem>);

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Failure {
        Failure(Box::new(problem))
    }
}

impl Failure {
    /// Returns its code.
    pub(crate) fn code(&self) -> &Code {
        &self.0.code
    }

    /// Returns the failure of an invalid request.
    pub(crate) fn invalid(detail: impl Into<String>) -> Failure {
        Problem::new(Code::Invalid, detail).into()
    }

    /// Reports whether the journal could not be used, rather than the request.
    pub(crate) fn is_of_journal(&self) -> bool {
        matches!(self.0.code, Code::Unavailable | Code::Corrupt)
    }

    /// Returns the problem.
    pub(crate) fn problem(&self) -> &Problem {
        &self.0
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = status.into_response();
        response.extensions_mut().insert(self.0);
        response
    }
}

/// Writes the body of a problem, with the number of its request. An error status without a problem, from the framework, gets one here.
pub(crate) fn write_problem(mut response: Response, request: u64) -> Response {
    let status = response.status();
    let problem = response.extensions_mut().remove::<Box<Problem>>();
    let default =
        || (status.is_client_error() || status.is_server_error()).then(|| Box::new(default_problem(status)));
    let Some(mut problem) = problem.or_else(default) else { return response };
    problem.instance = Some(format!("urn:lastword:request:{request}"));
    if problem.retryable {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    let body = serde_json::to_vec(&problem).unwrap_or_default();
    response.headers_mut().insert(header::CONTENT_TYPE, PROBLEM);
    response.headers_mut().remove(header::CONTENT_LENGTH);
    *response.body_mut() = body.into();
    response
}

/// Returns the problem for an error status without one.
fn default_problem(status: StatusCode) -> Problem {
    let (code, detail) = match status {
        StatusCode::NOT_FOUND => (Code::NotFound, "there is nothing at this path; see /openapi.json"),
        StatusCode::METHOD_NOT_ALLOWED => {
            (Code::Invalid, "this path does not have this method; see /openapi.json")
        }
        StatusCode::PAYLOAD_TOO_LARGE => (Code::TooLarge, "the request is larger than allowed"),
        status if status.is_client_error() => (Code::Invalid, "the request cannot be understood"),
        _ => (Code::Internal, "the daemon failed; its log says more"),
    };
    Problem { status: status.as_u16(), ..Problem::new(code, detail) }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        let detail = refusal.to_string();
        let (code, job) = match refusal {
            Refusal::NotFound(job) => (Code::NotFound, Some(job)),
            Refusal::IdTaken(job) => (Code::Conflict, Some(job)),
            Refusal::Invalid(_) | Refusal::Unmeasured(..) | Refusal::NotAValue(_) | Refusal::TooLow(_) => {
                (Code::Invalid, None)
            }
            Refusal::Ended(job) => (Code::Ended, Some(job)),
            Refusal::NotEnded(job) => (Code::NotEnded, Some(job)),
            Refusal::Held(job, _) | Refusal::Kept(job) => (Code::Held, Some(job)),
            Refusal::NotDue(job) | Refusal::Nothing(job, _) => (Code::Conflict, Some(job)),
            Refusal::Finished(job) => (Code::Ended, Some(job)),
            Refusal::Exceeds(job) => (Code::Forbidden, Some(job)),
            Refusal::Continued(_, next) => (Code::Continued, Some(next)),
            Refusal::UsedUp(job, _) => (Code::UsedUp, Some(job)),
            Refusal::NeedsNewerReader(job) => (Code::NewerReader, Some(job)),
            Refusal::Full(job, _) => (Code::Full, Some(job)),
        };
        let problem = Problem::new(code, detail);
        match job {
            Some(job) => problem.about(job).into(),
            None => problem.into(),
        }
    }
}

impl From<store::Error> for Failure {
    fn from(error: store::Error) -> Failure {
        let detail = error.to_string();
        match error {
            // The engine has retried several times, but the same request may succeed later.
            store::Error::Conflict { job, .. } => {
                Problem { retryable: true, ..Problem::new(Code::Conflict, detail) }.about(job).into()
            }
            store::Error::Fenced { job } => Problem::new(Code::Held, detail).about(job).into(),
            store::Error::Lapsed { .. }
            | store::Error::Taken { .. }
            | store::Error::LeaseTooLong { .. }
            | store::Error::Unavailable(_)
            | store::Error::Newer { .. } => Problem::new(Code::Unavailable, detail).into(),
            store::Error::Corrupt(_) => Problem::new(Code::Corrupt, detail).into(),
            store::Error::Refused(_) => Problem::new(Code::Forbidden, detail).into(),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let detail = error.to_string();
        match error {
            Error::Refused(refusal) => refusal.into(),
            Error::Journal(error) => error.into(),
            Error::Illegal(Illegal::OutOfPlace { job, .. }) => {
                let detail = format!("the log of the job is damaged, and the job is left alone: {detail}");
                Problem::new(Code::Corrupt, detail).about(job).into()
            }
            Error::Illegal(Illegal::Empty | Illegal::NotTheOwner(_)) => {
                Problem::new(Code::Internal, detail).into()
            }
            Error::NoAttempt(missing) => Problem::new(Code::NotFound, detail).about(missing.job).into(),
            Error::GroupStays(_) => Problem::new(Code::Invalid, detail).into(),
            Error::InUse { by, .. } | Error::Awaited { by, .. } => {
                Problem::new(Code::NotEnded, detail).about(by).into()
            }
            Error::InConversation { id, .. } => Problem::new(Code::InConversation, detail).about(id).into(),
            Error::Unsaved { job, .. } => Problem::new(Code::Unsaved, detail).about(job).into(),
            Error::Away(away) => Problem::new(Code::HostAway, away_words(&away)).about(away.id).into(),
            Error::Unread { .. } | Error::Disk { .. } | Error::NoRandom(_) => {
                Problem::new(Code::Unavailable, detail).into()
            }
            Error::GoingDown => Problem::new(Code::Stopping, detail).into(),
        }
    }
}

/// Says which host has the output and since when it is away.
fn away_words(away: &Away) -> String {
    let Away { job, owner, since, may_be_elsewhere, .. } = away;
    let since = since.map(|since| format!(" since {}", Time::from(since)));
    match may_be_elsewhere {
        true => format!(
            "the output of {job} is on the host of worker {owner}, which has not been connected to this server{}; \
             it may be connected to another one of the fleet, which can read it then",
            since.unwrap_or_default()
        ),
        false => format!(
            "the output of {job} is on the host of worker {owner}, which has been away{}; it can be read when that is back",
            since.unwrap_or_else(|| " since before this server was started".to_owned())
        ),
    }
}

impl From<FindError> for Failure {
    fn from(error: FindError) -> Failure {
        let detail = error.to_string();
        match error {
            FindError::NotFound(_) => Problem::new(Code::NotFound, detail).into(),
            FindError::Ambiguous { candidates, .. } => {
                Problem::new(Code::Ambiguous, detail).among(candidates.iter().map(Row::of)).into()
            }
            FindError::Engine(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use lastword_core::limits::{BadSetting, Limit};
    use lastword_core::{JobId, OwnerId, Seq, Timestamp};

    use super::*;

    fn job() -> JobId {
        JobId::new(0, Timestamp(1), [7; 10])
    }

    fn owner() -> OwnerId {
        OwnerId("ann".into())
    }

    /// Checks a sample of each variant. `number` is an exhaustive `match`, so that a new variant does not compile before it is added here.
    fn walk<T: Into<Failure>>(samples: Vec<T>, number: impl Fn(&T) -> (usize, Code), variants: usize) {
        let mut met = std::collections::BTreeSet::new();
        for sample in samples {
            let (variant, code) = number(&sample);
            met.insert(variant);
            let failure: Failure = sample.into();
            let problem = failure.problem();
            assert_eq!(problem.code, code);
            assert_eq!(problem.status, code.status());
            assert!(!problem.detail.is_empty() && !problem.title.is_empty());
        }
        assert_eq!(met.into_iter().collect::<Vec<_>>(), (0..variants).collect::<Vec<_>>());
    }

    #[test]
    fn every_refusal_has_a_problem() {
        use Refusal::*;
        let samples = vec![
            NotFound(job()),
            IdTaken(job()),
            Invalid("it is"),
            Ended(job()),
            NotEnded(job()),
            Held(job(), owner()),
            NotDue(job()),
            Kept(job()),
            NeedsNewerReader(job()),
            Nothing(job(), "nothing"),
            Full(job(), "64"),
            Unmeasured("gemini".to_owned(), Limit::Money),
            NotAValue(BadSetting::Unknown("speed".to_owned())),
            TooLow(Limit::Money),
            Continued(job(), job()),
            UsedUp(job(), Limit::Money),
            Finished(job()),
            Exceeds(job()),
        ];
        let number = |refusal: &Refusal| match refusal {
            NotFound(_) => (0, Code::NotFound),
            IdTaken(_) => (1, Code::Conflict),
            Invalid(_) => (2, Code::Invalid),
            Ended(_) => (3, Code::Ended),
            NotEnded(_) => (4, Code::NotEnded),
            Held(..) => (5, Code::Held),
            NotDue(_) => (6, Code::Conflict),
            Kept(_) => (7, Code::Held),
            NeedsNewerReader(_) => (8, Code::NewerReader),
            Nothing(..) => (9, Code::Conflict),
            Full(..) => (10, Code::Full),
            Unmeasured(..) => (11, Code::Invalid),
            NotAValue(_) => (12, Code::Invalid),
            TooLow(_) => (13, Code::Invalid),
            Continued(..) => (14, Code::Continued),
            UsedUp(..) => (15, Code::UsedUp),
            Finished(_) => (16, Code::Ended),
            Exceeds(_) => (17, Code::Forbidden),
        };
        walk(samples, number, 18);
    }

    #[test]
    fn c3_every_error_of_the_journal_has_a_problem() {
        use store::Error::*;
        let samples = vec![
            Conflict { job: job(), actual: Seq(3) },
            Fenced { job: job() },
            Lapsed { owner: owner() },
            Unavailable("away".to_owned()),
            Corrupt("torn".to_owned()),
            Newer { found: 4, known: 3 },
            LeaseTooLong { owner: owner(), lease_ms: 2, max_ms: 1 },
            Refused("not yours".to_owned()),
            Taken { owner: owner() },
        ];
        let number = |error: &store::Error| match error {
            Conflict { .. } => (0, Code::Conflict),
            Fenced { .. } => (1, Code::Held),
            Lapsed { .. } => (2, Code::Unavailable),
            Unavailable(_) => (3, Code::Unavailable),
            Corrupt(_) => (4, Code::Corrupt),
            Newer { .. } => (5, Code::Unavailable),
            LeaseTooLong { .. } => (6, Code::Unavailable),
            Refused(_) => (7, Code::Forbidden),
            Taken { .. } => (8, Code::Unavailable),
        };
        walk(samples, number, 9);
    }

    #[test]
    fn an_error_status_without_a_problem_gets_one() {
        for (status, code) in [
            (StatusCode::NOT_FOUND, "not_found"),
            (StatusCode::METHOD_NOT_ALLOWED, "invalid"),
            (StatusCode::PAYLOAD_TOO_LARGE, "too_large"),
            (StatusCode::UNSUPPORTED_MEDIA_TYPE, "invalid"),
            (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
        ] {
            let response = write_problem(status.into_response(), 7);
            assert_eq!(response.status(), status);
            assert_eq!(response.headers()[header::CONTENT_TYPE], PROBLEM);
            let problem = default_problem(status);
            assert_eq!((problem.status, problem.code.as_str()), (status.as_u16(), code));
        }
        assert_eq!(write_problem(StatusCode::NO_CONTENT.into_response(), 8).headers().len(), 0);
    }
}
