//! The rate of something that is done many times, on several threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Runs `job` so many times on so many threads and returns how many a second.
pub(super) fn timed(
    at_once: usize,
    jobs: usize,
    job: impl Fn(usize) -> Result<(), String> + Sync,
) -> Result<f64, String> {
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= jobs {
                        return;
                    }
                    if let Err(why) = job(number) {
                        failed.lock().expect("no thread fails while it holds this").get_or_insert(why);
                        next.store(jobs, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let took = begin.elapsed().as_secs_f64();
    match failed.into_inner().expect("no thread failed while it held this") {
        Some(why) => Err(why),
        None => Ok(jobs as f64 / took),
    }
}
