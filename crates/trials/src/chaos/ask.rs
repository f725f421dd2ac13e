//! A request that is made until it is answered: the same one, with the same key, through whatever happens to the daemon.

use std::time::{Duration, Instant};

use lastword_client::{Call, FromReply};

use super::plan::Order;
use super::stage::Stage;
use crate::clock;
use crate::product::client::{Client, NoReply, code_of};

/// How long one request is asked again: longer than any window of faults.
const ASK_MAX: Duration = Duration::from_secs(40);

/// Pause between two tries.
const AGAIN: Duration = Duration::from_millis(60);

/// After this long without a daemon, the client that calls it starts one, as a supervisor would.
const ALONE_MAX: Duration = Duration::from_secs(2);

/// Refusals that say how a job stands, and that its state explains: it has ended, has not yet, or is gone.
const OF_ITS_STATE: [&str; 4] = ["ended", "not_ended", "not_found", "removed"];

/// Asks until there is an answer that is not "later". An error is the code of a no for good; empty if there never was an answer.
pub(crate) fn ask<T: FromReply>(stage: &Stage, call: &Call<T>) -> Result<T, String> {
    ask_on(stage, &mut stage.product.client(), call)
}

/// Asks so on a connection that stays open for the next request.
pub(crate) fn ask_on<T: FromReply>(stage: &Stage, client: &mut Client, call: &Call<T>) -> Result<T, String> {
    let (begin, mut alone) = (Instant::now(), None);
    while begin.elapsed() < ASK_MAX && !stage.is_over() {
        match client.send(call) {
            Ok(reply) if reply.is_success() => {
                if reply.header("idempotency-replayed") == Some("true") {
                    stage.count("answers replayed");
                }
                return T::from_reply(reply).inspect_err(|why| eprintln!("{call:?}: {why}"));
            }
            Ok(reply) if reply.problem().retryable => {
                stage.count("asked to come again");
                alone = None;
            }
            Ok(reply) => {
                let code = code_of(&reply);
                let is_of_its_state = OF_ITS_STATE.contains(&code.as_str());
                stage.count(if is_of_its_state { "came too late" } else { "refused" });
                if !is_of_its_state {
                    eprintln!("{call:?}: {}", String::from_utf8_lossy(&reply.body));
                }
                return Err(code);
            }
            Err(NoReply::Cut(_)) => stage.count("answers lost"),
            Err(NoReply::NotListening(_)) => {
                stage.count("nobody there");
                let since = *alone.get_or_insert_with(Instant::now);
                if since.elapsed() > ALONE_MAX {
                    stage.count("daemons started by a supervisor");
                    stage.members.revive();
                    alone = None;
                }
            }
        }
        clock::rest(AGAIN);
    }
    stage.count("given up");
    Err(String::new())
}

/// Returns the key that a job is submitted with through the API.
pub(crate) fn key(stage: &Stage, order: &Order) -> String {
    format!("chaos-{}-{}", stage.mix.seed, order.number)
}
