//! Why a job does not start, and since when one is silent: what is known beside the log.

use lastword_api::{self as api, Awaited, Waits, WaitsFor};
use lastword_core::view::row::Row;
use lastword_engine::WaitReason;
use lastword_store::Store;

use crate::app::App;
use crate::failure::Failure;

/// Returns what the job of a row waits for, by name. `waits` is what is known by itself.
pub(super) async fn named<J: Store>(app: &App<J>, row: &Row, waits: Waits) -> Result<Waits, Failure> {
    let names = |rows: &[Row]| rows.iter().map(Awaited::of).collect();
    Ok(match app.engine().desk().wait_reason(row).await? {
        WaitReason::Nothing => waits,
        WaitReason::Paused => Waits { on: WaitsFor::Paused, ..waits },
        WaitReason::Dependencies(rows) => Waits { by: names(&rows), ..waits },
        WaitReason::Conversation(row) => {
            Waits { on: WaitsFor::Conversation, by: names(std::slice::from_ref(&row)), ..waits }
        }
        WaitReason::Slots { slots, by } => Waits { by: names(&by), slots: Some(slots), ..waits },
    })
}

/// Returns a row of a list, with what it waits for and since when it is silent.
pub(super) async fn row<J: Store>(app: &App<J>, row: &Row) -> Result<api::Row, Failure> {
    let waits = match Waits::of_row(row, app.engine().desk().now().wall) {
        Some(waits) => Some(named(app, row, waits).await?),
        None => None,
    };
    let silent_since = app.engine().silent_since(row).map(api::Time::from);
    Ok(api::Row { waits, silent_since, ..api::Row::of(row) })
}
