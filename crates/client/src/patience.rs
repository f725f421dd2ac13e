//! Waiting for a daemon that accepts connections and does not answer, because it is stopped or hangs. The wait is bounded.

use std::future::Future;
use std::time::{Duration, Instant};

/// How long a reply may take before the daemon is asked whether it is there. Many calls wait on purpose.
const CHECK: Duration = Duration::from_secs(5);

/// How long a daemon may take to say that it is there.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(2);

/// How long a call waits for a daemon that does not answer.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// The daemon did not answer for this long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Silent(pub(crate) Duration);

/// Waits for a reply for as long as the daemon is there. `is_there` asks it, and `notice` is called when it stops answering.
pub(crate) async fn wait<T, A: Future<Output = bool>>(
    reply: impl Future<Output = T>,
    is_there: impl Fn() -> A,
    notice: impl Fn(),
) -> Result<T, Silent> {
    let mut reply = std::pin::pin!(reply);
    let mut silent_since: Option<Instant> = None;
    loop {
        if let Ok(reply) = tokio::time::timeout(CHECK, &mut reply).await {
            return Ok(reply);
        }
        let begin = Instant::now();
        let is_there = tokio::select! {
            reply = &mut reply => return Ok(reply),
            // Boxed, because it is rare and every call would carry its size.
            is_there = Box::pin(is_there()) => is_there,
        };
        match silent_since {
            _ if is_there => silent_since = None,
            None => {
                notice();
                silent_since = Some(begin);
            }
            Some(since) if since.elapsed() > SILENCE_MAX => return Err(Silent(SILENCE_MAX)),
            Some(_) => {}
        }
    }
}
