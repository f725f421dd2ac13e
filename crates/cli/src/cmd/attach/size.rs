//! Keeps the terminal of a job as large as ours.

use std::convert::Infallible;
use std::io::IsTerminal as _;

use lastword_api::{Job, Resize};
use lastword_client::events::Filter;
use lastword_client::jobs;
use tokio::signal::unix::{SignalKind, signal};

use crate::client::Client;

/// Passes on the size of our terminal, now and whenever it changes. With `repaint` the program there is made to draw its screen again.
pub(super) async fn follow(client: &Client, job: &Job, repaint: bool) -> Infallible {
    let changes = signal(SignalKind::window_change());
    if let Ok(mut changes) = changes
        && std::io::stdout().is_terminal()
    {
        if let Some(size) = own_size().filter(|_| repaint) {
            // The kernel tells a program about a size only if it changes.
            pass_on(client, job, Resize { rows: if size.rows > 1 { size.rows - 1 } else { 2 }, ..size })
                .await;
        }
        let launches = Filter { types: vec!["launched".to_owned()], ..Filter::default() };
        let mut launches = client.follow_job(&job.id, &launches, Some(job.version.saturating_sub(1)));
        loop {
            if let Some(size) = own_size() {
                pass_on(client, job, size).await;
            }
            tokio::select! {
                _ = changes.recv() => {}
                // The terminal of a new attempt has the size that the job was submitted with.
                launch = launches.next() => if !matches!(launch, Ok(Some(_))) { break },
            }
        }
    }
    std::future::pending().await
}

/// Resizes the terminal of the job. A daemon or a keeper of version 0.1.0 cannot, and then it stays as it is.
async fn pass_on(client: &Client, job: &Job, size: Resize) {
    let _ = client.call(&jobs::resize(&job.id, &size)).await;
}

/// Returns the size of the terminal that we print to, if it has one.
pub(in crate::cmd) fn own_size() -> Option<Resize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_row > 0 && size.ws_col > 0).then_some(Resize { rows: size.ws_row, columns: size.ws_col })
}
