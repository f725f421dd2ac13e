//! A daemon that is there and says nothing: somebody has stopped it, or it hangs. Whoever waits for an answer is told so, and is not
//! kept for ever.

use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::HOST;
use hyper::{Request, Response};
use lastword_api::Code;

use super::{Client, Lost, connect};
use crate::failure::Failure;
use crate::lock::Holder;

/// How long an answer may take before the daemon is asked whether it is there. It may well: many calls wait on purpose.
const LOOK: Duration = Duration::from_secs(5);

/// How long it may take to say that it is.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// How long somebody waits for a daemon that does not.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Returns what it means that there is no answer. A call that was never made was turned away at the door.
fn lost(error: hyper::Error) -> Lost {
    match error.is_canceled() {
        true => Lost::Starting(Failure::new(Code::Unavailable, "the daemon takes no more connections now")),
        false => Lost::Connection(error),
    }
}

impl Client {
    /// Waits for an answer, as long as the daemon is there.
    pub(super) async fn patiently(
        &self,
        answer: impl Future<Output = hyper::Result<Response<Incoming>>>,
    ) -> Result<Response<Incoming>, Lost> {
        let mut answer = std::pin::pin!(answer);
        let mut silent: Option<Instant> = None;
        loop {
            if let Ok(answer) = tokio::time::timeout(LOOK, &mut answer).await {
                return answer.map_err(lost);
            }
            let begin = Instant::now();
            let is_there = tokio::select! {
                answer = &mut answer => return answer.map_err(lost),
                // Boxed, because it is rare, and every call would carry its size.
                is_there = Box::pin(self.is_there()) => is_there,
            };
            match silent {
                _ if is_there => silent = None,
                None => {
                    self.0.ui.say(&format!(
                        "lastword: the daemon{} does not answer; waiting for it",
                        self.whose()
                    ));
                    silent = Some(begin);
                }
                Some(since) if since.elapsed() > SILENCE_MAX => return Err(Lost::Told(self.silent())),
                Some(_) => {}
            }
        }
    }

    /// Reports whether the daemon answers the shortest question there is.
    pub(crate) async fn is_there(&self) -> bool {
        let asked = tokio::time::timeout(ANSWER_MAX, async {
            let mut sender = connect::knock(&self.0.paths).await.ok()??;
            let request =
                Request::get("/livez").header(HOST, "lastword").body(Full::<Bytes>::default()).ok()?;
            sender.send_request(request).await.ok()
        });
        matches!(asked.await, Ok(Some(_)))
    }

    fn whose(&self) -> String {
        Holder::of(&self.0.paths).map_or_else(String::new, |holder| format!(" (pid {})", holder.pid))
    }

    fn silent(&self) -> Failure {
        let text = format!(
            "the daemon{} has not answered for {} s, and may still do what was asked",
            self.whose(),
            SILENCE_MAX.as_secs()
        );
        Failure::new(Code::Unavailable, text).next("lastword daemon restart    # jobs go on meanwhile")
    }
}
