//! What a process does that is going to be killed: whole lives of jobs, several at a time, as fast as it can, and a
//! line for each append that was acknowledged.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use lastword_core::event::{LimitChanged, Submitted};
use lastword_core::limits::{Limit, Limits};
use lastword_core::worker_labels::WorkerLabels;
use lastword_core::{Append, Fact, Fence, Job, JobId, Seq};
use lastword_store::{Claim, Journal, Source};

use super::history::{Acked, Mark};
use crate::jobs;

/// Requests that each job gets before its owner runs it: enough for a log to span several batches.
const REQUESTS: u64 = 8;

/// A lease that no run outlives: losing it is not what is tested here.
const LEASE_MS: u64 = 1 << 40;

/// Where acknowledgements go. Each line is written at once, so that a killed process leaves whole ones.
pub type Acks = Arc<Mutex<dyn Write + Send>>;

/// Returns the job id of a number.
fn id(number: u64) -> JobId {
    let mut random = [0; 10];
    random[1..9].copy_from_slice(&number.to_be_bytes());
    JobId::new(0, jobs::NOW.plus_ms(number & 0xffff_ffff), random)
}

/// Returns a submission whose event carries a mark.
pub fn submission(job: JobId, queue: &str, name: &str) -> (Append, Job) {
    let by = Mark { name: name.to_owned(), events: 1 }.to_string();
    let fact = Submitted { spec: Arc::new(jobs::spec(queue)), by, limits: Limits::default(), carried: None };
    let unborn = Job::unborn(job);
    Append::new(&unborn, None, jobs::append_id(), jobs::NOW, vec![fact.into()]).expect("it opens a log")
}

/// Returns an append of `events` changes of a limit, the first of which carries a mark.
pub fn marked(job: &Job, fence: Option<&Fence>, name: &str, events: u64) -> (Append, Job) {
    let change = |by, value| Fact::from(LimitChanged { by, limit: Limit::Wall, value });
    let more = (1..events).map(|value| change("again".to_owned(), value));
    with_mark(job, fence, name, more.collect())
}

fn with_mark(job: &Job, fence: Option<&Fence>, name: &str, more: Vec<Fact>) -> (Append, Job) {
    let by = Mark { name: name.to_owned(), events: more.len() + 1 }.to_string();
    let first = LimitChanged { by, limit: Limit::Wall, value: 1 };
    let facts = std::iter::once(first.into()).chain(more).collect();
    jobs::append(job, fence, facts)
}

/// Runs job after job until the process is killed or the journal fails. `run` and `worker` keep names apart.
pub async fn work(journal: impl Journal, run: u64, worker: u64, acks: Acks) -> lastword_store::Result<()> {
    let by = jobs::register(&journal, &format!("owner-{worker}"), LEASE_MS).await?;
    // A queue for each run and worker: a job that a killed run left behind is not taken by mistake.
    let queue = format!("queue-{run}-{worker}");
    for n in 0.. {
        let number = (run << 40) | (worker << 32) | n;
        let name = |step: &str| format!("{number:x}-{step}");
        let (append, mut job) = submission(id(number), &queue, &name("submit"));
        store(&journal, append, &acks).await?;
        for request in 0..REQUESTS {
            let (append, next) = marked(&job, None, &name(&request.to_string()), 1 + request % 3);
            store(&journal, append, &acks).await?;
            job = next;
        }
        let from = Source::Ready { group: queue.clone(), slots: None };
        let claim = Claim {
            by: by.clone(),
            from,
            labels: WorkerLabels::default(),
            at_most: 1,
            now: jobs::NOW.plus_ms(u64::from(u32::MAX)),
        };
        for claimed in journal.claim(claim).await? {
            job = Job::fold(claimed.job, &claimed.events).expect("a claimed log folds");
            acknowledge(&acks, job.id, claimed.events.last().map(|event| (event.seq, Mark::of(event))));
            for (step, facts) in jobs::life(&job).into_iter().enumerate() {
                let (append, next) =
                    with_mark(&job, Some(&claimed.fence), &name(&format!("life-{step}")), facts);
                store(&journal, append, &acks).await?;
                job = next;
            }
        }
    }
    Ok(())
}

async fn store(journal: &impl Journal, append: Append, acks: &Acks) -> lastword_store::Result<()> {
    let (job, first) = (append.job, append.events.first().map(|event| (event.seq, Mark::of(event))));
    journal.append(append).await?;
    acknowledge(acks, job, first);
    Ok(())
}

fn acknowledge(acks: &Acks, job: JobId, first: Option<(Seq, Option<Mark>)>) {
    let Some((first, Some(mark))) = first else { unreachable!("every append opens with a mark") };
    let line = format!("{}\n", Acked { job, first, mark });
    let mut acks = acks.lock().unwrap_or_else(PoisonError::into_inner);
    // Panics if the reader is gone: without it there is no reason to go on.
    acks.write_all(line.as_bytes()).and_then(|()| acks.flush()).expect("somebody reads the acknowledgements");
}

/// Returns standard output as the place for acknowledgements, past the line buffer.
pub fn stdout() -> Acks {
    Arc::new(Mutex::new(io::stdout()))
}
