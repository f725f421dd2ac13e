//! Waiting for a daemon that accepts connections and does not answer, because it is stopped or hangs. The wait is bounded.

use std::future::Future;
use std::time::{Duration, Instant};

/// How long a reply may take before the daemon is asked whether it is there. Most calls are answered long before.
const CHECK_FIRST: Duration = Duration::from_secs(1);

/// The same from then on. Many calls wait on purpose.
const CHECK: Duration = Duration::from_secs(5);

/// How long a daemon may take to say that it is there.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(2);

/// How long a call waits for a daemon that does not answer.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// The daemon did not answer for this long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Silent(pub(crate) Duration);

/// Waits for a reply for as long as the daemon is there. `is_there` asks it, and `silent` does something about it when it stops answering.
pub(crate) async fn wait<T, A: Future<Output = bool>, B: Future<Output = ()>>(
    reply: impl Future<Output = T>,
    is_there: impl Fn() -> A,
    silent: impl Fn() -> B,
) -> Result<T, Silent> {
    let mut reply = std::pin::pin!(reply);
    let mut silent_since: Option<Instant> = None;
    let mut check = CHECK_FIRST;
    loop {
        if let Ok(reply) = tokio::time::timeout(check, &mut reply).await {
            return Ok(reply);
        }
        check = CHECK;
        let begin = Instant::now();
        let is_there = tokio::select! {
            reply = &mut reply => return Ok(reply),
            // Boxed, because it is rare and every call would carry its size.
            is_there = Box::pin(is_there()) => is_there,
        };
        match silent_since {
            _ if is_there => silent_since = None,
            None => {
                silent_since = Some(begin);
                tokio::select! {
                    reply = &mut reply => return Ok(reply),
                    () = Box::pin(silent()) => {}
                }
            }
            Some(since) if since.elapsed() > SILENCE_MAX => return Err(Silent(SILENCE_MAX)),
            Some(_) => {}
        }
    }
}
