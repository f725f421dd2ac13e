//! The living processes of a job.

use axum::Json;
use axum::extract::{Path, State};
use axum::response::IntoResponse as _;
use lastword_api::{LiveProcess, Problem, Processes};
use lastword_engine as engine;
use lastword_store::Store;

use crate::app::App;
use crate::failure::Reply;
use crate::principal::Principal;

/// Returns the living processes of a job, as they are now.
#[utoipa::path(
    get, operation_id = "job_processes", path = "/v1/jobs/{ref}/processes", tag = "jobs",
    params(("ref" = String, Path, description = "An id or a prefix of one, a name, or `@last`.")),
    responses(
        (status = 200, description = "The processes.", body = Processes),
        (status = "4XX", description = "Not found, ambiguous, or not allowed.", body = Problem),
    ),
)]
pub(crate) async fn list<J: Store>(
    State(app): State<App<J>>,
    principal: Principal,
    Path(reference): Path<String>,
) -> Reply {
    let id = principal.find(&app, &reference).await?;
    let job = app.engine().job(id).await?.value;
    let tree = app.engine().tree(&job).await;
    let more = tree.as_ref().is_some_and(|tree| tree.is_cut);
    let items = tree.map(|tree| tree.processes.into_iter().map(process).collect());
    Ok(Json(Processes { items, more }).into_response())
}

fn process(process: engine::LiveProcess) -> LiveProcess {
    LiveProcess {
        pid: process.pid,
        parent: process.parent,
        command: process.command,
        started_at: process.started_at.into(),
        left_session: process.left_session,
        cpu_ms: process.cpu_ms,
        resident_bytes: process.resident,
    }
}
