//! Why a job does not start, and since when one is silent: what is known beside the log.

use lastword_api::{self as api, Awaited, Waits, WaitsFor};
use lastword_core::view::row::{Row, Section};
use lastword_engine::WaitReason;
use lastword_store::{Listed, Store};

use crate::app::App;
use crate::failure::Failure;

/// Returns what the job of a row waits for, by name. `waits` is what is known by itself.
pub(super) async fn named<J: Store>(app: &App<J>, row: &Row, waits: Waits) -> Result<Waits, Failure> {
    Ok(with_reason(waits, app.engine().desk().wait_reason(row).await?))
}

/// Returns the rows of a list as people read them.
pub(crate) async fn rows_of<J: Store>(app: &App<J>, listed: &[Listed]) -> Result<Vec<api::Row>, Failure> {
    let plain: Vec<&Row> = listed.iter().map(|listed| &listed.row).collect();
    let mut items = rows(app, &plain).await?;
    for (item, listed) in items.iter_mut().zip(listed) {
        item.unread = Some(listed.section == Section::Unread);
    }
    Ok(items)
}

/// Returns rows of a list, with what they wait for and since when they are silent.
pub(crate) async fn rows<J: Store>(app: &App<J>, rows: &[&Row]) -> Result<Vec<api::Row>, Failure> {
    let (engine, now) = (app.engine(), app.engine().desk().now().wall);
    let reasons = engine.desk().wait_reasons(rows).await?;
    let shown = rows.iter().zip(reasons).map(|(row, reason)| {
        let waits = Waits::of_row(row, now).map(|waits| with_reason(waits, reason));
        let silent_since = engine.silent_since(row).map(api::Time::from);
        api::Row { waits, silent_since, ..api::Row::of(row) }
    });
    Ok(shown.collect())
}

fn with_reason(waits: Waits, reason: WaitReason) -> Waits {
    let names = |rows: &[Row]| rows.iter().map(Awaited::of).collect();
    match reason {
        WaitReason::Nothing => waits,
        WaitReason::Paused => Waits { on: WaitsFor::Paused, ..waits },
        WaitReason::Budget(until) => {
            Waits { on: WaitsFor::Budget, until: Some(api::Time::from(until)), ..waits }
        }
        WaitReason::Dependencies(rows) | WaitReason::Children(rows) => Waits { by: names(&rows), ..waits },
        WaitReason::Conversation(row) => {
            Waits { on: WaitsFor::Conversation, by: names(std::slice::from_ref(&row)), ..waits }
        }
        WaitReason::Worker(labels) => {
            Waits { on: WaitsFor::Worker, labels: labels.iter().map(str::to_owned).collect(), ..waits }
        }
        WaitReason::Slots { slots, by } => Waits { by: names(&by), slots: Some(slots), ..waits },
    }
}
