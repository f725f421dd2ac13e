//! Wake-ups: this process is told of its own commits at once, others by one NOTIFY, at most every few milliseconds, on a connection of its own.
//!
//! Never in the transaction that stores: there it would queue all commits behind each other. The rows are the truth;
//! losing every hint costs time only.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deadpool_postgres::Pool;
use lastword_core::JobId;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_postgres::{AsyncMessage, Config, NoTls};

use super::failure::Try;
use super::options::ANSWER_MAX;
use crate::hints::{Bell, Hint, Hints};

/// How long commits are gathered into one NOTIFY. Short beside a person's reaction, long beside a commit.
const GATHER: Duration = Duration::from_millis(10);

/// The pause before the listener connects again. Meanwhile waiting readers poll.
const RECONNECT: Duration = Duration::from_millis(200);

/// Gives hints to this process and sends them to others.
pub(super) struct Wake {
    bell: Arc<Bell>,
    /// Tells the notifications of this process from those of others.
    sender: Arc<str>,
    committed: Arc<Notify>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Wake {
    pub(super) fn new() -> Wake {
        let mut random = [0; 8];
        // Without random bytes it hears its own commits twice, or those of another such process at its next poll.
        let _ = getrandom::fill(&mut random);
        Wake {
            bell: Arc::new(Bell::default()),
            sender: format!("{:016x}", u64::from_be_bytes(random)).into(),
            committed: Arc::new(Notify::new()),
            tasks: Mutex::default(),
        }
    }

    /// Starts to send and to listen.
    pub(super) fn start(&self, config: Config, pool: Pool) {
        let sender = tokio::spawn(send(Arc::clone(&self.committed), Arc::clone(&self.sender), pool));
        let listener = tokio::spawn(listen(Arc::clone(&self.bell), Arc::clone(&self.sender), config));
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).extend([sender, listener]);
    }

    /// Notes that something was committed.
    pub(super) fn ring(&self) {
        self.bell.ring();
        self.committed.notify_one();
    }

    /// Tells this process of a job that has ended: what waits for it need not look at the feed first.
    pub(super) fn ended(&self, job: JobId) {
        self.bell.tell(Hint::News(job));
    }

    pub(super) fn hints(&self) -> Hints {
        self.bell.hints()
    }
}

impl Drop for Wake {
    fn drop(&mut self) {
        for task in self.tasks.get_mut().unwrap_or_else(PoisonError::into_inner) {
            task.abort();
        }
    }
}

async fn send(committed: Arc<Notify>, sender: Arc<str>, pool: Pool) {
    let notify = format!("notify lastword, '{sender}'");
    loop {
        committed.notified().await;
        // A hint that cannot be sent is lost.
        if let Ok(client) = pool.get().await {
            let _ = client.batch_execute(&notify).await;
        }
        tokio::time::sleep(GATHER).await;
    }
}

async fn listen(bell: Arc<Bell>, own: Arc<str>, config: Config) {
    loop {
        let _ = listen_once(&bell, &own, &config).await;
        // Report what was committed while the listener was away.
        bell.ring();
        tokio::time::sleep(RECONNECT).await;
    }
}

async fn listen_once(bell: &Bell, own: &str, config: &Config) -> Try<()> {
    let (client, mut connection) = tokio::time::timeout(ANSWER_MAX, config.connect(NoTls)).await??;
    let ask = tokio::spawn(async move {
        let _ = client.batch_execute("listen lastword").await;
        // The connection lives as long as its client.
        std::future::pending::<()>().await;
        drop(client);
    });
    let ask = AbortOnDrop(ask);
    while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notification(notification) = message?
            && notification.payload() != own
        {
            bell.ring();
        }
    }
    drop(ask);
    Ok(())
}

struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
