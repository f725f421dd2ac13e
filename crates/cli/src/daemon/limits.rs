//! Watches the daemon's own resource limits, which any process of the user may lower.

use std::sync::Arc;
use std::time::Duration;

use lastword_engine::Desk;
use lastword_proc::limits;
use lastword_store::Store;
use tokio::signal::unix::{SignalKind, signal};

/// How often the limits are checked.
const CHECK: Duration = Duration::from_secs(1);

/// The signals of a CPU and of a file size limit.
const SIGNALS: [i32; 2] = [rustix::process::Signal::XCPU.as_raw(), rustix::process::Signal::XFSZ.as_raw()];

const NEXT: &str = "lastword daemon restart    # from a shell with ordinary limits; jobs keep running";

/// Survives the signals of limits, raises lowered limits again, and reports those that cannot be raised.
pub(super) fn watch<J: Store>(desk: Arc<Desk<J>>) {
    // A signal with a handler does not kill us, and processes that we start do not inherit it.
    let [cpu, file_size] = SIGNALS.map(|number| signal(SignalKind::from_raw(number)));
    let (Ok(mut cpu), Ok(mut file_size)) = (cpu, file_size) else { return };
    tokio::spawn(async move {
        let mut reported = None;
        loop {
            limits::restore();
            let lowered = limits::lowered();
            if let Some(lowered) = lowered.as_ref().filter(|_| lowered != reported) {
                desk.report(format!("another process lowered the daemon's limits: {lowered}"), NEXT);
            }
            reported = lowered;
            tokio::select! {
                _ = cpu.recv() => {}
                _ = file_size.recv() => {}
                () = tokio::time::sleep(CHECK) => {}
            }
        }
    });
}
